package snarkjs

import (
	"bytes"
	"context"
	"encoding/binary"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/consensys/gnark-crypto/ecc"
	bls "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr/fft"

	"github.com/weir-zk/weir/internal/testfiles"
	"github.com/weir-zk/weir/sdk/assignment"
	"github.com/weir-zk/weir/sdk/encoding/iden3"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/r1cs"
)

var ctx = context.Background()

func openZKey(b []byte) (*ZKey, error) { return OpenZKey(bytes.NewReader(b), int64(len(b))) }

// readAll does all that can be done with a key.
func readAll(b []byte, opt ReadOptions) (*groth16.ProvingKey, *r1cs.System, error) {
	z, err := openZKey(b)
	if err != nil {
		return nil, nil, err
	}
	s, err := z.System(ctx)
	if err != nil {
		return nil, nil, err
	}
	pk, err := z.ProvingKey(ctx, opt)
	return pk, s, err
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func circuit(t testing.TB, name string) *r1cs.System {
	b := testfiles.Fixture(t, name, "circuit.r1cs")
	f := must(iden3.OpenR1CS(bytes.NewReader(b), int64(len(b))))(t)
	return must(f.System(ctx))(t)
}

func witness(t testing.TB, name string) *assignment.Vector {
	b := testfiles.Fixture(t, name, "witness.wtns")
	f := must(iden3.OpenWitness(bytes.NewReader(b), int64(len(b))))(t)
	return must(f.Vector(ctx))(t)
}

// prove makes the proof with r = s = 0 from a key with H on the odd coset, step by step as CONVENTIONS of Groth16 have it.
func prove(t testing.TB, pk *groth16.ProvingKey, s *r1cs.System, w *assignment.Vector) groth16.Proof {
	t.Helper()
	n := pk.DomainSize()
	a, b, c := make([]fr.Element, n), make([]fr.Element, n), make([]fr.Element, n)
	if err := s.Evaluate(ctx, w, pk.Rows, a, b, c, 2); err != nil {
		t.Fatal(err)
	}
	u := must(fft.Generator(uint64(2 * n)))(t)
	d := fft.NewDomain(uint64(n), fft.WithShift(u))
	for _, v := range [][]fr.Element{a, b, c} {
		d.FFTInverse(v, fft.DIF)
		d.FFT(v, fft.DIT, fft.OnCoset())
	}
	for i := range a {
		a[i].Mul(&a[i], &b[i])
		a[i].Sub(&a[i], &c[i])
	}
	pick := func(wires groth16.Bitmap) (out []fr.Element) {
		for i := range pk.NbWires {
			if wires.Has(i) {
				out = append(out, w.At(i))
			}
		}
		return out
	}
	private := make([]fr.Element, pk.NbPrivate())
	for i := range private {
		private[i] = w.At(pk.NbPublic + 1 + i)
	}
	sum1 := func(p []bls.G1Affine, x []fr.Element, plus ...bls.G1Affine) (out bls.G1Affine) {
		var acc bls.G1Jac
		if len(p) > 0 {
			if _, err := acc.MultiExp(p, x, ecc.MultiExpConfig{}); err != nil {
				t.Fatal(err)
			}
		}
		for i := range plus {
			acc.AddMixed(&plus[i])
		}
		return *out.FromJacobian(&acc)
	}
	var p groth16.Proof
	p.A = sum1(pk.A, pick(pk.AWires), pk.VK.AlphaG1)
	var b2 bls.G2Jac
	if len(pk.B2) > 0 {
		if _, err := b2.MultiExp(pk.B2, pick(pk.BWires), ecc.MultiExpConfig{}); err != nil {
			t.Fatal(err)
		}
	}
	b2.AddMixed(&pk.VK.BetaG2)
	p.B.FromJacobian(&b2)
	p.C = sum1(pk.H, a, sum1(pk.K, private))
	return p
}

func wantClass(t *testing.T, err error, class errs.Class, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("accepted")
	}
	if errs.ClassOf(err) != class {
		t.Fatalf("class %v, want %v: %v", errs.ClassOf(err), class, err)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("%q is not in %q", p, err)
		}
	}
}

func allocated(f func()) uint64 {
	var a, b runtime.MemStats
	runtime.ReadMemStats(&a)
	f()
	runtime.ReadMemStats(&b)
	return b.TotalAlloc - a.TotalAlloc
}

// file is a container taken apart.
type file struct {
	order []uint32
	data  map[uint32][]byte
}

func split(t testing.TB, b []byte) file {
	t.Helper()
	c := must(iden3.OpenContainer(bytes.NewReader(b), int64(len(b)), "zkey", 1))(t)
	f := file{data: map[uint32][]byte{}}
	for _, s := range c.Sections {
		f.order = append(f.order, s.ID)
		f.data[s.ID] = append([]byte(nil), b[s.Offset:s.Offset+s.Size]...)
	}
	return f
}

func (f file) bytes() []byte {
	b := []byte("zkey\x01\x00\x00\x00")
	b = binary.LittleEndian.AppendUint32(b, uint32(len(f.order)))
	for _, id := range f.order {
		b = binary.LittleEndian.AppendUint32(b, id)
		b = binary.LittleEndian.AppendUint64(b, uint64(len(f.data[id])))
		b = append(b, f.data[id]...)
	}
	return b
}

// outsideG1 is a point of the curve outside the subgroup: (0, 2), of order 3.
func outsideG1() (p bls.G1Affine) {
	p.Y.SetUint64(2)
	return p
}

func outsideG2() (p bls.G2Affine) {
	var four bls.E2
	four.A0.SetUint64(4)
	four.A1.SetUint64(4)
	for x := uint64(1); ; x++ {
		p.X.A0.SetUint64(x)
		var y2 bls.E2
		y2.Square(&p.X).Mul(&y2, &p.X).Add(&y2, &four)
		if p.Y.Sqrt(&y2); p.IsOnCurve() && !p.IsInSubGroup() {
			return p
		}
	}
}

func byteView(w []uint64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(w))), 8*len(w))
}
