// Package resources has the questions about resources beside nodes, cores and gpus, such as storage, memory and licences;
// resources.wit beside the package fluxgate documents them.
//
// The host allocates and keeps each pool. This package is for policies with further rules: storage that stays free, or jobs
// with much memory before others. Amounts are whole numbers of a kind's unit.
//
// It was added after the release of 0.1.0: a policy that imports this package does not run on older hosts.
package resources

import (
	"fluxgate"
	"fluxgate/abi"
)

// Kind is all pools of one type that count in one unit.
type Kind struct {
	// Name is the type in a jobspec, such as ssd; Unit is empty for what is counted one by one.
	Name, Unit string
	// Total has the units of all pools, Free those of pools that are up and that no job holds, with the decisions that are
	// staged.
	Total, Free uint64
}

// Asked is what a [fluxgate.Pass] of a test may have beside its methods. One without it has no such resources.
type Asked interface {
	ResourceKinds() []Kind
	// ResourcesAsked has an amount of each kind for the first candidate, then for the second, and so on.
	ResourcesAsked(candidates []fluxgate.Candidate) []uint64
}

// Kinds has all kinds, none on a machine without such resources.
func Kinds(pass fluxgate.Pass) []Kind { return of(pass).ResourceKinds() }

// Amounts has, for each of these candidates, the least that it takes of each kind, in the order of Kinds.
func Amounts(pass fluxgate.Pass, candidates []fluxgate.Candidate) [][]uint64 {
	return abi.Rows(candidates, fluxgate.JobsMax, of(pass).ResourcesAsked)
}

func of(pass fluxgate.Pass) Asked {
	if asked, ok := pass.(Asked); ok {
		return asked
	}
	return host{}
}
