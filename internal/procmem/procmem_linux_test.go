package procmem

import (
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestOfThisProcess(t *testing.T) {
	before, ok := Pss(os.Getpid())
	if !ok {
		t.Skip("this system has no /proc with smaps_rollup")
	}
	if _, ok := Pss(1 << 30); ok {
		t.Error("a process that is not there has memory")
	}
	const size = 32 << 20
	fds, shared := Descriptors(), Shared()
	fd, err := unix.MemfdCreate("weir-procmem-test", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "memfd")
	defer f.Close()
	if err := f.Truncate(2 * size); err != nil {
		t.Fatal(err)
	}
	b, err := unix.Mmap(fd, 0, 2*size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Munmap(b); err != nil {
			t.Error(err)
		}
	}()
	for i := 0; i < size; i += 4096 {
		b[i] = 1
	}
	after, _ := Pss(os.Getpid())
	const most = size + size/4 // a huge page here, some heap there
	if d := after - before; d < size*9/10 || d > most {
		t.Errorf("%d bytes written, Pss grew by %d", size, d)
	}
	if d := Shared() - shared; d < size || d > most {
		t.Errorf("%d bytes written, shared memory grew by %d", size, d)
	}
	again, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(again)
	if d := Shared() - shared; d > most {
		t.Errorf("%d bytes are counted twice: %d", size, d)
	}
	if d := Descriptors() - fds; d != 2 {
		t.Errorf("two descriptors more, %d are counted", d)
	}
}

func TestChildren(t *testing.T) {
	if _, ok := Pss(os.Getpid()); !ok {
		t.Skip("this system has no /proc with smaps_rollup")
	}
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Skipf("no program to start: %v", err)
	}
	pid := cmd.Process.Pid
	found := func() bool { return slices.Contains(Children(os.Getpid()), pid) }
	if !found() {
		t.Errorf("%d is not among %v", pid, Children(os.Getpid()))
	}
	for deadline := time.Now().Add(5 * time.Second); ; { // it has no memory before it executes
		if n, ok := Pss(pid); ok && n > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no memory is known of a child")
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if found() {
		t.Error("still there when it has been waited for")
	}
}
