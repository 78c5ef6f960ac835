//go:build wasm

package fluxgate

import (
	"unsafe"

	"fluxgate/abi"
)

// Level of a log message.
type Level uint32

// From the most to the least urgent.
const (
	Error Level = iota
	Warn
	Info
	Debug
)

// Log writes a message to the host's log.
func Log(level Level, message string) {
	abiLog(uint32(level), unsafe.Pointer(unsafe.StringData(message)), uint32(len(message)))
}

// MachineTotals has the resources of the machine.
func MachineTotals() Totals {
	abiTotals(unsafe.Pointer(&totals))
	return totals
}

// QueueCount is the number of queues seen so far.
func QueueCount() uint32 { return abiQueueCount() }

// QueueName is the name of a queue, empty for the anonymous one.
func QueueName(index uint32) string {
	abiQueueName(index, unsafe.Pointer(&text))
	return abi.TakeString(text.at, text.length)
}

// Where the host puts answers: variables of the package, because a stack may move.
var (
	totals Totals
	text   abiText
	job    Job
	words  [2]uint64
)

// HostPass is the host's Pass.
type HostPass struct{}

const none = 4294967295

func (HostPass) Now() float64  { return abiNow() }
func (HostPass) Queue() uint32 { return abiQueue() }
func (HostPass) Next() (Candidate, bool) {
	next := abiNext()
	return Candidate(next), next != none
}
func (HostPass) NextFitting() (Candidate, bool) {
	next := abiNextFitting()
	return Candidate(next), next != none
}
func (HostPass) Rewind() { abiRewind() }
func (HostPass) Describe(c Candidate) Job {
	abiDescribe(uint32(c), unsafe.Pointer(&job))
	return job
}
func (HostPass) Fits(c Candidate) bool       { return abiFits(uint32(c)) != 0 }
func (HostPass) Earliest(c Candidate) float64 { return abiEarliest(uint32(c)) }
func (HostPass) Start(c Candidate) Refusal {
	abiStart(uint32(c), unsafe.Pointer(&words))
	return refusal(1)
}
func (HostPass) StartPlaced(c Candidate, placement uint32) Refusal {
	abiStartPlaced(uint32(c), placement, unsafe.Pointer(&words))
	return refusal(1)
}
func (HostPass) Reserve(c Candidate) (float64, Refusal) {
	abiReserve(uint32(c), unsafe.Pointer(&words))
	if why := refusal(8); why != OK {
		return 0, why
	}
	return *(*float64)(unsafe.Pointer(&words[1])), OK
}
func (HostPass) Placement(name string) (uint32, bool) {
	abiPlacement(unsafe.Pointer(unsafe.StringData(name)), uint32(len(name)), unsafe.Pointer(&words))
	return uint32(words[0] >> 32), words[0]&0xff != 0
}
func (HostPass) Annotate(c Candidate, key, json string) {
	abiAnnotate(uint32(c), unsafe.Pointer(unsafe.StringData(key)), uint32(len(key)),
		unsafe.Pointer(unsafe.StringData(json)), uint32(len(json)))
}
func (HostPass) Rekey(c Candidate)   { abiRekey(uint32(c)) }
func (HostPass) WakeAt(time float64) { abiWakeAt(time) }

// refusal reads a result: a byte for the case, and the refusal at this offset.
func refusal(offset int) Refusal {
	answer := (*[16]uint8)(unsafe.Pointer(&words))
	if answer[0] == 0 {
		return OK
	}
	return Busy + Refusal(answer[offset])
}

//go:wasmimport fluxgate:policy/log@0.1.0 write
func abiLog(level uint32, at unsafe.Pointer, length uint32)

//go:wasmimport fluxgate:policy/machine@0.1.0 totals
func abiTotals(answer unsafe.Pointer)

//go:wasmimport fluxgate:policy/machine@0.1.0 queue-count
func abiQueueCount() uint32

//go:wasmimport fluxgate:policy/machine@0.1.0 queue-name
func abiQueueName(index uint32, answer unsafe.Pointer)

//go:wasmimport fluxgate:policy/pass@0.1.0 now
func abiNow() float64

//go:wasmimport fluxgate:policy/pass@0.1.0 queue
func abiQueue() uint32

//go:wasmimport fluxgate:policy/pass@0.1.0 next
func abiNext() uint32

//go:wasmimport fluxgate:policy/pass@0.1.0 next-fitting
func abiNextFitting() uint32

//go:wasmimport fluxgate:policy/pass@0.1.0 rewind
func abiRewind()

//go:wasmimport fluxgate:policy/pass@0.1.0 describe
func abiDescribe(candidate uint32, answer unsafe.Pointer)

//go:wasmimport fluxgate:policy/pass@0.1.0 fits
func abiFits(candidate uint32) uint32

//go:wasmimport fluxgate:policy/pass@0.1.0 earliest
func abiEarliest(candidate uint32) float64

//go:wasmimport fluxgate:policy/pass@0.1.0 start
func abiStart(candidate uint32, answer unsafe.Pointer)

//go:wasmimport fluxgate:policy/pass@0.1.0 start-placed
func abiStartPlaced(candidate, placement uint32, answer unsafe.Pointer)

//go:wasmimport fluxgate:policy/pass@0.1.0 reserve
func abiReserve(candidate uint32, answer unsafe.Pointer)

//go:wasmimport fluxgate:policy/pass@0.1.0 placement
func abiPlacement(name unsafe.Pointer, length uint32, answer unsafe.Pointer)

//go:wasmimport fluxgate:policy/pass@0.1.0 annotate
func abiAnnotate(candidate uint32, key unsafe.Pointer, keyLength uint32, json unsafe.Pointer, jsonLength uint32)

//go:wasmimport fluxgate:policy/pass@0.1.0 rekey
func abiRekey(candidate uint32)

//go:wasmimport fluxgate:policy/pass@0.1.0 wake-at
func abiWakeAt(time float64)
