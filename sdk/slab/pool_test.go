package slab

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/weir-zk/weir/sdk/errs"
)

func get(t *testing.T, p *Pool, purpose Purpose, size int64, tenant string) *Buffer {
	t.Helper()
	b, err := p.Get(purpose, size, tenant)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func free(t *testing.T, b *Buffer) {
	t.Helper()
	if err := b.Free(); err != nil {
		t.Fatal(err)
	}
}

func wantClass(t *testing.T, err error, c errs.Class) {
	t.Helper()
	if !errs.Is(err, c) {
		t.Fatalf("error %v, want class %v", err, c)
	}
}

// mustPanic runs f and wants a panic exactly in builds with invariants.
func mustPanic(t *testing.T, f func()) {
	t.Helper()
	defer func() {
		if r := recover(); (r != nil) != invariants {
			t.Fatalf("panic %v, invariants %v", r, invariants)
		}
	}()
	f()
}

func TestRoundSize(t *testing.T) {
	page := pageSize
	for _, c := range []struct{ size, want int64 }{
		{0, page}, {1, page}, {page - 1, page}, {page, page}, {page + 1, 2 * page},
		{hugeSize - 1, hugeSize}, {hugeSize, hugeSize}, {hugeSize + 1, 2 * hugeSize},
		{2*hugeSize - 1, 2 * hugeSize}, {2 * hugeSize, 2 * hugeSize}, {2*hugeSize + 1, 3 * hugeSize},
	} {
		if got := RoundSize(c.size); got != c.want {
			t.Errorf("RoundSize(%d) = %d, want %d", c.size, got, c.want)
		}
	}
}

func TestPoolSizes(t *testing.T) {
	p := NewPool(PoolOptions{})
	seen := map[Handle]bool{}
	for _, size := range []int64{0, 1, 7, 4095, 4096, 4097, hugeSize - 1, hugeSize, hugeSize + 1, 3*hugeSize + 17} {
		b := get(t, p, Evaluations, size, "")
		if int64(len(b.Bytes())) != size || int64(cap(b.Bytes())) != size || b.Len() != size || b.Size() != RoundSize(size) {
			t.Fatalf("size %d: len %d cap %d Len %d Size %d", size, len(b.Bytes()), cap(b.Bytes()), b.Len(), b.Size())
		}
		if want := (Ref{Handle: b.Ref().Handle, Length: size}); b.Ref() != want || seen[b.Ref().Handle] || b.Ref().Handle == 0 {
			t.Fatalf("size %d: ref %v", size, b.Ref())
		}
		seen[b.Ref().Handle] = true
		for i := range b.Bytes() {
			b.Bytes()[i] = byte(i)
		}
		if at := uintptr(unsafe.Pointer(unsafe.SliceData(b.slab.mem.data))); !raceEnabled && size >= hugeSize && at%hugeSize != 0 {
			t.Errorf("size %d: at %#x, not aligned to 2 MiB", size, at)
		}
		got, err := p.Bytes(b.Ref())
		if err != nil || !bytes.Equal(got, b.Bytes()) || (size > 0 && &got[0] != &b.Bytes()[0]) {
			t.Fatalf("size %d: the pool resolves to other bytes: %v", size, err)
		}
		defer free(t, b)
	}
	for _, size := range []int64{-1, math.MinInt64, maxSlab + 1, math.MaxInt64} {
		_, err := p.Get(Evaluations, size, "")
		wantClass(t, err, errs.InvalidArgument)
	}
	_, err := p.Get(numPurposes, 1, "")
	wantClass(t, err, errs.InvalidArgument)
}

func TestPoolReuse(t *testing.T) {
	p := NewPool(PoolOptions{})
	type user struct {
		purpose Purpose
		size    int64
		tenant  string
	}
	for _, c := range []struct {
		name        string
		first, then user
		same        bool
	}{
		{"same again", user{Evaluations, 5000, ""}, user{Evaluations, 5000, ""}, true},
		{"other size, same pages", user{Evaluations, 5000, ""}, user{Evaluations, 8000, ""}, true},
		{"other size", user{Evaluations, 5000, ""}, user{Evaluations, 9000, ""}, false},
		{"other purpose, both plain", user{Evaluations, 5000, ""}, user{Proof, 5000, ""}, true},
		{"secret to plain", user{Witness, 5000, ""}, user{Evaluations, 5000, ""}, false},
		{"plain to secret", user{Evaluations, 5000, ""}, user{Witness, 5000, ""}, false},
		{"secret to secret", user{Witness, 5000, ""}, user{Payload, 5000, ""}, true},
		{"to a tenant", user{Evaluations, 5000, ""}, user{Evaluations, 5000, "acme"}, false},
		{"from a tenant", user{Evaluations, 5000, "acme"}, user{Evaluations, 5000, ""}, false},
		{"between tenants", user{Evaluations, 5000, "acme"}, user{Evaluations, 5000, "other"}, false},
		{"inside a tenant", user{Evaluations, 5000, "acme"}, user{Evaluations, 5000, "acme"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p.Trim(0)
			a := get(t, p, c.first.purpose, c.first.size, c.first.tenant)
			h := a.Ref().Handle
			free(t, a)
			b := get(t, p, c.then.purpose, c.then.size, c.then.tenant)
			defer free(t, b)
			if same := b.Ref().Handle == h; same != c.same {
				t.Errorf("reused: %v, want %v", same, c.same)
			}
		})
	}
}

func TestFreedContents(t *testing.T) {
	p := NewPool(PoolOptions{})
	for _, purpose := range Purposes() {
		const size = 3*4096 + 5
		b := get(t, p, purpose, size, "")
		if purpose.secret() && !bytes.Equal(b.Bytes(), make([]byte, size)) {
			t.Errorf("%v: not zero at first", purpose)
		}
		for i := range b.slab.mem.data { // beyond the buffer too: a plugin maps the whole slab
			b.slab.mem.data[i] = 0xAA
		}
		data := b.slab.mem.data
		free(t, b)
		want := byte(0xAA)
		switch {
		case purpose.secret():
			want = 0
		case invariants:
			want = poisonByte
		}
		for i, v := range data {
			if v != want {
				t.Fatalf("%v: byte %d is %#x after free, want %#x", purpose, i, v, want)
			}
		}
	}
}

func TestFreeTwice(t *testing.T) {
	p := NewPool(PoolOptions{})
	b := get(t, p, Witness, 100, "")
	ref := b.Ref()
	free(t, b)
	mustPanic(t, func() {
		wantClass(t, b.Free(), errs.Internal)
	})
	mustPanic(t, func() {
		if b.Bytes() != nil {
			t.Error("bytes of a freed buffer")
		}
	})
	// A second owner of the same slab is not hurt by the first one's stale buffer.
	c := get(t, p, Witness, 100, "")
	if c.Ref() != ref {
		t.Fatalf("slab not reused: %v, %v", c.Ref(), ref)
	}
	mustPanic(t, func() { _ = b.Free() })
	if _, err := p.Bytes(c.Ref()); err != nil {
		t.Errorf("a stale free took the buffer of its next owner: %v", err)
	}
	if s := p.Stats(); s.DoubleFree != 2 || s.LiveCount[Witness] != 1 {
		t.Errorf("%d double frees, %d live", s.DoubleFree, s.LiveCount[Witness])
	}
	free(t, c)
	if _, err := p.Bytes(ref); !errs.Is(err, errs.NotFound) {
		t.Errorf("a freed buffer resolves: %v", err)
	}
	if _, err := b.File(); !errs.Is(err, errs.InvalidArgument) {
		t.Errorf("file of a freed buffer: %v", err)
	}
}

func TestTrimAndStats(t *testing.T) {
	p := NewPool(PoolOptions{})
	var bs []*Buffer
	for range 4 {
		bs = append(bs, get(t, p, Evaluations, hugeSize, ""))
	}
	w := get(t, p, Witness, 10, "")
	s := p.Stats()
	if s.LiveBytes[Evaluations] != 4*hugeSize || s.LiveCount[Evaluations] != 4 || s.LiveBytes[Witness] != pageSize || s.IdleBytes != 0 ||
		s.Live() != 4*hugeSize+pageSize || s.Created != 5 {
		t.Fatalf("stats %+v", s)
	}
	for _, b := range bs {
		free(t, b)
	}
	if s = p.Stats(); s.IdleBytes != 4*hugeSize || s.IdleCount != 4 || s.Live() != pageSize {
		t.Fatalf("stats %+v", s)
	}
	if n := p.Trim(3*hugeSize - 1); n != 2*hugeSize {
		t.Errorf("trimmed %d bytes", n)
	}
	// The longest idle went: the last freed is still there.
	if b := get(t, p, Evaluations, hugeSize, ""); b.Ref().Handle != bs[3].Ref().Handle {
		t.Errorf("slab %d, want %d", b.Ref().Handle, bs[3].Ref().Handle)
	} else {
		free(t, b)
	}
	if n := p.Trim(-5); n != 2*hugeSize {
		t.Errorf("trimmed %d bytes", n)
	}
	if s = p.Stats(); s.IdleBytes != 0 || s.IdleCount != 0 || s.Dropped != 4 || s.Reused != 1 {
		t.Errorf("stats %+v", s)
	}
	free(t, w)
}

func TestMaxIdle(t *testing.T) {
	for _, c := range []struct{ max, want int64 }{{0, 3 * hugeSize}, {2 * hugeSize, 2 * hugeSize}, {hugeSize - 1, 0}, {-1, 0}} {
		p := NewPool(PoolOptions{MaxIdle: c.max})
		var bs []*Buffer
		for range 3 {
			bs = append(bs, get(t, p, Evaluations, hugeSize, ""))
		}
		for _, b := range bs {
			free(t, b)
		}
		if got := p.Stats().IdleBytes; got != c.want {
			t.Errorf("MaxIdle %d: %d idle bytes, want %d", c.max, got, c.want)
		}
		p.Trim(0)
	}
}

func TestCloseReportsLeaks(t *testing.T) {
	p := NewPool(PoolOptions{})
	free(t, get(t, p, Evaluations, 10, ""))
	if err := NewPool(PoolOptions{}).Close(); err != nil {
		t.Errorf("empty pool: %v", err)
	}
	leaked := get(t, p, Witness, 77, "acme")
	err := p.Close()
	wantClass(t, err, errs.Internal)
	for _, word := range []string{"witness", "77 bytes", `"acme"`} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("leak report %q lacks %q", err, word)
		}
	}
	if invariants && !strings.Contains(err.Error(), "TestCloseReportsLeaks") {
		t.Errorf("leak report lacks the place: %v", err)
	}
	leaked.Bytes()[76] = 1 // still mapped
	free(t, leaked)
	if s := p.Stats(); s.IdleCount != 0 || s.Live() != 0 || s.Dropped != 2 {
		t.Errorf("stats %+v", s)
	}
	_, err = p.Get(Witness, 1, "")
	wantClass(t, err, errs.Unavailable)
}

func TestPoolConcurrent(t *testing.T) {
	p := NewPool(PoolOptions{MaxIdle: 4 * hugeSize})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(g)))
			for range 200 {
				b, err := p.Get(Purpose(rng.IntN(int(numPurposes))), rng.Int64N(20_000), []string{"", "a", "b"}[rng.IntN(3)])
				if err != nil {
					t.Error(err)
					return
				}
				if rng.IntN(20) == 0 {
					p.Trim(0)
				}
				for i := range b.Bytes() {
					b.Bytes()[i] = byte(g)
				}
				got, err := p.Bytes(b.Ref())
				if err != nil || !bytes.Equal(got, bytes.Repeat([]byte{byte(g)}, int(b.Len()))) {
					t.Errorf("buffer of %d was written by another: %v", g, err)
				}
				if err := b.Free(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if s := p.Stats(); s.Live() != 0 || s.Created != s.Dropped+uint64(s.IdleCount) {
		t.Errorf("stats %+v", s)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func TestRefBounds(t *testing.T) {
	p := NewPool(PoolOptions{})
	b := get(t, p, Proof, 100, "")
	defer free(t, b)
	h := b.Ref().Handle
	for _, c := range []struct {
		off, n int64
		ok     bool
	}{
		{0, 100, true}, {0, 0, true}, {100, 0, true}, {99, 1, true}, {50, 50, true},
		{0, 101, false}, {100, 1, false}, {101, 0, false}, {-1, 1, false}, {0, -1, false}, {-1, 0, false},
		{math.MaxInt64, 1, false}, {1, math.MaxInt64, false}, {math.MaxInt64, math.MaxInt64, false}, {math.MinInt64, math.MinInt64, false},
	} {
		got, err := p.Bytes(Ref{Handle: h, Offset: c.off, Length: c.n})
		if c.ok && (err != nil || int64(len(got)) != c.n || int64(cap(got)) != c.n) {
			t.Errorf("[%d,+%d]: %d bytes, %v", c.off, c.n, len(got), err)
		}
		if !c.ok && !errs.Is(err, errs.InvalidArgument) {
			t.Errorf("[%d,+%d]: %v", c.off, c.n, err)
		}
	}
	for _, h := range []Handle{0, h + 1, math.MaxUint64} {
		_, err := p.Bytes(Ref{Handle: h})
		wantClass(t, err, errs.NotFound)
	}
	if got := (Ref{1, 10, 20}).Slice(5, 7); got != (Ref{1, 15, 7}) {
		t.Errorf("slice: %v", got)
	}
}

func TestFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	content := make([]byte, 3*pageSize+100)
	for i := range content {
		content[i] = byte(i * 7)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	open := func(flag int) *os.File {
		f, err := os.OpenFile(path, flag, 0)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	p := NewPool(PoolOptions{})
	h, err := p.AddFile(open(os.O_RDONLY))
	if err != nil {
		t.Fatal(err)
	}
	v, err := p.File(h)
	if err != nil || v.Size() != int64(len(content)) || v.Name() != path {
		t.Fatalf("%v %d %q", err, v.Size(), v.Name())
	}
	part := make([]byte, 10)
	if _, err := v.ReadAt(part, 1000); err != nil || !bytes.Equal(part, content[1000:1010]) {
		t.Errorf("ReadAt: %x, %v", part, err)
	}
	for _, c := range [][2]int64{{0, int64(len(content))}, {0, 0}, {1, 1}, {pageSize - 1, 2}, {pageSize, pageSize}, {3 * pageSize, 100}, {int64(len(content)), 0}} {
		m, err := v.Map(c[0], c[1])
		if err != nil || !bytes.Equal(m.Bytes(), content[c[0]:c[0]+c[1]]) {
			t.Fatalf("Map(%d, %d): %v", c[0], c[1], err)
		}
		if err := m.Forget(0, c[1]); err != nil {
			t.Errorf("Forget: %v", err)
		}
		if !bytes.Equal(m.Bytes(), content[c[0]:c[0]+c[1]]) {
			t.Errorf("Map(%d, %d): other bytes after Forget", c[0], c[1])
		}
		wantClass(t, m.Forget(1, c[1]), errs.InvalidArgument)
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, c := range [][2]int64{{0, int64(len(content)) + 1}, {-1, 1}, {1, -1}, {math.MaxInt64, math.MaxInt64}} {
		_, err := v.Map(c[0], c[1])
		wantClass(t, err, errs.InvalidArgument)
	}
	if err := os.Truncate(path, 100); err != nil {
		t.Fatal(err)
	}
	_, err = v.Map(0, 101)
	wantClass(t, err, errs.InvalidFile)

	if err := p.RemoveFile(h); err != nil {
		t.Fatal(err)
	}
	wantClass(t, p.RemoveFile(h), errs.NotFound)
	_, err = p.File(h)
	wantClass(t, err, errs.NotFound)
	if _, err := v.ReadAt(part, 0); err == nil {
		t.Error("file still open after RemoveFile")
	}

	_, err = p.AddFile(open(os.O_RDWR))
	wantClass(t, err, errs.InvalidArgument)
	for _, mode := range []int{os.O_RDONLY, os.O_WRONLY} {
		_, err = p.AddOutput(open(mode))
		wantClass(t, err, errs.InvalidArgument)
	}
	out, err := p.AddOutput(open(os.O_RDWR))
	if err != nil {
		t.Fatal(err)
	}
	if v, err = p.File(out); err != nil {
		t.Fatal(err)
	}
	if _, err := v.OSFile().WriteAt([]byte("made"), 0); err != nil {
		t.Errorf("an output cannot be written: %v", err)
	}
	if err := p.RemoveFile(out); err != nil {
		t.Fatal(err)
	}
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.AddFile(dir)
	wantClass(t, err, errs.InvalidFile)
	_, err = FileView{}.Map(0, 0)
	wantClass(t, err, errs.InvalidArgument)
}

func TestView(t *testing.T) {
	type element [4]uint64
	type bad struct{ _ *int }
	b := make([]byte, 128)
	for i := range b {
		b[i] = byte(i)
	}
	words, err := View[uint64](b)
	if err != nil || len(words) != 16 || words[1] != 0x0f0e0d0c0b0a0908 && words[1] != 0x08090a0b0c0d0e0f {
		t.Errorf("%x, %v", words, err)
	}
	els, err := View[element](b)
	if err != nil || len(els) != 4 || els[1][0] != words[4] {
		t.Errorf("%x, %v", els, err)
	}
	els[3][3] = 0
	if !bytes.Equal(b[120:], make([]byte, 8)) {
		t.Error("a view is a copy")
	}
	if got := BytesOf(els); len(got) != 128 || &got[0] != &b[0] {
		t.Error("BytesOf is not the same memory")
	}
	if got, err := View[uint64](nil); err != nil || len(got) != 0 {
		t.Errorf("empty: %v", err)
	}
	for name, f := range map[string]func() error{
		"length":    func() error { _, err := View[element](b[:127]); return err },
		"alignment": func() error { _, err := View[uint64](b[1:9]); return err },
		"pointer":   func() error { _, err := View[bad](b); return err },
		"string":    func() error { _, err := View[string](b); return err },
		"empty":     func() error { _, err := View[struct{}](b); return err },
	} {
		if err := f(); !errs.Is(err, errs.InvalidArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if BytesOf([]bad{{}}) != nil {
		t.Error("BytesOf of pointers")
	}
}

func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range Purposes() {
		if s := p.String(); s == "" || seen[s] || strings.Contains(s, "(") {
			t.Errorf("purpose %d is named %q", p, s)
		}
		seen[p.String()] = true
	}
	if got := fmt.Sprint(numPurposes, KindSlab, KindFile, Kind(9)); got != "purpose(7) slab file kind 9" {
		t.Error(got)
	}
}
