package slab

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/weir-zk/weir/sdk/errs"
)

// DefaultDeadline is how long one exchange over a Channel may take.
const DefaultDeadline = 5 * time.Second

// Channel is the host's end of a hand-over socket. Methods are safe for concurrent use; exchanges run one at a time. A
// transport or protocol failure breaks the channel for good: every later call returns the same errs.BackendGone. A
// plugin's refusal (errs.InvalidArgument, NotFound, Exhausted, Unsupported) does not.
type Channel struct {
	conn     *net.UnixConn
	deadline time.Duration

	mu  sync.Mutex // an exchange
	seq uint64

	state   sync.Mutex // the fields below, never held over an exchange
	held    map[Handle]struct{}
	broken  error
	closers []func()
}

// Connect takes over f, the host's end of the socket, and greets the plugin. info travels both ways for the layer
// above and is at most 4,096 bytes. deadline bounds every exchange, this one too (DefaultDeadline when 0).
func Connect(f *os.File, info []byte, deadline time.Duration) (*Channel, []byte, error) {
	conn, err := unixConn(f)
	if err != nil {
		return nil, nil, err
	}
	if deadline <= 0 {
		deadline = DefaultDeadline
	}
	c := &Channel{conn: conn, deadline: deadline, held: map[Handle]struct{}{}}
	answer, err := c.exchange(frame{typ: frameHello, info: info}, nil, frameHelloAck)
	if err != nil {
		_ = c.Close()
		return nil, nil, err
	}
	return c, answer.info, nil
}

// Send hands over file as h and returns when the plugin has confirmed. size is the slab's or file's size; the plugin
// checks it. A handle that was sent before is not sent again. file stays the caller's.
func (c *Channel) Send(h Handle, kind Kind, size int64, file *os.File) error {
	if h == 0 || size < 0 || file == nil || (kind != KindSlab && kind != KindFile) {
		return errs.New(errs.InvalidArgument, "hand over", "handle %d, %v of %d bytes, file present: %t", h, kind, size, file != nil)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Holds(h) {
		return nil
	}
	if _, err := c.exchangeLocked(frame{typ: frameSend, kind: kind, handle: h, size: size}, file, frameAck); err != nil {
		return err
	}
	c.state.Lock()
	c.held[h] = struct{}{}
	c.state.Unlock()
	return nil
}

// Release makes the plugin unmap or close h and returns when it has. A handle the plugin does not hold is no error.
func (c *Channel) Release(h Handle) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.Holds(h) {
		return nil
	}
	if _, err := c.exchangeLocked(frame{typ: frameRelease, handle: h}, nil, frameAck); err != nil {
		return err
	}
	c.state.Lock()
	delete(c.held, h)
	c.state.Unlock()
	return nil
}

// SetDeadline changes how long each later exchange may take (DefaultDeadline when 0).
func (c *Channel) SetDeadline(d time.Duration) {
	if d <= 0 {
		d = DefaultDeadline
	}
	c.mu.Lock()
	c.deadline = d
	c.mu.Unlock()
}

// Holds reports whether the plugin has h.
func (c *Channel) Holds(h Handle) bool {
	c.state.Lock()
	defer c.state.Unlock()
	_, ok := c.held[h]
	return ok
}

// Err is the failure that broke the channel, or nil.
func (c *Channel) Err() error {
	c.state.Lock()
	defer c.state.Unlock()
	return c.broken
}

// Close ends the channel. The plugin keeps what it has until it exits.
func (c *Channel) Close() error {
	// Retryable: the host closes it when the process has died, and a hand-over under way ends with this error.
	c.fail(&errs.Error{Class: errs.BackendGone, Op: "hand over", Found: "channel is closed", Retryable: true})
	return nil
}

func (c *Channel) onClose(f func()) {
	c.state.Lock()
	broken := c.broken != nil
	if !broken {
		c.closers = append(c.closers, f)
	}
	c.state.Unlock()
	if broken {
		f()
	}
}

// fail breaks the channel; the first reason stays.
func (c *Channel) fail(err error) error {
	c.state.Lock()
	first := c.broken == nil
	if first {
		c.broken = err
		clear(c.held)
	}
	err = c.broken
	closers := c.closers
	c.closers = nil
	c.state.Unlock()
	if first {
		_ = c.conn.Close()
		for _, f := range closers {
			f()
		}
	}
	return err
}

func (c *Channel) exchange(f frame, file *os.File, want frameType) (frame, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.exchangeLocked(f, file, want)
}

func (c *Channel) exchangeLocked(f frame, file *os.File, want frameType) (frame, error) {
	if err := c.Err(); err != nil {
		return frame{}, err
	}
	if len(f.info) > maxInfo {
		return frame{}, errs.New(errs.InvalidArgument, "hand over", "%d bytes of info, at most %d", len(f.info), maxInfo)
	}
	c.seq++
	f.seq = c.seq
	gone := func(err error) error {
		e := &errs.Error{Class: errs.BackendGone, Op: "hand over", Where: fmt.Sprintf("handle %d", f.handle), Retryable: true, Err: err}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			e.Err, e.Found = nil, fmt.Sprintf("no answer from the plugin within %v", c.deadline)
		}
		return c.fail(e)
	}
	if err := c.conn.SetDeadline(time.Now().Add(c.deadline)); err != nil {
		return frame{}, gone(err)
	}
	if err := writeFrame(c.conn, f, file); err != nil {
		return frame{}, gone(err)
	}
	answer, extra, err := readFrame(c.conn)
	if extra != nil { // only a frame of type send may carry one, which is no answer
		_ = extra.Close()
	}
	switch {
	case err != nil:
		return frame{}, gone(err)
	case answer.typ != want || answer.seq != f.seq || answer.handle != f.handle:
		return frame{}, gone(malformed("answer of type %d, sequence %d, handle %d to a request of sequence %d, handle %d",
			answer.typ, answer.seq, answer.handle, f.seq, f.handle))
	case answer.code != codeOK:
		return frame{}, refusal(f, answer)
	}
	return answer, nil
}

func refusal(f, answer frame) error {
	class := errs.InvalidArgument
	switch answer.code {
	case codeUnknown:
		class = errs.NotFound
	case codeLimit:
		class = errs.Exhausted
	case codeUnsupported:
		class = errs.Unsupported
	}
	return &errs.Error{Class: class, Op: "hand over", Where: fmt.Sprintf("handle %d", f.handle), Found: fmt.Sprintf("refused by the plugin: %.1000q", answer.info)}
}
