package circuits

import (
	"encoding/json"
	"testing"

	"github.com/weir-zk/weir/plugins/filecoin/internal/fixture"
	"github.com/weir-zk/weir/sdk/circuit"
	"github.com/weir-zk/weir/sdk/errs"
)

// Every field that the reference data has too is the same there, and the sizes of keys are those of the shipped ones.
func TestDescribe(t *testing.T) {
	for id, bytes := range map[string][2]int64{"por-8x8": {302712, 1060}, "por-8x64": {603672, 1060}, "post-2k-1x1": {723864, 1156}, "window-2k": {11501496, 3076}, "updp-1k": {15441048, 1348}} {
		d, err := Describe(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if d.ParamsBytes != bytes[0] || d.VKBytes != bytes[1] {
			t.Errorf("%s: a key of %d bytes, verifying key of %d, want %v", id, d.ParamsBytes, d.VKBytes, bytes)
		}
		raw, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		var got, want map[string]json.RawMessage
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Fatal(err)
		}
		fixture.JSON(t, "r1cs/"+id+".json", &want)
		same := 0
		for name, x := range got {
			y, ok := want[name]
			if !ok {
				continue
			}
			same++
			var a, b any
			if json.Unmarshal(x, &a) != nil || json.Unmarshal(y, &b) != nil {
				t.Fatal(name)
			}
			if x, y := mustJSON(a), mustJSON(b); x != y {
				t.Errorf("%s: %s is %s, want %s", id, name, x, y)
			}
		}
		if same != 13 {
			t.Errorf("%s: %d fields compared", id, same)
		}
	}
}

func mustJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// Every id of the reference data is answered, others of the same naming too, and what is none is refused by name.
func TestIDs(t *testing.T) {
	ids := fixture.Names(t, "r1cs")
	ids = append(ids, "porep-4k", "porep-16m", "porep-512m", "porep-1g", "porep-2k-c7", "window-8m", "window-512m", "winning-8m", "winning-1g", "upd-4k", "upd-32k", "upd-16m", "upd-1g", "updp-2k", "updp-64g",
		"por-2x128", "por-4x16", "por-8x512", "por-sha-2x8-pub", "post-32g-2349x10", "post-64g-2300x10")
	for _, id := range ids {
		if _, err := Blank(id); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	for id, class := range map[string]errs.Class{
		"": errs.NotFound, "porep": errs.NotFound, "porep-32g-": errs.NotFound, "por-3x9": errs.NotFound, "porep-32g\n": errs.NotFound, "xpor-8x8": errs.NotFound,
		"porep-3g": errs.InvalidArgument, "porep-1k": errs.InvalidArgument, "window-8k": errs.InvalidArgument, "por-8x65": errs.InvalidArgument, "por-4x8": errs.InvalidArgument,
		"post-2k-0x1": errs.InvalidArgument, "post-2k-99999999999x1": errs.InvalidArgument, "porep-2k-c0": errs.InvalidArgument, "por-sha-2x3": errs.InvalidArgument,
	} {
		if _, err := Blank(id); !errs.Is(err, class) {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// Counts of circuits without reference data, from the tests and comments of the original.
func TestCounts(t *testing.T) {
	for id, rows := range map[string]int{
		"window-8m": 64266, "window-512m": 85466, "winning-8m": 230670, "porep-4k": 2788733, "porep-512m": 4423433,
		"upd-4k": 2165109, "upd-32k": 6760091, "post-32g-2349x10": 125279217, "post-64g-2300x10": 129887900,
		"porep-32g": 130278541, "porep-64g": 131185849, "upd-32g": 81049499, "upd-64g": 85006101, "updp-32g": 22305906,
	} {
		c, err := Blank(id)
		if err != nil {
			t.Fatal(err)
		}
		n, err := circuit.Measure(t.Context(), c)
		if err != nil || n.Rows != rows {
			t.Errorf("%s: %d rows, want %d: %v", id, n.Rows, rows, err)
		}
	}
}
