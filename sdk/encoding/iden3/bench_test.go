package iden3

import (
	"bytes"
	"testing"

	"github.com/weir-zk/weir/internal/testfiles"
)

func BenchmarkR1CS(b *testing.B) {
	raw := testfiles.Fixture(b, "sha256_64", "circuit.r1cs")
	f, err := openR1CS(raw)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.System(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkWitness(b *testing.B) {
	raw := testfiles.Fixture(b, "sha256_64", "witness.wtns")
	f, err := OpenWitness(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		if _, err := f.Vector(ctx); err != nil {
			b.Fatal(err)
		}
	}
}
