package autophase

import (
	"strings"
	"testing"

	"github.com/bailey-dev/bailey"
)

// TestHeard_CountsCalls: what a gateway has told of counts, whether or not it lived
// to tell the sum, and the sum is not counted besides.
func TestHeard_CountsCalls(t *testing.T) {
	t.Parallel()
	const calls = `{"type":"model.call","use":{"input_tokens":100,"output_tokens":20,"cache_read":3,"cache_write":4,"cost_usd":"0.5"}}
{"type":"model.call","use":{"input_tokens":1,"output_tokens":2,"cost_usd":"0.25"}}
{"type":"model.refused","reason":"budget_spent","use":{"input_tokens":0,"output_tokens":0}}
no event
`
	for name, said := range map[string]string{
		"killed": calls,
		"ended":  calls + `{"type":"model.total","use":{"requests":2,"input_tokens":101,"output_tokens":22,"cache_read":3,"cache_write":4,"cost_usd":"0.75"}}`,
	} {
		h := &heard{}
		h.listen(strings.NewReader(said))
		if h.used.Tokens != 130 || h.used.Cost != "0.75" {
			t.Errorf("%s: %d tokens, %q USD", name, h.used.Tokens, h.used.Cost)
		}
	}
}

// TestHeard_SaysApartWhatWasNotReached: a host that is allowed was not refused.
func TestHeard_SaysApartWhatWasNotReached(t *testing.T) {
	t.Parallel()
	for want, e := range map[string]bailey.Event{
		"the network refused a.test (not-allowed)":        {Host: "a.test", Reason: "not-allowed"},
		"the network could not reach a.test (unresolved)": {Host: "a.test", Reason: "unresolved"},
	} {
		h := &heard{}
		e.Type, e.Verdict = bailey.EventNetDecision, "deny"
		if h.take(e); len(h.notes) != 1 || h.notes[0] != want {
			t.Errorf("%q, want %q", h.notes, want)
		}
	}
}
