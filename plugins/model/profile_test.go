package model

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
)

func profile(t testing.TB, name string) *Profile {
	t.Helper()
	p, err := LoadProfile(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Every profile that is shipped can be loaded, and the reference machine is what was measured.
func TestShippedProfiles(t *testing.T) {
	if want := []string{"h200", "h200-streamed", "reference", "reference-fit", "reference-g2-on-lane", "reference-g2-wide"}; !slices.Equal(Profiles(), want) {
		t.Errorf("profiles %v, want %v", Profiles(), want)
	}
	for _, name := range Profiles() {
		p := profile(t, name)
		if p.Name != name || p.About == "" || p.Machine.Device == "" {
			t.Errorf("%s: %q, %q, %q", name, p.Name, p.About, p.Machine.Device)
		}
		c, err := p.Circuit("filecoin/porep-32g")
		if err != nil {
			t.Fatal(err)
		}
		if c.EvaluationBytes() != 12<<30 || c.Witness != 4<<30 || c.Partitions != 10 {
			t.Errorf("%s: %d, %d, %d", name, c.EvaluationBytes(), c.Witness, c.Partitions)
		}
	}
	p := profile(t, "reference")
	c := &p.Circuits[0]
	if base := float64(p.Machine.Base+c.Key) / (1 << 30); base < 68.9 || base > 69.1 {
		t.Errorf("base of %v GiB", base)
	}
	for k, want := range map[int]time.Duration{1: 29 * time.Second, 4: 31500 * time.Millisecond, 10: 36500 * time.Millisecond, 16: 36500 * time.Millisecond} {
		if got := c.SynthesisAt(k); got != want {
			t.Errorf("synthesis of %d at once takes %v, want %v", k, got, want)
		}
	}
	if c.Kernels.Seconds() != 3.75 || c.Finish.Seconds() != 1.7 || !p.Machine.Exclusive {
		t.Errorf("%+v", c)
	}
}

const small = `about = "x"
[machine]
device = "d"
cores = 4
memory = "1GiB"
lanes = 2
[[circuits]]
name = "c"
partitions = 2
log_domain = 10
wires = 1000
constraints = 900
evaluations = 3
witness = "32KiB"
synthesis = [{ at = 1, time = "1s" }]
kernels = "1s"
`

func TestStrict(t *testing.T) {
	if _, err := ParseProfile("small", small); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ from, to, word string }{
		{`lanes = 2`, `lane = 2`, "unknown key"},
		{`kernels = "1s"`, "kernels = \"1s\"\nkernel = \"1s\"", "unknown key"},
		{`memory = "1GiB"`, `memory = "1Gib"`, "known unit"},
		{`memory = "1GiB"`, `memory = "1"`, "1MiB or more"},
		{`kernels = "1s"`, `kernels = 1`, "a time such as"},
		{`kernels = "1s"`, `kernels = "fast"`, "a time such as"},
		{`kernels = "1s"`, `kernels = "-1s"`, "at most"}, // consumed is 0
		{`kernels = "1s"`, "kernels = \"1s\"\nconsumed = \"2s\"", "at most the kernels"},
		{`kernels = "1s"`, "kernels = \"1s\"\nfinish = \"30h\"", "0 to 24h"},
		{`lanes = 2`, `lanes = 0`, "1 to 64"},
		{`cores = 4`, `cores = 0`, "1 to 65536"},
		{`partitions = 2`, `partitions = 0`, "1 to 4096"},
		{`evaluations = 3`, `evaluations = 1`, "0, 2 or 3"},
		{`witness = "32KiB"`, `witness = "1B"`, "64B or more"},
		{`[{ at = 1, time = "1s" }]`, `[]`, "at least one time"},
		{`[{ at = 1, time = "1s" }]`, `[{ at = 2, time = "1s" }, { at = 2, time = "2s" }]`, "ascending"},
		{`[{ at = 1, time = "1s" }]`, `[{ at = 1, time = "0s" }]`, "above zero"},
		{`wires = 1000`, `wires = 1`, "wires"},
		{`constraints = 900`, `constraints = 1024`, "room for every row"},
		{`log_domain = 10`, `log_domain = 40`, "2^28"},
		{`kernels = "1s"`, "kernels = \"1s\"\njitter = 1.0", "0 to below 1"},
		{`kernels = "1s"`, "kernels = \"1s\"\n[circuits.failures]\nprover = 1.5", "0 to 1"},
		{`kernels = "1s"`, "kernels = \"1s\"\n[circuits.failures]\nprover = nan", "0 to 1"},
		{small[strings.Index(small, "[[circuits]]"):], "", "at least one table"},
		{small[strings.Index(small, "[[circuits]]"):], small[strings.Index(small, "[[circuits]]"):] + small[strings.Index(small, "[[circuits]]"):], "that differ"},
		{`about = "x"`, `about = `, "line 1"},
	} {
		_, err := ParseProfile("small", strings.Replace(small, tc.from, tc.to, 1))
		if !errs.Is(err, errs.InvalidFile) || !strings.Contains(err.Error(), tc.word) {
			t.Errorf("%q instead of %q: %v, want %q", tc.to, tc.from, err, tc.word)
		}
	}
}

func TestLoadProfile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mine.toml")
	if err := os.WriteFile(path, []byte(small), 0o600); err != nil {
		t.Fatal(err)
	}
	if p := profile(t, path); p.Name != "mine" || p.Circuits[0].Name != "c" {
		t.Errorf("%+v", p)
	}
	if _, err := profile(t, path).Circuit("other"); !errs.Is(err, errs.NotFound) || !strings.Contains(err.Error(), "circuits c") {
		t.Errorf("%v", err)
	}
	if _, err := LoadProfile("nosuch"); !errs.Is(err, errs.NotFound) || !strings.Contains(err.Error(), "reference") {
		t.Errorf("%v", err)
	}
	if _, err := LoadProfile(path + ".toml"); !errs.Is(err, errs.NotFound) || !strings.Contains(err.Error(), path) {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(small, "lanes", "lines", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadProfile(path); !errs.Is(err, errs.InvalidFile) || !strings.Contains(err.Error(), path) {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(path, make([]byte, maxProfile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadProfile(path); !errs.Is(err, errs.InvalidFile) || !strings.Contains(err.Error(), "1 MiB") {
		t.Errorf("%v", err)
	}
}

// A key file brings its circuit back as it was, with a key under which the model's proof holds.
func TestKey(t *testing.T) {
	for _, name := range Profiles() {
		p := profile(t, name)
		for i := range p.Circuits {
			var b bytes.Buffer
			if err := WriteKey(&b, &p.Circuits[i]); err != nil {
				t.Fatal(err)
			}
			c, vk, err := ReadKey(bytes.NewReader(b.Bytes()), int64(b.Len()))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(*c, p.Circuits[i]) {
				t.Errorf("%+v became %+v", p.Circuits[i], *c)
			}
			v, err := groth16.NewVerifier(vk)
			if err != nil {
				t.Fatal(err)
			}
			e, err := tiny()
			if err != nil {
				t.Fatal(err)
			}
			if err := v.Verify(&e.proof, e.public); err != nil {
				t.Error(err)
			}
		}
	}
	for text, word := range map[string]string{
		"":                      "another kind",
		"zkey":                  "another kind",
		keyMagic:                "name",
		keyMagic + "x = 1":      "unknown key",
		keyMagic + `name = "x"`: "partitions",
		keyMagic + "name = ":    "line 2",
	} {
		if _, _, err := ReadKey(strings.NewReader(text), int64(len(text))); !errs.Is(err, errs.InvalidFile) || !strings.Contains(err.Error(), word) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, _, err := ReadKey(strings.NewReader("x"), maxKey+1); !errs.Is(err, errs.InvalidFile) {
		t.Errorf("%v", err)
	}
}

// A profile that is made smaller is still one, down to nothing.
func TestShrink(t *testing.T) {
	p := profile(t, "reference")
	q := p.Shrink(10)
	if c := &q.Circuits[0]; c.EvaluationBytes() != 12<<20 || c.Witness != 4<<20 || q.Machine.Memory != 755<<20 || c.Kernels.Seconds() != 3.75 {
		t.Errorf("%+v", q)
	}
	if p.Circuits[0].LogDomain != 27 || p.Circuits[0].Witness != 4<<30 {
		t.Errorf("the original changed: %+v", p)
	}
	for by := range 19 {
		if err := p.Shrink(by).Validate(); err != nil {
			t.Errorf("by %d: %v", by, err)
		}
	}
}

func FuzzProfile(f *testing.F) {
	f.Add(small)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParseProfile("fuzz", text)
		if err != nil {
			if !errs.Is(err, errs.InvalidFile) && !errs.Is(err, errs.InvalidArgument) {
				t.Errorf("%v", err)
			}
			return
		}
		for i := range p.Circuits {
			var b bytes.Buffer
			if err := WriteKey(&b, &p.Circuits[i]); err != nil {
				t.Fatal(err)
			}
			if b.Len() > maxKey {
				continue
			}
			if c, _, err := ReadKey(bytes.NewReader(b.Bytes()), int64(b.Len())); err != nil || !reflect.DeepEqual(*c, p.Circuits[i]) {
				t.Errorf("%v", err)
			}
		}
	})
}
