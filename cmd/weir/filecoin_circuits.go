package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/weir-zk/weir/plugins/filecoin/circuits"
)

var filecoinCircuitsCommand = &cli.Command{
	Name:  "circuits",
	Usage: "list Filecoin's circuits, or digest some",
	Description: `--digest records a circuit whole and tells sizes, densities and the digest of its constraint system: the largest take half a minute.

  weir filecoin circuits --digest por-8x64 --digest post-2k-3x5
  weir filecoin circuits --json --digest porep-32g`,
	Flags: flags([]cli.Flag{
		&cli.StringSliceFlag{Name: "digest", Usage: "digest the circuit `ID`; may be repeated"},
	}),
	Action: plain(filecoinCircuits),
}

func filecoinCircuits(ctx context.Context, s *session) error {
	if _, err := arguments(s.c); err != nil {
		return err
	}
	list := []*circuits.Description{}
	for _, id := range s.c.StringSlice("digest") {
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
		fmt.Fprintf(s.out, "%s  %s  %s\n", d.R1CSSHA256, d.ID, count(d.Rows, "constraint"))
	}
	return nil
}
