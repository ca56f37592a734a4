package main

import (
	"context"
	"fmt"
	"math/bits"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/weir-zk/weir/host/ledger"
	"github.com/weir-zk/weir/plugins/filecoin/circuits"
)

var filecoinCircuitsCommand = &cli.Command{
	Name:  "circuits",
	Usage: "list Filecoin's circuits, or digest some",
	Description: `Lists the circuits of registered proofs: constraints, inputs with the one, auxiliary variables, domain, the size of bellman's key, memory of a partition (the
witness, and the values of A, B and C), and whether the circuit has been recorded ("weir setup" does so once).

  weir filecoin circuits
  weir filecoin circuits --json --digest porep-32g --digest post-2k-3x5

--digest records a circuit whole and tells densities and the digest of its constraint system too: the largest take half a minute. Besides those listed there are

  por-ARITYxLEAVES, por-8-2, por-8-8, por-8-8-2, por-sha-2xLEAVES, each also with -pub
  post-SIZE-SECTORSxCHALLENGES, porep-SIZE-cCHALLENGES`,
	Flags: flags([]cli.Flag{
		&cli.StringSliceFlag{Name: "digest", Usage: "digest the circuit `ID`; may be repeated"},
	}),
	Action: plain(filecoinCircuits),
}

func filecoinCircuits(ctx context.Context, s *session) error {
	if _, err := arguments(s.c); err != nil {
		return err
	}
	if ids := s.c.StringSlice("digest"); len(ids) > 0 {
		return filecoinDigests(ctx, s, ids)
	}
	shapes, err := circuits.UserShapes()
	if err != nil {
		return err
	}
	type row struct {
		*circuits.Sizes
		Prepared bool `json:"prepared"`
	}
	var list []row
	for _, id := range circuits.Registered() {
		z, err := circuits.RegisteredSizes(ctx, id)
		if err != nil {
			return err
		}
		list = append(list, row{z, shapes.Has(ctx, id)})
	}
	if s.json {
		s.object(list)
		return nil
	}
	tw := tabwriter.NewWriter(sayer{s.terminal}, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(tw, "circuit\tconstraints\tinputs\taux\tdomain\tkey\tmemory\tprepared\t\n")
	for _, r := range list {
		prepared := "no"
		if r.Prepared {
			prepared = "yes"
		}
		fmt.Fprintf(tw, "%s\t%d\t%d\t%d\t2^%d\t%v\t%v\t%s\t\n", r.ID, r.Rows, r.Inputs, r.Aux, bits.TrailingZeros(uint(r.Domain)), ledger.Size(r.ParamsBytes), ledger.Size(r.MemoryBytes), prepared)
	}
	return tw.Flush()
}

func filecoinDigests(ctx context.Context, s *session, ids []string) error {
	list := []*circuits.Description{}
	for _, id := range ids {
		d, err := circuits.Describe(ctx, id)
		if err != nil {
			return err
		}
		list = append(list, d)
	}
	if s.json {
		s.object(list)
		return nil
	}
	for _, d := range list {
		s.say("%s  %s: %d constraints, %d inputs, %d aux, terms %d %d %d\n", d.R1CSSHA256, d.ID, d.Rows, d.Inputs, d.Aux, d.NonZero[0], d.NonZero[1], d.NonZero[2])
	}
	return nil
}
