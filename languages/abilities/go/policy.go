// The policy `abilities` in Go; the rules are in ../README.md.
package main

import (
	"errors"
	"math"

	"fluxgate"
	"fluxgate/attributes"
	"fluxgate/flow"
	"fluxgate/groups"
	"fluxgate/many"
	"fluxgate/ranking"
	"fluxgate/resources"
	"fluxgate/scheduling"
)

// Candidates of one question.
const most = 256

var rules = map[string]func(fluxgate.Pass){
	"many":       startOrReserve,
	"backfill":   backfill,
	"groups":     byGroup,
	"changed":    byKept,
	"flow":       belowHalf,
	"resources":  askingFirst,
	"attributes": groupFirst,
}

var chosen func(fluxgate.Pass)

func init() {
	fluxgate.Register(fluxgate.Description{
		Name:    "abilities-go",
		Version: "0.1.0",
		Summary: "what the contract gained after its first release, in Go",
		Keys: []fluxgate.Key{{
			Name: "use", Kind: fluxgate.Text, Default: "many",
			Help: "many, backfill, groups, changed, flow, resources or attributes",
		}},
	}, configure)
	scheduling.With(func(pass fluxgate.Pass) { chosen(pass) })
	ranking.By(score)
}

func configure(settings fluxgate.Settings) error {
	if chosen = rules[settings["use"]]; chosen == nil {
		return errors.New("`use` must be many, backfill, groups, changed, flow, resources or attributes")
	}
	return nil
}

func candidates(rows []fluxgate.Row) []fluxgate.Candidate {
	candidates := make([]fluxgate.Candidate, len(rows))
	for i, row := range rows {
		candidates[i] = row.Candidate
	}
	return candidates
}

func backfill(pass fluxgate.Pass) { many.Backfill(pass, 1, 64, true) }

func startOrReserve(pass fluxgate.Pass) {
	for {
		rows := many.Next(pass, most)
		answers := many.StartOrReserve(pass, candidates(rows))
		if len(answers) < len(rows) || len(rows) < most {
			return
		}
	}
}

func byGroup(pass fluxgate.Pass) { behind(pass, groups.Heads(pass, groups.Wanted{Fitting: true})) }

var kept groups.Kept

func byKept(pass fluxgate.Pass) { behind(pass, kept.Heads(pass, false)) }

func behind(pass fluxgate.Pass, heads []fluxgate.Row) {
	for _, row := range heads {
		for more := true; more; row, more = groups.Next(pass, row.Candidate, true) {
			if pass.Start(row.Candidate) == fluxgate.Limit {
				return
			}
		}
	}
}

func belowHalf(pass fluxgate.Pass) {
	for job, ok := pass.Next(); ok; job, ok = pass.Next() {
		if leavesHalf(pass, job) && pass.Start(job) == fluxgate.OK {
			continue
		}
		after := lastEnd(pass)
		earliest := flow.EarliestAfter(pass, job, after)
		start, why := flow.ReserveAfter(pass, job, after)
		if why == fluxgate.OK && start != earliest {
			panic("the host reserves what it said would be the earliest start")
		}
		return
	}
}

// True if this start leaves half of each kind free.
func leavesHalf(pass fluxgate.Pass, job fluxgate.Candidate) bool {
	amounts := flow.Amounts(pass, []fluxgate.Candidate{job})[0]
	for i, kind := range flow.Kinds(pass) {
		if kind.Free < amounts[i] || kind.Free-amounts[i] < kind.Total/2 {
			return false
		}
	}
	return true
}

// The last end of what is held of any kind.
func lastEnd(pass fluxgate.Pass) float64 {
	last := pass.Now()
	for kind := range flow.Kinds(pass) {
		for _, span := range flow.Spans(pass, kind) {
			if math.IsInf(span.Start, -1) && !math.IsInf(span.End, 1) {
				last = math.Max(last, span.End)
			}
		}
	}
	return last
}

// Starts what fits of the jobs in each turn; a job's turn is asked for with its candidates.
func inTurns(pass fluxgate.Pass, turns int, of func([]fluxgate.Candidate) []int) {
	for turn := range turns {
		pass.Rewind()
		for {
			rows := many.Next(pass, most)
			jobs := candidates(rows)
			for i, each := range of(jobs) {
				if each == turn {
					pass.Start(jobs[i])
				}
			}
			if len(rows) < most {
				break
			}
		}
	}
}

func askingFirst(pass fluxgate.Pass) {
	if len(resources.Kinds(pass)) == 0 {
		inTurns(pass, 1, func(jobs []fluxgate.Candidate) []int { return make([]int, len(jobs)) })
		return
	}
	inTurns(pass, 2, func(jobs []fluxgate.Candidate) []int {
		turns := make([]int, len(jobs))
		for i, amounts := range resources.Amounts(pass, jobs) {
			turns[i] = 1
			for _, amount := range amounts {
				if amount > 0 {
					turns[i] = 0
				}
			}
		}
		return turns
	})
}

// The jobs of group 7, then those whose memory is known, then the others.
func groupFirst(pass fluxgate.Pass) {
	inTurns(pass, 3, func(jobs []fluxgate.Candidate) []int {
		memory := attributes.Numbers(pass, attributes.Memory, jobs)
		turns := make([]int, len(jobs))
		for i, group := range attributes.Texts(pass, attributes.Group, jobs) {
			switch {
			case group.Known && group.Value == "7":
			case !math.IsNaN(memory[i]):
				turns[i] = 1
			default:
				turns[i] = 2
			}
		}
		return turns
	})
}

func score(node ranking.Node) float64 {
	score := -float64(node.Amount("core"))
	if node.Has("last") {
		score += 1e9
	}
	return score
}

func main() {}
