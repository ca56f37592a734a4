package host

import (
	"context"
	"testing"
	"testing/synctest"
)

func TestProveManyPartitions(t *testing.T) {
	w := newWorld(t)
	key := w.key("k", 4, 10, 3)
	synctest.Test(t, func(t *testing.T) {
		s, p := w.synth(), w.prover("a", 1)
		e, seen := w.start(Config{}, s, p)
		r, err := e.Prove(context.Background(), w.job("", key, 1, 2, 3, 4, 5))
		if err != nil {
			t.Fatal(err)
		}
		w.right(key, r, 1, 2, 3, 4, 5)
		for i, rep := range r.Partitions {
			if rep.Partition != i || rep.Attempts != 1 || rep.Synthesis != w.synthTime || rep.Consume != w.proveTime/2 || rep.OnDevice != w.proveTime/2 || rep.Finish != w.finishTime {
				t.Errorf("report %+v", rep)
			}
		}
		if seen.most.Provers != 2 {
			t.Errorf("at most %d sets of evaluations with two permits", seen.most.Provers)
		}
		if p.loads != 1 {
			t.Errorf("the key was loaded %d times", p.loads)
		}
		t.Log(r.Peak)
		w.finish(e, s)
	})
}
