package cuda

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/weir-zk/weir/backend-cuda/internal/cudalib"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/keyfile"
)

// Check tells in a line which library there is, what the driver can do and which GPU would be used. The error says what is missing, and the text then what was found
// before that. No context is made on any device.
func Check(opts *Options) (string, error) {
	path, err := cudalib.Find(opts.Library)
	if err != nil {
		return "", err
	}
	lib, err := cudalib.Load(path)
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("%s, %s, code for %s", path, lib.Build.Text, archs(&lib.Build))
	_, driver, err := lib.Devices()
	if driver > 0 {
		text += fmt.Sprintf("; the driver can do CUDA %d.%d", driver/1000, driver%1000/10)
	}
	if err != nil {
		return text, errs.Wrap(err, "look for GPUs")
	}
	d, err := lib.Choose(opts.Device)
	if err != nil {
		return text, err
	}
	return fmt.Sprintf("%s; %s, %v, %s", text, d.Name, d.UUID, size(d.Memory)), nil
}

// Placement tells in a line how the key in a file would lie in the memory of the GPU, if no other key were loaded. Nothing is uploaded. The error (class Exhausted) has the
// bytes that are missing if even streaming takes too much.
func Placement(ctx context.Context, opts Options, path string) (text string, err error) {
	b := New(nil, opts)
	g, err := b.device()
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	f, err := os.Open(path)
	if err != nil {
		return "", &errs.Error{Class: errs.NotFound, Op: "open key", Err: err}
	}
	defer f.Close()
	k, err := keyfile.OpenKey(ctx, f, keyfile.Options{Name: path, Map: true, PointsOnly: opts.HostEvaluates, Tasks: b.threads(0), PreferOddCoset: true})
	if err != nil {
		return "", errs.InFile(err, path)
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	sys := k.System
	if !b.evaluates(&k.Shape) {
		sys = nil
	}
	p, err := g.plan(&k.Shape, matricesOf(sys), 0)
	if err != nil {
		return "", errs.InFile(err, path)
	}
	return fmt.Sprintf("%s, %s of device memory at most: %v", g.where(), size(g.vram.limit), p), nil
}

func archs(b *cudalib.Build) string {
	var out []string
	for _, a := range b.Archs {
		out = append(out, fmt.Sprintf("sm_%d", a))
	}
	if b.PTX > 0 {
		out = append(out, fmt.Sprintf("what comes after sm_%d", b.PTX))
	}
	if len(out) == 0 {
		return "no GPU"
	}
	return strings.Join(out, ", ")
}
