// Package attributes has what is known of jobs beside what they ask for; attributes.wit beside the package fluxgate documents
// it. Attributes are told by users and never checked, and unknown for many jobs.
//
// It was added after the release of 0.1.0: a policy that imports this package does not run on older hosts.
package attributes

import (
	"fluxgate"
	"fluxgate/abi"
)

// Names of attributes. Others are unknown for every job.
const (
	Memory      = "memory"      // of the whole job, in bytes
	Group       = "group"       // the group or bank that it belongs to or is charged to
	Application = "application" // its program, or the number of it in a log
	Name        = "name"        // what its user calls it
)

// Text is a text, if it is known.
type Text struct {
	Known bool
	Value string
}

// Asked is what a [fluxgate.Pass] of a test may have beside its methods. One without it knows none.
type Asked interface {
	AttributeTexts(name string, candidates []fluxgate.Candidate) []Text
	AttributeNumbers(name string, candidates []fluxgate.Candidate) []float64
}

// Texts has the attribute of each of these candidates as text.
func Texts(pass fluxgate.Pass, name string, candidates []fluxgate.Candidate) (texts []Text) {
	asked := of(pass)
	abi.Chunks(candidates, fluxgate.JobsMax, func(some []fluxgate.Candidate) {
		texts = append(texts, asked.AttributeTexts(name, some)...)
	})
	return texts
}

// Numbers has it as numbers: NaN where it is unknown, or a text that is no finite number.
func Numbers(pass fluxgate.Pass, name string, candidates []fluxgate.Candidate) (numbers []float64) {
	asked := of(pass)
	abi.Chunks(candidates, fluxgate.JobsMax, func(some []fluxgate.Candidate) {
		numbers = append(numbers, asked.AttributeNumbers(name, some)...)
	})
	return numbers
}

func of(pass fluxgate.Pass) Asked {
	if asked, ok := pass.(Asked); ok {
		return asked
	}
	return host{}
}
