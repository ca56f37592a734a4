package ledger

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/weir-zk/weir/sdk/errs"
)

// TestAdmission runs the scripts in testdata/admission. Commands:
//
//	new budget=N permits=N [reserve=N] [reserve-permits=N] [idle=N] [age=D] [max-waiting=N]   an empty account; idle bytes of free slabs
//	device name budget=N [reserve=N]          an account of a device, or its new budget
//	resident name size=N [on=(device,N)]      a key
//	acquire id [prio=high] [order=N] [front] [permit] [need=N] [witness=N] [on=(device,N)] [use=(name,...)]
//	try id ...                                the same, without waiting
//	release id [what=evaluations] / permit id / close id / cancel id
//	crash id [lost=name]                      its backend died: only its witness is kept, and it asks for the rest again, before others of its priority
//	loading name / loaded name [actual=N]     a load began / the key is in memory
//	lost name                                 it is certainly not in memory
//	retire name / unloaded name [fails]       no use any more / the unload under way ends
//	tick D                                    time passes
//	snapshot                                  every entry, and the line
//	changes                                   what a hook was told since the last time
//
// Each prints what was decided, in order, and the account after it.
func TestAdmission(t *testing.T) {
	datadriven.Walk(t, "testdata/admission", func(t *testing.T, path string) {
		synctest.Test(t, func(t *testing.T) {
			s := &script{}
			defer s.end()
			datadriven.RunTest(t, path, s.run)
		})
	})
}

type script struct {
	l         *Ledger
	idle      int64
	mu        sync.Mutex
	decided   []string // by the ledger, in order
	said      []string // by others, in any order
	changes   []string
	grants    map[string]*Grant
	requests  map[string]Request
	cancels   map[string]context.CancelFunc
	residents map[string]*Resident
	unloads   map[string]chan error
	order     uint64
	stop      func()
}

func (s *script) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = append(s.said, fmt.Sprintf(format, args...))
}

func (s *script) fail(err error) {
	if err != nil {
		s.say("error: %v", err)
	}
}

// told is the hook.
func (s *script) told(c Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes = append(s.changes, c.String())
	switch c.Event {
	case Granted:
		text := c.Owner + ": granted"
		if c.Passed > 0 {
			text += fmt.Sprintf(", passing %d", c.Passed)
		}
		s.decided = append(s.decided, text)
	case Aged:
		s.decided = append(s.decided, fmt.Sprintf("%s: is now %v", c.Owner, c.Priority))
	case Unloading:
		s.decided = append(s.decided, "unload "+c.Owner)
	case Unloaded:
		s.decided = append(s.decided, c.Owner+" is unloaded")
	}
}

func (s *script) end() {
	if s.l == nil {
		return
	}
	for _, c := range s.cancels {
		c()
	}
	for _, c := range s.unloads {
		close(c)
	}
	synctest.Wait()
	s.stop()
}

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	num := func(key string, def int64) int64 {
		if d.HasArg(key) {
			d.ScanArgs(t, key, &def)
		}
		return def
	}
	word := func(key, def string) string {
		if d.HasArg(key) {
			d.ScanArgs(t, key, &def)
		}
		return def
	}
	duration := func(text string) time.Duration {
		v, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	// on is device memory: on=(name,bytes).
	on := func() (out []Part) {
		if d.HasArg("on") {
			var name string
			var p Part
			d.ScanArgs(t, "on", &name, &p.Bytes[Scratch])
			for _, a := range s.l.accounts {
				if a.name == name {
					p.Account = a
				}
			}
			out = append(out, p)
		}
		return out
	}
	id := ""
	if len(d.CmdArgs) > 0 {
		id = d.CmdArgs[0].Key
	}
	if slices.Contains([]string{"release", "permit", "close", "crash"}, d.Cmd) && s.grants[id] == nil {
		t.Fatalf("%s: %s %s: it holds nothing", d.Pos, d.Cmd, id)
	}
	switch d.Cmd {
	case "new":
		s.end()
		*s = script{idle: num("idle", 0), grants: map[string]*Grant{}, requests: map[string]Request{}, cancels: map[string]context.CancelFunc{}, residents: map[string]*Resident{},
			unloads: map[string]chan error{}}
		s.l = New(Options{Budget: num("budget", 0), Permits: int(num("permits", 1)), From: "the script", ReserveCritical: Reserve{Permits: int(num("reserve-permits", 0)), Bytes: num("reserve", 0)},
			MaxWaiting: int(num("max-waiting", 0)), AgeAfter: duration(word("age", "-1s")), Idle: func() int64 { return s.idle }, Trim: func(keep int64) {
				s.say("trim the pool from %d to %d", s.idle, max(keep, 0))
				s.idle = max(keep, 0)
			}})
		s.stop = s.l.Watch(s.told)
	case "device":
		s.l.Device(DeviceOptions{Name: id, Budget: num("budget", 0), From: "the script", Reserve: num("reserve", 0)})
	case "resident":
		gate := make(chan error, 1)
		s.unloads[id] = gate
		var devices []Amount
		for _, p := range on() {
			devices = append(devices, Amount{p.Account, p.Bytes.Total()})
		}
		s.residents[id] = s.l.NewResident(id, Key, num("size", 0), func() error { return <-gate }, devices...)
	case "acquire", "try":
		s.order++
		req := Request{Owner: id, Order: uint64(num("order", int64(s.order))), Front: d.HasArg("front"), Permit: d.HasArg("permit"), Devices: on()}
		req.Need[Evaluations], req.Need[Witness] = num("need", 0), num("witness", 0)
		req.Priority, _ = ParsePriority(word("prio", ""))
		for _, a := range d.CmdArgs {
			if a.Key == "use" {
				for _, n := range a.Vals {
					req.Residents = append(req.Residents, s.residents[n])
				}
			}
		}
		s.requests[id] = req
		if d.Cmd == "try" {
			if g, ok := s.l.TryAcquire(req); ok {
				s.grants[id] = g
			} else {
				s.say("%s: not granted", id)
			}
			break
		}
		s.acquire(id, req)
	case "cancel":
		s.cancels[id]()
	case "release":
		what := Purpose(slices.Index(purposeNames[:], word("what", "evaluations")))
		s.fail(s.grants[id].ReleaseAll(what))
	case "permit":
		s.fail(s.grants[id].ReleasePermit())
	case "close":
		s.fail(s.grants[id].Close())
	case "crash":
		s.crash(id, s.residents[word("lost", "")])
	case "loaded":
		r := s.residents[id]
		s.say("%s: fits %t", id, r.SetLoaded(num("actual", r.Size())))
	case "retire":
		s.residents[id].Retire(func() { s.say("%s is gone", id) })
	case "loading":
		s.residents[id].SetLoading()
	case "lost":
		s.residents[id].SetUnloaded()
	case "unloaded":
		var err error
		if d.HasArg("fails") {
			err = errs.New(errs.Internal, "unload", "the script says so")
		}
		s.unloads[id] <- err
	case "tick":
		time.Sleep(duration(id))
	case "snapshot":
		return s.snapshot()
	case "changes":
		s.mu.Lock()
		defer s.mu.Unlock()
		out := strings.Join(s.changes, "\n") + "\n"
		s.changes = nil
		return out
	default:
		t.Fatalf("unknown command %s", d.Cmd)
	}
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.said) // who runs first after a decision is the scheduler's business
	out := append(s.decided, s.said...)
	s.decided, s.said = nil, nil
	st := s.l.Stats()
	out = append(out, fmt.Sprintf("%d of %d bytes, %d of %d permits, %d waiting, %d resident", st.Total, st.Budget, st.PermitsUsed, st.Permits, st.Waiting, st.Residents))
	for _, dev := range st.Devices {
		out = append(out, fmt.Sprintf("%d of %d bytes of %s", dev.Total, dev.Budget, dev.Name))
	}
	return strings.Join(out, "\n") + "\n"
}

func (s *script) acquire(id string, req Request) {
	ctx, cancel := context.WithCancel(context.Background())
	s.cancels[id] = cancel
	go func() {
		g, err := s.l.Acquire(ctx, req)
		if err != nil {
			s.say("%s: %v", id, err)
			if h := errs.HintOf(err); h != "" {
				s.say("%s: hint: %s", id, h)
			}
			return
		}
		s.mu.Lock()
		s.grants[id] = g
		s.mu.Unlock()
		s.l.TrimIdle()
	}()
}

// crash is what the host does when a backend dies under a partition.
func (s *script) crash(id string, lost *Resident) {
	s.mu.Lock()
	g := s.grants[id]
	s.mu.Unlock()
	if lost != nil {
		lost.SetUnloaded()
	}
	req := s.requests[id]
	req.Front = true
	s.fail(g.Move(Shell, Witness))
	more := req
	more.Need[Witness] = 0
	if ok, err := g.Exchange([]Purpose{Evaluations, Synthesis, Scratch}, more); ok {
		s.fail(err)
		return
	}
	s.mu.Lock()
	delete(s.grants, id)
	s.mu.Unlock()
	s.fail(g.Close())
	s.acquire(id, req)
}

func (s *script) snapshot() string {
	var out []string
	snap := s.l.Snapshot()
	for _, e := range snap.Entries {
		text := fmt.Sprintf("%s %v of %s: %d bytes", e.Account, e.Purpose, e.Owner, e.Bytes)
		if e.Users > 0 {
			text += fmt.Sprintf(", %d users", e.Users)
		}
		out = append(out, text)
	}
	if len(snap.Permits) > 0 {
		out = append(out, "permits of "+strings.Join(snap.Permits, ", "))
	}
	for i, w := range snap.Line {
		text := fmt.Sprintf("%d. %s, %v", i+1, w.Owner, w.Priority)
		if w.Level != w.Priority {
			text += fmt.Sprintf(", counts as %v", w.Level)
		}
		text += fmt.Sprintf(", since %v: %s", time.Since(w.Since), w.Need.String())
		for _, p := range w.Devices {
			text += fmt.Sprintf(", %s %s", p.Account.Name(), p.Bytes.String())
		}
		if w.Permit {
			text += ", a permit"
		}
		out = append(out, text)
	}
	if len(out) == 0 {
		out = append(out, "nothing")
	}
	return strings.Join(out, "\n") + "\n"
}
