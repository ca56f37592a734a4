package circom

import (
	"encoding/binary"
	"fmt"

	"github.com/weir-zk/weir/sdk/errs"
)

// What must be known of a WebAssembly module before it is compiled: how much memory it will want. Source: WebAssembly Core Specification 1.0, chapter 5.

const (
	wasmPage = 1 << 16
	// maxPages is the address space of WebAssembly: 4 GiB.
	maxPages = 1 << 16

	secImport = 2
	secMemory = 5
	secData   = 11

	externFunc, externTable, externMemory, externGlobal = 0, 1, 2, 3
)

// wasmMemory is what a module says about its one memory.
type wasmMemory struct {
	imported bool   // as env.memory: circom 1
	pages    uint32 // least size, in pages of 64 KiB
	free     uint32 // imported: the word at address 0, where circom 1 keeps the first address behind its data
}

// wasmReader reads a module's bytes; after a read beyond the end everything is zero and bad is set.
type wasmReader struct {
	b   []byte
	bad bool
}

func (r *wasmReader) byte() byte {
	if len(r.b) == 0 {
		r.bad = true
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

// u32 is an unsigned LEB128 number.
func (r *wasmReader) u32() uint32 {
	var v uint64
	for shift := 0; shift < 35; shift += 7 {
		c := r.byte()
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			if v > 1<<32-1 {
				r.bad = true
			}
			return uint32(v)
		}
	}
	r.bad = true
	return 0
}

func (r *wasmReader) bytes(n uint32) []byte {
	if uint64(n) > uint64(len(r.b)) {
		r.bad = true
		r.b = nil
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

// limits are flags, least, and most when flag 1 is set.
func (r *wasmReader) limits() uint32 {
	flags := r.byte()
	least := r.u32()
	if flags&1 != 0 {
		r.u32()
	}
	return least
}

// readWasmMemory finds the memory of a module. It reads only sections that it must; the compiler checks the rest.
func readWasmMemory(code []byte) (m wasmMemory, err error) {
	bad := func(where string, expected, found any) (wasmMemory, error) {
		return m, errs.Mismatch(errs.InvalidFile, "read program", where, expected, found).WithHint("the program is the .wasm that circom --wasm writes")
	}
	if len(code) < 8 || string(code[:4]) != wasmMagic {
		return bad("offset 0", "a WebAssembly module", "another file")
	}
	if v := binary.LittleEndian.Uint32(code[4:]); v != 1 {
		return bad("offset 4", "version 1", v)
	}
	found := false
	for r := (wasmReader{b: code[8:]}); len(r.b) > 0; {
		offset := len(code) - len(r.b)
		id := r.byte()
		sec := wasmReader{b: r.bytes(r.u32())}
		if r.bad {
			return bad(fmt.Sprintf("section %d, offset %d", id, offset), "a section that ends in the file", "the end of the file")
		}
		switch id {
		case secImport:
			for range sec.u32() {
				sec.bytes(sec.u32())
				sec.bytes(sec.u32())
				switch kind := sec.byte(); kind {
				case externFunc:
					sec.u32()
				case externTable:
					sec.byte()
					sec.limits()
				case externMemory:
					m.imported, found = true, true
					m.pages = sec.limits()
				case externGlobal:
					sec.byte()
					sec.byte()
				default:
					sec.bad = true
				}
				if sec.bad {
					break
				}
			}
		case secMemory:
			if sec.u32() > 0 {
				found = true
				m.pages = sec.limits()
			}
		case secData:
			m.free = firstWord(sec)
			sec.bad = false // data of a kind that circom does not write is the compiler's to judge
		}
		if sec.bad {
			return bad(fmt.Sprintf("section %d, offset %d", id, offset), "imports and memories as WebAssembly 1.0 has them", "something else")
		}
	}
	if !found {
		return bad("memory", "a memory", "none")
	}
	if m.pages > maxPages {
		return bad("memory", fmt.Sprintf("at most %d pages", maxPages), m.pages)
	}
	return m, nil
}

// firstWord is the 32-bit word that the data segments put at address 0, or 0.
func firstWord(sec wasmReader) uint32 {
	var word [4]byte
	for range sec.u32() {
		const i32Const, end = 0x41, 0x0b
		if sec.u32() != 0 || sec.byte() != i32Const { // an active segment at a constant address
			break
		}
		at := sec.u32() // signed in truth; below 64, which is all that matters here, the two agree
		if sec.byte() != end {
			break
		}
		data := sec.bytes(sec.u32())
		if sec.bad {
			break
		}
		if at < 4 {
			copy(word[at:], data)
		}
	}
	return binary.LittleEndian.Uint32(word[:])
}

// memoryModule is a module that does nothing but export a memory of exactly so many pages under the name "memory": what wazero's host modules
// cannot do, and programs of circom 1 import from "env".
func memoryModule(pages uint32) []byte {
	leb := func(b []byte, v uint32) []byte { return binary.AppendUvarint(b, uint64(v)) } // the same encoding
	memory := leb(leb([]byte{1, 1}, pages), pages)                                       // one memory, with a bound
	export := append([]byte{1, byte(len("memory"))}, "memory"...)
	export = append(export, externMemory, 0)
	b := append([]byte(wasmMagic), 1, 0, 0, 0)
	b = append(b, secMemory, byte(len(memory)))
	b = append(b, memory...)
	b = append(b, 7, byte(len(export)))
	return append(b, export...)
}
