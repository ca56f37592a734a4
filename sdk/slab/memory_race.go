//go:build race

package slab

import "os"

// raceEnabled says that slabs are Go memory, which no other process can map: the race detector watches only that.
const raceEnabled = true

type memory struct {
	data []byte
	file *os.File // always nil
}

func newMemory(_ string, size int64, _ bool) (*memory, error) {
	return &memory{data: make([]byte, size)}, nil
}

func (m *memory) close() error {
	m.data = nil
	return nil
}
