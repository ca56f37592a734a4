// Package errs is weir's closed set of error classes.
//
// Every error that crosses a package border of weir is, or wraps, an *Error: a class that code decides on, and a
// message for a person that names what was expected, what was found, and what to do next. The classes are mapped to
// gRPC codes in grpc.go and to process exit codes in exit.go, and nowhere else.
package errs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"
)

// Class says what kind of failure an error is. The set is closed: code may switch over it.
type Class uint8

const (
	// Internal is a broken promise inside weir itself.
	Internal Class = iota
	// InvalidArgument is a request, flag or configuration that can never work as given.
	InvalidArgument
	// InvalidFile is an input file that is damaged, truncated, of another kind or of another circuit.
	InvalidFile
	// Unsatisfied is a witness that does not satisfy its constraint system.
	Unsatisfied
	// InvalidProof is a proof that does not verify.
	InvalidProof
	// NotFound is a missing file, key, job or plugin.
	NotFound
	// Conflict is an id already used with other content, or a file that must not be overwritten.
	Conflict
	// Exhausted is a bound reached: memory budget, device memory, disk, message size. Never an allocation that failed late.
	Exhausted
	// Canceled is work given up because its caller asked so.
	Canceled
	// Deadline is work given up because its time was over.
	Deadline
	// BackendGone is a plugin process or device that died or answers no longer; Retryable says whether the same work may be tried again elsewhere.
	BackendGone
	// Unsupported is a valid request that this build, backend or device cannot do.
	Unsupported
	// PermissionDenied is a file or socket that may not be used.
	PermissionDenied
	// Unavailable is a service that refuses new work for now: draining, starting, breaker open.
	Unavailable
)

var classNames = [...]string{
	Internal: "internal error", InvalidArgument: "invalid argument", InvalidFile: "invalid file", Unsatisfied: "witness does not satisfy the circuit",
	InvalidProof: "invalid proof", NotFound: "not found", Conflict: "conflict", Exhausted: "out of resources", Canceled: "canceled",
	Deadline: "deadline exceeded", BackendGone: "backend gone", Unsupported: "unsupported", PermissionDenied: "permission denied", Unavailable: "unavailable",
}

// String returns the class in words, lower case.
func (c Class) String() string {
	if int(c) < len(classNames) {
		return classNames[c]
	}
	return fmt.Sprintf("error class %d", uint8(c))
}

// Error is one failure. All fields but Class may be empty; Error() leaves the empty ones out.
type Error struct {
	Class     Class
	Op        string // what was being done, lower case: "read zkey"
	Path      string // the file concerned
	Where     string // offset, section, field or index inside it: "section 4, offset 1032"
	Expected  string
	Found     string
	Hint      string // what the user can do next; printed on a line of its own by the command line
	Retryable bool   // the same work may succeed elsewhere or later without any change to it
	Err       error  // cause
}

// Error renders "op path (where): expected X, found Y: cause". The hint is not part of it: see Hint.
func (e *Error) Error() string {
	var b strings.Builder
	sep := func(s string) {
		if b.Len() > 0 {
			b.WriteString(s)
		}
	}
	b.WriteString(e.Op)
	if e.Path != "" {
		sep(" ")
		b.WriteString(e.Path)
	}
	if e.Where != "" {
		sep(" ")
		b.WriteString("(" + e.Where + ")")
	}
	switch {
	case e.Expected != "" && e.Found != "":
		sep(": ")
		b.WriteString("expected " + e.Expected + ", found " + e.Found)
	case e.Expected != "":
		sep(": ")
		b.WriteString("expected " + e.Expected)
	case e.Found != "":
		sep(": ")
		b.WriteString(e.Found)
	}
	if e.Err != nil {
		sep(": ")
		b.WriteString(e.Err.Error())
	}
	if b.Len() == 0 || (e.Expected == "" && e.Found == "" && e.Err == nil) {
		sep(": ")
		b.WriteString(e.Class.String())
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// New makes an error of class c: op is what was being done, format and args what was found.
func New(c Class, op, format string, args ...any) *Error {
	return &Error{Class: c, Op: op, Found: fmt.Sprintf(format, args...)}
}

// Mismatch makes an error of class c that names both sides.
func Mismatch(c Class, op, where string, expected, found any) *Error {
	return &Error{Class: c, Op: op, Where: where, Expected: fmt.Sprint(expected), Found: fmt.Sprint(found)}
}

// WithHint sets the hint and returns e.
func (e *Error) WithHint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// WithPath sets the path and returns e.
func (e *Error) WithPath(path string) *Error {
	e.Path = path
	return e
}

// Wrap gives err the context op and keeps its class, hint and retryability; nil stays nil.
func Wrap(err error, op string) error {
	if err == nil {
		return nil
	}
	return &Error{Class: ClassOf(err), Op: op, Hint: HintOf(err), Retryable: IsRetryable(err), Err: err}
}

// InFile names the file an error is about, unless the error names one already.
func InFile(err error, path string) error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		for x := e; ; {
			if x.Path != "" {
				return err
			}
			var inner *Error
			if !errors.As(x.Err, &inner) {
				break
			}
			x = inner
		}
		if e == err {
			c := *e
			c.Path = path
			return &c
		}
	}
	return &Error{Class: ClassOf(err), Path: path, Hint: HintOf(err), Retryable: IsRetryable(err), Err: err}
}

// ClassOf returns the class of the outermost *Error in err's chain; context, file-system and system errors have classes too;
// anything else is Internal.
func ClassOf(err error) Class {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e.Class
	case errors.Is(err, context.Canceled):
		return Canceled
	case errors.Is(err, context.DeadlineExceeded):
		return Deadline
	case errors.Is(err, fs.ErrNotExist):
		return NotFound
	case errors.Is(err, fs.ErrPermission):
		return PermissionDenied
	case errors.Is(err, fs.ErrExist):
		return Conflict
	}
	var no syscall.Errno
	if errors.As(err, &no) {
		switch no {
		case syscall.ENOTDIR, syscall.EISDIR, syscall.ENAMETOOLONG, syscall.ELOOP, syscall.EINVAL:
			return InvalidArgument
		case syscall.EROFS:
			return PermissionDenied
		case syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM:
			return Exhausted
		}
	}
	return Internal
}

// Is reports whether err is of class c.
func Is(err error, c Class) bool { return err != nil && ClassOf(err) == c }

// IsOneOf reports whether err has one of the classes.
func IsOneOf(err error, classes ...Class) bool {
	return err != nil && slices.Contains(classes, ClassOf(err))
}

// HintOf returns the outermost non-empty hint in err's chain.
func HintOf(err error) string {
	var e *Error
	for errors.As(err, &e) {
		if e.Hint != "" {
			return e.Hint
		}
		err = e.Err
	}
	return ""
}

// IsRetryable reports whether any error in the chain says so.
func IsRetryable(err error) bool {
	var e *Error
	for errors.As(err, &e) {
		if e.Retryable {
			return true
		}
		err = e.Err
	}
	return false
}
