package workspace

import (
	"bufio"
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bailey-dev/bailey/internal/linux/beneath"
)

// Limits of the search for git folders, besides its time.
const (
	maxScanFindings = 100
	maxScanFolder   = 1 << 20 // entries of one folder
)

// NewGitDirs looks through the workspace for git folders that a run made, or
// whose commands it changed, other than those that are guarded. The host's git
// takes commands from them as soon as the user works there. Folders near the
// top are looked at first; the search ends after budget by the clock now, and
// truncated says that it did not see everything. It follows no link and stays
// on one file system.
func NewGitDirs(g Guard, since time.Time, budget time.Duration, now func() time.Time) (found []Finding, truncated bool) {
	root, err := beneath.Dir(g.Root)
	if err != nil {
		return nil, true
	}
	defer func() { _ = root.Close() }() // O_PATH: nothing to lose
	s := scanner{root: root, guard: g, since: since.Add(-clockSlack), queue: []string{""}, found: nil, truncated: false}
	end := now().Add(budget)
	for len(s.queue) > 0 {
		if len(s.found) >= maxScanFindings || now().After(end) {
			return s.found, true
		}
		rel := s.queue[0]
		s.queue = s.queue[1:]
		s.folder(rel)
	}
	return s.found, s.truncated
}

type scanner struct {
	root      *os.File
	guard     Guard
	since     time.Time
	queue     []string
	found     []Finding
	truncated bool
}

// folder looks at one folder and queues those in it.
func (s *scanner) folder(rel string) {
	entries, err := beneath.ReadDirSameDevice(s.root, rel, maxScanFolder)
	if err != nil {
		s.truncated = s.truncated || !beneath.IsOtherMount(err)
		return
	}
	bare := 0
	for _, e := range entries {
		path := filepath.Join(rel, e.Name)
		switch {
		case strings.EqualFold(e.Name, ".git"): // case matters on the host only if its file system says so
			s.dotGit(path, e.Type)
			continue
		case e.Name == "HEAD" && !e.Type.IsDir(), (e.Name == "objects" || e.Name == "refs") && e.Type.IsDir():
			bare++
		}
		if e.Type.IsDir() {
			s.queue = append(s.queue, path)
		}
	}
	if bare == 3 && rel != "" { // git takes such a folder for a bare repository
		s.gitDir(rel, "is a bare git repository made")
	}
}

func (s *scanner) dotGit(rel string, kind fs.FileMode) {
	if s.guarded(rel) {
		return
	}
	if kind.IsDir() {
		s.gitDir(rel, "was made")
		return
	}
	if s.fresh(rel) {
		s.add(rel, "was made or changed during the run: git there takes commands from what it names")
	}
}

// guarded reports whether a path is a git folder with private copies.
func (s *scanner) guarded(rel string) bool {
	return slices.Contains(s.guard.GitDirs, filepath.Join(s.guard.Root, rel))
}

// gitDir reports a git folder that was made during the run, or in which
// something that git takes commands from was changed.
func (s *scanner) gitDir(rel, made string) {
	info, err := beneath.Lstat(s.root, rel)
	if err != nil {
		return
	}
	if !info.Born.IsZero() && !info.Born.Before(s.since) {
		s.add(rel, made+" during the run: git there takes commands from it")
		return
	}
	for _, name := range []string{"config", "config.worktree", "hooks", "info/attributes", "commondir"} {
		if s.fresh(filepath.Join(rel, name)) {
			s.add(rel, "has its "+name+" changed during the run: git there takes commands from it")
			return
		}
	}
	entries, err := beneath.ReadDir(s.root, filepath.Join(rel, "hooks"), maxHookFiles)
	for _, e := range entries {
		if s.fresh(filepath.Join(rel, "hooks", e.Name)) {
			s.add(rel, "has a hook changed during the run")
			return
		}
	}
	_ = err // a folder without hooks is the usual case
}

// fresh reports whether a file was made, changed or renamed during the run.
func (s *scanner) fresh(rel string) bool {
	info, err := beneath.Lstat(s.root, rel)
	return err == nil && !info.Changed.Before(s.since)
}

func (s *scanner) add(rel, what string) {
	s.found = append(s.found, finding(filepath.Join(s.guard.Root, rel), what))
}

// hostFiles are files at the top of a workspace that make a tool of the host
// run something, often by just being opened. "x/" is a folder whose files do.
func hostFiles() []string {
	return []string{
		".envrc", ".gitattributes", ".gitmodules", ".pre-commit-config.yaml", ".husky/", ".githooks/", "lefthook.yml",
		".vscode/", ".idea/", ".devcontainer/", ".devcontainer.json", ".github/workflows/", ".gitlab-ci.yml", ".circleci/",
		".claude/", ".codex/", ".cursor/", ".mcp.json", "opencode.json", "CLAUDE.md", "AGENTS.md",
		"package.json", ".npmrc", ".yarnrc.yml", ".pnpmfile.cjs", "Makefile", "justfile", "Taskfile.yml", "mise.toml", ".mise.toml", ".tool-versions",
		"setup.py", "conftest.py", "build.rs", ".cargo/", "gradlew", "mvnw", ".mvn/",
	}
}

// HostRun names the files through which the user's own tools would run what
// the sandbox wrote, as far as they are at usual places and were made or
// changed since the start: hooks kept in the tree, editor tasks, agent
// settings, package scripts, and an unfinished rebase with exec lines. It
// costs some sixty look-ups, no walk.
func HostRun(g Guard, since time.Time) []Finding {
	root, err := beneath.Dir(g.Root)
	if err != nil {
		return nil
	}
	defer func() { _ = root.Close() }() // O_PATH: nothing to lose
	s := scanner{root: root, guard: g, since: since.Add(-clockSlack), queue: nil, found: nil, truncated: false}
	for _, name := range hostFiles() {
		s.hostFile(name, "runs on the host: changed during the run")
	}
	for _, path := range g.Watch {
		if rel, err := filepath.Rel(g.Root, path); err == nil && filepath.IsLocal(rel) {
			s.hostFile(rel+"/", "is a git hook: changed during the run")
		}
	}
	for _, path := range g.GitDirs {
		s.rebase(path)
	}
	return s.found
}

// hostFile reports a file, or the files of a folder if name ends in "/".
func (s *scanner) hostFile(name, what string) {
	rel := strings.TrimSuffix(name, "/")
	info, err := beneath.Lstat(s.root, rel)
	if err != nil {
		return
	}
	if !info.Mode.IsDir() {
		if !info.Changed.Before(s.since) {
			s.add(rel, what)
		}
		return
	}
	entries, _ := beneath.ReadDir(s.root, rel, maxHookFiles) // a part is better than nothing
	for _, e := range entries {
		if path := filepath.Join(rel, e.Name); s.fresh(path) {
			s.add(path, what)
		}
	}
}

// rebase reports a todo list of `git rebase` that would run commands.
func (s *scanner) rebase(gitDir string) {
	dir, err := beneath.Dir(gitDir)
	if err != nil {
		return
	}
	defer func() { _ = dir.Close() }() // O_PATH: nothing to lose
	const todo = "rebase-merge/git-rebase-todo"
	data, info, err := beneath.ReadFile(dir, todo, maxHooksBytes)
	if err != nil || info.Changed.Before(s.since) {
		return
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, maxHooksBytes)
	for lines.Scan() {
		if word := strings.Fields(lines.Text()); len(word) > 0 && (word[0] == "exec" || word[0] == "x") {
			s.found = append(s.found, finding(filepath.Join(gitDir, todo), "would run commands on `git rebase --continue`"))
			return
		}
	}
}
