package host

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	cpu "github.com/weir-zk/weir/backend-cpu"
	"github.com/weir-zk/weir/internal/circuitgen"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/encoding/iden3"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/slab"
)

// A set-up reserves what its circuit's header says, is refused with that number when the budget is a byte less, and leaves no file then.
func TestSetupReservesWhatItTakes(t *testing.T) {
	dir := t.TempDir()
	r1cs, _, err := circuitgen.WriteFiles(dir, "c", circuitgen.Dense{Rows: 300, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(r1cs)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	file, err := iden3.OpenR1CS(f, st.Size())
	if err != nil {
		t.Fatal(err)
	}
	h := file.Header()
	need := setupBytes(h.NbConstraints, h.NbWires, h.NbPublic(), (st.Size()-12*int64(h.NbConstraints))/36, 1)
	w := newWorld(t)
	for _, short := range []int64{1, 0} {
		cfg := Config{Threads: 1, MemoryBudget: need - short, Backends: []BackendConfig{{Name: "cpu", New: func(r slab.Resolver) (contract.Prover, error) { return cpu.New(r, cpu.Options{}), nil }}}}
		s := w.synth()
		e, _ := w.start(cfg, s)
		out := filepath.Join(dir, "k.wkey")
		r, err := e.Setup(context.Background(), &SetupJob{Circuit: r1cs, Out: out})
		if short > 0 {
			if !errs.Is(err, errs.Exhausted) || !strings.Contains(err.Error(), fmt.Sprintf("%d bytes", need)) {
				t.Errorf("a budget of one byte less: %v", err)
			}
			if left, _ := filepath.Glob(filepath.Join(dir, "*wkey*")); len(left) != 0 {
				t.Errorf("left behind: %v", left)
			}
		} else if err != nil || r.Peak.PeakReserved != need {
			t.Errorf("with just enough: %+v, %v", r, err)
		}
		w.finish(e, s)
	}
}

// The estimate is no less than what the set-up documents, and not much more: 32 bytes a row of the domain, 64 a wire, 8 a term, 12 a row, and at most
// 144 MiB of tables.
func TestSetupBytes(t *testing.T) {
	for _, tc := range []struct{ rows, wires, public, terms int64 }{
		{0, 1, 0, 0}, {1, 2, 0, 3}, {1<<20 - 1, 1 << 20, 0, 5 << 20}, {1 << 20, 1 << 20, 10, 9 << 20}, {1 << 27, 130 << 20, 100, 1 << 30},
	} {
		domain := int64(1)
		for domain < tc.rows+tc.public+1 {
			domain *= 2
		}
		least := 32*domain + 64*tc.wires + 8*tc.terms + 12*tc.rows
		got := setupBytes(int(tc.rows), int(tc.wires), int(tc.public), tc.terms, 2)
		if got < least || got > least+least/50+(145<<20)+setupMargin+(1<<20) {
			t.Errorf("%+v: %d bytes, vectors and circuit alone take %d", tc, got, least)
		}
	}
	if small := setupBytes(1, 3, 0, 10, 1); small > 32<<20 {
		t.Errorf("%d bytes for a circuit of one row", small)
	}
}
