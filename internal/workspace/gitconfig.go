package workspace

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/gitdata"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
	"github.com/bailey-dev/bailey/internal/sandbox"
)

// Limits of what is followed in git configuration. A sandbox may have written
// what lies in the tree, so none of them stops a start.
const (
	maxIncludeDepth = 10  // git's own (config.c, MAX_INCLUDE_DEPTH)
	maxConfigFiles  = 64  // read for one git folder
	maxIncludes     = 16  // private copies of included files in one git folder
	maxNames        = 256 // folders of hooks, and programs, each
	maxWatched      = 512
)

// configNamed is what git configuration names elsewhere, as it is written.
type configNamed struct {
	hooks    []hooksPath
	programs []string // command lines and paths
	files    []string // configuration itself: where it is, behind links too
}

// hooksPath is one value of core.hooksPath. That another one overrides it is
// not looked at: conditions (includeIf) may change that.
type hooksPath struct {
	path string
	tree bool // it is written where a sandbox may write
}

// configReader reads configuration and all that it includes, whatever the
// condition (git-config(1), "Includes").
type configReader struct {
	l     *layout
	open  func(place string, tree bool) ([]byte, error) // an included file; nil if there is nothing to read
	seen  map[string]bool
	named configNamed
}

// take notes what one configuration file names. tree says that the sandbox may
// write to it.
func (r *configReader) take(file string, data []byte, depth int, tree bool) error {
	cfg, _ := gitdata.ParseConfig(data) // what stands before a syntax error still counts
	for _, e := range cfg {
		switch {
		case e.Section == "include" && e.Key == "path", e.Section == "includeif" && e.Key == "path":
			if err := r.include(filepath.Dir(file), e.Value, depth+1, tree); err != nil {
				return err
			}
		case e.Section == "core" && e.Key == "hookspath":
			if len(r.named.hooks) < maxNames {
				r.named.hooks = append(r.named.hooks, hooksPath{path: e.Value, tree: tree})
			}
		case runs(e) && len(r.named.programs) < maxNames:
			r.named.programs = append(r.named.programs, e.Value)
		}
	}
	return nil
}

func (r *configReader) include(base, path string, depth int, tree bool) error {
	for _, place := range r.l.places(base, path) {
		if depth > maxIncludeDepth || r.seen[place] || len(r.seen) >= maxConfigFiles {
			continue
		}
		r.seen[place] = true
		data, err := r.open(place, tree)
		if err != nil {
			return err
		}
		r.named.files = append(r.named.files, place)
		if err := r.take(place, data, depth, tree || r.l.writable(place)); err != nil {
			return err
		}
	}
	return nil
}

// runs reports whether git runs the value of a variable, or reads from the
// file it names what it is to run.
func runs(e gitdata.Entry) bool {
	switch e.Section {
	case "alias", "pager":
		return true
	case "submodule":
		return e.Key == "update"
	}
	switch e.Key {
	case "fsmonitor", "sshcommand", "editor", "pager", "gitproxy", "askpass", "program", "defaultkeycommand", "external", "command", "textconv",
		"clean", "smudge", "process", "driver", "helper", "difffilter", "cmd", "path", "packobjectshook", "uploadpack", "receivepack",
		"templatedir", "attributesfile", "sendmailcmd", "tocmd", "cccmd":
		return true
	}
	return false
}

// writable reports whether a sandbox may write to a place of the host.
func (l *layout) writable(place string) bool {
	return (sandbox.Within(place, l.w.Path) || withinAny(place, l.w.Guard.GitDirs)) && !l.private(place)
}

// readConfig reads what a configuration includes, wherever that is; nothing if
// it is no plain file.
func readConfig(place string) []byte {
	data, info, err := beneath.Head(place, gitdata.MaxConfigBytes)
	if err != nil || info.Size > gitdata.MaxConfigBytes {
		return nil
	}
	return data
}

// globalConfig reads the configuration of the caller and of the system, which
// counts for each repository.
func (l *layout) globalConfig() {
	r := configReader{l: l, seen: make(map[string]bool), named: configNamed{hooks: nil, programs: nil, files: nil}, open: func(place string, _ bool) ([]byte, error) {
		return readConfig(place), nil
	}}
	for _, file := range l.request.GitConfigs {
		_ = r.include("/", file, 0, false) // opening does not fail
	}
	l.global = r.named
}

// watchGlobal has watched what the caller's configuration names in the
// workspace, itself included: people keep it in a checkout of their own.
func (l *layout) watchGlobal() {
	for _, place := range l.global.files {
		l.watch(place)
	}
	l.watchNamed("", l.w.Path)
}

// readOnlyConfig takes what the configuration of a git folder names that the
// sandbox cannot write to.
func (l *layout) readOnlyConfig(gitDir string) {
	r := configReader{l: l, seen: make(map[string]bool), named: configNamed{hooks: nil, programs: nil, files: nil}, open: func(place string, _ bool) ([]byte, error) {
		l.watch(place)
		return readConfig(place), nil
	}}
	_ = r.include(gitDir, "config", 0, false) // opening does not fail
	l.named[gitDir] = r.named
}

// config takes from a configuration file of the git folder what it names
// elsewhere. Files that it includes of the git folder itself get a private
// copy too, those of the tree are watched.
func (g *guarded) config(path string, data []byte) error {
	if g.reader == nil {
		g.reader = &configReader{l: g.layout, open: g.included, seen: make(map[string]bool), named: configNamed{hooks: nil, programs: nil, files: nil}}
	}
	g.reader.seen[path] = true
	err := g.reader.take(path, data, 0, false)
	g.named[g.path] = g.reader.named
	return err
}

// included guards one included file and returns what it holds. What a file of
// the tree includes of the git folder is watched where git has files of its
// own, whose private copies would lose commits.
func (g *guarded) included(place string, tree bool) ([]byte, error) {
	rel, inside := strings.CutPrefix(place, g.path+"/")
	switch {
	case !inside, gitsOwn(rel), tree && !isPlain(place):
		g.watch(place)
		return readConfig(place), nil
	case g.private(place):
		return g.copyOf(place), nil
	}
	if g.includes++; g.includes > maxIncludes {
		g.watch(place)
		return readConfig(place), nil
	}
	if err := g.file(rel); err != nil {
		return nil, err
	}
	return g.copyOf(place), nil
}

// isPlain reports whether a plain file, or nothing, is at a path.
func isPlain(path string) bool {
	info, err := os.Lstat(path)
	return err != nil || info.Mode().IsRegular()
}

// copyOf returns what the private copy of a file holds.
func (l *layout) copyOf(path string) []byte {
	for _, s := range l.w.Shadows {
		if s.Path == path && !s.Dir {
			return s.Files[0].Data
		}
	}
	return nil
}

// gitsOwn reports whether a path in a git folder is of those that git itself
// keeps there, or is a part of it.
func gitsOwn(rel string) bool {
	first, _, _ := strings.Cut(rel, "/")
	switch first {
	case "objects", "refs", "logs", "index", "packed-refs", "shallow", "modules", "worktrees", "rebase-merge", "rebase-apply", "sequencer", "lfs":
		return true
	}
	return strings.HasSuffix(first, "HEAD") || strings.HasSuffix(first, "MSG")
}

// hooksOf lists the folders of hooks that are named for a work tree of a git
// folder, by its own configuration or the caller's.
func (l *layout) hooksOf(gitDir string) []hooksPath {
	return slices.Concat(l.named[gitDir].hooks, l.global.hooks)
}

// ownHooks makes the private copy of folders of hooks that the configuration
// names in the git folder itself.
func (g *guarded) ownHooks(worktree string) error {
	for _, h := range g.hooksOf(g.path) {
		for _, place := range g.places(worktree, h.path) {
			rel, inside := strings.CutPrefix(place, g.path+"/")
			switch {
			case place == g.path && h.tree:
				g.note("a file of the tree names %s itself for hooks: what is made in it may run on the host", place)
			case place == g.path:
				return bailey.NewError(bailey.Invalid, "core.hooksPath names the git folder "+place+" itself",
					"move the hooks into a folder of their own, and name that")
			case !inside, g.private(place), gitsOwn(rel):
			default:
				if err := g.folder(rel); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// watchNamed has watched what a git folder's configuration names for a work
// tree, and what the caller's own does.
func (l *layout) watchNamed(gitDir, worktree string) {
	if l.request.ReadOnly {
		return
	}
	for _, h := range l.hooksOf(gitDir) {
		for _, place := range l.places(worktree, h.path) {
			l.watch(place)
		}
	}
	for _, line := range slices.Concat(l.named[gitDir].programs, l.global.programs) {
		l.watchProgram(worktree, line)
	}
}

// watchProgram has watched what a command line of git's configuration names in
// the workspace: git runs it at the top of the work tree. A first word without
// a slash is looked for in PATH, and others may be no files at all.
func (l *layout) watchProgram(worktree, line string) {
	words := strings.FieldsFunc(strings.TrimPrefix(line, "!"), func(r rune) bool { return r <= ' ' || strings.ContainsRune(`;|&()<>"'=`+"`", r) })
	for i, word := range words[:min(len(words), maxIncludes)] {
		path, slash := strings.CutPrefix(word, "$HOME/")
		if slash {
			path = filepath.Join(l.request.Home, path)
		}
		places := l.places(worktree, path)
		if filepath.IsAbs(path) { // behind $(git rev-parse --show-toplevel)
			places = append(places, filepath.Join(worktree, path))
		}
		for _, place := range places {
			_, err := os.Lstat(place)
			if err == nil && (i > 0 || strings.Contains(word, "/")) || err != nil && i == 0 && strings.Contains(word, "/") {
				l.watchIn(&l.w.Guard.Programs, place)
			}
		}
	}
}

// places returns what a configuration names by path, and where that really is
// if it is behind a link. A relative path is taken from base, which for a
// folder of hooks is the work tree that git runs in (git-config(1),
// core.hooksPath). "~/" is the caller's home; other people's homes hold no
// workspace of the caller's.
func (l *layout) places(base, path string) []string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		base, path = l.request.Home, rest
	}
	if path == "" || strings.HasPrefix(path, "~") {
		return nil
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(base, path)
	}
	return spellings(path)
}

// watch remembers a place from which the host's git takes commands, if the
// sandbox may change it there.
func (l *layout) watch(place string) { l.watchIn(&l.w.Guard.Watch, place) }

func (l *layout) watchIn(list *[]string, place string) {
	if place == l.w.Path || !l.writable(place) || slices.Contains(l.w.Guard.Watch, place) || slices.Contains(*list, place) || len(*list) >= maxWatched {
		return
	}
	*list = append(*list, place)
}
