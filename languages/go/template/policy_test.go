package main

import (
	"math"
	"testing"

	"fluxgate"
)

func TestAShortJobOvertakesUntilTheLongOneHasWaited(t *testing.T) {
	if err := configure(fluxgate.Settings{"weight": "1"}); err != nil {
		t.Fatal(err)
	}
	key := keys(0, fluxgate.Jobs{TSubmit: []float64{0, 50, 95}, Duration: []float64{100, 10, 10}})
	if !(key[1] < key[0] && key[0] < key[2]) {
		t.Fatal(key)
	}
}

func TestWithoutWeightItIsFirstComeFirstServed(t *testing.T) {
	if err := configure(fluxgate.Settings{"weight": "0"}); err != nil {
		t.Fatal(err)
	}
	key := keys(0, fluxgate.Jobs{TSubmit: []float64{0, 50}, Duration: []float64{math.Inf(1), 10}})
	if !(key[0] < key[1]) {
		t.Fatal(key)
	}
}

func TestAWeightBelowZeroIsRefused(t *testing.T) {
	for _, weight := range []string{"-1", "inf", "much"} {
		if err := configure(fluxgate.Settings{"weight": weight}); err == nil {
			t.Fatal(weight)
		}
	}
}
