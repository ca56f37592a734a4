package host_test

import (
	"testing"

	"github.com/weir-zk/weir/sdk/errs"
)

func TestDescribe(t *testing.T) {
	e := engine(t, inProcess())
	for _, c := range []struct {
		backend, kind string
		class         errs.Class // with lanes 0
		lanes         int
	}{{"", "", 0, 1}, {"cpu", "circom", 0, 1}, {"nosuch", "", errs.NotFound, 0}, {"cpu", "nosuch", errs.Unsupported, 0}} {
		info, err := e.Describe(t.Context(), c.backend, c.kind)
		switch {
		case c.lanes == 0:
			if !errs.Is(err, c.class) || info != nil {
				t.Errorf("%+v: %+v, %v", c, info, err)
			}
		case err != nil || info.Name != "cpu" || info.Lanes != c.lanes || info.Device == "":
			t.Errorf("%+v: %+v, %v", c, info, err)
		}
	}
}
