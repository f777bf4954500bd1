package workspace

import (
	"bufio"
	"bytes"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bailey-dev/bailey/internal/linux/beneath"
	"github.com/bailey-dev/bailey/internal/sandbox"
)

// maxHostFiles bounds the entries looked at below one folder that tools of
// the host run something from.
const maxHostFiles = 2000

// hostFiles are files at the top of a workspace that make a tool of the host
// run something, often by just being opened. "x/" is a folder whose files do.
func hostFiles() []string {
	return []string{
		".env", ".envrc", ".gitattributes", ".gitmodules", ".lfsconfig", ".pre-commit-config.yaml", ".husky/", ".githooks/", "lefthook.yml",
		".vscode/", ".idea/", ".zed/", ".nvim.lua", ".nvimrc", ".exrc", ".dir-locals.el", ".gdbinit", ".lldbinit", ".devcontainer/", ".devcontainer.json", ".github/workflows/", ".gitlab-ci.yml", ".circleci/",
		".claude/", ".codex/", ".cursor/", ".gemini/", ".mcp.json", "opencode.json", "CLAUDE.md", "AGENTS.md",
		"package.json", ".npmrc", ".yarnrc.yml", ".pnpmfile.cjs", "Makefile", "justfile", "Taskfile.yml", "mise.toml", ".mise.toml", ".tool-versions",
		"setup.py", "conftest.py", "build.rs", ".cargo/", "gradlew", "mvnw", ".mvn/",
	}
}

// HostRun names the files through which the user's own tools would run what
// the sandbox wrote, as far as they are at usual places and were made or
// changed since the start: hooks kept in the tree, editor tasks, agent
// settings, package scripts, and an unfinished rebase with exec lines. It
// costs some seventy look-ups and a bounded walk of the folders among them.
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
		s.watched(path)
	}
	for _, path := range g.GitDirs {
		s.rebase(path)
	}
	return s.found
}

// looked lists what HostRun looks at in the workspace, relative to it.
func (g Guard) looked() []string {
	list := hostFiles()
	for _, path := range g.Watch {
		if rel, ok := strings.CutPrefix(path, g.Root+"/"); ok {
			list = append(list, rel)
		}
	}
	return list
}

// watched looks at what a git configuration names: in the workspace, or in a
// git folder beside it.
func (s *scanner) watched(path string) {
	const what = "is a git hook or git configuration: changed during the run"
	if rel, ok := strings.CutPrefix(path, s.guard.Root+"/"); ok {
		s.hostFile(rel, what)
		return
	}
	for _, top := range s.guard.GitDirs {
		rel, ok := strings.CutPrefix(path, top+"/")
		if !ok {
			continue
		}
		dir, err := beneath.Dir(top)
		if err != nil {
			return // Revert has said so
		}
		in := scanner{root: dir, guard: s.guard, since: s.since, queue: nil, found: nil, truncated: false}
		in.guard.Root = top
		in.hostFile(rel, what)
		s.found = append(s.found, in.found...)
		_ = dir.Close() // O_PATH: nothing to lose
		return
	}
}

// elsewhere returns a folder above rel in whose place there was another at the
// start, or none, or which is a link now; "" if there is none.
func (s *scanner) elsewhere(rel string) string {
	for dir := filepath.Dir(rel); dir != "."; dir = filepath.Dir(dir) {
		info, err := beneath.Lstat(s.root, dir)
		if err == nil && info.Ino != s.guard.Inodes[filepath.Join(s.guard.Root, dir)] {
			return dir
		}
	}
	return ""
}

// hostFile reports a file, or the files of a folder.
func (s *scanner) hostFile(name, what string) {
	rel := strings.TrimSuffix(name, "/")
	before := len(s.found)
	if s.touched(rel, what); len(s.found) > before {
		return
	}
	dir := s.elsewhere(rel)
	if dir == "" {
		return
	}
	if info, err := beneath.Lstat(s.root, dir); err == nil && (!info.Mode.IsDir() || s.exists(rel)) {
		s.add(rel, what+" (with "+dir+")")
	}
}

// touched reports a file, or the files of a folder, by their own time stamps.
func (s *scanner) touched(rel, what string) {
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
	before := len(s.found)
	left := maxHostFiles
	s.hostFolder(rel, what, &left)
	if len(s.found) == before && !info.Changed.Before(s.since) { // moved here as a whole, or something taken away
		s.add(rel, what)
	}
}

func (s *scanner) exists(rel string) bool {
	_, err := beneath.Lstat(s.root, rel)
	return err == nil
}

// hostFolder reports the files below a folder that were made or changed, and
// the folders that were moved there, as far as left, a number of entries,
// reaches. Tools read such folders in depth.
func (s *scanner) hostFolder(top, what string, left *int) {
	before, touched := len(s.found), []string(nil)
	s.hostTree(top, what, left, &touched)
	for _, dir := range slices.Backward(touched) { // inner before outer
		named := slices.ContainsFunc(s.found[before:], func(f Finding) bool {
			return sandbox.Within(f.Path, clean(filepath.Join(s.guard.Root, dir)))
		})
		if !named { // moved here as a whole, or something taken away
			s.add(dir, what)
		}
	}
}

func (s *scanner) hostTree(top, what string, left *int, touched *[]string) {
	for queue := []string{top}; len(queue) > 0; queue = queue[1:] {
		entries, err := beneath.ReadDir(s.root, queue[0], *left)
		if *left -= len(entries); *left <= 0 || errors.Is(err, beneath.ErrStrange) {
			s.add(top, "holds too much to be looked through for what runs on the host")
			return
		}
		for _, e := range entries {
			path := filepath.Join(queue[0], e.Name)
			switch {
			case e.Type.IsDir():
				queue = append(queue, path)
				if s.fresh(path) {
					*touched = append(*touched, path)
				}
			case s.fresh(path):
				s.add(path, what)
			}
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
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		s.found = append(s.found, finding(filepath.Join(gitDir, todo), "cannot be read: look at it before `git rebase --continue`"))
		return
	}
	folder, err := beneath.Lstat(dir, filepath.Dir(todo))
	if err == nil && info.Changed.Before(s.since) && folder.Changed.Before(s.since) { // the folder's tells of a move
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
