package cuda

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	cpu "github.com/weir-zk/weir/backend-cpu"
	"github.com/weir-zk/weir/backend-cuda/internal/stubtest"
	"github.com/weir-zk/weir/internal/circuitgen"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
)

// Development keys of the same seed are the CPU backend's, byte for byte.
func TestMakeKeyIsTheCPUs(t *testing.T) {
	rows := 150
	if os.Getenv(realLibrary) != "" {
		rows = 1<<15 - 7
	}
	pool := newPool(t)
	dir := t.TempDir()
	circuit, _, err := circuitgen.WriteFiles(dir, "c", circuitgen.GnarkMix(rows, 3))
	if err != nil {
		t.Fatal(err)
	}
	in := addFile(t, pool, circuit)
	b := newBackend(t, pool, testOptions)
	made := func(m contract.KeyMaker, name string, req contract.MakeKeyRequest) []byte {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		h, err := pool.AddOutput(f)
		if err != nil {
			t.Fatal(err)
		}
		req.Circuit, req.Out = in, h
		if _, err := m.MakeKey(t.Context(), &req, nil); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	for i, req := range []contract.MakeKeyRequest{{Seed: []byte("42")}, {Seed: []byte("7"), Rows: groth16.RowsFive, H: groth16.HOddCoset}} {
		got := made(b, "cuda", req)
		want := made(cpu.New(pool, cpu.Options{Version: "test"}), "cpu", req)
		if !bytes.Equal(got, want) {
			t.Errorf("request %d: another key", i)
		}
	}
	if n, err := b.gpu.dev.Launches(); err != nil || n.FixedBase == 0 {
		t.Errorf("%+v, %v: no multiples were made on the device", n, err)
	}
	if used := b.gpu.vram.used; used != 0 {
		t.Errorf("%d bytes of the device are taken after the set-up", used)
	}
}

// A set-up that fails on the way leaves nothing on the device.
func TestMakeKeyFails(t *testing.T) {
	_, knob := stub(t)
	pool := newPool(t)
	dir := t.TempDir()
	circuit, _, err := circuitgen.WriteFiles(dir, "c", circuitgen.Tiny{Rows: 5, Public: 1})
	if err != nil {
		t.Fatal(err)
	}
	in := addFile(t, pool, circuit)
	for k := uint64(1); ; k++ {
		b := newBackend(t, pool, testOptions)
		if _, err := b.Describe(t.Context()); err != nil {
			t.Fatal(err)
		}
		f, err := os.Create(filepath.Join(dir, "key"))
		if err != nil {
			t.Fatal(err)
		}
		h, err := pool.AddOutput(f)
		if err != nil {
			t.Fatal(err)
		}
		knob(stubtest.FailCall, k)
		_, err = b.MakeKey(t.Context(), &contract.MakeKeyRequest{Circuit: in, Out: h, Seed: []byte("1")}, nil)
		left := knob(stubtest.FailCall, 0)
		if left > 0 {
			if err != nil || k < 10 {
				t.Fatalf("%v; %d calls", err, k)
			}
			return
		}
		if err == nil || !errs.IsRetryable(err) {
			t.Fatalf("failure %d: %v, want one that may pass", k, err)
		}
		if err := pool.RemoveFile(h); err != nil {
			t.Fatal(err)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
