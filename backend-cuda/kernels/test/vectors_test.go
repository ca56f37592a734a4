package kernels

import (
	"bytes"
	"fmt"
	"math/big"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"unsafe"

	bls12381 "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fp"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
)

// hostOps is the program of host/host_ops.cpp, built once a test run; with the undefined-behaviour sanitizer, which also sees misaligned elements.
var hostOps = sync.OnceValues(func() (string, error) {
	// Go caches test results by the files that a test opened: g++'s reads it does not see, so these are opened here.
	for _, pattern := range []string{"../*.cuh", "host/*.cpp"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return "", err
		}
		for _, f := range files {
			if _, err := os.ReadFile(f); err != nil {
				return "", err
			}
		}
	}
	out := filepath.Join(buildDir, "host_ops")
	cmd := exec.Command("g++", "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas", "-fsanitize=undefined", "-fno-sanitize-recover=undefined", "-o", out, filepath.Join("host", "host_ops.cpp"))
	if msg, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("g++: %w\n%s", err, msg)
	}
	return out, nil
})

// run feeds all records to the program and returns its answers; size is the answer's length for one record.
func run(t *testing.T, op byte, pairs [][2][]byte, size int) [][]byte {
	t.Helper()
	if _, err := exec.LookPath("g++"); err != nil {
		t.Skip("no g++: the kernels' headers cannot be compiled for the host")
	}
	program, err := hostOps()
	if err != nil {
		t.Fatal(err)
	}
	var in bytes.Buffer
	for _, p := range pairs {
		in.WriteByte(op)
		in.Write(p[0])
		in.Write(p[1])
	}
	var out, stderr bytes.Buffer
	cmd := exec.Command(program)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = &in, &out, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("host_ops: %v\n%s", err, stderr.String())
	}
	if out.Len() != size*len(pairs) {
		t.Fatalf("host_ops answered %d bytes to %d records, not %d", out.Len(), len(pairs), size*len(pairs))
	}
	answers := make([][]byte, len(pairs))
	for i := range answers {
		answers[i] = out.Next(size)
	}
	return answers
}

// raw is the memory of v: what the device sees.
func raw[T any](v *T) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v)) }

// special returns integers below m where carries, borrows and reductions change, and some random ones.
func special(m *big.Int, limbs, random int) []*big.Int {
	var v []*big.Int
	add := func(x *big.Int) { v = append(v, new(big.Int).Mod(x, m)) }
	for i := int64(0); i < 4; i++ {
		add(big.NewInt(i))
		add(new(big.Int).Sub(m, big.NewInt(i)))
	}
	half := new(big.Int).Rsh(m, 1)
	add(half)
	add(new(big.Int).Add(half, big.NewInt(1)))
	r := new(big.Int).Lsh(big.NewInt(1), uint(32*limbs)) // the Montgomery form of one, and its neighbours
	add(r)
	add(new(big.Int).Sub(r, big.NewInt(1)))
	for i := 1; i < limbs; i++ {
		edge := new(big.Int).Lsh(big.NewInt(1), uint(32*i))
		add(edge)
		add(new(big.Int).Sub(edge, big.NewInt(1)))
		add(new(big.Int).Neg(edge))
	}
	// A fixed seed: a failure names its pair.
	rng := rand.New(rand.NewPCG(1, 2))
	for range random {
		b := make([]byte, 4*limbs+8)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		add(new(big.Int).SetBytes(b))
	}
	return v
}

// littleEndian writes x as n bytes: special values are put into the limbs as they are, so Montgomery forms hit the edges and not only the values.
func littleEndian(x *big.Int, n int) []byte {
	b := x.FillBytes(make([]byte, n))
	for i, j := 0, len(b)-1; i < j; i, j = i+1, j-1 {
		b[i], b[j] = b[j], b[i]
	}
	return b
}

// compare fails with the name of the operation when a part of the answer differs.
func compare(t *testing.T, i int, answer []byte, names []string, want ...[]byte) {
	t.Helper()
	if len(names) != len(want) {
		t.Fatalf("%d names for %d results", len(names), len(want))
	}
	for k, w := range want {
		got := answer[:len(w)]
		answer = answer[len(w):]
		if !bytes.Equal(got, w) {
			t.Fatalf("record %d: %s is %x, gnark-crypto has %x", i, names[k], got, w)
		}
	}
}

// flag is an element-sized answer that carries bits in its first byte.
func flag(n int, bits ...bool) []byte {
	b := make([]byte, n)
	for i, v := range bits {
		if v {
			b[0] |= 1 << i
		}
	}
	return b
}

var fieldNames = []string{"a*b", "a^2", "a+b", "a-b", "-a", "2a", "1/a", "to Montgomery", "from Montgomery", "equality and zero"}

func TestFp(t *testing.T) {
	var elements []fp.Element
	for _, x := range special(fp.Modulus(), 12, 40) {
		var e fp.Element
		copy(raw(&e), littleEndian(x, 48))
		elements = append(elements, e)
	}
	pairs := cross(elements)
	r := new(big.Int).Lsh(big.NewInt(1), 384)
	var mont, montInverse fp.Element // factors that multiply by R and 1/R
	mont.SetBigInt(r)
	montInverse.Inverse(&mont)
	for i, answer := range run(t, 'p', bytesOf(pairs), 48*len(fieldNames)) {
		a, b := pairs[i][0], pairs[i][1]
		var mul, sqr, add, sub, neg, dbl, inv, to, from fp.Element
		mul.Mul(&a, &b)
		sqr.Square(&a)
		add.Add(&a, &b)
		sub.Sub(&a, &b)
		neg.Neg(&a)
		dbl.Double(&a)
		inv.Inverse(&a)
		to.Mul(&a, &mont)
		from.Mul(&a, &montInverse)
		compare(t, i, answer, fieldNames, raw(&mul), raw(&sqr), raw(&add), raw(&sub), raw(&neg), raw(&dbl), raw(&inv), raw(&to), raw(&from),
			flag(48, a.Equal(&b), a.IsZero()))
	}
}

func TestFr(t *testing.T) {
	var elements []fr.Element
	for _, x := range special(fr.Modulus(), 8, 60) {
		var e fr.Element
		copy(raw(&e), littleEndian(x, 32))
		elements = append(elements, e)
	}
	pairs := cross(elements)
	r := new(big.Int).Lsh(big.NewInt(1), 256)
	var mont, montInverse fr.Element
	mont.SetBigInt(r)
	montInverse.Inverse(&mont)
	for i, answer := range run(t, 'r', bytesOf(pairs), 32*len(fieldNames)) {
		a, b := pairs[i][0], pairs[i][1]
		var mul, sqr, add, sub, neg, dbl, inv, to, from fr.Element
		mul.Mul(&a, &b)
		sqr.Square(&a)
		add.Add(&a, &b)
		sub.Sub(&a, &b)
		neg.Neg(&a)
		dbl.Double(&a)
		inv.Inverse(&a)
		to.Mul(&a, &mont)
		from.Mul(&a, &montInverse)
		compare(t, i, answer, fieldNames, raw(&mul), raw(&sqr), raw(&add), raw(&sub), raw(&neg), raw(&dbl), raw(&inv), raw(&to), raw(&from),
			flag(32, a.Equal(&b), a.IsZero()))
	}
}

// The lazy form takes a and b each also raised by p; results come back canonical.
func TestLazyFp(t *testing.T) {
	var elements []fp.Element
	for _, x := range special(fp.Modulus(), 12, 30) {
		var e fp.Element
		copy(raw(&e), littleEndian(x, 48))
		elements = append(elements, e)
	}
	pairs := cross(elements)
	names := []string{"a*b", "a^2", "a+b", "a-b", "-a", "(a+b)(a-b)", "1/a", "equality and zero"}
	for i, answer := range run(t, 'l', bytesOf(pairs), 4*48*len(names)) {
		a, b := pairs[i][0], pairs[i][1]
		var mul, sqr, add, sub, neg, both, inv fp.Element
		mul.Mul(&a, &b)
		sqr.Square(&a)
		add.Add(&a, &b)
		sub.Sub(&a, &b)
		neg.Neg(&a)
		both.Mul(&add, &sub)
		inv.Inverse(&a)
		for raise := range 4 {
			compare(t, i, answer[raise*48*len(names):], names, raw(&mul), raw(&sqr), raw(&add), raw(&sub), raw(&neg), raw(&both), raw(&inv),
				flag(48, a.Equal(&b), a.IsZero()))
		}
	}
}

func TestFp2(t *testing.T) {
	values := special(fp.Modulus(), 12, 6)
	var parts []fp.Element
	for i := 0; i < len(values); i += 3 {
		var e fp.Element
		copy(raw(&e), littleEndian(values[i], 48))
		parts = append(parts, e)
	}
	var elements []bls12381.E2
	for i := range parts {
		for _, j := range []int{0, 1, i, len(parts) - 1} {
			elements = append(elements, bls12381.E2{A0: parts[i], A1: parts[j]}, bls12381.E2{A0: parts[j], A1: parts[i]})
		}
	}
	pairs := cross(elements)
	names := []string{"a*b", "a^2", "a+b", "a-b", "-a", "2a", "1/a"}
	for i, answer := range run(t, 'e', bytesOf(pairs), 96*len(names)) {
		a, b := pairs[i][0], pairs[i][1]
		var mul, sqr, add, sub, neg, dbl, inv bls12381.E2
		mul.Mul(&a, &b)
		sqr.Square(&a)
		add.Add(&a, &b)
		sub.Sub(&a, &b)
		neg.Neg(&a)
		dbl.Double(&a)
		inv.Inverse(&a)
		compare(t, i, answer, names, raw(&mul), raw(&sqr), raw(&add), raw(&sub), raw(&neg), raw(&dbl), raw(&inv))
	}
}

var curveNames = []string{"p+q", "scaled p+q", "scaled p+q of both", "p-q", "2p", "2p scaled", "p+p", "p-p", "0p", "1000003p"}

// scalars of the points: infinity, small ones, opposite ones, one with the endomorphism's x (equal y, other x), random ones.
func pointScalars() []*big.Int {
	return append([]*big.Int{big.NewInt(0), big.NewInt(1), big.NewInt(-1), big.NewInt(2), big.NewInt(-2), big.NewInt(3)}, special(fr.Modulus(), 8, 6)[20:]...)
}

func TestG1(t *testing.T) {
	_, _, g, _ := bls12381.Generators()
	var points []bls12381.G1Affine
	for _, k := range pointScalars() {
		var p bls12381.G1Affine
		p.ScalarMultiplication(&g, k)
		points = append(points, p)
	}
	pairs := cross(points)
	for i, answer := range run(t, '1', bytesOf(pairs), 96*len(curveNames)) {
		p, q := pairs[i][0], pairs[i][1]
		var add, sub, dbl, zero, times bls12381.G1Affine
		add.Add(&p, &q)
		sub.Sub(&p, &q)
		dbl.Double(&p)
		times.ScalarMultiplication(&p, big.NewInt(1000003))
		compare(t, i, answer, curveNames, raw(&add), raw(&add), raw(&add), raw(&sub), raw(&dbl), raw(&dbl), raw(&dbl), raw(&zero), raw(&zero), raw(&times))
	}
}

func TestG2(t *testing.T) {
	_, _, _, g := bls12381.Generators()
	var points []bls12381.G2Affine
	for _, k := range pointScalars() {
		var p bls12381.G2Affine
		p.ScalarMultiplication(&g, k)
		points = append(points, p)
	}
	pairs := cross(points)
	for i, answer := range run(t, '2', bytesOf(pairs), 192*len(curveNames)) {
		p, q := pairs[i][0], pairs[i][1]
		var add, sub, dbl, zero, times bls12381.G2Affine
		add.Add(&p, &q)
		sub.Sub(&p, &q)
		dbl.Double(&p)
		times.ScalarMultiplication(&p, big.NewInt(1000003))
		compare(t, i, answer, curveNames, raw(&add), raw(&add), raw(&add), raw(&sub), raw(&dbl), raw(&dbl), raw(&dbl), raw(&zero), raw(&zero), raw(&times))
	}
}

func cross[T any](v []T) [][2]T {
	pairs := make([][2]T, 0, len(v)*len(v))
	for i := range v {
		for j := range v {
			pairs = append(pairs, [2]T{v[i], v[j]})
		}
	}
	return pairs
}

func bytesOf[T any](pairs [][2]T) [][2][]byte {
	out := make([][2][]byte, len(pairs))
	for i := range pairs {
		out[i] = [2][]byte{raw(&pairs[i][0]), raw(&pairs[i][1])}
	}
	return out
}
