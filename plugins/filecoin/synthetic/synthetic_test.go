package synthetic

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/internal/testfiles"
	"github.com/weir-zk/weir/plugins/filecoin/circuits"
	"github.com/weir-zk/weir/plugins/filecoin/sector"
	"github.com/weir-zk/weir/plugins/filecoin/vanilla"
	"github.com/weir-zk/weir/sdk/circuit"
	"github.com/weir-zk/weir/sdk/errs"
)

func short() bool { return testing.Short() || testfiles.Race }

// A tree of patterns and single nodes is the tree of all its leaves.
func TestPatterns(t *testing.T) {
	for _, size := range sector.Sizes[:6] {
		for _, shape := range []sector.Tree{size.Tree, dataTree} {
			for _, groups := range []uint64{1, 2, 8, 32} {
				leaves := pattern(size.Nodes(), groups, 16, func(g, i uint64) fr.Element { return fr.NewElement(1000*g + i + 1) })
				leaves.own = map[uint64]fr.Element{3: fr.NewElement(5), size.Nodes() - 1: fr.NewElement(6), size.Nodes() / 2: fr.NewElement(7)}
				all := make([]fr.Element, size.Nodes())
				for i := range all {
					all[i] = leaves.at(uint64(i))
				}
				got, err := grow(t.Context(), shape, leaves)
				if err != nil {
					t.Fatal(err)
				}
				want, err := grow(t.Context(), shape, whole(all))
				if err != nil {
					t.Fatal(err)
				}
				for _, i := range []uint64{0, 1, 3, 17, size.Nodes() / 2, size.Nodes() - 2, size.Nodes() - 1} {
					if !reflect.DeepEqual(got.prove(i), want.prove(i)) {
						t.Errorf("%s, %s, %d groups: proof of leaf %d differs", size.Name, shape, groups, i)
					}
				}
			}
		}
	}
}

// satisfied checks a partition's witness against the statement and every row of the circuit.
func satisfied(t *testing.T, what string, c circuit.Circuit, want []fr.Element) {
	t.Helper()
	began := time.Now()
	w, n, err := circuit.NewWitness(t.Context(), c, 2)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	synthesised := time.Since(began)
	if got, err := w.Public(n.Inputs - 1); err != nil || !slices.Equal(got, want) {
		t.Errorf("%s: the statement has other public inputs: %v", what, err)
	}
	if v, err := circuit.Check(t.Context(), c, w); v != nil || err != nil {
		t.Errorf("%s: %+v, %v", what, v, err)
	}
	t.Logf("%s: %d rows, witness %v, with check %v", what, n.Rows, synthesised.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
}

// again writes an answer and reads it, in both forms.
func again[T interface {
	Write(io.Writer, vanilla.Form) error
}](t *testing.T, what string, x T, read func([]byte) (T, error)) {
	t.Helper()
	for _, form := range []vanilla.Form{vanilla.JSON, vanilla.Bincode} {
		var b bytes.Buffer
		if err := x.Write(&b, form); err != nil {
			t.Fatal(err)
		}
		if got, err := read(b.Bytes()); err != nil || !reflect.DeepEqual(got, x) {
			t.Errorf("%s, form %d: what is read is not what was written: %v", what, form, err)
		}
	}
}

// checkPoRep checks the partitions of a sealing proof, or those that are named.
func checkPoRep(t *testing.T, proof sector.SealProof, partitions ...int) {
	began := time.Now()
	c, s, err := PoRep(t.Context(), proof, 7, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: made in %v", proof, time.Since(began).Round(time.Millisecond))
	again(t, proof.String(), c, vanilla.DecodeC1)
	st, err := s.Statement()
	if err != nil {
		t.Fatal(err)
	}
	if st.ReplicaID != c.ReplicaID {
		t.Errorf("%s: replica id of another statement", proof)
	}
	for k := range c.Partitions {
		if err := circuits.ConsistentPoRep(c, k); err != nil {
			t.Errorf("%s: partition %d: %v", proof, k, err)
		}
		if len(partitions) > 0 && !slices.Contains(partitions, k) {
			continue
		}
		cs, err := circuits.AssemblePoRep(c, k)
		if err != nil {
			t.Fatal(err)
		}
		satisfied(t, fmt.Sprintf("%s, partition %d", proof, k), cs, st.Inputs(k))
	}
}

func TestPoRep(t *testing.T) {
	for _, x := range []struct {
		proof      sector.SealProof
		partitions []int
	}{{proof: 0}, {proof: 5}, {proof: 6}, {proof: 10}, {15, []int{0, 12}}} {
		t.Run(x.proof.String(), func(t *testing.T) {
			if short() && x.proof != 5 {
				t.Skip("not with -short, nor under the race detector: millions of rows")
			}
			checkPoRep(t, x.proof, x.partitions...)
		})
	}
}

func checkWindow(t *testing.T, size *sector.Size, version sector.Version, sectors int) {
	answers, c, err := Window(t.Context(), size, version, sectors, 7)
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Statement()
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range answers {
		again(t, size.Name, a, func(b []byte) (*vanilla.PoSt, error) { return vanilla.DecodePoSt(b, size) })
		if err := circuits.ConsistentPoSt(a); err != nil || a.SectorID != s.Sectors[i].ID || a.CommR != s.Sectors[i].CommR {
			t.Errorf("sector %d: %v", i, err)
		}
	}
	for k := range c.Partitions {
		cs, err := circuits.AssembleWindow(answers, c.Circuit.Sectors, k)
		if err != nil {
			t.Fatal(err)
		}
		want, err := s.Inputs(k)
		if err != nil {
			t.Fatal(err)
		}
		satisfied(t, fmt.Sprintf("window-%s, version %s, %d sectors, partition %d", size.Name, version, sectors, k), cs, want)
	}
}

func checkWinning(t *testing.T, size *sector.Size) {
	a, c, err := Winning(t.Context(), size, 7)
	if err != nil {
		t.Fatal(err)
	}
	again(t, size.Name, a, func(b []byte) (*vanilla.PoSt, error) { return vanilla.DecodePoSt(b, size) })
	s, err := c.Statement()
	if err != nil {
		t.Fatal(err)
	}
	want, err := s.Inputs(0)
	if err != nil || s.Partitions() != 1 || c.Partitions != 1 {
		t.Fatalf("%d partitions, %v", s.Partitions(), err)
	}
	if err := circuits.ConsistentPoSt(a); err != nil {
		t.Error(err)
	}
	satisfied(t, "winning-"+size.Name, circuits.AssembleWinning(a), want)
}

func TestPoSt(t *testing.T) {
	for i := range sector.Sizes {
		size := &sector.Sizes[i]
		if size.Layers == 0 || size.Bytes > 16<<20 {
			continue
		}
		t.Run(size.Name, func(t *testing.T) {
			if short() && size.Bytes > 4<<10 {
				t.Skip("not with -short, nor under the race detector: a hundred thousand rows")
			}
			checkWindow(t, size, sector.V1_0, 3)
			checkWindow(t, size, sector.V1_2, 2)
			checkWinning(t, size)
		})
	}
}

// checkUpdate checks the partitions of an update, or those that are named.
func checkUpdate(t *testing.T, size *sector.Size, partitions ...int) {
	began := time.Now()
	answers, c, err := Update(t.Context(), size, 7)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("upd-%s: made in %v", size.Name, time.Since(began).Round(time.Millisecond))
	if len(answers) != c.Partitions {
		t.Errorf("%d partitions, want %d", len(answers), c.Partitions)
	}
	for k, a := range answers {
		again(t, size.Name, a, func(b []byte) (*vanilla.Update, error) { return vanilla.DecodeUpdate(b, size) })
		s := c.Statement()
		if err := circuits.ConsistentUpdate(a, s, k); err != nil {
			t.Errorf("partition %d: %v", k, err)
		}
		if len(partitions) > 0 && !slices.Contains(partitions, k) {
			continue
		}
		cs, err := circuits.AssembleUpdate(a, s, k)
		if err != nil {
			t.Fatal(err)
		}
		want, err := s.Inputs(k)
		if err != nil {
			t.Fatal(err)
		}
		satisfied(t, fmt.Sprintf("upd-%s, partition %d", size.Name, k), cs, want)
	}
}

func TestUpdate(t *testing.T) {
	for i := range sector.Sizes {
		size := &sector.Sizes[i]
		if size.Bytes > 8<<20 {
			continue
		}
		t.Run(size.Name, func(t *testing.T) {
			if short() && size.Bytes > 1<<10 {
				t.Skip("not with -short, nor under the race detector: millions of rows")
			}
			checkUpdate(t, size, size.UpdatePartitions-1)
		})
	}
}

// Sizes of the network.
func TestLarge(t *testing.T) {
	testfiles.Full(t, "billions of rows: half an hour")
	for _, name := range []string{"512m", "1g", "32g", "64g"} {
		size, err := sector.Named(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Run("post-"+name, func(t *testing.T) {
			checkWindow(t, size, sector.V1_2, 1)
			checkWinning(t, size)
		})
		t.Run("update-"+name, func(t *testing.T) { checkUpdate(t, size, 0, 15) })
	}
	for proof, partitions := range map[sector.SealProof][]int{7: {0}, 8: nil, 9: {9}, 3: {0}} {
		t.Run(proof.String(), func(t *testing.T) { checkPoRep(t, proof, partitions...) })
	}
	for _, proof := range []sector.SealProof{11, 16, 12} {
		t.Run(proof.String(), func(t *testing.T) { checkPoRep(t, proof, 0) })
	}
}

// All sizes are made, read again and consistent; the circuits' rows are what the tests of all sizes check.
func TestLargeAreMade(t *testing.T) {
	if short() {
		t.Skip("not with -short, nor under the race detector: some seconds of hashing")
	}
	c, _, err := PoRep(t.Context(), 8, 7, nil)
	if err != nil {
		t.Fatal(err)
	}
	for k := range c.Partitions {
		if err := circuits.ConsistentPoRep(c, k); err != nil {
			t.Error(err)
		}
	}
}

// In small sectors challenged nodes are often parents of each other, in the own layer and in the one below, and sometimes one node is challenged twice.
func TestChallengedParents(t *testing.T) {
	var base, exp, twice int
	for seed := range uint64(60) {
		c, _, err := PoRep(t.Context(), sector.SealProof(5*(seed%2)), seed, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := circuits.ConsistentPoRep(c, 0); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		a, b := &c.Partitions[0][0], &c.Partitions[0][1]
		if a.Own.Index == b.Own.Index {
			twice++
		}
		if a.Own.Index < b.Own.Index {
			a, b = b, a
		}
		of := func(parents []vanilla.ColumnProof, child uint32) bool {
			return slices.ContainsFunc(parents, func(p vanilla.ColumnProof) bool { return p.Index == child })
		}
		if of(a.Base, b.Own.Index) {
			base++
		}
		if of(a.Exp, b.Own.Index) || of(b.Exp, a.Own.Index) {
			exp++
		}
	}
	if base == 0 || exp == 0 || twice == 0 {
		t.Errorf("of 60 sectors %d have a challenged parent in the own layer, %d in the one below, %d a node that is challenged twice; choose other seeds", base, exp, twice)
	}
}

// One seed, one sector; another seed, another sector.
func TestSeed(t *testing.T) {
	size, err := sector.Named("2k")
	if err != nil {
		t.Fatal(err)
	}
	for name, make := range map[string]func(seed uint64) (any, any, error){
		"porep":     func(seed uint64) (any, any, error) { return wrap(PoRep(t.Context(), 5, seed, nil)) },
		"synthetic": func(seed uint64) (any, any, error) { return wrap(PoRep(t.Context(), 10, seed, nil)) },
		"window":    func(seed uint64) (any, any, error) { return wrap(Window(t.Context(), size, sector.V1_2, 2, seed)) },
		"winning":   func(seed uint64) (any, any, error) { return wrap(Winning(t.Context(), size, seed)) },
		"update":    func(seed uint64) (any, any, error) { return wrap(Update(t.Context(), size, seed)) },
	} {
		var answers, cases []any
		for _, seed := range []uint64{1, 1, 2} {
			a, c, err := make(seed)
			if err != nil {
				t.Fatal(err)
			}
			answers, cases = append(answers, a), append(cases, c)
		}
		if !reflect.DeepEqual(answers[0], answers[1]) || !reflect.DeepEqual(cases[0], cases[1]) {
			t.Errorf("%s: one seed, two sectors", name)
		}
		if reflect.DeepEqual(answers[0], answers[2]) || reflect.DeepEqual(cases[0], cases[2]) {
			t.Errorf("%s: two seeds, one sector", name)
		}
	}
}

func wrap[A, C any](a A, c C, err error) (any, any, error) { return a, c, err }

func TestRefused(t *testing.T) {
	small, err := sector.Named("8k")
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, x := range []struct {
		name  string
		class errs.Class
		make  func() error
	}{
		{"synthetic 32 GiB", errs.Unsupported, func() error { _, _, err := PoRep(t.Context(), 13, 1, nil); return err }},
		{"non-interactive 64 GiB", errs.Unsupported, func() error { _, _, err := PoRep(t.Context(), 19, 1, nil); return err }},
		{"no registered proof", errs.InvalidArgument, func() error { _, _, err := PoRep(t.Context(), 20, 1, nil); return err }},
		{"a size without sealing", errs.InvalidArgument, func() error { _, _, err := Winning(t.Context(), small, 1); return err }},
		{"no sectors", errs.InvalidArgument, func() error { _, _, err := Window(t.Context(), &sector.Sizes[1], sector.V1_2, 0, 1); return err }},
		{"canceled", errs.Canceled, func() error { _, _, err := PoRep(ended, 5, 1, nil); return err }},
		{"canceled while sealing", errs.Canceled, func() error { _, _, err := PoRep(ended, 12, 1, nil); return err }},
	} {
		if err := x.make(); errs.ClassOf(err) != x.class {
			t.Errorf("%s: class %v, want %v: %v", x.name, errs.ClassOf(err), x.class, err)
		}
	}
}
