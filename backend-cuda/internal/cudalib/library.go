package cudalib

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/weir-zk/weir/sdk/errs"
)

// FileName is how the library is called.
const FileName = "libweir_cuda.so"

// Library is libweir_cuda, loaded and found to be of this version. It stays loaded for the life of the process: a GPU's driver does not like to be unloaded.
type Library struct {
	Path  string
	Build Build

	fn [nbFunctions]uintptr
}

// Build is what a library says about itself.
type Build struct {
	Text           string `json:"text"`
	RuntimeVersion int    `json:"runtime_version"` // 13000 for CUDA 13.0; 0: not CUDA
	Archs          []int  `json:"archs"`           // 90 for sm_90
	PTX            int    `json:"ptx,omitempty"`
	DebugSync      bool   `json:"debug_sync,omitempty"`
}

// Candidates are the paths where the library is looked for when none is named: beside the program, then in ../lib/weir of it, then in the places of the system.
func Candidates() []string {
	var out []string
	if self, err := os.Executable(); err == nil {
		if real, err := filepath.EvalSymlinks(self); err == nil {
			self = real
		}
		dir := filepath.Dir(self)
		out = append(out, filepath.Join(dir, FileName), filepath.Join(dir, "..", "lib", "weir", FileName), filepath.Join(dir, "..", "lib", FileName))
	}
	return append(out, "/usr/local/lib/weir/"+FileName, "/usr/local/lib/"+FileName, "/usr/lib/weir/"+FileName, "/usr/lib/"+FileName)
}

// Find returns path if it is not empty, else the first candidate that is there.
func Find(path string) (string, error) {
	const op = "find CUDA library"
	if path != "" {
		if st, err := os.Stat(path); err != nil {
			return "", missing(op, path, err)
		} else if !st.Mode().IsRegular() {
			return "", errs.Mismatch(errs.Unavailable, op, "", "a file", st.Mode().Type()).WithPath(path)
		}
		return filepath.Abs(path)
	}
	list := Candidates()
	for _, p := range list {
		if st, err := os.Stat(p); err == nil && st.Mode().IsRegular() {
			return p, nil
		}
	}
	return "", errs.New(errs.Unavailable, op, "no %s (looked for %s)", FileName, strings.Join(list, ", ")).
		WithHint("put %s beside weir-backend-cuda, or name it with --library or WEIR_CUDA_LIBRARY; make cuda builds it", FileName)
}

func missing(op, path string, err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return &errs.Error{Class: errs.Unavailable, Op: op, Path: path, Err: err, Hint: "name the library with --library or WEIR_CUDA_LIBRARY, or put it beside weir-backend-cuda"}
}

// Load loads the library at path and checks that it is what this program was made for. No device is touched and no driver asked.
func Load(path string) (*Library, error) {
	const op = "load CUDA library"
	if _, err := os.Stat(path); err != nil {
		return nil, missing(op, path, err)
	}
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, &errs.Error{Class: errs.Unavailable, Op: op, Path: path, Found: strings.TrimPrefix(err.Error(), path+": "),
			Hint: "the file is no library for this machine, or one it needs is missing (ldd " + path + ")"}
	}
	another := func(where string, expected, found any) error {
		return errs.Mismatch(errs.Unsupported, op, where, expected, found).WithPath(path).
			WithHint("library and weir-backend-cuda belong together: install both from the same release")
	}
	l := &Library{Path: path}
	if l.fn[fnABI], err = purego.Dlsym(handle, symbolPrefix+functionNames[fnABI]); err != nil {
		return nil, another("symbol "+symbolPrefix+functionNames[fnABI], "a library of weir", "none")
	}
	var a abiArgs
	err = l.call(fnABI, &a.Call, unsafe.Sizeof(a))
	if a.Version != ABIVersion {
		return nil, another("ABI version", ABIVersion, a.Version)
	}
	if err != nil {
		return nil, errs.InFile(err, path)
	}
	if int(a.NbSizes) != len(layouts) {
		return nil, another("number of structs", len(layouts), a.NbSizes)
	}
	for i, s := range layouts {
		if want := uint32(reflect.TypeOf(s.zero).Size()); a.Sizes[i] != want {
			return nil, another("size of "+s.name, want, a.Sizes[i])
		}
	}
	for f := range nbFunctions {
		if l.fn[f], err = purego.Dlsym(handle, symbolPrefix+functionNames[f]); err != nil {
			return nil, another("symbol", symbolPrefix+functionNames[f], "none")
		}
	}
	l.Build = Build{Text: text(a.Build[:]), RuntimeVersion: int(a.RuntimeVersion), PTX: int(a.Ptx), DebugSync: a.DebugSync != 0}
	for _, x := range a.Archs[:min(a.NbArchs, uint32(len(a.Archs)))] {
		l.Build.Archs = append(l.Build.Archs, int(x))
	}
	return l, nil
}

func text(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

// call makes a call with the struct of size bytes that begins at head. The struct lies in Go's heap, which does not move, and is kept alive.
func (l *Library) call(f function, head *callHead, size uintptr) error {
	head.Size = uint32(size)
	purego.SyscallN(l.fn[f], uintptr(unsafe.Pointer(head)))
	runtime.KeepAlive(head)
	return head.err(f)
}

// err is the answer of a call as an error. Out of memory is an ordinary error; a device whose state is lost is Unavailable and worth a try elsewhere.
func (c *callHead) err(f function) error {
	if c.Code == codeOK {
		return nil
	}
	e := &errs.Error{Op: "cuda " + functionNames[f], Found: text(c.Text[:])}
	if e.Found == "" {
		e.Found = fmt.Sprintf("code %d", c.Code)
	}
	if c.DeviceCode != 0 {
		e.Found += fmt.Sprintf(" (cudaError %d)", c.DeviceCode)
	}
	switch c.Code {
	case codeUnsupported:
		e.Class = errs.Unsupported
	case codeNoDevice:
		e.Class = errs.Unavailable
		e.Hint = "weir doctor lists the GPUs that are there; CUDA_VISIBLE_DEVICES and the container's settings decide which this process may see"
	case codeNoDriver:
		e.Class = errs.Unavailable
		e.Hint = "install a driver of NVIDIA that is as new as CUDA 13 (nvidia-smi tells the version), or start the container with GPUs"
	case codeOutOfMemory:
		e.Class, e.Retryable = errs.Exhausted, true
		e.Hint = "another process may hold the device's memory (nvidia-smi); vram_limit bounds what weir takes"
	case codeDeviceError:
		e.Class, e.Retryable = errs.Unavailable, true
	default: // invalid or internal: our own fault either way
		e.Class, e.Retryable = errs.Internal, true
	}
	if c.Sticky != 0 {
		e.Class, e.Retryable = errs.Unavailable, true
		e.Err = ErrLost
	}
	return e
}

// ErrLost is in the chain of every error that says: this process can use the device no more.
var ErrLost = errors.New("the device's state in this process is lost")

// IsLost reports whether err says that the process should end.
func IsLost(err error) bool { return errors.Is(err, ErrLost) }
