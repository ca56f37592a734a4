package host

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/weir-zk/weir/sdk/errs"
)

// T7. The log says at start, at level info, how much memory there is and by what limit; only where memory is real, that none was set.
func TestStartSaysTheBudget(t *testing.T) {
	for _, tc := range []struct {
		budget  int64
		virtual bool
		says    []string
		warns   bool
	}{
		{3 << 30, false, []string{"budget=3GiB", "budget_bytes=3221225472", `budget_from="from the configuration"`}, false},
		{0, false, []string{"budget_bytes=", `budget_from="`, "bytes"}, false},
		{NoBudget, false, []string{"budget=none"}, true},
		{NoBudget, true, []string{"budget=none"}, false},
	} {
		var out strings.Builder
		w := newWorld(t)
		d := w.deps()
		d.virtual = tc.virtual
		s := w.synth()
		e, err := newEngine(context.Background(), Config{MemoryBudget: tc.budget, Backends: []BackendConfig{w.prover("p", 1).config()}, Synthesizers: []SynthesizerConfig{s.config()},
			Logger: hclog.New(&hclog.LoggerOptions{Output: &out, Level: hclog.Info, DisableTime: true})}, d)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range append(tc.says, "[INFO]  engine started") {
			if !strings.Contains(out.String(), word) {
				t.Errorf("expected %q in %s", word, out.String())
			}
		}
		if got := strings.Contains(out.String(), "killed by the system"); got != tc.warns {
			t.Errorf("budget %d, virtual %t: %s", tc.budget, tc.virtual, out.String())
		}
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// Whatever MaxPartitions accepts finds room in the line, set-ups beside it; what is more is refused with the numbers.
func TestWhatIsAcceptedFindsRoomInTheLine(t *testing.T) {
	w := newWorld(t)
	key := w.key("k", 4, 10, 1)
	for i := range 21 {
		w.witness(i)
	}
	synctest.Test(t, func(t *testing.T) {
		s, p := w.synth(), w.prover("p", 1)
		e, _ := w.start(Config{MaxPartitions: 20, PartitionWorkers: 1, MemoryBudget: 8 << 10}, s, p)
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				if _, err := e.Prove(context.Background(), w.job(fmt.Sprint("j", i), key, 2*i, 2*i+1)); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(30 * time.Millisecond)
		if r := e.Report(); r.Waiting < 15 {
			t.Errorf("%d wait: the test is wrong", r.Waiting)
		}
		if _, err := e.Prove(context.Background(), w.job("", key, 20)); !errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), "at most 20 partitions") {
			t.Error(err)
		}
		wg.Wait()
		w.finish(e, s)
		if got := maxWaiting(&e.cfg); got < e.cfg.MaxPartitions*2 {
			t.Errorf("room for %d", got)
		}
	})
}
