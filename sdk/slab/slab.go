// Package slab moves large buffers between the host and its plugins without copying them.
//
// The host owns every buffer. A Pool cuts them from slabs: size-sealed memfd files on Linux, unlinked temporary files
// on darwin, plain Go memory in builds with the race detector (which sees nothing in mapped memory; such builds work
// in process only). A slab is mapped once by the host and once by each plugin that needs it, and is reused when its
// buffer is freed, because the first touch of fresh shared memory costs far more than any later one. Messages between
// host and plugin carry a Ref: which slab, where in it, how long.
//
// A plugin gets a slab's file descriptor once, over a unix socket pair that it inherited at its start (SCM_RIGHTS,
// unix(7)). The host's end of that socket is a Channel, the plugin's end a Mapper. Every hand-over is acknowledged, so
// that a later message that names the slab can never overtake its descriptor. Input files (keys, circuits, witnesses)
// travel the same way: the host opens them read-only, the plugin gets the descriptor and may map it.
//
// Host code in process and plugin code out of process read buffers through the same interface, Resolver.
package slab

import (
	"fmt"
	"io"
	"os"

	"github.com/weir-zk/weir/sdk/errs"
)

// Purpose says what a buffer is for: it decides what happens to its bytes when it is freed, and accounts are kept by it.
type Purpose uint8

const (
	// Evaluations are the vectors A·w, B·w, C·w of a partition.
	Evaluations Purpose = iota
	// Witness is an assignment, dense or compact. Secret: zeroed when freed.
	Witness
	// Payload is a request or part of one, too large for a message. Secret: zeroed when freed.
	Payload
	// Proof is a result too large for a message.
	Proof
	// Scratch is working memory of a backend. Secret: zeroed when freed.
	Scratch
	// Matrices are the constraint matrices of a circuit.
	Matrices
	// KeyData is key material that was converted in memory.
	KeyData

	numPurposes
)

var purposeNames = [numPurposes]string{"evaluations", "witness", "payload", "proof", "scratch", "matrices", "key"}

// String returns the purpose in one lower-case word.
func (p Purpose) String() string {
	if p < numPurposes {
		return purposeNames[p]
	}
	return fmt.Sprintf("purpose(%d)", uint8(p))
}

// Purposes lists all purposes in the order of their values.
func Purposes() []Purpose {
	all := make([]Purpose, numPurposes)
	for i := range all {
		all[i] = Purpose(i)
	}
	return all
}

// secret reports whether buffers of p are zeroed when they are freed. Evaluations follow from the witness too, but
// they are rewritten whole by their next user, who belongs to the same tenant, and zeroing them would cost as much as
// writing them.
func (p Purpose) secret() bool { return p == Witness || p == Payload || p == Scratch }

// Handle names a slab or a registered file. Handles are unique within the life of a host process, over all pools, and
// never reused. A slab keeps its handle while it serves one buffer after another. Zero is never a handle.
type Handle uint64

// Ref names bytes in a slab: Length bytes from Offset on. It is what messages carry.
type Ref struct {
	Handle         Handle
	Offset, Length int64
}

// Slice returns the part of r that begins at off (relative to r) and is n bytes long. It does not check the bounds of
// r: whoever resolves the result does.
func (r Ref) Slice(off, n int64) Ref { return Ref{Handle: r.Handle, Offset: r.Offset + off, Length: n} }

// String renders r for error messages.
func (r Ref) String() string {
	return fmt.Sprintf("slab %d [%d, +%d]", r.Handle, r.Offset, r.Length)
}

// Resolver turns what messages carry into memory and files. Both methods return typed errors for anything a peer may
// have got wrong and never panic: errs.NotFound for a handle that is not known (any more), errs.InvalidArgument for
// bounds outside the slab.
//
// The bytes stay valid until the host frees the buffer, which it does not do before the call that named it has
// ended. Nobody else may write them meanwhile, except as the call says.
type Resolver interface {
	Bytes(Ref) ([]byte, error)
	File(Handle) (FileView, error)
}

// within checks that r lies inside a slab of size bytes; no sum here can overflow.
func (r Ref) within(size int64) error {
	if r.Offset < 0 || r.Length < 0 || r.Offset > size || r.Length > size-r.Offset {
		return errs.Mismatch(errs.InvalidArgument, "resolve buffer", fmt.Sprintf("slab %d", r.Handle),
			fmt.Sprintf("a range inside %d bytes", size), fmt.Sprintf("offset %d, length %d", r.Offset, r.Length))
	}
	return nil
}

// FileView is an input file that the host opened. It is closed when the host releases it, not by its user.
type FileView struct {
	file *os.File
	size int64
}

var _ io.ReaderAt = FileView{}

// Size is the file's size in bytes when the host registered it.
func (v FileView) Size() int64 { return v.size }

// Name is the path as the host opened it; on the plugin side only a name for messages.
func (v FileView) Name() string {
	if v.file == nil {
		return ""
	}
	return v.file.Name()
}

// OSFile is the open file, for code that needs a descriptor. Its offset is shared with the host: use ReadAt.
func (v FileView) OSFile() *os.File { return v.file }

// ReadAt implements io.ReaderAt and is safe for concurrent use.
func (v FileView) ReadAt(p []byte, off int64) (int, error) {
	if v.file == nil {
		return 0, errs.New(errs.InvalidArgument, "read file", "empty view")
	}
	return v.file.ReadAt(p, off)
}

// Map maps n bytes from off on, read-only. A file that shrinks while it is mapped kills the process that touches the
// lost pages (SIGBUS), whatever that process does about it; so the host never maps input files, only plugins do.
func (v FileView) Map(off, n int64) (*Mapping, error) {
	if v.file == nil {
		return nil, errs.New(errs.InvalidArgument, "map file", "empty view")
	}
	if off < 0 || n < 0 || off > v.size || n > v.size-off {
		return nil, errs.Mismatch(errs.InvalidArgument, "map file", "", fmt.Sprintf("a range inside %d bytes", v.size),
			fmt.Sprintf("offset %d, length %d", off, n)).WithPath(v.file.Name())
	}
	// The size at registration is what readers checked their counts against; the file itself may have changed since.
	st, err := v.file.Stat()
	if err != nil {
		return nil, &errs.Error{Class: errs.InvalidFile, Op: "map file", Path: v.file.Name(), Err: err}
	}
	if st.Size() < off+n {
		return nil, errs.Mismatch(errs.InvalidFile, "map file", "", fmt.Sprintf("%d bytes", v.size), fmt.Sprintf("%d bytes", st.Size())).
			WithPath(v.file.Name()).WithHint("the file changed while it was in use; import or copy it again")
	}
	return mapFile(v.file, off, n)
}
