package flow

import (
	"unsafe"

	"fluxgate"
	"fluxgate/abi"
)

type host struct{}

// Where the host puts answers: variables of the package, because a stack may move.
var (
	list     abi.List
	reserved struct {
		failed bool
		// The start; or the refusal, in its first byte.
		start float64
	}
)

func (host) FlowKinds() []Kind {
	abiKinds(unsafe.Pointer(&list))
	var kinds []Kind
	for _, stock := range abi.TakeStocks(list) {
		kinds = append(kinds, Kind(stock))
	}
	return kinds
}

func (host) FlowAsked(candidates []fluxgate.Candidate) []uint64 {
	abiAsked(abi.Pointer(candidates), uint32(len(candidates)), unsafe.Pointer(&list))
	return abi.TakeList[uint64](list)
}

func (host) FlowSpans(kind int) []Span {
	abiSpans(uint32(kind), unsafe.Pointer(&list))
	return abi.TakeList[Span](list)
}

func (host) EarliestAfter(candidate fluxgate.Candidate, time float64) float64 {
	return abiEarliestAfter(uint32(candidate), time)
}

func (host) ReserveAfter(candidate fluxgate.Candidate, time float64) (float64, fluxgate.Refusal) {
	abiReserveAfter(uint32(candidate), time, unsafe.Pointer(&reserved))
	if reserved.failed {
		return 0, fluxgate.Busy + fluxgate.Refusal(*(*uint8)(unsafe.Pointer(&reserved.start)))
	}
	return reserved.start, fluxgate.OK
}

//go:wasmimport fluxgate:policy/flow@0.1.0 kinds
func abiKinds(answer unsafe.Pointer)

//go:wasmimport fluxgate:policy/flow@0.1.0 asked
func abiAsked(at unsafe.Pointer, length uint32, answer unsafe.Pointer)

//go:wasmimport fluxgate:policy/flow@0.1.0 spans
func abiSpans(kind uint32, answer unsafe.Pointer)

//go:wasmimport fluxgate:policy/flow@0.1.0 earliest-after
func abiEarliestAfter(candidate uint32, time float64) float64

//go:wasmimport fluxgate:policy/flow@0.1.0 reserve-after
func abiReserveAfter(candidate uint32, time float64, answer unsafe.Pointer)
