package config

import "github.com/weir-zk/weir/host"

// Host is the configuration of an engine: the plugins of the file first, then the CUDA backend where it is installed and GPUs are not switched off, then the built-in
// ones; of those all whose names are still free.
func (c *Config) Host() host.Config {
	out := host.Config{
		PartitionWorkers: c.PartitionWorkers, Lookahead: c.Lookahead, MemoryBudget: c.MemoryBudget, CriticalReserve: c.CriticalReserve, Threads: c.Threads, Backend: c.Backend,
		MaxAttempts: c.MaxAttempts, QuarantineAfter: c.QuarantineAfter, MaxPartitions: c.MaxPartitions, PermitRelease: c.PermitRelease,
		StartTimeout: c.StartTimeout, CancelTimeout: c.CancelTimeout, RuntimeDir: c.RuntimeDir,
	}
	taken := map[string]bool{}
	for _, p := range c.Backends {
		taken[p.Name] = true
		out.Backends = append(out.Backends, host.BackendConfig{Name: p.Name, Plugin: p.host()})
	}
	if c.GPU && !taken[host.CUDABackend] {
		if path := host.FindCUDA(); path != "" {
			out.Backends = append(out.Backends, host.BackendConfig{Name: host.CUDABackend, Plugin: host.CUDAPlugin(path)})
		}
	}
	for _, b := range host.BuiltinBackends() {
		if !taken[b.Name] {
			out.Backends = append(out.Backends, b)
		}
	}
	taken = map[string]bool{}
	for _, p := range c.Synthesizers {
		taken[p.Name] = true
		out.Synthesizers = append(out.Synthesizers, host.SynthesizerConfig{Name: p.Name, Plugin: p.host()})
	}
	for _, s := range host.BuiltinSynthesizers() {
		if !taken[s.Name] {
			out.Synthesizers = append(out.Synthesizers, s)
		}
	}
	return out
}

func (p Plugin) host() host.Plugin {
	return host.Plugin{Command: p.Command, Args: p.Args, Checksum: p.Checksum, Env: p.Env}
}
