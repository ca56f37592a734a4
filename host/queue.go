package host

import (
	"context"
	"fmt"
	"sort"
	"sync"
	"time"

	"github.com/weir-zk/weir/host/ledger"
	"github.com/weir-zk/weir/sdk/errs"
)

// laneQueue is where synthesised partitions wait for a lane of their backend: most urgent first, then retries, then oldest. As in the ledger, each ageAfter of
// waiting raises a partition by one priority, up to High: it holds its permit and its evaluations meanwhile, and whoever is more urgent must not keep them there for
// ever. Its room is max(lookahead, permits): while whoever enters holds a permit, it is never full, and entering never blocks. Where permits are given back before
// (parks), those who find no room stand outside.
type laneQueue struct {
	room     int
	parks    bool
	clock    Clock
	ageAfter time.Duration // 0: never

	mu     sync.Mutex
	idle   []int // lanes, ascending
	inside int   // of those in line
	seq    uint64
	line   []*laneWaiter // inside or not, in the order of lanes
}

type laneWaiter struct {
	priority   ledger.Priority // at since
	since      time.Time
	level      ledger.Priority // when the line was last put in order
	front      bool
	order, seq uint64
	inside     bool
	room       chan struct{} // closed when it is inside
	ready      chan struct{} // closed when it has lane
	lane       int
}

func (w *laneWaiter) before(o *laneWaiter) bool {
	switch {
	case w.level != o.level:
		return w.level > o.level
	case w.front != o.front:
		return w.front
	case w.order != o.order:
		return w.order < o.order
	}
	return w.seq < o.seq
}

func newLaneQueue(lanes, room int, parks bool, clock Clock, ageAfter time.Duration) *laneQueue {
	q := &laneQueue{room: room, parks: parks, clock: clock, ageAfter: ageAfter}
	for i := range lanes {
		q.idle = append(q.idle, i)
	}
	return q
}

// enter puts a partition into the line. sent returns when it is inside the queue, wait when it has a lane; leave gives back what it has then. After an
// error of sent or wait it has left.
func (q *laneQueue) enter(p ledger.Priority, front bool, order uint64) (*laneWaiter, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.parks && len(q.line) >= q.room {
		return nil, errs.New(errs.Internal, "queue", "%d partitions wait where there is room for %d", len(q.line), q.room)
	}
	q.seq++
	w := &laneWaiter{priority: p, since: q.clock.Now(), front: front, order: order, seq: q.seq, lane: -1, room: make(chan struct{}), ready: make(chan struct{})}
	q.line = append(q.line, w)
	q.pump()
	return w, nil
}

// sort puts the line in order, as of now. q.mu is held.
func (q *laneQueue) sort() {
	now := q.clock.Now()
	for _, w := range q.line {
		w.level = w.priority
		if q.ageAfter > 0 && w.level < ledger.High {
			w.level += ledger.Priority(min(now.Sub(w.since)/q.ageAfter, time.Duration(ledger.High-w.level)))
		}
	}
	sort.Slice(q.line, func(i, j int) bool { return q.line[i].before(q.line[j]) })
}

// pump lets in whom there is room for, and gives free lanes to the first inside, until neither can be done. q.mu is held.
func (q *laneQueue) pump() {
	q.sort()
	for {
		for i := 0; i < len(q.line) && q.inside < q.room; i++ {
			if w := q.line[i]; !w.inside {
				w.inside = true
				q.inside++
				close(w.room)
			}
		}
		if len(q.idle) == 0 || q.inside == 0 {
			return
		}
		for i, w := range q.line {
			if w.inside {
				q.line = append(q.line[:i], q.line[i+1:]...)
				q.inside--
				w.lane, q.idle = q.idle[0], q.idle[1:]
				close(w.ready)
				break
			}
		}
	}
}

func (q *laneQueue) sent(ctx context.Context, w *laneWaiter) error { return q.await(ctx, w, w.room) }
func (q *laneQueue) wait(ctx context.Context, w *laneWaiter) error { return q.await(ctx, w, w.ready) }

func (q *laneQueue) await(ctx context.Context, w *laneWaiter, event chan struct{}) error {
	select {
	case <-event:
		return nil
	case <-ctx.Done():
		q.leave(w)
		return errs.Wrap(ctx.Err(), "wait for a lane")
	}
}

// leave takes w out of the line, or gives its lane back.
func (q *laneQueue) leave(w *laneWaiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.lane >= 0 {
		i := sort.SearchInts(q.idle, w.lane)
		if i < len(q.idle) && q.idle[i] == w.lane {
			panic(fmt.Sprintf("host: lane %d given back twice", w.lane))
		}
		q.idle = append(q.idle, 0)
		copy(q.idle[i+1:], q.idle[i:])
		q.idle[i] = w.lane
	}
	for i := range q.line {
		if q.line[i] == w {
			q.line = append(q.line[:i], q.line[i+1:]...)
			if w.inside {
				q.inside--
			}
			break
		}
	}
	q.pump()
}

func (q *laneQueue) waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.line)
}
