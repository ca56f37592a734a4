package plots

import (
	"fmt"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/weir-zk/weir/host/record"
)

// The colours of what a lane does.
var stages = []struct {
	stage, name string
	color       color.Color
}{{"consume", "uses a, b, c", orange}, {"device", "rest of the proof", sky}}

var lost color.Color = vermillion

// gantt draws a row for each lane.
type gantt struct {
	x     xAxis
	lanes []record.Lane
}

// Plot implements plot.Plotter.
func (g *gantt) Plot(c draw.Canvas, p *plot.Plot) {
	trX, trY := p.Transforms(&c)
	for i := range g.lanes {
		row := float64(len(g.lanes) - 1 - i)
		lo, hi := trY(row-0.36), trY(row+0.36)
		for _, b := range g.lanes[i].Blocks {
			left, right := trX(g.x.at(b.Begin)), trX(g.x.at(b.End))
			if right-left > 3 {
				right -= 0.7 // a gap, so that proofs are seen one by one
			}
			c.FillPolygon(colorOf(b), []vg.Point{{X: left, Y: lo}, {X: left, Y: hi}, {X: right, Y: hi}, {X: right, Y: lo}})
		}
	}
}

func colorOf(b record.Block) color.Color {
	for _, s := range stages {
		if !b.Failed && b.Stage == s.stage {
			return s.color
		}
	}
	return lost
}

// lanes is the Gantt chart.
func (f *Figure) lanes(x xAxis) *panel {
	r := f.Recording
	n := max(len(r.Lanes), 1)
	p := newPanel(x, "", 30+22*vg.Length(n))
	p.top(1, true)
	p.Y.Min, p.Y.Max = -0.5, float64(n)-0.5
	p.Y.LineStyle.Width = 0
	var marks plot.ConstantTicks
	for i, l := range r.Lanes {
		marks = append(marks, plot.Tick{Value: float64(n - 1 - i), Label: fmt.Sprintf("%s lane %d", l.Backend, l.Lane)})
	}
	p.Y.Tick.Marker = marks
	p.Y.Tick.LineStyle.Width = 0
	p.Add(&gantt{x, r.Lanes})
	failed := false
	for _, l := range r.Lanes {
		for _, b := range l.Blocks {
			failed = failed || b.Failed
		}
	}
	for _, s := range stages {
		p.legend.Add(s.name, box{s.color})
	}
	if failed {
		p.legend.Add("lost", box{lost})
	}
	if r.Length > 0 && len(r.Lanes) > 0 {
		all := max(f.Lanes, len(r.Lanes))
		if idle := all - len(r.Lanes); idle > 0 {
			p.legend.Add(fmt.Sprintf("%d more had none", idle))
		}
		p.legend.Add(fmt.Sprintf("busy %.1f %% of the time", 100*r.BusyLanes.Seconds()/r.Length.Seconds()/float64(all)))
	}
	return p
}
