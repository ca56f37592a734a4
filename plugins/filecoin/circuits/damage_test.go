package circuits

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/weir-zk/weir/plugins/filecoin/sector"
	"github.com/weir-zk/weir/plugins/filecoin/vanilla"
	"github.com/weir-zk/weir/sdk/circuit"
)

// The reference's damaged files, taken into the circuit: the same row is the first that does not hold, in the same part.
func TestDamagedRows(t *testing.T) {
	if short() {
		t.Skip("not with -short, nor under the race detector: millions of rows")
	}
	var edits, rows struct {
		Cases []struct {
			ID, File string
			Edit     struct {
				Op     string
				Offset int
				Hex    string
			}
			Circuit struct {
				Row       *int   `json:"first_unsatisfied_row"`
				Namespace string `json:"row_namespace"`
				Satisfied *bool
			}
		}
	}
	flowJSON(t, "negatives.json", &edits)
	flowJSON(t, "negatives-circuit.json", &rows)
	size, err := sector.Named("2k")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, r := range rows.Cases {
		if r.Circuit.Satisfied == nil || strings.Contains(r.ID, "trailing") || strings.Contains(r.ID, "count") {
			continue // refused when read, there or here
		}
		t.Run(r.ID, func(t *testing.T) {
			var c circuit.Circuit
			for _, e := range edits.Cases {
				if e.ID != r.ID {
					continue
				}
				b := flow(t, e.File)
				raw, err := hex.DecodeString(e.Edit.Hex)
				if err != nil {
					t.Fatal(err)
				}
				for i := range raw {
					if e.Edit.Op == "xor" {
						raw[i] ^= b[e.Edit.Offset+i]
					}
					b[e.Edit.Offset+i] = raw[i]
				}
				c = damaged(t, e.File, b, size)
			}
			if c == nil {
				return
			}
			n++
			w, _, err := circuit.NewWitness(t.Context(), c, 2)
			if err != nil {
				t.Fatal(err)
			}
			v, err := circuit.Check(t.Context(), c, w)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case r.Circuit.Row == nil && v != nil:
				t.Errorf("row %d (%s) does not hold, there all do", v.Row, v.Path)
			case r.Circuit.Row != nil && (v == nil || v.Row != *r.Circuit.Row):
				t.Errorf("%+v, there row %d (%s)", v, *r.Circuit.Row, r.Circuit.Namespace)
			case v != nil && strings.HasPrefix(r.Circuit.Namespace, "challenge_") && !strings.Contains(r.ID, "parent") && !strings.HasPrefix(v.Path, r.Circuit.Namespace):
				t.Errorf("row %d is at %s, there at %s", v.Row, v.Path, r.Circuit.Namespace)
			}
		})
	}
	if n < 25 {
		t.Errorf("only %d cases", n)
	}
}

// damaged is the circuit of a damaged file; nil where it is refused when read.
func damaged(t *testing.T, file string, b []byte, size *sector.Size) circuit.Circuit {
	t.Helper()
	switch {
	case strings.HasPrefix(file, "v1_1"):
		c1, err := vanilla.DecodeC1(b)
		if err != nil {
			return nil
		}
		c, err := AssemblePoRep(c1, 0)
		if err != nil {
			t.Fatal(err)
		}
		return c
	case strings.HasPrefix(file, "post/winning"):
		a, err := vanilla.DecodePoSt(b, size)
		if err != nil {
			return nil
		}
		return AssembleWinning(a)
	case strings.HasPrefix(file, "post/window-v1_0-2"):
		first, err := vanilla.DecodePoSt(b, size)
		if err != nil {
			return nil
		}
		second, err := vanilla.DecodePoSt(flow(t, "post/window-v1_0-2/vanilla-1.bincode"), size)
		if err != nil {
			t.Fatal(err)
		}
		c, err := AssembleWindow([]*vanilla.PoSt{first, second}, 2, 0)
		if err != nil {
			t.Fatal(err)
		}
		return c
	case strings.HasPrefix(file, "update"):
		if _, err := vanilla.DecodeUpdate(b, size); err != nil {
			return nil
		}
		s, a, _ := update(t, b)
		c, err := AssembleUpdate(a, s, 0)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	t.Fatalf("file %s", file)
	return nil
}
