package eventclock

import (
	"bytes"
	"runtime"
	"runtime/metrics"
	"time"
)

// watcher finds out whether any goroutine but its own can do something.
type watcher struct {
	buf     []byte // of runtime.Stack
	text    []byte // the last answer
	samples []metrics.Sample
	outside map[string]bool // goroutines that were in a system call when the run began, by their number: none of the simulation's
}

func newWatcher() *watcher {
	w := &watcher{buf: make([]byte, 1<<16), outside: map[string]bool{}, samples: []metrics.Sample{
		{Name: "/sched/goroutines/runnable:goroutines"}, {Name: "/sched/goroutines/running:goroutines"}}}
	w.snapshot()
	each(w.text, func(id, state, _ []byte) bool {
		if string(state) == "syscall" {
			w.outside[string(id)] = true
		}
		return true
	})
	return w
}

// spins is how often the processor is offered to others before it is left alone for a while.
const spins = 50

// settle returns when nothing but the caller can do anything, or when done is closed.
func (w *watcher) settle(done <-chan struct{}) {
	pause := 20 * time.Microsecond
	for n := 0; ; n++ {
		runtime.Gosched()
		select {
		case <-done:
			return
		default:
		}
		if n >= spins { // real work is being done
			time.Sleep(pause)
			pause = min(2*pause, time.Millisecond)
		}
		if w.busy() {
			continue
		}
		if w.snapshot(); w.quiet() {
			return
		}
	}
}

// busy is the runtime's opinion, which is cheap and not exact: "not busy" is worth a look.
func (w *watcher) busy() bool {
	metrics.Read(w.samples)
	for i, most := range []uint64{0, 1} { // runnable; running: this one
		if v := w.samples[i].Value; v.Kind() == metrics.KindUint64 && v.Uint64() > most {
			return true
		}
	}
	return false
}

// grace is how long nothing must happen before it is called a deadlock.
const grace = time.Second

// stays reports that everybody still waits after the grace period.
func (w *watcher) stays(done <-chan struct{}) bool {
	select {
	case <-done:
		return false
	case <-time.After(grace):
	}
	w.snapshot()
	return w.quiet()
}

// snapshot asks the runtime, which stops the world for it.
func (w *watcher) snapshot() {
	for {
		if n := runtime.Stack(w.buf, true); n < len(w.buf) {
			w.text = w.buf[:n]
			return
		}
		w.buf = make([]byte, 2*len(w.buf))
	}
}

// quiet reports that every goroutine of the last snapshot but the first, which is the caller's, waits.
func (w *watcher) quiet() bool {
	first, quiet := true, true
	each(w.text, func(id, state, stack []byte) bool {
		quiet = first || waits(state) || string(state) == "syscall" && (w.outside[string(id)] || awaitsOutside(stack))
		first = false
		return quiet
	})
	return quiet
}

// waiting are the beginnings of the states in which a goroutine can be woken only by another one of the program; or from outside the simulation; or which only
// the runtime's own goroutines have (seen with GOTRACEBACK=system). Whatever is not here counts as work: running, runnable, syscall, semacquire and the
// waits for the garbage collector among them.
var waiting = []string{"chan receive", "chan send", "select", "sync.Cond.Wait", "sync.Mutex.Lock", "sync.RWMutex.", "sync.WaitGroup.Wait", "coroutine", "synctest.",
	"sleep", "IO wait",
	"finalizer wait", "cleanup wait", "force gc (idle)", "GC worker (idle)", "GC sweep wait", "GC scavenge wait", "GOMAXPROCS updater (idle)", "trace reader (blocked)"}

// awaitsOutside reports system calls that end only when somebody outside the process does something: a signal, the end of a child.
func awaitsOutside(stack []byte) bool {
	return bytes.HasPrefix(stack, []byte("os/signal.")) || bytes.Contains(stack, []byte("\nos.(*Process).Wait("))
}

func waits(state []byte) bool {
	for _, s := range waiting {
		if bytes.HasPrefix(state, []byte(s)) {
			return true
		}
	}
	return false
}

// each calls f with the number, the state and the stack of every goroutine in a text of runtime.Stack, until it returns false. A goroutine begins with a
// line "goroutine 7 [chan receive, 2 minutes]:" and ends before an empty line.
func each(text []byte, f func(id, state, stack []byte) bool) {
	for len(text) > 0 {
		one, rest, _ := bytes.Cut(text, []byte("\n\n"))
		text = rest
		head, stack, _ := bytes.Cut(one, []byte("\n"))
		head, ok := bytes.CutPrefix(head, []byte("goroutine "))
		if !ok {
			continue
		}
		id, head, _ := bytes.Cut(head, []byte(" "))
		_, head, _ = bytes.Cut(head, []byte("["))
		state := head
		if i := bytes.IndexAny(head, ",]"); i >= 0 {
			state = head[:i]
		}
		if !f(id, state, stack) {
			return
		}
	}
}

// dumpBytes bounds what an error says of the goroutines.
const dumpBytes = 16 << 10

// dump is the last snapshot, cut.
func (w *watcher) dump() []byte {
	if len(w.text) > dumpBytes {
		return append(w.text[:dumpBytes:dumpBytes], "\n..."...)
	}
	return w.text
}
