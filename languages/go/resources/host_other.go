//go:build !wasm

package resources

import "fluxgate"

// In place of the host, a pass without such resources.
type host struct{}

func (host) ResourceKinds() []Kind                        { return nil }
func (host) ResourcesAsked([]fluxgate.Candidate) []uint64 { return nil }
