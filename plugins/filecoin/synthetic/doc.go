// Package synthetic makes valid vanilla proofs of sectors that nobody stored, of any size, from a seed: what is needed to test and to measure proving where there is no sealed
// sector.
//
// Interactive sealing proofs, PoSt and updates need no sealing, since what challenges are drawn from can be fixed before the sector is:
//
//   - A sealing proof's challenges follow from the replica id and the chain's seed, and the replica id from comm_d. So the data comes first, a pattern of few nodes that
//     repeats, whose tree is hashed in a moment. Then the challenged nodes are known, and their parents. Only these get labels of their own; all other nodes share a pattern again.
//     A challenged node's labels must be the hashes of its parents' labels, layer by layer and, within a layer, node after node, as a parent may itself be challenged;
//     nobody can be asked about the labels of the others. Trees, comm_c and comm_r come last.
//   - A PoSt's challenges follow from the randomness, the sector's number and the challenge's. The replica comes after.
//   - An update's challenges follow from comm_r of the new replica, so the whole of it has to be known before: the data repeats a pattern within each group of nodes that has
//     one factor rho, and so do the old and the new replica, 2^h groups each.
//
// Trees are kept as patterns and the few nodes that differ from them, so that equal subtrees are hashed once.
//
// Challenges of synthetic and non-interactive sealing proofs follow from comm_r, which depends on all labels: these sectors are sealed for real, which bounds their size.
//
// Nothing here is secret: who knows the seed knows the sector. Chains do not accept the proofs, as they never gave the randomness.
package synthetic
