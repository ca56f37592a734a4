package circom

import (
	"fmt"
	"sync/atomic"

	"github.com/tetratelabs/wazero/experimental"
	"golang.org/x/sys/unix"

	"github.com/weir-zk/weir/sdk/errs"
)

// programMemory is a running program's linear memory outside the Go heap, so that it is back with the system, and gone with all secrets in it, the moment
// the program ends. It never grows: what a program declares is what was charged.
type programMemory struct {
	mapped []byte
	live   *atomic.Int64 // bytes of all programs that run now
}

func newProgramMemory(pages uint32, live *atomic.Int64) (*programMemory, error) {
	m := &programMemory{live: live}
	if pages == 0 {
		return m, nil
	}
	size := int(pages) * wasmPage
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, &errs.Error{Class: errs.Exhausted, Op: "run program", Where: "memory", Expected: fmt.Sprintf("%d bytes", size), Err: err}
	}
	hideFromDumps(b)
	m.mapped = b
	live.Add(int64(size))
	return m, nil
}

// Allocate implements experimental.MemoryAllocator.
func (m *programMemory) Allocate(_, _ uint64) experimental.LinearMemory { return m }

// Reallocate implements experimental.LinearMemory. nil tells a program that wants to grow that there is no more.
func (m *programMemory) Reallocate(size uint64) []byte {
	if size > uint64(len(m.mapped)) {
		return nil
	}
	return m.mapped[:size:size]
}

// Free implements experimental.LinearMemory.
func (m *programMemory) Free() {
	if m.mapped == nil {
		return
	}
	m.live.Add(-int64(len(m.mapped)))
	_ = unix.Munmap(m.mapped)
	m.mapped = nil
}
