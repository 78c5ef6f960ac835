// The policy `easy` in Go; the rule is in ../README.md, the same in Rust in ../src and guest-sdk/src/backfill.rs.
package main

import (
	"math"

	"fluxgate"
	"fluxgate/scheduling"
)

const (
	// Heads without any start time that are passed over in one pass.
	passedOverMax = 64
	depthMax      = 1000
)

// Number of waiting jobs that get a reservation in one pass.
var depth int64 = 1

func init() {
	fluxgate.Register(fluxgate.Description{
		Name:    "easy-go",
		Version: "0.1.0",
		Summary: "EASY backfilling in Go: what does not delay the first waiting job may start before it",
		Keys: []fluxgate.Key{
			{Name: "depth", Kind: fluxgate.Integer, Default: "1", Help: "how many waiting jobs have a reservation, 1 to 1000"},
		},
	}, configure)
	scheduling.With(run)
}

func configure(settings fluxgate.Settings) (err error) {
	depth, err = settings.Int("depth", 1, depthMax)
	return err
}

func run(pass fluxgate.Pass) {
	if !heads(pass) {
		return
	}
	for job, ok := pass.NextFitting(); ok; job, ok = pass.NextFitting() {
		if pass.Start(job) == fluxgate.Limit {
			return
		}
	}
}

// Until `depth` jobs have a reservation: start the next, else reserve its earliest start. False ends the pass.
func heads(pass fluxgate.Pass) bool {
	for reserved, passedOver := int64(0), 0; reserved < depth && passedOver < passedOverMax; {
		job, ok := pass.Next()
		if !ok {
			return false
		}
		switch pass.Start(job) {
		case fluxgate.Limit:
			return false
		case fluxgate.Busy, fluxgate.DelaysReservation:
			start, why := pass.Reserve(job)
			switch {
			case why == fluxgate.Limit:
				return true
			case why == fluxgate.OK && !math.IsInf(start, 0):
				reserved++
			default:
				passedOver++
			}
		}
	}
	return true
}

func main() {}
