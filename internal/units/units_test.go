package units

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/weir-zk/weir/sdk/errs"
)

func TestParseBytes(t *testing.T) {
	for s, want := range map[string]int64{
		"12GiB": 12 << 30, "1TiB": 1 << 40, "1.5GiB": 3 << 29, "0": 0, "1": 1, "512B": 512, "1 KiB": 1024, " 2MiB ": 2 << 20, "1kB": 1000, "1KB": 1000, "800MB": 800e6,
		"0.1KiB": 102, "8GB": 8e9, "1PiB": 1 << 50, "8191PiB": 8191 << 50, "9223372036854775807": math.MaxInt64, "0.5B": 0, "007KiB": 7168,
	} {
		if got, err := ParseBytes(s); err != nil || got != want {
			t.Errorf("ParseBytes(%q) = %d, %v; want %d", s, got, err, want)
		}
	}
	for s, hint := range map[string]bool{
		"": false, "GiB": false, "12Gib": true, "12G": true, "12gb": true, "12 parsecs": true, "1.5": true, "-1GiB": false, "1e9": true, "1..5GiB": false, ".5GiB": false, "5.GiB": false,
		"8192PiB": false, "9223372036854775808": false, "0x10": true, "NaN": false, "inf": false, "1GiB1": true, "1,5GiB": true,
		"1111111111111111111111111111111111111111111": false,
	} {
		_, err := ParseBytes(s)
		if !errs.Is(err, errs.InvalidArgument) {
			t.Errorf("ParseBytes(%q): %v; want an invalid argument", s, err)
		}
		if hint && errs.HintOf(err) == "" {
			t.Errorf("ParseBytes(%q): no hint", s)
		}
	}
}

func TestFormatReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(0, math.MaxInt64).Draw(t, "n") >> rapid.IntRange(0, 62).Draw(t, "shift")
		n &= -(1 << rapid.IntRange(0, 40).Draw(t, "zeros"))
		got, err := ParseBytes(FormatBytes(n))
		if err != nil || got != n {
			t.Fatalf("%d is written %s and read %d, %v", n, FormatBytes(n), got, err)
		}
	})
}

func FuzzParseBytes(f *testing.F) {
	for _, s := range []string{"12GiB", "1.5 TiB", "", "GiB", "9999999999999999999PiB"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParseBytes(s)
		if (err == nil && n < 0) || (err != nil && errs.ExitCode(err) != errs.ExitUnusable) {
			t.Fatalf("ParseBytes(%q) = %d, %v", s, n, err)
		}
	})
}
