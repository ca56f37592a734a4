package plugin

import (
	"context"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weir-zk/weir/sdk/errs"
)

// payload is the length of a value whose message is size bytes long.
func payload(t *testing.T, size int) int {
	t.Helper()
	for n := size; n >= 0 && n > size-16; n-- {
		if protowire.SizeTag(1)+protowire.SizeBytes(n) == size {
			return n
		}
	}
	t.Fatalf("no message of %d bytes", size)
	return 0
}

// veryLarge is a message far over small limits, and within the default one.
const veryLarge = 200<<20 - raceLess

// TestMessageLimits: on both sides of the limit, in both directions, refused by whichever side sees it first (T9).
func TestMessageLimits(t *testing.T) {
	const limit = 1 << 20
	p := launchTest(t, "ok", func(c *LaunchConfig) { c.MaxMessage = limit })
	if p.MaxMessage() != limit {
		t.Fatalf("limit %d", p.MaxMessage())
	}
	ctx := context.Background()
	send, receive := grpc.MaxCallSendMsgSize(math.MaxInt32), grpc.MaxCallRecvMsgSize(math.MaxInt32)
	for _, c := range []struct {
		size int
		ok   bool
	}{{limit - 1, true}, {limit, true}, {limit + 1, false}, {veryLarge, false}} {
		n := payload(t, c.size)
		value := make([]byte, n)
		for _, by := range []struct {
			name string
			opts []grpc.CallOption
		}{{"host", nil}, {"plugin", []grpc.CallOption{send, receive}}} {
			out, err := callBytes(ctx, p, "Len", value, by.opts...)
			checkLimit(t, fmt.Sprintf("%d bytes to the plugin, %s refuses", c.size, by.name), c.ok, err, string(out) == strconv.Itoa(n))
			out, err = callBytes(ctx, p, "Blob", []byte(strconv.Itoa(n)), by.opts...)
			checkLimit(t, fmt.Sprintf("%d bytes to the host, %s refuses", c.size, by.name), c.ok, err, len(out) == n)
		}
	}
	if err := p.Ping(ctx); err != nil {
		t.Error(err)
	}
}

func checkLimit(t *testing.T, what string, ok bool, err error, right bool) {
	t.Helper()
	if ok && (err != nil || !right) {
		t.Errorf("%s: %v, answer right: %t", what, err, right)
	}
	if !ok && !errs.Is(errs.FromStatus(err), errs.Exhausted) {
		t.Errorf("%s: %v", what, err)
	}
}

// TestLargeMessage: the default limit lets 200 MiB through, both ways.
func TestLargeMessage(t *testing.T) {
	p := launchTest(t, "ok")
	const n = veryLarge
	out, err := callBytes(context.Background(), p, "Len", make([]byte, n))
	checkLimit(t, "a large message to the plugin", true, err, string(out) == strconv.Itoa(n))
	out, err = callBytes(context.Background(), p, "Blob", []byte(strconv.Itoa(n)))
	checkLimit(t, "a large message to the host", true, err, len(out) == n)
}

// TestLimitsAgree: the smaller wish of the two is the limit of both.
func TestLimitsAgree(t *testing.T) {
	for _, c := range []struct{ host, plugin, want int }{{1 << 20, 1 << 16, 1 << 16}, {1 << 16, 1 << 20, 1 << 16}, {0, 0, DefaultMaxMessage}, {1, 0, minMaxMessage}} {
		p := launchTest(t, fmt.Sprintf("small:%d", c.plugin), func(l *LaunchConfig) { l.MaxMessage = c.host })
		if p.MaxMessage() != c.want {
			t.Errorf("host %d, plugin %d: %d, want %d", c.host, c.plugin, p.MaxMessage(), c.want)
		}
		if c.want > 1<<20 {
			continue
		}
		for _, d := range []int{0, 1} {
			_, err := callBytes(context.Background(), p, "Len", make([]byte, payload(t, c.want+d)), grpc.MaxCallSendMsgSize(math.MaxInt32))
			checkLimit(t, fmt.Sprintf("limit %d and %d more, the plugin decides", c.want, d), d == 0, err, true)
		}
	}
}

// TestRefusedCallsLeaveNothing: a thousand refused calls in each direction, and memory is back at its baseline (T9).
func TestRefusedCallsLeaveNothing(t *testing.T) {
	const limit = 1 << 16
	p := launchTest(t, "ok", func(c *LaunchConfig) { c.MaxMessage = limit })
	big := make([]byte, limit+1)
	ask := []byte(strconv.Itoa(limit + 1))
	round := func(n int) {
		for range n {
			_, err := callBytes(context.Background(), p, "Len", big)
			checkLimit(t, "host refuses to send", false, err, true)
			_, err = callBytes(context.Background(), p, "Len", big, grpc.MaxCallSendMsgSize(math.MaxInt32))
			checkLimit(t, "plugin refuses to receive", false, err, true)
			_, err = callBytes(context.Background(), p, "Blob", ask, grpc.MaxCallRecvMsgSize(math.MaxInt32))
			checkLimit(t, "plugin refuses to send", false, err, true)
			if t.Failed() {
				return
			}
		}
	}
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	round(50)
	host, plugin := heap(), rss(t, p.PID())
	rounds := 1000
	if raceEnabled {
		rounds = 200
	}
	round(rounds)
	if grown := heap() - host; grown > 4<<20 {
		t.Errorf("the host's heap has grown by %d bytes", grown)
	}
	if grown := rss(t, p.PID()) - plugin; grown > 24<<20 {
		t.Errorf("the plugin's memory has grown by %d bytes", grown)
	}
}

// rss is the resident memory of a process in bytes; 0 where it cannot be read.
func rss(t *testing.T, pid int) int64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Log("resident memory of the plugin is not checked: no /proc")
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if v, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(v), " kB"), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n << 10
		}
	}
	return 0
}
