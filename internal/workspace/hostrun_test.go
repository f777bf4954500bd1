package workspace_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey/internal/linux/beneath"
	"github.com/bailey-dev/bailey/internal/workspace"
)

// run opens a workspace, lets change write into it, and returns what would run
// on the host.
func hostRun(t *testing.T, dir string, change func()) []workspace.Finding {
	t.Helper()
	w := open(t, dir)
	since := start(t, dir)
	if got := workspace.HostRun(w.Guard, since); len(got) != 0 {
		t.Errorf("before anything was done: %v", say(got, dir))
	}
	change()
	return workspace.HostRun(w.Guard, since)
}

// A name that is a link stands for what it leads to, in the tree.
func TestHostRun_FollowsLinksOfTheTree(t *testing.T) {
	t.Parallel()
	dir := yard(t)
	outside := yard(t) + "/rules.mk"
	for _, name := range []string{"mk/main.mk2", "cfg/vs/tasks.json", "cfg/vs/quiet.json", "docs/agents", "tools/hook", "cfg/gh/workflows/ci.yml", "src/kept"} {
		write(t, filepath.Join(dir, name), "old")
	}
	write(t, outside, "old")
	link(t, "mk/main.mk2", dir+"/Makefile")
	link(t, "cfg/vs", dir+"/.vscode")
	link(t, dir+"/docs/agents", dir+"/AGENTS.md")
	link(t, "AGENTS.md", dir+"/CLAUDE.md")
	link(t, "cfg/gh", dir+"/.github")
	link(t, outside, dir+"/justfile")
	link(t, "src/kept", dir+"/tox.ini")
	link(t, "loop", dir+"/loop")
	link(t, "loop/x", dir+"/Rakefile")
	write(t, dir+"/.husky/own", "")
	link(t, "../tools/hook", dir+"/.husky/pre-commit")
	link(t, "..", dir+"/.husky/up")
	found := hostRun(t, dir, func() {
		for _, name := range []string{"mk/main.mk2", "cfg/vs/tasks.json", "docs/agents", "tools/hook", "cfg/gh/workflows/ci.yml"} {
			write(t, filepath.Join(dir, name), "new")
		}
		write(t, outside, "new") // not the sandbox's
	})
	var got []string
	for _, f := range found {
		rel, _ := filepath.Rel(dir, f.Path)
		got = append(got, rel)
		if !strings.Contains(f.What, "through a link") || f.By == "" {
			t.Errorf("%s: %q by %q", rel, f.What, f.By)
		}
	}
	slices.Sort(got)
	want := []string{".husky/pre-commit", "AGENTS.md", "CLAUDE.md", "Makefile", "cfg/gh/workflows/ci.yml", "cfg/vs/tasks.json"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Every name counts at the top and in the folders below it.
func TestHostRun_KnowsTheNames(t *testing.T) {
	t.Parallel()
	dir := yard(t)
	names := strings.Fields(`GNUmakefile makefile Justfile justfile .justfile Taskfile.yml Taskfile.yaml pyproject.toml setup.py setup.cfg tox.ini noxfile.py
		conftest.py Rakefile Gemfile build.gradle build.gradle.kts settings.gradle settings.gradle.kts gradlew mvnw .mvn/jvm.config .bazelrc CMakeLists.txt configure
		my.code-workspace .helix/config.toml .exrc .nvim.lua .lvimrc .vimrc .fleet/run.json .idea/x.xml .Rprofile shell.nix flake.nix .env.local eslint.config.mjs
		.eslintrc.js vite.config.ts webpack.config.js .yarnrc .yarnrc.yml .yarn/releases/yarn.cjs .npmrc .pnpmfile.cjs sitecustomize.py lefthook.yaml
		lefthook-local.yml .lefthook.yml .gitconfig Jenkinsfile .travis.yml azure-pipelines.yml .gitlab-ci.yml .github/workflows/x.yml .github/actions/a/action.yml
		docker-compose.yml docker-compose.dev.yaml compose.yaml .devcontainer/x.json GEMINI.md AGENTS.md CLAUDE.md .opencode/plugin/x.js opencode.json opencode.jsonc
		.mcp.json .cursor/rules .cursorrules .aider.conf.yml .clinerules .windsurfrules .claude/settings.json .venv/bin/python .envrc package.json .vscode/tasks.json`)
	found := hostRun(t, dir, func() {
		for _, name := range names {
			write(t, filepath.Join(dir, name), "x")
			write(t, filepath.Join(dir, "a/b", name), "x")
		}
		for _, name := range []string{"main.go", "src/index.js", "node_modules/x/package.json", "Makefiles", "docs/package.json.md"} {
			write(t, filepath.Join(dir, name), "x")
		}
	})
	got := map[string]int{}
	for _, f := range found {
		rel, _ := filepath.Rel(dir, f.Path)
		got[rel]++
		if !slices.Contains(workspace.Runners(), f.By) || f.By == "" {
			t.Errorf("%s: by %q", rel, f.By)
		}
	}
	counts := maps.Clone(got)
	for _, name := range names {
		for _, rel := range []string{name, "a/b/" + name} {
			if got[rel] == 0 {
				t.Errorf("%s is not named", rel)
			}
			delete(got, rel)
		}
	}
	if slices.ContainsFunc(slices.Collect(maps.Values(counts)), func(n int) bool { return n > 1 }) {
		t.Errorf("named twice: %v", counts)
	}
	if len(got) != 0 {
		t.Errorf("named for nothing: %v", got)
	}
}

// What git's configuration has in its command lines is named when it changes.
func TestHostRun_NamesProgramsOfGitsConfiguration(t *testing.T) {
	t.Parallel()
	dir := repository(t, yard(t))
	write(t, dir+"/tools/tidy", "old")
	write(t, dir+"/tools/kept", "old")
	git(t, dir, "config", "filter.tidy.clean", "./tools/tidy %f")
	git(t, dir, "config", "diff.x.textconv", "tools/kept")
	git(t, dir, "config", "core.fsmonitor", "tools/made")
	found := hostRun(t, dir, func() {
		write(t, dir+"/tools/tidy", "new")
		write(t, dir+"/tools/made", "new")
	})
	const what = ": is in a command line of git's configuration: changed during the run"
	got := say(found, dir)
	slices.Sort(got)
	if diff := cmp.Diff([]string{"tools/made" + what, "tools/tidy" + what}, got); diff != "" {
		t.Error(diff)
	}
}

// A tree of any size is looked through as far as a bound, and that is said.
func TestHostRun_SaysWhatItDidNotLookAt(t *testing.T) {
	t.Parallel()
	dir := yard(t)
	found := hostRun(t, dir, func() {
		for i := range 1100 {
			write(t, fmt.Sprintf("%s/d%d/Makefile", dir, i), "x")
		}
		if err := os.MkdirAll(dir+"/z/z", 0o755); err != nil {
			t.Fatal(err)
		}
	})
	if last := found[len(found)-1]; len(found) != 1001 || !strings.Contains(last.What, "not looked through") {
		t.Errorf("%d findings, the last is %v", len(found), last)
	}
}

// A file that is edited right before a start is no work of the run's, and one
// that is edited right after it is: the instant is by the clock that files are
// stamped with.
func TestHostRun_TellsTheLastMomentBeforeFromTheFirstAfter(t *testing.T) {
	t.Parallel()
	dir := yard(t)
	write(t, dir+"/Makefile", "all:\n")
	g := workspace.Guard{Root: dir}
	for range 100 {
		before := stamp(t, dir+"/Makefile")
		since := beneath.Clock()
		for !before.Before(since) { // the same tick tells nothing: a start takes longer than one
			since = beneath.Clock()
		}
		if got := workspace.HostRun(g, since); len(got) != 0 {
			t.Fatalf("edited before: %+v", got)
		}
		stamp(t, dir+"/Makefile")
		if got := workspace.HostRun(g, since); len(got) != 1 {
			t.Fatalf("edited after: %+v", got)
		}
	}
}
