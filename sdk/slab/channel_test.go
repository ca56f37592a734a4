package slab

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weir-zk/weir/sdk/errs"
)

// pair connects a Channel and a Mapper in one process.
func pair(t *testing.T) (*Channel, *Mapper) {
	t.Helper()
	host, plugin, err := NewSocketPair()
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewMapper(plugin, []byte("plugin"))
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- m.Serve() }()
	c, info, err := Connect(host, []byte("host"), 0)
	if err != nil || string(info) != "plugin" {
		t.Fatalf("greeting: %q %v", info, err)
	}
	t.Cleanup(func() {
		_ = c.Close()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return c, m
}

func needShared(t *testing.T) {
	t.Helper()
	if raceEnabled {
		t.Skip("slabs are Go memory under the race detector: nothing to hand over")
	}
}

func TestHandOverSlab(t *testing.T) {
	needShared(t)
	c, m := pair(t)
	p := NewPool(PoolOptions{})
	for _, size := range []int64{0, 1, 4096, 4097, hugeSize, hugeSize + 1} {
		b := get(t, p, Evaluations, size, "")
		for i := range b.Bytes() {
			b.Bytes()[i] = byte(i % 251)
		}
		h := b.Ref().Handle
		if _, err := m.Bytes(b.Ref()); !c.Holds(h) && !errs.Is(err, errs.NotFound) {
			t.Errorf("before the hand-over: %v", err)
		}
		if err := p.Hand(c, h); err != nil {
			t.Fatal(err)
		}
		if !c.Holds(h) {
			t.Error("not held after hand-over")
		}
		if err := p.Hand(c, h); err != nil {
			t.Errorf("second hand-over: %v", err)
		}
		got, err := m.Bytes(b.Ref())
		if err != nil || !bytes.Equal(got, b.Bytes()) {
			t.Fatalf("size %d: %v", size, err)
		}
		if size > 0 {
			if &got[0] == &b.Bytes()[0] {
				t.Fatal("one map in place of two")
			}
			got[size-1] = 0xEE
			if b.Bytes()[size-1] != 0xEE {
				t.Error("not shared")
			}
			again, err := m.Bytes(b.Ref().Slice(size-1, 1))
			if err != nil || &again[0] != &got[size-1] {
				t.Errorf("mapped twice: %v", err)
			}
		}
		_, err = m.Bytes(Ref{Handle: h, Offset: RoundSize(size), Length: 1})
		wantClass(t, err, errs.InvalidArgument)
		_, err = m.File(h)
		wantClass(t, err, errs.InvalidArgument)
		free(t, b)
	}
	held := m.Handles()
	if n := p.Trim(0); n == 0 || held == 0 || m.Handles() != 0 {
		t.Errorf("trim released %d bytes; plugin held %d, now %d", n, held, m.Handles())
	}
	if err := p.Hand(c, 1<<40); !errs.Is(err, errs.NotFound) {
		t.Errorf("unknown handle: %v", err)
	}
	if c.Err() != nil {
		t.Error(c.Err())
	}
}

func TestHandOverFile(t *testing.T) {
	c, m := pair(t)
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte("some key"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	p := NewPool(PoolOptions{})
	h, err := p.AddFile(f)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Hand(c, h); err != nil {
		t.Fatal(err)
	}
	v, err := m.File(h)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(io.NewSectionReader(v, 0, v.Size()))
	if err != nil || string(got) != "some key" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := v.OSFile().Write([]byte("x")); err == nil {
		t.Error("the plugin can write the input file")
	}
	_, err = m.Bytes(Ref{Handle: h})
	wantClass(t, err, errs.InvalidArgument)
	if err := p.RemoveFile(h); err != nil {
		t.Fatal(err)
	}
	_, err = m.File(h)
	wantClass(t, err, errs.NotFound)
	if _, err := v.ReadAt(got, 0); err == nil {
		t.Error("the plugin's file is open after the release")
	}
	if err := c.Release(h); err != nil {
		t.Errorf("release of what is not held: %v", err)
	}
}

func TestHandOverConcurrent(t *testing.T) {
	needShared(t)
	c, m := pair(t)
	p := NewPool(PoolOptions{})
	var wg sync.WaitGroup
	for g := range 6 {
		wg.Go(func() {
			for i := range 50 {
				b, err := p.Get(Proof, int64(64*g+1), "")
				if err != nil {
					t.Error(err)
					return
				}
				b.Bytes()[0] = byte(i)
				if err := p.Hand(c, b.Ref().Handle); err != nil {
					t.Error(err)
				}
				if got, err := m.Bytes(b.Ref()); err != nil || got[0] != byte(i) {
					t.Errorf("%v", err)
				}
				_ = b.Free()
				if i%10 == 0 {
					p.Trim(0)
				}
			}
		})
	}
	wg.Wait()
	p.Trim(0)
	if m.Handles() != 0 {
		t.Errorf("%d handles left", m.Handles())
	}
}

// TestRefusals sends what a Mapper must refuse while the connection goes on.
func TestRefusals(t *testing.T) {
	c, m := pair(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := os.WriteFile(path, make([]byte, pageSize), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	d, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := c.Send(1<<50, KindFile, pageSize, file); err != nil {
		t.Fatal(err)
	}
	slabClass := errs.InvalidArgument
	if raceEnabled {
		slabClass = errs.Unsupported
	}
	for _, x := range []struct {
		name string
		err  error
		want errs.Class
	}{
		{"other size", c.Send(1<<50+1, KindFile, pageSize+1, file), errs.InvalidArgument},
		{"directory", c.Send(1<<50+2, KindFile, 4096, d), errs.InvalidArgument},
		{"slab that is no sealed memfd", c.Send(1<<50+3, KindSlab, pageSize, file), slabClass},
		{"handle 0", c.Send(0, KindFile, pageSize, file), errs.InvalidArgument},
		{"no file", c.Send(5, KindFile, pageSize, nil), errs.InvalidArgument},
		{"negative size", c.Send(5, KindFile, -1, file), errs.InvalidArgument},
		{"kind", c.Send(5, Kind(9), pageSize, file), errs.InvalidArgument},
	} {
		if !errs.Is(x.err, x.want) {
			t.Errorf("%s: %v, want %v", x.name, x.err, x.want)
		}
	}
	_, err = c.exchange(frame{typ: frameSend, kind: KindFile, handle: 1 << 50, size: pageSize}, file, frameAck)
	wantClass(t, err, errs.InvalidArgument) // held already
	_, err = c.exchange(frame{typ: frameSend, kind: 7, handle: 9, size: pageSize}, file, frameAck)
	wantClass(t, err, errs.InvalidArgument)
	_, err = c.exchange(frame{typ: frameRelease, handle: 99}, nil, frameAck)
	wantClass(t, err, errs.NotFound)
	if c.Err() != nil || m.Handles() != 1 {
		t.Errorf("channel %v, %d handles", c.Err(), m.Handles())
	}
}

// TestHostileHost feeds a Mapper with bytes that are no messages: an error, never a panic or a large allocation.
func TestHostileHost(t *testing.T) {
	header := func(change func(b []byte)) []byte {
		b := (&frame{version: protocolVersion, typ: frameRelease, seq: 1, handle: 1}).encode()
		change(b)
		return b
	}
	cases := map[string][]byte{
		"magic":       header(func(b []byte) { b[0] = 'x' }),
		"version":     header(func(b []byte) { b[4] = 2 }),
		"type 0":      header(func(b []byte) { b[6] = 0 }),
		"type 200":    header(func(b []byte) { b[6] = 200 }),
		"type ack":    header(func(b []byte) { b[6] = byte(frameAck) }),
		"type hello":  header(func(b []byte) { b[6] = byte(frameHello) }),
		"no fd":       header(func(b []byte) { b[6] = byte(frameSend) }),
		"info":        header(func(b []byte) { binary.LittleEndian.PutUint32(b[36:], maxInfo+1) }),
		"info huge":   header(func(b []byte) { binary.LittleEndian.PutUint32(b[36:], 1<<32-1) }),
		"info short":  header(func(b []byte) { binary.LittleEndian.PutUint32(b[36:], 100) }),
		"reserved":    header(func(b []byte) { b[47] = 1 }),
		"size":        header(func(b []byte) { b[31] = 0x80 }),
		"not greeted": nil,
		"half":        header(func([]byte) {})[:20],
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range 50 {
		noise := make([]byte, 1+rng.IntN(200))
		for j := range noise {
			noise[j] = byte(rng.Uint32())
		}
		if i%2 == 0 {
			copy(noise, magic[:])
		}
		cases["noise "+string(rune('a'+i%26))+string(rune('a'+i/26))] = noise
	}
	for name, data := range cases {
		host, plugin, err := NewSocketPair()
		if err != nil {
			t.Fatal(err)
		}
		raw, err := unixConn(host)
		if err != nil {
			t.Fatal(err)
		}
		if data == nil {
			data = header(func([]byte) {})
		} else if err := writeFrame(raw, frame{typ: frameHello}, nil); err != nil {
			t.Fatal(err)
		}
		m, err := NewMapper(plugin, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := raw.Write(data); err != nil {
			t.Fatal(err)
		}
		_ = raw.CloseWrite()
		if err := m.Serve(); err == nil {
			t.Errorf("%s: served without an error", name)
		}
		_ = raw.Close()
		_ = m.Close()
	}
}

// TestHostilePlugin answers the host with what is no answer: the channel breaks with BackendGone, nothing else.
func TestHostilePlugin(t *testing.T) {
	devnull, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer devnull.Close()
	cases := map[string]func(c *net.UnixConn, f frame){
		"closes": func(c *net.UnixConn, f frame) {},
		"noise":  func(c *net.UnixConn, f frame) { _, _ = c.Write(bytes.Repeat([]byte{7}, 100)) },
		"half":   func(c *net.UnixConn, f frame) { _, _ = c.Write(f.encode()[:10]) },
		"sequence": func(c *net.UnixConn, f frame) {
			_ = writeFrame(c, frame{typ: frameAck, seq: f.seq + 1, handle: f.handle}, nil)
		},
		"handle": func(c *net.UnixConn, f frame) {
			_ = writeFrame(c, frame{typ: frameAck, seq: f.seq, handle: f.handle + 1}, nil)
		},
		"type": func(c *net.UnixConn, f frame) {
			_ = writeFrame(c, frame{typ: frameHelloAck, seq: f.seq, handle: f.handle}, nil)
		},
		"descriptor": func(c *net.UnixConn, f frame) {
			_ = writeFrame(c, frame{typ: frameAck, seq: f.seq, handle: f.handle}, devnull)
		},
		"send": func(c *net.UnixConn, f frame) {
			_ = writeFrame(c, frame{typ: frameSend, seq: f.seq, handle: f.handle}, devnull)
		},
		"many fds":     func(c *net.UnixConn, f frame) { manyFiles(c, f, devnull, 3) },
		"too many fds": func(c *net.UnixConn, f frame) { manyFiles(c, f, devnull, 60) },
	}
	before := openFiles(t)
	for name, answer := range cases {
		host, plugin, err := NewSocketPair()
		if err != nil {
			t.Fatal(err)
		}
		raw, err := unixConn(plugin)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			defer raw.Close()
			f, _, err := readFrame(raw)
			if err != nil || writeFrame(raw, frame{typ: frameHelloAck, seq: f.seq}, nil) != nil {
				return
			}
			if f, file, err := readFrame(raw); err == nil {
				_ = file.Close()
				answer(raw, f)
			}
		}()
		c, _, err := Connect(host, nil, 2*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		err = c.Send(1, KindFile, 0, devnull)
		if !errs.Is(err, errs.BackendGone) || !errs.IsRetryable(err) {
			t.Errorf("%s: %v", name, err)
		}
		if again := c.Send(2, KindFile, 0, devnull); !errors.Is(again, err) {
			t.Errorf("%s: broken channel answers %v, then %v", name, err, again)
		}
		if c.Holds(1) {
			t.Errorf("%s: holds after failure", name)
		}
	}
	for range 100 { // descriptors of closed sockets may linger a moment in the other goroutine
		if openFiles(t) <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d descriptors open, %d before: received ones leak", openFiles(t), before)
}

func manyFiles(c *net.UnixConn, f frame, file *os.File, n int) {
	var fd int
	_ = withDescriptor(file, func(n int) error { fd = n; return nil })
	fds := make([]int, n)
	for i := range fds {
		fds[i] = fd
	}
	a := frame{version: protocolVersion, typ: frameAck, seq: f.seq, handle: f.handle}
	_, _, _ = c.WriteMsgUnix(a.encode(), unix.UnixRights(fds...), nil)
}

func openFiles(t *testing.T) int {
	t.Helper()
	for _, dir := range []string{"/proc/self/fd", "/dev/fd"} {
		if list, err := os.ReadDir(dir); err == nil {
			return len(list)
		}
	}
	return 0
}

// TestSilentPlugin: a peer that is stopped costs a deadline, not for ever.
func TestSilentPlugin(t *testing.T) {
	host, plugin, err := NewSocketPair()
	if err != nil {
		t.Fatal(err)
	}
	defer plugin.Close()
	start := time.Now()
	_, _, err = Connect(host, nil, 50*time.Millisecond)
	wantClass(t, err, errs.BackendGone)
	if took := time.Since(start); took < 50*time.Millisecond || took > 5*time.Second {
		t.Errorf("took %v", took)
	}
	if !strings.Contains(err.Error(), "50ms") {
		t.Errorf("no deadline in %q", err)
	}
}

func TestCloseDetaches(t *testing.T) {
	c, _ := pair(t)
	p := NewPool(PoolOptions{})
	p.Attach(c)
	if len(p.attached()) != 1 {
		t.Fatal("not attached")
	}
	_ = c.Close()
	if len(p.attached()) != 0 {
		t.Error("a closed channel stays attached")
	}
	p.Attach(c)
	if len(p.attached()) != 0 {
		t.Error("a closed channel can be attached")
	}
	wantClass(t, c.Send(1, KindFile, 0, os.Stdin), errs.BackendGone)
}

func FuzzHeader(f *testing.F) {
	f.Add((&frame{version: protocolVersion, typ: frameSend, kind: KindSlab, seq: 7, handle: 9, size: 4096}).encode())
	f.Add(make([]byte, headerSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < headerSize {
			return
		}
		h := [headerSize]byte(b[:headerSize])
		g, info, err := decodeHeader(&h)
		if err != nil {
			return
		}
		if info > maxInfo || g.size < 0 {
			t.Fatalf("accepted %+v with %d bytes of info", g, info)
		}
		g.info = make([]byte, info)
		if again := g.encode(); !bytes.Equal(again[:headerSize], h[:]) {
			t.Fatalf("%x became %x", h, again[:headerSize])
		}
	})
}
