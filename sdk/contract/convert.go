package contract

import (
	"strings"
	"time"

	"github.com/weir-zk/weir/sdk/contract/pb"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/slab"
)

// Between messages and domain types, and nothing else. What a peer sends is checked here as far as it can be without looking at buffers.

func refToPB(r slab.Ref) *pb.BufferRef {
	if r.Length == 0 {
		return nil
	}
	return &pb.BufferRef{Handle: uint64(r.Handle), Offset: r.Offset, Length: r.Length}
}

func refFromPB(r *pb.BufferRef) slab.Ref {
	return slab.Ref{Handle: slab.Handle(r.GetHandle()), Offset: r.GetOffset(), Length: r.GetLength()}
}

func inputToPB(in Input) *pb.Input {
	return &pb.Input{Role: in.Role, Name: strings.ToValidUTF8(in.Name, "\uFFFD"), Handle: uint64(in.Handle), Size: in.Size, Partition: int32(in.Partition)}
}

func inputFromPB(in *pb.Input) Input {
	return Input{Role: in.GetRole(), Name: in.GetName(), Handle: slab.Handle(in.GetHandle()), Size: in.GetSize(), Partition: int(in.GetPartition())}
}

func shapeToPB(s *groth16.Shape) *pb.KeyShape {
	return &pb.KeyShape{LogDomain: int32(s.LogDomain), Wires: int64(s.NbWires), Public: int64(s.NbPublic), Constraints: int64(s.NbConstraints),
		APoints: int64(s.NbA), BPoints: int64(s.NbB), HPoints: int64(s.NbH), RowOrder: uint32(s.Rows), HBasis: uint32(s.H),
		Insecure: s.Insecure, HasMatrices: s.HasMatrices, HasC: s.HasC, Prepared: s.Prepared}
}

func shapeFromPB(m *pb.KeyShape) (*groth16.Shape, error) {
	if m == nil {
		return nil, errs.New(errs.InvalidArgument, "key shape", "missing")
	}
	if m.GetRowOrder() > 255 || m.GetHBasis() > 255 {
		return nil, errs.New(errs.InvalidArgument, "key shape", "row order %d, H basis %d", m.GetRowOrder(), m.GetHBasis())
	}
	s := &groth16.Shape{LogDomain: int(m.GetLogDomain()), NbWires: int(m.GetWires()), NbPublic: int(m.GetPublic()), NbConstraints: int(m.GetConstraints()),
		NbA: int(m.GetAPoints()), NbB: int(m.GetBPoints()), NbH: int(m.GetHPoints()), Rows: groth16.RowOrder(m.GetRowOrder()), H: groth16.HBasis(m.GetHBasis()),
		Insecure: m.GetInsecure(), HasMatrices: m.GetHasMatrices(), HasC: m.GetHasC(), Prepared: m.GetPrepared()}
	if err := s.Validate(); err != nil {
		return nil, &errs.Error{Class: errs.InvalidArgument, Op: "key shape", Err: err}
	}
	return s, nil
}

func loadedToPB(k *LoadedKey) *pb.LoadedKey {
	return &pb.LoadedKey{Shape: shapeToPB(&k.Shape), ResidentBytes: k.ResidentBytes, ElapsedMs: toMS(k.Elapsed)}
}

func loadedFromPB(m *pb.LoadedKey) (*LoadedKey, error) {
	s, err := shapeFromPB(m.GetShape())
	if err != nil {
		return nil, err
	}
	if !sane(m.GetResidentBytes()) {
		return nil, errs.New(errs.InvalidArgument, "loaded key", "impossible size %d", m.GetResidentBytes())
	}
	return &LoadedKey{Shape: *s, ResidentBytes: m.GetResidentBytes(), Elapsed: fromMS(m.GetElapsedMs())}, nil
}

func toMS(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// fromMS refuses what no stage can take, so that a plugin's nonsense does not become a negative duration.
func fromMS(ms float64) time.Duration {
	const most = float64(1000 * time.Hour / time.Millisecond)
	if !(ms > 0) {
		return 0
	}
	return time.Duration(min(ms, most) * float64(time.Millisecond))
}
