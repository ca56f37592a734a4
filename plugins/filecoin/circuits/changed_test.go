package circuits

import (
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weir-zk/weir/internal/testfiles"
	"github.com/weir-zk/weir/plugins/filecoin/sector"
	"github.com/weir-zk/weir/plugins/filecoin/vanilla"
	"github.com/weir-zk/weir/sdk/circuit"
	"github.com/weir-zk/weir/sdk/errs"
)

// fate is what becomes of a changed field.
type fate string

const (
	atCheck    fate = "is read: a row is broken"
	before     fate = "is not read: it is compared before synthesis"
	atDecoding fate = "is refused by the decoder"
	byOthers   fate = "is bound by the statement alone" // which has it from elsewhere; nothing in the proof depends on it
)

// fateOf looks up the rule for the very path, then the one for its pattern.
func fateOf(t *testing.T, rules map[string]fate, l *leaf) fate {
	t.Helper()
	for _, name := range []string{l.path, l.pattern()} {
		if f, ok := rules[name]; ok {
			return f
		}
	}
	t.Fatalf("no rule for %s", l.path)
	return ""
}

// Rules for each kind: every leaf of its JSON form has one.
var (
	poRepRules = merged(map[string]fate{
		"registered_proof": atDecoding,
		"comm_r":           atCheck, "comm_d": atCheck, "replica_id": atCheck,
		"seed": byOthers, "ticket": byOthers,
	},
		merkleRules("vanilla_proofs[][].comm_d_proofs", before, atCheck),
		merkleRules("vanilla_proofs[][].comm_r_last_proof", before, before),
		map[string]fate{"vanilla_proofs[0][0].comm_r_last_proof.root": atCheck, "vanilla_proofs[0][0].replica_column_proofs.c_x.inclusion_proof.root": atCheck},
		columnRules("vanilla_proofs[][].replica_column_proofs.c_x", before),
		columnRules("vanilla_proofs[][].replica_column_proofs.drg_parents[]", atCheck),
		columnRules("vanilla_proofs[][].replica_column_proofs.exp_parents[]", atCheck),
		map[string]fate{
			"vanilla_proofs[][].labeling_proofs[].parents[]": before, "vanilla_proofs[][].labeling_proofs[].layer_index": before, "vanilla_proofs[][].labeling_proofs[].node": before,
			"vanilla_proofs[0][0].labeling_proofs[0].node": atCheck, "vanilla_proofs[0][1].labeling_proofs[0].node": atCheck,
			"vanilla_proofs[][].encoding_proof.parents[]": before, "vanilla_proofs[][].encoding_proof.layer_index": before, "vanilla_proofs[][].encoding_proof.node": before,
		})
	poStRules = merged(map[string]fate{
		"sector_id": byOthers,
		"comm_r":    atCheck, "vanilla_proof.sectors[].comm_c": atCheck, "vanilla_proof.sectors[].comm_r_last": atCheck,
	},
		merkleRules("vanilla_proof.sectors[].inclusion_proofs[]", before, atCheck))
	// Places are not read: they follow from the challenges, which the circuit computes. proof_d_new is below, level by level.
	updateRules = merged(map[string]fate{"comm_c": atCheck, "apex_leafs[]": atCheck},
		merkleRules("challenge_proofs[].proof_r_old", before, atCheck),
		merkleRules("challenge_proofs[].proof_r_new", before, before),
		merkleRules("challenge_proofs[].proof_d_new", before, atCheck),
		map[string]fate{
			"challenge_proofs[].proof_r_old.path[].index": before, "challenge_proofs[].proof_r_new.path[].index": before, "challenge_proofs[].proof_d_new.path[].index": before,
			"challenge_proofs[0].proof_r_old.root": atCheck, "challenge_proofs[0].proof_r_new.root": atCheck,
		})
)

func merged(maps ...map[string]fate) map[string]fate {
	out := map[string]fate{}
	for _, m := range maps {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}

func merkleRules(path string, root, leaf fate) map[string]fate {
	return map[string]fate{path + ".root": root, path + ".leaf": leaf, path + ".path[].index": atCheck, path + ".path[].hashes[]": atCheck}
}

func columnRules(path string, rows fate) map[string]fate {
	return merged(map[string]fate{path + ".column.index": before, path + ".column.rows[]": rows, path + ".column._h": atDecoding}, merkleRules(path+".inclusion_proof", before, before))
}

// changing is a proof whose fields are changed one at a time.
type changing struct {
	text  []byte
	rules map[string]fate
	// read decodes a text and compares what no row reads; the circuit is nil where the decoder refuses it.
	read func(text []byte) (c circuit.Circuit, decoding, comparing error)
	// every leaf at each run of the tests; else one of each name and rule, and every leaf with make test-full
	every bool
}

// Every leaf of the JSON form, in turn: what the circuit reads breaks a row whose path can be told, what it does not read is named before anything is computed, and leaves
// the witness what it was.
func (x *changing) test(t *testing.T) {
	good, _, comparing := x.read(x.text)
	if good == nil || comparing != nil {
		t.Fatalf("the proof itself: %v", comparing)
	}
	ctx := t.Context()
	want, n, err := circuit.NewWitness(ctx, good, 2)
	if err != nil {
		t.Fatal(err)
	}
	sys, err := circuit.System(ctx, good)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := sys.Check(ctx, want, 2); v != nil || err != nil {
		t.Fatalf("the proof itself: %+v, %v", v, err)
	}
	full := x.every || os.Getenv("WEIR_TEST_FULL") != ""
	seen := map[string]bool{}
	var done atomic.Int64
	all := leavesOf(t, x.text)
	for _, l := range all {
		rule := fateOf(t, x.rules, &l)
		first := !seen[l.pattern()+string(rule)]
		if !first && !full {
			continue
		}
		seen[l.pattern()+string(rule)] = true
		done.Add(1)
		c, decoding, comparing := x.read(l.changed(t, x.text))
		if (decoding != nil) != (rule == atDecoding) {
			t.Errorf("%s %s, and: %v", l.path, rule, decoding)
		}
		if c == nil {
			continue
		}
		w, _, err := circuit.NewWitness(ctx, c, 2)
		if err != nil {
			t.Fatalf("%s: %v", l.path, err)
		}
		same := w.Len() == want.Len()
		for i := 0; same && i < n.Wires(); i++ {
			same = w.At(i) == want.At(i)
		}
		if same != (rule != atCheck) {
			t.Errorf("%s %s; the witness is the same: %v", l.path, rule, same)
			continue
		}
		switch rule {
		case atCheck:
			v, err := sys.Check(ctx, w, 2)
			if v == nil || err != nil {
				t.Errorf("%s %s, and: %v", l.path, rule, err)
				continue
			}
			if !first {
				continue // to name the row takes a recording
			}
			named, err := circuit.Check(ctx, c, w)
			if err != nil || named == nil || named.Row != v.Row || named.Path == "" {
				t.Errorf("%s: row %d, by its path: %+v, %v", l.path, v.Row, named, err)
			}
		case before:
			if !errs.Is(comparing, errs.InvalidFile) || comparing.Error() != "inconsistent vanilla proof: "+l.path {
				t.Errorf("%s %s, and: %v", l.path, rule, comparing)
			}
		case byOthers:
			if comparing != nil {
				t.Errorf("%s %s, and: %v", l.path, rule, comparing)
			}
		}
	}
	for name := range x.rules {
		if !seen[numbers.ReplaceAllString(name, "[]")+string(x.rules[name])] {
			t.Errorf("no field for the rule %s", name)
		}
	}
	t.Logf("%d of %d fields, at least one of each name and rule", done.Load(), len(all))
}

func TestChangedPoRep(t *testing.T) {
	if short() {
		t.Skip("not with -short, nor under the race detector: millions of rows")
	}
	x := &changing{text: flow(t, "v1_1/c1.api.json"), rules: poRepRules, read: func(text []byte) (circuit.Circuit, error, error) {
		c1, err := vanilla.DecodeC1(text)
		if err != nil {
			return nil, err, nil
		}
		c, err := AssemblePoRep(c1, 0)
		if err != nil {
			t.Fatal(err)
		}
		return c, nil, ConsistentPoRep(c1, 0)
	}}
	x.test(t)
}

func TestChangedPoSt(t *testing.T) {
	size, err := sector.Named("2k")
	if err != nil {
		t.Fatal(err)
	}
	for name, assemble := range map[string]func(a *vanilla.PoSt) *PoSt{
		"window-v1_2-1": func(a *vanilla.PoSt) *PoSt {
			c, err := AssembleWindow([]*vanilla.PoSt{a}, 2, 0)
			if err != nil {
				t.Fatal(err)
			}
			return c
		},
		"winning": AssembleWinning,
	} {
		t.Run(name, func(t *testing.T) {
			x := &changing{text: flow(t, "post/"+name+"/vanilla-0.json"), rules: poStRules, every: name != "winning" && !testfiles.Race, read: func(text []byte) (circuit.Circuit, error, error) {
				a, err := vanilla.DecodePoSt(text, size)
				if err != nil {
					return nil, err, nil
				}
				return assemble(a), nil, ConsistentPoSt(a)
			}}
			x.test(t)
		})
	}
}

func TestChangedUpdate(t *testing.T) {
	if short() {
		t.Skip("not with -short, nor under the race detector: 1.7 million rows")
	}
	text := flow(t, "update/partition-0.json")
	s, _, _ := update(t, text)
	c := blankUpdate(s.Size, false)
	below, apexTop := s.Size.LogNodes()-c.partitionBits()-c.apexBits(), s.Size.LogNodes()-c.partitionBits()
	rules := merged(updateRules)
	for _, l := range leavesOf(t, text) {
		// Of the path in the data what lies above the apex leaves is in the apex tree, and above that it is the first challenge's.
		level := strings.Index(l.path, ".proof_d_new.path[")
		if level < 0 || !strings.HasSuffix(l.path, ".hashes[0]") {
			continue
		}
		first := strings.HasPrefix(l.path, "challenge_proofs[0]")
		n := int(l.path[level+len(".proof_d_new.path[")] - '0')
		if n >= below && (n < apexTop || !first) {
			rules[l.path] = before
		}
	}
	x := &changing{text: text, rules: rules, read: func(text []byte) (circuit.Circuit, error, error) {
		a, err := vanilla.DecodeUpdate(text, s.Size)
		if err != nil {
			return nil, err, nil
		}
		c, err := AssembleUpdate(a, s, 0)
		if err != nil {
			t.Fatal(err)
		}
		return c, nil, ConsistentUpdate(a, s, 0)
	}}
	x.test(t)
}
