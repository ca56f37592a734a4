package memlimit

import "golang.org/x/sys/unix"

// Auto is the budget of this process.
func Auto() (Limit, error) {
	all := rlimits()
	if n, err := unix.SysctlUint64("hw.memsize"); err == nil {
		all = append(all, candidate{raw: int64(n), source: "hw.memsize"})
	}
	return smallest(all)
}
