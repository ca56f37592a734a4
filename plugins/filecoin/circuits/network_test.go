package circuits

import (
	"maps"
	"slices"
	"testing"

	"github.com/weir-zk/weir/internal/testfiles"
	"github.com/weir-zk/weir/plugins/filecoin/internal/fixture"
)

// What is told of registered circuits without recording them is what recording tells, and what the reference data say.
func TestRegistered(t *testing.T) {
	ids := Registered()
	if known := slices.Sorted(maps.Keys(densities)); !slices.Equal(known, slices.Sorted(slices.Values(ids))) {
		t.Errorf("densities of %v", known)
	}
	recorded := fixture.Names(t, "r1cs")
	for _, id := range ids {
		t.Run(id, func(t *testing.T) {
			got, err := RegisteredSizes(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if slices.Contains(recorded, id) {
				var want fixture.R1CS
				fixture.JSON(t, "r1cs/"+id+".json", &want)
				if got.Rows != want.Rows || got.Inputs != want.Inputs || got.Aux != want.Aux || got.Domain != want.Domain || got.AAux != want.AAux || got.BInput != want.BInput || got.BAux != want.BAux {
					t.Errorf("%+v, want %+v", got, want)
				}
				return
			}
			switch {
			case got.Rows > 10_000_000:
				testfiles.Full(t, "more than 10 million rows")
			case short() && got.Rows > 300_000:
				t.Skip("not with -short, nor under the race detector: more than 300,000 rows")
			}
			want, err := Describe(t.Context(), id)
			if err != nil || *got != want.Sizes {
				t.Errorf("%+v, want %+v, %v", got, want, err)
			}
		})
	}
	if _, err := RegisteredSizes(t.Context(), "por-8x8"); err == nil {
		t.Error("por-8x8 has no registered proof")
	}
}
