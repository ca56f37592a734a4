package cuda

import (
	"fmt"
	"strings"

	"github.com/weir-zk/weir/backend-cuda/internal/cudalib"
	"github.com/weir-zk/weir/sdk/errs"
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
