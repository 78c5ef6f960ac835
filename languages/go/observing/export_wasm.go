package observing

import (
	"fluxgate"
	"fluxgate/abi"
)

//go:wasmexport fluxgate:policy/observing@0.1.0#observe
func exportObserve(now float64, at, length uint32) {
	observe(now, abi.Take[fluxgate.Event](at, length))
}
