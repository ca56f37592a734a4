package host

import (
	"context"
	"fmt"
	"sort"
	"sync"

	"github.com/weir-zk/weir/host/ledger"
	"github.com/weir-zk/weir/sdk/errs"
)

// laneQueue is where synthesised partitions wait for a lane of their backend: most urgent first, then retries, then oldest. Its room is
// max(lookahead, permits): whoever enters holds a permit, so it is never full, and entering never blocks.
type laneQueue struct {
	room int

	mu    sync.Mutex
	lanes int
	busy  int
	seq   uint64
	line  []*laneWaiter
}

type laneWaiter struct {
	priority   ledger.Priority
	front      bool
	order, seq uint64
	ready      chan struct{}
}

func (w *laneWaiter) before(o *laneWaiter) bool {
	switch {
	case w.priority != o.priority:
		return w.priority > o.priority
	case w.front != o.front:
		return w.front
	case w.order != o.order:
		return w.order < o.order
	}
	return w.seq < o.seq
}

func newLaneQueue(lanes, room int) *laneQueue { return &laneQueue{lanes: lanes, room: room} }

// enter puts a partition into the queue. wait returns when it has a lane, which free gives back.
func (q *laneQueue) enter(p ledger.Priority, front bool, order uint64) (*laneWaiter, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.line) >= q.room {
		return nil, errs.New(errs.Internal, "queue", "%d partitions wait where there is room for %d", len(q.line), q.room)
	}
	q.seq++
	w := &laneWaiter{priority: p, front: front, order: order, seq: q.seq, ready: make(chan struct{})}
	i := sort.Search(len(q.line), func(i int) bool { return w.before(q.line[i]) })
	q.line = append(q.line, nil)
	copy(q.line[i+1:], q.line[i:])
	q.line[i] = w
	q.pump()
	return w, nil
}

func (q *laneQueue) pump() {
	for q.busy < q.lanes && len(q.line) > 0 {
		q.busy++
		close(q.line[0].ready)
		q.line = q.line[1:]
	}
}

// wait returns with a lane taken, or with the error of ctx and none.
func (q *laneQueue) wait(ctx context.Context, w *laneWaiter) error {
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range q.line {
		if q.line[i] == w {
			q.line = append(q.line[:i], q.line[i+1:]...)
			return errs.Wrap(ctx.Err(), "wait for a lane")
		}
	}
	q.leave() // got it at the same time
	return errs.Wrap(ctx.Err(), "wait for a lane")
}

// free gives back the lane that wait returned with.
func (q *laneQueue) free() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.leave()
}

func (q *laneQueue) leave() {
	q.busy--
	if q.busy < 0 {
		panic(fmt.Sprintf("host: %d lanes busy", q.busy))
	}
	q.pump()
}

func (q *laneQueue) state() (waiting, busy int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.line), q.busy
}
