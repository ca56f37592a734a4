package vanilla

import (
	"bytes"
	"io"
	"testing"
)

// What is read and written again has the same bytes, in both forms.
func TestEncode(t *testing.T) {
	type answer interface {
		Write(w io.Writer, form Form) error
	}
	type source struct {
		bincode, json string
		read          func(b []byte) (answer, error)
	}
	c1 := func(b []byte) (answer, error) { return DecodeC1(b) }
	post := func(b []byte) (answer, error) { return DecodePoSt(b, size(t, "2k")) }
	var all []source
	for _, name := range []string{"v1_0", "v1_1", "synthetic", "non-interactive"} {
		all = append(all, source{name + "/c1.api.bincode", name + "/c1.api.json", c1})
	}
	for _, name := range []string{"winning", "window-v1_0-2", "window-v1_2-3"} {
		all = append(all, source{"post/" + name + "/vanilla-0.bincode", "post/" + name + "/vanilla-0.json", post})
	}
	all = append(all, source{"update/partition-0.bincode", "update/partition-0.json", func(b []byte) (answer, error) { return DecodeUpdate(b, size(t, "2k")) }})
	for _, s := range all {
		a, err := s.read(flow(t, s.bincode))
		if err != nil {
			t.Fatalf("%s: %v", s.bincode, err)
		}
		for form, name := range []string{JSON: s.json, Bincode: s.bincode} {
			var b bytes.Buffer
			if err := a.Write(&b, Form(form)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if want := flow(t, name); !bytes.Equal(b.Bytes(), want) {
				t.Errorf("%s: %d bytes, want %d, or they differ", name, b.Len(), len(want))
			}
		}
		if err := a.Write(full{}, JSON); err == nil {
			t.Errorf("%s: no error from a writer that fails", s.json)
		}
	}
}

// full is a writer without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, io.ErrShortWrite }
