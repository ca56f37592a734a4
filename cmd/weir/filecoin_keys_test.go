package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/weir-zk/weir/internal/testfiles"
)

// Keys made from the reference's public secrets have bellperson's bytes.
func TestFilecoinKeys(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector knows no shared memory, so plugin processes cannot make keys")
	}
	for _, x := range []struct{ id, file, why string }{
		{"post-2k-1x1", "keys/post-2k-1x1.proof.json", ""},
		{"por-8x64", "keys/por-8x64.proof.json", ""},
		{"window-2k", "keys/window-2k.proof.json", ""},
		{"updp-1k", "keys/updp-1k.proof.json", ""},
		{"upd-1k", "keys/upd-1k.proof.json", "a key of 0.5 GB"},
		{"upd-2k", "flow/keys/upd-2k.key.json", "a key of 0.7 GB"},
		{"porep-2k", "keys/porep-2k.proof.json", "a key of 1.1 GB"},
	} {
		t.Run(x.id, func(t *testing.T) {
			secrets := testfiles.Shared(t, "fixtures", "filecoin", filepath.FromSlash(x.file))
			if x.why != "" {
				testfiles.Full(t, x.why)
			}
			var want struct {
				Params       struct{ SHA256 string }
				VK           struct{ SHA256 string }
				ParamsSHA256 string `json:"params_sha256"`
				VKSHA256     string `json:"vk_sha256"`
			}
			b, err := os.ReadFile(secrets)
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(b, &want); err != nil {
				t.Fatal(err)
			}
			digests := map[string]string{"params": want.Params.SHA256 + want.ParamsSHA256, "vk": want.VK.SHA256 + want.VKSHA256} // a file has one of the forms
			testscript.Run(t, testscript.Params{
				Files: []string{filepath.Join("testdata", "filecoin", "key.txt")},
				Setup: func(e *testscript.Env) error {
					e.Setenv("ID", x.id)
					e.Setenv("SECRETS", secrets)
					e.Setenv("HOME", e.WorkDir)
					return nil
				},
				Cmds: map[string]func(*testscript.TestScript, bool, []string){
					"keydigest": func(ts *testscript.TestScript, _ bool, args []string) {
						f, err := os.Open(ts.MkAbs(args[1]))
						ts.Check(err)
						defer f.Close()
						h := sha256.New()
						_, err = io.Copy(h, f)
						ts.Check(err)
						if got := hex.EncodeToString(h.Sum(nil)); got != digests[args[0]] {
							ts.Fatalf("SHA-256 of %s is %s, want %s", args[1], got, digests[args[0]])
						}
					},
				},
			})
		})
	}
}
