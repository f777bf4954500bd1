package settings_test

import (
	"strings"
	"testing"
)

// A005, A044, A045: a rule for a whole host that strangers share is warned of,
// with its place and what to write, and one that is narrower is not.
func TestWarnings(t *testing.T) {
	t.Parallel()
	for entry, want := range map[string]string{
		"storage.googleapis.com":                                    "paths: [/mine/*]",
		"STORAGE.googleapis.com.:443":                               "paths: [/mine/*]",
		"{host: s3.eu-west-1.amazonaws.com, ports: [80, 443]}":      "paths: [/mine/*]",
		"raw.githubusercontent.com":                                 "paths: [/mine/*]",
		"{host: raw.githubusercontent.com, inspect: true}":          "paths: [/mine/*]",
		"{host: raw.githubusercontent.com, methods: [GET]}":         "paths: [/mine/*]",
		"{host: raw.githubusercontent.com, paths: [/owner/name/*]}": "",
		"github.com": "git: {repositories: [owner/name]}",
		"{host: github.com, git: {repositories: [owner/name]}}": "",
		"d111111abcdef8.cloudfront.net":                         "inspect: true",
		"{host: d111111abcdef8.cloudfront.net, inspect: true}":  "",
		"{host: my.storage.example.com, paths: [/x]}":           "",
		"api.example.com":    "",
		"notgithub.com":      "",
		"host-service: 5432": "",
		"11.0.0.10":          "",
	} {
		got, err := parse(t, "net:\n  allow:\n  - "+entry+"\n").Warnings()
		if err != nil {
			t.Fatal(err)
		}
		if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], "bailey.yaml:3:5: warning: ") || !strings.Contains(got[0], want)) {
			t.Errorf("%s: %q, want %q", entry, got, want)
		}
	}
}
