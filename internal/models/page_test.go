package models_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey/internal/models"
	"github.com/bailey-dev/bailey/internal/pricing"
)

var updatePrices = flag.Bool("update-prices", false, "write the table of prices in docs/models.md")

// TestPrices_AreInThePage holds the table that people read to the list.
func TestPrices_AreInThePage(t *testing.T) {
	t.Parallel()
	list, err := pricing.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	_, _ = fmt.Fprintf(&out, "Of %s, from %s:\n\n| kind | name | input | output | cache read | cache write | above |\n|---|---|---|---|---|---|---|\n", list.Dated, list.Source)
	for _, kind := range slices.Sorted(maps.Keys(list.Models)) {
		for _, name := range slices.Sorted(maps.Keys(list.Models[kind])) {
			item := list.Models[kind][name]
			row := func(i pricing.ListItem, above string) {
				_, _ = fmt.Fprintf(&out, "| `%s` | `%s` | %s | %s | %s | %s | %s |\n", kind, name, i.Input, i.Output, i.CacheRead, i.CacheWrite, above)
			}
			row(item, "")
			for _, tier := range item.Tiers {
				row(tier.ListItem, fmt.Sprint(tier.Above))
			}
		}
	}
	const page, begin, end = "../../docs/models.md", "<!-- prices:begin -->\n", "<!-- prices:end -->\n"
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(b), begin)
	have, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no place for the prices", page)
	}
	if *updatePrices {
		if err := os.WriteFile(page, []byte(before+begin+out.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(have, out.String()); diff != "" {
		t.Errorf("docs/models.md is out of date, run make gen (-page +list):\n%s", diff)
	}
}

// TestPage_ShowsTheExampleAndEveryKind holds the page to the example file, and
// to the kinds.
func TestPage_ShowsTheExampleAndEveryKind(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/models.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("../../docs/models.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if c := parse(t, string(example)); c.Default != "small" || !strings.Contains(string(page), string(example)) {
		t.Error("the page does not show the example")
	}
	schema, err := models.Schema()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(string(schema), "\n") {
		name, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), `"`), `": {`)
		if strings.HasSuffix(line, `": {`) && !slices.Contains([]string{"properties", "items", "additionalProperties", "propertyNames", "price.items"}, name) && !strings.Contains(string(example), name+":") {
			t.Errorf("the example does not show the key %s", name)
		}
	}
	for _, k := range models.Kinds() {
		c := parse(t, "providers: {p: {kind: "+string(k)+", base_url: 'https://example.com'}}\nmodels: {m: {provider: p}}\n")
		p := c.Models[0].Provider
		row := fmt.Sprintf("| `%s` | ", k)
		_, rest, found := strings.Cut(string(page), row)
		line, _, _ := strings.Cut(rest, "\n")
		if !found || !strings.HasSuffix(line, "| `"+strings.ToLower(p.Auth().Header)+"` |") || !strings.Contains(line, "`"+string(k.Dialects()[0])+"`") {
			t.Errorf("the page says of the kind %s: %s", k, line)
		}
	}
}
