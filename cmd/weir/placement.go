package main

import (
	"context"
	"os/exec"
	"strings"

	"github.com/weir-zk/weir/host"
	"github.com/weir-zk/weir/sdk/keyfile"
)

// placement asks the CUDA backend of this machine how the key in a file would lie in its GPU's memory, of which vram bounds what is taken. Empty: the file is no key, or
// there is no such backend here, or nothing may be asked.
func placement(ctx context.Context, s *session, path, vram string) string {
	backend := host.FindCUDA()
	if !s.cfg.GPU || backend == "" || path == "" {
		return ""
	}
	f, size, err := openFile("plan", path)
	if err != nil {
		return "" // the name of a circuit
	}
	defer f.Close()
	switch kind, err := keyfile.Sniff(f, size); {
	case err != nil, kind != keyfile.WKey && kind != keyfile.ZKey && kind != keyfile.Params:
		return ""
	}
	cmd := exec.CommandContext(ctx, backend, "plan", "--key", path)
	if vram != "" {
		cmd.Args = append(cmd.Args, "--vram-limit", vram)
	}
	var text, said strings.Builder
	cmd.Stdout, cmd.Stderr = &text, &said
	if cmd.Run() == nil {
		return strings.TrimSpace(text.String())
	}
	for line := range strings.Lines(said.String()) {
		if _, why, ok := strings.Cut(line, "error: "); ok {
			return "no place: " + strings.TrimSpace(why)
		}
	}
	return ""
}
