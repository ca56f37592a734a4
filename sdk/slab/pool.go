package slab

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/weir-zk/weir/sdk/errs"
)

// PoolOptions configure a Pool. The zero value works.
type PoolOptions struct {
	// Name is seen in /proc/PID/maps: "weir" by default.
	Name string
	// NoHugePages leaves out the advice to use huge pages for slabs of 2 MiB and more.
	NoHugePages bool
	// MaxIdle is how many bytes of free slabs are kept for reuse; the longest unused go first. Default is no bound (the
	// owner calls Trim); a negative value keeps none.
	MaxIdle int64
	// Virtual makes buffers of nothing: they have a size and a handle, are counted, kept idle and used again as others are, and have no bytes. For
	// simulations of machines larger than this one.
	Virtual bool
}

// lastHandle is the last handle given out. Handles are unique in the process because a plugin may serve two pools.
var lastHandle atomic.Uint64

func newHandle() Handle { return Handle(lastHandle.Add(1)) }

// slabKind decides which idle slab may serve a new buffer. A slab that was once given to a third-party plugin never
// serves another one, since that plugin may still have it mapped; and a buffer that must begin as zeros takes only
// slabs that were zeroed.
type slabKind struct {
	size   int64
	tenant string
	zeroed bool
}

type slab struct {
	handle  Handle
	kind    slabKind
	mem     *memory // nil: virtual
	purpose Purpose // of the live buffer
	length  int64   // of the live buffer
	taken   []byte  // stack of its Get, under invariants
	idleAt  uint64  // when it became idle, counted in frees
}

// Pool is the host's store of slabs and open input files. All methods are safe for concurrent use.
type Pool struct {
	opts PoolOptions

	mu       sync.Mutex
	closed   bool
	live     map[Handle]*slab
	idle     map[slabKind][]*slab // last freed is last, and taken first: its pages are warm
	files    map[Handle]FileView
	channels map[*Channel]struct{}
	frees    uint64
	stats    Stats
}

// Stats counts what a pool holds. Bytes are whole slabs, as RoundSize gives them.
type Stats struct {
	LiveBytes  [numPurposes]int64 // by Purpose
	LiveCount  [numPurposes]int
	IdleBytes  int64
	IdleCount  int
	Files      int
	Created    uint64 // slabs made
	Reused     uint64 // buffers that came from an idle slab
	Dropped    uint64 // slabs given back to the system
	DoubleFree uint64
}

// Live is the sum of LiveBytes.
func (s Stats) Live() int64 {
	var n int64
	for _, b := range s.LiveBytes {
		n += b
	}
	return n
}

var _ Resolver = (*Pool)(nil)

// NewPool makes an empty pool.
func NewPool(opts PoolOptions) *Pool {
	if opts.Name == "" {
		opts.Name = "weir"
	}
	return &Pool{opts: opts, live: map[Handle]*slab{}, idle: map[slabKind][]*slab{}, files: map[Handle]FileView{}, channels: map[*Channel]struct{}{}}
}

// Buffer is one live use of a slab.
type Buffer struct {
	pool  *Pool
	slab  *slab
	data  []byte
	ref   Ref
	size  int64
	freed atomic.Bool
}

// Get takes a buffer of size bytes. Those of a secret purpose (witness, payload, scratch) hold zeros; others hold
// anything. tenant is empty for plugins of our own; a buffer that a third-party plugin will see carries that
// plugin's name, and its slab is reused only under the same name. Errors: errs.InvalidArgument for a bad size,
// errs.Exhausted when the system gives no memory map, errs.Unavailable after Close. No budget is enforced here: see
// the host's ledger.
func (p *Pool) Get(purpose Purpose, size int64, tenant string) (*Buffer, error) {
	if size < 0 || size > maxSlab || purpose >= numPurposes {
		return nil, errs.New(errs.InvalidArgument, "take buffer", "%v of %d bytes (0 to %d are possible)", purpose, size, int64(maxSlab))
	}
	kind := slabKind{size: RoundSize(size), tenant: tenant, zeroed: purpose.secret()}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, errs.New(errs.Unavailable, "take buffer", "pool is closed")
	}
	var s *slab
	if free := p.idle[kind]; len(free) > 0 {
		s = free[len(free)-1]
		p.forgetIdle(s)
		p.stats.Reused++
	} else {
		p.mu.Unlock()
		var mem *memory
		if !p.opts.Virtual {
			var err error
			if mem, err = newMemory(fmt.Sprintf("%s:%v", p.opts.Name, purpose), kind.size, !p.opts.NoHugePages); err != nil {
				return nil, err
			}
		}
		s = &slab{handle: newHandle(), kind: kind, mem: mem}
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			if mem != nil {
				_ = mem.close()
			}
			return nil, errs.New(errs.Unavailable, "take buffer", "pool is closed")
		}
		p.stats.Created++
	}
	defer p.mu.Unlock()
	s.purpose, s.length = purpose, size
	if invariants {
		s.taken = debug.Stack()
	}
	p.live[s.handle] = s
	p.stats.LiveBytes[purpose] += kind.size
	p.stats.LiveCount[purpose]++
	b := &Buffer{pool: p, slab: s, size: kind.size, ref: Ref{Handle: s.handle, Length: size}}
	if s.mem != nil {
		b.data = s.mem.data[:size:size]
	}
	return b, nil
}

// Bytes are the buffer's bytes: nil once it is freed (a panic under invariants), and in a virtual pool.
func (b *Buffer) Bytes() []byte {
	if b.freed.Load() {
		if invariants {
			panic(fmt.Sprintf("slab: use of %v after Free", b.ref))
		}
		return nil
	}
	return b.data
}

// Ref names the whole buffer.
func (b *Buffer) Ref() Ref { return b.ref }

// Len is the size that was asked for, in bytes.
func (b *Buffer) Len() int64 { return b.ref.Length }

// Size is the size that is charged: RoundSize(Len()).
func (b *Buffer) Size() int64 { return b.size }

// Purpose is what the buffer was taken for.
func (b *Buffer) Purpose() Purpose { return b.slab.purpose }

// File is the slab's descriptor for hand-over to a process that resolves handles in some way of its own; Pool.Hand does
// it for plugins. The file stays the pool's.
func (b *Buffer) File() (*os.File, error) {
	if b.freed.Load() {
		return nil, errs.New(errs.InvalidArgument, "hand over buffer", "%v is freed", b.ref)
	}
	return b.slab.fileOf()
}

func (s *slab) fileOf() (*os.File, error) {
	if s.mem == nil {
		return nil, errVirtual("hand over buffer")
	}
	if s.mem.file == nil {
		return nil, errs.New(errs.Unsupported, "hand over buffer", "this build has the race detector on, which knows no shared memory").
			WithHint("use a build without -race, or a backend in process")
	}
	return s.mem.file, nil
}

func errVirtual(op string) error {
	return errs.New(errs.Unsupported, op, "the pool is virtual: its buffers have no bytes")
}

// Free gives the buffer back, exactly once. The caller knows that no plugin touches it any more. A second Free is an
// error and changes nothing (a panic under invariants).
func (b *Buffer) Free() error {
	if b.freed.Swap(true) {
		b.pool.mu.Lock()
		b.pool.stats.DoubleFree++
		b.pool.mu.Unlock()
		if invariants {
			panic(fmt.Sprintf("slab: double free of %v", b.ref))
		}
		return errs.New(errs.Internal, "free buffer", "%v is freed already", b.ref)
	}
	s, p := b.slab, b.pool
	// Still live while it is cleaned, so nobody can take it meanwhile. The whole slab: a plugin maps all of it.
	switch {
	case s.mem == nil:
	case s.kind.zeroed:
		clear(s.mem.data)
	case invariants:
		poison(s.mem.data)
	}
	p.mu.Lock()
	delete(p.live, s.handle)
	p.stats.LiveBytes[s.purpose] -= s.kind.size
	p.stats.LiveCount[s.purpose]--
	s.taken = nil
	p.frees++
	s.idleAt = p.frees
	p.idle[s.kind] = append(p.idle[s.kind], s)
	p.stats.IdleBytes += s.kind.size
	p.stats.IdleCount++
	var drop []*slab
	switch {
	case p.closed || p.opts.MaxIdle < 0:
		drop = p.takeIdle(0)
	case p.opts.MaxIdle > 0:
		drop = p.takeIdle(p.opts.MaxIdle)
	}
	p.mu.Unlock()
	_, err := p.drop(drop)
	return err
}

// poisonByte fills freed buffers under invariants: as field elements it is far above the modulus.
const poisonByte = 0xDB

var poisonPage = bytes.Repeat([]byte{poisonByte}, 4096)

func poison(b []byte) {
	for len(b) > 0 {
		b = b[copy(b, poisonPage):]
	}
}

// forgetIdle takes s out of the idle lists. p.mu is held.
func (p *Pool) forgetIdle(s *slab) {
	list := p.idle[s.kind]
	i := slices.Index(list, s)
	if list = slices.Delete(list, i, i+1); len(list) == 0 {
		delete(p.idle, s.kind)
	} else {
		p.idle[s.kind] = list
	}
	p.stats.IdleBytes -= s.kind.size
	p.stats.IdleCount--
}

// takeIdle removes the longest idle slabs until at most keep idle bytes are left. p.mu is held.
func (p *Pool) takeIdle(keep int64) []*slab {
	if p.stats.IdleBytes <= keep {
		return nil
	}
	var all []*slab
	for _, list := range p.idle {
		all = append(all, list...)
	}
	slices.SortFunc(all, func(a, b *slab) int {
		if a.idleAt < b.idleAt {
			return -1
		}
		return 1
	})
	var out []*slab
	for _, s := range all {
		if p.stats.IdleBytes <= keep {
			break
		}
		p.forgetIdle(s)
		out = append(out, s)
	}
	p.stats.Dropped += uint64(len(out))
	return out
}

// drop gives idle slabs back to the system: first every plugin unmaps them, since memory that a process still has
// mapped or pinned is not freed, then the host does.
func (p *Pool) drop(list []*slab) (released int64, err error) {
	if len(list) == 0 {
		return 0, nil
	}
	channels := p.attached()
	var all []error
	for _, s := range list {
		for _, c := range channels {
			_ = c.Release(s.handle) // a channel that fails is broken: its plugin's death unmaps
		}
		if s.mem != nil {
			if err := s.mem.close(); err != nil {
				all = append(all, &errs.Error{Class: errs.Internal, Op: "unmap slab", Err: err})
			}
		}
		released += s.kind.size
	}
	return released, errors.Join(all...)
}

func (p *Pool) attached() []*Channel {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]*Channel, 0, len(p.channels))
	for c := range p.channels {
		out = append(out, c)
	}
	return out
}

// Trim gives the longest unused idle slabs back to the system until at most keepIdle bytes are idle, and returns how
// many bytes that released.
func (p *Pool) Trim(keepIdle int64) (released int64) {
	p.mu.Lock()
	list := p.takeIdle(max(keepIdle, 0))
	p.mu.Unlock()
	released, _ = p.drop(list)
	return released
}

// Stats returns the present counts.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.Files = len(p.files)
	return s
}

// Close drops what is idle, closes registered files, and reports live buffers as leaks (errs.Internal). Those stay
// mapped, because somebody may still write them, and are dropped when they are freed.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	idle := p.takeIdle(0)
	files := p.files
	p.files = map[Handle]FileView{}
	var leaks []error
	for _, s := range p.live {
		e := errs.New(errs.Internal, "close pool", "leak: %v, %d bytes, tenant %q, slab %d", s.purpose, s.length, s.kind.tenant, s.handle)
		if s.taken != nil {
			e.Found += "\ntaken at:\n" + string(s.taken)
		}
		leaks = append(leaks, e)
	}
	p.mu.Unlock()
	_, err := p.drop(idle)
	for h, v := range files {
		p.releaseFile(h, v)
	}
	return errors.Join(append(leaks, err)...)
}

// Bytes implements Resolver for backends in the host's own process: only live buffers resolve.
func (p *Pool) Bytes(r Ref) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, ok := p.live[r.Handle]
	if !ok {
		return nil, errs.New(errs.NotFound, "resolve buffer", "%v is not a live buffer", r)
	}
	if err := r.within(s.length); err != nil {
		return nil, err
	}
	if s.mem == nil {
		return nil, errVirtual("resolve buffer")
	}
	return s.mem.data[r.Offset : r.Offset+r.Length : r.Offset+r.Length], nil
}

// File implements Resolver.
func (p *Pool) File(h Handle) (FileView, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	v, ok := p.files[h]
	if !ok {
		return FileView{}, errs.New(errs.NotFound, "resolve file", "no file has handle %d", h)
	}
	return v, nil
}

// AddFile registers an input file and takes it over: it is closed by RemoveFile or Close (at once, when AddFile fails).
// It must be a regular file that was opened read-only, since plugins get the same descriptor.
func (p *Pool) AddFile(f *os.File) (Handle, error) { return p.addFile(f, unix.O_RDONLY) }

// AddOutput registers a file that a plugin is to write, and takes it over like AddFile. It must be a regular file that was opened for reading
// and writing.
func (p *Pool) AddOutput(f *os.File) (Handle, error) { return p.addFile(f, unix.O_RDWR) }

func (p *Pool) addFile(f *os.File, mode int) (Handle, error) {
	size, err := regularSize(f, mode)
	if err != nil {
		_ = f.Close()
		return 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = f.Close()
		return 0, errs.New(errs.Unavailable, "register file", "pool is closed").WithPath(f.Name())
	}
	h := newHandle()
	p.files[h] = FileView{file: f, size: size}
	return h, nil
}

var accessModes = map[int]string{unix.O_RDONLY: "read-only", unix.O_WRONLY: "write-only", unix.O_RDWR: "read and write"}

// regularSize refuses what is not a regular file opened in the access mode.
func regularSize(f *os.File, mode int) (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, &errs.Error{Class: errs.InvalidArgument, Op: "register file", Path: f.Name(), Err: err}
	}
	if !st.Mode().IsRegular() {
		return 0, errs.Mismatch(errs.InvalidFile, "register file", "", "a regular file", st.Mode().Type()).WithPath(f.Name())
	}
	var flags int
	err = withDescriptor(f, func(fd int) (err error) {
		flags, err = unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		return err
	})
	if err != nil || flags&unix.O_ACCMODE != mode {
		return 0, errs.Mismatch(errs.InvalidArgument, "register file", "access mode", accessModes[mode], accessModes[flags&unix.O_ACCMODE]).WithPath(f.Name())
	}
	return st.Size(), nil
}

// RemoveFile takes the file back from every plugin and closes it.
func (p *Pool) RemoveFile(h Handle) error {
	p.mu.Lock()
	v, ok := p.files[h]
	delete(p.files, h)
	p.mu.Unlock()
	if !ok {
		return errs.New(errs.NotFound, "remove file", "no file has handle %d", h)
	}
	p.releaseFile(h, v)
	return nil
}

func (p *Pool) releaseFile(h Handle, v FileView) {
	for _, c := range p.attached() {
		_ = c.Release(h)
	}
	_ = v.file.Close()
}

// Attach makes the pool tell c when a slab or file goes away. Detach ends that; a channel that is closed detaches itself.
func (p *Pool) Attach(c *Channel) {
	p.mu.Lock()
	p.channels[c] = struct{}{}
	p.mu.Unlock()
	c.onClose(func() { p.Detach(c) })
}

// Detach is the inverse of Attach.
func (p *Pool) Detach(c *Channel) {
	p.mu.Lock()
	delete(p.channels, c)
	p.mu.Unlock()
}

// Hand gives the plugin at the other end of c the slab or file h, unless it has it, and returns when the plugin has
// confirmed. Call it before any message that names h. It attaches c to the pool.
func (p *Pool) Hand(c *Channel, h Handle) error {
	if c.Holds(h) {
		return nil
	}
	p.mu.Lock()
	_, attached := p.channels[c]
	s, isSlab := p.live[h]
	v, isFile := p.files[h]
	p.mu.Unlock()
	if !attached {
		p.Attach(c)
	}
	switch {
	case isSlab:
		f, err := s.fileOf()
		if err != nil {
			return err
		}
		return c.Send(h, KindSlab, s.kind.size, f)
	case isFile:
		return c.Send(h, KindFile, v.size, v.file)
	}
	return errs.New(errs.NotFound, "hand over", "handle %d is neither a live buffer nor a registered file", h)
}
