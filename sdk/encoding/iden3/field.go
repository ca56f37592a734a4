package iden3

import (
	"encoding/binary"
	"fmt"
	"math/big"
	"slices"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/errs"
)

// fieldHead is u32 n8 and the prime: the start of the headers of .r1cs and .wtns.
const fieldHead = 4 + fr.Bytes

// primes of circom's --prime option, for messages. circom's default is bn128.
var primes = map[string]string{
	"21888242871839275222246405745257275088548364400416034343698204186575808495617": "bn128",
	"28948022309329048855892746252171976963363056481941560715954676764349967630337": "pallas",
	"28948022309329048855892746252171976963363056481941647379679742748393362948097": "vesta",
	"18446744069414584321": "goldilocks",
	"115792089210356248762697446949407573530086143415290314195533631308867097853951": "secq256r1",
	"8444461749428370424248824938781546531375899335154063827935233455917409239041":   "bls12-377",
	"21888242871839275222246405745257275088696311157297823662689037894645226208583":  "grumpkin",
}

func reversed(b []byte) []byte {
	b = slices.Clone(b)
	slices.Reverse(b)
	return b
}

// checkField reads n8 and the prime at the start of section s and refuses all but the scalar field of BLS12-381.
func (c *Container) checkField(s Section) error {
	var b [4]byte
	if err := c.ReadAt(s, b[:], 0); err != nil {
		return err
	}
	n8 := binary.LittleEndian.Uint32(b[:])
	if n8 == 0 || n8%8 != 0 || n8 > 256 {
		return c.Bad(errs.InvalidFile, s.Where(), "a field size in bytes that is a multiple of 8", n8)
	}
	p := make([]byte, n8)
	if err := c.ReadAt(s, p, 4); err != nil {
		return err
	}
	prime := new(big.Int).SetBytes(reversed(p))
	if prime.Cmp(fr.Modulus()) == 0 && n8 == fr.Bytes {
		return nil
	}
	found := "the prime " + prime.String()
	if name, ok := primes[prime.String()]; ok {
		found = "the prime of " + name
	} else if n8 != fr.Bytes {
		found = fmt.Sprintf("%d bytes, %s", n8, found)
	}
	return c.Bad(errs.Unsupported, s.Where(), "the scalar field of bls12-381", found).WithHint("compile the circuit with circom --prime bls12381")
}

// fieldHeader writes n8 and the prime.
func (e *Writer) fieldHeader() {
	e.U32(fr.Bytes)
	e.Bytes(reversed(fr.Modulus().FillBytes(make([]byte, fr.Bytes))))
}
