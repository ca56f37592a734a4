//go:build !race

package plugin

const raceEnabled = false

const raceLess = 0
