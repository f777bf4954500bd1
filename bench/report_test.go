package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
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

func TestReport_WhatIsMissingIsAnError(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		report report
		want   string
	}{
		"all":     {report{Cases: []summary{{Name: "x"}}, AtOnce: atOnce{Started: 2}}, ""},
		"missing": {report{Missing: map[string]string{"x": "no x here"}}, "not measured: x: no x here"},
		"failed":  {report{AtOnce: atOnce{Started: 3, Failed: 1, Error: "why"}}, "1 of 3 started at once failed: why"},
	} {
		for _, asJSON := range []bool{false, true} {
			var out bytes.Buffer
			got := ""
			if err := c.report.tell(&out, asJSON); err != nil {
				got = err.Error()
			}
			if got != c.want || out.Len() == 0 {
				t.Errorf("%s, JSON %v: error %q, want %q; %d bytes", name, asJSON, got, c.want, out.Len())
			}
			if c.want != "" && !asJSON && name == "missing" && !strings.Contains(out.String(), "not measured: no x here") {
				t.Errorf("%s: the report does not say so: %s", name, out.String())
			}
		}
	}
}

func TestPSS_UnreadableIsNotNothing(t *testing.T) {
	t.Parallel()
	if mb, err := pss("/proc/self"); err != nil || mb <= 0 {
		t.Errorf("this process: %v MB, %v", mb, err)
	}
	dir := t.TempDir()
	if mb, err := pss(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no such file: %v MB, %v", mb, err)
	}
	for _, text := range []string{"", "Rss: 1 kB\n", "Pss: x kB\n"} {
		if err := os.WriteFile(filepath.Join(dir, "smaps_rollup"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if mb, err := pss(dir); err == nil {
			t.Errorf("%q weighs %v MB", text, mb)
		}
	}
}

func TestRounds_AFailureIsKept(t *testing.T) {
	t.Parallel()
	contenders := []contender{{name: "good", argv: []string{"true"}}, {name: "bad", argv: []string{"false"}}}
	if err := (&lab{}).rounds(t.Context(), contenders, 3); err != nil {
		t.Fatal(err)
	}
	if good, bad := contenders[0], contenders[1]; good.err != nil || len(good.ms) != 3 || bad.err == nil || len(bad.ms) != 0 {
		t.Errorf("good: %+v, bad: %+v", good, bad)
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
