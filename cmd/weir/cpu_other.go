//go:build !amd64

package main

import "runtime"

// cpuFeatures: nothing that the arithmetic asks for is optional here.
func cpuFeatures() (list string, fast bool) { return "architecture " + runtime.GOARCH, true }
