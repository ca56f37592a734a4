package cuda

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/backend-cpu/setup"
	"github.com/weir-zk/weir/backend-cuda/internal/cudalib"
	"github.com/weir-zk/weir/backend-cuda/internal/stubtest"
	"github.com/weir-zk/weir/internal/circuitgen"
	"github.com/weir-zk/weir/internal/testfiles"
	"github.com/weir-zk/weir/sdk/assignment"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/encoding/iden3"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
)

var testOptions = Options{AllowInsecureTestRandomness: true}

// For fixed r and s the proof is the CPU backend's, byte for byte: snarkjs' keys of all circom fixtures, with evaluations of the device and of the host.
func TestFixturesAreTheCPUs(t *testing.T) {
	for _, name := range append(append([]string(nil), testfiles.Small...), testfiles.Large...) {
		t.Run(name, func(t *testing.T) {
			if _, err := os.Stat(testfiles.Circom(name, "circuit.zkey")); errors.Is(err, fs.ErrNotExist) && os.Getenv(realLibrary) == "" && testing.Short() {
				t.Skip("large fixtures take the stub a while: not with -short")
			}
			// what is packed there is unpacked here
			tmp := t.TempDir()
			for _, f := range []string{"circuit.zkey", "circuit.r1cs"} {
				if err := os.WriteFile(filepath.Join(tmp, f), testfiles.Fixture(t, name, f), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			raw := testfiles.Fixture(t, name, "witness.wtns")
			f, err := iden3.OpenWitness(bytes.NewReader(raw), int64(len(raw)))
			if err != nil {
				t.Fatal(err)
			}
			var witness []fr.Element
			for v, err := range f.Values(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				witness = append(witness, v)
			}
			pool := newPool(t)
			s := fixture(t, pool, filepath.Join(tmp, "circuit.zkey"), filepath.Join(tmp, "circuit.r1cs"), witness)
			want := s.reference()
			for _, o := range []Options{testOptions, {AllowInsecureTestRandomness: true, HostEvaluates: true}} {
				b := newBackend(t, pool, o)
				if _, err := s.load(b, "key"); err != nil {
					t.Fatal(err)
				}
				p, err := s.prove(b, "key", assignment.Compact, fixedRandomness())
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(p.Bytes, want) {
					t.Errorf("host evaluates %v: not the CPU backend's proof", o.HostEvaluates)
				}
				s.check(b, p)
				if name != "allzero" { // there every value that belongs to a point of B is zero, and nothing is added
					launched(t, b, !o.HostEvaluates)
				}
				if err := b.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// launched fails unless every family of kernels has run: a proof that was made elsewhere would be equal too.
func launched(t *testing.T, b *Backend, evaluates bool) {
	t.Helper()
	n, err := b.gpu.dev.Launches()
	if err != nil {
		t.Fatal(err)
	}
	if n.NTT == 0 || n.G1 == 0 || (n.G2 == 0 && b.keys["key"].shape.NbB > 0) || n.Witness == 0 || (evaluates && n.SpMV == 0) {
		t.Errorf("not every family of kernels has run: %+v", n)
	}
}

// With ever less memory of the device keys move out of it, piece by piece; the proof stays the same. With too little the error has the numbers.
func TestLimits(t *testing.T) {
	pool := newPool(t)
	log, most, options := 11, int64(64<<20), small(testOptions)
	if os.Getenv(realLibrary) != "" { // whose scratch is a few MiB however small a sum is
		log, most, options = 17, 4<<30, testOptions
		options.maxChunk = minChunk
	}
	s := generated(t, pool, circuitgen.GnarkMix(circuitgen.FillDomain(log, 1), 3), setup.Options{Rows: groth16.RowsFive})
	want := s.reference()
	seen := map[string]bool{}
	limit, last := most, 0
	for range 200 {
		o := options
		o.VRAMLimit = limit
		b := newBackend(t, pool, o)
		if _, err := s.load(b, "key"); err != nil {
			if !errs.Is(err, errs.Exhausted) || !strings.Contains(err.Error(), size(limit)) || errs.HintOf(err) == "" {
				t.Fatalf("limit %s: %v: want an exhausted device, with numbers", size(limit), err)
			}
			if _, err := s.prove(b, "key", assignment.Compact, fixedRandomness()); err == nil {
				t.Fatal("a key that was not loaded proves")
			}
			last = int(limit)
			break
		}
		k := b.keys["key"]
		var what string
		for i := range nbSections {
			if !k.plan.resident[i] {
				what += i.String() + " "
			}
		}
		if !k.plan.matrices {
			what += "matrices"
		}
		what += fmt.Sprint(k.plan.lanes, k.plan.sides)
		if !seen[what] {
			seen[what] = true
			for _, form := range []assignment.Form{assignment.Compact, assignment.Dense} {
				p, err := s.prove(b, "key", form, fixedRandomness())
				if err != nil {
					t.Fatalf("limit %s, %v: %v", size(limit), k.plan, err)
				}
				if !bytes.Equal(p.Bytes, want) {
					t.Fatalf("limit %s, %v: not the CPU backend's proof", size(limit), k.plan)
				}
			}
			if used := b.gpu.vram.used; used > limit {
				t.Fatalf("%d bytes of the device taken, limit %d", used, limit)
			}
		}
		limit = min(b.gpu.vram.used, k.plan.bytes()) - 4096
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("plans: %d, too little: %d bytes", len(seen), last)
	if last == 0 || len(seen) < 4 {
		t.Errorf("limits down to %d gave %d plans, the least not refused", limit, len(seen))
	}
}

// One allocation or pinning after another fails: a typed error, nothing left behind, and the next job of the same process succeeds.
func TestEveryAllocationFails(t *testing.T) {
	_, knob := stub(t)
	everyFailure(t, knob, stubtest.FailAlloc, errs.Exhausted, 5)
}

// The same for every call of the library, be it the sum of a section or a wait: an error of the device never yields a proof.
func TestEveryCallFails(t *testing.T) {
	_, knob := stub(t)
	everyFailure(t, knob, stubtest.FailCall, errs.Unavailable, 60)
}

func everyFailure(t *testing.T, knob func(stubtest.Setting, uint64) uint64, what stubtest.Setting, class errs.Class, least int) {
	pool := newPool(t)
	s := generated(t, pool, circuitgen.Tiny{Rows: 20, Public: 2}, setup.Options{})
	want := s.reference()
	job := func(b *Backend) ([]byte, error) {
		if _, err := b.Describe(t.Context()); err != nil {
			return nil, err
		}
		if _, err := s.load(b, "key"); err != nil {
			return nil, err
		}
		p, err := s.prove(b, "key", assignment.Compact, fixedRandomness())
		if uerr := b.UnloadKey(t.Context(), "key"); err == nil {
			err = uerr
		}
		if err != nil {
			return nil, err
		}
		return p.Bytes, nil
	}
	for k := uint64(1); ; k++ {
		b := newBackend(t, pool, testOptions)
		knob(what, k)
		got, err := job(b)
		left := knob(what, 0)
		if left > 0 { // fewer than k were made
			if err != nil {
				t.Fatalf("no failure left: %v", err)
			}
			if int(k) <= least {
				t.Fatalf("only %d could fail", k-1)
			}
			t.Logf("%d could fail", k-1)
			return
		}
		if err == nil && !bytes.Equal(got, want) {
			t.Fatalf("failure %d: a wrong proof", k)
		}
		if err != nil && (!errs.Is(err, class) || !errs.IsRetryable(err)) {
			t.Fatalf("failure %d: %v (%v): want %v, retryable", k, err, errs.ClassOf(err), class)
		}
		// One that failed while it gave memory back may hold it until the backend closes: the job after it must succeed all the same.
		if got, err = job(b); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("the job after failure %d: %v", k, err)
		}
		if err := b.Close(); err != nil {
			t.Fatalf("close after failure %d: %v", k, err)
		}
	}
}

// When the device's state is lost every call says so, the host is told to try elsewhere, and the program is told once to end.
func TestLostDevice(t *testing.T) {
	path, knob := stub(t)
	pool := newPool(t)
	s := generated(t, pool, circuitgen.Tiny{Rows: 20, Public: 2}, setup.Options{})
	for k := uint64(1); k < 35; k += 6 {
		knob(stubtest.Reset, 0)
		lost := 0
		o := testOptions
		o.Library, o.OnLost = path, func(error) { lost++ }
		b := New(pool, o)
		if _, err := s.load(b, "key"); err != nil {
			t.Fatal(err)
		}
		knob(stubtest.StickyCall, k)
		_, err := s.prove(b, "key", assignment.Compact, nil)
		for range 2 {
			if !errs.Is(err, errs.Unavailable) || !errs.IsRetryable(err) || !cudalib.IsLost(err) {
				t.Fatalf("lost at call %d: %v (%v)", k, err, errs.ClassOf(err))
			}
			_, err = b.Describe(t.Context())
		}
		if _, err := s.load(b, "another"); !cudalib.IsLost(err) {
			t.Errorf("loads a key on a lost device: %v", err)
		}
		if err := b.UnloadKey(t.Context(), "key"); err != nil {
			t.Errorf("unload: %v", err)
		}
		if lost != 1 {
			t.Errorf("told %d times", lost)
		}
	}
	knob(stubtest.Reset, 0)
}

// What comes back from a device with broken memory is no proof.
func TestFlippedBits(t *testing.T) {
	_, knob := stub(t)
	pool := newPool(t)
	s := generated(t, pool, circuitgen.Tiny{Rows: 20, Public: 2}, setup.Options{})
	b := newBackend(t, pool, testOptions)
	if _, err := s.load(b, "key"); err != nil {
		t.Fatal(err)
	}
	knob(stubtest.Flip, 1)
	if _, err := s.prove(b, "key", assignment.Compact, nil); err == nil {
		t.Fatal("a proof of flipped bits")
	}
	knob(stubtest.Flip, 0)
	if _, err := s.prove(b, "key", assignment.Compact, nil); err != nil {
		t.Fatal(err)
	}
}

// 50 proofs of two circuits, some canceled: device memory and pinned memory are the same after proof 5 and proof 50.
func TestMemoryIsFlat(t *testing.T) {
	pool := newPool(t)
	onDevice := os.Getenv(realLibrary) != ""
	rows := []int{60, 200}
	if onDevice {
		rows = []int{1 << 12, 1 << 17}
	}
	one := generated(t, pool, circuitgen.Tiny{Rows: rows[0], Public: 2}, setup.Options{})
	two := generated(t, pool, circuitgen.PoRepMix(rows[1], 1), setup.Options{Rows: groth16.RowsFive, H: groth16.HOddCoset})
	b := newBackend(t, pool, testOptions)
	for i, s := range []*subject{one, two} {
		if _, err := s.load(b, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	var after5 cudalib.MemoryUse
	var resident int64
	for i := 1; i <= 50; i++ {
		s, id := one, "0"
		if i%3 == 0 {
			s, id = two, "1"
		}
		if i%7 == 0 {
			ctx, cancel := context.WithCancel(t.Context())
			req, free := s.buffers(0, assignment.Compact)
			req.KeyID = id
			_, err := b.Prove(ctx, req, func(e contract.ProveEvent) {
				if e == contract.EvaluationsConsumed {
					cancel()
				}
			})
			free()
			if !errs.Is(err, errs.Canceled) {
				t.Fatalf("canceled: %v", err)
			}
		} else if _, err := s.prove(b, id, assignment.Compact, nil); err != nil {
			t.Fatal(err)
		}
		use, err := b.gpu.dev.MemoryUse()
		if err != nil {
			t.Fatal(err)
		}
		if i == 5 {
			after5, resident = use, residentBytes(t)
		}
		if now := residentBytes(t); onDevice && i == 50 && now > resident+max(resident/100, 4<<20) {
			t.Errorf("resident memory after proof 5: %d bytes, after proof 50: %d", resident, now)
		}
		if i == 50 && (use.Allocated != after5.Allocated || use.Registered != after5.Registered || use.Allocated != b.gpu.vram.used) {
			t.Errorf("after proof 5: %+v, after proof 50: %+v, in the account: %d", after5, use, b.gpu.vram.used)
		}
		if i == 50 && after5.Free-use.Free > after5.Total/100 {
			t.Errorf("free memory of the device after proof 5: %d, after proof 50: %d", after5.Free, use.Free)
		}
	}
	for i := range 2 {
		if err := b.UnloadKey(t.Context(), fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if used := b.gpu.vram.used - b.gpu.vram.taken(forLanes); used != 0 {
		t.Errorf("%d bytes are taken without a key", used)
	}
}

// The device that is described is the one that was asked for, in whatever order the system lists them.
func TestDescribesTheDeviceItUses(t *testing.T) {
	path, knob := stub(t)
	knob(stubtest.Devices, 2)
	pool := newPool(t)
	lib, err := cudalib.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	list, _, err := lib.Devices()
	if err != nil {
		t.Fatal(err)
	}
	for _, swap := range []uint64{0, 1} {
		knob(stubtest.SwapUUID, swap)
		for _, d := range list {
			o := testOptions
			o.Device = d.UUID.String()
			b := newBackend(t, pool, o)
			info, err := b.Describe(t.Context())
			if err != nil || info.DeviceID != d.UUID.String() || info.Lanes != 2 || info.DeviceMemory <= 0 {
				t.Errorf("asked for %v, described %+v: %v", d.UUID, info, err)
			}
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	knob(stubtest.Devices, 0)
	b := newBackend(t, pool, testOptions)
	if _, err := b.Describe(t.Context()); !errs.Is(err, errs.Unavailable) || errs.HintOf(err) == "" {
		t.Errorf("no device: %v", err)
	}
	knob(stubtest.Devices, 1) // it has come up
	if _, err := b.Describe(t.Context()); err != nil {
		t.Errorf("the device is there now: %v", err)
	}
}
