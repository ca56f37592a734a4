package vanilla

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/weir-zk/weir/internal/testfiles"
	"github.com/weir-zk/weir/plugins/filecoin/sector"
	"github.com/weir-zk/weir/sdk/errs"
)

// flow reads a file of the whole-sector data, unpacked where it is packed.
func flow(t *testing.T, name string) []byte {
	t.Helper()
	dir := testfiles.Shared(t, "fixtures", "filecoin", "flow")
	path := filepath.Join(dir, filepath.FromSlash(name))
	if b, err := os.ReadFile(path); err == nil {
		return b
	}
	f, err := os.Open(path + ".gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return testfiles.Gunzip(t, f)
}

func size(t *testing.T, name string) *sector.Size {
	t.Helper()
	s, err := sector.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The five forms of a Commit1 output are one value.
func TestC1(t *testing.T) {
	for folder, proof := range map[string]sector.SealProof{"v1_0": 0, "v1_1": 5, "v1_1-b": 5, "v1_1-c": 5, "synthetic": 10, "non-interactive": 15} {
		t.Run(folder, func(t *testing.T) {
			want, err := DecodeC1(flow(t, folder+"/c1.api.bincode"))
			if err != nil {
				t.Fatal(err)
			}
			if want.Proof != proof || len(want.Partitions) != proof.Partitions() || len(want.Partitions[0]) != 2 {
				t.Errorf("%v, %d partitions", want.Proof, len(want.Partitions))
			}
			for name, read := range map[string]func() (*C1, error){
				"api json":      func() (*C1, error) { return DecodeC1(flow(t, folder+"/c1.api.json")) },
				"inner bincode": func() (*C1, error) { return DecodeInnerC1(flow(t, folder+"/c1.bincode"), proof) },
				"inner json":    func() (*C1, error) { return DecodeInnerC1(flow(t, folder+"/c1.json"), proof) },
				"wrapped": func() (*C1, error) {
					c, w, err := DecodeWrapped(flow(t, folder+"/c2-input.json"))
					if err == nil && (w.SectorNum < 4242 || w.SectorNum > 4244) {
						t.Errorf("sector %d", w.SectorNum)
					}
					return c, err
				},
			} {
				got, err := read()
				if err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("%s differs: %v", name, err)
				}
			}
		})
	}
	if c, err := DecodeC1(flow(t, "published-c1-8MiB.api.json")); err != nil || c.Proof != 6 {
		t.Errorf("the published one: %v", err)
	}
}

func TestPoStAndUpdate(t *testing.T) {
	for name, leaves := range map[string]int{"winning": 66, "window-v1_0-2": 10, "window-v1_2-3": 10} {
		a, err := DecodePoSt(flow(t, "post/"+name+"/vanilla-0.bincode"), size(t, "2k"))
		if err != nil {
			t.Fatal(err)
		}
		b, err := DecodePoSt(flow(t, "post/"+name+"/vanilla-0.json"), size(t, "2k"))
		if err != nil || !reflect.DeepEqual(a, b) || len(a.Leaves) != leaves || a.SectorID != 4242 {
			t.Errorf("%s: %d leaves of sector %d: %v", name, len(a.Leaves), a.SectorID, err)
		}
	}
	a, err := DecodeUpdate(flow(t, "update/partition-0.bincode"), size(t, "2k"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := DecodeUpdate(flow(t, "update/partition-0.json"), size(t, "2k"))
	if err != nil || !reflect.DeepEqual(a, b) {
		t.Errorf("update: %v", err)
	}
}

// edit is a change to a file of the reference's damaged set.
type edit struct {
	Op     string
	Length int
	Offset int
	Hex    string
	Old    string
	New    string
}

func (e *edit) apply(t *testing.T, b []byte) []byte {
	t.Helper()
	raw, err := hex.DecodeString(e.Hex)
	if err != nil {
		t.Fatal(err)
	}
	b = append([]byte(nil), b...)
	switch e.Op {
	case "none":
	case "truncate":
		b = b[:e.Length]
	case "append":
		b = append(b, raw...)
	case "set":
		copy(b[e.Offset:], raw)
	case "xor":
		for i := range raw {
			b[e.Offset+i] ^= raw[i]
		}
	case "replace_text":
		b = []byte(strings.Replace(string(b), e.Old, e.New, 1))
	default:
		t.Fatalf("edit %s", e.Op)
	}
	return b
}

// The damaged files of the reference: what it refuses is refused here, and what it takes for good although bytes are left over, a variant does not fit or a value is no field
// element, too. Each refusal is an error of class InvalidFile.
func TestDamaged(t *testing.T) {
	var file struct {
		Cases []struct {
			ID, Kind, File string
			Edit           edit
			Results        json.RawMessage
		}
	}
	if err := json.Unmarshal(flow(t, "negatives.json"), &file); err != nil {
		t.Fatal(err)
	}
	// What is refused here at the door, beside what the reference does not decode.
	stricter := []string{"trailing", "not-canonical", "zero", "registered-proof", "variant", "count", "tag"}
	known := 0
	for _, c := range file.Cases {
		if c.File == "" {
			continue
		}
		var read func([]byte) error
		switch {
		case c.Kind == "c1-api":
			read = func(b []byte) error { _, err := DecodeC1(b); return err }
		case strings.HasPrefix(c.Kind, "post"):
			read = func(b []byte) error { _, err := DecodePoSt(b, size(t, "2k")); return err }
		case strings.HasPrefix(c.Kind, "update"):
			read = func(b []byte) error { _, err := DecodeUpdate(b, size(t, "2k")); return err }
		default:
			t.Fatalf("%s is of kind %s", c.ID, c.Kind)
		}
		known++
		t.Run(c.ID, func(t *testing.T) {
			err := read(c.Edit.apply(t, flow(t, c.File)))
			if err != nil && !errs.Is(err, errs.InvalidFile) {
				t.Errorf("class %v: %v", errs.ClassOf(err), err)
			}
			refused := c.Edit.Op == "truncate"
			for _, s := range stricter {
				refused = refused || strings.Contains(c.ID, s)
			}
			switch {
			case c.Edit.Op == "none", strings.Contains(c.ID, "flip") && !strings.Contains(c.ID, "canonical"), c.ID == "c1-json-trailing-space", c.ID == "c1-json-unknown-field":
				refused = false
			case c.Edit.Op == "replace_text":
				refused = true
			}
			if refused != (err != nil) {
				t.Errorf("refused: %v, want %v: %v", err != nil, refused, err)
			}
		})
	}
	if known < 50 {
		t.Errorf("only %d cases", known)
	}
}

// Every error names the field.
func TestErrorsNameTheField(t *testing.T) {
	good := flow(t, "v1_1/c1.api.json")
	for _, c := range []struct{ old, new, want string }{
		{`"index":0}`, `"index":2}`, "vanilla_proofs[0][0].comm_d_proofs.base path[0]): expected an index below 2, found 2"},
		{`"index":0}`, `"index":-1}`, "comm_d_proofs.data.Single.path.path[0].index): expected a number, found '-'"},
		{`"layer_index":1,`, ``, `labeling_proofs[0]): expected the field layer_index`},
		{`"ticket":[`, `"ticket":[1,`, "ticket): expected the end of 32 bytes"},
		{`"comm_r":[`, `"comm_r":null,"x":[`, "(comm_r): expected '['"},
		{`{"vanilla_proofs"`, `{"vanilla_proofs"`, ""},
	} {
		_, err := DecodeC1([]byte(strings.Replace(string(good), c.old, c.new, 1)))
		if (err == nil) != (c.want == "") || (err != nil && !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s for %s: %v", c.new, c.old, err)
		}
	}
}
