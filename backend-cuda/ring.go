package cuda

import (
	"sync"

	"golang.org/x/sys/unix"

	"github.com/weir-zk/weir/backend-cuda/internal/cudalib"
	"github.com/weir-zk/weir/sdk/errs"
)

// A ring is pinned memory through which all copies of a lane go: pinned once, when the device is opened, so that no slab is ever pinned for a proof, and nothing that
// the host may unmap is pinned at all. A slot is filled on the processor while the slots before it are on their way.
const (
	ringSlots     = 4
	ringSlotBytes = 4 << 20
)

type ring struct {
	lane  *cudalib.Lane
	mem   []byte
	slot  int // size of one
	next  int
	busy  [ringSlots]cudalib.Ticket
	dirty [ringSlots]int // bytes that may hold secrets
}

func newRing(dev *cudalib.Device, lane *cudalib.Lane, slot int) (*ring, error) {
	mem, err := unix.Mmap(-1, 0, ringSlots*slot, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, &errs.Error{Class: errs.Exhausted, Op: "map ring", Err: err}
	}
	if err := dev.Register(mem); err != nil {
		_ = unix.Munmap(mem)
		return nil, errs.Wrap(err, "pin ring")
	}
	return &ring{lane: lane, mem: mem, slot: slot}, nil
}

// close unpins first, then gives the memory back. The lane is drained.
func (r *ring) close(dev *cudalib.Device) error {
	r.wipe()
	if err := dev.Unregister(r.mem); err != nil {
		return err // still pinned: it stays mapped
	}
	return unix.Munmap(r.mem)
}

// take waits until the next slot is free.
func (r *ring) take() (int, []byte, error) {
	i := r.next
	r.next = (i + 1) % ringSlots
	if t := r.busy[i]; t != 0 {
		if err := r.lane.Wait(cudalib.QueueCopy, t); err != nil {
			return 0, nil, err
		}
		r.busy[i] = 0
	}
	return i, r.mem[i*r.slot : (i+1)*r.slot], nil
}

// upload copies bytes to the device, in pieces that fill writes: part [off, off+len(to)) of the whole, in ascending order. unit is what pieces are multiples of. The
// first piece waits for a step of queue WORK. The ticket is the last piece's; the source is not touched after the return.
func (r *ring) upload(to cudalib.Addr, bytes int64, unit int, after cudalib.Ticket, fill func(to []byte, off int64) error) (last cudalib.Ticket, err error) {
	step := int64(r.slot / unit * unit)
	for off := int64(0); off < bytes; off += step {
		i, slot, err := r.take()
		if err != nil {
			return 0, err
		}
		piece := slot[:min(step, bytes-off)]
		r.dirty[i] = max(r.dirty[i], len(piece))
		if err := fill(piece, off); err != nil {
			return 0, err
		}
		if last, err = r.lane.Upload(to+cudalib.Addr(off), piece, after); err != nil {
			return 0, err
		}
		r.busy[i] = last
	}
	return last, nil
}

// uploadBytes copies b, with a number of goroutines.
func (r *ring) uploadBytes(to cudalib.Addr, b []byte, after cudalib.Ticket, tasks int) (cudalib.Ticket, error) {
	return r.upload(to, int64(len(b)), 1, after, func(to []byte, off int64) error {
		copyParallel(to, b[off:], tasks)
		return nil
	})
}

// download copies from the device and waits for it.
func (r *ring) download(to []byte, from cudalib.Addr) error {
	for len(to) > 0 {
		i, slot, err := r.take()
		if err != nil {
			return err
		}
		n := min(len(to), len(slot))
		r.dirty[i] = max(r.dirty[i], n)
		t, err := r.lane.Download(slot[:n], from)
		if err == nil {
			err = r.lane.Wait(cudalib.QueueWork, t)
		}
		if err != nil {
			return err
		}
		copy(to, slot[:n])
		to, from = to[n:], from+cudalib.Addr(n)
	}
	return nil
}

// wipe overwrites what went through. Nothing is on its way.
func (r *ring) wipe() {
	for i, n := range r.dirty {
		clear(r.mem[i*r.slot : i*r.slot+n])
		r.dirty[i], r.busy[i] = 0, 0
	}
}

// copyParallel is copy, by some goroutines where that is worth it.
func copyParallel(to, from []byte, tasks int) {
	const least = 512 << 10
	n := len(to)
	tasks = max(1, min(tasks, n/least))
	if tasks == 1 {
		copy(to, from)
		return
	}
	var wg sync.WaitGroup
	for k := range tasks {
		lo, hi := n*k/tasks, n*(k+1)/tasks
		wg.Go(func() { copy(to[lo:hi], from[lo:hi]) })
	}
	wg.Wait()
}
