//go:build race

package main

// raceDetector: buffers come from the heap then, and no plugin process can prove.
const raceDetector = true
