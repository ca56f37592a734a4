package plots

import (
	"fmt"
	"image/color"
	"math"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/weir-zk/weir/host/ledger"
	"github.com/weir-zk/weir/host/record"
)

// Colours that people who see colours differently can tell apart (Okabe and Ito, Color Universal Design, 2008), and greys.
var (
	white      = color.NRGBA{255, 255, 255, 255}
	black      = color.NRGBA{0, 0, 0, 255}
	grey       = color.NRGBA{190, 190, 190, 255}
	faint      = color.NRGBA{228, 228, 228, 255}
	orange     = color.NRGBA{230, 159, 0, 255}
	sky        = color.NRGBA{86, 180, 233, 255}
	green      = color.NRGBA{0, 158, 115, 255}
	yellow     = color.NRGBA{240, 228, 66, 255}
	blue       = color.NRGBA{0, 114, 178, 255}
	vermillion = color.NRGBA{213, 94, 0, 255}
	purple     = color.NRGBA{204, 121, 167, 255}
	pink       = color.NRGBA{227, 182, 204, 255}
	brown      = color.NRGBA{140, 86, 75, 255}
	dark       = color.NRGBA{90, 90, 90, 255}
)

// layers are the purposes from the bottom of the picture to its top: what stays, then what comes and goes.
var layers = []struct {
	purpose ledger.Purpose
	name    string
	color   color.Color
}{
	{ledger.Key, "keys", brown}, {ledger.Circuit, "circuits", pink}, {ledger.Session, "sessions", purple}, {ledger.Setup, "set-up", dark}, {ledger.Scratch, "prover's scratch", yellow}, {ledger.Synthesis, "synthesis", green},
	{ledger.Payload, "payloads", black}, {ledger.Evaluations, "a, b, c", orange}, {ledger.Witness, "witnesses", sky}, {ledger.Shell, "witnesses after a, b, c", blue},
}

func newPanel(x xAxis, label string, height vg.Length) *panel {
	p := &panel{Plot: plot.New(), legend: plot.NewLegend(), height: height}
	p.X.Min, p.X.Max, p.Y.Min = 0, x.max, 0
	p.Y.Label.Text = label
	p.X.Padding, p.Y.Padding = 0, 0
	for _, s := range []*text.Style{&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &p.legend.TextStyle} {
		s.Font.Variant = "Sans"
	}
	p.Title.TextStyle.Font.Size, p.Title.Padding = 12, 6
	for _, s := range []*text.Style{&p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &p.legend.TextStyle} {
		s.Font.Size = 9
	}
	p.legend.Top, p.legend.Left, p.legend.Padding, p.legend.ThumbnailWidth = true, true, 3, 18
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = faint, faint
	p.Add(grid)
	return p
}

// top sets the upper end of the scale, with some air, and ticks at round values.
func (p *panel) top(most float64, whole bool) {
	if most <= 0 {
		most = 1
	}
	p.Y.Max = most * 1.08
	p.Y.Tick.Marker = ticks{most: 6, whole: whole}
	p.X.Tick.Marker = ticks{most: 12}
}

// ticks are at multiples of 1, 2 or 5 times a power of ten, at most so many.
type ticks struct {
	most  int
	whole bool
}

// Ticks implements plot.Ticker.
func (t ticks) Ticks(lo, hi float64) []plot.Tick {
	step := math.Pow(10, math.Floor(math.Log10((hi-lo)/float64(t.most))))
	for _, f := range []float64{1, 2, 5, 10} {
		if (hi-lo)/(step*f) <= float64(t.most) {
			step *= f
			break
		}
	}
	if t.whole {
		step = math.Max(step, 1)
	}
	var out []plot.Tick
	for i := math.Ceil(lo / step); i*step <= hi; i++ {
		v := i * step
		out = append(out, plot.Tick{Value: v, Label: fmt.Sprintf("%.6g", v)})
	}
	return out
}

// box is a colour in a legend.
type box struct{ color.Color }

// Thumbnail implements plot.Thumbnailer.
func (b box) Thumbnail(c *draw.Canvas) {
	c.FillPolygon(b.Color, []vg.Point{c.Min, {X: c.Min.X, Y: c.Max.Y}, c.Max, {X: c.Max.X, Y: c.Min.Y}})
}

// memory is the account by purpose, one on the other, under the budget; and what was measured.
func (f *Figure) memory(x xAxis) *panel {
	r := f.Recording
	points := r.Memory
	peak := r.ReservedPeak + f.Base
	top := max(peak, r.MeasuredPeak+f.Base)
	// A budget far above everything would flatten the picture: then it is named, not drawn.
	drawn := f.Budget > 0 && f.Budget <= 6*top
	if drawn {
		top = max(top, f.Budget)
	}
	unit, div := unitOf(top)
	p := newPanel(x, "memory, "+unit, 250)
	p.top(float64(top)/div, false)

	lower := make([]float64, len(points))
	for i := range lower {
		lower[i] = float64(f.Base) / div
	}
	type entry struct {
		name  string
		thumb plot.Thumbnailer
	}
	var entries []entry
	if f.Base > 0 {
		p.Add(area(x, []time.Duration{0, r.Length}, []float64{0, 0}, []float64{float64(f.Base) / div, float64(f.Base) / div}, r.Length, grey))
		entries = append(entries, entry{"processes", box{grey}})
	}
	at := make([]time.Duration, len(points))
	for i := range points {
		at[i] = points[i].At
	}
	for _, l := range layers {
		if r.PurposesPeak[l.purpose] <= peak/1000 {
			continue // less than a line of the picture
		}
		upper := make([]float64, len(points))
		for i := range points {
			upper[i] = lower[i] + float64(points[i].Value[l.purpose])/div
		}
		p.Add(area(x, at, lower, upper, r.Length, l.color))
		entries = append(entries, entry{l.name, box{l.color}})
		lower = upper
	}
	if r.NbMeasured > 0 {
		var xy plotter.XYs
		for _, m := range r.Measured {
			xy = append(xy, plotter.XY{X: x.at(m.At), Y: float64(m.Value+f.Base) / div})
		}
		l := line(xy, black, 1.2, nil)
		p.Add(l)
		entries = append(entries, entry{"measured (Pss)", l})
	}
	if f.Budget > 0 {
		name := "budget " + ledger.Size(f.Budget).String()
		l := line(plotter.XYs{{X: 0, Y: float64(f.Budget) / div}, {X: x.max, Y: float64(f.Budget) / div}}, vermillion, 1.6, []vg.Length{6, 3})
		if drawn {
			p.Add(l)
			p.legend.Add(name, l)
		} else {
			p.legend.Add(name + ", far above")
		}
	} else {
		p.legend.Add("no budget")
	}
	p.legend.Add("peak " + ledger.Size(peak).String())
	for i := len(entries) - 1; i >= 0; i-- { // as they lie on each other
		p.legend.Add(entries[i].name, entries[i].thumb)
	}
	return p
}

// unitOf is the unit in which n has few digits, and its bytes.
func unitOf(n int64) (string, float64) {
	unit, div := "B", 1.0
	for _, u := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if float64(n) < 2*div*1024 {
			break
		}
		unit, div = u, div*1024
	}
	return unit, div
}

// sets are the evaluations that are alive, the permits, and the witnesses that outlive them.
func (f *Figure) sets(x xAxis) *panel {
	r := f.Recording
	p := newPanel(x, "partitions", 150)
	most := max(r.Peak.Provers, r.Peak.Shells, r.Peak.Synth)
	if f.Permits > 0 {
		most = max(most, f.Permits)
		l := line(plotter.XYs{{X: 0, Y: float64(f.Permits)}, {X: x.max, Y: float64(f.Permits)}}, vermillion, 1.6, []vg.Length{6, 3})
		p.Add(l)
		p.legend.Add(fmt.Sprintf("permits: %d", f.Permits), l)
	}
	p.top(float64(most), true)
	p.curve(f, x, fmt.Sprintf("sets of a, b, c: at most %d", r.Peak.Provers), orange, func(c *record.Counts) int { return c.Provers })
	p.curve(f, x, fmt.Sprintf("in synthesis: at most %d", r.Peak.Synth), green, func(c *record.Counts) int { return c.Synth })
	p.curve(f, x, fmt.Sprintf("witnesses after: at most %d", r.Peak.Shells), blue, func(c *record.Counts) int { return c.Shells })
	return p
}

// queue is what waits for a lane.
func (f *Figure) queue(x xAxis) *panel {
	r := f.Recording
	p := newPanel(x, "queue", 100)
	p.top(float64(r.Peak.Queued), true)
	p.curve(f, x, fmt.Sprintf("wait for a lane: at most %d", r.Peak.Queued), purple, func(c *record.Counts) int { return c.Queued })
	return p
}

// curve draws one of the counts.
func (p *panel) curve(f *Figure, x xAxis, name string, c color.Color, of func(*record.Counts) int) {
	var xy plotter.XYs
	for i := range f.Recording.Counts {
		at, v := x.at(f.Recording.Counts[i].At), float64(of(&f.Recording.Counts[i].Value))
		if n := len(xy); n == 0 || xy[n-1].Y != v {
			xy = append(xy, plotter.XY{X: at, Y: v})
		}
	}
	if n := len(xy); n > 0 {
		xy = append(xy, plotter.XY{X: x.max, Y: xy[n-1].Y})
	}
	l := line(xy, c, 1.2, nil)
	l.StepStyle = plotter.PostStep
	p.Add(l)
	p.legend.Add(name, l)
}

func line(xy plotter.XYs, c color.Color, width vg.Length, dashes []vg.Length) *plotter.Line {
	l := &plotter.Line{XYs: xy}
	l.LineStyle = draw.LineStyle{Color: c, Width: width, Dashes: dashes}
	return l
}

// area is what lies between two curves that are constant from one moment to the next.
func area(x xAxis, at []time.Duration, lower, upper []float64, end time.Duration, c color.Color) *plotter.Polygon {
	p := &plotter.Polygon{Color: c}
	up, down := steps(x, at, upper, end), steps(x, at, lower, end)
	for i, j := 0, len(down)-1; i < j; i, j = i+1, j-1 {
		down[i], down[j] = down[j], down[i]
	}
	if len(up) > 0 {
		p.XYs = []plotter.XYs{append(up, down...)}
	}
	return p
}

func steps(x xAxis, at []time.Duration, v []float64, end time.Duration) plotter.XYs {
	var out plotter.XYs
	for i := range at {
		if n := len(out); n > 0 {
			if out[n-1].Y == v[i] {
				continue
			}
			out = append(out, plotter.XY{X: x.at(at[i]), Y: out[n-1].Y})
		}
		out = append(out, plotter.XY{X: x.at(at[i]), Y: v[i]})
	}
	if n := len(out); n > 0 {
		out = append(out, plotter.XY{X: x.at(end), Y: out[n-1].Y})
	}
	return out
}
