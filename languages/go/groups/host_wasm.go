package groups

import (
	"unsafe"

	"fluxgate"
	"fluxgate/abi"
)

type host struct{}

// Where the host puts answers: variables of the package, because a stack may move.
var (
	list    abi.List
	changed struct {
		all   bool
		heads abi.List
	}
	next struct {
		some bool
		row  fluxgate.Row
	}
)

func (host) GroupHeads(wanted Wanted, after *fluxgate.Candidate) []fluxgate.Row {
	var some, candidate uint32
	if after != nil {
		some, candidate = 1, uint32(*after)
	}
	abiHeads(flag(wanted.ByCores), flag(wanted.Fitting), some, candidate, unsafe.Pointer(&list))
	return abi.TakeList[fluxgate.Row](list)
}

func (host) ChangedGroups(byCores bool) Changes {
	abiChanged(flag(byCores), unsafe.Pointer(&changed))
	return Changes{All: changed.all, Heads: abi.TakeList[Head](changed.heads)}
}

func (host) NextInGroup(candidate fluxgate.Candidate, fitting bool) (fluxgate.Row, bool) {
	abiNext(uint32(candidate), flag(fitting), unsafe.Pointer(&next))
	return next.row, next.some
}

func flag(set bool) uint32 {
	if set {
		return 1
	}
	return 0
}

//go:wasmimport fluxgate:policy/groups@0.1.0 heads
func abiHeads(byCores, fitting, some, after uint32, answer unsafe.Pointer)

//go:wasmimport fluxgate:policy/groups@0.1.0 changed
func abiChanged(byCores uint32, answer unsafe.Pointer)

//go:wasmimport fluxgate:policy/groups@0.1.0 next
func abiNext(candidate, fitting uint32, answer unsafe.Pointer)
