//go:build invariants

package host

const invariants = true
