//go:build race

package fieldtest

// Race says that the race detector is on, which makes tests some ten times slower.
const Race = true
