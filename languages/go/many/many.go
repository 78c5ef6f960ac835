// Package many has the questions about many candidates at once; many.wit beside the package fluxgate documents them.
//
// They were added after the release of 0.1.0: a policy that imports this package does not run on older hosts.
package many

import "fluxgate"

// Asked is what a [fluxgate.Pass] of a test may have beside its methods. One without it is asked about each candidate.
type Asked interface {
	NextMany(most int) []fluxgate.Row
	StartOrReserve(candidates []fluxgate.Candidate) []float64
	StartOrReserveNext(reservations, unknown int) bool
	Backfill(reservations, unknown int, holds bool) bool
	Renew(count int) ([]Renewed, bool)
}

// Renewed is what has become of a reservation of the last pass.
type Renewed struct {
	ID fluxgate.JobID
	// As in an answer of [StartOrReserve].
	Start float64
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

// StartOrReserveNext is StartOrReserve of what Next of the pass gives, until reservations of them have been given a reservation, or for
// unknown of them no start is known; with no reservations, until the first that has to wait. It is false if the pass is over: no
// candidate is left, a bound of the host is reached, or one has to wait where none gets a reservation.
func StartOrReserveNext(pass fluxgate.Pass, reservations, unknown int) bool {
	return of(pass).StartOrReserveNext(reservations, unknown)
}

// Backfill is a whole pass in the order of the queue: StartOrReserveNext, and if it is true Start of what NextFitting of the pass gives. It
// is false, with reservations, if a bound of the host is reached or no candidate is left for one. With holds, this policy asks nothing
// but the same in each later pass of this queue, whatever has happened: the host may ask it in place of a call, and leaves out a pass
// that only submissions require, if all decisions are the same without it.
func Backfill(pass fluxgate.Pass, reservations, unknown int, holds bool) bool {
	return of(pass).Backfill(reservations, unknown, holds)
}

// Renew makes the reservations of the last pass of this queue anew: StartOrReserve of each, in the order of their starts, and of
// equal starts in the order of the queue. It has those that have another start than before. It is false, and nothing is done, if
// this policy did not make them in that pass, if there are not count of them any more, after a question of this pass that depends
// on reservations, and wherever the host cannot tell.
func Renew(pass fluxgate.Pass, count int) ([]Renewed, bool) { return of(pass).Renew(count) }

func of(pass fluxgate.Pass) Asked {
	if asked, ok := pass.(Asked); ok {
		return asked
	}
	return host{pass}
}
