package host

import (
	"os"
	"testing"

	"github.com/weir-zk/weir/sdk/errs"
)

// A program that starts an engine where it should serve would start itself without end.
func TestEngineInsideAnUnservedPlugin(t *testing.T) {
	t.Setenv("WEIR_PLUGIN", "7f3ac8a5f6d94a4d8e0c1f0a2b6b7d11")
	e, err := New(t.Context(), Config{})
	if e != nil || !errs.Is(err, errs.InvalidArgument) || errs.HintOf(err) == "" {
		t.Fatalf("got %v, %v", e != nil, err)
	}
	os.Unsetenv("WEIR_PLUGIN")
	if e, err = New(t.Context(), Config{}); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}
