//go:build wasm

package abi

import "unsafe"

// Memory that the host allocated and no call has taken yet; the reference here keeps it from being collected.
var given = map[uintptr][]uint64{}

// realloc allocates memory for the host's values. No alignment in the contract is above 8.
//
//go:wasmexport cabi_realloc
func realloc(old, oldBytes, align, bytes uint32) uint32 {
	if bytes == 0 {
		return align
	}
	made := make([]uint64, (bytes+7)/8)
	at := uintptr(unsafe.Pointer(&made[0]))
	if oldBytes > 0 {
		copy(bytesOf(made), bytesOf(given[uintptr(old)])[:oldBytes])
		delete(given, uintptr(old))
	}
	given[at] = made
	return uint32(at)
}

func bytesOf(words []uint64) []byte {
	if len(words) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 8*len(words))
}

// Take returns the host's data at an address, as a slice that the caller owns.
func Take[T any](at, length uint32) []T {
	if length == 0 {
		return nil
	}
	words := given[uintptr(at)]
	delete(given, uintptr(at))
	return unsafe.Slice((*T)(unsafe.Pointer(&words[0])), length)
}

// TakeString is Take for text.
func TakeString(at, length uint32) string { return string(Take[byte](at, length)) }

// List is a list in memory.
type List struct{ At, Length uint32 }

// Text is Take for a list of bytes.
func (l List) Text() string { return TakeString(l.At, l.Length) }

// TakeList is Take for a list.
func TakeList[T any](l List) []T { return Take[T](l.At, l.Length) }

// Pointer returns the address of a slice's data, for an import.
func Pointer[T any](slice []T) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(slice)) }

// Stock is a kind of flow or of resources.
type Stock struct {
	Name, Unit  string
	Total, Free uint64
}

// TakeStocks is Take for such kinds.
func TakeStocks(l List) []Stock {
	var stocks []Stock
	for _, each := range TakeList[struct {
		name, unit  List
		total, free uint64
	}](l) {
		stocks = append(stocks, Stock{each.name.Text(), each.unit.Text(), each.total, each.free})
	}
	return stocks
}

// The answers of the export called last; what they point to must live until the host has read it.
var kept [][]byte

// Forget drops the answers before this one.
func Forget() { kept = kept[:0] }

// Keep returns the address of some bytes; they live until Forget.
func Keep(bytes []byte) (at, length uint32) {
	if len(bytes) == 0 {
		return 1, 0
	}
	kept = append(kept, bytes)
	return Address(&bytes[0]), uint32(len(bytes))
}

// KeepString is Keep for text.
func KeepString(text string) (at, length uint32) { return Keep([]byte(text)) }

// Address returns the address of a value, which a variable of a package or Keep must hold.
func Address[T any](value *T) uint32 { return uint32(uintptr(unsafe.Pointer(value))) }

// Result is a `result<_, string>` in memory.
type Result struct{ failed, at, length uint32 }

var result Result

// Answer returns the address of a result: the error, or nil.
func Answer(err error) uint32 {
	result = Result{}
	if err != nil {
		result.failed = 1
		result.at, result.length = KeepString(err.Error())
	}
	return Address(&result)
}
