package plugin

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-zk/weir/sdk/errs"
)

// exitWait is how long a failed call waits to learn whether the plugin died and how: the connection breaks some
// milliseconds before the process is reaped.
const exitWait = 500 * time.Millisecond

// fold turns a failure of the transport into the one error that tells that the plugin is gone, with the cause of its
// death where there is one. Errors that a service returned pass as they are.
func (p *Process) fold(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	st, ok := status.FromError(err)
	if !ok || len(st.Details()) > 0 { // io.EOF of a stream; a status that a handler made
		return err
	}
	switch st.Code() {
	case codes.Unavailable:
	case codes.Canceled, codes.Internal, codes.Unknown:
		// These say "gone" only when the plugin is.
		select {
		case <-p.gone:
		default:
			if !p.stopping.Load() { // a stop closes our side of the connection
				return err
			}
		}
	default:
		return err
	}
	return p.goneError(ctx, err)
}

func (p *Process) goneError(ctx context.Context, err error) error {
	timer := time.NewTimer(exitWait)
	defer timer.Stop()
	select {
	case <-p.Done():
		if exit := p.ExitError(); exit != nil {
			return exit
		}
		return errs.New(errs.BackendGone, "call plugin "+p.name, "the host has stopped it")
	case <-ctx.Done():
	case <-timer.C:
	}
	return &errs.Error{Class: errs.BackendGone, Op: "call plugin " + p.name, Found: "connection lost", Retryable: true, Err: err}
}

// limits are the last options of every call, since go-plugin's own, which allow 2 GiB, are among those before. A call may set lower ones. They follow
// what the plugin said about itself, which is known only when the connection exists.
func (p *Process) limits(opts []grpc.CallOption) []grpc.CallOption {
	send := int(p.maxMessage.Load())
	receive := send
	for _, o := range opts {
		switch o := o.(type) {
		case grpc.MaxRecvMsgSizeCallOption:
			receive = min(receive, o.MaxRecvMsgSize)
		case grpc.MaxSendMsgSizeCallOption:
			send = min(send, o.MaxSendMsgSize)
		}
	}
	return append(slices.Clone(opts), grpc.MaxCallRecvMsgSize(receive), grpc.MaxCallSendMsgSize(send))
}

func (p *Process) unary(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	return p.fold(ctx, invoke(ctx, method, req, reply, conn, p.limits(opts)...))
}

func (p *Process) stream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := open(ctx, desc, conn, method, p.limits(opts)...)
	if err != nil {
		return nil, p.fold(ctx, err)
	}
	return &foldedStream{ClientStream: s, p: p, ctx: ctx}, nil
}

type foldedStream struct {
	grpc.ClientStream
	p   *Process
	ctx context.Context // the caller's: the stream's own ends with the stream
}

func (s *foldedStream) RecvMsg(m any) error {
	return s.p.fold(s.ctx, s.ClientStream.RecvMsg(m))
}

func (s *foldedStream) SendMsg(m any) error {
	return s.p.fold(s.ctx, s.ClientStream.SendMsg(m))
}
