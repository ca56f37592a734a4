package wkey

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"testing"
)

// residentOf is the bytes of the mapping of path that are in memory, as the kernel counts them.
func residentOf(t *testing.T, path string) int {
	t.Helper()
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Skipf("no smaps here: %v", err)
	}
	defer f.Close()
	sum, in := 0, false
	for s := bufio.NewScanner(f); s.Scan(); {
		line := s.Text()
		if strings.Contains(line, "-") && !strings.HasSuffix(strings.Fields(line)[0], ":") {
			in = strings.HasSuffix(line, path)
		}
		if in && strings.HasPrefix(line, "Rss:") {
			kb, err := strconv.Atoi(strings.Fields(line)[1])
			if err != nil {
				t.Fatal(err)
			}
			sum += kb << 10
		}
	}
	return sum
}

func TestReleaseGivesMemoryBack(t *testing.T) {
	f := onDisk(t, encode(t, bigKey(1<<14), nil))
	k, err := Map(f, "")
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	var sum uint64
	for _, p := range k.Key().H {
		sum += p.X[0]
	}
	h := int(k.Section(SecH).Length)
	before := residentOf(t, f.Name())
	if before < h {
		t.Fatalf("%d bytes resident after %d were read (%d)", before, h, sum)
	}
	k.Release(SecH)
	if after := residentOf(t, f.Name()); after > before-h*9/10 {
		t.Errorf("%d bytes resident, %d before, H has %d", after, before, h)
	}
}
