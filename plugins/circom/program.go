package circom

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/weir-zk/weir/sdk/errs"
)

// A witness program is what circom --wasm writes: a WebAssembly module that takes input signals and computes all wires. There are two
// generations with different exports; calculator2.go and calculator1.go speak to one each. Everything here is common to both.

const wasmMagic = "\x00asm"

// codeFactor is how much memory a compiled program takes for each byte of its file: the decoded module on the heap and its machine code. Measured
// with wazero 1.12 on amd64: 1.1 to 2.7 on the heap and 1.5 to 5 of code.
const codeFactor = 8

// stackReserve is the least room between data and end of memory that a program of circom 1 gets for its stack.
const stackReserve = 16 << 20

// program is a compiled witness program. Safe for concurrent use: each run has an instance of its own.
type program struct {
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
	env      wazero.CompiledModule // exports the memory that circom 1 imports; nil for circom 2
	pages    uint32
	resident int64
	live     *atomic.Int64
	wires    int // what the program will compute
}

// calculator is one generation's protocol, on one instance.
type calculator interface {
	// wires is the number of values of the witness.
	wires(ctx context.Context) (int, error)
	// check finds input signals that are unknown or have the wrong number of values, as far as the program tells before it runs.
	check(ctx context.Context, in *inputs, names func() []string) error
	// calculate sets the inputs and so computes the witness.
	calculate(ctx context.Context, in *inputs, names func() []string) error
	// read writes values first to first+len(buf)/32-1 to buf, plain and little-endian.
	read(ctx context.Context, first int, buf []byte) error
}

// compileProgram compiles code and asks it for its field and its number of wires. maxMemory bounds its linear memory.
func compileProgram(ctx context.Context, code []byte, tasks int, maxMemory int64, live *atomic.Int64) (_ *program, err error) {
	memory, err := readWasmMemory(code)
	if err != nil {
		return nil, err
	}
	pages := int64(memory.pages)
	if memory.imported {
		// Its stack begins at the end of memory, rounded down to 8 pages.
		pages = max(pages, (int64(memory.free)+stackReserve+wasmPage-1)/wasmPage)
		pages = (pages + 7) &^ 7
	}
	if pages*wasmPage > maxMemory || pages > maxPages-8 {
		return nil, errs.Mismatch(errs.Exhausted, "compile program", "memory", fmt.Sprintf("a program that needs at most %d bytes", maxMemory), pages*wasmPage).
			WithHint("compute the witness outside (snarkjs wtns calculate) and give the .wtns file")
	}
	if tasks > 1 {
		ctx = experimental.WithCompilationWorkers(ctx, tasks)
	}
	// The limit is on what programs declare; growing is refused by programMemory.
	config := wazero.NewRuntimeConfig().WithCloseOnContextDone(true).WithMemoryLimitPages(uint32(max(pages, 1))).WithDebugInfoEnabled(false)
	p := &program{runtime: wazero.NewRuntimeWithConfig(ctx, config), pages: uint32(pages), resident: codeFactor * int64(len(code)), live: live}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	bad := func(err error) error {
		if cerr := ctx.Err(); cerr != nil {
			return errs.Wrap(cerr, "compile program")
		}
		return &errs.Error{Class: errs.InvalidFile, Op: "compile program", Err: errors.New(firstLine(err.Error())), Hint: "the program is the .wasm that circom --wasm writes"}
	}
	if p.compiled, err = p.runtime.CompileModule(ctx, code); err != nil {
		return nil, bad(err)
	}
	if err = ctx.Err(); err != nil {
		return nil, bad(err)
	}
	if memory.imported {
		if p.env, err = p.runtime.CompileModule(ctx, memoryModule(p.pages)); err != nil {
			return nil, bad(err)
		}
	}
	if err = p.hostFunctions(ctx); err != nil {
		return nil, err
	}
	r, err := p.start(ctx)
	if err != nil {
		return nil, err
	}
	defer r.close()
	p.wires, err = r.calc.wires(ctx)
	return p, err
}

func (p *program) close() {
	_ = p.runtime.Close(context.Background())
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

// hostFunctions makes the module "runtime" with just the functions that the program imports, with the types it wants.
func (p *program) hostFunctions(ctx context.Context) error {
	b := p.runtime.NewHostModuleBuilder("runtime")
	n := 0
	for _, f := range p.compiled.ImportedFunctions() {
		module, name, _ := f.Import()
		h, ok := hostCalls[name]
		if module != "runtime" || !ok || len(f.ParamTypes()) < h.params || slices.ContainsFunc(f.ParamTypes(), func(t api.ValueType) bool { return t != api.ValueTypeI32 }) || len(f.ResultTypes()) > 0 {
			return errs.Mismatch(errs.Unsupported, "compile program", "imports", "those of a witness program of circom 1 or 2", fmt.Sprintf("%s.%s with %d parameters", module, name, len(f.ParamTypes()))).
				WithHint("the program is the .wasm that circom --wasm writes")
		}
		n++
		b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(ctx context.Context, _ api.Module, stack []uint64) {
			h.f(ctx, ctx.Value(runKey{}).(*run), stack)
		}), f.ParamTypes(), nil).Export(name)
	}
	if n == 0 {
		return nil
	}
	_, err := b.Instantiate(ctx)
	return errs.Wrap(err, "compile program")
}

type runKey struct{}

// run is one instance of a program, used by one goroutine.
type run struct {
	p        *program
	mod, env api.Module
	memory   *programMemory
	calc     calculator
	fault    error // what a host function has found; the program was ended by it
	message  strings.Builder
	finished map[uint32]bool // circom 1: components that have run
}

// start makes an instance.
func (p *program) start(ctx context.Context) (_ *run, err error) {
	r := &run{p: p, finished: map[uint32]bool{}}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	if r.memory, err = newProgramMemory(p.pages, p.live); err != nil {
		return nil, err
	}
	ctx = context.WithValue(experimental.WithMemoryAllocator(ctx, r.memory), runKey{}, r)
	anonymous := wazero.NewModuleConfig().WithName("").WithStartFunctions()
	if p.env != nil {
		if r.env, err = p.runtime.InstantiateModule(ctx, p.env, anonymous); err != nil {
			return nil, r.failed(ctx, "start program", err)
		}
		ctx = experimental.WithImportResolver(ctx, func(name string) api.Module {
			if name == "env" {
				return r.env
			}
			return nil
		})
	}
	if r.mod, err = p.runtime.InstantiateModule(ctx, p.compiled, anonymous); err != nil {
		return nil, r.failed(ctx, "start program", err)
	}
	switch {
	case r.mod.ExportedFunction("getVersion") != nil || r.mod.ExportedFunction("getFieldNumLen32") != nil:
		r.calc, err = newCalculator2(ctx, r)
	case r.mod.ExportedFunction("getFrLen") != nil:
		r.calc, err = newCalculator1(ctx, r)
	default:
		err = errs.Mismatch(errs.InvalidFile, "start program", "exports", "those of a witness program of circom 1 or 2", "others").WithHint("the program is the .wasm that circom --wasm writes")
	}
	return r, err
}

// close frees the instance and its memory; nothing that was read from it in place may be used any more.
func (r *run) close() {
	ctx := context.Background()
	if r.mod != nil {
		_ = r.mod.Close(ctx)
	}
	if r.env != nil {
		_ = r.env.Close(ctx)
	}
	if r.memory != nil {
		r.memory.Free()
	}
}

// function is an export of the program with the given number of i32 parameters and results.
func (r *run) function(name string, params, results int) (api.Function, error) {
	f := r.mod.ExportedFunction(name)
	found := "none"
	if f != nil {
		d := f.Definition()
		all := append(slices.Clone(d.ParamTypes()), d.ResultTypes()...)
		if len(d.ParamTypes()) == params && len(d.ResultTypes()) == results && !slices.ContainsFunc(all, func(t api.ValueType) bool { return t != api.ValueTypeI32 }) {
			return f, nil
		}
		found = "another type"
	}
	return nil, errs.Mismatch(errs.InvalidFile, "start program", "export "+name, fmt.Sprintf("a function of %d parameters and %d results", params, results), found).
		WithHint("the program is the .wasm that circom --wasm writes")
}

// call runs a function of the program. Only where ctx can end does wazero watch it, which costs more than most calls: short ones get a context without end.
func (r *run) call(ctx context.Context, f api.Function, args ...uint64) (uint32, error) {
	out, err := f.Call(context.WithValue(ctx, runKey{}, r), args...)
	if err != nil {
		return 0, r.failed(ctx, "run program", err)
	}
	if len(out) == 0 {
		return 0, nil
	}
	return uint32(out[0]), nil
}

// failed says why the program ended: the fault that a host function has kept, the end of ctx, or a trap.
func (r *run) failed(ctx context.Context, op string, err error) error {
	if cerr := ctx.Err(); cerr != nil {
		return errs.Wrap(cerr, op)
	}
	if r.fault != nil {
		return r.fault
	}
	return &errs.Error{Class: errs.InvalidFile, Op: op, Err: errors.New(firstLine(err.Error())), Hint: "the program stopped in a way that programs of circom do not; compile the circuit again"}
}

// bytes is n bytes of the program's memory in place; valid until close.
func (r *run) bytes(at uint32, n int) ([]byte, error) {
	m := r.memory.mapped
	if int64(at)+int64(n) > int64(len(m)) || n < 0 {
		return nil, errs.Mismatch(errs.InvalidFile, "run program", "memory", fmt.Sprintf("addresses below %d", len(m)), fmt.Sprintf("%d + %d", at, n))
	}
	return m[at : int64(at)+int64(n)], nil
}

// text is the zero-terminated string at an address of the program's memory.
func (r *run) text(at uint32) string {
	m := r.memory.mapped
	if int64(at) >= int64(len(m)) {
		return ""
	}
	m = m[at:min(int64(len(m)), int64(at)+maxMessage)]
	if i := slices.Index(m, 0); i >= 0 {
		m = m[:i]
	}
	return printable(string(m))
}

// maxMessage bounds what is kept of a program's messages.
const maxMessage = 1000

// printable keeps a program's words from playing with the user's terminal.
func printable(s string) string {
	return strings.TrimSpace(strings.Map(func(c rune) rune {
		if c < ' ' && c != '\n' || c == 0x7f || c == 0xfffd {
			return '?'
		}
		return c
	}, s))
}

// hostCalls are the functions that programs import from "runtime". Values that a program logs are secret: they are dropped.
var hostCalls = map[string]struct {
	params int
	f      func(ctx context.Context, r *run, stack []uint64)
}{
	// circom 2
	"exceptionHandler":   {1, func(_ context.Context, r *run, s []uint64) { r.exception(uint32(s[0])) }},
	"printErrorMessage":  {0, func(ctx context.Context, r *run, _ []uint64) { r.keepMessage(ctx) }},
	"writeBufferMessage": {0, func(context.Context, *run, []uint64) {}},
	"showSharedRWMemory": {0, func(context.Context, *run, []uint64) {}},
	"printDebug":         {0, func(context.Context, *run, []uint64) {}},
	// circom 1
	"error":              {6, func(_ context.Context, r *run, s []uint64) { r.oldError(s) }},
	"log":                {0, func(context.Context, *run, []uint64) {}},
	"logSetSignal":       {0, func(context.Context, *run, []uint64) {}},
	"logGetSignal":       {0, func(context.Context, *run, []uint64) {}},
	"logStartComponent":  {0, func(context.Context, *run, []uint64) {}},
	"logFinishComponent": {1, func(_ context.Context, r *run, s []uint64) { r.finished[uint32(s[0])] = true }},
}

// end keeps the fault and unwinds the program; wazero turns the panic into the error of the call.
func (r *run) end(fault error) {
	if r.fault == nil {
		r.fault = fault
	}
	panic(r.fault)
}

var errOtherField = errs.New(errs.Unsupported, "start program", "the program computes in another field than the scalar field of bls12-381").
	WithHint("compile the circuit with circom --prime bls12381")

// modulusBytes is r, little-endian.
func modulusBytes() []byte {
	b := fr.Modulus().FillBytes(make([]byte, fr.Bytes))
	slices.Reverse(b)
	return b
}

func leWords(b []byte) []uint32 {
	w := make([]uint32, len(b)/4)
	for i := range w {
		w[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return w
}
