// my-policy orders the queue so that short jobs overtake, but not for ever: the key of a job is its time of submission
// plus `weight` times its requested duration. A job that has waited that much longer comes first again.
package main

import (
	"math"

	"fluxgate"
	// Importing an ability exports it. Others: fluxgate/scheduling, fluxgate/observing, fluxgate/state,
	// fluxgate/ranking.
	"fluxgate/ordering"
)

// Seconds of waiting that one second of duration is worth.
var weight = 1.0

func init() {
	fluxgate.Register(fluxgate.Description{
		Name:    "my-policy",
		Version: "0.1.0",
		Summary: "Short jobs first, but no job waits for ever",
		Keys: []fluxgate.Key{{
			Name: "weight", Kind: fluxgate.Float, Default: "1",
			Help: "seconds of waiting that one second of duration is worth, 0 or more",
		}},
	}, configure)
	ordering.By(keys)
}

func configure(settings fluxgate.Settings) (err error) {
	weight, err = settings.Float("weight", 0, math.MaxFloat64)
	return err
}

func keys(now float64, jobs fluxgate.Jobs) []float64 {
	keys := make([]float64, len(jobs.TSubmit))
	for i, submitted := range jobs.TSubmit {
		keys[i] = submitted
		// A job without limit has an infinite duration, and 0 times that is not a number.
		if weight != 0 {
			keys[i] += weight * jobs.Duration[i]
		}
	}
	return keys
}

func main() {}
