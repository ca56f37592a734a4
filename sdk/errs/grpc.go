package errs

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Domain marks the ErrorInfo detail that carries our fields, so that a foreign status is not misread as ours.
const Domain = "weir"

var classCodes = map[Class]codes.Code{
	Internal: codes.Internal, InvalidArgument: codes.InvalidArgument, InvalidFile: codes.InvalidArgument, Unsatisfied: codes.FailedPrecondition,
	InvalidProof: codes.DataLoss, NotFound: codes.NotFound, Conflict: codes.AlreadyExists, Exhausted: codes.ResourceExhausted,
	Canceled: codes.Canceled, Deadline: codes.DeadlineExceeded, BackendGone: codes.Unavailable, Unsupported: codes.Unimplemented,
	PermissionDenied: codes.PermissionDenied, Unavailable: codes.Unavailable,
}

// maxText bounds each text of a status: gRPC carries it in a header of some 8 KiB.
const maxText = 1500

// clip bounds s and makes it valid UTF-8, which file names need not be and protobuf demands.
func clip(s string) string {
	if len(s) > maxText {
		s = s[:maxText] + "..."
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// ToStatus turns err into a gRPC status error that FromStatus turns back into the same class, texts, hint and
// retryability. nil stays nil.
func ToStatus(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok && !isOurs(err) {
		return err
	}
	c := ClassOf(err)
	info := &errdetails.ErrorInfo{Domain: Domain, Reason: c.String(), Metadata: map[string]string{}}
	put := func(k, v string) {
		if v != "" {
			info.Metadata[k] = clip(v)
		}
	}
	var e *Error
	if errors.As(err, &e) {
		put("path", firstOf(err, func(e *Error) string { return e.Path }))
		put("hint", HintOf(err))
		if IsRetryable(err) {
			put("retryable", "yes")
		}
	}
	st := status.New(classCodes[c], clip(err.Error()))
	if with, derr := st.WithDetails(info); derr == nil {
		st = with
	}
	return st.Err()
}

func isOurs(err error) bool {
	var e *Error
	return errors.As(err, &e)
}

func firstOf(err error, f func(*Error) string) string {
	var e *Error
	for errors.As(err, &e) {
		if s := f(e); s != "" {
			return s
		}
		err = e.Err
	}
	return ""
}

// FromStatus turns an error of a gRPC call into an *Error. A status that weir made keeps its class; a transport
// failure becomes BackendGone (retryable); other codes get the nearest class. nil stays nil.
func FromStatus(err error) error {
	if err == nil {
		return nil
	}
	var own *Error
	if errors.As(err, &own) {
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return Wrap(err, "call")
	}
	st, ok := status.FromError(err)
	if !ok {
		return &Error{Class: Internal, Op: "call", Err: err}
	}
	for _, d := range st.Details() {
		info, ok := d.(*errdetails.ErrorInfo)
		if !ok || info.GetDomain() != Domain {
			continue
		}
		for c, name := range classNames {
			if name == info.GetReason() {
				return &remote{Error{Class: Class(c), Hint: info.GetMetadata()["hint"], Path: info.GetMetadata()["path"], Retryable: info.GetMetadata()["retryable"] == "yes"}, st.Message()}
			}
		}
	}
	e := &Error{Class: Internal, Op: "call", Found: st.Message()}
	switch st.Code() {
	case codes.Canceled:
		e.Class = Canceled
	case codes.DeadlineExceeded:
		e.Class = Deadline
	case codes.InvalidArgument, codes.OutOfRange:
		e.Class = InvalidArgument
	case codes.NotFound:
		e.Class = NotFound
	case codes.AlreadyExists:
		e.Class = Conflict
	case codes.PermissionDenied, codes.Unauthenticated:
		e.Class = PermissionDenied
	case codes.ResourceExhausted:
		e.Class = Exhausted
	case codes.FailedPrecondition, codes.Unimplemented:
		e.Class = Unsupported
	case codes.Unavailable:
		e.Class, e.Retryable = BackendGone, true
	}
	return e
}

// remote is an error that was made in another process: its text is the text written there, whole.
type remote struct {
	e    Error
	text string
}

func (r *remote) Error() string { return r.text }

// Unwrap lets errors.As find the class, hint and path.
func (r *remote) Unwrap() error { return &r.e }
