package circom

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"unsafe"
)

// A program's memory holds the witness: core files leave it out.
func TestProgramMemoryIsNotDumped(t *testing.T) {
	var live atomic.Int64
	m, err := newProgramMemory(3, &live)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Skipf("no smaps here: %v", err)
	}
	defer func() { _ = f.Close() }()
	at := uint64(uintptr(unsafe.Pointer(&m.mapped[0])))
	in := false
	for s := bufio.NewScanner(f); s.Scan(); {
		var lo, hi uint64
		if n, _ := fmt.Sscanf(s.Text(), "%x-%x ", &lo, &hi); n == 2 {
			in = lo <= at && at < hi
		}
		if flags, ok := strings.CutPrefix(s.Text(), "VmFlags:"); ok && in {
			if !strings.Contains(flags+" ", " dd ") {
				t.Errorf("flags %q", flags)
			}
			return
		}
	}
	t.Skip("smaps has no flags here")
}
