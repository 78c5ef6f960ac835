// Package fluxgate is for scheduling policies in Go.
//
// SPDX-License-Identifier: Apache-2.0
//
// It is the contract fluxgate:policy@0.1.0 for Go without WASI; policy.wit beside it documents each question.
// Times and durations are seconds, a time counts from the UNIX epoch. There is no file, no network and no
// randomness, and the clock stands still.
//
// A policy's main package calls [Register] in init, and one function of each ability it has: [fluxgate/ordering].By,
// [fluxgate/scheduling].With, [fluxgate/observing].With, [fluxgate/state].With, [fluxgate/ranking].By. Importing the
// package of an ability is what exports it, so import only the abilities of the policy.
//
// What the contract gained after the release of 0.1.0 is in packages of its own: fluxgate/many, fluxgate/groups,
// fluxgate/flow, fluxgate/resources and fluxgate/attributes. A policy that imports none of them runs on hosts without them.
//
// A test is an ordinary `go test` with a [Pass] of its own.
package fluxgate

import (
	"fmt"
	"strconv"
)

// JobID is an RFC 19 FLUID.
type JobID uint64

// Candidate is a job that may be started in this pass; it is valid only within it.
type Candidate uint32

// Job has the scalars of a candidate. A duration of +Inf means no limit.
type Job struct {
	ID                                     JobID
	TSubmit, Duration                      float64
	Priority, UserID, Nodes, Cores, GPUs   uint32
}

// Row is a candidate with what it asks for.
type Row struct {
	Candidate Candidate
	Job       Job
}

// JobsMax is the number of candidates in one question at most.
const JobsMax = 4096

// Jobs is a batch of jobs, a slice for each field; row i is job i. The slices are the policy's during the call only.
type Jobs struct {
	ID                                          []JobID
	TSubmit, Duration                           []float64
	Priority, UserID, Queue, Nodes, Cores, GPUs []uint32
}

// Totals has the resources of the machine and the free ones.
type Totals struct {
	Nodes, Cores, GPUs             uint32
	FreeNodes, FreeCores, FreeGPUs uint32
	Running, Pending               uint32
}

// Refusal is the reason why the host refused a proposal; OK is none.
type Refusal uint8

// None of these is a breach of the contract.
const (
	OK                 Refusal = iota
	Busy                       // does not fit on the free resources
	DelaysReservation          // would fit, but would delay a reservation
	Unsatisfiable              // no resources of this machine could ever satisfy it
	NotEligible                // its queue is stopped, or it left the queue during this pass
	Limit                      // a bound of the host is reached: end the pass
)

// Pass is one pass over a queue.
type Pass interface {
	// Now is the time of the pass; it does not advance.
	Now() float64
	// Queue is the queue of the pass.
	Queue() uint32
	// Next is the next candidate in order; false when none is left.
	Next() (Candidate, bool)
	// NextFitting is Next without candidates that cannot start now, as far as the host knows.
	NextFitting() (Candidate, bool)
	// Rewind puts the cursor before the first candidate. Started and reserved jobs are not offered again.
	Rewind()
	// Describe has the scalars of a candidate.
	Describe(Candidate) Job
	// Fits says whether it could start now without delaying a reservation.
	Fits(Candidate) bool
	// Earliest is its earliest start: Now if it fits now, +Inf if never.
	Earliest(Candidate) float64
	// Start starts it now.
	Start(Candidate) Refusal
	// StartPlaced starts it now, with a preference from Placement.
	StartPlaced(Candidate, uint32) Refusal
	// Reserve reserves its earliest start, which is returned with OK.
	Reserve(Candidate) (float64, Refusal)
	// Placement is the number of a placement preference; false when the host does not support it.
	Placement(name string) (uint32, bool)
	// Annotate attaches an annotation; json "null" removes it.
	Annotate(c Candidate, key, json string)
	// Rekey asks for the key of the candidate again before the next pass.
	Rekey(Candidate)
	// WakeAt asks for a pass at this time.
	WakeAt(time float64)
}

// EventKind is the kind of an event.
type EventKind uint8

// See policy.wit for the meaning of Value with each.
const (
	Pending EventKind = iota
	Started
	Ended
	Removed
	Priority
	Expiration
)

// Event is an event of a job.
type Event struct {
	Kind  EventKind
	Job   JobID
	Time  float64
	Value float64
}

// Kind is the kind of a setting.
type Kind uint8

// The host checks values against these.
const (
	Boolean Kind = iota
	Integer
	Float
	Duration
	Text
)

// Key is a setting of the policy.
type Key struct {
	Name    string
	Kind    Kind
	Default string
	Help    string
}

// Description is a policy's description of itself.
type Description struct {
	Name, Version, Summary string
	Keys                   []Key
}

// Settings has a value for every key, by name.
type Settings map[string]string

// Int is an integer between two bounds.
func (s Settings) Int(name string, least, most int64) (int64, error) {
	value, err := strconv.ParseInt(s[name], 10, 64)
	if err != nil || value < least || value > most {
		return 0, fmt.Errorf("`%s` is %s, but must be between %d and %d", name, s[name], least, most)
	}
	return value, nil
}

// Float is a number between two bounds.
func (s Settings) Float(name string, least, most float64) (float64, error) {
	value, err := strconv.ParseFloat(s[name], 64)
	if err != nil || !(value >= least && value <= most) {
		return 0, fmt.Errorf("`%s` is %s, but must be between %g and %g", name, s[name], least, most)
	}
	return value, nil
}

// Bool is true or false.
func (s Settings) Bool(name string) bool { return s[name] == "true" }

var (
	description Description
	configure   = func(Settings) error { return nil }
)

// Register sets the policy's description and the function that takes its settings; nil without settings.
func Register(d Description, c func(Settings) error) {
	description = d
	if c != nil {
		configure = c
	}
}
