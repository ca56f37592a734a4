package cudalib

import (
	"encoding/hex"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"unsafe"

	"github.com/weir-zk/weir/sdk/errs"
)

// UUID names a GPU for good, whatever order and number the system gives it.
type UUID [16]byte

// String renders the UUID as nvidia-smi does.
func (u UUID) String() string {
	return fmt.Sprintf("GPU-%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// ParseUUID reads what String writes; the prefix may be absent.
func ParseUUID(s string) (u UUID, err error) {
	t := strings.TrimPrefix(strings.TrimPrefix(strings.ToLower(strings.TrimSpace(s)), "gpu-"), "0x")
	b, err := hex.DecodeString(strings.ReplaceAll(t, "-", ""))
	if err != nil || len(b) != len(u) {
		return u, errs.Mismatch(errs.InvalidArgument, "device", "", "a UUID as nvidia-smi -L prints it", fmt.Sprintf("%q", s))
	}
	copy(u[:], b)
	return u, nil
}

// DeviceInfo is a GPU as it is found, not opened.
type DeviceInfo struct {
	UUID            UUID
	Name            string
	PCI             string
	Memory          int64
	Arch            int // 90 for compute capability 9.0
	Multiprocessors int
	Usable          bool // the library has code for it
}

// Devices lists the GPUs that this process may use, and the version of CUDA that the driver can do, 0 without a driver.
func (l *Library) Devices() (list []DeviceInfo, driver int, err error) {
	const room = 64
	entries := make([]deviceEntry, room)
	var pin runtime.Pinner // in the heap, and alive: the struct has its address as a number
	pin.Pin(&entries[0])
	defer pin.Unpin()
	a := devicesArgs{Devices: uint64(uintptr(unsafe.Pointer(&entries[0]))), Room: room, DeviceSize: uint32(unsafe.Sizeof(entries[0]))}
	err = l.call(fnDevices, &a.Call, unsafe.Sizeof(a))
	if err != nil {
		return nil, int(a.DriverVersion), err
	}
	for _, e := range entries[:min(a.NbDevices, room)] {
		list = append(list, DeviceInfo{UUID: e.Uuid, Name: text(e.Name[:]), PCI: text(e.Pci[:]), Memory: int64(e.Memory), Arch: int(e.Arch),
			Multiprocessors: int(e.Multiprocessors), Usable: e.Usable != 0})
	}
	return list, int(a.DriverVersion), nil
}

// Choose picks the GPU with the given UUID, or the first that is usable for none.
func (l *Library) Choose(want string) (*DeviceInfo, error) {
	const op = "choose device"
	var id UUID
	if want != "" {
		var err error
		if id, err = ParseUUID(want); err != nil {
			return nil, err
		}
	}
	list, _, err := l.Devices()
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range list {
		d := &list[i]
		if want == "" && d.Usable || want != "" && d.UUID == id {
			if !d.Usable {
				return nil, errs.New(errs.Unsupported, op, "%s %v has compute capability %d.%d, which the library has no code for", d.Name, d.UUID, d.Arch/10, d.Arch%10).
					WithHint("the library has code for %v", l.Build.Archs)
			}
			return d, nil
		}
		names = append(names, fmt.Sprintf("%v (%s)", d.UUID, d.Name))
	}
	switch {
	case len(list) == 0:
		return nil, errs.New(errs.Unavailable, op, "the driver sees no GPU").WithHint("nvidia-smi -L lists them; a container needs to be given its GPUs, and CUDA_VISIBLE_DEVICES may hide them")
	case want == "":
		return nil, errs.New(errs.Unsupported, op, "the library has no code for any GPU here: %s", strings.Join(names, ", "))
	}
	return nil, errs.Mismatch(errs.Unavailable, op, "", fmt.Sprintf("the GPU %v", id), strings.Join(names, ", ")).WithHint("the device of the configuration is not here, or hidden by CUDA_VISIBLE_DEVICES")
}

// Device is an open GPU. Its methods may be called from any goroutine; those of one lane by one at a time.
type Device struct {
	DeviceInfo
	MemoryFree int64 // when it was opened

	lib    *Library
	handle uint64
	lost   atomic.Pointer[error]
	onLost func(error)
}

// Open takes a GPU with a number of lanes. onLost, which may be nil, is called once if the device's state is lost.
func (l *Library) Open(info *DeviceInfo, lanes int, onLost func(error)) (*Device, error) {
	a := openArgs{Uuid: info.UUID, Lanes: uint32(lanes)}
	if err := l.call(fnOpen, &a.Call, unsafe.Sizeof(a)); err != nil {
		return nil, err
	}
	d := &Device{DeviceInfo: *info, MemoryFree: int64(a.MemoryFree), lib: l, handle: a.Device, onLost: onLost}
	d.Memory = int64(a.Memory)
	if got := UUID(a.Uuid); got != info.UUID {
		_ = d.Close() // the wrong device says more
		return nil, errs.Mismatch(errs.Internal, "cuda open", "", "the GPU "+info.UUID.String(), got.String())
	}
	return d, nil
}

// call makes a call and remembers a lost device: from then on no call goes through.
func (d *Device) call(f function, head *callHead, size uintptr) error {
	if e := d.lost.Load(); e != nil {
		return *e
	}
	err := d.lib.call(f, head, size)
	if IsLost(err) && d.lost.CompareAndSwap(nil, &err) && d.onLost != nil {
		d.onLost(err)
	}
	return err
}

// Lost is the error that lost the device, nil while it lives.
func (d *Device) Lost() error {
	if e := d.lost.Load(); e != nil {
		return *e
	}
	return nil
}

// Close gives everything back.
func (d *Device) Close() error {
	a := deviceArgs{Device: d.handle}
	return d.call(fnClose, &a.Call, unsafe.Sizeof(a))
}

// MemoryUse tells what is free on the device, for all processes, and what this process has allocated and pinned through this package.
type MemoryUse struct{ Total, Free, Allocated, Registered int64 }

// MemoryUse asks the device.
func (d *Device) MemoryUse() (MemoryUse, error) {
	a := deviceArgs{Device: d.handle}
	err := d.call(fnMemory, &a.Call, unsafe.Sizeof(a))
	return MemoryUse{int64(a.Memory), int64(a.MemoryFree), int64(a.Allocated), int64(a.Registered)}, err
}

// Launches counts kernels by family since the device was opened.
type Launches struct{ NTT, G1, G2, SpMV, Witness, FixedBase uint64 }

// Launches asks the library.
func (d *Device) Launches() (Launches, error) {
	a := deviceArgs{Device: d.handle}
	err := d.call(fnCounters, &a.Call, unsafe.Sizeof(a))
	return Launches{a.LaunchesNtt, a.LaunchesG1, a.LaunchesG2, a.LaunchesSpmv, a.LaunchesWitness, a.LaunchesFixedBase}, err
}

// Addr is an address in the device's memory; 0 is none.
type Addr uint64

// Alloc takes device memory, not cleared.
func (d *Device) Alloc(bytes int64) (Addr, error) {
	a := memoryArgs{Device: d.handle, Bytes: uint64(bytes)}
	err := d.call(fnAlloc, &a.Call, unsafe.Sizeof(a))
	return Addr(a.Address), err
}

// Free gives a block back.
func (d *Device) Free(at Addr) error {
	a := memoryArgs{Device: d.handle, Address: uint64(at)}
	return d.call(fnFree, &a.Call, unsafe.Sizeof(a))
}

// Register pins host memory that begins at a page and is not Go's.
func (d *Device) Register(b []byte) error {
	a := registerArgs{Device: d.handle, Address: hostAddr(b), Bytes: uint64(len(b))}
	return d.call(fnRegister, &a.Call, unsafe.Sizeof(a))
}

// Unregister undoes Register. It comes before the memory is given back.
func (d *Device) Unregister(b []byte) error {
	a := registerArgs{Device: d.handle, Address: hostAddr(b)}
	return d.call(fnUnregister, &a.Call, unsafe.Sizeof(a))
}

func hostAddr(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// Need says what steps there will be, Sizes what memory they take beside their operands. See weir_cuda_sizes_args.
type Need struct {
	LogN               int // -1: no domain
	G1Points, G2Points int // most in one sum
	Wires, Listed      int
	Rows, Terms        int
	Coeffs             int
	FixedG1, FixedG2   int
}

// Sizes are bytes.
type Sizes struct{ Tables, Quotient, G1, G2, Classes, Witness, Evaluate, FixedBase int64 }

// Sizes is arithmetic.
func (d *Device) Sizes(n Need) (Sizes, error) {
	a := sizesArgs{Device: d.handle, G1Points: uint64(n.G1Points), G2Points: uint64(n.G2Points), Wires: uint64(n.Wires), Listed: uint64(n.Listed),
		Rows: uint64(n.Rows), Terms: uint64(n.Terms), Coeffs: uint64(n.Coeffs), FixedG1: uint64(n.FixedG1), FixedG2: uint64(n.FixedG2)}
	if n.LogN >= 0 {
		a.LogN, a.HasDomain = uint32(n.LogN), 1
	}
	err := d.call(fnSizes, &a.Call, unsafe.Sizeof(a))
	return Sizes{int64(a.TablesBytes), int64(a.QuotientBytes), int64(a.G1Bytes), int64(a.G2Bytes), int64(a.ClassesBytes), int64(a.WitnessBytes),
		int64(a.EvaluateBytes), int64(a.FixedBaseBytes)}, err
}
