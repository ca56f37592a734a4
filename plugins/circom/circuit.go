package circom

import (
	"context"
	"fmt"
	"unsafe"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/encoding/iden3"
	"github.com/weir-zk/weir/sdk/encoding/snarkjs"
	"github.com/weir-zk/weir/sdk/encoding/wkey"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/keyfile"
	"github.com/weir-zk/weir/sdk/r1cs"
)

// circuit is a parsed constraint system. Read only.
type circuit struct {
	system   *r1cs.System
	digest   [32]byte // r1cs.Digest.AB
	nbInputs int      // input values of the main component; -1 where the file does not tell
}

// matrixBytes is the memory of a system.
func matrixBytes(s *r1cs.System) int64 {
	n := int64(len(s.Coeffs)) * fr.Bytes
	for _, m := range []*r1cs.Matrix{&s.A, &s.B, &s.C} {
		n += int64(cap(m.Start)+cap(m.Wire)+cap(m.Coeff)) * int64(unsafe.Sizeof(uint32(0)))
	}
	return n
}

// matrices are the sizes of a file that has A and B, and how to read them.
type matrices struct {
	wires, public int
	constraints   int                                             // -1: the header does not tell
	nbInputs      int                                             // -1: the file does not tell
	digest        *[32]byte                                       // where the file carries it
	system        func(ctx context.Context) (*r1cs.System, error) // nil: a prepared key without matrices
}

// openMatrices reads the header of a .r1cs, .zkey or .wkey file; nil for a file of bellman, which tells nothing.
func openMatrices(src *source, tasks int) (*matrices, error) {
	switch src.kind {
	case keyfile.R1CS:
		f, err := iden3.OpenR1CS(src, src.size)
		if err != nil {
			return nil, errs.InFile(err, src.name)
		}
		h := f.Header()
		return &matrices{wires: h.NbWires, public: h.NbPublic(), constraints: h.NbConstraints, nbInputs: h.NbPubIn + h.NbPrvIn,
			system: f.System}, nil
	case keyfile.ZKey:
		f, err := snarkjs.OpenZKey(src, src.size)
		if err != nil {
			return nil, errs.InFile(err, src.name)
		}
		h := f.Header()
		return &matrices{wires: h.NbWires, public: h.NbPublic, constraints: -1, nbInputs: -1,
			system: f.System}, nil
	case keyfile.WKey:
		h, err := wkey.ReadHeader(src, src.size)
		if err != nil {
			return nil, errs.InFile(err, src.name)
		}
		m := &matrices{wires: h.Shape.NbWires, public: h.Shape.NbPublic, constraints: h.Shape.NbConstraints, nbInputs: -1}
		if h.Shape.HasMatrices {
			// By pread into the heap: a mapping would end the process with the file's truncation, and hold pages that nobody counts.
			m.system = func(ctx context.Context) (*r1cs.System, error) { return h.ReadSystem(ctx, src, tasks) }
		}
		if h.Digest.AB != [32]byte{} {
			m.digest = &h.Digest.AB
		}
		return m, nil
	}
	return nil, nil
}

// circuit returns the cached circuit of a file; the caller releases the entry.
func (s *synthesizer) circuit(ctx context.Context, src *source, m *matrices) (*entry, error) {
	id, err := src.identity(ctx)
	if err != nil {
		return nil, err
	}
	return s.cache.get(ctx, "circuit "+id, func(ctx context.Context) (loaded, error) {
		sys, err := m.system(ctx)
		if err != nil {
			return loaded{}, errs.InFile(err, src.name)
		}
		c := &circuit{system: sys, nbInputs: m.nbInputs}
		if m.digest != nil {
			c.digest = *m.digest
		} else {
			c.digest = digestAB(sys)
		}
		return loaded{value: c, size: matrixBytes(sys)}, nil
	})
}

// digest is the AB digest of a key's matrices, which are not kept.
func (s *synthesizer) keyDigest(ctx context.Context, src *source, m *matrices) ([32]byte, error) {
	if m.digest != nil {
		return *m.digest, nil
	}
	id, err := src.identity(ctx)
	if err != nil {
		return [32]byte{}, err
	}
	e, err := s.cache.get(ctx, "digest "+id, func(ctx context.Context) (loaded, error) {
		sys, err := m.system(ctx)
		if err != nil {
			return loaded{}, errs.InFile(err, src.name)
		}
		return loaded{value: digestAB(sys), size: 64}, nil
	})
	if err != nil {
		return [32]byte{}, err
	}
	defer e.release()
	return e.value.([32]byte), nil
}

// checkKey compares a key's matrices with the circuit.
func (s *synthesizer) checkKey(ctx context.Context, key *source, m *matrices, c *circuit) error {
	bad := func(where string, expected, found any) error {
		return errs.Mismatch(errs.InvalidFile, "open", where, expected, found).WithPath(key.name).WithHint("the key was made for another circuit, or for another version of it")
	}
	switch {
	case m.wires != c.system.NbWires:
		return bad("wires", fmt.Sprintf("%d, as in the circuit", c.system.NbWires), m.wires)
	case m.public != c.system.NbPublic:
		return bad("public inputs", fmt.Sprintf("%d, as in the circuit", c.system.NbPublic), m.public)
	case m.constraints >= 0 && m.constraints != c.system.NbConstraints():
		return bad("constraints", fmt.Sprintf("%d, as in the circuit", c.system.NbConstraints()), m.constraints)
	}
	if m.digest == nil && m.system == nil {
		return nil
	}
	d, err := s.keyDigest(ctx, key, m)
	if err != nil {
		return err
	}
	if d != c.digest {
		return bad("constraints", fmt.Sprintf("matrices A and B as in the circuit (digest %x...)", c.digest[:8]), fmt.Sprintf("others (digest %x...)", d[:8]))
	}
	return nil
}

// digestAB leaves out the digest with C, which costs as much again and which nobody asks for here.
func digestAB(s *r1cs.System) [32]byte {
	ab := *s
	ab.HasC = false
	return ab.Digest().AB
}
