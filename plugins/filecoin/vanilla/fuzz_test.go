package vanilla

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/weir-zk/weir/internal/testfiles"
	"github.com/weir-zk/weir/plugins/filecoin/sector"
	"github.com/weir-zk/weir/sdk/errs"
)

// seed adds files of the whole-sector data, where they are at hand.
func seed(f *testing.F, names ...string) {
	dir := os.Getenv("WEIR_SHARED")
	if dir == "" {
		dir = filepath.Join(filepath.Dir(testfiles.Root()), "shared")
	}
	for _, name := range names {
		path := filepath.Join(dir, "fixtures", "filecoin", "flow", filepath.FromSlash(name))
		b, err := os.ReadFile(path)
		if err != nil {
			if b = unpack(path + ".gz"); b == nil {
				continue
			}
		}
		f.Add(b)
		f.Add(b[:len(b)/2])
	}
}

func unpack(path string) []byte {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil
	}
	b, err := io.ReadAll(z)
	if err != nil {
		return nil
	}
	return b
}

// refusal is what a decoder may answer: nothing, or an error that tells the class of a bad file and where.
func refusal(t *testing.T, err error) {
	if err != nil && !errs.Is(err, errs.InvalidFile) && !errs.Is(err, errs.InvalidArgument) {
		t.Fatalf("class %v: %v", errs.ClassOf(err), err)
	}
}

func FuzzDecodeC1(f *testing.F) {
	seed(f, "v1_1/c1.api.bincode", "v1_1/c1.api.json")
	f.Add([]byte(`{"registered_proof":"StackedDrg2KiBV1"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := DecodeC1(b)
		refusal(t, err)
		if err == nil && len(c.Partitions) != c.Proof.Partitions() {
			t.Errorf("%d partitions of %s", len(c.Partitions), c.Proof)
		}
	})
}

func FuzzDecodeInnerC1(f *testing.F) {
	seed(f, "v1_1/c1.bincode", "v1_1/c1.json")
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, p := range []sector.SealProof{5, 8} { // 2 KiB, 32 GiB
			c, err := DecodeInnerC1(b, p)
			refusal(t, err)
			if err == nil && len(c.Partitions) != p.Partitions() {
				t.Errorf("%d partitions of %s", len(c.Partitions), p)
			}
		}
	})
}

func FuzzDecodeWrapped(f *testing.F) {
	seed(f, "v1_1/c2-input.json")
	for _, w := range []Wrapped{{}, {SectorNum: 1, Phase1Out: []byte("{}"), SectorSize: 2048}} {
		b, err := json.Marshal(w)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, w, err := DecodeWrapped(b)
		refusal(t, err)
		if err == nil && c.Proof.Size().Bytes != w.SectorSize {
			t.Errorf("%s in a wrapper of %d bytes", c.Proof, w.SectorSize)
		}
	})
}

func FuzzDecodePartition(f *testing.F) {
	f.Add(make([]byte, 8))
	f.Add([]byte(`[{"comm_d_proofs":{"data":{"Single":{}}}}]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, err := DecodePartition(b, 5)
		refusal(t, err)
	})
}

func FuzzDecodePoSt(f *testing.F) {
	seed(f, "post/window-v1_0-2/vanilla-0.bincode", "post/window-v1_0-2/vanilla-0.json")
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, name := range []string{"2k", "64g"} { // one level of trees, three
			a, err := DecodePoSt(b, size(t, name))
			refusal(t, err)
			if err == nil && len(a.Leaves) == 0 {
				t.Error("an answer without a leaf")
			}
		}
	})
}

func FuzzDecodeUpdate(f *testing.F) {
	seed(f, "update/partition-0.bincode", "update/partition-0.json")
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, name := range []string{"2k", "32g"} {
			s := size(t, name)
			a, err := DecodeUpdate(b, s)
			refusal(t, err)
			if err == nil && (len(a.Challenges) != s.UpdateChallenges || len(a.ApexLeaves) != s.ApexLeaves) {
				t.Errorf("%d challenges, %d leaves", len(a.Challenges), len(a.ApexLeaves))
			}
		}
	})
}
