package host

import "sync"

// The states of a plugin's health.
const (
	up   = "up"
	down = "down"
)

// health is what the listener was last told of a plugin: it is told changes, each once and in order. A plugin is up when it has first said who it is, and
// when a process was started again after that; it is down when its process died, could not be started, or does not say who it is.
type health struct {
	tell func(state string, err error)
	died func() // when a process is gone that was there; nil: nobody asks

	mu    sync.Mutex
	state string
	known bool // was up once
}

func (h *health) set(state string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state == state {
		return
	}
	h.state = state
	h.known = h.known || state == up
	h.tell(state, err)
}

// started says that a process runs; a plugin that has never said who it is does so next.
func (h *health) started() {
	h.mu.Lock()
	known := h.known
	h.mu.Unlock()
	if known {
		h.set(up, nil)
	}
}
