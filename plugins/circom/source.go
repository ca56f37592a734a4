package circom

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/keyfile"
	"github.com/weir-zk/weir/sdk/slab"
)

// source is one input: a file of the host or a payload in a slab.
type source struct {
	io.ReaderAt
	size      int64
	name      string
	role      string
	partition int
	file      slab.FileView // zero for a payload
	kind      keyfile.Kind
}

func (s *synthesizer) source(in contract.Input) (*source, error) {
	src := &source{size: in.Size, name: in.Name, role: in.Role, partition: in.Partition}
	v, err := s.resolver.File(in.Handle)
	switch {
	case err == nil:
		src.ReaderAt, src.file, src.size = v, v, v.Size()
	case errs.Is(err, errs.NotFound):
		b, berr := s.resolver.Bytes(slab.Ref{Handle: in.Handle, Length: in.Size})
		if berr != nil {
			return nil, errs.InFile(berr, in.Name)
		}
		src.ReaderAt = bytes.NewReader(b)
	default:
		return nil, errs.InFile(err, in.Name)
	}
	if src.kind, err = keyfile.Sniff(src, src.size); err != nil {
		return nil, errs.InFile(err, in.Name)
	}
	return src, nil
}

// reader reads the whole source once.
func (s *source) reader() io.Reader { return io.NewSectionReader(s, 0, s.size) }

// fresh is how long after its last change a file's times are not trusted to tell a further change: file systems stamp with the tick of a clock.
const fresh = 2 * time.Second

// identity names the content: by device, inode, size and times of a file that has rested, else by its hash.
func (s *source) identity(ctx context.Context) (string, error) {
	if f := s.file.OSFile(); f != nil {
		var st unix.Stat_t
		if err := unix.Fstat(int(f.Fd()), &st); err != nil {
			return "", &errs.Error{Class: errs.InvalidFile, Op: "open", Path: s.name, Err: err}
		}
		if st.Size != s.size {
			return "", errs.Mismatch(errs.InvalidFile, "open", "size", s.size, st.Size).WithPath(s.name).WithHint("the file changed while it was in use")
		}
		changed := time.Unix(st.Ctim.Unix())
		if m := time.Unix(st.Mtim.Unix()); m.After(changed) {
			changed = m
		}
		if age := time.Since(changed); age > fresh {
			return fmt.Sprintf("file %d:%d:%d:%d:%d", st.Dev, st.Ino, st.Size, st.Mtim.Nano(), st.Ctim.Nano()), nil
		}
	}
	h := sha256.New()
	buf := make([]byte, 1<<18)
	r := s.reader()
	for {
		if err := ctx.Err(); err != nil {
			return "", errs.Wrap(err, "open")
		}
		n, err := r.Read(buf)
		h.Write(buf[:n])
		if err == io.EOF {
			return fmt.Sprintf("sha256 %x:%d", h.Sum(nil), s.size), nil
		}
		if err != nil {
			return "", &errs.Error{Class: errs.InvalidFile, Op: "open", Path: s.name, Err: err}
		}
	}
}

// roleKinds is what each role may be. A file of inputs that is not quite JSON is read all the same: the parser says where it is wrong.
var roleKinds = map[string][]keyfile.Kind{
	contract.RoleCircuit: {keyfile.R1CS, keyfile.ZKey, keyfile.WKey},
	contract.RoleKey:     {keyfile.ZKey, keyfile.WKey, keyfile.Params},
	contract.RoleWitness: {keyfile.Witness},
	contract.RoleProgram: {keyfile.Wasm},
	contract.RoleInputs:  {keyfile.InputJSON, keyfile.ProofJSON, keyfile.VKJSON, keyfile.Unknown, keyfile.Empty},
	contract.RoleSymbols: {keyfile.Symbols, keyfile.Empty},
}

// kindFlags are the command line's names of the roles that a kind usually has.
var kindFlags = map[keyfile.Kind]string{keyfile.R1CS: "--circuit", keyfile.Witness: "--witness", keyfile.ZKey: "--key", keyfile.WKey: "--key", keyfile.Params: "--key",
	keyfile.Wasm: "--wasm", keyfile.InputJSON: "--input", keyfile.Symbols: "--sym"}

func (s *source) checkRole() error {
	kinds, ok := roleKinds[s.role]
	if !ok {
		return errs.Mismatch(errs.InvalidArgument, "open", "input role", "key, circuit, witness, program, inputs or symbols", s.role).WithPath(s.name)
	}
	if slices.Contains(kinds, s.kind) {
		return nil
	}
	e := errs.Mismatch(errs.InvalidFile, "open", s.role, kinds[0].Text(), s.kind.Text()).WithPath(s.name)
	if f := kindFlags[s.kind]; f != "" {
		e = e.WithHint("give it with %s", f)
	}
	return e
}
