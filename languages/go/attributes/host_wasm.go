package attributes

import (
	"unsafe"

	"fluxgate"
	"fluxgate/abi"
)

type host struct{}

// Where the host puts answers: a variable of the package, because a stack may move.
var list abi.List

func (host) AttributeTexts(name string, candidates []fluxgate.Candidate) []Text {
	abiTexts(unsafe.Pointer(unsafe.StringData(name)), uint32(len(name)), abi.Pointer(candidates), uint32(len(candidates)),
		unsafe.Pointer(&list))
	var texts []Text
	for _, each := range abi.TakeList[struct {
		known bool
		text  abi.List
	}](list) {
		text := Text{Known: each.known}
		if each.known {
			text.Value = each.text.Text()
		}
		texts = append(texts, text)
	}
	return texts
}

func (host) AttributeNumbers(name string, candidates []fluxgate.Candidate) []float64 {
	abiNumbers(unsafe.Pointer(unsafe.StringData(name)), uint32(len(name)), abi.Pointer(candidates), uint32(len(candidates)),
		unsafe.Pointer(&list))
	return abi.TakeList[float64](list)
}

//go:wasmimport fluxgate:policy/attributes@0.1.0 text
func abiTexts(name unsafe.Pointer, nameLength uint32, at unsafe.Pointer, length uint32, answer unsafe.Pointer)

//go:wasmimport fluxgate:policy/attributes@0.1.0 numbers
func abiNumbers(name unsafe.Pointer, nameLength uint32, at unsafe.Pointer, length uint32, answer unsafe.Pointer)
