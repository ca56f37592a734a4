//go:build invariants

package slab

// invariants turns on poison after free, the place where a leaked buffer was taken, and panics on double free.
const invariants = true
