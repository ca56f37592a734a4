package circom

import (
	"bytes"
	"context"
	"encoding/json"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/weir-zk/weir/sdk/assignment"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/encoding/iden3"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/r1cs"
	"github.com/weir-zk/weir/sdk/slab"
)

// rig is a synthesizer with a pool, as the host would have it; each test runs in process and over gRPC.
type rig struct {
	t    *testing.T
	pool *slab.Pool
	impl *synthesizer
	syn  contract.Synthesizer
}

// eachRig runs f with the plugin in process and behind gRPC, and checks afterwards that nothing is left.
func eachRig(t *testing.T, opts Options, f func(t *testing.T, r *rig)) {
	for _, over := range []string{"in process", "gRPC"} {
		t.Run(over, func(t *testing.T) {
			pool := slab.NewPool(slab.PoolOptions{})
			impl := New(pool, opts).(*synthesizer)
			r := &rig{t: t, pool: pool, impl: impl, syn: impl}
			if over == "gRPC" {
				r.syn = overGRPC(t, impl)
			}
			f(t, r)
			impl.mu.Lock()
			open := len(impl.sessions)
			impl.mu.Unlock()
			if open != 0 || impl.running.Load() != 0 {
				t.Errorf("left: %d sessions, %d bytes of programs", open, impl.running.Load())
			}
			if err := pool.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func overGRPC(t *testing.T, impl contract.Synthesizer) contract.Synthesizer {
	lis := bufconn.Listen(1 << 16)
	srv := grpc.NewServer()
	contract.RegisterSynthesizer(srv, impl)
	go func() { _ = srv.Serve(lis) }()
	conn, err := grpc.NewClient("passthrough:///", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		srv.Stop()
	})
	return contract.NewSynthesizerClient(conn, contract.ClientOptions{})
}

// file registers a file of the disk.
func (r *rig) file(role, path string, partition int) contract.Input {
	r.t.Helper()
	return addFile(r.t, r.pool, role, path, partition)
}

func addFile(t testing.TB, pool *slab.Pool, role, path string, partition int) contract.Input {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	h, err := pool.AddFile(f)
	if err != nil {
		t.Fatal(err)
	}
	return contract.Input{Role: role, Name: path, Handle: h, Size: st.Size(), Partition: partition}
}

// data registers bytes as a file that was just written.
func (r *rig) data(role string, b []byte, partition int) contract.Input {
	r.t.Helper()
	path := filepath.Join(r.t.TempDir(), role)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		r.t.Fatal(err)
	}
	return r.file(role, path, partition)
}

func (r *rig) get(p slab.Purpose, size int64) *slab.Buffer {
	r.t.Helper()
	b, err := r.pool.Get(p, size, "")
	if err != nil {
		r.t.Fatal(err)
	}
	return b
}

// result is a synthesised partition, copied out of its buffers.
type result struct {
	witness []fr.Element
	form    assignment.Form
	bytes   int64
	a, b, c []fr.Element
	public  [][]byte
}

type want struct {
	rows        groth16.RowOrder
	logDomain   int // 0: the smallest
	evaluations int // 0, 2 or 3
	threads     int
}

func (r *rig) synthesize(ctx context.Context, ses *contract.Session, part int, w want) (*result, error) {
	r.t.Helper()
	p := ses.Partitions[part]
	k := w.logDomain
	if k == 0 {
		k = max(1, groth16.DomainFor(p.NbConstraints, p.NbPublic))
	}
	wit := r.get(slab.Witness, p.WitnessBytes)
	defer wit.Free()
	req := &contract.SynthesizeRequest{Session: ses.ID, Partition: part, Witness: wit.Ref(), LogDomain: k, Rows: w.rows, Threads: w.threads}
	var evals []*slab.Buffer
	for i := range w.evaluations {
		e := r.get(slab.Evaluations, 32<<k)
		defer e.Free()
		for j := range e.Bytes() {
			e.Bytes()[j] = 0xDB
		}
		evals = append(evals, e)
		*[]*slab.Ref{&req.A, &req.B, &req.C}[i] = e.Ref()
	}
	s, err := r.syn.Synthesize(ctx, req)
	if err != nil {
		return nil, err
	}
	v, err := assignment.Parse(wit.Bytes())
	if err != nil {
		return nil, err
	}
	if v.Size() != s.WitnessBytes {
		r.t.Errorf("witness takes %d bytes, answer says %d", v.Size(), s.WitnessBytes)
	}
	out := &result{form: v.Form(), bytes: s.WitnessBytes, public: s.Public}
	for i := range v.Len() {
		out.witness = append(out.witness, v.At(i))
	}
	for i, e := range evals {
		view, err := slab.View[fr.Element](e.Bytes())
		if err != nil {
			return nil, err
		}
		*[]*[]fr.Element{&out.a, &out.b, &out.c}[i] = slices.Clone(view)
	}
	return out, nil
}

func (r *rig) open(ctx context.Context, options map[string]string, in ...contract.Input) (*contract.Session, error) {
	return r.syn.Open(ctx, &contract.OpenRequest{Kind: Kind, Inputs: in, Options: options})
}

func (r *rig) mustOpen(in ...contract.Input) *contract.Session {
	r.t.Helper()
	s, err := r.open(context.Background(), nil, in...)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

func (r *rig) close(s *contract.Session) {
	r.t.Helper()
	for range 2 { // closing twice is no error
		if err := r.syn.Close(context.Background(), s.ID); err != nil {
			r.t.Error(err)
		}
	}
}

// wtns is a witness as the bytes of a .wtns file.
func wtns(t *testing.T, values []fr.Element) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := iden3.WriteWitness(&b, len(values), slices.Values(values)); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// naive is A·w by the definition, in the rows' own order.
func naive(s *r1cs.System, m *r1cs.Matrix, w []fr.Element) []fr.Element {
	out := make([]fr.Element, s.NbConstraints())
	for i := range out {
		wire, coeff := m.Row(i)
		for k := range wire {
			var t fr.Element
			t.Mul(&s.Coeffs[coeff[k]], &w[wire[k]])
			out[i].Add(&out[i], &t)
		}
	}
	return out
}

// checkEvaluations compares all of a, b, c with the definition.
func checkEvaluations(t *testing.T, s *r1cs.System, w want, r *result) {
	t.Helper()
	n := len(r.a)
	a, b, c := make([]fr.Element, n), make([]fr.Element, n), make([]fr.Element, n)
	na, nb := naive(s, &s.A, r.witness), naive(s, &s.B, r.witness)
	nc := make([]fr.Element, len(na))
	if s.HasC {
		nc = naive(s, &s.C, r.witness)
	} else {
		for i := range nc {
			nc[i].Mul(&na[i], &nb[i])
		}
	}
	for i := range na {
		p := w.rows.Position(uint64(i), uint64(n))
		a[p], b[p], c[p] = na[i], nb[i], nc[i]
	}
	for i := range s.NbPublic + 1 {
		a[w.rows.Position(uint64(len(na)+i), uint64(n))] = r.witness[i]
	}
	if !slices.Equal(a, r.a) || !slices.Equal(b, r.b) || (w.evaluations == 3 && !slices.Equal(c, r.c)) {
		t.Errorf("evaluations differ from the definition (%v, 2^%d)", w.rows, w.logDomain)
	}
}

func publicJSON(t *testing.T, path string) []string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func decimal(le []byte) string {
	b := slices.Clone(le)
	slices.Reverse(b)
	return new(big.Int).SetBytes(b).String()
}

func readSystem(t *testing.T, path string) *r1cs.System {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := iden3.OpenR1CS(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	s, err := f.System(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// shared is the folder of large fixtures, or "".
func shared() string {
	dir := os.Getenv("WEIR_SHARED")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared")
	}
	if _, err := os.Stat(filepath.Join(dir, "fixtures", "circom")); err != nil {
		return ""
	}
	return dir
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func fixture(name string) string { return filepath.Join("..", "..", "testdata", "circom", name) }
