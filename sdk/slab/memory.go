//go:build !race

package slab

import "os"

// raceEnabled says that slabs are Go memory, which no other process can map.
const raceEnabled = false

// memory is the store of one slab.
type memory struct {
	data []byte
	file *os.File
}

func newMemory(name string, size int64, huge bool) (*memory, error) {
	f, err := createShared(name, size)
	if err != nil {
		return nil, err
	}
	data, err := mapShared(f, size, huge)
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return &memory{data: data, file: f}, nil
}

func (m *memory) close() error {
	data, f := m.data, m.file
	m.data, m.file = nil, nil
	err := unmap(data)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
