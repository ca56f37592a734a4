package cudalib

import (
	"fmt"
	"unsafe"

	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
)

// Ticket numbers the steps of one queue of a lane from 1 on; 0 is no step.
type Ticket uint64

// Queues of a lane.
const (
	QueueWork = 0
	QueueCopy = 1
)

// Windows says what a sum comes as, beside one affine point: N points of coordinates X, Y, ZZ, ZZZ, of which number w counts 2^(Bits w) fold.
type Windows struct{ N, Bits int }

// Sum is what MSM tells: the shape of the result, and how much of the scratch was written.
type Sum struct {
	Windows Windows
	Used    int64
}

// maxWindows is how many there are at most.
const maxWindows = 64

// ResultBytes is the room that a sum's result takes.
func ResultBytes(group int) int64 { return int64(group) * 96 * (1 + 2*maxWindows) }

// Lane is one of a device's lanes. One goroutine uses it at a time.
type Lane struct {
	d *Device
	n uint32
}

// Lane returns lane n.
func (d *Device) Lane(n int) *Lane { return &Lane{d, uint32(n)} }

// Block is a piece of device memory.
type Block struct {
	At    Addr
	Bytes int64
}

// Upload copies to the device on queue COPY, after a step of queue WORK. b is registered memory and must stay as it is until the ticket is done.
func (l *Lane) Upload(to Addr, b []byte, after Ticket) (Ticket, error) {
	a := copyArgs{Device: l.d.handle, Lane: l.n, After: uint64(after), To: uint64(to), From: hostAddr(b), Bytes: uint64(len(b))}
	err := l.d.call(fnUpload, &a.Call, unsafe.Sizeof(a))
	return Ticket(a.Ticket), err
}

// Download copies from the device on queue WORK into registered memory.
func (l *Lane) Download(b []byte, from Addr) (Ticket, error) {
	a := copyArgs{Device: l.d.handle, Lane: l.n, To: hostAddr(b), From: uint64(from), Bytes: uint64(len(b))}
	err := l.d.call(fnDownload, &a.Call, unsafe.Sizeof(a))
	return Ticket(a.Ticket), err
}

// Clear zeroes device memory on queue WORK.
func (l *Lane) Clear(at Addr, bytes int64) (Ticket, error) {
	a := copyArgs{Device: l.d.handle, Lane: l.n, To: uint64(at), Bytes: uint64(bytes)}
	err := l.d.call(fnClear, &a.Call, unsafe.Sizeof(a))
	return Ticket(a.Ticket), err
}

// Wait blocks until a step is done; ticket 0 until all of the queue are.
func (l *Lane) Wait(queue int, t Ticket) error {
	a := waitArgs{Device: l.d.handle, Lane: l.n, Queue: uint32(queue), Ticket: uint64(t)}
	return l.d.call(fnWait, &a.Call, unsafe.Sizeof(a))
}

// Tables fills a block for transforms of size 2^logN.
func (l *Lane) Tables(logN int, b Block) (Ticket, error) {
	a := tablesArgs{Device: l.d.handle, Lane: l.n, LogN: uint32(logN), Tables: uint64(b.At), TablesBytes: uint64(b.Bytes)}
	err := l.d.call(fnTables, &a.Call, unsafe.Sizeof(a))
	return Ticket(a.Ticket), err
}

// Witness is the operands of weir_cuda_witness.
type Witness struct {
	Wires, Listed            int
	Compact                  bool
	IsBit, Value, Rank, List Addr
	Scalars                  Addr
	Classes, Scratch         Block
}

// Witness expands and sorts an assignment.
func (l *Lane) Witness(w *Witness, after Ticket) (Ticket, error) {
	a := witnessArgs{Device: l.d.handle, Lane: l.n, After: uint64(after), Wires: uint64(w.Wires), Listed: uint64(w.Listed), IsBit: uint64(w.IsBit),
		Value: uint64(w.Value), Rank: uint64(w.Rank), List: uint64(w.List), Scalars: uint64(w.Scalars), Classes: uint64(w.Classes.At),
		ClassesBytes: uint64(w.Classes.Bytes), Scratch: uint64(w.Scratch.At), ScratchBytes: uint64(w.Scratch.Bytes)}
	if w.Compact {
		a.Compact = 1
	}
	err := l.d.call(fnWitness, &a.Call, unsafe.Sizeof(a))
	return Ticket(a.Ticket), err
}

// Rows is the operands of weir_cuda_evaluate: a run of rows of one matrix.
type Rows struct {
	LogN               int
	Order              groth16.RowOrder
	First, Rows, Terms int
	Extra              int // rows of the public inputs behind them
	Start, Wire, Coeff Addr
	Coeffs             Addr
	NbCoeffs           int
	Scalars, Classes   Addr
	Out                Addr
	Scratch            Block
}

// Evaluate multiplies rows with the scalars.
func (l *Lane) Evaluate(r *Rows, after Ticket) (Ticket, error) {
	a := evaluateArgs{Device: l.d.handle, Lane: l.n, LogN: uint32(r.LogN), After: uint64(after), RowOrder: uint32(r.Order), Extra: uint32(r.Extra),
		FirstRow: uint64(r.First), Rows: uint64(r.Rows), Terms: uint64(r.Terms), Start: uint64(r.Start), Wire: uint64(r.Wire), Coeff: uint64(r.Coeff),
		Coeffs: uint64(r.Coeffs), NbCoeffs: uint64(r.NbCoeffs), Scalars: uint64(r.Scalars), Classes: uint64(r.Classes), Out: uint64(r.Out), Scratch: uint64(r.Scratch.At), ScratchBytes: uint64(r.Scratch.Bytes)}
	err := l.d.call(fnEvaluate, &a.Call, unsafe.Sizeof(a))
	return Ticket(a.Ticket), err
}

// Quotient is the operands of weir_cuda_quotient.
type Quotient struct {
	LogN      int
	Basis     groth16.HBasis
	Product   bool // c is made as a b
	A, B, C   Addr
	Tables    Addr
	Remainder Addr
	Scratch   Block
}

// Quotient turns a into the scalars of the H points.
func (l *Lane) Quotient(q *Quotient, after Ticket) (Ticket, error) {
	a := quotientArgs{Device: l.d.handle, Lane: l.n, LogN: uint32(q.LogN), After: uint64(after), Basis: uint32(q.Basis), A: uint64(q.A), B: uint64(q.B), C: uint64(q.C),
		Tables: uint64(q.Tables), Remainder: uint64(q.Remainder), Scratch: uint64(q.Scratch.At), ScratchBytes: uint64(q.Scratch.Bytes)}
	if q.Product {
		a.Product = 1
	}
	err := l.d.call(fnQuotient, &a.Call, unsafe.Sizeof(a))
	return Ticket(a.Ticket), err
}

// MSM is the operands of weir_cuda_msm.
type MSM struct {
	Group          int // 1 or 2
	Points         Addr
	N              int
	Scalars, Index Addr
	First          int
	Witness        bool // scalars and Classes are a witness'
	Classes        Addr
	Result         Addr
	Scratch        Block
}

// MSM sums points. What lies at Result when the ticket is done is as the windows say.
func (l *Lane) MSM(m *MSM, after Ticket) (Ticket, Sum, error) {
	a := msmArgs{Device: l.d.handle, Lane: l.n, Group: uint32(m.Group), After: uint64(after), Points: uint64(m.Points), NbPoints: uint64(m.N), Scalars: uint64(m.Scalars),
		Index: uint64(m.Index), First: uint64(m.First), Classes: uint64(m.Classes), Result: uint64(m.Result), Scratch: uint64(m.Scratch.At), ScratchBytes: uint64(m.Scratch.Bytes)}
	if m.Witness {
		a.Kind = 1
	}
	err := l.d.call(fnMSM, &a.Call, unsafe.Sizeof(a))
	if err == nil && a.Windows > maxWindows {
		err = errs.Mismatch(errs.Internal, "cuda msm", "windows", fmt.Sprintf("at most %d", maxWindows), a.Windows)
	}
	return Ticket(a.Ticket), Sum{Windows{int(a.Windows), int(a.WindowBits)}, int64(a.ScratchUsed)}, err
}

// FixedBase is the operands of weir_cuda_fixed_base.
type FixedBase struct {
	Group     int
	Base      Addr
	Scalars   Addr
	N         int
	Points    Addr
	MakeTable bool
	Scratch   Block
}

// FixedBase makes multiples of one point.
func (l *Lane) FixedBase(f *FixedBase, after Ticket) (Ticket, error) {
	a := fixedBaseArgs{Device: l.d.handle, Lane: l.n, Group: uint32(f.Group), After: uint64(after), Base: uint64(f.Base), Scalars: uint64(f.Scalars), NbScalars: uint64(f.N),
		Points: uint64(f.Points), Scratch: uint64(f.Scratch.At), ScratchBytes: uint64(f.Scratch.Bytes)}
	if f.MakeTable {
		a.MakeTable = 1
	}
	err := l.d.call(fnFixedBase, &a.Call, unsafe.Sizeof(a))
	return Ticket(a.Ticket), err
}
