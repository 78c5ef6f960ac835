package state

import "fluxgate/abi"

var saved struct{ version, at, length uint32 }

//go:wasmexport fluxgate:policy/state@0.1.0#save
func exportSave() uint32 {
	abi.Forget()
	version, data := save()
	saved.version = version
	saved.at, saved.length = abi.Keep(data)
	return abi.Address(&saved)
}

//go:wasmexport fluxgate:policy/state@0.1.0#restore
func exportRestore(from, fromLength, version, data, dataLength uint32) uint32 {
	abi.Forget()
	name := abi.TakeString(from, fromLength)
	return abi.Answer(restore(name, version, abi.Take[byte](data, dataLength)))
}
