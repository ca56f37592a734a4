package errs

// Exit codes of weir's commands. 2 is never one of them: a Go program that crashes exits with 2.
const (
	ExitOK          = 0
	ExitInvalid     = 1  // a proof that does not verify, a witness that does not satisfy
	ExitUnusable    = 3  // input, flag or file that cannot be used, by this build or at all
	ExitExhausted   = 4  // memory budget, device memory or disk
	ExitUnavailable = 5  // backend or service gone, draining
	ExitInternal    = 70 // a bug in weir: internal error or recovered panic
	ExitDeadline    = 124
	ExitCanceled    = 130
)

// ExitCode is the process exit code for err; 0 for nil.
func ExitCode(err error) int {
	if err == nil {
		return ExitOK
	}
	switch ClassOf(err) {
	case Unsatisfied, InvalidProof:
		return ExitInvalid
	case InvalidArgument, InvalidFile, NotFound, Conflict, PermissionDenied, Unsupported:
		return ExitUnusable
	case Exhausted:
		return ExitExhausted
	case BackendGone, Unavailable:
		return ExitUnavailable
	case Canceled:
		return ExitCanceled
	case Deadline:
		return ExitDeadline
	}
	return ExitInternal
}
