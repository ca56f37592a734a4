package plugin

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// maxSocketPath is the longest path of a unix socket: sun_path less its final zero.
const maxSocketPath = 107

// closeOnExecAll marks every descriptor from 3 on.
func closeOnExecAll() {
	if unix.CloseRange(3, ^uint(0)>>33, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return
	}
	markOpenFiles("/proc/self/fd") // kernels before 5.11
}

// raiseOOMScore may fail where the host's own value is higher already; nothing depends on it.
func raiseOOMScore(n int) {
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte(strconv.Itoa(min(n, 1000))), 0)
}

// awaitExit returns when the process has exited and leaves it to be reaped, so that its number, and that of its
// process group, still is its own.
func awaitExit(pid int) {
	for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
}

// runnable gives a path that starts exactly the file f, whatever its name stands for by now, when f becomes descriptor
// fd of the new process.
func runnable(_ string, fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

const canRunOpenFile = true
