// Package dict numbers the distinct coefficients of a constraint system while its file is read.
package dict

import (
	"encoding/binary"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
)

// cacheSize is a power of two. Circuits repeat a handful of coefficients, so that nearly every look-up ends in the cache.
const cacheSize = 256

type slot struct {
	key [fr.Limbs]uint64
	id  uint32
	set bool
}

// Dict maps the 32 bytes of a coefficient, as a file has them, to its index in Coeffs. Index 0 is the element one.
type Dict struct {
	Coeffs []fr.Element
	decode func(limbs [fr.Limbs]uint64) fr.Element
	index  map[[fr.Limbs]uint64]uint32
	cache  [cacheSize]slot
}

// New starts a dictionary. decode turns little-endian limbs below r into an element; it must map different limbs to different elements.
func New(decode func(limbs [fr.Limbs]uint64) fr.Element) *Dict {
	return &Dict{Coeffs: []fr.Element{fr.One()}, decode: decode, index: map[[fr.Limbs]uint64]uint32{}}
}

// Plain is the decode function of files that hold canonical values.
func Plain(limbs [fr.Limbs]uint64) fr.Element {
	var b [fr.Bytes]byte
	for i, l := range limbs {
		binary.LittleEndian.PutUint64(b[8*i:], l)
	}
	x, _ := fr.LittleEndian.Element(&b) // ID has compared with r
	return x
}

// DoubleMontgomery is the decode function of .zkey files, which hold n R^2 for the coefficient n (R = 2^256): one reduction gives the n R that
// an element holds in memory.
func DoubleMontgomery(limbs [fr.Limbs]uint64) fr.Element {
	x := fr.Element(limbs)
	return fr.Element(x.Bits())
}

// modulus is r, least significant limb first.
var modulus = func() (m [fr.Limbs]uint64) {
	b := fr.Modulus().FillBytes(make([]byte, fr.Bytes))
	for i := range m {
		m[i] = binary.BigEndian.Uint64(b[fr.Bytes-8*(i+1):])
	}
	return m
}()

// Limbs splits 32 little-endian bytes.
func Limbs(b []byte) [fr.Limbs]uint64 {
	_ = b[fr.Bytes-1]
	return [fr.Limbs]uint64{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint64(b[24:])}
}

// BelowModulus reports whether the value of limbs is below r.
func BelowModulus(limbs [fr.Limbs]uint64) bool {
	for i := fr.Limbs - 1; i >= 0; i-- {
		if limbs[i] != modulus[i] {
			return limbs[i] < modulus[i]
		}
	}
	return false
}

// ID returns the index of the coefficient whose 32 bytes are b; false when its value is not below r.
func (d *Dict) ID(b []byte) (uint32, bool) {
	k := Limbs(b)
	// Small integers differ in the lowest limb, their negatives too; Montgomery values in all.
	s := &d.cache[(k[0]*0x9e3779b97f4a7c15)>>56]
	if s.set && s.key == k {
		return s.id, true
	}
	id, ok := d.index[k]
	if !ok {
		if !BelowModulus(k) {
			return 0, false
		}
		if x := d.decode(k); !x.IsOne() {
			id = uint32(len(d.Coeffs))
			d.Coeffs = append(d.Coeffs, x)
		}
		d.index[k] = id
	}
	*s = slot{key: k, id: id, set: true}
	return id, true
}
