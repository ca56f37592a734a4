package keyfile

import (
	"context"
	"os"
	"unsafe"

	"github.com/consensys/gnark-crypto/ecc/bls12-381"

	"github.com/weir-zk/weir/sdk/encoding/bellman"
	"github.com/weir-zk/weir/sdk/encoding/snarkjs"
	"github.com/weir-zk/weir/sdk/encoding/wkey"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/r1cs"
)

// Options of OpenKey.
type Options struct {
	// Name is what errors call the file; "" is the *os.File's own name, which for a file handed over by another process is none that its user knows.
	Name string
	// Circuit is needed for a .params; where given for others it is compared with the key, and is the Key's System if it knows more (C).
	Circuit *r1cs.System
	// Map maps a .wkey instead of reading it. Only in plugins: a process that maps a file dies when another truncates it.
	Map bool
	// PointsOnly leaves the matrices and the transcript of a file alone, and Key.System nil: for a backend that is given evaluations. Checking the indexes of matrices takes one
	// pass over them otherwise.
	PointsOnly bool
	// CheckSubgroup tests every point of a .zkey or .params for the subgroup, and that what is there in both groups is the same in both: for a key that comes from elsewhere, once. Those of a .wkey were tested when it was made. A
	// prover does without: a point outside the subgroup costs a proof, and every proof is verified.
	CheckSubgroup bool
	// SkipChecksums leaves out the comparison of a .wkey's checksums, one pass over the file: for a file whose digest is known to be good.
	SkipChecksums bool
	// PreferOddCoset takes the H points of the odd coset where a .wkey has them beside monomial ones: a proof then needs one transform less. The key's
	// Shape.H and NbH tell which it is.
	PreferOddCoset bool
	// Tasks is the number of goroutines, at least one.
	Tasks int
}

// Section names a list of points, for Release.
type Section = wkey.SectionID

// Key is an open proving key.
type Key struct {
	*groth16.ProvingKey
	Kind       Kind
	System     *r1cs.System // nil if neither the file nor the caller has one
	Digest     r1cs.Digest  // of the circuit where the file tells it
	Transcript []byte       // a .zkey's record of contributions, for Export

	file *wkey.File
	h    Section
}

// HSection is the section that the H points lie in, for Release.
func (k *Key) HSection() Section {
	if k.h == 0 {
		return wkey.SecH
	}
	return k.h
}

// hIn is the key with its H points in the given basis, nil if it has none so.
func (k *Key) hIn(h groth16.HBasis) (*groth16.ProvingKey, error) {
	if k.Shape.H == h {
		return k.ProvingKey, nil
	}
	if k.file == nil {
		return nil, nil
	}
	pk, _, err := k.file.KeyWith(h)
	if err != nil || pk.Shape.H != h {
		return nil, err
	}
	return pk, nil
}

// AltH is the H points in the other basis than ProvingKey's, and that basis; nil when there are none. Those of a mapped key are mapped; else
// the first call reads them.
func (k *Key) AltH() ([]bls12381.G1Affine, groth16.HBasis, error) {
	other := groth16.HMonomial
	if k.Shape.H == groth16.HMonomial {
		other = groth16.HOddCoset
	}
	pk, err := k.hIn(other)
	if err != nil || pk == nil {
		return nil, other, err
	}
	return pk.H, other, nil
}

// ResidentBytes is the memory the points take when all were touched; those of a mapped key can be given back with Release.
func (k *Key) ResidentBytes() int64 {
	if k.file != nil {
		return k.file.Bytes()
	}
	g1 := int64(unsafe.Sizeof(bls12381.G1Affine{}))
	return g1*int64(len(k.A)+len(k.B1)+len(k.K)+len(k.H)) + 2*g1*int64(len(k.B2)) + 8*int64(len(k.AWires)+len(k.BWires))
}

// Mapped reports whether the points lie in a file mapping.
func (k *Key) Mapped() bool { return k.file != nil && k.file.Mapped() }

// Release gives the memory of mapped sections back until they are touched again; nothing happens to others.
func (k *Key) Release(sections ...Section) {
	if k.file != nil {
		k.file.Release(sections...)
	}
}

// Close unmaps. The key must not be used afterwards.
func (k *Key) Close() error {
	if k.file == nil {
		return nil
	}
	return k.file.Close()
}

// OpenKey opens a proving key of any format. Every error names the file.
func OpenKey(ctx context.Context, f *os.File, o Options) (*Key, error) {
	k, err := openKey(ctx, f, o)
	if err != nil {
		return nil, errs.InFile(err, nameOf(f, o.Name))
	}
	if o.PointsOnly {
		k.System = nil
	}
	return k, nil
}

func nameOf(f *os.File, name string) string {
	if name == "" {
		return f.Name()
	}
	return name
}

// sizeOf refuses what is not a regular file.
func sizeOf(f *os.File) (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, errs.Wrap(err, "read")
	}
	if st.IsDir() {
		return 0, errs.Mismatch(errs.InvalidFile, "read", "", "a file", "a directory")
	}
	if !st.Mode().IsRegular() {
		return 0, errs.Mismatch(errs.InvalidFile, "read", "", "a regular file", st.Mode().Type()).WithHint("keys are read at many places at once; copy it to a file first")
	}
	return st.Size(), nil
}

func openKey(ctx context.Context, f *os.File, o Options) (*Key, error) {
	size, err := sizeOf(f)
	if err != nil {
		return nil, err
	}
	kind, err := Sniff(f, size)
	if err != nil {
		return nil, err
	}
	switch kind {
	case WKey:
		return openWKey(ctx, f, size, o)
	case ZKey:
		return openZKey(ctx, f, size, o)
	case Params:
		p, err := bellman.Open(f, size)
		if err != nil {
			return nil, err
		}
		if o.Circuit == nil {
			return nil, needCircuit()
		}
		pk, err := p.ProvingKey(ctx, bellman.DensitiesOf(o.Circuit), bellman.Options{Tasks: o.Tasks, CheckSubgroup: o.CheckSubgroup})
		if err != nil {
			return nil, err
		}
		if o.CheckSubgroup {
			if err := checkPairs("read key", &pk.VK, pk.B1, pk.B2, o.Tasks, paramsPairs); err != nil {
				return nil, err
			}
		}
		return &Key{ProvingKey: pk, Kind: kind, System: o.Circuit}, nil
	}
	return nil, unusable("read key", "a proving key (.wkey, .zkey or .params)", kind)
}

// paramsPairs is where B1 and B2 of a .params are.
const paramsPairs = "b_g1, b_g2"

func needCircuit() error {
	return errs.New(errs.InvalidArgument, "read key", "a bellman key does not tell which wires its points belong to").
		WithHint("give the circuit with --circuit, or import the key once with weir key import")
}

func openZKey(ctx context.Context, f *os.File, size int64, o Options) (*Key, error) {
	z, err := snarkjs.OpenZKey(f, size)
	if err != nil {
		return nil, err
	}
	var sys *r1cs.System
	if !o.PointsOnly || o.Circuit != nil {
		if sys, err = z.System(ctx); err != nil {
			return nil, err
		}
	}
	pk, err := z.ProvingKey(ctx, snarkjs.ReadOptions{Tasks: o.Tasks, Subgroup: o.CheckSubgroup})
	if err != nil {
		return nil, err
	}
	k := &Key{ProvingKey: pk, Kind: ZKey, System: sys}
	if !o.PointsOnly {
		if k.Transcript, err = z.Transcript(); err != nil {
			return nil, err
		}
	}
	if o.Circuit == nil {
		return k, nil
	}
	if k.System, err = same(&pk.Shape, r1cs.Digest{}, sys, o.Circuit); err != nil {
		return nil, err
	}
	return k, nil
}

func openWKey(ctx context.Context, f *os.File, size int64, o Options) (*Key, error) {
	var file *wkey.File
	var err error
	if o.Map {
		file, err = wkey.Map(f, nameOf(f, o.Name))
	} else {
		file, err = wkey.Load(ctx, f, size, wkey.LoadOptions{Tasks: o.Tasks, SkipChecksums: o.SkipChecksums})
	}
	if err != nil {
		return nil, err
	}
	if o.Map && !o.SkipChecksums {
		err = file.VerifyChecksums(ctx, f, o.Tasks)
	}
	var sys *r1cs.System
	if err == nil && (!o.PointsOnly || o.Circuit != nil) {
		sys, err = file.System()
	}
	if err == nil && o.Circuit != nil {
		if file.Digest == (r1cs.Digest{}) && sys == nil {
			err = Check(file.Key(), file.Digest, o.Circuit)
			sys = o.Circuit
		} else {
			sys, err = same(&file.Shape, file.Digest, sys, o.Circuit)
		}
	}
	var transcript []byte
	if err == nil && !o.PointsOnly {
		transcript, err = file.Transcript(f)
	}
	pk, section := file.Key(), wkey.SecH
	if err == nil && o.PreferOddCoset {
		pk, section, err = file.KeyWith(groth16.HOddCoset)
	}
	if err != nil {
		_ = file.Close() // the first error says more
		return nil, err
	}
	return &Key{ProvingKey: pk, Kind: WKey, System: sys, Digest: file.Digest, Transcript: transcript, file: file, h: section}, nil
}

// same checks that a circuit given beside a key is the key's own, and returns the one of the two that knows more. own is the one in the file, or nil;
// digest what the file says about it, or zero.
func same(s *groth16.Shape, digest r1cs.Digest, own, given *r1cs.System) (*r1cs.System, error) {
	if err := CheckShape(s, given); err != nil {
		return nil, err
	}
	if digest == (r1cs.Digest{}) && own != nil {
		digest = own.Digest()
	}
	if digest != (r1cs.Digest{}) {
		if err := CheckDigest(digest, given.Digest()); err != nil {
			return nil, err
		}
	}
	if own != nil && (own.HasC || !given.HasC) {
		return own, nil
	}
	return given, nil
}
