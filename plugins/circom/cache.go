package circom

import (
	"container/list"
	"context"
	"sync"

	"github.com/weir-zk/weir/sdk/errs"
)

// cache keeps parsed circuits and compiled programs by the identity of their file, across sessions. Entries in use are pinned; of the others
// the longest unused go when the sum of all is above the limit. Two sessions that want the same entry at once share one load.
type cache struct {
	limit int64

	mu      sync.Mutex
	entries map[string]*entry
	idle    *list.List // of *entry, longest unused first
	used    int64      // bytes of loaded entries
}

type entry struct {
	c     *cache
	key   string
	ready chan struct{} // closed when value or err is there
	value any
	size  int64
	drop  func() // may be nil
	err   error
	refs  int
	at    *list.Element // in idle
}

func newCache(limit int64) *cache {
	return &cache{limit: limit, entries: map[string]*entry{}, idle: list.New()}
}

// loaded is what a loader returns: a value, the bytes that it keeps in memory, and how to let go of it.
type loaded struct {
	value any
	size  int64
	drop  func()
}

// get returns the entry of key, loading it when nobody has; the caller releases it. A load that was canceled by another
// caller's context is begun again with this one's.
func (c *cache) get(ctx context.Context, key string, load func(ctx context.Context) (loaded, error)) (*entry, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, errs.Wrap(err, "open")
		}
		c.mu.Lock()
		e, ok := c.entries[key]
		if ok {
			e.refs++
			if e.at != nil {
				c.idle.Remove(e.at)
				e.at = nil
			}
			c.mu.Unlock()
			select {
			case <-e.ready:
			case <-ctx.Done():
				e.release()
				return nil, errs.Wrap(ctx.Err(), "open")
			}
			if e.err == nil {
				return e, nil
			}
			err := e.err
			e.release()
			if errs.Is(err, errs.Canceled) || errs.Is(err, errs.Deadline) {
				continue
			}
			return nil, err
		}
		e = &entry{c: c, key: key, ready: make(chan struct{}), refs: 1}
		c.entries[key] = e
		c.mu.Unlock()
		c.fill(ctx, e, load)
		if e.err != nil {
			err := e.err
			e.release()
			return nil, err
		}
		return e, nil
	}
}

// fill runs the loader; whatever it does, waiting callers get an answer.
func (c *cache) fill(ctx context.Context, e *entry, load func(ctx context.Context) (loaded, error)) {
	var v loaded
	err := error(errs.New(errs.Internal, "open", "panic while loading"))
	defer func() {
		c.mu.Lock()
		if e.err = err; err != nil {
			delete(c.entries, e.key) // the next caller tries again
		} else {
			e.value, e.size, e.drop = v.value, v.size, v.drop
			c.used += v.size
		}
		gone := c.evict()
		c.mu.Unlock()
		close(e.ready)
		dropAll(gone)
	}()
	v, err = load(ctx)
}

// release ends one use of the entry.
func (e *entry) release() {
	c := e.c
	c.mu.Lock()
	e.refs--
	if e.refs == 0 && e.err == nil {
		e.at = c.idle.PushBack(e)
	}
	gone := c.evict()
	c.mu.Unlock()
	dropAll(gone)
}

// evict takes idle entries out until the rest fits. c.mu is held; the caller drops what it returns.
func (c *cache) evict() (gone []*entry) {
	for c.used > c.limit && c.idle.Len() > 0 {
		e := c.idle.Remove(c.idle.Front()).(*entry)
		e.at = nil
		delete(c.entries, e.key)
		c.used -= e.size
		gone = append(gone, e)
	}
	return gone
}

func dropAll(list []*entry) {
	for _, e := range list {
		if e.drop != nil {
			e.drop()
		}
	}
}

// bytes is what all loaded entries keep in memory, in use or not.
func (c *cache) bytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used
}
