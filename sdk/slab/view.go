package slab

import (
	"fmt"
	"reflect"
	"unsafe"

	"github.com/weir-zk/weir/sdk/errs"
)

// View returns b as elements of T without copying: T is a fixed-size type without pointers, such as uint64 or
// fr.Element. The length of b must be a multiple of T's size and its start aligned for T; a buffer from a pool, and any
// offset in it that is a multiple of T's size for T up to 4,096 bytes, is aligned. The host and its plugins run on one
// machine, so byte order is the machine's.
func View[T any](b []byte) ([]T, error) {
	t := reflect.TypeFor[T]()
	if !flat(t) {
		return nil, errs.New(errs.InvalidArgument, "view buffer", "type %v is not of fixed size and free of pointers", t)
	}
	size := int(t.Size())
	if size == 0 {
		return nil, errs.New(errs.InvalidArgument, "view buffer", "type %v has no size", t)
	}
	if len(b)%size != 0 {
		return nil, errs.Mismatch(errs.InvalidArgument, "view buffer", "", fmt.Sprintf("a multiple of %d bytes (%v)", size, t), len(b))
	}
	if len(b) == 0 {
		return []T{}, nil
	}
	p := unsafe.Pointer(unsafe.SliceData(b))
	if a := uintptr(t.Align()); uintptr(p)%a != 0 {
		return nil, errs.New(errs.InvalidArgument, "view buffer", "bytes are not aligned to %d for %v", a, t)
	}
	return unsafe.Slice((*T)(p), len(b)/size), nil
}

// BytesOf returns the memory of s without copying; T as in View. It is nil for types with pointers.
func BytesOf[T any](s []T) []byte {
	t := reflect.TypeFor[T]()
	if !flat(t) || len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(t.Size()))
}

func flat(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8,
		reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64:
		return true
	case reflect.Array:
		return flat(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if !flat(t.Field(i).Type) {
				return false
			}
		}
		return true
	}
	return false
}
