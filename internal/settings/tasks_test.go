package settings_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey/internal/settings"
	"github.com/bailey-dev/bailey/internal/task"
)

func TestTasks_AreRead(t *testing.T) {
	t.Parallel()
	f, err := settings.Parse("config.yaml", []byte("tasks:\n  roots: [/srv/code, ~/src, \"~\"]\n  max_parallel: 4\n  mcp_listen: 127.0.0.1:9000\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := f.Tasks.Folders("/home/ada"), []string{"/srv/code", "/home/ada/src", "/home/ada"}; !slices.Equal(got, want) {
		t.Errorf("roots: %v, want %v", got, want)
	}
	if f.Tasks.MaxParallel.Value != 4 || f.Tasks.MCPListen.Value != "127.0.0.1:9000" || f.Tasks.MCPListen.From != "config.yaml:4:15" {
		t.Errorf("%+v, %+v", f.Tasks.MaxParallel, f.Tasks.MCPListen)
	}
	var none settings.Tasks
	if got := none.Folders("/home/ada/"); !slices.Equal(got, []string{"/home/ada"}) {
		t.Errorf("by default: %v", got)
	}
}

// TestTasks_WhatIsWrongHasItsPlace: each is refused, with where it stands.
func TestTasks_WhatIsWrongHasItsPlace(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"tasks: {root: [/x]}":                   `f:1:9: unknown key "root" in tasks; did you mean "roots"?`,
		"tasks: {roots: []}":                    "f:1:16: ",
		"tasks: {roots: [~]}":                   `f:1:17: tasks.roots[0]: ~ is YAML's word for nothing; for the text write "~", in quotes`,
		"tasks: {roots: [src]}":                 `f:1:17: tasks.roots: "src" is not an absolute folder`,
		"tasks: {max_parallel: 0}":              "f:1:23: ",
		"tasks: {max_parallel: many}":           "f:1:23: ",
		"tasks: {max_parallel: 29}":             "f:1:23: ",
		"tasks: {mcp_listen: 0.0.0.0:8765}":     `f:1:21: "0.0.0.0:8765" is not an address on loopback`,
		"tasks: {mcp_listen: localhost:8765}":   "f:1:21: ",
		"tasks: {mcp_listen: \"127.0.0.1:\"}":   "f:1:21: ",
		"tasks: {mcp_listen: \"127.0.0.1:+1\"}": "f:1:21: ",
	} {
		if _, err := settings.Parse("f", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	for _, text := range []string{"tasks: {max_parallel: 28}", "tasks: {mcp_listen: \"[::1]:1\"}", "tasks: {mcp_listen: off}", "tasks: {mcp_listen: \"off\"}"} {
		if _, err := settings.Parse("f", []byte(text)); err != nil {
			t.Errorf("twin: %s: %v", text, err)
		}
	}
	if task.MostAgents != 28 {
		t.Errorf("max_parallel ends at 28, and a service at %d agents", task.MostAgents)
	}
}

// TestTasks_AreTheUsersOwn: a project's file, whoever wrote it, does not say
// which repositories are worked on.
func TestTasks_AreTheUsersOwn(t *testing.T) {
	t.Parallel()
	p := settings.Place{ConfigDir: t.TempDir(), DataDir: t.TempDir(), Dir: t.TempDir()}
	text := []byte("tasks: {roots: [/]}\n")
	if err := os.WriteFile(filepath.Join(p.Dir, settings.ProjectFile), text, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := settings.Load(p); err == nil || !strings.Contains(err.Error(), "only your own file says what tasks may do") {
		t.Errorf("a project's file: %v", err)
	}
	if err := os.Rename(filepath.Join(p.Dir, settings.ProjectFile), p.UserFile()); err != nil {
		t.Fatal(err)
	}
	if got, err := settings.LoadTasks(p); err != nil || !slices.Equal(got.Folders("/home/ada"), []string{"/"}) {
		t.Errorf("twin: the user's own: %v, %v", got, err)
	}
}
