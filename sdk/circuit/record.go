package circuit

import (
	"context"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
)

// Rows is a piece of a constraint system: consecutive rows, each three combinations, sorted by variable and without zeros. A piece may be empty: at least one ends
// each part of a Repeat, and each stretch between two.
type Rows struct {
	First  int          // number of the first row
	Terms  []Term       // of all rows, one after the other: A, B, C
	Ends   []uint32     // [3 rows] where each combination ends in Terms
	Coeffs []fr.Element // the dictionary so far: a later piece has the same and more

	// Segment numbers the outermost Repeats and the stretches between them. Times is the number of equal parts, 1 for a stretch, and Part the one that the rows are of.
	// From is the counts at the beginning of the segment, To those after the rows.
	Segment, Part, Times int
	From, To             Counts
}

// Len is the number of rows.
func (r *Rows) Len() int { return len(r.Ends) / 3 }

// Row is the i-th row of the piece.
func (r *Rows) Row(i int) (a, b, c []Term) {
	lo := uint32(0)
	if i > 0 {
		lo = r.Ends[3*i-1]
	}
	return r.Terms[lo:r.Ends[3*i]], r.Terms[r.Ends[3*i]:r.Ends[3*i+1]], r.Terms[r.Ends[3*i+1]:r.Ends[3*i+2]]
}

// Sink takes a constraint system as it is recorded. Its methods are never called at the same time; Write is called from a goroutine of its own.
type Sink interface {
	Write(r *Rows) error // in order; r is valid during the call
	End(s *Shape) error  // after the last row
}

// Shape is what is known once all rows are recorded.
type Shape struct {
	Counts
	Boolean groth16.Bitmap // [Aux] the variables of AllocBits
	Coeffs  []fr.Element   // the whole dictionary
}

// Pieces hold up to rowsPiece rows and a little more than termsPiece terms: some 3 MiB, of which pieces exist.
const (
	rowsPiece  = 1 << 14
	termsPiece = 1 << 17
	pieces     = 3
)

// Record runs c once and streams its rows to the sinks. Memory: some 10 MiB, a bit for each auxiliary variable, and what the sinks keep.
func Record(ctx context.Context, c Circuit, sinks ...Sink) (*Shape, error) {
	return record(ctx, c, &recorder{}, sinks)
}

func record(ctx context.Context, c Circuit, rec *recorder, sinks []Sink) (*Shape, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	rec.dict = newDictionary()
	rec.row = Row{Combination{dict: rec.dict}, Combination{dict: rec.dict}, Combination{dict: rec.dict}}
	rec.free, rec.full = make(chan *Rows, pieces), make(chan *Rows, pieces)
	for range pieces {
		rec.free <- &Rows{Terms: make([]Term, 0, termsPiece+termsPiece/8), Ends: make([]uint32, 0, 3*rowsPiece)}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		failed := false
		for p := range rec.full {
			for _, s := range sinks {
				if failed {
					break
				}
				if err := s.Write(p); err != nil {
					failed = true
					cancel(err)
				}
			}
			p.Terms, p.Ends = p.Terms[:0], p.Ends[:0]
			rec.free <- p
		}
	}()
	b := &Builder{ctx: ctx, rec: rec, tasks: 1}
	rec.piece = <-rec.free
	err := func() error {
		defer func() { // also when the circuit panics
			close(rec.full)
			<-done
		}()
		if err := b.run(c); err != nil {
			return err
		}
		b.send()
		return b.err
	}()
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause
	}
	if err != nil {
		return nil, err
	}
	if len(b.scopes) != 0 {
		return nil, errs.New(errs.Internal, "record circuit", "%s was entered and never left", b.Path(""))
	}
	rec.mark(b.n.Aux, 0)
	s := &Shape{Counts: b.n, Boolean: rec.boolean, Coeffs: rec.dict.elems}
	for _, sink := range sinks {
		if err := sink.End(s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// recorder is the recording side of a Builder.
type recorder struct {
	dict       *dictionary
	row        Row // being stated
	piece      *Rows
	free, full chan *Rows
	boolean    groth16.Bitmap
	check      *checker // nil: rows are not looked at
	marks      *marks   // nil: parts are not listed

	segment, part, times int // of the rows being stated; times 0: between Repeats
	from                 Counts
}

// boundary ends a piece and begins another segment (times not 0, part 0), its next part, or the stretch after it (times 0).
func (b *Builder) boundary(part, times int) {
	b.send()
	r := b.rec
	if part == 0 {
		r.segment++
		r.from = b.n
	}
	r.part, r.times = part, times
}

// mark notes n boolean variables from first on, and makes room for them.
func (r *recorder) mark(first, n int) {
	for need := (first + n + 63) / 64; len(r.boolean) < need; {
		r.boolean = append(r.boolean, 0)
	}
	for i := first; i < first+n; i++ {
		r.boolean.Set(i)
	}
}

func (r *recorder) begin() *Row {
	r.row.A.Reset()
	r.row.B.Reset()
	r.row.C.Reset()
	return &r.row
}

// commit takes the stated row over.
func (b *Builder) commit(name string) {
	r := b.rec
	p := r.piece
	for _, c := range []*Combination{&r.row.A, &r.row.B, &r.row.C} {
		c.normalise()
		p.Terms = append(p.Terms, c.terms...)
		p.Ends = append(p.Ends, uint32(len(p.Terms)))
	}
	if r.check != nil && !r.check.holds(&r.row) {
		b.fail(&brokenRow{b.n.Rows - 1, b.Path(name)})
		return
	}
	if len(p.Ends) == 3*rowsPiece || len(p.Terms) >= termsPiece {
		b.send()
	}
}

// send hands the piece to the sinks and takes an empty one.
func (b *Builder) send() {
	r := b.rec
	if b.n.Rows > maxCount || b.n.Wires() > maxCount {
		b.fail(errs.Mismatch(errs.Unsupported, "record circuit", "rows and variables", "fewer than 2^31", max(b.n.Rows, b.n.Wires())))
		return
	}
	if err := b.ctx.Err(); err != nil {
		b.fail(err)
		return
	}
	p := r.piece
	p.First, p.Coeffs = b.n.Rows-p.Len(), r.dict.elems
	p.Segment, p.Part, p.Times, p.From, p.To = r.segment, r.part, max(1, r.times), r.from, b.n
	r.full <- p
	r.piece = <-r.free
}
