package config

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-zk/weir/sdk/errs"
)

func none(string) (string, bool) { return "", false }

func env(m map[string]string) func(string) (string, bool) {
	return func(k string) (string, bool) {
		v, ok := m[k]
		return v, ok
	}
}

func write(t *testing.T, text string) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), "weir.toml")
	if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

const sum = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func TestPrecedence(t *testing.T) {
	p := write(t, "memory_budget = \"12GiB\"\nthreads = 3\nlookahead = 4\nstart_timeout = \"2m\"\n[[backends]]\nname = \"fast\"\ncommand = \"/opt/fast\"\nchecksum = \""+sum+"\"\nargs = [\"-x\"]\n")
	c, err := Load(Options{Path: p, LookupEnv: env(map[string]string{"WEIR_THREADS": "5", "WEIR_LOOKAHEAD": "6", "WEIR_BACKEND": ""}), Flags: map[string]string{"lookahead": "7"}})
	if err != nil {
		t.Fatal(err)
	}
	if c.MemoryBudget != 12<<30 || c.Threads != 5 || c.Lookahead != 7 || c.StartTimeout != 2*time.Minute || !c.CheckWitness || c.MaxAttempts != 0 {
		t.Fatalf("%+v", c)
	}
	if len(c.Backends) != 1 || c.Backends[0].Name != "fast" || !slices.Equal(c.Backends[0].Args, []string{"-x"}) {
		t.Fatalf("%+v", c.Backends)
	}
	source := map[string]string{}
	for _, v := range c.Values() {
		source[v.Key] = v.Source
	}
	for k, want := range map[string]string{"memory_budget": "file " + p + ", line 1", "threads": "environment WEIR_THREADS", "lookahead": "flag --lookahead", "backend": "default"} {
		if source[k] != want {
			t.Errorf("%s comes from %q, want %q", k, source[k], want)
		}
	}
}

// T17: "0", "false" and nothing mean off, in the environment as in the file.
func TestSwitches(t *testing.T) {
	for _, off := range []string{"0", "false", "", "no", "off", "FALSE", "Off"} {
		c, err := Load(Options{LookupEnv: env(map[string]string{"WEIR_GPU": off, EnvPath: ""})})
		if err != nil || c.GPU {
			t.Errorf("WEIR_GPU=%q: GPU is %v, %v", off, err == nil && c.GPU, err)
		}
	}
	for _, on := range []string{"1", "true", "yes", "on", "TRUE"} {
		c, err := Load(Options{LookupEnv: env(map[string]string{"WEIR_GPU": on, EnvPath: ""})})
		if err != nil || !c.GPU {
			t.Errorf("WEIR_GPU=%q: %v", on, err)
		}
	}
	if _, err := Load(Options{LookupEnv: env(map[string]string{"WEIR_GPU": "maybe", EnvPath: ""})}); !errs.Is(err, errs.InvalidArgument) || !strings.Contains(err.Error(), "WEIR_GPU") {
		t.Errorf("WEIR_GPU=maybe: %v", err)
	}
}

func TestStrict(t *testing.T) {
	for _, c := range []struct{ text, message, hint string }{
		{"memory_budgt = 1", `line 1): unknown key "memory_budgt"`, "did you mean memory_budget?"},
		{"threads = 2\n\n# comment = 3\nzzzzzzzzzz = 4", `line 4): unknown key "zzzzzzzzzz"`, "config show"},
		{"memory_budget = \"12 gib\"", `line 1, memory_budget): expected a known unit, found "12 gib"`, "write 12GiB"},
		{"memory_budget = 1.5", `expected an amount such as "12GiB", found the number 1.5`, ""},
		{"memory_budget = \"0\"", "more than 0 bytes", ""},
		{"threads = \"2\"", `expected a whole number, found the string "2"`, ""},
		{"threads = -1", "from 0 to", ""},
		{"threads = 99999999999999999999", "", ""},
		{"gpu = \"false\"", "expected true or false", ""},
		{"start_timeout = 30", `expected a time such as "30s"`, ""},
		{"start_timeout = \"30\"", "expected a time up to 24h", ""},
		{"log_level = \"debgu\"", "one of off, error", "did you mean debug?"},
		{"runtime_dir = \"x/y\"", "absolute path", ""},
		{"threads = 1\nthreads = 2", "line 2", ""},
		{"threads = ", "line 1", ""},
		{"[threads]\nx = 1", "found a table", ""},
		{"backend = [\"a\"]", "expected a string, found a list", ""},
		{"[[backend]]\nname = \"a\"", "[[backend]]", "write [[backends]]"},
		{"backends = 3", "expected tables [[backends]]", ""},
		{"[[backends]]\nname = \"a\"\ncomand = \"/x\"", `line 3): unknown key "comand"`, "did you mean command?"},
		{"[[backends]]\nname = \"a\"\ncommand = \"x\"", "absolute path of an executable", ""},
		{"[[backends]]\nname = \"a\"\ncommand = \"/x\"", "SHA-256", "sha256sum /x"},
		{"[[backends]]\nname = \"a\"\ncommand = \"/x\"\nchecksum = \"00\"", "SHA-256", ""},
		{"[[backends]]\ncommand = \"/x\"\nchecksum = \"" + sum + "\"", "expected a name", ""},
		{"[[backends]]\nname = \"a\"\nargs = \"x\"", "expected a list of strings", ""},
		{"\x00\xff", "", ""},
	} {
		p := write(t, c.text)
		_, err := Load(Options{Path: p, LookupEnv: none})
		if !errs.Is(err, errs.InvalidFile) || !strings.Contains(err.Error(), c.message) || !strings.Contains(err.Error(), p) || !strings.Contains(errs.HintOf(err), c.hint) {
			t.Errorf("%q:\n  %v\n  hint %q\nwant %q, hint %q, class InvalidFile, the path", c.text, err, errs.HintOf(err), c.message, c.hint)
		}
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	for path, class := range map[string]errs.Class{filepath.Join(dir, "none.toml"): errs.NotFound, dir: errs.InvalidArgument} {
		if _, err := Load(Options{Path: path, LookupEnv: none}); !errs.Is(err, class) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v; want %v", path, err, class)
		}
	}
	t.Setenv("XDG_CONFIG_HOME", dir)
	if c, err := Load(Options{LookupEnv: none}); err != nil || strings.HasPrefix(c.Path, dir) {
		t.Errorf("no file: %v, %v", c, err)
	}
	p := SearchPaths()[0]
	if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte("threads = 9"), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err := Load(Options{LookupEnv: none}); err != nil || c.Path != p || c.Threads != 9 {
		t.Errorf("searched: %+v, %v", c, err)
	}
	if c, err := Load(Options{LookupEnv: env(map[string]string{EnvPath: ""})}); err != nil || c.Path != "" {
		t.Errorf("an empty %s reads no file: %+v, %v", EnvPath, c, err)
	}
}

func TestUnknownEnv(t *testing.T) {
	got := UnknownEnv([]string{"WEIR_THREADS=1", "WEIR_THREAD=2", "WEIR_CONFIG=", "PATH=/", "WEIR_QWERTYUIOP=1", "WEIR_PLUGIN=x"})
	if len(got) != 2 || got["WEIR_THREAD"] != "WEIR_THREADS" || got["WEIR_QWERTYUIOP"] != "" {
		t.Errorf("%v", got)
	}
}

func TestHost(t *testing.T) {
	c, err := Load(Options{LookupEnv: env(map[string]string{EnvPath: "", "WEIR_MEMORY_BUDGET": "3GiB", "WEIR_CANCEL_TIMEOUT": "7s"})})
	if err != nil {
		t.Fatal(err)
	}
	c.Backends = []Plugin{{Name: "fast", Command: "/opt/fast", Checksum: sum}}
	h := c.Host()
	if h.MemoryBudget != 3<<30 || h.CancelTimeout != 7*time.Second || h.Backends[0].Name != "fast" {
		t.Errorf("%+v", h)
	}
	if err := h.EnsureDefaults().Validate(); err != nil {
		t.Errorf("what Load accepts the engine must accept: %v", err)
	}
}

// The page for users names every key, its variable and its default.
func TestDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/config.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fields {
		def := f.def
		if f.quoted(def) {
			def = strconv.Quote(def)
		}
		row := "| `" + f.key + "` | `" + f.env() + "` | `" + def + "` |"
		if !strings.Contains(string(page), row) {
			t.Errorf("docs/config.md has no row %s", row)
		}
	}
}

func FuzzLoad(f *testing.F) {
	for _, s := range []string{"threads = 1", "[[backends]]\nname = \"a\"", "memory_budget = \"1GiB\"", "gpu = true", "[a.b]\nc=1", "\"a.b\" = 1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c := &Config{source: map[string]string{}, Path: "f"}
		if err := c.read(text); err != nil && errs.ExitCode(err) != errs.ExitUnusable {
			t.Fatalf("%q: %v", text, err)
		}
	})
}

func TestNearest(t *testing.T) {
	for word, want := range map[string]string{"thread": "threads", "tihreads": "threads", "budget": "", "": "", "lookahaed": "lookahead", "Gpu": "gpu", strings.Repeat("x", 1000): ""} {
		if got := Nearest(word, keys()); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
}
