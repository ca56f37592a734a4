package plugin

const maxSocketPath = 103

func closeOnExecAll() { markOpenFiles("/dev/fd") }

func raiseOOMScore(int) {}

// awaitExit does nothing: exec.Cmd.Wait waits, and reaps at once.
func awaitExit(int) {}

func runnable(path string, _ int) string { return path }

const canRunOpenFile = false
