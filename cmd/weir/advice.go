package main

import (
	"bytes"
	"io"
	"os"
	"regexp"
	"sort"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/weir-zk/weir/internal/config"
	"github.com/weir-zk/weir/sdk/errs"
)

// withHint puts a hint before those that err has.
func withHint(err error, hint string) error {
	return &errs.Error{Class: errs.ClassOf(err), Hint: hint, Retryable: errs.IsRetryable(err), Err: err}
}

// circomSource is how source code of circom begins a line.
var circomSource = regexp.MustCompile(`(?m)^\s*(pragma\s+circom\b|template\s+\w+\s*\(|include\s+"[^"]+\.circom")`)

// advise looks into the file that an error is about, for what is often given in the place of what weir reads.
func advise(err error) error {
	path := pathOf(err)
	if path == "" || !errs.Is(err, errs.InvalidFile) {
		return err
	}
	f, _, oerr := openFile("advise", path)
	if oerr != nil {
		return err
	}
	defer f.Close()
	head := make([]byte, 4096)
	n, _ := io.ReadFull(f, head)
	head = head[:n]
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return withHint(err, "it is packed; unpack it first (gzip -d)")
	case circomSource.Match(head) && !bytes.ContainsRune(head, 0):
		return withHint(err, "it is source code of circom; compile it: circom "+path+" --r1cs --wasm --sym --prime bls12381")
	}
	return err
}

// warnEnv tells of variables with weir's prefix that set nothing: those that look like a setting or a flag, or all.
func (s *session) warnEnv(all bool) {
	unknown := config.UnknownEnv(os.Environ())
	names := make([]string, 0, len(unknown))
	for n := range unknown {
		names = append(names, n)
	}
	sort.Strings(names)
	isFlag := map[string]bool{}
	each(s.c.App, func(_ []string, _ []*cli.Command, flags []cli.Flag) {
		for _, f := range flags {
			isFlag[f.Names()[0]] = true
		}
	})
	for _, n := range names {
		flag := strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(n, "WEIR_")), "_", "-")
		switch near := unknown[n]; {
		case isFlag[flag]:
			s.warn("the environment variable %s sets nothing: --%s is taken from the command line only", n, flag)
		case near != "":
			s.warn("the environment variable %s is no setting of weir; did you mean %s?", n, near)
		case all:
			s.warn("the environment variable %s is no setting of weir", n)
		}
	}
}
