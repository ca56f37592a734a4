package slab

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"github.com/weir-zk/weir/sdk/errs"
)

// maxHandles bounds what a host can make a plugin hold.
const maxHandles = 1 << 16

// Mapper is the plugin's end of a hand-over socket: it takes descriptors, maps slabs when they are first used, and
// keeps both until the host releases them. All methods are safe for concurrent use.
type Mapper struct {
	conn *net.UnixConn
	info []byte

	mu      sync.RWMutex
	entries map[Handle]*entry
}

type entry struct {
	kind Kind
	size int64

	mu   sync.Mutex
	gone bool
	file *os.File // of a slab: nil once it is mapped
	data []byte
}

var _ Resolver = (*Mapper)(nil)

// NewMapper takes over f, the socket that the plugin inherited. info answers the host's greeting, at most 4,096 bytes.
// The caller then runs Serve.
func NewMapper(f *os.File, info []byte) (*Mapper, error) {
	if len(info) > maxInfo {
		_ = f.Close()
		return nil, errs.New(errs.InvalidArgument, "open hand-over socket", "%d bytes of info, at most %d", len(info), maxInfo)
	}
	conn, err := unixConn(f)
	if err != nil {
		return nil, err
	}
	return &Mapper{conn: conn, info: info, entries: map[Handle]*entry{}}, nil
}

// Serve answers the host until it closes its end (nil), the Mapper is closed (nil), or the connection fails.
func (m *Mapper) Serve() error {
	defer func() { _ = m.conn.Close() }()
	for greeted := false; ; greeted = true {
		f, file, err := readFrame(m.conn)
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
				return nil
			}
			return errs.Wrap(err, "serve hand-over socket")
		}
		answer := frame{typ: frameAck, seq: f.seq, handle: f.handle}
		switch {
		case !greeted:
			if file != nil {
				_ = file.Close()
			}
			if f.typ != frameHello {
				return malformed("message of type %d in place of the greeting", f.typ)
			}
			answer.typ, answer.info = frameHelloAck, m.info
		case f.typ == frameSend:
			if err = m.take(f, file); err != nil {
				_ = file.Close()
			}
		case f.typ == frameRelease:
			err = m.release(f.handle)
		default:
			return malformed("message of type %d from the host", f.typ)
		}
		if err != nil {
			answer.code, answer.info = codeOf(err), []byte(fmt.Sprintf("%.1000s", err.Error()))
		}
		if err := writeFrame(m.conn, answer, nil); err != nil {
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			return &errs.Error{Class: errs.BackendGone, Op: "answer hand-over", Err: err}
		}
	}
}

func codeOf(err error) uint32 {
	switch errs.ClassOf(err) {
	case errs.NotFound:
		return codeUnknown
	case errs.Exhausted:
		return codeLimit
	case errs.Unsupported:
		return codeUnsupported
	}
	return codeInvalid
}

func (m *Mapper) take(f frame, file *os.File) error {
	const op = "take"
	st, err := file.Stat()
	switch {
	case err != nil:
		return &errs.Error{Class: errs.InvalidArgument, Op: op, Err: err}
	case !st.Mode().IsRegular():
		return errs.Mismatch(errs.InvalidArgument, op, "", "a regular file or memfd", st.Mode().Type())
	case f.handle == 0:
		return errs.New(errs.InvalidArgument, op, "handle 0")
	case st.Size() != f.size:
		return errs.Mismatch(errs.InvalidArgument, op, "", fmt.Sprintf("%d bytes as announced", f.size), st.Size())
	}
	switch f.kind {
	case KindSlab:
		switch {
		case raceEnabled:
			return errs.New(errs.Unsupported, op, "this build has the race detector on, which knows no shared memory")
		case f.size == 0 || f.size != RoundSize(f.size) || f.size > maxSlab:
			return errs.Mismatch(errs.InvalidArgument, op, "", "the size of a slab", f.size)
		}
		if err := checkShared(file); err != nil {
			return err
		}
	case KindFile:
	default:
		return errs.New(errs.InvalidArgument, op, "%v", f.kind)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.entries[f.handle]; ok {
		return errs.New(errs.InvalidArgument, op, "handle %d is held already", f.handle)
	}
	if len(m.entries) >= maxHandles {
		return errs.New(errs.Exhausted, op, "%d handles are held, the most there can be", len(m.entries))
	}
	m.entries[f.handle] = &entry{kind: f.kind, size: f.size, file: file}
	return nil
}

func (m *Mapper) release(h Handle) error {
	m.mu.Lock()
	e, ok := m.entries[h]
	delete(m.entries, h)
	m.mu.Unlock()
	if !ok {
		return errs.New(errs.NotFound, "release", "handle %d is not held", h)
	}
	return e.close()
}

func (e *entry) close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.gone = true
	err := unmap(e.data)
	if e.file != nil {
		err = errors.Join(err, e.file.Close())
	}
	e.data, e.file = nil, nil
	return err
}

func (m *Mapper) find(h Handle, kind Kind) (*entry, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	e, ok := m.entries[h]
	if !ok {
		return nil, errs.New(errs.NotFound, "resolve handle", "%v %d was not handed over", kind, h)
	}
	if e.kind != kind {
		return nil, errs.Mismatch(errs.InvalidArgument, "resolve handle", fmt.Sprintf("handle %d", h), "a "+kind.String(), "a "+e.kind.String())
	}
	return e, nil
}

// Bytes implements Resolver. The first use of a slab maps it, whole and read-write.
func (m *Mapper) Bytes(r Ref) ([]byte, error) {
	e, err := m.find(r.Handle, KindSlab)
	if err != nil {
		return nil, err
	}
	if err := r.within(e.size); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.gone {
		return nil, errs.New(errs.NotFound, "resolve handle", "slab %d was released", r.Handle)
	}
	if e.data == nil {
		data, err := mapShared(e.file, e.size, true)
		if err != nil {
			return nil, err
		}
		e.data = data
		_ = e.file.Close() // the map keeps the memory
		e.file = nil
	}
	return e.data[r.Offset : r.Offset+r.Length : r.Offset+r.Length], nil
}

// File implements Resolver.
func (m *Mapper) File(h Handle) (FileView, error) {
	e, err := m.find(h, KindFile)
	if err != nil {
		return FileView{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.gone {
		return FileView{}, errs.New(errs.NotFound, "resolve handle", "file %d was released", h)
	}
	return FileView{file: e.file, size: e.size}, nil
}

// Handles is how many slabs and files are held.
func (m *Mapper) Handles() int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.entries)
}

// Close ends Serve, unmaps and closes everything. No slice from Bytes may be used afterwards.
func (m *Mapper) Close() error {
	_ = m.conn.Close()
	m.mu.Lock()
	entries := m.entries
	m.entries = map[Handle]*entry{}
	m.mu.Unlock()
	var all []error
	for _, e := range entries {
		all = append(all, e.close())
	}
	return errors.Join(all...)
}
