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

	"google.golang.org/protobuf/encoding/protowire"

	"google.golang.org/grpc"

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

// What gRPC says when a side refuses to send, and to receive.
const (
	notSent     = "trying to send message larger than max"
	notReceived = "received message larger than max"
)

// TestMessageLimits: on both sides of the limit, in both directions, refused by the host, whatever the plugin allows, and by the plugin, whatever the
// host allows (T9).
func TestMessageLimits(t *testing.T) {
	const limit = 1 << 20
	ctx := context.Background()
	for _, c := range []struct {
		size int
		ok   bool
	}{{limit - 1, true}, {limit, true}, {limit + 1, false}, {veryLarge, false}} {
		n := payload(t, c.size)
		value := make([]byte, n)
		for _, by := range []struct {
			name             string
			agreed, host     int // the limit that both keep, and then the host's own
			toPlugin, toHost string
		}{{"host", 0, limit, notSent, notReceived}, {"plugin", limit, math.MaxInt32, notReceived, notSent}} {
			p := launchTest(t, "ok", func(l *LaunchConfig) { l.MaxMessage = by.agreed })
			p.maxMessage.Store(int64(by.host))
			out, err := callBytes(ctx, p, "Len", value)
			checkLimit(t, fmt.Sprintf("%d bytes to the plugin, %s refuses", c.size, by.name), c.ok, by.toPlugin, err, string(out) == strconv.Itoa(n))
			out, err = callBytes(ctx, p, "Blob", []byte(strconv.Itoa(n)))
			checkLimit(t, fmt.Sprintf("%d bytes to the host, %s refuses", c.size, by.name), c.ok, by.toHost, err, len(out) == n)
			if err := p.Ping(ctx); err != nil {
				t.Error(err)
			}
		}
	}
}

func checkLimit(t *testing.T, what string, ok bool, words string, err error, right bool) {
	t.Helper()
	if ok && (err != nil || !right) {
		t.Errorf("%s: %v, answer right: %t", what, err, right)
	}
	if !ok && (!errs.Is(errs.FromStatus(err), errs.Exhausted) || !strings.Contains(err.Error(), words)) {
		t.Errorf("%s: %v, expected %q", what, err, words)
	}
}

// TestLimitOfACall: a call may set a lower limit, and no higher one.
func TestLimitOfACall(t *testing.T) {
	const limit = 1 << 20
	p := launchTest(t, "ok")
	p.maxMessage.Store(limit)
	value := make([]byte, payload(t, limit))
	for _, c := range []struct {
		opt grpc.CallOption
		ok  bool
	}{{grpc.MaxCallSendMsgSize(limit - 1), false}, {grpc.MaxCallSendMsgSize(limit + 1), true}, {grpc.MaxCallRecvMsgSize(1), false}} {
		_, err := callBytes(context.Background(), p, "Len", value, c.opt)
		if (err == nil) != c.ok {
			t.Errorf("%#v: %v", c.opt, err)
		}
	}
	if _, err := callBytes(context.Background(), p, "Len", append(value, 0), grpc.MaxCallSendMsgSize(limit+1)); err == nil {
		t.Error("a call went over the limit of all")
	}
}

// TestLargeMessage: the default limit lets 200 MiB through, both ways.
func TestLargeMessage(t *testing.T) {
	p := launchTest(t, "ok")
	const n = veryLarge
	out, err := callBytes(context.Background(), p, "Len", make([]byte, n))
	checkLimit(t, "a large message to the plugin", true, "", err, string(out) == strconv.Itoa(n))
	out, err = callBytes(context.Background(), p, "Blob", []byte(strconv.Itoa(n)))
	checkLimit(t, "a large message to the host", true, "", err, len(out) == n)
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
		p.maxMessage.Store(math.MaxInt32)
		for _, d := range []int{0, 1} {
			_, err := callBytes(context.Background(), p, "Len", make([]byte, payload(t, c.want+d)))
			checkLimit(t, fmt.Sprintf("limit %d and %d more, the plugin decides", c.want, d), d == 0, notReceived, err, true)
		}
	}
}

// TestRefusedCallsLeaveNothing: a thousand refused calls in each direction, and memory is back at its baseline (T9).
func TestRefusedCallsLeaveNothing(t *testing.T) {
	const limit = 1 << 16
	p := launchTest(t, "ok", func(c *LaunchConfig) { c.MaxMessage = limit })
	big := make([]byte, limit+1)
	ask, half := []byte(strconv.Itoa(limit+1)), []byte(strconv.Itoa(limit/2+1))
	round := func(n int) {
		for range n {
			p.maxMessage.Store(limit)
			_, err := callBytes(context.Background(), p, "Len", big)
			checkLimit(t, "host refuses to send", false, notSent, err, true)
			p.maxMessage.Store(limit / 2)
			_, err = callBytes(context.Background(), p, "Blob", half)
			checkLimit(t, "host refuses to receive", false, notReceived, err, true)
			p.maxMessage.Store(math.MaxInt32)
			_, err = callBytes(context.Background(), p, "Len", big)
			checkLimit(t, "plugin refuses to receive", false, notReceived, err, true)
			_, err = callBytes(context.Background(), p, "Blob", ask)
			checkLimit(t, "plugin refuses to send", false, notSent, err, true)
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
