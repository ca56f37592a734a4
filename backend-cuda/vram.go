package cuda

import (
	"fmt"
	"sort"
	"strings"
	"sync"

	"github.com/weir-zk/weir/backend-cuda/internal/cudalib"
	"github.com/weir-zk/weir/sdk/errs"
)

// granule is what blocks of device memory are multiples of: the driver gives out no less.
const granule = 2 << 20

// vram is the account of the device's memory: every block that this process takes is in it, under what it is for, and their sum never exceeds the limit.
type vram struct {
	dev     *cudalib.Device
	limit   int64
	granule int64

	mu   sync.Mutex
	used int64
	by   map[string]int64
}

// What blocks are for.
const (
	forKeys   = "keys"
	forTables = "tables"
	forLanes  = "lanes"
	forSetup  = "set-ups"
)

// round is the bytes that a block really takes.
func (v *vram) round(bytes int64) int64 { return (bytes + v.granule - 1) / v.granule * v.granule }

// alloc takes a block. The error (class Exhausted, retryable) has the numbers.
func (v *vram) alloc(purpose, what string, bytes int64) (cudalib.Block, error) {
	if bytes <= 0 {
		return cudalib.Block{}, nil
	}
	bytes = v.round(bytes)
	v.mu.Lock()
	if bytes > v.limit-v.used {
		err := v.exhausted(what, bytes, v.used, v.by)
		v.mu.Unlock()
		return cudalib.Block{}, err
	}
	v.used += bytes
	v.by[purpose] += bytes
	v.mu.Unlock()
	at, err := v.dev.Alloc(bytes)
	if err != nil {
		v.give(purpose, bytes)
		return cudalib.Block{}, errs.Wrap(err, fmt.Sprintf("%s of %s", size(bytes), what))
	}
	return cudalib.Block{At: at, Bytes: bytes}, nil
}

func (v *vram) exhausted(what string, bytes, used int64, by map[string]int64) error {
	var parts []string
	for p, n := range by {
		if n > 0 {
			parts = append(parts, size(n)+" "+p)
		}
	}
	sort.Strings(parts)
	taken := ""
	if len(parts) > 0 {
		taken = " (" + strings.Join(parts, ", ") + ")"
	}
	e := errs.New(errs.Exhausted, "device memory", "%s needs %s; of %s, %s are taken%s", what, size(bytes), size(v.limit), size(used), taken).
		WithHint("unload other keys, raise --vram-limit, or use a GPU with more memory")
	e.Where, e.Retryable = v.dev.UUID.String(), true
	return e
}

func (v *vram) give(purpose string, bytes int64) {
	v.mu.Lock()
	v.used -= bytes
	v.by[purpose] -= bytes
	v.mu.Unlock()
}

// free gives a block back and empties it.
func (v *vram) free(purpose string, b *cudalib.Block) error {
	if b.Bytes == 0 {
		return nil
	}
	err := v.dev.Free(b.At)
	v.give(purpose, b.Bytes)
	*b = cudalib.Block{}
	return err
}

// taken is what blocks for a purpose take.
func (v *vram) taken(purpose string) int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.by[purpose]
}

// size is bytes for people.
func size(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.2f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%d bytes", n)
}
