package many

import (
	"unsafe"

	"fluxgate"
	"fluxgate/abi"
)

type host struct{ fluxgate.Pass }

// Where the host puts answers: a variable of the package, because a stack may move.
var answer abi.List

func (host) NextMany(most int) []fluxgate.Row {
	abiNext(uint32(min(max(most, 0), fluxgate.JobsMax)), unsafe.Pointer(&answer))
	return abi.TakeList[fluxgate.Row](answer)
}

func (host) StartOrReserve(candidates []fluxgate.Candidate) []float64 {
	abiStartOrReserve(abi.Pointer(candidates), uint32(len(candidates)), unsafe.Pointer(&answer))
	return abi.TakeList[float64](answer)
}

func (host) StartOrReserveNext(reservations, unknown int) bool {
	return abiStartOrReserveNext(uint32(max(reservations, 0)), uint32(max(unknown, 0))) != 0
}

func (host) Backfill(reservations, unknown int, holds bool) bool {
	var flag uint32
	if holds {
		flag = 1
	}
	return abiBackfill(uint32(max(reservations, 0)), uint32(max(unknown, 0)), flag) != 0
}

// An option of a list.
var option struct {
	some uint8
	list abi.List
}

func (host) Renew(count int) ([]Renewed, bool) {
	abiRenew(uint32(max(count, 0)), unsafe.Pointer(&option))
	if option.some == 0 {
		return nil, false
	}
	return abi.TakeList[Renewed](option.list), true
}

//go:wasmimport fluxgate:policy/many@0.1.0 next
func abiNext(most uint32, answer unsafe.Pointer)

//go:wasmimport fluxgate:policy/many@0.1.0 start-or-reserve
func abiStartOrReserve(at unsafe.Pointer, length uint32, answer unsafe.Pointer)

//go:wasmimport fluxgate:policy/many@0.1.0 start-or-reserve-next
func abiStartOrReserveNext(reservations, unknown uint32) uint32

//go:wasmimport fluxgate:policy/many@0.1.0 backfill
func abiBackfill(reservations, unknown, holds uint32) uint32

//go:wasmimport fluxgate:policy/many@0.1.0 renew
func abiRenew(count uint32, answer unsafe.Pointer)
