package keyfile

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/weir-zk/weir/sdk/circuit"
	"github.com/weir-zk/weir/sdk/encoding/bellman"
	"github.com/weir-zk/weir/sdk/encoding/iden3"
	"github.com/weir-zk/weir/sdk/encoding/snarkjs"
	"github.com/weir-zk/weir/sdk/encoding/wkey"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/r1cs"
)

// Report says what a file is: for `weir inspect`. Fields that do not concern the kind are absent.
type Report struct {
	Name string `json:"name"`
	Kind Kind   `json:"kind"`
	Text string `json:"text"` // the kind for people
	Size int64  `json:"size"`

	Protocol     string          `json:"protocol,omitempty"` // of a .zkey
	Key          *KeyReport      `json:"key,omitempty"`
	Circuit      *CircuitReport  `json:"circuit,omitempty"`
	VerifyingKey *VKReport       `json:"verifying_key,omitempty"`
	Sections     []SectionReport `json:"sections,omitempty"`
	Source       *SourceReport   `json:"source,omitempty"`        // of a .wkey
	Creator      string          `json:"creator,omitempty"`       // of a .wkey
	Ceremony     []Contribution  `json:"contributions,omitempty"` // of a .zkey
	Witness      *WitnessReport  `json:"witness,omitempty"`
	Proofs       int             `json:"proofs,omitempty"`
	Public       []int           `json:"public_inputs,omitempty"` // how many, for each proof
	// TrailingBytes follow the last list of a .params: a ceremony's transcript; weir does not use them.
	TrailingBytes int64 `json:"trailing_bytes,omitempty"`
}

// KeyReport is the shape of a proving key.
type KeyReport struct {
	LogDomain int    `json:"log2_domain"`
	Wires     int    `json:"wires"`
	Public    int    `json:"public_inputs"`
	Rows      int    `json:"rows"` // -1: the file does not tell
	PointsA   int    `json:"points_a"`
	PointsB   int    `json:"points_b"`
	PointsK   int    `json:"points_k"`
	PointsH   int    `json:"points_h"`
	RowOrder  string `json:"row_order"`
	Basis     string `json:"h_basis"`
	AltBasis  string `json:"h_basis_too,omitempty"` // of a .wkey that has H in both
	Insecure  bool   `json:"insecure"`
	Matrices  string `json:"matrices,omitempty"` // "AB" or "ABC" when the file carries them
}

// CircuitReport is a constraint system. Digests are hex; they are computed only by a deep inspection, but for a .wkey, which has them.
type CircuitReport struct {
	Rows      int    `json:"rows"`
	Wires     int    `json:"wires"`
	Public    int    `json:"public"`
	Outputs   int    `json:"outputs,omitempty"`
	Private   int    `json:"private_inputs,omitempty"`
	NonZeroA  int    `json:"nonzero_a,omitempty"`
	NonZeroB  int    `json:"nonzero_b,omitempty"`
	NonZeroC  int    `json:"nonzero_c,omitempty"`
	Coeffs    int    `json:"distinct_coefficients,omitempty"`
	DigestAB  string `json:"digest_ab,omitempty"`
	DigestABC string `json:"digest_abc,omitempty"`
}

// VKReport is a verifying key.
type VKReport struct {
	Public int `json:"public_inputs"`
}

// SectionReport is a part of a file.
type SectionReport struct {
	Name   string `json:"name"`
	Offset int64  `json:"offset"`
	Count  int64  `json:"count"`
	Bytes  int64  `json:"bytes"`
}

// SourceReport is what a prepared key was made from.
type SourceReport struct {
	Kind    string `json:"kind"`
	Size    int64  `json:"size,omitempty"`
	Blake2b string `json:"blake2b_512,omitempty"`
}

// WitnessReport counts a witness. Its values are secret and never shown.
type WitnessReport struct {
	Values  int  `json:"values"`
	NonBits *int `json:"neither_0_nor_1,omitempty"` // deep inspections only
}

// Contribution is an entry of a ceremony's record.
type Contribution struct {
	Name   string `json:"name"`
	Beacon bool   `json:"beacon,omitempty"`
}

// Inspect says what a file is and how large its parts are, by pread. deep also reads circuits, for their digests and non-zero counts, and whole
// witnesses. The report has name, kind and size even when the file turns out to be damaged; the error then says where.
func Inspect(ctx context.Context, r io.ReaderAt, size int64, name string, deep bool) (*Report, error) {
	p := &Report{Name: name, Size: size}
	var err error
	if p.Kind, err = Sniff(r, size); err != nil {
		p.Kind, p.Text = Unknown, Unknown.Text()
		return p, err
	}
	p.Text = p.Kind.Text()
	whole := io.NewSectionReader(r, 0, size)
	switch p.Kind {
	case WKey:
		err = p.wkey(ctx, r, deep)
	case ZKey:
		err = p.zkey(ctx, r, deep)
	case Params:
		err = p.params(r)
	case R1CS:
		err = p.r1cs(ctx, r, deep)
	case Shape:
		err = p.recorded(ctx, r, deep)
	case Witness:
		err = p.witness(ctx, r, deep)
	case VK:
		var vk *groth16.VerifyingKey
		if vk, err = bellman.ReadVerifyingKey(r, size); err == nil {
			p.VerifyingKey = &VKReport{Public: vk.NbPublic()}
		}
	case VKJSON:
		var vk *groth16.VerifyingKey
		if vk, err = snarkjs.ReadVerifyingKey(whole); err == nil {
			p.VerifyingKey = &VKReport{Public: vk.NbPublic()}
		}
	case Proofs, ProofJSON:
		var proofs []groth16.Proof
		proofs, _, err = OpenProofs(r, size)
		p.Proofs = len(proofs)
	case PublicJSON:
		lists, _, perr := snarkjs.ReadPublic(whole)
		for _, l := range lists {
			p.Public = append(p.Public, len(l))
		}
		err = perr
	case Empty, Markup, Gzip, Unknown:
		err = unusable("inspect", "a file that weir knows", p.Kind)
	}
	return p, err
}

func (p *Report) shape(s *groth16.Shape) {
	p.Key = &KeyReport{LogDomain: s.LogDomain, Wires: s.NbWires, Public: s.NbPublic, Rows: s.NbConstraints, PointsA: s.NbA, PointsB: s.NbB, PointsK: s.NbPrivate(), PointsH: s.NbH,
		RowOrder: s.Rows.String(), Basis: s.H.String(), Insecure: s.Insecure}
	if s.HasMatrices {
		p.Key.Matrices = "AB"
	}
	if s.HasC {
		p.Key.Matrices = "ABC"
	}
	p.VerifyingKey = &VKReport{Public: s.NbPublic}
}

func digestHex(d [32]byte) string {
	if d == ([32]byte{}) {
		return ""
	}
	return hex.EncodeToString(d[:])
}

func (p *Report) system(s *r1cs.System, d r1cs.Digest) {
	if p.Circuit == nil {
		p.Circuit = &CircuitReport{Rows: s.NbConstraints(), Wires: s.NbWires, Public: s.NbPublic}
	}
	c := p.Circuit
	c.NonZeroA, c.NonZeroB, c.NonZeroC, c.Coeffs = s.A.NNZ(), s.B.NNZ(), s.C.NNZ(), len(s.Coeffs)
	c.DigestAB, c.DigestABC = digestHex(d.AB), digestHex(d.ABC)
}

// recorded is a .shape; its header has what takes a deep inspection elsewhere.
func (p *Report) recorded(ctx context.Context, r io.ReaderAt, deep bool) error {
	n, terms, err := circuit.ShapeSizes(r, p.Size)
	if err != nil {
		return err
	}
	p.Circuit = &CircuitReport{Rows: n.Rows, Wires: n.Wires(), Public: n.Inputs - 1, NonZeroA: int(terms[0]), NonZeroB: int(terms[1]), NonZeroC: int(terms[2])}
	if !deep {
		return nil
	}
	s, err := OpenCircuit(ctx, r, p.Size, 1)
	if s != nil {
		p.system(s, s.Digest())
	}
	return err
}

func (p *Report) wkey(ctx context.Context, r io.ReaderAt, deep bool) error {
	h, err := wkey.ReadHeader(r, p.Size)
	if err != nil {
		return err
	}
	p.shape(&h.Shape)
	if alt, ok := h.AltBasis(); ok {
		p.Key.AltBasis = alt.String()
	}
	p.Creator = h.Creator
	p.Source = &SourceReport{Kind: h.Source.Kind.String(), Size: h.Source.Size}
	if h.Source.Digest != ([64]byte{}) {
		p.Source.Blake2b = hex.EncodeToString(h.Source.Digest[:])
	}
	for _, s := range h.Sections {
		p.Sections = append(p.Sections, SectionReport{Name: s.ID.String(), Offset: s.Offset, Count: s.Count, Bytes: s.Length})
	}
	if h.Shape.HasMatrices || h.Digest != (r1cs.Digest{}) {
		p.Circuit = &CircuitReport{Rows: h.Shape.NbConstraints, Wires: h.Shape.NbWires, Public: h.Shape.NbPublic, DigestAB: digestHex(h.Digest.AB), DigestABC: digestHex(h.Digest.ABC)}
	}
	if _, err := h.VerifyingKey(r); err != nil {
		return err
	}
	if !deep {
		return nil
	}
	if err := h.VerifyChecksums(ctx, r, 1); err != nil {
		return err
	}
	s, err := h.ReadSystem(ctx, r, 1)
	if s != nil {
		p.system(s, s.Digest())
	}
	return err
}

func (p *Report) zkey(ctx context.Context, r io.ReaderAt, deep bool) error {
	p.Protocol = zkeyProtocol(r, p.Size)
	z, err := snarkjs.OpenZKey(r, p.Size)
	if err != nil {
		return err
	}
	s, err := z.Shape(ctx)
	if err != nil {
		return err
	}
	p.shape(&s)
	c, err := z.Contributions()
	if err != nil {
		return err
	}
	for _, x := range c.List {
		p.Ceremony = append(p.Ceremony, Contribution{Name: x.Name, Beacon: x.Beacon})
	}
	if !deep {
		return nil
	}
	sys, err := z.System(ctx)
	if err != nil {
		return err
	}
	p.system(sys, sys.Digest())
	return nil
}

// zkeyProtocol reads section 1, "" where it cannot.
func zkeyProtocol(r io.ReaderAt, size int64) string {
	c, err := iden3.OpenContainer(r, size, "zkey", 1)
	if err != nil {
		return ""
	}
	s, ok := c.Find(1)
	var b [4]byte
	if !ok || c.ReadAt(s, b[:], 0) != nil {
		return ""
	}
	switch n := binary.LittleEndian.Uint32(b[:]); n {
	case 1:
		return "groth16"
	case 2:
		return "plonk"
	case 10:
		return "fflonk"
	default:
		return fmt.Sprintf("protocol %d", n)
	}
}

func (p *Report) params(r io.ReaderAt) error {
	f, err := bellman.Open(r, p.Size)
	if err != nil {
		return err
	}
	s := f.Shape()
	p.shape(&s)
	p.TrailingBytes = f.TrailingBytes()
	for _, x := range f.Layout.Sections() {
		p.Sections = append(p.Sections, SectionReport{Name: x.Name, Offset: x.Offset, Count: int64(x.Count), Bytes: x.End() - x.Offset})
	}
	_, err = f.VerifyingKey()
	return err
}

func (p *Report) r1cs(ctx context.Context, r io.ReaderAt, deep bool) error {
	f, err := iden3.OpenR1CS(r, p.Size)
	if err != nil {
		return err
	}
	h := f.Header()
	p.Circuit = &CircuitReport{Rows: h.NbConstraints, Wires: h.NbWires, Public: h.NbPublic(), Outputs: h.NbPubOut, Private: h.NbPrvIn}
	if !deep {
		return nil
	}
	s, err := f.System(ctx)
	if err != nil {
		return err
	}
	p.system(s, s.Digest())
	return nil
}

func (p *Report) witness(ctx context.Context, r io.ReaderAt, deep bool) error {
	f, err := iden3.OpenWitness(r, p.Size)
	if err != nil {
		return err
	}
	p.Witness = &WitnessReport{Values: f.Len()}
	if !deep {
		return nil
	}
	n, err := f.Scan(ctx)
	p.Witness.NonBits = &n
	return err
}
