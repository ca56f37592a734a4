package main

import (
	"strings"

	"golang.org/x/sys/cpu"
)

// cpuFeatures lists what the arithmetic can use, and whether its fast path is there.
func cpuFeatures() (list string, fast bool) {
	var have, lack []string
	for _, f := range []struct {
		name string
		has  bool
	}{{"ADX", cpu.X86.HasADX}, {"BMI2", cpu.X86.HasBMI2}, {"AVX2", cpu.X86.HasAVX2}, {"AVX-512F", cpu.X86.HasAVX512F}, {"AVX-512IFMA", cpu.X86.HasAVX512IFMA}} {
		if f.has {
			have = append(have, f.name)
		} else {
			lack = append(lack, f.name)
		}
	}
	list = "with " + strings.Join(have, " ")
	if len(have) == 0 {
		list = "without any of the known extensions"
	} else if len(lack) > 0 {
		list += "; without " + strings.Join(lack, " ")
	}
	return list, cpu.X86.HasADX && cpu.X86.HasBMI2
}
