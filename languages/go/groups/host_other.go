//go:build !wasm

package groups

import "fluxgate"

// In place of the host, a pass without groups.
type host struct{}

func (host) GroupHeads(Wanted, *fluxgate.Candidate) []fluxgate.Row { return nil }
func (host) ChangedGroups(bool) Changes                            { return Changes{} }
func (host) NextInGroup(fluxgate.Candidate, bool) (fluxgate.Row, bool) {
	return fluxgate.Row{}, false
}
