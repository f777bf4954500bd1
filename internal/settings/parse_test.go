package settings_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/policy"
	"github.com/bailey-dev/bailey/internal/settings"
)

func parse(t *testing.T, text string) *settings.File {
	t.Helper()
	f, err := settings.Parse("bailey.yaml", []byte(text))
	if err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	return f
}

func texts(list []settings.Held) []string {
	var out []string
	for _, h := range list {
		out = append(out, h.Text()+" "+h.From)
	}
	return out
}

func TestParse(t *testing.T) {
	t.Parallel()
	f := parse(t, `# what this project needs
net:
  mode: allow
  dns: open
  ask: true
  presets: [git, claude]
  allow:
    - api.example.com
    - "*.example.org:8443"
    - host: web.example.com
      ports: [80, 8080, 80]
      methods: [GET, HEAD]
      paths: [/v1/*, /health]
      why: the docs
    - {host: db.example.com, ports: [5432], addresses: [10.1.0.0/16, 10.2.0.1]}
    - {host: 10.9.0.1, ports: [22], addresses: [10.9.0.1]}
    - {host: bücher.example, inspect: true}
    - {host: git.example.com, git: {repositories: [owner/name, owner/other], write: true}}
    - host-service: 5432
  deny:
    - "*.com"
    - host: api.example.com
      methods: [DELETE]
    - 11.0.0.66
    - 203.0.113.0/24
    - {host: 198.51.100.0/24, ports: [22]}
    - {host: "*.example.net", addresses: [10.0.0.0/8]}
`)
	n := f.Net
	if n.Mode.Value != bailey.NetAllow || n.Mode.From != "bailey.yaml:3:9" || n.DNS.Value != bailey.DNSOpen || !n.Ask.Value || len(n.Presets) != 2 || n.Presets[1].From != "bailey.yaml:6:18" {
		t.Errorf("settings: %+v %+v %+v %+v", n.Mode, n.DNS, n.Ask, n.Presets)
	}
	if diff := cmp.Diff([]string{
		"api.example.com bailey.yaml:8:7",
		"*.example.org:8443 bailey.yaml:9:7",
		"web.example.com:80 GET,HEAD /v1/*,/health bailey.yaml:10:7",
		"web.example.com:8080 GET,HEAD /v1/*,/health bailey.yaml:10:7",
		"db.example.com:5432 at 10.1.0.0/16,10.2.0.1/32 bailey.yaml:15:7",
		"10.9.0.1:22 at 10.9.0.1/32 bailey.yaml:16:7",
		"xn--bcher-kva.example inspected bailey.yaml:17:7",
		"git.example.com git fetch and push owner/name,owner/other bailey.yaml:18:7",
		"host-service 5432 bailey.yaml:19:7",
	}, texts(n.Allow)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"*.com bailey.yaml:21:7", "api.example.com DELETE bailey.yaml:22:7", "11.0.0.66 bailey.yaml:24:7", "203.0.113.0/24 bailey.yaml:25:7", "198.51.100.0/24:22 bailey.yaml:26:7", "*.example.net at 10.0.0.0/8 bailey.yaml:27:7"}, texts(n.Deny)); diff != "" {
		t.Error(diff)
	}
	if n.Allow[2].Why != "the docs" {
		t.Errorf("why: %q", n.Allow[2].Why)
	}
}

func TestParse_SaysNothing(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "\n", "# a comment\n", "---\n", "net: {}\n", "{}\n", "net:\n  allow: []\n  deny: []\n", "\ufeffnet: {mode: none}\n"} {
		if f := parse(t, text); len(f.Net.Allow)+len(f.Net.Deny) != 0 {
			t.Errorf("%q: %+v", text, f.Net)
		}
	}
}

// EGR-07: what is not known is an error, with its place and the fix.
func TestParse_Refuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{"net:\n  allow:\n\t- a.example", `f:3:1: not YAML: the line is indented with a tab; use spaces`},
		{"net:\n  allow:\n    - a.example\n\t- b.example", `: not YAML: `},
		{"net:\n\tmode: none", `f:2:1: not YAML: the line is indented with a tab; use spaces`},
		{"net:\n  allow:\n  - a.example\n  - *.b.example\n  mode: allow\n", `f:4:5: not YAML: a text that begins with * has to be in quotes, such as "*.example.com"`},
		{"net:\n  allow: [a.example, *.b.example]", `f:2:22: not YAML: a text that begins with * has to be in quotes`},
		{"net:\n  allow: [@a]", `f:2:11: not YAML: a text that begins with @ has to be in quotes`},
		{"net:\n  deny: ['*']", `it names every host; use mode none for that`},
		{"net:\n  deny: [10.0.0.0/33]", `f:2:10: network rule "10.0.0.0/33": "33" is not the length of a range of addresses; write a number up to 32`},
		{"net:\n  deny: ['https://u:secret@a.example/x']", `write the bare host: "a.example"`},
		{"nte: {}", `f:1:1: unknown key "nte" in the file; did you mean "net"?`},
		{"net:\n  alow: []", `f:2:3: unknown key "alow" in net; did you mean "allow"?`},
		{"net:\n  mode: opne", `f:2:9: net.mode: unknown value "opne"; did you mean "open"?`},
		{"net:\n  mode: 3", `f:2:9: net.mode: unknown value "3"; known: none, allow, open, full`},
		{"net:\n  mode:", `f:2:8: net.mode has no value`},
		{"net:\n  mode: none\n  mode: open", `f:3:3: key "mode" is there twice`},
		{"net:\n  ask: yes please", `f:2:8: net.ask: "yes please" is not true or false`},
		{"net:\n  dns: on", `f:2:8: net.dns: unknown value "on"`},
		{"net: []", `f:1:6: net: a list is not a mapping`},
		{"- net", `f:1:1: the file: a list is not a mapping`},
		{"net", `f:1:1: the file: a text is not a mapping`},
		{"net:\n  allow: example.com", `f:2:10: net.allow: "example.com" is not a list; write [example.com]`},
		{"net:\n  allow:\n  - 10.5", `f:3:5: net.allow[0]: "10.5" is neither a text nor a mapping with host or host-service`},
		{"net:\n  allow:\n  - ''", `f:3:5: net.allow[0] is empty`},
		{"net:\n  allow:\n  - [a]", `f:3:5: net.allow[0]: a list is not text`},
		{"net:\n  allow:\n  - '*'", `it would allow every host; use mode open`},
		{"net:\n  allow:\n  - '*.com'", `every host below a top-level domain`},
		{"net:\n  allow:\n  - {host: '*.com', addresses: [10.0.0.0/8]}", `every host below a top-level domain`},
		{"net:\n  allow:\n  - https://example.com/x", `f:3:5: network rule "https://example.com/x": it is a URL; write the bare host: "example.com"`},
		{"net:\n  allow:\n  - 127.0.0.1", `f:3:5: network rule "127.0.0.1": 127.0.0.1 is a loopback address`},
		{"net:\n  allow:\n  - 10.0.0.1", `addresses: [10.0.0.1]`},
		{"net:\n  allow:\n  - {host: 10.0.0.1, addresses: [10.1.0.0/16]}", `10.0.0.1 is a private address`},
		{"net:\n  allow:\n  - {host: a.example, addresses: [127.0.0.0/8]}", `f:3:35: 127.0.0.0/8 holds a loopback address`},
		{"net:\n  allow:\n  - {host: a.example, addresses: [0.0.0.0/0]}", `no sandbox reaches those`},
		{"net:\n  allow:\n  - {host: a.example, addresses: [all]}", `"all" is not a range of addresses`},
		{"net:\n  allow:\n  - {host: a.example, addresses: []}", `f:3:34: net.allow[0].addresses is empty; give it 1 item, or leave the key out`},
		{"net:\n  allow:\n  - {host: a.example, methods: []}", `methods is empty`},
		{"net:\n  allow:\n  - {host: a.example, methods: [get]}", `f:3:33: method "get" is not one; write it in capitals`},
		{"net:\n  allow:\n  - {host: a.example, paths: [v1]}", `it does not begin with a slash`},
		{"net:\n  allow:\n  - {host: a.example, paths: [/a/../b]}", `servers take for another folder`},
		{"net:\n  allow:\n  - {host: a.example, ports: [0]}", `f:3:31: net.allow[0].ports[0]: "0" is not a port`},
		{"net:\n  allow:\n  - {host: a.example, ports: [65536]}", `is not a port`},
		{"net:\n  allow:\n  - {host: a.example, ports: [0x1bb]}", `is not a port`},
		{"net:\n  allow:\n  - {host: a.example, ports: ['443']}", `"443" is a text; write 443, without the quotes`},
		{"net:\n  allow: {host: a.example}", `f:2:10: net.allow: a mapping is not a list; begin it with a hyphen`},
		{"net:\n  allow:\n  - {host: a.example, ports: 443}", `is not a list; write [443]`},
		{"net:\n  allow:\n  - {host: 'a.example:80', ports: [443]}", `has a port already`},
		{"net:\n  allow:\n  - {host: a.example, host-service: 80}", `exactly one of host, host-service`},
		{"net:\n  allow:\n  - {ports: [80]}", `exactly one of host, host-service`},
		{"net:\n  allow:\n  - {host-service: 80, ports: [80]}", `f:3:24: ports says nothing beside host-service`},
		{"net:\n  allow:\n  - {host-service: 0}", `is not a port`},
		{"net:\n  allow:\n  - host.bailey.internal:80", `host-service`},
		{"net:\n  deny:\n  - {host: 11.0.0.0/24, addresses: [11.0.0.0/25]}", `f:3:36: addresses says nothing beside an address or a range`},
		{"net:\n  deny:\n  - {host: 11.0.0.1, addresses: [11.0.0.1]}", `addresses says nothing beside an address or a range`},
		{"net:\n  deny:\n  - 11.0.0.1/24", `f:3:5: network rule "11.0.0.1/24": it is one address with the length of a range; write 11.0.0.0/24`},
		{"net:\n  allow:\n  - 11.0.0.0/24", `f:3:5: network rule "11.0.0.0/24": it is a range of addresses, and a rule is one host`},
		{"net:\n  allow:\n  - {host: 11.0.0.0/24, addresses: [11.0.0.0/24]}", `it is a range of addresses, and a rule is one host`},
		{"net:\n  deny:\n  - {host: a.example, inspect: true}", `inspect says nothing in a deny rule`},
		{"net:\n  deny:\n  - {host: a.example, git: {repositories: [a/b]}}", `f:3:28: git says nothing in a deny rule`},
		{"net:\n  allow:\n  - {host: a.example, git: {repositorys: [a/b]}}", `f:3:29: unknown key "repositorys" in net.allow[0].git; did you mean "repositories"?`},
		{"net:\n  allow:\n  - {host: a.example, git: {write: true}}", `f:3:28: net.allow[0].git has to have exactly one of repositories`},
		{"net:\n  allow:\n  - {host: a.example, git: {repositories: []}}", `f:3:43: net.allow[0].git.repositories is empty`},
		{"net:\n  allow:\n  - {host: a.example, git: {repositories: [a/b.git]}}", `f:3:44: repository "a/b.git": it ends in .git, which may be there or not; write it as owner/name`},
		{"net:\n  allow:\n  - {host: a.example, git: {repositories: [a/b], write: maybe}}", `"maybe" is not true or false`},
		{"net:\n  allow:\n  - {host: a.example, git: [a/b]}", `f:3:28: net.allow[0].git: a list is not a mapping; its keys are repositories, write`},
		{"net:\n  allow:\n  - {host: a.example, git: {repositories: [a/b]}, paths: [/a]}", `paths says nothing beside git`},
		{"net:\n  presets: [nmp]", `f:2:13: net.presets[0]: unknown value "nmp"; did you mean "npm"?`},
		{"net:\n  mode: allow", `f:2:9: mode allow has no allow rule`},
		{"net:\n  mode: allow\n  allow: []", `f:3:10: mode allow has no allow rule`},
		{"net: &a {mode: none}", `anchors and aliases are not read`},
		{"net: !!map {mode: none}", `tags such as !!map are not read`},
		{"net:\n  mode: none\n---\nnet:\n  mode: full", `a second document`},
		{"net:\n\tmode: none", `f:2:`},
		{"net: [", `not YAML`},
		{"net:\n  mode: none\n  deny: {a: b: c}\n", `f:3:3: not YAML`},
		{"net: \x00", `not YAML`},
		{strings.Repeat("#", settings.MaxFile+1), `f:1:1: the file is longer than`},
	} {
		_, err := settings.Parse("f", []byte(c.text))
		var invalid *settings.InvalidError
		if !errors.As(err, &invalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q:\n%v\nwant %s", c.text, err, c.want)
		}
	}
}

func TestParse_TellsAllFaults(t *testing.T) {
	t.Parallel()
	_, err := settings.Parse("f", []byte("net:\n  mode: opne\n  alow: []\n  ask: maybe\n"))
	if err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("%v", err)
	}
	var invalid *settings.InvalidError
	if !errors.As(err, &invalid) {
		t.Fatal(err)
	}
	if short := invalid.Short(settings.CheckCommand); !strings.HasPrefix(short.Message, "f:2:9: ") || !strings.Contains(short.Hint, "2 more") {
		t.Errorf("%+v", short)
	}
}

// What the schema says and what the parser takes come from one table; this
// holds that the table is whole: each key that is read is in the schema.
func TestSchema(t *testing.T) {
	t.Parallel()
	b, err := settings.Schema()
	if err != nil {
		t.Fatal(err)
	}
	var s struct {
		Additional *bool `json:"additionalProperties"`
		Properties struct {
			Net struct {
				Additional *bool                      `json:"additionalProperties"`
				Properties map[string]json.RawMessage `json:"properties"`
			} `json:"net"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatal(err)
	}
	if s.Additional == nil || *s.Additional || s.Properties.Net.Additional == nil || *s.Properties.Net.Additional {
		t.Error("the schema lets unknown keys through")
	}
	for _, k := range []string{"mode", "allow", "deny", "presets", "ask", "dns"} {
		if _, ok := s.Properties.Net.Properties[k]; !ok {
			t.Errorf("the schema has no net.%s", k)
		}
	}
	for _, k := range []string{"host", "ports", "addresses", "methods", "paths", "inspect", "why", "host-service"} {
		if !strings.Contains(string(s.Properties.Net.Properties["allow"]), `"`+k+`":`) {
			t.Errorf("the schema's entries have no %s", k)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"net:\n  mode: allow\n  allow: [a.example]\n", "net: {deny: [{host: a.example, paths: [/a]}]}", "a: &a [*a]", "net:\n  allow:\n  - {host-service: 1}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		file, err := settings.Parse("f", []byte(text))
		if err == nil {
			for _, h := range append(file.Net.Allow, file.Net.Deny...) {
				b, err := h.MarshalJSON()
				if err == nil {
					err = new(policy.Rule).UnmarshalJSON(b)
				}
				if err != nil {
					t.Errorf("%q: %s does not travel: %v", text, h.Text(), err)
				}
			}
			return
		}
		var invalid *settings.InvalidError
		if !errors.As(err, &invalid) || len(invalid.Problems) == 0 {
			t.Fatalf("%q: %v", text, err)
		}
		for _, p := range invalid.Problems {
			if p.Line < 1 || p.Column < 1 || strings.Contains(p.Message, "\n") {
				t.Errorf("%q: %+v", text, p)
			}
		}
	})
}

// A small file is no large policy.
func TestParse_BoundsTheRules(t *testing.T) {
	t.Parallel()
	many := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i+1)
		}
		return b.String()
	}
	paths := "net:\n  allow:\n    - host: a.test\n      ports: [" + many(300, "%d,") + "]\n      paths: [" + many(4000, "/aaaaaaaaa%d,") + "]\n    - b.test\n"
	for what, text := range map[string]string{
		"ports times paths": paths,
		"addresses":         "net:\n  deny: []\n  allow:\n    - {host: a.test, ports: [" + many(3000, "%d,") + "], addresses: [" + many(200, "10.1.1.%d,") + "]}\n",
		"rules":             "net:\n  allow:\n" + many(10_001, "    - h%d.test\n"),
	} {
		_, err := settings.Parse("f.yaml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), "name fewer") || !strings.HasPrefix(err.Error(), "f.yaml:") || strings.Count(err.Error(), "\n") != 0 {
			t.Errorf("%s: %.200v", what, err)
		}
	}
	if f, err := settings.Parse("f.yaml", []byte("net:\n  allow:\n    - {host: a.test, ports: [80, 443, 80], paths: ["+many(4000, "/%d,")+"]}\n"+many(5000, "    - h%d.test\n"))); err != nil || len(f.Net.Allow) != 5002 {
		t.Errorf("a long one: %v", err)
	}
	if _, err := settings.Parse("f.yaml", []byte(strings.Repeat("k", 1<<17)+": 1\n")); err == nil || len(err.Error()) > 2000 {
		t.Errorf("a fault of %d bytes", len(err.Error()))
	}
	for _, text := range []string{"!!str net: {}\n", "&a net: {}\n", "? !x net\n: {}\n", "net: {&b mode: none}\n"} {
		if _, err := settings.Parse("f.yaml", []byte(text)); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}
