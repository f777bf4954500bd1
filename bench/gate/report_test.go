package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey/bench/figures"
)

func TestPercentile(t *testing.T) {
	t.Parallel()
	var hundred []float64
	for i := range 100 {
		hundred = append(hundred, float64(100-i)) // 100 … 1
	}
	for _, tc := range []struct {
		values   []float64
		p50, p99 float64
	}{
		{nil, 0, 0},
		{[]float64{7}, 7, 7},
		{[]float64{3, 1}, 2, 3},
		{[]float64{9, 1, 5}, 5, 9},
		{hundred, 50.5, 99},
		{slices.Concat(hundred, hundred), 50.5, 99},
	} {
		before := slices.Clone(tc.values)
		if p50, p99 := figures.Median(tc.values), figures.Percentile(tc.values, 99); p50 != tc.p50 || p99 != tc.p99 {
			t.Errorf("%v: p50 %v, p99 %v; want %v, %v", tc.values, p50, p99, tc.p50, tc.p99)
		}
		if diff := cmp.Diff(before, tc.values); diff != "" {
			t.Errorf("the values were changed: %s", diff)
		}
	}
}

func TestPaired(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		a, b []float64
		want float64
	}{
		{nil, nil, 0},
		{[]float64{1}, nil, 0},
		{[]float64{1, 2}, []float64{2}, 0},
		{[]float64{9}, []float64{10}, 0.9},
		{[]float64{10, 100, 30}, []float64{20, 100, 20}, 1},
	} {
		if got := figures.Paired(tc.a, tc.b); got != tc.want {
			t.Errorf("%v over %v: %v, want %v", tc.a, tc.b, got, tc.want)
		}
	}
}

func TestAdded(t *testing.T) {
	t.Parallel()
	got := added([]latency{{Name: caseBailey, P50: 3, P99: 9}, {Name: caseDirect, P50: 2, P99: 5}})
	want := []latency{{Name: caseBailey, P50: 3, P99: 9, AddedP50: 1, AddedP99: 4}, {Name: caseDirect, P50: 2, P99: 5}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	alone := []latency{{Name: caseBailey, P50: 3, P99: 9}}
	if diff := cmp.Diff(alone, added(slices.Clone(alone))); diff != "" {
		t.Errorf("without a measurement of no proxy: %s", diff)
	}
}

func TestGoals(t *testing.T) {
	t.Parallel()
	r := report{
		Latency:    []latency{{Name: casePlain, AddedP50: 9}, {Name: caseBailey, AddedP50: 0.5, AddedP99: 6}},
		Throughput: []throughput{{Name: "x", Ratio: 0.9}, {Name: "y", MBs: map[string]float64{caseBailey: 180}}},
		Requests:   []requests{{Name: "h2", PerSecond: map[string]float64{caseMitm: 100, caseBailey: 500}}},
		Streams:    []latency{{Name: "TLS: " + caseBailey, P50: 5}, {Name: "TLS: " + caseMitm, P50: 9}},
		Decisions:  []decisions{{Rules: 10, PerSecond: 300_000}},
		Memory:     []memory{{Name: idleProxy, USSMB: 1.5}, {Name: "other", USSMB: 9}},
		Further:    further{Proxies: 10, EachMB: 0.25},
	}
	type told struct {
		is  float64
		met bool
	}
	var got []told
	for _, g := range goals(r) {
		got = append(got, told{g.Is, g.Met()})
	}
	want := []told{{0.5, true}, {6, false}, {0.9, true}, {5, false}, {5, true}, {300_000, true}, {1.5, false}, {0.25, true}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(told{})); diff != "" {
		t.Error(diff)
	}
	if got := goals(report{}); len(got) != 0 {
		t.Errorf("nothing was measured, and yet: %v", got)
	}
}

func TestReport_WhatIsMissingIsAnError(t *testing.T) {
	t.Parallel()
	full := report{
		Latency:    []latency{{Name: caseBailey, P50: 1.25, AddedP99: 7}},
		Throughput: []throughput{{Name: "up", MBs: map[string]float64{caseBailey: 512}}},
		Streams:    []latency{{Name: "TLS: " + caseBailey, P50: 6}},
		Memory:     []memory{{Name: idleProxy, USSMB: 0.5}},
	}
	full.Goals = goals(full)
	missing := report{Missing: map[string]string{"latency, squid": "no squid here"}}
	for _, asJSON := range []bool{false, true} {
		var out bytes.Buffer
		if err := full.tell(&out, asJSON); err != nil {
			t.Errorf("JSON %v: %v", asJSON, err)
		}
		if asJSON {
			var back report
			if err := json.Unmarshal(out.Bytes(), &back); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(full, back); diff != "" {
				t.Error(diff)
			}
		} else if text := out.String(); !strings.Contains(text, "1.25") || strings.Count(text, "MISSED") != 2 {
			t.Errorf("want the numbers, and two goals missed:\n%s", text)
		}
		out.Reset()
		err := missing.tell(&out, asJSON)
		if err == nil || !strings.Contains(err.Error(), "not measured: latency, squid: no squid here") || !strings.Contains(out.String(), "no squid here") {
			t.Errorf("JSON %v: error %v, report:\n%s", asJSON, err, out.String())
		}
	}
}

func TestReadRollup(t *testing.T) {
	t.Parallel()
	const text = "00400000-7ffe [rollup]\nRss: 9216 kB\nPss:                2048 kB\nPss_Dirty: 1 kB\nPrivate_Clean:       512 kB\nPrivate_Dirty:      1024 kB\n"
	got, err := readRollup([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(memory{USSMB: 1.5, DirtyMB: 1, CleanMB: 0.5, PSSMB: 2}, got); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"", "Rss: 1 kB\n", "Pss: x kB\n", strings.ReplaceAll(text, "Private_Dirty", "Private")} {
		if m, err := readRollup([]byte(bad)); err == nil {
			t.Errorf("%q weighs %+v", bad, m)
		}
	}
}

func TestMany_HalfIsAllowed(t *testing.T) {
	t.Parallel()
	for _, n := range []int{10, 100, 10_000} {
		index, asks, err := many(n)
		if err != nil {
			t.Fatal(err)
		}
		yes := 0
		for _, ask := range asks {
			if index.Decide(ask).Verdict.String() == "allow" {
				yes++
			}
		}
		if 2*yes != len(asks) {
			t.Errorf("%d rules: %d of %d allowed", n, yes, len(asks))
		}
	}
}
