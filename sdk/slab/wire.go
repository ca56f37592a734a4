package slab

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/weir-zk/weir/sdk/errs"
)

// The hand-over protocol runs over a connected unix stream socket. The host asks, the plugin answers, one exchange at
// a time:
//
//	hello   -> helloAck   once, first; info is free text for the layer above
//	send    -> ack        one descriptor travels with the frame (SCM_RIGHTS)
//	release -> ack
//
// A frame is a header of 48 bytes, little-endian, and info of at most 4,096 bytes:
//
//	 0 u32 magic "wslb"   4 u16 version      6 u8 type   7 u8 kind
//	 8 u64 sequence      16 u64 handle      24 i64 size
//	32 u32 code          36 u32 info length 40 u64 zero
//
// An answer repeats sequence and handle. Its code is 0, or a refusal with a text as info; a refusal leaves both sides
// in step. Anything else that is not as written here ends the connection: either side may be buggy or hostile.
const (
	protocolVersion = 1
	headerSize      = 48
	maxInfo         = 4096
)

var magic = [4]byte{'w', 's', 'l', 'b'}

type frameType uint8

const (
	frameHello frameType = iota + 1
	frameHelloAck
	frameSend
	frameRelease
	frameAck
)

// Kind says what a handed-over descriptor is.
type Kind uint8

const (
	// KindSlab is shared memory, mapped read-write.
	KindSlab Kind = iota + 1
	// KindFile is an input file, opened read-only.
	KindFile
)

// String names the kind.
func (k Kind) String() string {
	switch k {
	case KindSlab:
		return "slab"
	case KindFile:
		return "file"
	}
	return "kind " + strconv.Itoa(int(k))
}

// refusal codes of answers
const (
	codeOK uint32 = iota
	codeInvalid
	codeUnknown
	codeLimit
	codeUnsupported
)

type frame struct {
	version uint16
	typ     frameType
	kind    Kind
	seq     uint64
	handle  Handle
	size    int64
	code    uint32
	info    []byte
}

func (f *frame) encode() []byte {
	b := make([]byte, headerSize, headerSize+len(f.info))
	copy(b, magic[:])
	binary.LittleEndian.PutUint16(b[4:], f.version)
	b[6], b[7] = byte(f.typ), byte(f.kind)
	binary.LittleEndian.PutUint64(b[8:], f.seq)
	binary.LittleEndian.PutUint64(b[16:], uint64(f.handle))
	binary.LittleEndian.PutUint64(b[24:], uint64(f.size))
	binary.LittleEndian.PutUint32(b[32:], f.code)
	binary.LittleEndian.PutUint32(b[36:], uint32(len(f.info)))
	return append(b, f.info...)
}

func malformed(format string, args ...any) error {
	return errs.New(errs.InvalidArgument, "read hand-over message", format, args...)
}

// decodeHeader checks everything in a header that can be checked alone. It returns the length of info.
func decodeHeader(b *[headerSize]byte) (frame, int, error) {
	var f frame
	if [4]byte(b[:4]) != magic {
		return f, 0, malformed("not a hand-over message: it begins with %q", b[:4])
	}
	f.version = binary.LittleEndian.Uint16(b[4:])
	f.typ, f.kind = frameType(b[6]), Kind(b[7])
	f.seq = binary.LittleEndian.Uint64(b[8:])
	f.handle = Handle(binary.LittleEndian.Uint64(b[16:]))
	f.size = int64(binary.LittleEndian.Uint64(b[24:]))
	f.code = binary.LittleEndian.Uint32(b[32:])
	info := binary.LittleEndian.Uint32(b[36:])
	if f.version != protocolVersion {
		return f, 0, errs.Mismatch(errs.Unsupported, "read hand-over message", "protocol version", protocolVersion, f.version).
			WithHint("host and plugin were built from versions of weir too far apart")
	}
	switch {
	case f.typ < frameHello || f.typ > frameAck:
		return f, 0, malformed("message type %d", f.typ)
	case info > maxInfo:
		return f, 0, malformed("%d bytes of info, at most %d", info, maxInfo)
	case binary.LittleEndian.Uint64(b[40:]) != 0:
		return f, 0, malformed("reserved bytes are not zero")
	case f.size < 0:
		return f, 0, malformed("size %d", f.size)
	}
	return f, int(info), nil
}

// writeFrame sends f with file's descriptor, when there is one.
func writeFrame(c *net.UnixConn, f frame, file *os.File) error {
	f.version = protocolVersion
	b := f.encode()
	var n int
	var err error
	if file == nil {
		n, _, err = c.WriteMsgUnix(b, nil, nil)
	} else {
		err = withDescriptor(file, func(fd int) (err error) {
			n, _, err = c.WriteMsgUnix(b, unix.UnixRights(fd), nil)
			return err
		})
	}
	if err == nil && n < len(b) { // the descriptor went with the first part
		_, err = c.Write(b[n:])
	}
	return err
}

// readFrame reads one message. The file is nil unless exactly one descriptor came with it; it is the caller's then.
func readFrame(c *net.UnixConn) (f frame, file *os.File, err error) {
	var files []int
	defer func() {
		if err != nil || len(files) == 0 {
			for _, fd := range files {
				_ = unix.Close(fd)
			}
			return
		}
		file = os.NewFile(uintptr(files[0]), "handed-over-"+strconv.FormatUint(uint64(f.handle), 10))
	}()
	var header [headerSize]byte
	// Room for more descriptors than the one allowed, so that a wrong number is seen as such.
	oob := make([]byte, unix.CmsgSpace(4*8))
	for got := 0; got < headerSize; {
		n, oobn, flags, _, rerr := c.ReadMsgUnix(header[got:], oob)
		fds, perr := parseRights(oob[:oobn])
		files = append(files, fds...)
		switch {
		case perr != nil:
			return f, nil, perr
		case flags&unix.MSG_CTRUNC != 0:
			return f, nil, malformed("too many descriptors")
		case rerr != nil:
			if errors.Is(rerr, io.EOF) && got > 0 {
				rerr = io.ErrUnexpectedEOF
			}
			return f, nil, rerr
		case n == 0:
			return f, nil, io.EOF
		}
		got += n
	}
	f, info, err := decodeHeader(&header)
	if err != nil {
		return f, nil, err
	}
	if len(files) > 1 {
		return f, nil, malformed("%d descriptors in one message", len(files))
	}
	if (len(files) == 1) != (f.typ == frameSend) {
		return f, nil, malformed("%d descriptors in a message of type %d", len(files), f.typ)
	}
	if info > 0 {
		f.info = make([]byte, info)
		if _, err := io.ReadFull(c, f.info); errors.Is(err, io.EOF) {
			return f, nil, io.ErrUnexpectedEOF
		} else if err != nil {
			return f, nil, err
		}
	}
	return f, nil, nil
}

func parseRights(oob []byte) (fds []int, err error) {
	if len(oob) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, malformed("control message: %v", err)
	}
	for i := range messages {
		got, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return fds, malformed("control message: %v", err)
		}
		fds = append(fds, got...)
	}
	return fds, nil
}

// NewSocketPair makes the two ends of a hand-over socket, both closed on exec: the first for Connect, the second for a
// child process (exec.Cmd.ExtraFiles) that calls NewMapper.
func NewSocketPair() (host, plugin *os.File, err error) {
	fds, err := socketPair()
	if err != nil {
		return nil, nil, &errs.Error{Class: errs.Exhausted, Op: "make socket pair", Err: err}
	}
	return os.NewFile(uintptr(fds[0]), "hand-over-host"), os.NewFile(uintptr(fds[1]), "hand-over-plugin"), nil
}

// unixConn takes f over.
func unixConn(f *os.File) (*net.UnixConn, error) {
	defer func() { _ = f.Close() }()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, &errs.Error{Class: errs.InvalidArgument, Op: "open hand-over socket", Err: err}
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		_ = c.Close()
		return nil, errs.Mismatch(errs.InvalidArgument, "open hand-over socket", "", "a unix socket", fmt.Sprintf("%T", c))
	}
	return u, nil
}
