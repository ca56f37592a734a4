package cuda

import (
	"context"
	"fmt"
	"math/bits"
	"unsafe"

	"github.com/weir-zk/weir/backend-cuda/internal/cudalib"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/encoding/wkey"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/keyfile"
	"github.com/weir-zk/weir/sdk/r1cs"
	"github.com/weir-zk/weir/sdk/slab"
)

// open reads the key file into k. What kind of file it is is read from its first bytes.
func (b *Backend) open(ctx context.Context, k *key, req *contract.LoadKeyRequest) error {
	file, err := b.resolver.File(req.Key.Handle)
	if err != nil {
		return err
	}
	return errs.InFile(b.openFile(ctx, k, req, file), req.Key.Name)
}

func (b *Backend) openFile(ctx context.Context, k *key, req *contract.LoadKeyRequest, file slab.FileView) error {
	g, err := b.device()
	if err != nil {
		return err
	}
	o := keyfile.Options{
		Name: req.Key.Name, Map: true, PointsOnly: b.opts.HostEvaluates, CheckSubgroup: !req.Trusted, Tasks: b.threads(req.Threads),
		// On the odd coset the scalars of H are values, not coefficients: one transform less.
		PreferOddCoset: true,
	}
	kind, err := keyfile.Sniff(file, file.Size())
	if err != nil {
		return err
	}
	if kind == keyfile.Params && req.Circuit != nil {
		if o.Circuit, err = b.circuit(ctx, req.Circuit, o.Tasks); err != nil {
			return err
		}
	}
	open, err := keyfile.OpenKey(ctx, file.OSFile(), o)
	if err != nil {
		return err
	}
	k.file = open
	sys := open.System
	if !b.evaluates(&open.Shape) { // as PlanKey has told the host: of a .params the shape does not promise matrices
		sys = nil
	}
	select {
	case g.load <- struct{}{}:
		defer func() { <-g.load }()
	case <-ctx.Done():
		return errs.Wrap(ctx.Err(), "read key")
	}
	return g.loader.on.do(func() error { return k.upload(ctx, g, open, sys, o.Tasks) })
}

// circuit reads a constraint system from any file that holds one.
func (b *Backend) circuit(ctx context.Context, in *contract.Input, tasks int) (*r1cs.System, error) {
	file, err := b.resolver.File(in.Handle)
	if err != nil {
		return nil, err
	}
	sys, err := keyfile.OpenCircuit(ctx, file, file.Size(), tasks)
	return sys, errs.InFile(err, in.Name)
}

// upload plans the key and puts what is resident on the device. It runs on the loader's thread, for one key at a time.
func (k *key) upload(ctx context.Context, g *gpu, open *keyfile.Key, sys *r1cs.System, tasks int) (err error) {
	k.g, k.shape, k.vk = g, open.Shape, open.VK
	m := matricesOf(sys)
	if k.plan, err = g.plan(&k.shape, m, g.vram.taken(forKeys)+g.vram.taken(forTables)); err != nil {
		return err
	}
	// Lanes that are idle and too large for what is to come give back first.
	t := g.target(demand{k.plan.lanes, k.plan.lane.bytes})
	if err := g.lanes.settle(t.lanes, t.bytes); err != nil {
		return err
	}
	if k.block, err = g.vram.alloc(forKeys, "key "+k.id, k.plan.key); err != nil {
		return err
	}
	if k.tables, err = g.takeTables(k.shape.LogDomain, k.plan.sizes.Tables); err != nil {
		return err
	}
	k.hasTables = true
	u := &uploader{ctx: ctx, ring: g.loader.ring, at: k.block.At, tasks: tasks}
	if err := k.points(u, open); err != nil {
		return err
	}
	if sys != nil {
		if err := k.matrices(u, sys, m); err != nil {
			return err
		}
	}
	if err := g.loader.dev.Wait(cudalib.QueueCopy, 0); err != nil {
		return err
	}
	if used := int64(u.at - k.block.At); used > k.block.Bytes {
		return errs.New(errs.Internal, "load key", "%d bytes planned, %d uploaded", k.block.Bytes, used)
	}
	k.resident = k.hostBytes()
	if !k.streams() {
		k.file, open.ProvingKey = nil, nil
		if err := open.Close(); err != nil {
			return err
		}
	}
	g.mu.Lock()
	g.demands[k] = demand{k.plan.lanes, k.plan.lane.bytes}
	g.mu.Unlock()
	// A lane that is idle takes its memory now: that there is none should be known here, not when the first proof comes.
	return g.lanes.prepare(t.bytes)
}

// prepare makes the block of one idle lane as large as proofs will need it.
func (p *lanePool) prepare(bytes int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) == 0 {
		return nil
	}
	l := p.pop()
	p.idle = append(p.idle, l)
	return l.ensure(bytes)
}

// streams reports whether something of the file is needed at each proof.
func (k *key) streams() bool {
	for i, n := range sectionCounts(&k.shape) {
		if n > 0 && !k.plan.resident[i] {
			return true
		}
	}
	return k.evaluates && !k.plan.matrices
}

// hostBytes is what stays in the host's memory: nothing but the verifying key when all is on the device.
func (k *key) hostBytes() int64 {
	n := int64(4096 + g1Bytes*(len(k.vk.IC)+3) + 3*g2Bytes)
	if k.streams() {
		for i, c := range sectionCounts(&k.shape) {
			if !k.plan.resident[i] || !k.file.Mapped() {
				n += section(i).pointBytes() * int64(c)
			}
		}
		if k.evaluates {
			for _, m := range k.rows {
				if m.host != nil {
					n += 4 * int64(len(m.host.Start)+2*len(m.host.Wire))
				}
			}
		}
	}
	return n
}

// uploader puts one part after another into a block.
type uploader struct {
	ctx   context.Context
	ring  *ring
	at    cudalib.Addr
	tasks int
}

func (u *uploader) put(bytes int64, unit int, fill func(to []byte, off int64) error) (cudalib.Addr, error) {
	at := u.at
	u.at += cudalib.Addr(up(bytes))
	_, err := u.ring.upload(at, bytes, unit, 0, func(to []byte, off int64) error {
		if err := u.ctx.Err(); err != nil {
			return errs.Wrap(err, "upload key")
		}
		return fill(to, off)
	})
	return at, err
}

func (u *uploader) bytes(b []byte) (cudalib.Addr, error) {
	return u.put(int64(len(b)), 1, func(to []byte, off int64) error {
		copyParallel(to, b[off:], u.tasks)
		return nil
	})
}

// sectionBytes is the points of a section in the host's memory.
func sectionBytes(pk *groth16.ProvingKey, s section) []byte {
	switch s {
	case sectionA:
		return slab.BytesOf(pk.A)
	case sectionB1:
		return slab.BytesOf(pk.B1)
	case sectionB2:
		return slab.BytesOf(pk.B2)
	case sectionK:
		return slab.BytesOf(pk.K)
	}
	return slab.BytesOf(pk.H)
}

// releaseSection gives the pages of a mapped section back.
func releaseSection(f *keyfile.Key, s section) {
	f.Release([nbSections]keyfile.Section{wkey.SecA, wkey.SecB1, wkey.SecB2, wkey.SecK, f.HSection()}[s])
}

func (k *key) points(u *uploader, open *keyfile.Key) (err error) {
	for i := range nbSections {
		if !k.plan.resident[i] {
			continue
		}
		b := sectionBytes(open.ProvingKey, i)
		if want := i.pointBytes() * int64(sectionCounts(&k.shape)[i]); int64(len(b)) != want {
			return errs.Mismatch(errs.InvalidFile, "read key", "section "+i.String(), fmt.Sprintf("%d bytes", want), len(b))
		}
		if k.sections[i], err = u.bytes(b); err != nil {
			return err
		}
		releaseSection(open, i)
	}
	if k.index[sectionA], err = u.wires(open.AWires, k.shape.NbA, k.shape.NbWires); err != nil {
		return err
	}
	k.index[sectionB1], err = u.wires(open.BWires, k.shape.NbB, k.shape.NbWires)
	k.index[sectionB2] = k.index[sectionB1]
	return err
}

// wires uploads the numbers of the wires in a bitmap, of which there must be count, all below n.
func (u *uploader) wires(has groth16.Bitmap, count, n int) (cudalib.Addr, error) {
	word, left := -1, uint64(0)
	return u.put(4*int64(count), 4, func(to []byte, _ int64) error {
		out := unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(to))), len(to)/4)
		for i := range out {
			for left == 0 {
				if word++; word >= len(has) {
					return errs.Mismatch(errs.InvalidFile, "read key", "map of wires", fmt.Sprintf("%d wires", count), "fewer")
				}
				left = has[word]
			}
			w := 64*word + bits.TrailingZeros64(left)
			if w >= n {
				return errs.Mismatch(errs.InvalidFile, "read key", "map of wires", fmt.Sprintf("wires below %d", n), w)
			}
			out[i] = uint32(w)
			left &= left - 1
		}
		return nil
	})
}

// matrices uploads the constraint matrices, or remembers where they are.
func (k *key) matrices(u *uploader, sys *r1cs.System, m *matrices) (err error) {
	k.evaluates, k.hasC, k.nbCoeffs = true, sys.HasC, len(sys.Coeffs)
	if k.coeffs, err = u.bytes(slab.BytesOf(sys.Coeffs)); err != nil {
		return err
	}
	for i, x := range []*r1cs.Matrix{&sys.A, &sys.B, &sys.C}[:m.count] {
		k.rows[i].terms = x.NNZ()
		if !k.plan.matrices {
			k.rows[i].host = x
			continue
		}
		for _, part := range []struct {
			to   *cudalib.Addr
			from []uint32
		}{{&k.rows[i].start, x.Start}, {&k.rows[i].wire, x.Wire}, {&k.rows[i].coeff, x.Coeff}} {
			if *part.to, err = u.bytes(slab.BytesOf(part.from)); err != nil {
				return err
			}
		}
	}
	return nil
}
