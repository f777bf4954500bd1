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

// Limits of the look for what runs on the host.
const (
	// maxHostFiles bounds the entries looked at below one folder that tools of
	// the host run something from.
	maxHostFiles = 2000
	// maxHostEntries bounds those looked at of the whole tree.
	maxHostEntries  = 50_000
	maxHostFindings = 1000
	maxTreeLinks    = 40 // followed on one path, as many as the kernel does (path_resolution(7))
)

// HostRun names the files through which the user's own tools would run what
// the sandbox wrote, as far as they have usual names and were made or changed
// since the start: hooks kept in the tree, editor tasks, agent settings,
// package scripts, programs of git's configuration, and an unfinished rebase
// with exec lines. Finding.By says what would run them. Links are followed as
// long as they stay in the tree. It costs some two hundred look-ups and a
// bounded walk.
func HostRun(g Guard, since time.Time) []Finding {
	root, err := beneath.Dir(g.Root)
	if err != nil {
		return nil
	}
	defer func() { _ = root.Close() }() // O_PATH: nothing to lose
	s := scanner{root: root, guard: g, since: since}
	for _, n := range hostNames() {
		if !n.pattern {
			s.by(n.by, func() { s.hostFile(n.name, n.what()) })
		}
	}
	s.by("", s.hostWalk)
	for _, path := range g.Watch {
		s.by(byGit, func() { s.watched(path, "is a git hook or git configuration: changed during the run") })
	}
	for _, path := range g.Programs {
		s.by(byGit, func() { s.watched(path, "is in a command line of git's configuration: changed during the run") })
	}
	for _, path := range g.GitDirs {
		s.by(byGit, func() { s.rebase(path) })
	}
	return once(s.found)
}

// once drops what was found in two ways: by the name of a file and by that of
// the folder it lies in.
func once(found []Finding) []Finding {
	seen := make(map[Finding]bool, len(found))
	return slices.DeleteFunc(found, func(f Finding) bool {
		f.By = ""
		again := seen[f]
		seen[f] = true
		return again
	})
}

// by notes on all that look finds what would run it, unless it is noted
// already.
func (s *scanner) by(who string, look func()) {
	before := len(s.found)
	look()
	for i := range s.found[before:] {
		if f := &s.found[before+i]; f.By == "" {
			f.By = who
		}
	}
}

// hostWalk looks for the same names below the top, and for names that are
// patterns everywhere, nearest first.
func (s *scanner) hostWalk() {
	index := newHostIndex()
	left := maxHostEntries
	for queue := []string{""}; len(queue) > 0; queue = queue[1:] {
		dir := queue[0]
		entries, err := beneath.ReadDirSameDevice(s.root, dir, left)
		left -= len(entries) + 1
		if left <= 0 || errors.Is(err, beneath.ErrStrange) || len(s.found) >= maxHostFindings {
			s.add(dir, "and what lies deeper was not looked through for what runs on the host: there is too much")
			return
		}
		for _, e := range entries {
			named := s.hostEntry(dir, e, index)
			if e.Type.IsDir() && !named && !skipped(e.Name) {
				queue = append(queue, filepath.Join(dir, e.Name))
			}
		}
	}
}

// hostEntry looks at one name of a folder, and reports whether it stands for
// all that is in it.
func (s *scanner) hostEntry(dir string, e beneath.Entry, index hostIndex) (whole bool) {
	if n, ok := index.matching(e.Name); ok {
		s.by(n.by, func() { s.touched(filepath.Join(dir, e.Name), n.what()) })
		return true
	}
	for _, n := range index.byFirst[e.Name] {
		if dir != "" { // those at the top are looked at whether they are there or not
			s.by(n.by, func() { s.touched(filepath.Join(dir, n.name), n.what()) })
		}
		whole = whole || n.name == e.Name
	}
	return whole
}

// skipped are folders that hold what tools have fetched and built: too much,
// and nothing of it is opened by itself.
func skipped(name string) bool {
	switch name {
	case ".git", "node_modules", ".venv", "venv", "target", "site-packages", "__pycache__":
		return true
	}
	return false
}

// looked lists what HostRun looks at in the workspace, relative to it.
func (g Guard) looked() []string {
	var list []string
	for _, n := range hostNames() {
		if !n.pattern {
			list = append(list, n.name)
		}
	}
	for _, path := range slices.Concat(g.Watch, g.Programs) {
		if rel, ok := strings.CutPrefix(path, g.Root+"/"); ok {
			list = append(list, rel)
		}
	}
	return list
}

// watched looks at what a git configuration names: in the workspace, or in a
// git folder beside it.
func (s *scanner) watched(path, what string) {
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
		in := scanner{root: dir, guard: s.guard, since: s.since}
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
func (s *scanner) hostFile(rel, what string) {
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

// touched reports a file, or the files of a folder, by their own time stamps
// and those of the links that lead to them.
func (s *scanner) touched(rel, what string) {
	real, ok := s.follow(rel)
	if !ok {
		if s.fresh(rel) { // a link out of the tree, or to nothing
			s.add(rel, what)
		}
		return
	}
	info, err := beneath.Lstat(s.root, real.path)
	if err != nil {
		return
	}
	if real.path != filepath.Clean(rel) {
		what += ", through a link"
	}
	if real.fresh {
		s.add(rel, what)
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
	s.hostFolder(real.path, what, &left)
	if len(s.found) == before && !info.Changed.Before(s.since) { // moved here as a whole, or something taken away
		s.add(rel, what)
	}
}

// followed is where links of the tree lead.
type followed struct {
	path  string // relative to the root, without links
	fresh bool   // one of the links was made or changed during the run
}

// follow follows the links on a path of the tree, as far as they stay in it.
func (s *scanner) follow(rel string) (f followed, ok bool) {
	rest := strings.Split(filepath.Clean(rel), "/")
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		next, inside := step(f.path, name)
		if !inside {
			return f, false
		}
		target, fresh, err := s.link(next)
		if err != nil {
			return f, false
		}
		if target == "" {
			f.path = next
			continue
		}
		if links++; links > maxTreeLinks {
			return f, false
		}
		f.fresh = f.fresh || fresh
		if filepath.IsAbs(target) {
			f.path = ""
			if target, ok = strings.CutPrefix(filepath.Clean(target), s.guard.Root+"/"); !ok {
				return f, false
			}
		}
		rest = append(strings.Split(filepath.Clean(target), "/"), rest...)
	}
	return f, true
}

// step goes from one folder of the tree to a name in it, or up.
func step(at, name string) (next string, inside bool) {
	if name != ".." {
		return filepath.Join(at, name), true
	}
	if next = filepath.Dir(at); next == "." {
		next = ""
	}
	return next, at != ""
}

// link returns what the link at a path without other links holds, "" for what
// is no link, and whether it was made during the run.
func (s *scanner) link(rel string) (target string, fresh bool, err error) {
	info, err := beneath.Lstat(s.root, rel)
	if err != nil || info.Mode&fs.ModeSymlink == 0 {
		return "", false, err
	}
	target, err = beneath.Readlink(s.root, rel)
	return target, !info.Changed.Before(s.since), err
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
	seen := map[string]bool{top: true}
	for queue := []string{top}; len(queue) > 0; queue = queue[1:] {
		entries, err := beneath.ReadDir(s.root, queue[0], *left)
		if *left -= len(entries); *left <= 0 || errors.Is(err, beneath.ErrStrange) {
			s.add(top, "holds too much to be looked through for what runs on the host")
			return
		}
		for _, e := range entries {
			path := filepath.Join(queue[0], e.Name)
			if e.Type.IsDir() && s.fresh(path) {
				*touched = append(*touched, path)
			}
			if dir := s.hostTreeEntry(path, e.Type, what); dir != "" && !seen[dir] {
				seen[dir] = true
				queue = append(queue, dir)
			}
		}
	}
}

// hostTreeEntry reports a file that was changed, and returns a folder, or the
// one that a link leads to.
func (s *scanner) hostTreeEntry(path string, kind fs.FileMode, what string) (folder string) {
	switch {
	case kind.IsDir():
		return path
	case s.fresh(path):
		s.add(path, what)
	case kind == fs.ModeSymlink:
		return s.hostLink(path, what)
	}
	return ""
}

// hostLink reports a link whose end in the tree was changed, and returns that
// if it is a folder.
func (s *scanner) hostLink(path, what string) (folder string) {
	real, ok := s.follow(path)
	if !ok {
		return ""
	}
	info, err := beneath.Lstat(s.root, real.path)
	switch {
	case err != nil:
	case info.Mode.IsDir():
		if real.path != "" { // the tree itself is not its part
			return real.path
		}
	case real.fresh || !info.Changed.Before(s.since):
		s.add(path, what+", through a link")
	}
	return ""
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
