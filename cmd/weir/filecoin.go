package main

import "github.com/urfave/cli/v2"

// filecoinCommand is the group of commands for Filecoin's proofs, a file each.
var filecoinCommand = &cli.Command{
	Name:        "filecoin",
	Usage:       "Filecoin's circuits and proofs",
	Subcommands: []*cli.Command{filecoinCircuitsCommand, filecoinSynthCommand},
}
