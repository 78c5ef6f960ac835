// Package observing exports the ability to observe events of jobs.
package observing

import "fluxgate"

var observe = func(now float64, events []fluxgate.Event) {}

// With sets the function that gets events, in batches, before the pass that follows them.
func With(f func(now float64, events []fluxgate.Event)) { observe = f }
