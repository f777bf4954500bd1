package proxy_test

import (
	"bufio"
	"encoding/json"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/gate"
	"github.com/bailey-dev/bailey/internal/policy"
)

// A message that the proxy would not have started with changes nothing, and the
// starter is told; the next good one holds.
func TestSteer_BadMessagesChangeNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t, allow(t, "allow.test"))
	replies := bufio.NewReader(l.told)
	tell := func(line string) gate.Reply {
		t.Helper()
		if _, err := l.told.WriteString(line + "\n"); err != nil {
			t.Fatal(err)
		}
		text, err := replies.ReadBytes('\n')
		if err != nil {
			t.Fatal(err)
		}
		var r gate.Reply
		if err := json.Unmarshal(text, &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	resolves := func(name string) bool {
		return len(l.lookup("udp", "192.0.0.1:53", name, 1).Answer) > 0
	}
	for line, want := range map[string]string{
		`{`: "read message",
		`{"generation":9,"policy":{"mode":"open"}} {}`:             "something follows",
		`{"generation":9,"policy":{"mode":"open","alow":[]}}`:      "unknown field",
		`{"generation":9,"policy":{"mode":"opne"}}`:                "read message",
		`{"generation":9,"policy":{"mode":"allow"}}`:               "no allow rule",
		`{"generation":9,"policy":{"mode":"allow","allow":["*"]}}`: "read message",
		`{"generation":9}`: "says 0 things",
		`{"generation":9,"policy":{"mode":"open"},"answer":{"host":"a.test"}}`: "says 2 things",
		`{"generation":0,"policy":{"mode":"open"}}`:                            "is not after",
	} {
		if r := tell(line); !strings.Contains(r.Error, want) {
			t.Errorf("%s: %+v, want %q", line, r, want)
		}
		if resolves("evil.test") || !resolves("allow.test") {
			t.Errorf("%s: it changed what holds", line)
		}
	}
	good, err := json.Marshal(gate.Message{Generation: 1, Policy: &policy.Policy{Mode: bailey.NetAllow, Allow: rules(t, "evil.test")}})
	if err != nil {
		t.Fatal(err)
	}
	if r := tell(string(good)); r.Error != "" || r.Generation != 1 {
		t.Errorf("%+v", r)
	}
	if !resolves("evil.test") || resolves("allow.test") {
		t.Error("a good one does not hold")
	}
	if r := tell(string(good)); !strings.Contains(r.Error, "is not after") { // nor one that came before
		t.Errorf("%+v", r)
	}
	if r := tell(`{"generation":2,"answer":{"host":"evil.test","port":80,"allow":true}}`); !strings.Contains(r.Error, "nothing waits") {
		t.Errorf("%+v", r)
	}
}
