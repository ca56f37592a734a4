// Package gadgets has the parts of Filecoin's circuits. Each allocates the same variables and states the same rows, coefficient by coefficient and in the same order,
// as its original, so that the official keys fit: bellpepper-core 0.2 and bellpepper 0.2 (booleans, words, SHA-256, packing), neptune 11 (Poseidon, its older circuit), and
// storage-proofs-core, -porep and -update 19 (everything above).
//
// Where values are wanted, hashes take a way of their own: SHA-256 works on machine words and writes 32 bits at a time, Poseidon is computed natively and its
// intermediate values are written in the order of the circuit's variables.
package gadgets
