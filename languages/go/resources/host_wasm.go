package resources

import (
	"unsafe"

	"fluxgate"
	"fluxgate/abi"
)

type host struct{}

// Where the host puts answers: a variable of the package, because a stack may move.
var list abi.List

func (host) ResourceKinds() []Kind {
	abiKinds(unsafe.Pointer(&list))
	var kinds []Kind
	for _, stock := range abi.TakeStocks(list) {
		kinds = append(kinds, Kind(stock))
	}
	return kinds
}

func (host) ResourcesAsked(candidates []fluxgate.Candidate) []uint64 {
	abiAsked(abi.Pointer(candidates), uint32(len(candidates)), unsafe.Pointer(&list))
	return abi.TakeList[uint64](list)
}

//go:wasmimport fluxgate:policy/resources@0.1.0 kinds
func abiKinds(answer unsafe.Pointer)

//go:wasmimport fluxgate:policy/resources@0.1.0 asked
func abiAsked(at unsafe.Pointer, length uint32, answer unsafe.Pointer)
