package circom

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/errs"
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
	kind      kind
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
	if src.kind, err = src.sniff(); err != nil {
		return nil, err
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

// kind is what a file is, by its content.
type kind uint8

const (
	kindOther kind = iota
	kindR1CS
	kindWtns
	kindZKey
	kindPrepared
	kindWasm
	kindJSON
	kindSym
)

var kindNames = [...]string{"an unknown kind of file", "a constraint system (.r1cs)", "a witness (.wtns)", "a snarkjs key (.zkey)", "a prepared key (.wkey)",
	"a witness program (.wasm)", "JSON", "names of signals (.sym)"}

func (k kind) String() string { return kindNames[k] }

func (s *source) sniff() (kind, error) {
	var head [64]byte
	n, err := s.ReadAt(head[:min(int64(len(head)), s.size)], 0)
	if err != nil && err != io.EOF {
		return 0, errs.InFile(errs.Wrap(err, "open"), s.name)
	}
	b := head[:n]
	for magic, k := range map[string]kind{"r1cs": kindR1CS, "wtns": kindWtns, "zkey": kindZKey, wasmMagic: kindWasm, preparedMagic: kindPrepared} {
		if bytes.HasPrefix(b, []byte(magic)) {
			return k, nil
		}
	}
	b = bytes.TrimLeft(b, " \t\r\n")
	switch {
	case len(b) > 0 && b[0] == '{':
		return kindJSON, nil
	case len(b) > 0 && b[0] >= '0' && b[0] <= '9' && bytes.Count(b, []byte(",")) > 0:
		return kindSym, nil
	}
	return kindOther, nil
}

// roleKinds is what each role may be.
var roleKinds = map[string][]kind{
	contract.RoleCircuit: {kindR1CS, kindZKey, kindPrepared},
	contract.RoleKey:     {kindZKey, kindPrepared, kindOther}, // a bellman key has no magic; it has no matrices either
	contract.RoleWitness: {kindWtns},
	contract.RoleProgram: {kindWasm},
	contract.RoleInputs:  {kindJSON},
	contract.RoleSymbols: {kindSym},
}

// flags are the command line's names of the roles that a kind usually has.
var kindFlags = map[kind]string{kindR1CS: "--circuit", kindWtns: "--witness", kindZKey: "--key", kindPrepared: "--key", kindWasm: "--wasm", kindJSON: "--input", kindSym: "--sym"}

func (s *source) checkRole() error {
	kinds, ok := roleKinds[s.role]
	if !ok {
		return errs.Mismatch(errs.InvalidArgument, "open", "input role", "key, circuit, witness, program, inputs or symbols", s.role).WithPath(s.name)
	}
	for _, k := range kinds {
		if k == s.kind {
			return nil
		}
	}
	if s.role == contract.RoleSymbols && s.size == 0 {
		return nil
	}
	e := errs.Mismatch(errs.InvalidFile, "open", s.role, kinds[0], s.kind).WithPath(s.name)
	if f := kindFlags[s.kind]; f != "" {
		e = e.WithHint("give it with %s", f)
	}
	return e
}
