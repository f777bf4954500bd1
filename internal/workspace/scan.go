package workspace

import (
	"bufio"
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bailey-dev/bailey/internal/linux/beneath"
	"github.com/bailey-dev/bailey/internal/sandbox"
)

// Limits of the search for git folders, besides its time.
const (
	maxScanFindings = 100
	maxScanFolder   = 1 << 20 // entries of one folder
	// maxHostFiles bounds the entries looked at below one folder that tools of
	// the host run something from.
	maxHostFiles = 2000
	// maxModuleFolders bounds the folders looked at below one folder modules.
	maxModuleFolders = 1000
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
	s.found = newModules(g, s.since)
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
	for _, e := range entries {
		path := filepath.Join(rel, e.Name)
		if strings.EqualFold(e.Name, ".git") { // case matters on the host only if its file system says so
			s.dotGit(path, e.Type)
			continue
		}
		if e.Type.IsDir() {
			s.queue = append(s.queue, path)
		}
	}
	if looksBare(entries) && !s.guarded(rel) {
		s.gitDir(rel, "is a bare git repository made")
	}
}

// looksBare reports whether git may take a folder with these entries for a git
// folder without it being named .git (setup.c, is_git_directory): it has HEAD,
// and objects and refs, or a commondir that says where they are. git follows
// links to all three and does not mind what kind of file they are.
func looksBare(entries []beneath.Entry) bool {
	has := func(name string) bool {
		return slices.ContainsFunc(entries, func(e beneath.Entry) bool { return e.Name == name })
	}
	return has("HEAD") && (has("objects") && has("refs") || has("commondir"))
}

// newModules reports git folders of submodules that were not there at the
// start. They lie in a git folder, so that nothing of the work tree shows
// them, and `git submodule update` takes one that is there for its own.
func newModules(g Guard, since time.Time) (found []Finding) {
	for _, path := range g.GitDirs {
		dir, err := beneath.Dir(path)
		if err != nil {
			continue // Revert has said so
		}
		s := scanner{root: dir, guard: Guard{Root: path, GitDirs: g.GitDirs, Parts: nil, Absent: nil, Watch: nil, Inodes: g.Inodes}, since: since, queue: []string{"modules"}, found: nil, truncated: false}
		s.modules()
		found = append(found, s.found...)
		_ = dir.Close() // O_PATH: nothing to lose
	}
	return found
}

func (s *scanner) modules() {
	for looked := 0; len(s.queue) > 0; looked++ {
		if looked >= maxModuleFolders {
			s.add("modules", "holds too much to be looked through for git folders of submodules")
			return
		}
		rel := s.queue[0]
		s.queue = s.queue[1:]
		entries, _ := beneath.ReadDir(s.root, rel, maxScanFolder) // not there is the usual case
		if slices.ContainsFunc(entries, func(e beneath.Entry) bool { return e.Name == "HEAD" }) {
			if !s.guarded(rel) {
				s.gitDir(rel, "is a submodule's git folder made")
			}
			continue // modules of its own are looked at for themselves, or reported with it
		}
		for _, e := range entries {
			if e.Type.IsDir() {
				s.queue = append(s.queue, filepath.Join(rel, e.Name))
			}
		}
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

// guarded reports whether a path is a git folder with private copies: it is
// named in the guard and is no other one in the place of that.
func (s *scanner) guarded(rel string) bool {
	path := filepath.Join(s.guard.Root, rel)
	if !slices.Contains(s.guard.GitDirs, path) {
		return false
	}
	info, err := beneath.Lstat(s.root, rel)
	return err == nil && info.Mode.IsDir() && info.Born.Before(s.since) && info.Ino == s.guard.Inodes[path]
}

// gitDir reports a git folder that was made during the run or moved to its
// place, or in which something that git takes commands from was changed.
func (s *scanner) gitDir(rel, made string) {
	info, err := beneath.Lstat(s.root, rel)
	if err != nil {
		return
	}
	if !info.Born.IsZero() && !info.Born.Before(s.since) {
		s.add(rel, made+" during the run: git there takes commands from it")
		return
	}
	// HEAD last: a folder that has the rest already is a repository with it.
	for _, name := range []string{"config", "config.worktree", "hooks", "info", "info/attributes", "commondir", "HEAD"} {
		if s.fresh(filepath.Join(rel, name)) {
			s.add(rel, "has its "+name+" changed during the run: git there takes commands from it")
			return
		}
	}
	hooks := filepath.Join(rel, "hooks")
	look := &scanner{root: s.root, guard: s.guard, since: s.since, queue: nil, found: nil, truncated: false}
	left := maxHostFiles
	if look.hostFolder(hooks, "has a hook changed during the run", &left); len(look.found) > 0 {
		s.add(rel, "has a hook changed during the run")
		return
	}
	// A move changes the folder and the one that it comes to. So does other
	// work in both: what was only worked with is named too.
	if rel != "" && !info.Changed.Before(s.since) && s.fresh(filepath.Dir(rel)) {
		s.add(rel, "may have been moved here during the run: git there takes commands from it")
	}
}

// fresh reports whether a file was made, changed or renamed during the run.
func (s *scanner) fresh(rel string) bool {
	if rel == "." {
		rel = ""
	}
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
