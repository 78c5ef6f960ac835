//go:build wasm

package fluxgate

import "fluxgate/abi"

// As the canonical ABI lays them out.
type (
	abiText        struct{ at, length uint32 }
	abiKey         struct {
		name          abiText
		kind          uint8
		initial, help abiText
	}
	abiDescription struct{ name, version, summary, keys abiText }
	abiSetting     struct{ name, value abiText }
)

func keep(text string) abiText {
	at, length := abi.KeepString(text)
	return abiText{at, length}
}

var (
	described     abiDescription
	describedKeys []abiKey
)

//go:wasmexport fluxgate:policy/policy@0.1.0#describe
func exportDescribe() uint32 {
	abi.Forget()
	describedKeys = make([]abiKey, 1, len(description.Keys)+1)[:0]
	for _, key := range description.Keys {
		describedKeys = append(describedKeys, abiKey{keep(key.Name), uint8(key.Kind), keep(key.Default), keep(key.Help)})
	}
	keys := abiText{abi.Address(&describedKeys[:1][0]), uint32(len(describedKeys))}
	described = abiDescription{keep(description.Name), keep(description.Version), keep(description.Summary), keys}
	return abi.Address(&described)
}

//go:wasmexport fluxgate:policy/policy@0.1.0#configure
func exportConfigure(at, length uint32) uint32 {
	abi.Forget()
	settings := Settings{}
	for _, each := range abi.Take[abiSetting](at, length) {
		name := abi.TakeString(each.name.at, each.name.length)
		settings[name] = abi.TakeString(each.value.at, each.value.length)
	}
	return abi.Answer(configure(settings))
}
