//go:build !wasm

package attributes

import (
	"math"

	"fluxgate"
)

// In place of the host, a pass that knows no attributes.
type host struct{}

func (host) AttributeTexts(_ string, candidates []fluxgate.Candidate) []Text {
	return make([]Text, len(candidates))
}

func (host) AttributeNumbers(_ string, candidates []fluxgate.Candidate) []float64 {
	numbers := make([]float64, len(candidates))
	for i := range numbers {
		numbers[i] = math.NaN()
	}
	return numbers
}
