package record

import (
	"cmp"
	"slices"
	"time"
)

// Block is a time in which a lane had proofs.
type Block struct {
	Begin, End time.Duration // since the beginning
	Stage      string        // consume or device: what most of it was
	Job        string        // empty when Proofs > 1
	Partition  int
	Proofs     int  // blocks too short to be told from each other are put together
	Failed     bool // one of them
}

// Lane is one lane of a backend.
type Lane struct {
	Backend string
	Lane    int
	Busy    time.Duration // in which it had a proof, exactly
	Blocks  []Block       // ascending
}

// lane is a Lane in bounded memory.
type lane struct {
	Lane
	most   int
	finest time.Duration // blocks and gaps below this may be put together
}

func (l *lane) add(b Block) {
	l.Busy += b.End - b.Begin
	l.Blocks = append(l.Blocks, b)
	for len(l.Blocks) > l.most {
		l.finest = max(2*l.finest, firstStep)
		l.coarsen()
	}
}

// coarsen puts neighbours together where the gap between them is short and one of them is. Of two that stay apart, the gap or both are at least finest long: so
// at most 2 T / finest + 1 blocks are left of a time T.
func (l *lane) coarsen() {
	slices.SortStableFunc(l.Blocks, func(a, b Block) int { return cmp.Compare(a.Begin, b.Begin) })
	out := l.Blocks[:0]
	for _, b := range l.Blocks {
		if k := len(out); k > 0 {
			o := &out[k-1]
			lo, lb := o.End-o.Begin, b.End-b.Begin
			if b.Begin-o.End <= l.finest && min(lo, lb) < l.finest {
				if lb > lo {
					o.Stage = b.Stage
				}
				if o.Job != b.Job || o.Partition != b.Partition {
					o.Job, o.Partition = "", 0
					o.Proofs += b.Proofs
				}
				o.End, o.Failed = max(o.End, b.End), o.Failed || b.Failed
				continue
			}
		}
		out = append(out, b)
	}
	clear(l.Blocks[len(out):])
	l.Blocks = out
}
