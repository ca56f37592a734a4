//go:build !race

package circom

const raceEnabled = false
