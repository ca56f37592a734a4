package cpu

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// processor is the model name, for messages.
func processor() string {
	if name, err := unix.Sysctl("machdep.cpu.brand_string"); err == nil && name != "" {
		return name
	}
	return runtime.GOARCH
}
