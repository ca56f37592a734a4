package model

import (
	_ "embed"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/BurntSushi/toml"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/encoding/snarkjs"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/slab"
)

// keyMagic is the first line of a key file of the model. A circuit's entry of a profile follows.
const keyMagic = "# key of weir's model: it proves nothing but the model's own tiny circuit\n"

// maxKey bounds a key file.
const maxKey = 64 << 10

// WriteKey writes the key file of a circuit.
func WriteKey(w io.Writer, c *Circuit) error {
	if _, err := io.WriteString(w, keyMagic); err != nil {
		return err
	}
	return toml.NewEncoder(w).Encode(c)
}

// ReadKey reads a key file of size bytes: which circuit it is for, and the verifying key of the tiny circuit. Errors are of class InvalidFile.
func ReadKey(r io.ReaderAt, size int64) (*Circuit, *groth16.VerifyingKey, error) {
	const op = "read key of the model"
	if size > maxKey {
		return nil, nil, errs.Mismatch(errs.InvalidFile, op, "", "at most 64 KiB", fmt.Sprintf("%d bytes", size))
	}
	text := make([]byte, size)
	if _, err := r.ReadAt(text, 0); err != nil && err != io.EOF {
		return nil, nil, errs.Wrap(err, op)
	}
	if !strings.HasPrefix(string(text), keyMagic) {
		return nil, nil, errs.Mismatch(errs.InvalidFile, op, "", "a file that the model wrote", "another kind of file")
	}
	var c Circuit
	if err := decode(op, string(text), &c); err != nil {
		return nil, nil, err
	}
	if err := c.Validate(); err != nil {
		return nil, nil, err
	}
	t, err := tiny()
	if err != nil {
		return nil, nil, err
	}
	vk := *t.vk
	return &c, &vk, nil
}

func (m *model) readKey(h slab.Handle) (*Circuit, error) {
	v, err := m.r.File(h)
	if err != nil {
		return nil, err
	}
	c, _, err := ReadKey(v, v.Size())
	return c, err
}

// tinyPublic is the number of public inputs of the tiny circuit.
const tinyPublic = 1

// The key, proof and public input of tiny/circuit.circom were made with circom and snarkjs, like those of the fixture "multiplier" of weir's tests.
var (
	//go:embed tiny/vkey.json
	tinyKey []byte
	//go:embed tiny/proof.json
	tinyProof []byte
	//go:embed tiny/public.json
	tinyInputs []byte
)

// example is a true statement and its proof.
type example struct {
	vk     *groth16.VerifyingKey
	proof  groth16.Proof
	public []fr.Element
}

var tiny = sync.OnceValues(func() (*example, error) {
	vk, err := snarkjs.ParseVerifyingKey(tinyKey)
	if err != nil {
		return nil, err
	}
	proofs, _, err := snarkjs.ParseProofs(tinyProof)
	if err != nil {
		return nil, err
	}
	public, _, err := snarkjs.ParsePublic(tinyInputs)
	if err != nil {
		return nil, err
	}
	if len(proofs) != 1 || len(public) != 1 || len(public[0]) != tinyPublic || vk.NbPublic() != tinyPublic {
		return nil, errs.New(errs.Internal, "read the model's proof", "%d proofs, %d lists of public inputs, a key for %d", len(proofs), len(public), vk.NbPublic())
	}
	return &example{vk: vk, proof: proofs[0], public: public[0]}, nil
})
