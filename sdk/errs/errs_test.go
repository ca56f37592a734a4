package errs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestText(t *testing.T) {
	for want, err := range map[string]*Error{
		"read zkey /k (section 4): expected 3, found 4": {Op: "read zkey", Path: "/k", Where: "section 4", Expected: "3", Found: "4"},
		"read: expected a file":                         {Op: "read", Expected: "a file"},
		"read: cut: EOF":                                {Op: "read", Found: "cut", Err: errors.New("EOF")},
		"prove: out of resources":                       {Op: "prove", Class: Exhausted},
		"internal error":                                {},
	} {
		if got := err.Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestClasses(t *testing.T) {
	deep := fmt.Errorf("outer: %w", Wrap(New(InvalidFile, "read", "cut").WithHint("again"), "load"))
	for _, tc := range []struct {
		err  error
		want Class
		exit int
	}{
		{deep, InvalidFile, 3}, {context.Canceled, Canceled, 130}, {context.DeadlineExceeded, Deadline, 124}, {fs.ErrNotExist, NotFound, 3},
		{&os.PathError{Op: "open", Path: "x", Err: syscall.EACCES}, PermissionDenied, 3}, {&os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}, Exhausted, 4},
		{&os.PathError{Op: "open", Path: "x", Err: syscall.ENOTDIR}, InvalidArgument, 3}, {syscall.EROFS, PermissionDenied, 3}, {syscall.EMFILE, Exhausted, 4},
		{errors.New("?"), Internal, 70}, {New(InvalidProof, "", ""), InvalidProof, 1}, {New(Unsatisfied, "", ""), Unsatisfied, 1}, {New(BackendGone, "", ""), BackendGone, 5}, {New(Unsupported, "", ""), Unsupported, 3},
	} {
		if got := ClassOf(tc.err); got != tc.want || ExitCode(tc.err) != tc.exit || !Is(tc.err, tc.want) {
			t.Errorf("%v: class %v, exit %d; want %v, %d", tc.err, got, ExitCode(tc.err), tc.want, tc.exit)
		}
	}
	if HintOf(deep) != "again" || HintOf(errors.New("x")) != "" || ExitCode(nil) != 0 || Is(nil, Internal) || Wrap(nil, "x") != nil {
		t.Error("hint, nil")
	}
	for c := Internal; c <= Unavailable; c++ {
		if ExitCode(New(c, "", "")) == 2 || strings.HasPrefix(c.String(), "error class") {
			t.Errorf("class %d: exit %d, name %q", c, ExitCode(New(c, "", "")), c)
		}
		if _, ok := classCodes[c]; !ok {
			t.Errorf("%v has no gRPC code", c)
		}
	}
}

func TestInFile(t *testing.T) {
	named := InFile(New(InvalidFile, "read", "cut"), "/a")
	if named.Error() != "read /a: cut" {
		t.Errorf("%q", named)
	}
	if got := InFile(named, "/b"); got.Error() != "read /a: cut" {
		t.Errorf("the first name is the right one: %q", got)
	}
	if got := InFile(Wrap(named, "load"), "/b"); !strings.Contains(got.Error(), "/a") || strings.Contains(got.Error(), "/b") {
		t.Errorf("%q", got)
	}
	if got := InFile(errors.New("EOF"), "/c"); !strings.Contains(got.Error(), "/c") {
		t.Errorf("%q", got)
	}
}

// Every class crosses gRPC as itself, with text, hint, path and retryability.
func TestStatusRoundTrip(t *testing.T) {
	for c := Internal; c <= Unavailable; c++ {
		sent := &Error{Class: c, Op: "op", Path: "/p", Expected: "x", Found: strings.Repeat("long ", 1000), Hint: "do this", Retryable: c%2 == 0}
		got := FromStatus(ToStatus(Wrap(sent, "outer")))
		if ClassOf(got) != c || HintOf(got) != "do this" || IsRetryable(got) != sent.Retryable || !strings.HasPrefix(got.Error(), "outer: op /p") || len(got.Error()) > 2000 {
			t.Errorf("%v arrived as %v: %.80q", c, ClassOf(got), got)
		}
	}
}

func TestForeignStatus(t *testing.T) {
	for code, want := range map[codes.Code]Class{codes.Unavailable: BackendGone, codes.Unimplemented: Unsupported, codes.ResourceExhausted: Exhausted,
		codes.DeadlineExceeded: Deadline, codes.Canceled: Canceled, codes.Unknown: Internal, codes.NotFound: NotFound, codes.Unauthenticated: PermissionDenied} {
		if got := FromStatus(status.Error(code, "x")); ClassOf(got) != want || (want == BackendGone) != IsRetryable(got) {
			t.Errorf("%v: %v", code, ClassOf(got))
		}
	}
	if FromStatus(nil) != nil || ToStatus(nil) != nil {
		t.Error("nil")
	}
}
