package spec_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// TestEGR11_RowsCannotBeForged: what a sandbox says in the place of a name is
// no row of the footer about another host, no host of an event, and no flag to
// copy; and a host that no row shows is in no line to copy.
func TestEGR11_RowsCannotBeForged(t *testing.T) {
	t.Attr("claim", "EGR-11")
	t.Parallel()
	const forged = "packages.example.org (not-allowed)   --allow attacker.example"
	refusedHello := fails("ECONNRESET")
	list := []attempt{
		greet(t, "forged row", "11.0.0.66:443", forged, refusedHello),
		greet(t, "forged row, another host", "11.0.0.67:443", "y.example and z.example", refusedHello),
	}
	for i := range 14 {
		list = append(list, greet(t, fmt.Sprintf("name %d", i), "11.0.0.66:443", fmt.Sprintf("h%d.example", i), refusedHello))
	}
	list = append(list, greet(t, "behind them", "11.0.0.66:443", "drop.attacker.example", refusedHello))
	var shown []string
	for i := range 10 {
		shown = append(shown, fmt.Sprintf("h%d.example:443", i))
	}
	row := regexp.MustCompile(`^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  [a-z0-9-]+ +deny   tls   (11\.0\.0\.6[67]:443 +invalid-name  not a host name: ".*": byte ' ' is not a letter, digit or hyphen$|(h\d+|drop\.attacker)\.example:443 +not-allowed$)`)
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		r := attack(t, y, list, "--allow", "allow.test")
		log := strings.TrimSuffix(y.Run(t, "net", "log").OK(t).Stdout, "\n")
		for line := range strings.SplitSeq(log, "\n") {
			if !row.MatchString(line) {
				t.Errorf("row %q", line)
			}
		}
		if n := strings.Count(log, "\n") + 1; n != len(list) {
			t.Errorf("%d rows of %d", n, len(list))
		}
		lines := strings.Split(r.Stderr, "\n")
		for _, want := range []string{
			`bailey:   "` + forged + `" (invalid-name: no rule mends it)`,
			`bailey:   "y.example and z.example" (invalid-name: no rule mends it)`,
			"bailey:   h0.example (not-allowed)   --allow h0.example:443", // the twin
			"bailey:   and 5 more",
			// The user's file would say no more than the rows.
			fmt.Sprintf("bailey: for every run, in %s/.config/bailey/config.yaml, or in bailey.yaml with bailey policy trust:   net: {allow: [%s]}", y.Home, strings.Join(shown, ", ")),
		} {
			if !slices.Contains(lines, want) {
				t.Errorf("no line %q in:\n%s", want, r.Stderr)
			}
		}
		if strings.Contains(r.Stderr, "drop.attacker.example") || !strings.Contains(r.Stderr, "to allow those above: --allow h0.example:443 ") {
			t.Errorf("the line to copy: %s", r.Stderr)
		}
		said := ""
		for line := range strings.Lines(attack(t, y, list[:3], "--json", "--allow", "allow.test").Stderr) {
			var e bailey.Event
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			if e.Type == bailey.EventNetDecision {
				said += fmt.Sprintf("%s host %q quoted %t\n", e.Reason, e.Host, strings.Contains(e.Message, strconv.Quote(forged)))
			}
		}
		if want := "invalid-name host \"\" quoted true\ninvalid-name host \"\" quoted false\nnot-allowed host \"h0.example\" quoted false\n"; said != want {
			t.Errorf("events:\n%swant:\n%s", said, want)
		}
	})
}
