package circom

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/errs"
)

var (
	guardDir = filepath.Join("testdata", "guard")
	stepDir  = filepath.Join("..", "..", "testdata", "circom1", "step")
)

// openInputs opens the program of dir with the given inputs; sym adds the names of signals.
func (r *rig) openInputs(dir, inputs string, sym bool, options map[string]string) (*contract.Session, error) {
	in := []contract.Input{r.file(contract.RoleCircuit, filepath.Join(dir, "circuit.r1cs"), -1), r.file(contract.RoleProgram, filepath.Join(dir, "circuit.wasm"), -1),
		r.data(contract.RoleInputs, []byte(inputs), 0)}
	if sym {
		in = append(in, r.file(contract.RoleSymbols, filepath.Join(dir, "circuit.sym"), -1))
	}
	return r.open(context.Background(), options, in...)
}

// What is wrong with inputs is said when the request is opened, or when the program finds out.
func TestProgramInputs(t *testing.T) {
	const minusOne = "52435875175126190479447740508185965837690552500527637822603658699938581184512"
	cases := []struct {
		name, dir, inputs string
		sym               bool
		class             errs.Class // Internal: none
		words             []string
	}{
		{"as in the fixture", guardDir, `{"n":12,"m":[[1,"2",3],["0x10",-5,"-1"]],"spare":0}`, false, errs.Internal, nil},
		{"flat, other order, space, reduced", guardDir, " {\"spare\":\"" + minusOne + "\", \"m\" : [1,2,\"3\",16,\"-0x5\",\"" + minusOne + "\"],\n\"n\":\"0xC\"}", false, errs.Internal, nil},
		{"booleans", guardDir, `{"n":12,"m":[[true,2,3],["0X10",-5,-1]],"spare":false}`, false, errs.Internal, nil},
		{"missing", guardDir, `{"n":12,"m":[[1,"2",3],["0x10",-5,"-1"]]}`, false, errs.InvalidFile, []string{"8 values", "7", "missing", "--sym"}},
		{"missing, named", guardDir, `{"n":12,"m":[[1,"2",3],["0x10",-5,"-1"]]}`, true, errs.InvalidFile, []string{"8 values", `"spare" (1)`}},
		{"unknown", guardDir, `{"n":12,"m":[[1,"2",3],["0x10",-5,"-1"]],"spare":0,"more":1}`, false, errs.InvalidFile, []string{`"more"`}},
		{"not an input", guardDir, `{"n":12,"m":[[1,"2",3],["0x10",-5,"-1"]],"t":0}`, false, errs.InvalidFile, []string{`"t"`}},
		{"short", guardDir, `{"n":12,"m":[[1,"2",3],["0x10",-5]],"spare":0}`, false, errs.InvalidFile, []string{`"m"`, "6 values", "found 5"}},
		{"long", guardDir, `{"n":12,"m":[[1,"2",3],["0x10",-5,6,7]],"spare":0}`, false, errs.InvalidFile, []string{`"m"`, "6 values", "found 7"}},
		{"scalar as array", guardDir, `{"n":[12,13],"m":[[1,"2",3],["0x10",-5,6]],"spare":0}`, false, errs.InvalidFile, []string{`"n"`}},
		{"assertion", guardDir, `{"n":12,"m":[[7,"2",3],["0x10",-5,"-1"]],"spare":0}`, false, errs.Unsatisfied, []string{"Guard", "line: 19"}},
		{"fraction", guardDir, `{"n":1.5,"m":[[1,"2",3],["0x10",-5,"-1"]],"spare":0}`, false, errs.InvalidFile, []string{`"n"`, "integer"}},
		{"exponent", guardDir, `{"n":1e3,"m":[[1,"2",3],["0x10",-5,"-1"]],"spare":0}`, false, errs.InvalidFile, []string{`"n"`, "in full"}},
		{"text", guardDir, `{"n":"twelve","m":1,"spare":0}`, false, errs.InvalidFile, []string{`"n"`}},
		{"empty text", guardDir, `{"n":"","m":1,"spare":0}`, false, errs.InvalidFile, []string{`"n"`}},
		{"underscore", guardDir, `{"n":"1_2","m":1,"spare":0}`, false, errs.InvalidFile, []string{`"n"`}},
		{"two signs", guardDir, `{"n":"--1","m":1,"spare":0}`, false, errs.InvalidFile, []string{`"n"`}},
		{"plus", guardDir, `{"n":"+1","m":1,"spare":0}`, false, errs.InvalidFile, []string{`"n"`}},
		{"null", guardDir, `{"n":null,"m":1,"spare":0}`, false, errs.InvalidFile, []string{`"n"`, "null"}},
		{"twice", guardDir, `{"n":1,"n":1}`, false, errs.InvalidFile, []string{`"n"`, "twice"}},
		{"not JSON", guardDir, `{"n":12,,}`, false, errs.InvalidFile, []string{"JSON"}},
		{"cut", guardDir, `{"n":12`, false, errs.InvalidFile, []string{"JSON"}},
		{"two documents", guardDir, `{"n":12} {}`, false, errs.InvalidFile, []string{"end of the file"}},
		{"deep", guardDir, `{"n":` + strings.Repeat("[", 100000), false, errs.InvalidFile, []string{"inside one another"}},
		{"long number", guardDir, `{"n":"` + strings.Repeat("1", 1<<20) + `"}`, false, errs.InvalidFile, []string{"characters"}},

		{"circom 1", stepDir, `{"s":["1","5"],"m":[["7","0x10"],["-3",4]]}`, true, errs.Internal, nil},
		{"circom 1: missing", stepDir, `{"s":["1","5"]}`, false, errs.InvalidFile, []string{"6 values", "2"}},
		{"circom 1: unknown", stepDir, `{"s":["1","5"],"m":[["7","0x10"],["-3",4]],"x":[]}`, false, errs.InvalidFile, []string{`"x"`}},
		{"circom 1: unknown value", stepDir, `{"s":["1","5"],"m":[["7","0x10"],["-3"]],"x":1}`, false, errs.InvalidFile, []string{`"x"`}},
		{"circom 1: an output", stepDir, `{"s":["1","5"],"m":[["7","0x10"],["-3"]],"out":1}`, false, errs.InvalidFile, nil},
		{"circom 1: surplus", stepDir, `{"s":["1","5",2],"m":[["7","0x10"],["-3",4]]}`, false, errs.InvalidFile, []string{"6 values", "7"}},
		{"circom 1: wrong shares", stepDir, `{"s":["1","5",2],"m":[["7","0x10"],["-3"]]}`, false, errs.InvalidFile, []string{`"m"`}},
		{"circom 1: constraint", stepDir, `{"s":["2","5"],"m":[["7","0x10"],["-3",4]]}`, false, errs.Unsatisfied, []string{"circuit.circom:8"}},
		{"circom 1: assertion", stepDir, `{"s":["1","2"],"m":[["7","0x10"],["-3",4]]}`, false, errs.Unsatisfied, []string{"circuit.circom:6"}},
	}
	eachRig(t, Options{}, func(t *testing.T, r *rig) {
		for _, x := range cases {
			t.Run(x.name, func(t *testing.T) {
				r.t = t
				ses, err := r.openInputs(x.dir, x.inputs, x.sym, nil)
				if err == nil {
					defer r.close(ses)
					var got *result
					if got, err = r.synthesize(context.Background(), ses, 0, want{evaluations: 3}); err == nil && x.class == errs.Internal {
						raw, err := os.ReadFile(filepath.Join(x.dir, "witness.wtns"))
						if err != nil {
							t.Fatal(err)
						}
						if !bytes.Equal(wtns(t, got.witness), raw) {
							t.Error("the witness differs from the fixture's")
						}
					}
				}
				if x.class == errs.Internal {
					if err != nil {
						t.Fatal(err)
					}
					return
				}
				expectError(t, err, x.class, x.words...)
				if x.class == errs.InvalidFile && x.words != nil {
					expectError(t, err, x.class, "inputs") // the file's name
				}
			})
		}
	})
}

// A program that does not end is ended with its context, at once, and its memory with it.
func TestCancelLoop(t *testing.T) {
	const endless = `{"n":"1000000000000000000000000000000","m":[[1,2,3],[4,5,6]],"spare":0}`
	for _, how := range []string{"cancel", "deadline", "close"} {
		t.Run(how, func(t *testing.T) {
			eachRig(t, Options{}, func(t *testing.T, r *rig) {
				ses, err := r.openInputs(guardDir, endless, false, nil)
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				class := errs.Canceled
				if how == "deadline" {
					class = errs.Deadline
					ctx, cancel = context.WithTimeout(ctx, 50*time.Millisecond)
					defer cancel()
				}
				done := make(chan error, 1)
				go func() {
					_, err := r.synthesize(ctx, ses, 0, want{evaluations: 3})
					done <- err
				}()
				for r.impl.running.Load() == 0 { // until the program runs
					select {
					case err := <-done:
						t.Fatalf("ended by itself: %v", err)
					case <-time.After(time.Millisecond):
					}
				}
				begin := time.Now()
				switch how {
				case "cancel":
					cancel()
				case "close":
					r.close(ses)
				}
				err = <-done
				expectError(t, err, class)
				if d := time.Since(begin); d > 5*time.Second {
					t.Errorf("the program ran on for %v", d)
				}
				if n := r.impl.running.Load(); n != 0 {
					t.Errorf("%d bytes of program memory are left", n)
				}
				r.close(ses)
			})
		})
	}
}

// Partitions of one session, of both generations' programs and of witness files, at the same time; then again from the caches.
func TestConcurrent(t *testing.T) {
	for _, dir := range []string{guardDir, stepDir} {
		eachRig(t, Options{}, func(t *testing.T, r *rig) {
			raw, err := os.ReadFile(filepath.Join(dir, "witness.wtns"))
			if err != nil {
				t.Fatal(err)
			}
			in := []contract.Input{r.file(contract.RoleCircuit, filepath.Join(dir, "circuit.r1cs"), -1), r.file(contract.RoleProgram, filepath.Join(dir, "circuit.wasm"), -1)}
			const parts = 8
			for i := range parts {
				if i%2 == 0 {
					in = append(in, r.file(contract.RoleInputs, filepath.Join(dir, "input.json"), i))
				} else {
					in = append(in, r.file(contract.RoleWitness, filepath.Join(dir, "witness.wtns"), i))
				}
			}
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() {
					ses, err := r.open(context.Background(), nil, in...)
					if err != nil {
						t.Error(err)
						return
					}
					defer r.close(ses)
					var parts sync.WaitGroup
					for i := range ses.Partitions {
						parts.Go(func() {
							got, err := r.synthesize(context.Background(), ses, i, want{evaluations: 2, threads: 1 + i%2})
							if err != nil {
								t.Error(err)
							} else if !bytes.Equal(wtns(t, got.witness), raw) {
								t.Errorf("partition %d: another witness", i)
							}
						})
					}
					parts.Wait()
				})
			}
			wg.Wait()
			if n := len(r.impl.cache.entries); n > 4 { // one of each when the files have rested, at most
				t.Errorf("%d entries in the cache", n)
			}
		})
	}
}

func TestProgramMemoryLimit(t *testing.T) {
	eachRig(t, Options{MaxProgramMemory: 10 * wasmPage}, func(t *testing.T, r *rig) {
		_, err := r.openInputs(guardDir, `{}`, false, nil)
		expectError(t, err, errs.Exhausted, "circuit.wasm", ".wtns")
	})
	code, err := os.ReadFile(filepath.Join(stepDir, "circuit.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := readWasmMemory(code)
	if err != nil || !m.imported || m.pages != 2000 || m.free < 1000 || m.free > 1<<20 {
		t.Errorf("circom 1 program: %+v, %v", m, err)
	}
	if code, err = os.ReadFile(filepath.Join(guardDir, "circuit.wasm")); err != nil {
		t.Fatal(err)
	}
	if m, err = readWasmMemory(code); err != nil || m.imported || m.pages != 11 {
		t.Errorf("circom 2 program: %+v, %v", m, err)
	}
	for _, pages := range []uint32{1, 127, 128, 2000, 65528} {
		if m, err := readWasmMemory(memoryModule(pages)); err != nil || m.pages != pages || m.imported {
			t.Errorf("module of %d pages: %+v, %v", pages, m, err)
		}
	}
}

// A program that nothing is wrong with but its field.
func TestOtherField(t *testing.T) {
	code, err := os.ReadFile(filepath.Join(guardDir, "circuit.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	// The prime lies in the data section as a plain number.
	p := fr.Modulus().FillBytes(make([]byte, fr.Bytes))
	for i, j := 0, len(p)-1; i < j; i, j = i+1, j-1 {
		p[i], p[j] = p[j], p[i]
	}
	if !bytes.Contains(code, p) {
		t.Skip("the prime is not in the program as expected")
	}
	q := bytes.Clone(p)
	binary.LittleEndian.PutUint64(q, 12345)
	code = bytes.ReplaceAll(code, p, q)
	eachRig(t, Options{}, func(t *testing.T, r *rig) {
		_, err := r.open(context.Background(), nil, r.file(contract.RoleCircuit, filepath.Join(guardDir, "circuit.r1cs"), -1), r.data(contract.RoleProgram, code, -1),
			r.file(contract.RoleInputs, filepath.Join(guardDir, "input.json"), -1))
		expectError(t, err, errs.Unsupported, "--prime bls12381")
	})
}

func TestBuses(t *testing.T) {
	in, err := readInputs(strings.NewReader(`{"a":{"x":1,"y":[2,3]},"b":[{"z":4},{"z":[[5],[6]]}],"c":[],"d":[[7,8],[9]]}`), "x")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, s := range in.signals {
		for i := range s.count() {
			got[s.name] += decimal(s.value(i)) + " "
		}
	}
	for name, want := range map[string]string{"a.x": "1 ", "a.y": "2 3 ", "b[0].z": "4 ", "b[1].z": "5 6 ", "c": "", "d": "7 8 9 "} {
		if got[name] != want {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
	if in.total() != 9 {
		t.Errorf("%d values", in.total())
	}
}

func FuzzInputs(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":1}`, `{"a":[1,"2",[-3]],"b":{"c":"0x4"}}`, `{"a":[{"b":true}]}`, `[1]`, `{"a":`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		in, err := readInputs(bytes.NewReader(b), "x")
		if (in == nil) == (err == nil) {
			t.Fatal("neither or both")
		}
		if err != nil && !errs.Is(err, errs.InvalidFile) {
			t.Fatal(err)
		}
	})
}

func FuzzWasmMemory(f *testing.F) {
	for _, dir := range []string{guardDir, stepDir} {
		code, err := os.ReadFile(filepath.Join(dir, "circuit.wasm"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(code)
	}
	f.Add(memoryModule(7))
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := readWasmMemory(b); err == nil && m.pages > maxPages {
			t.Fatal(m)
		}
	})
}
