package settings_test

import (
	"strings"
	"testing"
)

// A rule for a whole host that strangers share is warned of, with its place and
// what to write, and one that is narrower is not.
func TestWarnings(t *testing.T) {
	t.Parallel()
	const paths, git, inspect = "paths: [/mine/*]", "git: {repositories: [owner/name]}", "inspect: true"
	for name, entries := range map[string]map[string]string{
		"A045 a host of many tenants": {
			"storage.googleapis.com":                                    paths,
			"STORAGE.googleapis.com.:443":                               paths,
			"{host: s3.eu-west-1.amazonaws.com, ports: [80, 443]}":      paths,
			"raw.githubusercontent.com":                                 paths,
			"{host: raw.githubusercontent.com, inspect: true}":          paths,
			"{host: raw.githubusercontent.com, methods: [GET]}":         paths,
			"{host: raw.githubusercontent.com, paths: [/owner/name/*]}": "",
			"github.com": git,
			"{host: github.com, git: {repositories: [owner/name]}}": "",
		},
		"A005 a host on a shared edge": {
			"d111111abcdef8.cloudfront.net":                        inspect,
			"{host: d111111abcdef8.cloudfront.net, inspect: true}": "",
		},
		"others": {
			"{host: my.storage.example.com, paths: [/x]}": "",
			"api.example.com":    "",
			"notgithub.com":      "",
			"host-service: 5432": "",
			"11.0.0.10":          "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for entry, want := range entries {
				got, err := parse(t, "net:\n  allow:\n  - "+entry+"\n").Warnings()
				if err != nil {
					t.Fatal(err)
				}
				if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], "bailey.yaml:3:5: warning: ") || !strings.Contains(got[0], want)) {
					t.Errorf("%s: %q, want %q", entry, got, want)
				}
			}
		})
	}
}

// An allow rule that lets nothing through is warned of.
func TestWarnings_OfRulesThatAreDead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"net: {mode: none, allow: [a.test]}":                                         "bailey.yaml:1:13: warning: mode none keeps out",
		"net: {mode: none, presets: [npm]}":                                          "bailey.yaml:1:13: warning: mode none keeps out",
		"net: {mode: none, deny: [a.test]}":                                          "",
		"net: {allow: [a.test], deny: [a.test]}":                                     "bailey.yaml:1:15: warning: deny beats allow, and the deny rule a.test (bailey.yaml:1:31) refuses all of a.test",
		"net: {allow: [a.test], deny: ['*.test']}":                                   "the deny rule *.test",
		"net: {allow: ['*.a.test'], deny: ['*.a.test']}":                             "the deny rule *.a.test",
		"net: {allow: ['*.a.test'], deny: [b.a.test]}":                               "",
		"net: {allow: [a.test], deny: ['a.test:443']}":                               "",
		"net: {allow: [a.test], deny: ['a.test:443', 'a.test:80']}":                  "refuses all of a.test",
		"net: {allow: ['a.test:443'], deny: ['a.test:443']}":                         "refuses all of a.test:443",
		"net: {allow: [a.test], deny: [{host: a.test, methods: [GET]}]}":             "",
		"net: {allow: [a.test], deny: [{host: a.test, addresses: [11.0.0.0/24]}]}":   "",
		"net: {allow: [11.0.0.10], deny: [11.0.0.0/24]}":                             "the deny rule 11.0.0.0/24",
		"net: {allow: [{host: a.test, ports: [8080, 8081]}], deny: ['a.test:8080']}": "refuses all of a.test:8080",
	} {
		got, err := parse(t, text).Warnings()
		if err != nil {
			t.Fatal(err)
		}
		if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || !strings.Contains(got[0], want)) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
