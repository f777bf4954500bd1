package secret_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey/internal/secret"
)

var updateTemplates = flag.Bool("update-templates", false, "write the table of templates in docs/secrets.md")

// table is the templates as the page has them.
func table() string {
	var b strings.Builder
	b.WriteString("| template | | variable | where it may go |\n|---|---|---|---|\n")
	for _, t := range secret.Templates() {
		var places []string
		for _, r := range t.Rules {
			var hosts []string
			for _, h := range r.Hosts {
				hosts = append(hosts, h.String())
			}
			if len(hosts) == 0 {
				hosts = []string{"`--host`"}
			}
			place := strings.Join(hosts, ", ") + ": `" + r.Place.String() + "`"
			if len(r.Paths) > 0 {
				place += ", below " + strings.Join(r.Paths, ", ")
			}
			places = append(places, place)
		}
		fmt.Fprintf(&b, "| `%s` | %s | `%s` | %s |\n", t.Name, t.What, t.Var, strings.Join(places, "; "))
	}
	return b.String()
}

// TestTemplates_AreInThePage holds the table of the page to the templates.
func TestTemplates_AreInThePage(t *testing.T) {
	t.Parallel()
	const page, begin, end = "../../docs/secrets.md", "<!-- templates:begin -->\n", "<!-- templates:end -->\n"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	have, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", page)
	}
	if *updateTemplates {
		if err := os.WriteFile(page, []byte(before+begin+table()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(table(), have); diff != "" {
		t.Errorf("the page is out of date, run make gen (-templates +page):\n%s", diff)
	}
}
