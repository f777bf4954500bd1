package rootfs_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestResolver_NamedGoShowsItsModules: what was downloaded is there for a go
// that was named with --tool, and for no other program.
func TestResolver_NamedGoShowsItsModules(t *testing.T) {
	t.Parallel()
	modules := func(at string) map[string]string {
		return map[string]string{"usr/bin/go": elf, "home/me/w/go": elf, at + "/cache/download/x/@v/list": "v1", at + "/cache/vcs/x": "", at + "/x@v1/a.go": ""}
	}
	proxy := func(dir string) []string {
		return []string{"GOPROXY=file://" + dir + ",direct"}
	}
	for _, tt := range []struct {
		name  string
		files map[string]string
		env   map[string]string
		tool  string
		shows string // with cache/download; empty: nothing
		note  bool
	}{
		{name: "in the home", files: modules("home/me/go/pkg/mod"), tool: "go", shows: "/home/me/go/pkg/mod"},
		{name: "GOPATH", files: modules("srv/p/pkg/mod"), env: map[string]string{"GOPATH": "/srv/p:/srv/q"}, tool: "go", shows: "/srv/p/pkg/mod"},
		{name: "GOMODCACHE", files: modules("srv/a b"), env: map[string]string{"GOMODCACHE": "/srv/a b", "GOPATH": "/srv/p"}, tool: "go", shows: "/srv/a b"},
		{name: "nothing was downloaded", files: map[string]string{"usr/bin/go": elf}, tool: "go", note: true},
		{name: "a place of credentials", files: modules("home/me/.ssh/mod"), env: map[string]string{"GOMODCACHE": "/home/me/.ssh/mod"}, tool: "go", note: true},
		{name: "a name that ends the list's place", files: modules("srv/a,direct"), env: map[string]string{"GOMODCACHE": "/srv/a,direct"}, tool: "go", note: true},
		{name: "the workspace's", files: modules("home/me/w/mod"), env: map[string]string{"GOMODCACHE": "/home/me/w/mod"}, tool: "go", note: true},
		{name: "the workspace's program", files: modules("home/me/go/pkg/mod"), tool: "/home/me/w/go"},
		{name: "another program", files: modules("home/me/go/pkg/mod"), tool: "node"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := machine(t, system(tt.files))
			tools, err := caller(dir, "/usr/bin", tt.env).Named(tt.tool)
			if err != nil || len(tools) != 1 {
				t.Fatalf("%v, %v", tools, err)
			}
			var want, env []string
			if tt.shows != "" {
				want = []string{"mount " + tt.shows + "/cache/download (--tool go: downloaded modules)"}
				env = proxy(strings.ReplaceAll(tt.shows, " ", "%20") + "/cache/download")
			}
			if tt.note {
				want = []string{"note on go"}
			}
			if diff := cmp.Diff(want, seen(tools, dir)); diff != "" {
				t.Error(diff)
			}
			if !slices.Equal(env, tools[0].Env) {
				t.Errorf("environment %q, want %q", tools[0].Env, env)
			}
		})
	}
	dir := machine(t, system(modules("home/me/go/pkg/mod")))
	if tools, err := caller(dir, "/usr/bin", nil).Command("go"); err != nil || seen(tools, dir) != nil || tools[0].Env != nil {
		t.Errorf("twin: a go that was not named: %v, %v", tools, err)
	}
}
