package circom

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/weir-zk/weir/sdk/assignment"
	"github.com/weir-zk/weir/sdk/encoding/iden3"
	"github.com/weir-zk/weir/sdk/errs"
)

// chunkValues is how many values are read at a time: 1 MiB. Cancellation is looked at between chunks. A multiple of assignment.PartUnit.
const chunkValues = 1 << 15

const chunkBytes = chunkValues * assignment.PlainBytes

// witnessFile is an open .wtns file whose values were counted, so that they can be decoded by several goroutines into one buffer of known size.
type witnessFile struct {
	src     *source
	n       int
	section iden3.Section // where the values lie
	counts  []uint32      // values that are neither 0 nor 1, chunk by chunk
	listed  int           // their sum
}

// openWitness checks the header and, on tasks goroutines, every value.
func openWitness(ctx context.Context, src *source, wires, tasks int) (*witnessFile, error) {
	f, err := iden3.OpenWitness(src, src.size)
	if err != nil {
		return nil, errs.InFile(err, src.name)
	}
	if f.Len() != wires {
		return nil, errs.Mismatch(errs.InvalidFile, "open", "witness", fmt.Sprintf("%d values, one for each wire of the circuit", wires), f.Len()).WithPath(src.name).
			WithHint("the witness belongs to another circuit")
	}
	c, err := iden3.OpenContainer(src, src.size, "wtns", 2)
	if err != nil {
		return nil, errs.InFile(err, src.name)
	}
	section, err := c.NeedSize(2, "the values", uint64(wires)*assignment.PlainBytes)
	if err != nil {
		return nil, errs.InFile(err, src.name)
	}
	w := &witnessFile{src: src, n: wires, section: section, counts: make([]uint32, (wires+chunkValues-1)/chunkValues)}
	err = w.eachChunk(ctx, tasks, func(k int, values []byte) error {
		if k == 0 && !isOne(values) {
			return errs.Mismatch(errs.InvalidFile, "read witness", "wire 0", "the one", "another value")
		}
		listed, err := assignment.CountPlain(values, k*chunkValues)
		w.counts[k] = uint32(listed)
		return err
	})
	if err != nil {
		return nil, errs.InFile(err, src.name)
	}
	for _, n := range w.counts {
		w.listed += int(n)
	}
	return w, nil
}

func isOne(values []byte) bool {
	one := values[0] == 1
	for _, b := range values[1:assignment.PlainBytes] {
		one = one && b == 0
	}
	return one
}

// eachChunk reads every chunk and hands its number and bytes to f, tasks at a time, each with a buffer of its own that is wiped at the end.
func (w *witnessFile) eachChunk(ctx context.Context, tasks int, f func(k int, values []byte) error) error {
	return parallel(ctx, len(w.counts), tasks, func() (func(k int) error, func()) {
		buf := make([]byte, min(chunkBytes, w.n*assignment.PlainBytes))
		return func(k int) error {
			b := buf[:min(len(buf), w.n*assignment.PlainBytes-k*chunkBytes)]
			if _, err := w.src.ReadAt(b, w.section.Offset+int64(k)*chunkBytes); err != nil {
				return &errs.Error{Class: errs.InvalidFile, Op: "read witness", Path: w.src.name, Where: fmt.Sprintf("offset %d", w.section.Offset+int64(k)*chunkBytes), Err: err,
					Hint: "the file changed while it was in use"}
			}
			return f(k, b)
		}, func() { clear(buf) }
	})
}

// size is the form that takes less, and its bytes.
func (w *witnessFile) size() (assignment.Form, int64) { return assignment.Choose(w.n, w.listed) }

// fill decodes the witness into b, which has room for it.
func (w *witnessFile) fill(ctx context.Context, b []byte, tasks int) (*assignment.Vector, error) {
	form, _ := w.size()
	whole, err := assignment.NewBuilder(b, form, w.n)
	if err != nil {
		return nil, err
	}
	parts := make([]*assignment.Builder, len(w.counts))
	before := 0
	for k := range parts {
		n := min(chunkValues, w.n-k*chunkValues)
		listed := int(w.counts[k])
		if form == assignment.Dense {
			listed = n
		}
		if parts[k], err = whole.Part(k*chunkValues, n, before, listed); err != nil {
			return nil, err
		}
		before += listed
	}
	err = w.eachChunk(ctx, tasks, func(k int, values []byte) error { return parts[k].AppendPlain(values) })
	if errs.Is(err, errs.Exhausted) { // a part is as large as its values were counted
		err = &errs.Error{Class: errs.InvalidFile, Op: "read witness", Err: err, Hint: "the file changed while it was in use"}
	}
	if err == nil {
		err = whole.Join(parts...)
	}
	if err != nil {
		return nil, errs.InFile(err, w.src.name)
	}
	return whole.Finish()
}

// parallel runs n tasks on at most workers goroutines and returns when all have ended. each is called once a goroutine and returns its work function
// and what to do at its end. The first error, or the end of ctx, stops the rest.
func parallel(ctx context.Context, n, workers int, each func() (work func(k int) error, end func())) error {
	var next atomic.Int64
	var stop atomic.Bool
	var once sync.Once
	var failed error
	var wg sync.WaitGroup
	for range max(1, min(workers, n)) {
		wg.Go(func() {
			work, end := each()
			defer end()
			for !stop.Load() {
				k := int(next.Add(1)) - 1
				if k >= n {
					return
				}
				err := errs.Wrap(ctx.Err(), "synthesize")
				if err == nil {
					err = work(k)
				}
				if err != nil {
					once.Do(func() { failed = err })
					stop.Store(true)
				}
			}
		})
	}
	wg.Wait()
	return failed
}
