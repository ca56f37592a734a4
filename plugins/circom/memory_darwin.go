package circom

// hideFromDumps does nothing: there is no such advice here.
func hideFromDumps([]byte) {}
