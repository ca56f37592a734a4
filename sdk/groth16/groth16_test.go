package groth16_test

import (
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
)

// root is g^((r-1)/2^k): the root of order 2^k of the generator g.
func root(g uint64, k int) fr.Element {
	x := fr.NewElement(g)
	e := new(big.Int).Sub(fr.Modulus(), big.NewInt(1))
	x.Exp(x, e.Rsh(e, uint(k)))
	return x
}

// Row i of snarkjs is at w5^i, which must be w7 to the power Position(i). Checked with the roots themselves, for every i of small domains and some of large ones.
func TestPosition(t *testing.T) {
	for k := 0; k <= 28; k++ {
		n := uint64(1) << k
		w5, w7 := root(5, k), root(7, k)
		rng := rand.New(rand.NewPCG(uint64(k), 1))
		var rows []uint64
		if k <= 8 {
			for i := range n {
				rows = append(rows, i)
			}
		} else {
			rows = append(rows, 0, 1, 2, n/2, n-2, n-1, rng.Uint64N(n), rng.Uint64N(n))
		}
		seen := map[uint64]bool{}
		for _, i := range rows {
			p := groth16.RowsFive.Position(i, n)
			if p >= n || (k <= 8 && seen[p]) {
				t.Fatalf("N = 2^%d: row %d at %d, taken or beyond", k, i, p)
			}
			seen[p] = true
			var a, b fr.Element
			a.Exp(w5, new(big.Int).SetUint64(i))
			b.Exp(w7, new(big.Int).SetUint64(p))
			if !a.Equal(&b) {
				t.Fatalf("N = 2^%d: row %d is not at %d", k, i, p)
			}
			if q := groth16.RowsSeven.Position(i, n); q != i {
				t.Fatalf("rows of 7: row %d at %d", i, q)
			}
		}
	}
	// The roots agree up to N = 4, and differ from 8 on.
	for k, moved := range map[int]bool{0: false, 1: false, 2: false, 3: true, 4: true, 10: true} {
		n, any := uint64(1)<<k, false
		for i := range n {
			any = any || groth16.RowsFive.Position(i, n) != i
		}
		if any != moved {
			t.Errorf("N = 2^%d: rows move: %v", k, any)
		}
	}
}

// The exponent itself: 5^t = (7^t)^E.
func TestSnarkjsRootExponent(t *testing.T) {
	var got fr.Element
	got.Exp(root(7, 32), big.NewInt(groth16.SnarkjsRootExponent))
	if want := root(5, 32); !got.Equal(&want) {
		t.Error("another exponent")
	}
}

func TestDomainFor(t *testing.T) {
	for rows := range 70 {
		for public := range 70 {
			want := 0
			for 1<<want < rows+public+1 {
				want++
			}
			if got := groth16.DomainFor(rows, public); got != want {
				t.Fatalf("%d rows, %d public: 2^%d, want 2^%d", rows, public, got, want)
			}
		}
	}
	for k := 1; k <= 28; k++ {
		n := 1 << k
		for _, x := range []struct{ rows, log int }{{n - 3, k}, {n - 2, k}, {n - 1, k + 1}} {
			if x.rows < n/2-1 {
				continue
			}
			if got := groth16.DomainFor(x.rows, 1); got != x.log {
				t.Errorf("%d rows, one public: 2^%d, want 2^%d", x.rows, got, x.log)
			}
		}
	}
}

func TestBitmap(t *testing.T) {
	for _, n := range []int{0, 1, 63, 64, 65, 1000} {
		b := groth16.NewBitmap(n)
		if len(b) != (n+63)/64 || b.Count() != 0 {
			t.Errorf("%d bits: %d words, %d set", n, len(b), b.Count())
		}
		rng := rand.New(rand.NewPCG(uint64(n), 3))
		want := map[int]bool{}
		for range n / 2 {
			i := rng.IntN(n)
			b.Set(i)
			want[i] = true
		}
		if b.Count() != len(want) {
			t.Errorf("%d bits: %d set, want %d", n, b.Count(), len(want))
		}
		for i := range n {
			if b.Has(i) != want[i] {
				t.Errorf("%d bits: bit %d is %v", n, i, b.Has(i))
			}
		}
	}
}

func TestShapeValidate(t *testing.T) {
	good := groth16.Shape{LogDomain: 3, NbWires: 10, NbPublic: 2, NbConstraints: 5, NbA: 7, NbB: 4, NbH: 7}
	odd := good
	odd.H, odd.NbH, odd.Rows = groth16.HOddCoset, 8, groth16.RowsFive
	unknown := good
	unknown.NbConstraints = -1
	tight := groth16.Shape{NbWires: 1, NbH: 0}
	for name, s := range map[string]groth16.Shape{"bellman": good, "snarkjs": odd, "rows unknown": unknown, "the smallest": tight} {
		if err := s.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if good.DomainSize() != 8 || good.NbPrivate() != 7 {
		t.Errorf("N = %d, %d private", good.DomainSize(), good.NbPrivate())
	}
	for name, edit := range map[string]func(s *groth16.Shape){
		"domain -1":           func(s *groth16.Shape) { s.LogDomain = -1 },
		"domain 2^29":         func(s *groth16.Shape) { s.LogDomain = 29; s.NbH = 1<<29 - 1 },
		"no wires":            func(s *groth16.Shape) { s.NbWires = 0; s.NbPublic = 0 },
		"all public":          func(s *groth16.Shape) { s.NbPublic = 10 },
		"negative public":     func(s *groth16.Shape) { s.NbPublic = -1 },
		"A more than wires":   func(s *groth16.Shape) { s.NbA = 11 },
		"A negative":          func(s *groth16.Shape) { s.NbA = -1 },
		"B more than wires":   func(s *groth16.Shape) { s.NbB = 11 },
		"B negative":          func(s *groth16.Shape) { s.NbB = -1 },
		"one row too many":    func(s *groth16.Shape) { s.NbConstraints = 6 },
		"H N points":          func(s *groth16.Shape) { s.NbH = 8 },
		"odd coset N-1":       func(s *groth16.Shape) { s.H = groth16.HOddCoset },
		"an unknown basis":    func(s *groth16.Shape) { s.H = 2 },
		"an unknown order":    func(s *groth16.Shape) { s.Rows = 2 },
		"H of another domain": func(s *groth16.Shape) { s.NbH = 15 },
	} {
		s := good
		edit(&s)
		if err := s.Validate(); !errs.Is(err, errs.InvalidFile) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
