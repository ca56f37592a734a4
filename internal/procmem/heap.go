package procmem

import (
	"runtime/debug"
	"runtime/metrics"
)

// Slack is how much of a Go heap may be garbage, or free and not yet returned, before GiveBack does something about it.
const Slack = 2 << 20

// GiveBack collects the garbage of this process and returns free memory to the system, if that is more than Slack. To be called when something large has become
// garbage: the collector by itself lets a heap grow to twice of what lives, and returns memory over minutes. It takes as long as the collector takes to look through
// what lives: lists without pointers cost nothing.
func GiveBack() {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	for _, x := range s {
		if x.Value.Kind() != metrics.KindUint64 {
			return // unknown to this runtime
		}
	}
	if held, live := s[0].Value.Uint64()+s[1].Value.Uint64()+s[2].Value.Uint64(), s[3].Value.Uint64(); held > live+Slack {
		debug.FreeOSMemory()
	}
}
