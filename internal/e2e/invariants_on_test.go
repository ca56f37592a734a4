//go:build invariants

package e2e

// tags are those that the binary is built with: the same as the tests'.
const tags = "invariants"
