//go:build !invariants

package slab

const invariants = false
