//go:build race

package testfiles

// Race says whether the race detector is on: tests that it only slows down are left out then.
const Race = true
