// Package flow has the questions about what flows to nodes beside their cores, such as power or bandwidth; flow.wit beside
// the package fluxgate documents them.
//
// The host keeps every pool within its capacity. This package is for policies with further rules: a budget below the
// capacity, or a mix of jobs. Amounts are whole numbers of a kind's unit.
//
// It was added after the release of 0.1.0: a policy that imports this package does not run on older hosts.
package flow

import (
	"fluxgate"
	"fluxgate/abi"
)

// Kind is one kind of flow.
type Kind struct {
	// Name is that in a jobspec; Unit is W, B/s or b/s, never with a prefix, or the site's own.
	Name, Unit string
	// Total is what all its sources carry, Free the part of it that no job holds, with the decisions that are staged.
	Total, Free uint64
}

// Span is an amount over a time. Start is -Inf for what is held now; End may be +Inf.
type Span struct {
	Start, End float64
	Amount     uint64
}

// Asked is what a [fluxgate.Pass] of a test may have beside its methods. In one without it nothing flows.
type Asked interface {
	FlowKinds() []Kind
	// FlowAsked has an amount of each kind for the first candidate, then for the second, and so on.
	FlowAsked(candidates []fluxgate.Candidate) []uint64
	FlowSpans(kind int) []Span
	EarliestAfter(candidate fluxgate.Candidate, time float64) float64
	ReserveAfter(candidate fluxgate.Candidate, time float64) (float64, fluxgate.Refusal)
}

// Kinds has all kinds, none where nothing flows. The other functions name a kind by its place in this list.
func Kinds(pass fluxgate.Pass) []Kind { return of(pass).FlowKinds() }

// Amounts has, for each of these candidates, the least that it takes of each kind.
func Amounts(pass fluxgate.Pass, candidates []fluxgate.Candidate) [][]uint64 {
	return abi.Rows(candidates, fluxgate.JobsMax, of(pass).FlowAsked)
}

// Spans has what is held and what has been reserved of a kind, in all queues and in this pass: first what is held, by end,
// then reservations by start.
func Spans(pass fluxgate.Pass, kind int) []Span { return of(pass).FlowSpans(kind) }

// EarliestAfter is Earliest of the pass for a start at this time or later. NaN is a breach of the contract.
func EarliestAfter(pass fluxgate.Pass, candidate fluxgate.Candidate, time float64) float64 {
	return of(pass).EarliestAfter(candidate, time)
}

// ReserveAfter is Reserve of the pass for a start at this time or later. NaN is a breach of the contract.
func ReserveAfter(pass fluxgate.Pass, candidate fluxgate.Candidate, time float64) (float64, fluxgate.Refusal) {
	return of(pass).ReserveAfter(candidate, time)
}

func of(pass fluxgate.Pass) Asked {
	if asked, ok := pass.(Asked); ok {
		return asked
	}
	return host{}
}
