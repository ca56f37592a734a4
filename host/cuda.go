package host

import (
	"os"
	"os/exec"
	"path/filepath"
)

// The CUDA backend is an executable of its own, as a program that can load NVIDIA's driver is linked dynamically and weir is not.
const (
	CUDABackend    = "cuda"
	CUDAExecutable = "weir-backend-cuda"
)

// cudaEnv are the variables by which a user sets it up.
var cudaEnv = []string{"WEIR_CUDA_LIBRARY", "WEIR_CUDA_DEVICE", "WEIR_CUDA_LANES", "WEIR_CUDA_VRAM_LIMIT", "WEIR_CUDA_HOST_EVALUATES"}

// FindCUDA looks for the CUDA backend: beside this program, in ../lib/weir of it, then on PATH. It starts nothing, so no device is touched. Empty: it is not here.
func FindCUDA() string {
	if self, err := os.Executable(); err == nil {
		if real, err := filepath.EvalSymlinks(self); err == nil {
			self = real
		}
		dir := filepath.Dir(self)
		for _, p := range []string{filepath.Join(dir, CUDAExecutable), filepath.Join(dir, "..", "lib", "weir", CUDAExecutable)} {
			if st, err := os.Stat(p); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
				return p
			}
		}
	}
	if p, err := exec.LookPath(CUDAExecutable); err == nil {
		if p, err = filepath.Abs(p); err == nil {
			return p
		}
	}
	return ""
}

// CUDAPlugin is how the CUDA backend at path is started.
func CUDAPlugin(path string) Plugin { return Plugin{Command: path, Trusted: true, Env: cudaEnv} }
