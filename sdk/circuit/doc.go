// Package circuit is where constraint systems are written in Go.
//
// A circuit is a type with a method Synthesize that allocates variables with their values and states rows A times B equals C. The same code serves
// three purposes:
//
//   - Record runs it once a circuit and streams the rows to sinks: the matrices in memory (SystemSink), sizes and digest (Summary).
//   - Witness runs it once a proof. Rows are counted but not built, and values go straight into the assignment that a prover takes.
//   - Check records the rows and evaluates each with a witness; the first that does not hold is named by its path.
//
// The order of calls is the circuit: variables are numbered as they are allocated, public inputs and others apart, and rows as they are stated. Keys belong to one
// numbering, so a circuit that has keys must not change it.
//
// # Cost
//
// The function given to Enforce runs only while rows are recorded, so a row costs a witness some nanoseconds and no memory. A gadget that makes many
// rows can do better: ask Recording, and where values are wanted compute them by machine words, write them with AllocBits and Alloc, and count the rows with Skip.
// Repeat runs equal parts side by side.
//
// Variables of AllocBits are bits in every witness; in the compact form they take two bits of memory instead of 32 bytes, and each other value has a fixed
// place, so that parts are written without waiting for one another.
package circuit
