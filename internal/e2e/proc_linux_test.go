package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// within is the time after which nothing may be left.
const within = 5 * time.Second

// processes are those that run the world's binary; dead ones that nobody has waited for are left out.
func (w *world) processes() []int {
	all, _ := filepath.Glob("/proc/[0-9]*")
	var out []int
	for _, dir := range all {
		exe, err := os.Readlink(dir + "/exe") // fails for the dead
		if err == nil && strings.TrimSuffix(exe, " (deleted)") == w.bin {
			pid, _ := strconv.Atoi(filepath.Base(dir))
			out = append(out, pid)
		}
	}
	return out
}

// plugins are the processes that serve the plugin of the name.
func (w *world) plugins(name string) []int {
	var out []int
	for _, pid := range w.processes() {
		if cmd, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && strings.Contains(string(cmd), "\x00plugin\x00serve\x00"+name+"\x00") {
			out = append(out, pid)
		}
	}
	return out
}

func cleanUp(w *world) {
	for _, pid := range w.processes() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// shared are the inodes of the shared memory that the processes hold, as descriptors or maps.
func shared(pids []int) map[uint64]bool {
	out := map[uint64]bool{}
	for _, pid := range pids {
		fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		for _, fd := range fds {
			var st unix.Stat_t
			if name, err := os.Readlink(fd); err == nil && strings.HasPrefix(name, "/memfd:") && unix.Stat(fd, &st) == nil {
				out[st.Ino] = true
			}
		}
		maps, _ := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
		for _, line := range strings.Split(string(maps), "\n") {
			if f := strings.Fields(line); len(f) >= 6 && strings.HasPrefix(f[5], "/memfd:") {
				ino, _ := strconv.ParseUint(f[4], 10, 64)
				out[ino] = true
			}
		}
	}
	return out
}

// everybody are all processes of the machine that can be looked at.
func everybody() []int {
	all, _ := filepath.Glob("/proc/[0-9]*")
	var out []int
	for _, dir := range all {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		out = append(out, pid)
	}
	return out
}

// group are the living members of process groups.
func group(leaders []int) []int {
	var out []int
	for _, pid := range everybody() {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		f := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:])) // state, parent, group
		for _, l := range leaders {
			if len(f) > 2 && f[0] != "Z" && f[2] == strconv.Itoa(l) {
				out = append(out, pid)
			}
		}
	}
	return out
}

// traces are what is known of a running world, to be looked for when it is dead.
type traces struct {
	w       *world
	pids    []int
	memory  map[uint64]bool
	sockets []string
}

func (w *world) traces() *traces {
	s := &traces{w: w, pids: w.processes()}
	s.memory = shared(s.pids)
	s.sockets = names(w.t, w.tmp)
	return s
}

// left is what of them is still there.
func (s *traces) left() (out []string) {
	for _, pid := range append(s.w.processes(), group(s.pids)...) {
		out = append(out, fmt.Sprintf("process %d", pid))
	}
	for ino := range shared(everybody()) {
		if s.memory[ino] {
			out = append(out, fmt.Sprintf("shared memory, inode %d", ino))
		}
	}
	for _, name := range s.sockets {
		if _, err := os.Lstat(filepath.Join(s.w.tmp, name)); err == nil {
			out = append(out, "sockets "+name)
		}
	}
	return out
}

// gone waits until no process, socket or shared memory is left, and returns how long that took.
func (s *traces) gone() time.Duration {
	s.w.t.Helper()
	begin := time.Now()
	for {
		left := s.left()
		took := time.Since(begin)
		if len(left) == 0 {
			return took
		}
		if took > within {
			s.w.t.Fatalf("left after %v: %s", took, strings.Join(left, ", "))
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// nothing wants no process, no socket, no temporary file of a weir that has ended in order.
func (w *world) nothing(files ...string) {
	w.t.Helper()
	if p := w.processes(); len(p) > 0 {
		w.t.Errorf("left processes: %v", p)
	}
	if l := names(w.t, w.tmp); len(l) > 0 {
		w.t.Errorf("left in the folder for temporary files: %v", l)
	}
	if l := w.files(); strings.Join(l, " ") != strings.Join(files, " ") {
		w.t.Errorf("files %v, want %v", l, files)
	}
}
