package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey/bench/figures"
)

// found is a report with a row of each kind.
func found() report {
	return report{
		Machine: "a machine", Rounds: 3, Portkey: "1.0.0",
		Calls: added([]calls{
			{Name: caseDirect, Kind: kind{}.String(), Whole: times{P50: 0.1}, First: times{P50: 0.1}},
			{Name: caseBailey, Kind: kind{}.String(), Whole: times{P50: 0.3}, First: times{P50: 0.25}},
			{Name: caseBeside, Kind: kind{}.String(), Whole: times{P50: 0.2}, First: times{P50: 0.2}},
			{Name: caseInside, Kind: kind{}.String(), Whole: times{P50: 0.6}, First: times{P50: 0.6}},
			{Name: caseInside, Kind: kind{Stream: true}.String(), Whole: times{P50: 0.6}, First: times{P50: 0.6}},
		}),
		Rates:   []rate{{Kind: kind{}.String(), PerSecond: map[string]float64{caseBailey: 3000}, OverPlain: 0.8, OverPortkey: 9}},
		Streams: []stream{{Name: caseBailey, Kind: kind{Stream: true}.String(), Began: 600, Ended: 599, EachKB: 60}},
		Missing: map[string]string{},
	}
}

// TestAdded: each is compared with the same client's way without a proxy.
func TestAdded(t *testing.T) {
	t.Parallel()
	r := found()
	for i, want := range []float64{0, 0.2, 0, 0.4, 0} {
		if got := r.Calls[i].Whole.Added; got < want-1e-9 || got > want+1e-9 {
			t.Errorf("%s, %s adds %.3f, want %.3f", r.Calls[i].Name, r.Calls[i].Kind, got, want)
		}
	}
}

func TestGoals(t *testing.T) {
	t.Parallel()
	got := map[string]bool{}
	for _, g := range goals(found()) {
		got[g.What] = g.Met()
	}
	for what, met := range map[string]bool{
		"added to a call through the wire, 1 KB, whole, p50, ms":  true,
		"calls a second, 1 KB, whole":                             true,
		"calls a second, 1 KB, whole: bailey / Portkey":           true,
		"streams at once, 1 KB, stream, " + caseBailey:            true,
		"memory of one, private, KB, 1 KB, stream, " + caseBailey: true,
	} {
		if is, ok := got[what]; !ok || is != met {
			t.Errorf("%s: met %t, there %t", what, is, ok)
		}
	}
	if len(got) != 5 {
		t.Errorf("goals %v", got)
	}
	if (figures.Goal{Is: 3, Goal: 2}).Met() || (figures.Goal{Is: 1, Goal: 2, AtLeast: true}).Met() {
		t.Error("a goal is met that is not")
	}
}

// TestReport_Tells: both forms have all, and what is missing is an error.
func TestReport_Tells(t *testing.T) {
	t.Parallel()
	r := found()
	r.Goals = goals(r)
	var text, data bytes.Buffer
	if err := r.tell(&text, false); err != nil {
		t.Error(err)
	}
	for _, want := range []string{caseBailey, caseInside, "3000", "60.0", "at least 2000"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, &text)
		}
	}
	r.Missing["streams"] = "no root"
	if err := r.tell(&data, true); err == nil || !strings.Contains(err.Error(), "no root") {
		t.Errorf("what is missing is told as %v", err)
	}
	var back report
	if err := json.Unmarshal(data.Bytes(), &back); err != nil || len(back.Goals) != len(r.Goals) {
		t.Errorf("read back %v, %v", back.Goals, err)
	}
}

// TestWorker: the client and the provider understand each other, and what is no
// good answer is an error.
func TestWorker(t *testing.T) {
	t.Parallel()
	p, err := newProvider(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	w := &worker{}
	for _, k := range kinds() {
		if r := w.do(order{Do: "calls", Way: way{Addr: p.at}, Kind: k, N: 2}); r.Error != "" || len(r.First) != 2 || len(r.Whole) != 2 {
			t.Errorf("%s: %+v", k, r)
		}
		if size := len(ask(k)); k.Large && (size < 90<<10 || size > 130<<10) || !k.Large && (size < 900 || size > 1200) {
			t.Errorf("%s: a request of %d bytes", k, size)
		}
	}
	release := p.holding()
	if r := w.do(order{Do: "hold", Way: way{Addr: p.at}, Kind: kind{Stream: true}, N: 5}); r.Error != "" || r.Calls != 5 {
		t.Errorf("hold: %+v", r)
	}
	release()
	if r := w.do(order{Do: "drain"}); r.Error != "" || r.Calls != 5 {
		t.Errorf("drain: %+v", r)
	}
	if r := w.do(order{Do: "calls", Way: way{Addr: "127.0.0.1:1"}, N: 1}); r.Error == "" {
		t.Error("nobody answered, and all was well")
	}
	if r := w.do(order{Do: "nothing"}); r.Error == "" {
		t.Error("an order that is none was carried out")
	}
}
