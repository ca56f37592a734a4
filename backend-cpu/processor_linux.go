package cpu

import (
	"bufio"
	"os"
	"runtime"
	"strings"
)

// processor is the model name, for messages.
func processor() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	defer func() { _ = f.Close() }()
	for s := bufio.NewScanner(f); s.Scan(); {
		name, value, ok := strings.Cut(s.Text(), ":")
		if ok && strings.TrimSpace(name) == "model name" { // arm64 kernels have none
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}
