package host

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-zk/weir/sdk/errs"
)

// The only caller leaves at the moment at which its job succeeds. It gets no proof; whoever asks again with the same id gets the one that was made.
func TestLastCallerLeavesAsTheJobSucceeds(t *testing.T) {
	w := newWorld(t)
	key := w.key("k", 4, 10, 1)
	for _, keep := range []int{64, -1} {
		synctest.Test(t, func(t *testing.T) {
			s, p := w.synth(), w.prover("a", 1)
			e, _ := w.start(Config{KeepResults: keep}, s, p)
			ctx, cancel := context.WithCancel(context.Background())
			e.cfg.Listener = TeeListener(e.cfg.Listener, &Listener{Job: func(i JobInfo) {
				if i.State == "done" {
					cancel()
					time.Sleep(10 * time.Millisecond)
				}
			}})
			if r, err := e.Prove(ctx, w.job("j", key, 1)); r != nil || !errs.Is(err, errs.Canceled) {
				t.Errorf("a canceled job was answered with %v, %v", r, err)
			}
			again, stop := context.WithTimeout(context.Background(), 2*time.Second)
			defer stop()
			r, err := e.Prove(again, w.job("j", key, 1))
			if err != nil {
				t.Fatalf("the same job again: %v", err)
			}
			w.right(key, r, 1)
			if want := map[int]int{64: 1, -1: 2}[keep]; p.proofs != want {
				t.Errorf("%d proofs were made, want %d", p.proofs, want)
			}
			if k := e.kept["j"]; keep > 0 && (k == nil || k.session != nil || k.key != nil || k.in != nil || k.front != nil || k.candidates != nil) {
				t.Errorf("a kept job holds on to its work: %+v", k)
			}
			w.finish(e, s)
		})
	}
}
