package plots

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weir-zk/weir/host"
	"github.com/weir-zk/weir/host/eventclock"
	"github.com/weir-zk/weir/host/record"
	"github.com/weir-zk/weir/plugins/model"
	"github.com/weir-zk/weir/sdk/errs"
)

// figure is a small simulation of the reference machine.
func figure(t *testing.T, release string, budget int64) *Figure {
	t.Helper()
	p, err := model.LoadProfile("reference")
	if err != nil {
		t.Fatal(err)
	}
	r := record.New(record.Options{})
	s, err := host.Simulate(t.Context(), host.Simulation{Profile: p, Proofs: 3, Concurrency: 3, Config: host.Config{PartitionWorkers: 12, MemoryBudget: budget, PermitRelease: release, Listener: r.Listener()}})
	if err != nil {
		t.Fatal(err)
	}
	f := &Figure{Title: "3 proofs <of> PoRep & co", Recording: r.End(eventclock.Epoch.Add(time.Duration(s.Elapsed * float64(time.Second)))), Base: int64(p.Machine.Base), Permits: 12, Text: "a < b"}
	if s.Budget != host.NoBudget {
		f.Budget = s.Budget
	}
	return f
}

// keep writes a picture where WEIR_TEST_PLOTS says, for people to look at.
func keep(t *testing.T, name string, b []byte) {
	if dir := os.Getenv("WEIR_TEST_PLOTS"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func write(t *testing.T, format string, f *Figure) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, format, f); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// An SVG says what its curves are, in words that a person looks for, and is XML.
func TestSVG(t *testing.T) {
	f := figure(t, host.PermitFreed, 300<<30)
	text := write(t, "svg", f)
	keep(t, "freed.svg", text)
	var all strings.Builder
	for d := xml.NewDecoder(bytes.NewReader(text)); ; {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if c, ok := tok.(xml.CharData); ok {
			all.Write(c)
			all.WriteByte('\n')
		}
	}
	for _, want := range []string{"3 proofs <of> PoRep & co", "memory, GiB", "budget 300GiB", "peak 2[0-9]+GiB", "a, b, c", "witnesses", "keys", "processes", "permits: 12", "sets of a, b, c: at most 12",
		"wait for a lane: at most", "model lane 0", "model lane 1", "busy [0-9.]+ % of the time", "time, s"} {
		if !regexp.MustCompile(`(?m)^\s*` + want).MatchString(all.String()) {
			t.Errorf("the picture does not say %q:\n%s", want, all.String())
		}
	}
	for _, not := range []string{"measured", "lost", "no budget"} {
		if strings.Contains(all.String(), not) {
			t.Errorf("the picture says %q", not)
		}
	}
	if !bytes.Contains(text, []byte("font-family:Liberation Sans,Arial")) {
		t.Error("no other names of the font")
	}
}

// A PNG has the colours of what it shows, and nothing on its border.
func TestPNG(t *testing.T) {
	f := figure(t, host.PermitSynthesized, host.NoBudget)
	f.Recording.Measured = []record.Point[int64]{{At: 0, Value: 10 << 30}, {At: 60 * time.Second, Value: 300 << 30}, {At: 100 * time.Second, Value: 200 << 30}}
	f.Recording.NbMeasured, f.Recording.MeasuredPeak = 3, 300<<30
	b := write(t, "png", f)
	keep(t, "synthesized.png", b)
	img, err := png.Decode(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[color.NRGBA]int{}
	box := img.Bounds()
	flat := image.NewNRGBA(box)
	draw.Draw(flat, box, img, box.Min, draw.Src)
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			c := flat.NRGBAAt(x, y)
			seen[c]++
			if edge := x == box.Min.X || y == box.Min.Y || x == box.Max.X-1 || y == box.Max.Y-1; edge && c != white {
				t.Fatalf("%v at %v", c, image.Pt(x, y))
			}
		}
	}
	for name, c := range map[string]color.NRGBA{"a, b, c": orange, "witnesses": sky, "keys": brown, "processes": grey, "sets": green, "queue": purple, "measured": black} {
		if seen[c] < 100 {
			t.Errorf("%s: %d pixels", name, seen[c])
		}
	}
	if box.Dx() < 1000 || box.Dx() > 2000 || box.Dy() < 600 || box.Dy() > 1500 {
		t.Errorf("%v", box)
	}
}

// A page has the picture and its text, escaped.
func TestHTML(t *testing.T) {
	f := figure(t, host.PermitFreed, 0)
	b := string(write(t, "html", f))
	keep(t, "freed.html", []byte(b))
	for _, want := range []string{"<!doctype html>", "<title>3 proofs &lt;of&gt; PoRep &amp; co</title>", "<svg ", "</svg>", "<pre>a &lt; b</pre>"} {
		if !strings.Contains(b, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(b, "<?xml") {
		t.Error("a prologue of XML inside of HTML")
	}
}

// What is empty or one moment long can be drawn.
func TestDegenerate(t *testing.T) {
	for i, r := range []*record.Recording{record.New(record.Options{}).End(time.Unix(1, 0)), {Length: 1}, {Length: 1000 * time.Hour, Lanes: []record.Lane{{Backend: "x", Blocks: []record.Block{{Failed: true, End: time.Hour}}}}}} {
		for _, format := range Formats {
			if format == "png" && i > 0 {
				continue // slow, and drawn the same way
			}
			if b := write(t, format, &Figure{Recording: r, Budget: 1 << 40}); len(b) == 0 || bytes.Contains(b, []byte("NaN")) {
				t.Errorf("%s of %+v: %d bytes", format, r, len(b))
			}
		}
	}
	if err := Write(io.Discard, "gif", &Figure{Recording: &record.Recording{}}); !errs.Is(err, errs.InvalidArgument) {
		t.Error(err)
	}
}

func TestFormatOf(t *testing.T) {
	for path, want := range map[string]string{"a.svg": "svg", "x/y.PNG": "png", "page.html": "html", "a.pdf": "", "svg": "", "": ""} {
		got, err := FormatOf(path)
		if got != want || (err != nil) != (want == "") || err != nil && !errs.Is(err, errs.InvalidArgument) {
			t.Errorf("%q: %q, %v", path, got, err)
		}
	}
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		t      ticks
		lo, hi float64
		want   string
	}{
		{ticks{most: 6}, 0, 320, "0 100 200 300"}, {ticks{most: 6, whole: true}, 0, 2.2, "0 1 2"}, {ticks{most: 12}, 0, 641.5, "0 100 200 300 400 500 600"}, {ticks{most: 6}, 0, 0.7, "0 0.2 0.4 0.6"},
	} {
		var got []string
		for _, m := range c.t.Ticks(c.lo, c.hi) {
			got = append(got, m.Label)
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%v from %v to %v: %s, want %s", c.t, c.lo, c.hi, s, c.want)
		}
	}
}

func TestUnits(t *testing.T) {
	for n, want := range map[int64]string{0: "B 1", 2047: "B 1", 4096: "KiB 1024", 300 << 30: "GiB 1.073741824e+09", 5 << 40: "TiB 1.099511627776e+12"} {
		unit, div := unitOf(n)
		if got := fmt.Sprintf("%s %g", unit, div); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
