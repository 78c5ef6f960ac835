//go:build !wasm

package many

import (
	"math"

	"fluxgate"
)

// In place of the host, a pass that is asked about each candidate.
type host struct{ fluxgate.Pass }

func (h host) NextMany(most int) []fluxgate.Row {
	var rows []fluxgate.Row
	for len(rows) < min(most, fluxgate.JobsMax) {
		candidate, ok := h.Next()
		if !ok {
			break
		}
		rows = append(rows, fluxgate.Row{Candidate: candidate, Job: h.Describe(candidate)})
	}
	return rows
}

func (host) Renew(int) ([]Renewed, bool) { return nil, false }

func (h host) Backfill(reservations, unknown int, _ bool) bool {
	if !h.StartOrReserveNext(reservations, unknown) {
		return reservations == 0
	}
	for {
		candidate, ok := h.NextFitting()
		if !ok {
			return true
		}
		if h.Start(candidate) == fluxgate.Limit {
			return false
		}
	}
}

func (h host) StartOrReserveNext(reservations, unknown int) bool {
	for left := reservations; (left > 0 || reservations == 0) && unknown > 0; {
		candidate, ok := h.Next()
		if !ok {
			return false
		}
		why := h.Start(candidate)
		waits := why == fluxgate.Busy || why == fluxgate.DelaysReservation
		switch {
		case waits && reservations == 0:
			return false
		case waits:
			switch _, why := h.Reserve(candidate); why {
			case fluxgate.OK:
				left--
			case fluxgate.Limit:
				return true
			default:
				unknown--
			}
		case why == fluxgate.Limit:
			return false
		}
	}
	return true
}

func (h host) StartOrReserve(candidates []fluxgate.Candidate) []float64 {
	var starts []float64
	for _, candidate := range candidates[:min(len(candidates), fluxgate.JobsMax)] {
		why, start := h.Start(candidate), math.Inf(-1)
		if why == fluxgate.Busy || why == fluxgate.DelaysReservation {
			start, why = h.Reserve(candidate)
		}
		switch why {
		case fluxgate.OK:
		case fluxgate.Limit:
			return starts
		default:
			start = math.NaN()
		}
		starts = append(starts, start)
	}
	return starts
}
