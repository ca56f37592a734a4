package synthetic

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/internal/testfiles"
	"github.com/weir-zk/weir/plugins/filecoin/sector"
	"github.com/weir-zk/weir/plugins/filecoin/statement"
	"github.com/weir-zk/weir/plugins/filecoin/vanilla"
)

// flow reads a file of the whole-sector reference data, unpacked where it is packed.
func flow(t *testing.T, name string) []byte {
	t.Helper()
	path := filepath.Join(testfiles.Shared(t, "fixtures", "filecoin", "flow"), filepath.FromSlash(name))
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

// UnmarshalText reads hexadecimal digits.
func (h *Hash) UnmarshalText(b []byte) error {
	n, err := hex.Decode(h[:], b)
	if err == nil && n != len(h) {
		err = fmt.Errorf("%d bytes", n)
	}
	return err
}

// nodes reads a file of nodes.
func nodes(t *testing.T, name string) []fr.Element {
	t.Helper()
	b := flow(t, name)
	out := make([]fr.Element, len(b)/sector.NodeBytes)
	for i := range out {
		x, err := fr.LittleEndian.Element((*[32]byte)(b[sector.NodeBytes*i:]))
		if err != nil {
			t.Fatal(err)
		}
		out[i] = x
	}
	return out
}

// sealed is a sector of the reference, sealed here.
func sealed(t *testing.T, folder string) (*replica, *sealing) {
	t.Helper()
	var want SealCase
	if err := json.Unmarshal(flow(t, folder+"/statement.json"), &want); err != nil {
		t.Fatal(err)
	}
	in := &sealing{proof: want.Registered, proverID: want.ProverID, sectorID: want.SectorID, ticket: want.Ticket, seed: want.Seed}
	r, err := in.seal(t.Context(), nodes(t, folder+"/staged.bin"))
	if err != nil {
		t.Fatal(err)
	}
	return r, in
}

// The data of the reference's sectors, sealed here, give the same answers to the last byte, and the same statement: all ways of drawing challenges, two versions.
func TestSealReference(t *testing.T) {
	for _, folder := range []string{"v1_0", "v1_1", "v1_1-b", "v1_1-c", "synthetic", "non-interactive"} {
		r, in := sealed(t, folder)
		c, got, err := in.commit1(t.Context(), func(context.Context) (*replica, error) { return r, nil })
		if err != nil {
			t.Fatal(err)
		}
		want, err := vanilla.DecodeC1(flow(t, folder+"/c1.api.bincode"))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(c, want) {
			t.Errorf("%s: answers differ", folder)
		}
		// Field by field, as text; the reference says more, of the piece.
		b, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		var mine, theirs map[string]any
		if err := json.Unmarshal(b, &mine); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(flow(t, folder+"/statement.json"), &theirs); err != nil {
			t.Fatal(err)
		}
		for k, v := range mine {
			if !reflect.DeepEqual(v, theirs[k]) {
				t.Errorf("%s: %s is %v, want %v", folder, k, v, theirs[k])
			}
		}
	}
}

// The sealed replica's Merkle proofs are those of the reference's PoSts, and the updated one's those of its update.
func TestTreesReference(t *testing.T) {
	r, _ := sealed(t, "v1_1")
	size := r.proof.Size()
	for _, name := range []string{"winning", "window-v1_0-1", "window-v1_2-1"} {
		want, err := vanilla.DecodePoSt(flow(t, "post/"+name+"/vanilla-0.bincode"), size)
		if err != nil {
			t.Fatal(err)
		}
		for i := range want.Leaves {
			if got := r.last.prove(want.Leaves[i].Index()); !reflect.DeepEqual(got, want.Leaves[i]) {
				t.Errorf("%s: leaf %d differs", name, i)
			}
		}
	}

	want, err := vanilla.DecodeUpdate(flow(t, "update/partition-0.bincode"), size)
	if err != nil {
		t.Fatal(err)
	}
	u := &updated{commC: r.columns.root(), old: r.last}
	if u.data, err = grow(t.Context(), dataTree, whole(nodes(t, "update/new-staged.bin"))); err != nil {
		t.Fatal(err)
	}
	if u.next, err = grow(t.Context(), size.Tree, whole(nodes(t, "update/new-replica.bin"))); err != nil {
		t.Fatal(err)
	}
	old, next := u.old.root(), u.next.root()
	u.s = &statement.Update{Size: size, H: 1, CommROld: statement.CommR(&u.commC, &old), CommDNew: u.data.root(), CommRNew: statement.CommR(&u.commC, &next)}
	if got := u.answer(0); !reflect.DeepEqual(got, want) {
		t.Error("the update's answer differs")
	}
}
