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

// First is the first candidate of a group.
type First struct {
	// Some is false for a group that has no candidate any more.
	Some bool
	Row  fluxgate.Row
}

// Head is the first candidate of the group of this number. The number of a group without candidates is given to another one.
type Head struct {
	Group uint32
	First First
}

// Changes is an answer of ChangedGroups.
type Changes struct {
	// All says that earlier answers do not hold any more.
	All   bool
	Heads []Head
}

// Kept has the first candidates of the groups of each queue, so that a pass is told only of those that changed since the last one.
type Kept struct {
	queues map[uint32][]First
}

// Heads has the first candidate of each group that has one. To be called before the first start or reservation of a pass.
func (kept *Kept) Heads(pass fluxgate.Pass, byCores bool) []fluxgate.Row {
	if kept.queues == nil {
		kept.queues = map[uint32][]First{}
	}
	queue, asked := pass.Queue(), of(pass)
	groups := kept.queues[queue]
	for more := fluxgate.JobsMax; more == fluxgate.JobsMax; {
		changes := asked.ChangedGroups(byCores)
		if changes.All {
			groups = nil
		}
		for _, head := range changes.Heads {
			for uint32(len(groups)) <= head.Group {
				groups = append(groups, First{})
			}
			groups[head.Group] = head.First
		}
		more = len(changes.Heads)
	}
	kept.queues[queue] = groups
	var rows []fluxgate.Row
	for _, first := range groups {
		if first.Some {
			rows = append(rows, first.Row)
		}
	}
	return rows
}

// Asked is what a [fluxgate.Pass] of a test may have beside its methods. One without it has no groups.
type Asked interface {
	// GroupHeads has the first candidates of at most [fluxgate.JobsMax] groups: the first, or those after that of a
	// candidate.
	GroupHeads(wanted Wanted, after *fluxgate.Candidate) []fluxgate.Row
	// ChangedGroups has the groups whose first candidate is not that of the last answer, at most [fluxgate.JobsMax].
	ChangedGroups(byCores bool) Changes
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

// Next is the next candidate of the group of one that Heads, [Kept.Heads] or Next returned in this pass; false when no further
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
