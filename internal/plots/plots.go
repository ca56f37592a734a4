// Package plots draws a recording of an engine: memory by purpose under the budget, sets of evaluations and their permits, what waits for a lane, and the lanes as a Gantt chart, one
// below the other over the same time. Pictures are SVG or PNG, or a page of HTML that has the SVG in it.
package plots

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"path/filepath"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/weir-zk/weir/host/record"
	"github.com/weir-zk/weir/sdk/errs"
)

// Figure is what is drawn.
type Figure struct {
	Title     string
	Recording *record.Recording
	Budget    int64   // bytes; 0: there is none
	Base      int64   // bytes that are taken beside the account, from beginning to end
	Permits   int     // 0: not drawn
	Lanes     int     // of all backends that were used, with those that never had a proof; 0: the recording's
	Speed     float64 // how much faster than it is drawn the time passed; 0 is 1
	Text      string  // under the picture, in HTML only
}

// Formats are the kinds of file, by the ending of its name.
var Formats = []string{"svg", "png", "html"}

// FormatOf is the format that a file's name asks for.
func FormatOf(path string) (string, error) {
	ext := strings.ToLower(strings.TrimPrefix(filepath.Ext(path), "."))
	for _, f := range Formats {
		if ext == f {
			return f, nil
		}
	}
	return "", errs.Mismatch(errs.InvalidArgument, "plot", "", "a file name that ends in ."+strings.Join(Formats, ", ."), fmt.Sprintf("%q", path))
}

// Write draws f in a format of Formats.
func Write(w io.Writer, format string, f *Figure) error {
	width, height, panels := f.layout()
	switch format {
	case "png":
		c := vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(120))
		f.draw(draw.New(c), panels)
		_, err := vgimg.PngCanvas{Canvas: c}.WriteTo(w)
		return err
	case "svg":
		_, err := w.Write(f.svg(width, height, panels))
		return err
	case "html":
		text := f.svg(width, height, panels)
		if i := bytes.Index(text, []byte("<svg")); i >= 0 {
			text = text[i:] // without the prologue of XML
		}
		title := html.EscapeString(f.Title)
		_, err := fmt.Fprintf(w, "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>%s</title>\n<style>body{font-family:sans-serif;margin:2em;max-width:75em}svg{max-width:100%%;height:auto}</style>\n<h1>%s</h1>\n%s\n<pre>%s</pre>\n</html>\n",
			title, title, text, html.EscapeString(f.Text))
		return err
	}
	return errs.Mismatch(errs.InvalidArgument, "plot", "", "one of "+strings.Join(Formats, ", "), format)
}

// svg draws f. Text is not drawn but set, in a font that most systems have another name for.
func (f *Figure) svg(width, height vg.Length, panels []*panel) []byte {
	c := vgsvg.New(width, height)
	f.draw(draw.New(c), panels)
	var b bytes.Buffer
	_, _ = c.WriteTo(&b) // a buffer takes everything
	return bytes.ReplaceAll(b.Bytes(), []byte("font-family:Liberation Sans"), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif"))
}

// panel is one plot, what its colours mean, and how high it is.
type panel struct {
	*plot.Plot
	legend plot.Legend
	height vg.Length
}

const (
	figureWidth = 12 * vg.Inch
	legendWidth = 2.1 * vg.Inch
	gap         = 8
)

func (f *Figure) layout() (width, height vg.Length, panels []*panel) {
	x := f.axis()
	panels = []*panel{f.memory(x), f.sets(x), f.queue(x), f.lanes(x)}
	last := panels[len(panels)-1]
	last.X.Label.Text = "time, " + x.unit
	last.height += 18
	panels[0].Title.Text = f.Title
	panels[0].height += 20
	for _, p := range panels {
		height += p.height + gap
	}
	return figureWidth, height + gap, panels
}

// draw puts the panels below each other, so that the same moment is in the same place of each.
func (f *Figure) draw(c draw.Canvas, panels []*panel) {
	c.SetColor(white)
	c.Fill(c.Rectangle.Path())
	var tiles []draw.Canvas
	var left, right vg.Length
	top := c.Max.Y - gap
	for i, p := range panels {
		tile := draw.Canvas{Canvas: c.Canvas, Rectangle: vg.Rectangle{Min: vg.Point{X: c.Min.X + gap, Y: top - p.height}, Max: vg.Point{X: c.Max.X - legendWidth, Y: top}}}
		top -= p.height + gap
		tiles = append(tiles, tile)
		data := p.DataCanvas(tile)
		if l := data.Min.X - tile.Min.X; i == 0 || l > left {
			left = l
		}
		if r := tile.Max.X - data.Max.X; i == 0 || r > right {
			right = r
		}
	}
	for i, p := range panels {
		data := p.DataCanvas(tiles[i])
		tile := draw.Crop(tiles[i], left-(data.Min.X-tiles[i].Min.X), -(right - (tiles[i].Max.X - data.Max.X)), 0, 0)
		p.Draw(tile)
		p.legend.Draw(draw.Canvas{Canvas: c.Canvas, Rectangle: vg.Rectangle{Min: vg.Point{X: c.Max.X - legendWidth + gap, Y: data.Min.Y}, Max: vg.Point{X: c.Max.X - gap, Y: data.Max.Y}}})
	}
}

// xAxis is the time of all panels.
type xAxis struct {
	unit  string
	scale float64 // units of it in a second of the recording
	max   float64
}

func (f *Figure) axis() xAxis {
	speed := f.Speed
	if speed == 0 {
		speed = 1
	}
	x := xAxis{unit: "s", scale: speed}
	length := f.Recording.Length.Seconds() * speed
	for _, u := range []struct {
		name    string
		seconds float64
	}{{"h", 3600}, {"min", 60}, {"ms", 1e-3}} {
		if u.seconds > 1 && length >= 10*u.seconds || u.seconds < 1 && length < 1 {
			x.unit, x.scale = u.name, speed/u.seconds
			break
		}
	}
	x.max = f.Recording.Length.Seconds() * x.scale
	if x.max <= 0 {
		x.max = 1
	}
	return x
}

func (x xAxis) at(t time.Duration) float64 { return t.Seconds() * x.scale }
