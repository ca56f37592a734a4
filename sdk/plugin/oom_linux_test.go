package plugin

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/weir-zk/weir/sdk/errs"
)

// TestRealOOM lets the kernel kill a plugin in a memory cgroup of 64 MiB and wants to be told so. It makes a cgroup below
// the test's own, so it runs only when asked.
func TestRealOOM(t *testing.T) {
	if os.Getenv("WEIR_TEST_CGROUP") == "" {
		t.Skip("makes a cgroup: set WEIR_TEST_CGROUP=1, with the right to do so")
	}
	v1, v2 := oomProbe{}.groups(os.Getpid())
	parent, limitFile := filepath.Join("/sys/fs/cgroup/memory", v1), "memory.limit_in_bytes"
	if v1 == "" {
		parent, limitFile = filepath.Join("/sys/fs/cgroup", v2), "memory.max"
	}
	group := filepath.Join(parent, fmt.Sprintf("weir-test-%d", os.Getpid()))
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Skip("no cgroup can be made:", err)
	}
	t.Cleanup(func() {
		eventually(t, "the cgroup is removed", 5*time.Second, func() bool { return os.Remove(group) == nil })
	})
	if err := os.WriteFile(filepath.Join(group, limitFile), []byte("67108864"), 0); err != nil {
		t.Skip("no memory limit can be set:", err)
	}
	p := launchTest(t, "ok")
	if err := os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(p.PID())), 0); err != nil {
		t.Skip("no process can be moved:", err)
	}
	p.child.recountOOM()
	start := time.Now()
	_, err := call(context.Background(), p, "Do", "eat")
	wantClass(t, err, errs.BackendGone, "SIGKILL", "probably out of memory: the kernel counted", filepath.Base(group))
	t.Logf("%v after %v", err, time.Since(start).Round(time.Millisecond))
}
