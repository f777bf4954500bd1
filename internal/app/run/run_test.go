package run_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/app/run"
)

// follow returns the events that come of what a proxy wrote.
func follow(r io.Reader) []bailey.Event {
	var list []bailey.Event
	run.FollowEvents(r, func(e bailey.Event) { list = append(list, e) })
	return list
}

func TestFollowEvents_LosesNoRecord(t *testing.T) {
	t.Parallel()
	const one = `{"type":"net.decision","host":"a.example"}` + "\n"
	for name, c := range map[string]struct {
		says  string
		types []bailey.EventType
	}{
		"two":               {one + one, []bailey.EventType{bailey.EventNetDecision, bailey.EventNetDecision}},
		"the last one cut":  {one + one[:len(one)-1], []bailey.EventType{bailey.EventNetDecision, bailey.EventNetDecision}},
		"one that is none":  {"{\n" + one, []bailey.EventType{bailey.EventWarning, bailey.EventNetDecision}},
		"one that is large": {strings.Repeat("x", 300<<10) + "\n" + one, []bailey.EventType{bailey.EventWarning, bailey.EventNetDecision}},
		"large to the end":  {one + strings.Repeat("x", 300<<10), []bailey.EventType{bailey.EventNetDecision, bailey.EventWarning}},
		"nothing":           {"", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := follow(iotest.OneByteReader(strings.NewReader(c.says)))
			if len(got) != len(c.types) {
				t.Fatalf("got %+v, want %v", got, c.types)
			}
			for i, e := range got {
				if e.Type != c.types[i] || (e.Type == bailey.EventNetDecision) != (e.Host == "a.example") {
					t.Errorf("event %d: %+v, want %s", i, e, c.types[i])
				}
			}
		})
	}
}

func TestFollowEvents_SaysThatItCannotRead(t *testing.T) {
	t.Parallel()
	got := follow(iotest.ErrReader(errors.New("no more")))
	if len(got) != 1 || got[0].Type != bailey.EventError || !strings.Contains(got[0].Message, "no more") {
		t.Errorf("got %+v", got)
	}
}

func TestNetEvent_ReachesAPersonAndAProgram(t *testing.T) {
	t.Parallel()
	events := []bailey.Event{
		{Type: bailey.EventWarning, Message: "half as well"},
		{Type: bailey.EventError, Message: "it broke"},
		{Type: bailey.EventNetDecision, Host: "a.example", Verdict: "deny", Reason: "not-allowed"},
		{Type: bailey.EventSandboxExited, Message: "forged"},
	}
	var human, program bytes.Buffer
	if n := run.NetEvents(&human, false, events...); n != 1 {
		t.Errorf("%d refusals are noted, want one", n)
	}
	if got, want := human.String(), "bailey: half as well\nbailey: proxy: it broke\n"; got != want {
		t.Errorf("a person reads %q, want %q", got, want)
	}
	run.NetEvents(&program, true, events...)
	var types []string
	for line := range strings.Lines(program.String()) {
		var e bailey.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		types = append(types, string(e.Type))
	}
	if got := strings.Join(types, " "); got != "warning error net.decision" {
		t.Errorf("a program reads %s", got)
	}
}

func TestVerdict_TheEndOfTheProxyIsAnErrorForBoth(t *testing.T) {
	t.Parallel()
	for _, asJSON := range []bool{false, true} {
		var out bytes.Buffer
		code, err := run.EndedByProxy(&out, asJSON, "the proxy ended")
		if code != bailey.ExitBailey || err != nil || strings.Count(out.String(), "\n") != 1 || !strings.Contains(out.String(), "the proxy ended") {
			t.Errorf("JSON %t: code %d, %v, said %q", asJSON, code, err, out.String())
		}
		if asJSON && !strings.Contains(out.String(), `"type":"error"`) {
			t.Errorf("no error event: %s", out.String())
		}
	}
}
