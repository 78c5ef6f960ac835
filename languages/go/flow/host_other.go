//go:build !wasm

package flow

import (
	"math"

	"fluxgate"
)

// In place of the host, a pass without flow.
type host struct{}

func (host) FlowKinds() []Kind                                 { return nil }
func (host) FlowAsked([]fluxgate.Candidate) []uint64           { return nil }
func (host) FlowSpans(int) []Span                              { return nil }
func (host) EarliestAfter(fluxgate.Candidate, float64) float64 { return math.Inf(1) }
func (host) ReserveAfter(fluxgate.Candidate, float64) (float64, fluxgate.Refusal) {
	return 0, fluxgate.Busy
}
