package agents_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/bailey-dev/bailey/internal/testkit/agents"
)

// fakeNPM is an npm that notes each call and lays out what it was asked for.
const fakeNPM = `#!/bin/sh
echo "$@" >> "$NPM_CALLS"
[ "$1 $2" = "install --prefix" ] || exit 1
dir=$3; shift 3
for p; do
	case $p in --*) continue ;; esac
	name=${p%@*}; version=${p##*@}
	/bin/mkdir -p "$dir/node_modules/$name"
	echo "{\"version\":\"$version\"}" > "$dir/node_modules/$name/package.json"
done
`

func withNPM(t *testing.T, script string) (calls string) {
	t.Helper()
	bin := t.TempDir()
	calls = filepath.Join(bin, "calls")
	if script != "" {
		must(t, os.WriteFile(filepath.Join(bin, "npm"), []byte(script), 0o755))
	}
	t.Setenv("PATH", bin)
	t.Setenv("NPM_CALLS", calls)
	return calls
}

func TestInstall_OnceForAll(t *testing.T) {
	calls := withNPM(t, fakeNPM)
	dir := filepath.Join(t.TempDir(), "a", "b")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := agents.Install(t.Context(), dir); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	b, err := os.ReadFile(calls)
	if err != nil || strings.Count(string(b), "\n") != 1 || !strings.Contains(string(b), strings.Join(agents.Pinned(), " ")) {
		t.Errorf("npm was called: %q %v", b, err)
	}
	// What is there needs no npm; another version does.
	withNPM(t, "")
	if err := agents.Install(t.Context(), dir); err != nil {
		t.Errorf("installed already: %v", err)
	}
	must(t, os.WriteFile(filepath.Join(dir, "node_modules/opencode-ai/package.json"), []byte(`{"version":"0.0.1"}`), 0o600))
	if err := agents.Install(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "npm is not installed") {
		t.Errorf("another version and no npm: %v", err)
	}
}

func TestInstall_SaysWhatFailed(t *testing.T) {
	for name, tc := range map[string]struct{ npm, want string }{
		"no npm":            {"", "npm is not installed"},
		"npm fails":         {"#!/bin/sh\necho no such registry >&2; exit 7\n", "no such registry"},
		"npm does not help": {"#!/bin/sh\nexit 0\n", "still not in"},
	} {
		t.Run(name, func(t *testing.T) {
			withNPM(t, tc.npm)
			if err := agents.Install(t.Context(), t.TempDir()); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
