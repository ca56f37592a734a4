package plugin

import (
	"os"
	"strings"
)

// passedEnv are the variables that a plugin gets from the host's environment: where programs, libraries, home and
// temporary files are, language and time zone, what GPUs are to be seen, and switches of the Go runtime.
var passedEnv = map[string]bool{
	"PATH": true, "HOME": true, "USER": true, "LOGNAME": true, "SHELL": true, "TMPDIR": true, "TZ": true, "LANG": true, "LANGUAGE": true,
	"LD_LIBRARY_PATH": true, "DYLD_LIBRARY_PATH": true, "XDG_RUNTIME_DIR": true, "XDG_CACHE_HOME": true, "XDG_CONFIG_HOME": true,
	"GODEBUG": true, "GOTRACEBACK": true, "GOGC": true, "GOCOVERDIR": true,
	"NVIDIA_VISIBLE_DEVICES": true, "NVIDIA_DRIVER_CAPABILITIES": true,
}

var passedEnvPrefixes = []string{"LC_", "CUDA_"}

// pluginEnv picks from the host's environment, then applies extra: "NAME=value" sets, "NAME" passes the host's value.
func pluginEnv(host, extra []string) []string {
	names := map[string]bool{}
	var out []string
	put := func(name, entry string) {
		if names[name] { // the last one wins, in one place
			for i, old := range out {
				if n, _, _ := strings.Cut(old, "="); n == name {
					out[i] = entry
				}
			}
			return
		}
		names[name] = true
		out = append(out, entry)
	}
	for _, entry := range host {
		name, _, ok := strings.Cut(entry, "=")
		if ok && passes(name) {
			put(name, entry)
		}
	}
	for _, entry := range extra {
		name, _, ok := strings.Cut(entry, "=")
		if ok {
			put(name, entry)
		} else if v, found := os.LookupEnv(name); found {
			put(name, name+"="+v)
		}
	}
	return out
}

func passes(name string) bool {
	if passedEnv[name] {
		return true
	}
	for _, p := range passedEnvPrefixes {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}
