// Package cudalib is the Go side of kernels/weir_cuda.h, which is the manual of every call: it loads libweir_cuda.so by purego (no cgo), checks that both sides mean
// the same version and layouts, and turns the library's answers into typed errors. It knows nothing of proofs.
package cudalib

// ABIVersion is the version of weir_cuda.h that this package speaks. Another one is refused.
const ABIVersion = 1

// Codes of a call's answer.
const (
	codeOK          = 0
	codeInvalid     = 1
	codeUnsupported = 2
	codeNoDevice    = 3
	codeNoDriver    = 4
	codeOutOfMemory = 5
	codeDeviceError = 6
	codeInternal    = 7
)

// The structs of weir_cuda.h, field by field: a test compares names, offsets and sizes with the header. Device and host addresses are numbers.
type (
	callHead struct {
		Size       uint32
		Code       int32
		DeviceCode int32
		Sticky     uint32
		Text       [240]byte
	}

	abiArgs struct {
		Call           callHead
		Version        uint32
		NbSizes        uint32
		Sizes          [32]uint32
		RuntimeVersion uint32
		NbArchs        uint32
		Archs          [16]uint32
		Ptx            uint32
		DebugSync      uint32
		Build          [128]byte
	}

	deviceEntry struct {
		Uuid            [16]uint8
		Name            [128]byte
		Pci             [32]byte
		Memory          uint64
		Arch            uint32
		Multiprocessors uint32
		Usable          uint32
		Reserved        uint32
	}

	devicesArgs struct {
		Call          callHead
		DriverVersion uint32
		NbDevices     uint32
		Devices       uint64
		Room          uint32
		DeviceSize    uint32
	}

	openArgs struct {
		Call       callHead
		Uuid       [16]uint8
		Lanes      uint32
		Flags      uint32
		Device     uint64
		Memory     uint64
		MemoryFree uint64
		Arch       uint32
		Reserved   uint32
	}

	deviceArgs struct {
		Call                                                                                  callHead
		Device, Memory, MemoryFree, Allocated, Registered                                     uint64
		LaunchesNtt, LaunchesG1, LaunchesG2, LaunchesSpmv, LaunchesWitness, LaunchesFixedBase uint64
	}

	memoryArgs struct {
		Call                   callHead
		Device, Bytes, Address uint64
	}

	registerArgs struct {
		Call                   callHead
		Device, Address, Bytes uint64
	}

	copyArgs struct {
		Call                           callHead
		Device                         uint64
		Lane, Reserved                 uint32
		After, Ticket, To, From, Bytes uint64
	}

	waitArgs struct {
		Call        callHead
		Device      uint64
		Lane, Queue uint32
		Ticket      uint64
		Poll, Done  uint32
	}

	sizesArgs struct {
		Call                callHead
		Device              uint64
		LogN, HasDomain     uint32
		G1Points            uint64
		G2Points            uint64
		Wires, Listed       uint64
		Rows, Terms, Coeffs uint64
		FixedG1, FixedG2    uint64
		TablesBytes         uint64
		QuotientBytes       uint64
		G1Bytes             uint64
		G2Bytes             uint64
		ClassesBytes        uint64
		WitnessBytes        uint64
		EvaluateBytes       uint64
		FixedBaseBytes      uint64
	}

	tablesArgs struct {
		Call                               callHead
		Device                             uint64
		Lane, LogN                         uint32
		After, Ticket, Tables, TablesBytes uint64
	}

	witnessArgs struct {
		Call                                                   callHead
		Device                                                 uint64
		Lane, Compact                                          uint32
		After, Ticket, Wires, Listed, IsBit, Value, Rank, List uint64
		Scalars, Classes, ClassesBytes, Scratch, ScratchBytes  uint64
	}

	evaluateArgs struct {
		Call                                         callHead
		Device                                       uint64
		Lane, LogN                                   uint32
		After, Ticket                                uint64
		RowOrder, Extra                              uint32
		FirstRow, Rows, Terms                        uint64
		Start, Wire, Coeff, Coeffs, NbCoeffs         uint64
		Scalars, Classes, Out, Scratch, ScratchBytes uint64
	}

	quotientArgs struct {
		Call                                              callHead
		Device                                            uint64
		Lane, LogN                                        uint32
		After, Ticket                                     uint64
		Basis, Product                                    uint32
		A, B, C, Tables, Remainder, Scratch, ScratchBytes uint64
	}

	msmArgs struct {
		Call                                    callHead
		Device                                  uint64
		Lane, Group                             uint32
		After, Ticket                           uint64
		Points, NbPoints, Scalars, Index, First uint64
		Kind, Reserved                          uint32
		Classes, Result, Scratch, ScratchBytes  uint64
		ScratchUsed                             uint64
		Windows, WindowBits                     uint32
	}

	fixedBaseArgs struct {
		Call                             callHead
		Device                           uint64
		Lane, Group                      uint32
		After, Ticket                    uint64
		Base, Scalars, NbScalars, Points uint64
		MakeTable, Reserved              uint32
		Scratch, ScratchBytes            uint64
	}
)

// layouts are the structs in the order in which the library tells their sizes, with their names in C.
var layouts = []struct {
	name string
	zero any
}{
	{"weir_cuda_call", callHead{}}, {"weir_cuda_abi_args", abiArgs{}}, {"weir_cuda_device", deviceEntry{}}, {"weir_cuda_devices_args", devicesArgs{}},
	{"weir_cuda_open_args", openArgs{}}, {"weir_cuda_device_args", deviceArgs{}}, {"weir_cuda_memory_args", memoryArgs{}},
	{"weir_cuda_register_args", registerArgs{}}, {"weir_cuda_copy_args", copyArgs{}}, {"weir_cuda_wait_args", waitArgs{}},
	{"weir_cuda_sizes_args", sizesArgs{}}, {"weir_cuda_tables_args", tablesArgs{}}, {"weir_cuda_witness_args", witnessArgs{}},
	{"weir_cuda_evaluate_args", evaluateArgs{}}, {"weir_cuda_quotient_args", quotientArgs{}}, {"weir_cuda_msm_args", msmArgs{}},
	{"weir_cuda_fixed_base_args", fixedBaseArgs{}},
}

// function is a call of the library.
type function int

const (
	fnABI function = iota
	fnDevices
	fnOpen
	fnClose
	fnMemory
	fnCounters
	fnAlloc
	fnFree
	fnRegister
	fnUnregister
	fnUpload
	fnDownload
	fnClear
	fnWait
	fnSizes
	fnTables
	fnWitness
	fnEvaluate
	fnQuotient
	fnMSM
	fnFixedBase
	nbFunctions
)

// functionNames are the symbols without their prefix, and what a person calls them.
var functionNames = [nbFunctions]string{"abi", "devices", "open", "close", "memory", "counters", "alloc", "free", "register", "unregister", "upload", "download",
	"clear", "wait", "sizes", "tables", "witness", "evaluate", "quotient", "msm", "fixed_base"}

const symbolPrefix = "weir_cuda_"
