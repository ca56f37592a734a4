package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/weir-zk/weir/backend-cpu/fixedbase"
	"github.com/weir-zk/weir/host/ledger"
	"github.com/weir-zk/weir/internal/atomicfile"
	"github.com/weir-zk/weir/sdk/circuit"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/encoding/iden3"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/keyfile"
	"github.com/weir-zk/weir/sdk/slab"
)

// Setup makes a development key. The file at job.Out appears, or is replaced, only when the key is whole. Errors: errs.Unsupported when the backend
// makes no keys; errs.Exhausted when the budget cannot hold the work; and what the circuit's reader reports.
func (e *Engine) Setup(ctx context.Context, job *SetupJob) (*SetupResult, error) {
	ctx, done, err := e.enterSetup(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	r, err := e.setup(ctx, job)
	if cause := context.Cause(ctx); cause != nil && err != nil {
		return nil, errs.Wrap(cause, "setup")
	}
	return r, err
}

func (e *Engine) setup(ctx context.Context, job *SetupJob) (_ *SetupResult, err error) {
	begin := e.cfg.Clock.Now()
	if job.Out == "" {
		return nil, errs.Mismatch(errs.InvalidArgument, "setup", "key", "a path", "nothing")
	}
	in := newInputs(e.pool)
	defer func() { err = errors.Join(err, in.close()) }()
	if err := in.add(contract.RoleCircuit, job.Circuit, -1); err != nil {
		return nil, err
	}
	if len(in.list) == 0 {
		return nil, errs.Mismatch(errs.InvalidArgument, "setup", "circuit", "a path", "nothing")
	}
	b, err := e.keyMaker(ctx, job.Backend)
	if err != nil {
		return nil, err
	}
	out, err := atomicfile.Create(job.Out, 0)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	handle, err := addOutput(e.pool, out.File)
	if err != nil {
		return nil, errs.InFile(err, job.Out)
	}
	defer func() { err = errors.Join(err, e.pool.RemoveFile(handle)) }()

	req := ledger.Request{Owner: "setup of " + job.Circuit, Order: e.nextOrder() << 24}
	if req.Need[ledger.Setup], err = e.planSetup(in.list[0]); err != nil {
		return nil, errs.InFile(err, job.Circuit)
	}
	g, err := e.ledger.Acquire(ctx, req)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	e.ledger.TrimIdle()
	made, err := b.prover.MakeKey(ctx, &contract.MakeKeyRequest{CallID: contract.NewCallID(), Circuit: in.list[0], Out: handle, Rows: job.Rows, H: job.H,
		Threads: e.cfg.Threads, Seed: job.Seed, Scalars: job.Scalars}, func(stage string, f float64) {
		if job.Progress != nil {
			job.Progress(stage, f)
		}
	})
	if err != nil {
		return nil, keyWriteError(err, job.Out)
	}
	st, err := out.File.Stat()
	if err != nil {
		return nil, errs.InFile(errs.Wrap(err, "setup"), job.Out)
	}
	if err := out.Commit(); err != nil {
		return nil, err
	}
	return &SetupResult{Shape: made.Shape, Bytes: st.Size(), Elapsed: e.cfg.Clock.Now().Sub(begin), Peak: e.Report()}, nil
}

// keyWriteError names the key's path where the backend could only name the descriptor it was given, and says what to do about a full disk.
func keyWriteError(err error, path string) error {
	if !errs.Is(err, errs.Exhausted) || !strings.Contains(err.Error(), "handed-over-") {
		return err
	}
	text := err.Error()
	e := errs.New(errs.Exhausted, "write", "%s", text[strings.LastIndex(text, ": ")+1:]).WithPath(path)
	e.Found = strings.TrimSpace(e.Found)
	return e.WithHint("the disk is full, or a limit is reached; free space or choose another folder")
}

// planSetup reads the header of a circuit, by pread, and says what a set-up of it takes.
func (e *Engine) planSetup(in contract.Input) (int64, error) {
	v, err := e.pool.File(in.Handle)
	if err != nil {
		return 0, err
	}
	kind, err := keyfile.Sniff(v, in.Size)
	if err != nil {
		return 0, err
	}
	if kind == keyfile.Shape {
		n, terms, err := circuit.ShapeSizes(v, in.Size)
		// the file is read whole before its rows are spelt out
		return in.Size + setupBytes(n.Rows, n.Wires(), n.Inputs-1, terms[0]+terms[1]+terms[2], e.cfg.Threads), err
	}
	f, err := iden3.OpenR1CS(v, in.Size)
	if err != nil {
		return 0, err
	}
	h := f.Header()
	// a row has three counts of 4 bytes, a term 36 bytes
	return setupBytes(h.NbConstraints, h.NbWires, h.NbPublic(), max(0, in.Size-12*int64(h.NbConstraints))/36, e.cfg.Threads), nil
}

// setupBytes is the working memory of a set-up as backend-cpu/setup documents it, and that of the circuit it reads: for a row three offsets, for a term twice 4 bytes. Only
// the number of distinct coefficients is not known before: setupMargin has room for some 200,000, and for the parts of points under way.
func setupBytes(nbRows, nbWires, nbPublic int, terms int64, threads int) int64 {
	rows, wires := int64(nbRows), int64(nbWires)
	domain := int64(1) << groth16.DomainFor(nbRows, nbPublic)
	matrices := 12*(rows+1) + 8*terms
	vectors := 32*domain + 64*wires + wires/4 // and two bitmaps
	tables := fixedbase.BytesG1(int(3*wires+domain)+nbPublic+4) + fixedbase.BytesG2(int(wires)+3)
	return matrices + vectors + tables + setupMargin + int64(threads)*(300<<10)
}

const setupMargin = 24 << 20

// keyMaker finds a backend that makes keys.
func (e *Engine) keyMaker(ctx context.Context, name string) (*backend, error) {
	list, err := e.candidates(&Job{Backend: name})
	if err != nil {
		return nil, err
	}
	var first error
	for _, b := range list {
		info, err := e.describe(ctx, b)
		switch {
		case err != nil:
			first = either(first, err)
		case info.Has(contract.AbilityMakesKeys):
			return b, nil
		}
	}
	if first != nil {
		return nil, first
	}
	return nil, errs.New(errs.Unsupported, "setup", "no such backend makes development keys").WithHint("name one that does, such as cpu")
}

// addOutput registers the file that a backend is to write, on a descriptor of its own: the pool closes what it takes.
func addOutput(pool *slab.Pool, out *os.File) (slab.Handle, error) {
	f, err := os.OpenFile(out.Name(), os.O_RDWR, 0)
	if err != nil {
		return 0, errs.Wrap(err, "register output")
	}
	return pool.AddOutput(f)
}

// enterSetup makes a set-up something that Close waits for, and ends when it is forced.
func (e *Engine) enterSetup(ctx context.Context) (context.Context, func(), error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closing {
		return nil, nil, errDraining()
	}
	if n := len(e.setups); n >= e.cfg.MaxPartitions {
		return nil, nil, &errs.Error{Class: errs.Unavailable, Op: "setup", Expected: fmt.Sprintf("less than %d set-ups in work", e.cfg.MaxPartitions), Found: fmt.Sprint(n), Retryable: true, Hint: "try again later"}
	}
	ctx, stop := context.WithCancelCause(ctx)
	e.order++
	id := e.order
	e.setups[id] = stop
	return ctx, func() {
		stop(nil)
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.setups, id)
		e.idle.Broadcast()
	}, nil
}

func (e *Engine) nextOrder() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.order++
	return e.order
}
