package keyfile

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/consensys/gnark-crypto/ecc/bls12-381"
	"golang.org/x/crypto/blake2b"
	"golang.org/x/sync/errgroup"

	"github.com/weir-zk/weir/sdk/encoding/wkey"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/internal/points"
	"github.com/weir-zk/weir/sdk/r1cs"
)

// ImportOptions of Import.
type ImportOptions struct {
	// Name is what errors call the source; "" is the *os.File's own name.
	Name string
	// Trust leaves out the subgroup checks and the comparison of B1 with B2 and of H with its other basis. That points are on the curve is always checked.
	Trust bool
	Tasks int
	// Creator goes into the header: program and version.
	Creator string
	// Progress is called after every chunk with the bytes of points written and to write. May be nil.
	Progress func(done, total int64)
}

// Import writes a key of any format as a prepared key. circuit is needed for a .params; where given for others it must be the key's, and the prepared key
// then carries its C. All points are checked (see ImportOptions), counts are compared with the circuit, and the source is digested. A key of any size
// passes in bounded memory (the circuit's matrices apart, and a sixteenth of a .zkey's H). dst starts at offset 0; on failure it is not a key.
func Import(ctx context.Context, src *os.File, circuit *r1cs.System, dst io.WriterAt, o ImportOptions) (*wkey.Header, error) {
	h, err := importKey(ctx, src, circuit, dst, o)
	if err != nil {
		return nil, errs.InFile(err, nameOf(src, o.Name))
	}
	return h, nil
}

func importKey(ctx context.Context, src *os.File, circuit *r1cs.System, dst io.WriterAt, o ImportOptions) (*wkey.Header, error) {
	size, err := sizeOf(src)
	if err != nil {
		return nil, err
	}
	s, err := openSource(src, size, circuit, &o)
	if err != nil {
		return nil, err
	}
	g, ctx := errgroup.WithContext(ctx)
	var digest [64]byte
	g.Go(func() (err error) {
		digest, err = digestOf(ctx, src, size)
		return err
	})
	var m wkey.Meta
	var w *wkey.Writer
	g.Go(func() (err error) {
		d, err := s.describe(ctx)
		if err != nil {
			return err
		}
		if err := d.matched(); err != nil {
			return err
		}
		if w, err = wkey.NewWriter(dst); err != nil {
			return err
		}
		m = wkey.Meta{Shape: d.shape, Digest: d.digest, Source: wkey.Source{Kind: d.kind, Size: size}, Creator: o.Creator}
		if m.Shape.HasMatrices, m.Shape.HasC = d.sys != nil, d.sys != nil && d.sys.HasC; d.sys != nil {
			m.Shape.NbConstraints, m.Digest = d.sys.NbConstraints(), d.sys.Digest()
		}
		return copyKey(ctx, w, s, &d, &o)
	})
	if err := g.Wait(); err != nil {
		return nil, err
	}
	m.Source.Digest = digest
	if err := w.Finish(m); err != nil {
		return nil, err
	}
	r, ok := dst.(interface {
		io.ReaderAt
		Stat() (os.FileInfo, error)
	})
	if !ok {
		return nil, nil
	}
	st, err := r.Stat()
	if err != nil {
		return nil, errs.Wrap(err, "import key")
	}
	return wkey.ReadHeader(r, st.Size())
}

// copyKey writes every section.
func copyKey(ctx context.Context, w *wkey.Writer, s source, d *description, o *ImportOptions) error {
	sh := &d.shape
	const g1, g2 = 96, 192
	total := int64(g1)*int64(sh.NbA+sh.NbB+sh.NbPrivate()+sh.NbH+d.nbAltH) + g2*int64(sh.NbB)
	var done int64
	progress := func(n int) {
		if done += int64(n); o.Progress != nil {
			o.Progress(done, total)
		}
	}
	var pair *points.Pairs
	if !o.Trust {
		var err error
		if pair, err = points.NewPairs(); err != nil {
			return pairFailed(err)
		}
	}
	var bases *basesCheck
	if !o.Trust && d.altH {
		var err error
		if bases, err = newBasesCheck(sh.LogDomain); err != nil {
			return err
		}
	}
	list := func(id wkey.SectionID, want int) error {
		if err := w.Begin(id, g1); err != nil {
			return err
		}
		n := 0
		err := s.g1(ctx, id, func(ps []bls12381.G1Affine) error {
			if id == wkey.SecB1 && pair != nil {
				if err := pair.AddG1(ps, o.Tasks); err != nil {
					return pairFailed(err)
				}
			}
			if (id == wkey.SecH || id == wkey.SecHAlt) && bases != nil {
				basis := sh.H
				if id == wkey.SecHAlt {
					basis = d.altBasis
				}
				if err := bases.add(basis, ps, o.Tasks); err != nil {
					return err
				}
			}
			n += len(ps)
			progress(g1 * len(ps))
			return wkey.Elements(w, ps)
		})
		if err != nil {
			return err
		}
		if n != want {
			return errs.Mismatch(errs.Internal, "import key", id.String(), want, n)
		}
		return w.End()
	}
	for _, step := range []func() error{
		func() error { return w.VerifyingKey(ctx, d.vk) },
		func() error { return list(wkey.SecA, sh.NbA) },
		func() error { return wkey.SectionOf(ctx, w, wkey.SecAWires, d.aWires) },
		func() error { return list(wkey.SecB1, sh.NbB) },
		func() error {
			if err := w.Begin(wkey.SecB2, g2); err != nil {
				return err
			}
			err := s.g2(ctx, func(ps []bls12381.G2Affine) error {
				if pair != nil {
					if err := pair.AddG2(ps, o.Tasks); err != nil {
						return pairFailed(err)
					}
				}
				progress(g2 * len(ps))
				return wkey.Elements(w, ps)
			})
			if err != nil {
				return err
			}
			return w.End()
		},
		func() error {
			if pair == nil {
				return nil
			}
			return samePairs("import key", pair, d.vk, d.places)
		},
		func() error { return wkey.SectionOf(ctx, w, wkey.SecBWires, d.bWires) },
		func() error { return list(wkey.SecK, sh.NbPrivate()) },
		func() error { return list(wkey.SecH, sh.NbH) },
		func() error {
			if !d.altH {
				return nil
			}
			if err := list(wkey.SecHAlt, d.nbAltH); err != nil || bases == nil {
				return err
			}
			return bases.holds()
		},
		func() error {
			if d.sys == nil {
				return nil
			}
			return w.System(ctx, d.sys)
		},
		func() error {
			if d.transcript == nil {
				return nil
			}
			return w.Transcript(d.transcript)
		},
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// digestOf is BLAKE2b-512 of a file.
func digestOf(ctx context.Context, r io.ReaderAt, size int64) (sum [64]byte, err error) {
	h, err := blake2b.New512(nil)
	if err != nil {
		return sum, errs.Wrap(err, "digest")
	}
	buf := make([]byte, 1<<20)
	for at := int64(0); at < size; at += int64(len(buf)) {
		if err := ctx.Err(); err != nil {
			return sum, err
		}
		b := buf[:min(int64(len(buf)), size-at)]
		if n, err := r.ReadAt(b, at); n < len(b) {
			if err == nil || err == io.EOF {
				return sum, errs.Mismatch(errs.InvalidFile, "digest", "size", fmt.Sprintf("%d bytes", size), fmt.Sprintf("%d: the file shrank", at+int64(n)))
			}
			return sum, errs.Wrap(err, "digest")
		}
		h.Write(b)
	}
	h.Sum(sum[:0])
	return sum, nil
}
