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
