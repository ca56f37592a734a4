package circom

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weir-zk/weir/internal/circuitgen"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/slab"
)

// BenchmarkSynthesize is the way from a .wtns file to witness and evaluations in warm buffers, circuit parsed; the metrics are the opening before it and the bytes that
// must be moved at least: file, matrices, witness and evaluations, each once.
func BenchmarkSynthesize(b *testing.B) {
	const log2 = 20
	sha, err := circuitgen.SHA256ForRows(1<<log2, 1)
	if err != nil {
		b.Fatal(err)
	}
	rows := circuitgen.FillDomain(log2, 1)
	for _, x := range []struct {
		name string
		c    circuitgen.Circuit
	}{{"sha256", sha}, {"porep", circuitgen.PoRepMix(rows, 1)}, {"gnark", circuitgen.GnarkMix(rows, 1)}, {"dense", circuitgen.Dense{Rows: rows, Seed: 1}}} {
		circuit, witness, err := circuitgen.WriteFiles(b.TempDir(), x.name, x.c)
		if err != nil {
			b.Fatal(err)
		}
		for _, order := range []groth16.RowOrder{groth16.RowsSeven, groth16.RowsFive} {
			for _, check := range []string{"on", "off"} {
				b.Run(fmt.Sprintf("%s/%v/check=%s", x.name, order, check), func(b *testing.B) { benchSynthesize(b, circuit, witness, order, check) })
			}
		}
	}
}

func benchSynthesize(b *testing.B, circuit, witness string, order groth16.RowOrder, check string) {
	ctx := context.Background()
	pool := slab.NewPool(slab.PoolOptions{})
	syn := New(pool, Options{}).(*synthesizer)
	open := func() *contract.Session {
		ses, err := syn.Open(ctx, &contract.OpenRequest{Kind: Kind, Options: map[string]string{OptionCheck: check}, Inputs: []contract.Input{
			addFile(b, pool, contract.RoleCircuit, circuit, -1), addFile(b, pool, contract.RoleWitness, witness, 0)}})
		if err != nil {
			b.Fatal(err)
		}
		return ses
	}
	begin := time.Now()
	first := open()
	cold := time.Since(begin)
	begin = time.Now()
	ses := open()
	warm := time.Since(begin)
	p := ses.Partitions[0]
	k := groth16.DomainFor(p.NbConstraints, p.NbPublic)
	req := &contract.SynthesizeRequest{Session: ses.ID, LogDomain: k, Rows: order}
	moved := ses.ResidentBytes + 32*int64(p.NbWires) + p.WitnessBytes
	for i, to := range []*slab.Ref{&req.Witness, &req.A, &req.B, &req.C} {
		purpose, size := slab.Evaluations, int64(32)<<k
		if i == 0 {
			purpose, size = slab.Witness, p.WitnessBytes
		} else {
			moved += size
		}
		buf, err := pool.Get(purpose, size, "")
		if err != nil {
			b.Fatal(err)
		}
		defer buf.Free()
		clear(buf.Bytes())
		*to = buf.Ref()
	}
	b.SetBytes(moved)
	for b.Loop() {
		if _, err := syn.Synthesize(ctx, req); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(cold.Milliseconds()), "open-cold-ms")
	b.ReportMetric(float64(warm.Milliseconds()), "open-warm-ms")
	for _, s := range []*contract.Session{first, ses} {
		if err := syn.Close(ctx, s.ID); err != nil {
			b.Fatal(err)
		}
	}
}
