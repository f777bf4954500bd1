package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// found is a report with one agent that was measured and one that was not.
func found() report {
	return report{
		Machine: "a machine", Rounds: 2, Files: 5000,
		Firsts: []first{
			{Name: byTask + agentShell, Seconds: []float64{1, 3}},
			{Name: byHand + agentShell, Seconds: []float64{0.5, 1}},
			{Name: byTask + agentClaude},
		},
		AtOnce:  []atOnce{{Name: agentShell, Tasks: 20, Right: 19, Seconds: 9}},
		Missing: map[string]string{agentClaude: "is not there"},
	}
}

// TestGoals: what was not measured has no goal that it could meet.
func TestGoals(t *testing.T) {
	t.Parallel()
	got := goals(found())
	if len(got) != 2 || got[0].Is != 2 || got[0].Met() || got[1].Is != 19 || got[1].Met() {
		t.Errorf("%+v", got)
	}
}

// TestTell: what is missing is in both forms, and an error.
func TestTell(t *testing.T) {
	t.Parallel()
	var text, object bytes.Buffer
	r := found()
	r.Goals = goals(r)
	for out, asJSON := range map[*bytes.Buffer]bool{&text: false, &object: true} {
		if err := r.tell(out, asJSON); err == nil || !strings.Contains(err.Error(), "is not there") {
			t.Errorf("json %v: %v", asJSON, err)
		}
	}
	for _, want := range []string{"ratio, a shell for an agent                          2.50", "20 tasks at once", "19 of 20 right", "MISSED", "not measured: is not there"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	var back report
	if err := json.Unmarshal(object.Bytes(), &back); err != nil || back.AtOnce[0].Right != 19 {
		t.Errorf("%v: %s", err, object.String())
	}
}
