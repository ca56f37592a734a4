package main

import (
	"context"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	cpu "github.com/weir-zk/weir/backend-cpu"
	"github.com/weir-zk/weir/backend-cpu/setup"
	"github.com/weir-zk/weir/internal/circuitgen"
	"github.com/weir-zk/weir/sdk/assignment"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/r1cs"
	"github.com/weir-zk/weir/sdk/slab"
)

func generated(t *testing.T, c circuitgen.Circuit) (*r1cs.System, []fr.Element) {
	t.Helper()
	h := c.Header()
	b := r1cs.NewBuilder(int(h.Wires), int(h.Public()), true, int(h.Constraints), 0)
	c.Constraints(func(ra, rb, rc []circuitgen.Term) bool {
		for m, terms := range [][]circuitgen.Term{ra, rb, rc} {
			for i := range terms {
				b.Term(m, terms[i].Wire, b.Coeff(&terms[i].Coeff))
			}
		}
		return b.EndRow() == nil
	})
	sys, err := b.System()
	if err != nil {
		t.Fatal(err)
	}
	var witness []fr.Element
	c.Witness(func(v *fr.Element) bool {
		witness = append(witness, *v)
		return true
	})
	return sys, witness
}

// reopened is the same file for reading only.
func reopened(f *os.File) (*os.File, error) {
	if err := f.Close(); err != nil {
		return nil, err
	}
	return os.Open(f.Name())
}

// The CPU backend leaves the scalars of the H points, up to a factor that it applies to their sum, in the buffer of a. They are those of quotient.
func TestQuotientIsTheBackends(t *testing.T) {
	ctx := context.Background()
	for _, rows := range []int{3, 60, 1000} {
		for _, basis := range []groth16.HBasis{groth16.HMonomial, groth16.HOddCoset} {
			t.Run(fmt.Sprintf("%d rows, %s", rows, basis), func(t *testing.T) {
				sys, witness := generated(t, circuitgen.GnarkMix(rows, 5))
				scalars, err := setup.Seeded([]byte("vectors"))
				if err != nil {
					t.Fatal(err)
				}
				f, err := os.Create(filepath.Join(t.TempDir(), "key.wkey"))
				if err != nil {
					t.Fatal(err)
				}
				shape, err := setup.Write(ctx, f, sys, setup.Options{Scalars: scalars, H: basis, AltH: setup.AltNever, Tasks: tasks}, "test")
				if err != nil {
					t.Fatal(err)
				}
				if f, err = reopened(f); err != nil {
					t.Fatal(err)
				}
				pool := slab.NewPool(slab.PoolOptions{})
				defer func() {
					if err := pool.Close(); err != nil {
						t.Error(err)
					}
				}()
				backend := cpu.New(pool, cpu.Options{})
				st, err := f.Stat()
				if err != nil {
					t.Fatal(err)
				}
				handle, err := pool.AddFile(f)
				if err != nil {
					t.Fatal(err)
				}
				load := &contract.LoadKeyRequest{KeyID: "k", Key: contract.Input{Name: "k", Handle: handle, Size: st.Size()}, Trusted: true}
				if _, err := backend.LoadKey(ctx, load); err != nil {
					t.Fatal(err)
				}
				defer func() {
					if err := backend.UnloadKey(ctx, "k"); err != nil {
						t.Error(err)
					}
				}()

				get := func(p slab.Purpose, size int64) *slab.Buffer {
					b, err := pool.Get(p, size, "test")
					if err != nil {
						t.Fatal(err)
					}
					return b
				}
				n := shape.DomainSize()
				_, plain, err := assign(witness, assignment.Compact)
				if err != nil {
					t.Fatal(err)
				}
				w := get(slab.Witness, int64(len(plain)))
				copy(w.Bytes(), plain)
				v, err := assignment.Parse(w.Bytes())
				if err != nil {
					t.Fatal(err)
				}
				var bufs [3]*slab.Buffer
				var abc, kept [3][]fr.Element
				for i := range bufs {
					bufs[i] = get(slab.Evaluations, int64(n)*fr.Bytes)
					if abc[i], err = slab.View[fr.Element](bufs[i].Bytes()); err != nil {
						t.Fatal(err)
					}
				}
				if err := sys.Evaluate(ctx, v, shape.Rows, abc[0], abc[1], abc[2], tasks); err != nil {
					t.Fatal(err)
				}
				for i := range kept {
					kept[i] = append([]fr.Element(nil), abc[i]...)
				}
				req := &contract.ProveRequest{KeyID: "k", Witness: w.Ref(), A: bufs[0].Ref(), B: bufs[1].Ref(), C: bufs[2].Ref()}
				if _, err := backend.Prove(ctx, req, func(contract.ProveEvent) {}); err != nil {
					t.Fatal(err)
				}

				want, err := quotient(ctx, basis, shape.LogDomain, kept[0], kept[1], kept[2])
				if err != nil {
					t.Fatal(err)
				}
				// N^2 P, or -2 N^3 h (backend-cpu/quotient.go).
				var factor fr.Element
				factor.SetBigInt(new(big.Int).Exp(big.NewInt(int64(n)), big.NewInt(map[groth16.HBasis]int64{groth16.HOddCoset: 2, groth16.HMonomial: 3}[basis]), nil))
				if basis == groth16.HMonomial {
					factor.Double(&factor).Neg(&factor)
				}
				zero := true
				for i := range want {
					want[i].Mul(&want[i], &factor)
					zero = zero && want[i].IsZero()
					if !want[i].Equal(&abc[0][i]) {
						t.Fatalf("scalar %d of %d differs", i, n)
					}
				}
				if zero {
					t.Fatal("all scalars are zero: the circuit shows nothing")
				}
				for _, b := range append(bufs[:], w) {
					if err := b.Free(); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
}

// Everything is written, twice the same.
func TestVectorsAreWritten(t *testing.T) {
	dirs := [2]string{t.TempDir(), t.TempDir()}
	for _, dir := range dirs {
		if err := run(context.Background(), dir); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob(filepath.Join(dirs[0], "*.wvec"))
	if err != nil || len(files) < 30 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, f := range files {
		x, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		y, err := os.ReadFile(filepath.Join(dirs[1], filepath.Base(f)))
		if err != nil {
			t.Fatal(err)
		}
		if string(x) != string(y) {
			t.Errorf("%s differs from run to run", filepath.Base(f))
		}
	}
}
