package main

import (
	"math"
	"slices"
	"testing"

	"fluxgate"
	"fluxgate/many"
	"fluxgate/ranking"
)

// A pass of jobs that take cores for ever, with nothing beside what the contract had at first.
type pass struct {
	fluxgate.Pass
	cores   []uint32
	free    uint32
	at      int
	started []int
}

func (p *pass) Now() float64 { return 0 }
func (p *pass) Rewind()      { p.at = 0 }
func (p *pass) Next() (fluxgate.Candidate, bool) {
	for ; p.at < len(p.cores); p.at++ {
		if !slices.Contains(p.started, p.at) {
			p.at++
			return fluxgate.Candidate(p.at - 1), true
		}
	}
	return 0, false
}
func (p *pass) Describe(job fluxgate.Candidate) fluxgate.Job {
	return fluxgate.Job{ID: fluxgate.JobID(job), Cores: p.cores[job]}
}
func (p *pass) Start(job fluxgate.Candidate) fluxgate.Refusal {
	if p.cores[job] > p.free {
		return fluxgate.Busy
	}
	p.free -= p.cores[job]
	p.started = append(p.started, int(job))
	return fluxgate.OK
}
func (p *pass) Reserve(job fluxgate.Candidate) (float64, fluxgate.Refusal) {
	return 0, fluxgate.Unsatisfiable
}

func TestAPassWithoutTheQuestionsIsAskedOneAtATime(t *testing.T) {
	p := &pass{cores: []uint32{2, 3, 1}, free: 4}
	rows := many.Next(p, 2)
	if len(rows) != 2 || rows[1].Job.Cores != 3 {
		t.Fatal(rows)
	}
	answers := many.StartOrReserve(p, candidates(append(rows, many.Next(p, 2)...)))
	if len(answers) != 3 || !math.IsInf(answers[0], -1) || !math.IsNaN(answers[1]) || !math.IsInf(answers[2], -1) {
		t.Fatal(answers)
	}
}

func TestWithoutAnythingToAskForEveryRuleStartsWhatFits(t *testing.T) {
	for _, use := range []string{"backfill", "resources", "attributes", "flow"} {
		if err := configure(fluxgate.Settings{"use": use}); err != nil {
			t.Fatal(err)
		}
		p := &pass{cores: []uint32{2, 3, 1}, free: 6}
		chosen(p)
		if !slices.Equal(p.started, []int{0, 1, 2}) {
			t.Fatal(use, p.started)
		}
	}
	if configure(fluxgate.Settings{"use": "all"}) == nil {
		t.Fatal("no setting")
	}
}

func TestNodesWithMoreCoresComeFirst(t *testing.T) {
	few := ranking.Node{Holds: []ranking.Quantity{{Kind: "core", Amount: 2}}}
	more := ranking.Node{Holds: []ranking.Quantity{{Kind: "core", Amount: 4}}}
	last := ranking.Node{Holds: more.Holds, Properties: []string{"last"}}
	if !(score(more) < score(few) && score(few) < score(last)) {
		t.Fatal(score(more), score(few), score(last))
	}
}
