// Package many has the questions about many candidates at once; many.wit beside the package fluxgate documents them.
//
// They were added after the release of 0.1.0: a policy that imports this package does not run on older hosts.
package many

import "fluxgate"

// Asked is what a [fluxgate.Pass] of a test may have beside its methods. One without it is asked about each candidate.
type Asked interface {
	NextMany(most int) []fluxgate.Row
	StartOrReserve(candidates []fluxgate.Candidate) []float64
}

// Next has the next candidates, as Next and Describe of the pass would give them one at a time, from the same cursor:
// at most most of them, and at most [fluxgate.JobsMax]. There are fewer only when none is left.
func Next(pass fluxgate.Pass, most int) []fluxgate.Row { return of(pass).NextMany(most) }

// StartOrReserve starts each candidate in turn, and reserves the earliest start of one that has to wait. An answer is -Inf for a
// start, the reserved start, or NaN if neither was possible. Answers end before the first that is refused with
// [fluxgate.Limit], and at [fluxgate.JobsMax].
func StartOrReserve(pass fluxgate.Pass, candidates []fluxgate.Candidate) []float64 {
	return of(pass).StartOrReserve(candidates)
}

func of(pass fluxgate.Pass) Asked {
	if asked, ok := pass.(Asked); ok {
		return asked
	}
	return host{pass}
}
