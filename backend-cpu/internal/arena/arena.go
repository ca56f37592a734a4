// Package arena is working memory of one proof outside the Go heap. The heap keeps what it no longer needs until the collector has run, and often longer; an arena is
// as large as was charged for it, and back with the system the moment it is closed.
package arena

import (
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weir-zk/weir/sdk/errs"
)

// align is where lists begin: at a cache line, so that tasks do not share one.
const align = 64

// Arena gives out memory from its beginning to its end. Its pages come into being when they are written. Safe for concurrent use; nil is the Go heap.
type Arena struct {
	mu     sync.Mutex
	mapped []byte
	used   int
	dirty  int // used at some time: what lies behind it is zero
	missed int64
}

// New maps size bytes. Errors: errs.Exhausted.
func New(size int64) (*Arena, error) {
	if size <= 0 {
		return &Arena{}, nil
	}
	b, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, &errs.Error{Class: errs.Exhausted, Op: "map working memory", Err: err}
	}
	hide(b)
	return &Arena{mapped: b}, nil
}

// Close gives the memory back to the system, with what is in it. Nothing that was taken from it may be used afterwards.
func (a *Arena) Close() error {
	if a == nil || a.mapped == nil {
		return nil
	}
	b := a.mapped
	a.mapped = nil
	return unix.Munmap(b)
}

// Mark is where the arena stands; Reset goes back there, and what was taken in between is free. Both are no calls for while others take.
func (a *Arena) Mark() int {
	if a == nil {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.used
}

// Reset frees what was taken since Mark gave mark.
func (a *Arena) Reset(mark int) {
	if a == nil {
		return
	}
	a.mu.Lock()
	a.used = mark
	a.mu.Unlock()
}

// Missed is how many bytes had to come from the Go heap as the arena was full.
func (a *Arena) Missed() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.missed
}

// Take returns n zero values of T, which must not hold pointers: the collector does not look here. What does not fit, and all of a nil arena, is of the Go heap.
func Take[T any](a *Arena, n int) []T {
	if a == nil || n == 0 {
		return make([]T, n)
	}
	size := n * int(unsafe.Sizeof(*new(T)))
	b := a.take((size + align - 1) &^ (align - 1))
	if b == nil {
		return make([]T, n)
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), n)
}

func (a *Arena) take(size int) []byte {
	a.mu.Lock()
	lo, hi := a.used, a.used+size
	if hi > len(a.mapped) {
		a.missed += int64(size)
		a.mu.Unlock()
		return nil
	}
	dirty := a.dirty
	a.used, a.dirty = hi, max(dirty, hi)
	a.mu.Unlock()
	b := a.mapped[lo:hi:hi]
	if lo < dirty {
		clear(b[:min(hi, dirty)-lo])
	}
	return b
}
