// Package host is weir's engine as a library: it takes jobs, keeps the account of memory, runs synthesizers and provers
// (plugin processes, or code in this process), checks every proof, and hands it over.
//
//	e, err := host.New(ctx, host.Config{})
//	...
//	defer e.Close(ctx)
//	r, err := e.Prove(ctx, &host.Job{
//		Key:        "circuit.zkey",
//		Partitions: []host.Partition{{Witness: "witness.wtns"}},
//	})
//
// Where to read: pipeline.go is the life of a partition from top to bottom; ledger/ is the account that admits it; job.go and config.go are
// what a caller sees; events.go is what a caller can watch. A program that uses plugin processes of weir's own (the default) must let
// PluginMain run first in main: built-in plugins are the same executable, started again.
package host
