package ordering

import (
	"unsafe"

	"fluxgate"
	"fluxgate/abi"
)

type column struct{ at, length uint32 }

// More than 16 numbers cross in memory.
type arguments struct {
	now     float64
	columns [9]column
}

var (
	answer column
	given  []float64
)

//go:wasmexport fluxgate:policy/ordering@0.1.0#keys
func exportKeys(at uint32) uint32 {
	a := abi.Take[arguments](at, 1)[0]
	whole := func(i int) []uint32 { return abi.Take[uint32](a.columns[i].at, a.columns[i].length) }
	given = keys(a.now, fluxgate.Jobs{
		ID:       abi.Take[fluxgate.JobID](a.columns[0].at, a.columns[0].length),
		TSubmit:  abi.Take[float64](a.columns[1].at, a.columns[1].length),
		Duration: abi.Take[float64](a.columns[2].at, a.columns[2].length),
		Priority: whole(3), UserID: whole(4), Queue: whole(5), Nodes: whole(6), Cores: whole(7), GPUs: whole(8),
	})
	answer = column{8, uint32(len(given))}
	if len(given) > 0 {
		answer.at = uint32(uintptr(unsafe.Pointer(&given[0])))
	}
	return abi.Address(&answer)
}
