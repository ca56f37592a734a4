//go:build race

package plugin

// raceEnabled makes tests patient and their largest messages smaller: the race detector costs a factor of ten.
const raceEnabled = true

const raceLess = 180 << 20
