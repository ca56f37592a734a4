package cuda

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/weir-zk/weir/backend-cuda/internal/cudalib"
	"github.com/weir-zk/weir/sdk/errs"
)

// gpu is the open device and what all keys and proofs share of it.
type gpu struct {
	lib  *cudalib.Library
	dev  *cudalib.Device
	opts *Options
	vram *vram

	lanes  *lanePool
	loader *lane         // the lane on which keys are uploaded
	load   chan struct{} // one key at a time is planned and uploaded

	mu      sync.Mutex
	tables  map[int]*tables // by log2 of the domain
	demands map[*key]demand // of the loaded keys
}

// demand is what the proofs of a key ask of lanes.
type demand struct {
	lanes int
	bytes int64
}

// tables is what transforms of one size need, shared by keys.
type tables struct {
	block cudalib.Block
	users int
}

// reserve is device memory that is left alone where no limit is set: contexts of other processes, kernels' local memory, the display.
func reserve(total int64) int64 { return max(512<<20, total/64) }

func openGPU(lib *cudalib.Library, opts *Options) (_ *gpu, err error) {
	info, err := lib.Choose(opts.Device)
	if err != nil {
		return nil, err
	}
	dev, err := lib.Open(info, opts.Lanes*lanesOfProof+1, opts.OnLost)
	if err != nil {
		return nil, err
	}
	g := &gpu{lib: lib, dev: dev, opts: opts, load: make(chan struct{}, 1), tables: map[int]*tables{}, demands: map[*key]demand{}}
	limit := max(0, dev.MemoryFree-reserve(dev.Memory))
	if opts.VRAMLimit > 0 {
		limit = opts.VRAMLimit // more than is free is an error when it is taken, not here: others may give back
	}
	g.vram = &vram{dev: dev, limit: limit, granule: opts.granule, by: map[string]int64{}}
	var lanes []*lane
	for i := range opts.Lanes + 1 {
		l, err := newLane(g, i)
		if err != nil {
			for _, l := range lanes {
				_ = l.close() // the first error says more
			}
			_ = dev.Close()
			return nil, err
		}
		lanes = append(lanes, l)
	}
	g.loader, g.lanes = lanes[opts.Lanes], newLanePool(lanes[:opts.Lanes])
	return g, nil
}

func (g *gpu) close() error {
	var all []error
	for _, l := range append(g.lanes.idle, g.loader) {
		all = append(all, l.close())
	}
	g.mu.Lock()
	for _, t := range g.tables {
		all = append(all, g.vram.free(forTables, &t.block))
	}
	g.mu.Unlock()
	return errors.Join(append(all, g.dev.Close())...)
}

// ringBytes is the pinned memory of all lanes.
func (g *gpu) ringBytes() int64 { return int64(g.opts.Lanes+1) * ringSlots * int64(g.opts.ringBytes) }

// target is what lanes must be able to do for the loaded keys and one more demand: how many at a time, and the bytes of each.
func (g *gpu) target(more demand) demand {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, d := range g.demands {
		if more.lanes == 0 || d.lanes < more.lanes {
			more.lanes = d.lanes
		}
		more.bytes = max(more.bytes, d.bytes)
	}
	return more
}

// takeTables returns the tables for a domain, made on the loader if they are not there.
func (g *gpu) takeTables(logN int, bytes int64) (cudalib.Addr, error) {
	g.mu.Lock()
	t := g.tables[logN]
	g.mu.Unlock()
	if t == nil { // only the holder of g.load comes here
		block, err := g.vram.alloc(forTables, fmt.Sprintf("the tables of a domain of 2^%d", logN), bytes)
		if err != nil {
			return 0, err
		}
		t = &tables{block: block}
		_, err = g.loader.dev.Tables(logN, block)
		if err == nil {
			err = g.loader.dev.Wait(cudalib.QueueWork, 0)
		}
		if err != nil {
			return 0, errors.Join(err, g.vram.free(forTables, &t.block))
		}
		g.mu.Lock()
		g.tables[logN] = t
		g.mu.Unlock()
	}
	g.mu.Lock()
	t.users++
	g.mu.Unlock()
	return t.block.At, nil
}

func (g *gpu) dropTables(logN int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.tables[logN]
	if t == nil {
		return nil
	}
	if t.users--; t.users > 0 {
		return nil
	}
	delete(g.tables, logN)
	return g.vram.free(forTables, &t.block)
}

// hasTables reports whether the tables of a domain are there already.
func (g *gpu) hasTables(logN int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.tables[logN] != nil
}

// thread runs functions on one system thread: a lane's calls all come from it, as the driver keeps state a thread.
type thread struct{ work chan func() }

func newThread() *thread {
	t := &thread{make(chan func())}
	go func() {
		runtime.LockOSThread()
		for f := range t.work {
			f()
		}
	}()
	return t
}

// do runs f and returns its error; a panic of f is the caller's.
func (t *thread) do(f func() error) (err error) {
	var failed any
	done := make(chan struct{})
	t.work <- func() {
		defer close(done)
		defer func() { failed = recover() }()
		err = f()
	}
	<-done
	if failed != nil {
		panic(failed)
	}
	return err
}

func (t *thread) stop() { close(t.work) }

// lane is a proof slot: the library's lane, its thread, its ring of pinned memory, and its block of device memory, which is as large as the loaded keys need and is
// kept from proof to proof. The loader has no sides.
type lane struct {
	g *gpu
	n int
	worker
	sides []worker
	ring  *ring
	block cudalib.Block
	// wiped is the last step of the proof before: nothing may be uploaded until it is done.
	wiped cudalib.Ticket
}

// worker is a lane of the library and the thread that its calls come from.
type worker struct {
	dev *cudalib.Lane
	on  *thread
}

// A proof has a lane of the library for its main line, and one for each part that can run beside it.
const lanesOfProof = 1 + nbSides

func newLane(g *gpu, n int) (*lane, error) {
	first := n * lanesOfProof
	l := &lane{g: g, n: n, worker: worker{dev: g.dev.Lane(first)}}
	var err error
	if l.ring, err = newRing(g.dev, l.dev, g.opts.ringBytes); err != nil {
		return nil, err
	}
	l.on = newThread()
	if n < g.opts.Lanes {
		for i := range nbSides {
			l.sides = append(l.sides, worker{g.dev.Lane(first + 1 + i), newThread()})
		}
	}
	return l, nil
}

// ensure makes the block as large as it must be, and no larger. The lane is idle.
func (l *lane) ensure(bytes int64) error {
	if l.block.Bytes == l.g.vram.round(bytes) {
		return nil
	}
	if err := l.g.vram.free(forLanes, &l.block); err != nil {
		return err
	}
	var err error
	l.block, err = l.g.vram.alloc(forLanes, fmt.Sprintf("lane %d", l.n), bytes)
	return err
}

// drain waits until the device has done all that was asked of the lane, whatever came of it.
func (l *lane) drain() error {
	all := []error{l.dev.Wait(cudalib.QueueCopy, 0), l.dev.Wait(cudalib.QueueWork, 0)}
	for i := range l.sides {
		all = append(all, l.sides[i].dev.Wait(cudalib.QueueWork, 0))
	}
	return errors.Join(all...)
}

func (l *lane) close() error {
	err := errors.Join(l.drain(), l.g.vram.free(forLanes, &l.block), l.ring.close(l.g.dev))
	l.on.stop()
	for i := range l.sides {
		l.sides[i].on.stop()
	}
	return err
}

// lanePool hands lanes out, first come first served, at most usable at a time.
type lanePool struct {
	mu      sync.Mutex
	idle    []*lane
	all     int
	usable  int
	waiters []chan *lane
}

func newLanePool(lanes []*lane) *lanePool {
	return &lanePool{idle: lanes, all: len(lanes), usable: len(lanes)}
}

// take waits for a lane.
func (p *lanePool) take(ctx context.Context) (*lane, error) {
	p.mu.Lock()
	if len(p.waiters) == 0 && p.all-len(p.idle) < p.usable {
		l := p.pop()
		p.mu.Unlock()
		return l, nil
	}
	w := make(chan *lane, 1)
	p.waiters = append(p.waiters, w)
	p.mu.Unlock()
	select {
	case l := <-w:
		return l, nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	for i, x := range p.waiters {
		if x == w {
			p.waiters = append(p.waiters[:i], p.waiters[i+1:]...)
			p.mu.Unlock()
			return nil, errs.Wrap(ctx.Err(), "wait for a lane")
		}
	}
	p.mu.Unlock()
	p.give(<-w) // it came at the same time
	return nil, errs.Wrap(ctx.Err(), "wait for a lane")
}

// pop takes an idle lane, rather one that has memory. Locked.
func (p *lanePool) pop() *lane {
	best := 0
	for i, l := range p.idle {
		if l.block.Bytes > p.idle[best].block.Bytes {
			best = i
		}
	}
	l := p.idle[best]
	p.idle = append(p.idle[:best], p.idle[best+1:]...)
	return l
}

func (p *lanePool) give(l *lane) {
	p.mu.Lock()
	p.idle = append(p.idle, l)
	p.wake()
	p.mu.Unlock()
}

// wake serves waiters while lanes are usable. Locked.
func (p *lanePool) wake() {
	for len(p.waiters) > 0 && p.all-len(p.idle) < p.usable {
		w := p.waiters[0]
		p.waiters = p.waiters[1:]
		w <- p.pop()
	}
}

// settle makes at most usable lanes work at a time, and gives the memory of idle lanes back that are too many or whose block is larger than bytes.
func (p *lanePool) settle(usable int, bytes int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.usable = max(1, min(usable, p.all))
	keep := max(0, p.usable-(p.all-len(p.idle)))
	var all []error
	for _, l := range p.idle {
		if l.block.Bytes == 0 {
			continue
		}
		if keep > 0 && l.block.Bytes <= l.g.vram.round(bytes) {
			keep--
			continue
		}
		all = append(all, l.g.vram.free(forLanes, &l.block))
	}
	p.wake()
	return errors.Join(all...)
}
