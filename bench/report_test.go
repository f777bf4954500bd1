package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSummarize(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		ms   []float64
		want summary
	}{
		{nil, summary{Name: "x"}},
		{[]float64{3}, summary{Name: "x", Median: 3, Min: 3, P95: 3, Runs: 1}},
		{[]float64{4, 1, 3, 2}, summary{Name: "x", Median: 2.5, Min: 1, P95: 4, Runs: 4}},
		{[]float64{9, 1, 5}, summary{Name: "x", Median: 5, Min: 1, P95: 9, Runs: 3}},
	} {
		if diff := cmp.Diff(tc.want, summarize("x", tc.ms)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestRatiosLeaveOutWhatWasSkipped(t *testing.T) {
	t.Parallel()
	got := ratios([]summary{{Name: caseNone, Median: 130}, {Name: caseRunsc, Median: 100}})
	want := []ratio{{caseNone + " / " + caseRunsc, 1.3, 1.35}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
