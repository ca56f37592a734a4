package circuits

import (
	"slices"
	"strings"
	"testing"

	"github.com/weir-zk/weir/internal/testfiles"
	"github.com/weir-zk/weir/plugins/filecoin/internal/fixture"
	"github.com/weir-zk/weir/sdk/circuit"
)

// large are the circuits that take more than some seconds to record: from 512 MiB up, but for the small ones of those sizes.
func large(r *fixture.R1CS) bool { return r.Rows > 9_000_000 }

// Every circuit of the reference data, recorded: sizes, densities and digests, chunk by chunk.
func TestShapes(t *testing.T) {
	for _, name := range fixture.Names(t, "r1cs") {
		t.Run(name, func(t *testing.T) {
			var want fixture.R1CS
			fixture.JSON(t, "r1cs/"+name+".json", &want)
			if large(&want) {
				testfiles.Full(t, "takes minutes")
			}
			if short() && want.Rows > 300_000 {
				t.Skip("not with -short, nor under the race detector: more than 300,000 rows")
			}
			c, err := Blank(name)
			if err != nil {
				t.Fatal(err)
			}
			sum := want.Compare(t, c)
			n, err := circuit.Measure(t.Context(), c)
			if err != nil || n != sum.Counts {
				t.Errorf("measured %+v, %v; recorded %+v", n, err, sum.Counts)
			}
			if !large(&want) {
				compareMarks(t, c, want.Marks)
			}
		})
	}
}

// compareMarks compares the places of the parts whose names are the same here and there.
func compareMarks(t *testing.T, c circuit.Circuit, want []fixture.Mark) {
	t.Helper()
	got, err := circuit.Marks(t.Context(), c, 2)
	if err != nil {
		t.Fatal(err)
	}
	same := 0
	for _, m := range got {
		i := slices.IndexFunc(want, func(w fixture.Mark) bool { return strings.TrimPrefix(w.Path, "outer namespace/") == m.Path })
		if i < 0 {
			continue
		}
		if same++; [3]int{m.To.Rows, m.To.Inputs, m.To.Aux} != want[i].To {
			t.Errorf("%s ends at %+v, want %v", m.Path, m.To, want[i].To)
		}
	}
	if same == 0 {
		t.Errorf("none of %d parts has a name of the original", len(got))
	}
}

// short tells whether millions of rows are too many: the race detector makes them ten times slower.
func short() bool { return testing.Short() || testfiles.Race }
