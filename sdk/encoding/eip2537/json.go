package eip2537

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	bls "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
)

// maxJSON bounds a file.
const maxJSON = 64 << 20

// Format marks the JSON files of this package.
const Format = "eip-2537"

// keyFile is a verifying key. All points are 0x and lower-case hex of their encoding.
type keyFile struct {
	Format   string   `json:"format"`
	Protocol string   `json:"protocol"`
	NbPublic int      `json:"nPublic"`
	Alpha    string   `json:"alpha1"`
	Beta     string   `json:"beta2"`
	Gamma    string   `json:"gamma2"`
	Delta    string   `json:"delta2"`
	IC       []string `json:"ic"`
}

// proofFile is a proof with its public inputs and, ready to be sent, the inputs of the two precompiles.
type proofFile struct {
	Format   string   `json:"format"`
	Protocol string   `json:"protocol"`
	A        string   `json:"a"`
	B        string   `json:"b"`
	C        string   `json:"c"`
	Public   []string `json:"public"`
	MSM      string   `json:"g1msmInput,omitempty"`
	Pairing  string   `json:"pairingInput,omitempty"`
}

func hexOf(b []byte) string { return "0x" + hex.EncodeToString(b) }

func bytesOf(s, where string, n int) ([]byte, error) {
	h, ok := strings.CutPrefix(s, "0x")
	if !ok || len(h) != 2*n {
		return nil, bad(errs.InvalidFile, where, fmt.Sprintf("0x and %d hex digits", 2*n), fmt.Sprintf("%d characters", len(s)))
	}
	b, err := hex.DecodeString(h)
	if err != nil {
		return nil, &errs.Error{Class: errs.InvalidFile, Op: op, Where: where, Err: err}
	}
	return b, nil
}

func write(w io.Writer, v any) error {
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return &errs.Error{Class: errs.Internal, Op: op, Err: err}
	}
	_, err = w.Write(append(b, '\n'))
	return errs.Wrap(err, op)
}

func read(r io.Reader, v any, format *string) error {
	b, err := io.ReadAll(io.LimitReader(r, maxJSON+1))
	if err != nil {
		return errs.Wrap(err, op)
	}
	if len(b) > maxJSON {
		return bad(errs.Exhausted, "", fmt.Sprintf("at most %d bytes of JSON", maxJSON), "more")
	}
	if err := json.Unmarshal(b, v); err != nil {
		return &errs.Error{Class: errs.InvalidFile, Op: op, Err: err}
	}
	if *format != Format {
		return bad(errs.InvalidFile, "format", Format, fmt.Sprintf("%q", *format))
	}
	return nil
}

// WriteVerifyingKey writes vk as JSON with hex strings.
func WriteVerifyingKey(w io.Writer, vk *groth16.VerifyingKey) error {
	f := keyFile{Format: Format, Protocol: "groth16", NbPublic: vk.NbPublic(), Alpha: hexOf(AppendG1(nil, &vk.AlphaG1)), Beta: hexOf(AppendG2(nil, &vk.BetaG2)),
		Gamma: hexOf(AppendG2(nil, &vk.GammaG2)), Delta: hexOf(AppendG2(nil, &vk.DeltaG2)), IC: []string{}}
	for i := range vk.IC {
		f.IC = append(f.IC, hexOf(AppendG1(nil, &vk.IC[i])))
	}
	return write(w, f)
}

// ReadVerifyingKey reads what WriteVerifyingKey wrote. BetaG1 and DeltaG1 are not in the file and stay infinity.
func ReadVerifyingKey(r io.Reader) (*groth16.VerifyingKey, error) {
	var f keyFile
	if err := read(r, &f, &f.Format); err != nil {
		return nil, err
	}
	if len(f.IC) == 0 || f.NbPublic != len(f.IC)-1 {
		return nil, bad(errs.InvalidFile, "ic", fmt.Sprintf("%d points for nPublic %d", f.NbPublic+1, f.NbPublic), len(f.IC))
	}
	vk := &groth16.VerifyingKey{}
	if err := g1(f.Alpha, "alpha1", &vk.AlphaG1); err != nil {
		return nil, err
	}
	for _, x := range []struct {
		text, where string
		p           *bls.G2Affine
	}{{f.Beta, "beta2", &vk.BetaG2}, {f.Gamma, "gamma2", &vk.GammaG2}, {f.Delta, "delta2", &vk.DeltaG2}} {
		if err := g2(x.text, x.where, x.p); err != nil {
			return nil, err
		}
	}
	if vk.AlphaG1.IsInfinity() || vk.BetaG2.IsInfinity() || vk.GammaG2.IsInfinity() || vk.DeltaG2.IsInfinity() {
		return nil, bad(errs.InvalidFile, "alpha1, beta2, gamma2, delta2", "finite points", "infinity")
	}
	vk.IC = make([]bls.G1Affine, len(f.IC))
	for i := range f.IC {
		if err := g1(f.IC[i], fmt.Sprintf("ic[%d]", i), &vk.IC[i]); err != nil {
			return nil, err
		}
	}
	return vk, nil
}

func g1(text, where string, p *bls.G1Affine) error {
	b, err := bytesOf(text, where, SizeG1)
	if err == nil {
		*p, err = DecodeG1(b)
	}
	return errs.Wrap(err, where)
}

func g2(text, where string, p *bls.G2Affine) error {
	b, err := bytesOf(text, where, SizeG2)
	if err == nil {
		*p, err = DecodeG2(b)
	}
	return errs.Wrap(err, where)
}

// WriteProof writes a proof and its public inputs as JSON with hex strings. With the key (vk may be nil) the file also has the inputs of G1MSM and PAIRING_CHECK.
func WriteProof(w io.Writer, vk *groth16.VerifyingKey, proof *groth16.Proof, public []fr.Element) error {
	f := proofFile{Format: Format, Protocol: "groth16", A: hexOf(AppendG1(nil, &proof.A)), B: hexOf(AppendG2(nil, &proof.B)), C: hexOf(AppendG1(nil, &proof.C)), Public: []string{}}
	for i := range public {
		f.Public = append(f.Public, hexOf(AppendScalar(nil, &public[i])))
	}
	if vk != nil {
		msm, err := MSMInput(vk, public)
		if err != nil {
			return err
		}
		sum, err := Sum(vk, public)
		if err != nil {
			return err
		}
		f.MSM, f.Pairing = hexOf(msm), hexOf(PairingInput(vk, proof, &sum))
	}
	return write(w, f)
}

// ReadProof reads the points and the public inputs that WriteProof wrote; the precompiles' inputs are passed over.
func ReadProof(r io.Reader) (*groth16.Proof, []fr.Element, error) {
	var f proofFile
	if err := read(r, &f, &f.Format); err != nil {
		return nil, nil, err
	}
	p := &groth16.Proof{}
	if err := g1(f.A, "a", &p.A); err != nil {
		return nil, nil, err
	}
	if err := g2(f.B, "b", &p.B); err != nil {
		return nil, nil, err
	}
	if err := g1(f.C, "c", &p.C); err != nil {
		return nil, nil, err
	}
	public := make([]fr.Element, len(f.Public))
	for i := range f.Public {
		where := fmt.Sprintf("public[%d]", i)
		b, err := bytesOf(f.Public[i], where, SizeScalar)
		if err != nil {
			return nil, nil, err
		}
		if err := public[i].SetBytesCanonical(b); err != nil {
			return nil, nil, bad(errs.InvalidFile, where, "a value below the group order r", f.Public[i])
		}
	}
	return p, public, nil
}
