// Package groups has the candidates of a pass by group; groups.wit beside the package fluxgate documents it.
//
// The jobs of a group have one user and one priority, and come in the order of submission. So scores of which only the
// age differs within a group need not be computed for every job.
//
// It was added after the release of 0.1.0: a policy that imports this package does not run on older hosts.
package groups

import "fluxgate"

// Wanted says which candidates.
type Wanted struct {
	// ByCores gives the jobs of a group one number of fewest cores, beside one user and one priority.
	ByCores bool
	// Fitting leaves out candidates that cannot start now, as far as the host knows.
	Fitting bool
}

// Asked is what a [fluxgate.Pass] of a test may have beside its methods. One without it has no groups.
type Asked interface {
	// GroupHeads has the first candidates of at most [fluxgate.JobsMax] groups: the first, or those after that of a
	// candidate.
	GroupHeads(wanted Wanted, after *fluxgate.Candidate) []fluxgate.Row
	NextInGroup(candidate fluxgate.Candidate, fitting bool) (fluxgate.Row, bool)
}

// Heads has the first candidate of each group that has one. Started and reserved jobs are left out. The cursor of
// the pass stays where it is.
func Heads(pass fluxgate.Pass, wanted Wanted) []fluxgate.Row {
	asked := of(pass)
	all := asked.GroupHeads(wanted, nil)
	for more := len(all); more == fluxgate.JobsMax; {
		rows := asked.GroupHeads(wanted, &all[len(all)-1].Candidate)
		all, more = append(all, rows...), len(rows)
	}
	return all
}

// Next is the next candidate of the group of one that Heads or Next returned in this pass; false when no further
// candidate is in it.
func Next(pass fluxgate.Pass, candidate fluxgate.Candidate, fitting bool) (fluxgate.Row, bool) {
	return of(pass).NextInGroup(candidate, fitting)
}

func of(pass fluxgate.Pass) Asked {
	if asked, ok := pass.(Asked); ok {
		return asked
	}
	return host{}
}
