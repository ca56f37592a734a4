// Package e2e has no code: its tests run the weir binary as users do, as processes on real files, and hurt it. They look for what
// is left behind (processes, sockets, shared memory, half-written files), and compare the account of memory with the system's own.
//
// WEIR_E2E_LOG2 sets the size of the circuit whose memory is measured (default 16, for 2^16 constraints).
package e2e
