package circuit_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	cpu "github.com/weir-zk/weir/backend-cpu"
	"github.com/weir-zk/weir/host"
	"github.com/weir-zk/weir/plugins/circom"
	"github.com/weir-zk/weir/sdk/circuit"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/encoding/iden3"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/slab"
)

// From a circuit to a verified proof: recorded form, development key, witness, proof. Files are those of the command line, so "weir setup" and "weir prove" do the same.
func Example_prove() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	file := func(name string, write func(f *os.File) error) string {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			log.Fatal(err)
		}
		if err := write(f); err != nil {
			log.Fatal(err)
		}
		if err := f.Close(); err != nil {
			log.Fatal(err)
		}
		return f.Name()
	}
	e, err := host.New(ctx, host.Config{
		MemoryBudget: 1 << 30,
		Backends:     []host.BackendConfig{{Name: "cpu", New: func(r slab.Resolver) (contract.Prover, error) { return cpu.New(r, cpu.Options{}), nil }}},
		Synthesizers: []host.SynthesizerConfig{{Name: "circom", New: func(r slab.Resolver) (contract.Synthesizer, error) { return circom.New(r, circom.Options{}), nil }}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close(ctx)

	// Once a circuit.
	shape := file("cubic.shape", func(f *os.File) error {
		_, err := circuit.WriteShape(ctx, f, &cubic{})
		return err
	})
	key := filepath.Join(dir, "cubic.wkey")
	if _, err := e.Setup(ctx, &host.SetupJob{Circuit: shape, Out: key}); err != nil {
		log.Fatal(err)
	}

	// Once a proof.
	secret := &cubic{X: fr.NewElement(3), Y: fr.NewElement(35)}
	w, _, err := circuit.NewWitness(ctx, secret, 1)
	if err != nil {
		log.Fatal(err)
	}
	witness := file("cubic.wtns", func(f *os.File) error {
		return iden3.WriteWitness(f, w.Len(), func(yield func(fr.Element) bool) {
			for i := range w.Len() {
				if !yield(w.At(i)) {
					return
				}
			}
		})
	})
	r, err := e.Prove(ctx, &host.Job{Key: key, Partitions: []host.Partition{{Witness: witness}}})
	if err != nil {
		log.Fatal(err)
	}

	// Whoever has the verifying key.
	v, err := groth16.NewVerifier(r.VK)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(v.Verify(&r.Proofs[0], []fr.Element{fr.NewElement(35)}))
	fmt.Println(v.Verify(&r.Proofs[0], []fr.Element{fr.NewElement(36)}) != nil)
	// Output:
	// <nil>
	// true
}
