package workspace_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey/internal/workspace"
)

// Included files include others: what lies in the git folder has a private
// copy, what lies in the tree is watched, and what those name counts too.
func TestOpen_FollowsIncludes(t *testing.T) {
	t.Parallel()
	dir := repository(t, yard(t))
	git(t, dir, "config", "include.path", "extra.cfg")
	git(t, dir, "config", "includeIf.onbranch:x.path", "../team/git.cfg")
	write(t, dir+"/.git/extra.cfg", "[include]\n\tpath = more.cfg\n\tpath = gone.cfg\n\tpath = extra.cfg\n")
	write(t, dir+"/.git/more.cfg", "[alias]\n\tx = status\n[core]\n\thooksPath = .git/myhooks\n")
	write(t, dir+"/.git/myhooks/pre-commit", "#!/bin/sh\n")
	write(t, dir+"/team/git.cfg", "[core]\n\thooksPath = team/hooks\n[include]\n\tpath = deeper.cfg\n\tpath = ../.git/HEAD\n\tpath = ../.git/refs/heads/main\n")
	write(t, dir+"/team/deeper.cfg", "[include]\n\tpath = git.cfg\n[filter \"tidy\"]\n\tclean = team/tidy %f\n")
	w := open(t, dir)
	got := show(w, dir)
	for _, want := range []string{"copy .git/extra.cfg", "copy .git/more.cfg", "absent .git/gone.cfg", "copy .git/myhooks/ pre-commit"} {
		if !slices.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
	for _, s := range w.Shadows {
		if rel := strings.TrimPrefix(s.Path, dir+"/.git/"); rel == "HEAD" || strings.HasPrefix(rel, "refs") {
			t.Errorf("commits are lost in the private copy of %s", rel)
		}
	}
	for _, want := range []string{"team/git.cfg", "team/deeper.cfg", "team/hooks"} {
		if !slices.Contains(w.Guard.Watch, dir+"/"+want) {
			t.Errorf("%s is not watched: %q", want, w.Guard.Watch)
		}
	}
	if diff := cmp.Diff([]string{dir + "/team/tidy"}, w.Guard.Programs); diff != "" {
		t.Error(diff)
	}
}

// However deep and wide what a sandbox wrote includes, it stops no start.
func TestOpen_IncludesAreBounded(t *testing.T) {
	t.Parallel()
	dir := repository(t, yard(t))
	git(t, dir, "config", "include.path", "../c0")
	var wide strings.Builder
	wide.WriteString("[core]\n\thooksPath = .git\n[include]\n")
	for i := range 500 {
		fmt.Fprintf(&wide, "\tpath = .git/w%d\n\tpath = t%d\n", i, i)
	}
	for i := range 40 {
		write(t, fmt.Sprintf("%s/c%d", dir, i), fmt.Sprintf("[include]\n\tpath = c%d\n", i+1))
	}
	w := open(t, dir)
	if !slices.Contains(w.Guard.Watch, dir+"/c9") || slices.Contains(w.Guard.Watch, dir+"/c20") {
		t.Errorf("ten deep, as git does: %q", w.Guard.Watch)
	}
	write(t, dir+"/c0", wide.String())
	if w = open(t, dir); len(w.Shadows) > 40 || len(w.Guard.Watch) > 600 || len(w.Notes) == 0 {
		t.Errorf("%d copies, %d watched, notes %q", len(w.Shadows), len(w.Guard.Watch), w.Notes)
	}
}

// The caller's own configuration counts for each repository.
func TestOpen_TheCallersOwnConfiguration(t *testing.T) {
	t.Parallel()
	base := yard(t)
	dir := repository(t, base+"/proj")
	write(t, base+"/gitconfig", "[core]\n\thooksPath = .git/myhooks\n\tfsmonitor = tools/fsm\n[include]\n\tpath = more\n[alias]\n\tx = \"!sh tools/alias.sh; git status\"\n")
	write(t, base+"/more", "[core]\n\thooksPath = tools/hooks\n[include]\n\tpath = proj/dot/gitconfig\n")
	write(t, dir+"/.git/myhooks/pre-commit", "#!/bin/sh\n")
	write(t, dir+"/tools/alias.sh", "")
	write(t, dir+"/sub/.git/HEAD", "x")
	r := request(dir)
	r.GitConfigs = []string{base + "/none", base + "/gitconfig"}
	w, err := workspace.Open(r)
	if err != nil {
		t.Fatal(err)
	}
	if got := show(w, dir); !slices.Contains(got, "copy .git/myhooks/ pre-commit") || !slices.Contains(got, "absent sub/.git/myhooks") {
		t.Errorf("%q", got)
	}
	for _, want := range []string{"tools/hooks", "sub/tools/hooks", "dot/gitconfig"} {
		if !slices.Contains(w.Guard.Watch, filepath.Join(dir, want)) {
			t.Errorf("%s is not watched: %q", want, w.Guard.Watch)
		}
	}
	for _, want := range []string{"tools/fsm", "tools/alias.sh"} {
		if !slices.Contains(w.Guard.Programs, filepath.Join(dir, want)) {
			t.Errorf("%s is not watched: %q", want, w.Guard.Programs)
		}
	}
	if slices.Contains(w.Guard.Programs, dir+"/status") {
		t.Errorf("a word is taken for a file: %q", w.Guard.Programs)
	}
	twin := open(t, dir)
	if len(twin.Guard.Watch)+len(twin.Guard.Programs) != 0 {
		t.Errorf("twin: %q %q", twin.Guard.Watch, twin.Guard.Programs)
	}
}
