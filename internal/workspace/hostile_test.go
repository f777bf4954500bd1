package workspace_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/workspace"
)

// TestOpen_HostileGitFile opens work trees whose .git file names another
// project's git folder. None of it may become visible.
func TestOpen_HostileGitFile(t *testing.T) {
	t.Parallel()
	base := yard(t)
	victim := repository(t, base+"/victim")
	git(t, victim, "worktree", "add", "-q", base+"/linked")
	write(t, base+"/keys/id_ed25519", "key")
	for _, tt := range []struct {
		name  string
		text  string            // of .git
		files map[string]string // others
		links map[string]string // path to target
	}{
		{name: "a git folder", text: "gitdir: ../victim/.git\n"},
		{name: "an admin folder", text: "gitdir: " + victim + "/.git/worktrees/linked\n"},
		{name: "any folder", text: "gitdir: ../keys\n"},
		{name: "the root", text: "gitdir: /\n"},
		{name: "nothing", text: "gitdir: gone\n"},
		{name: "no pointer", text: "hello\n"},
		{name: "itself", text: "gitdir: .git\n"},
		{name: "an endless one", text: "gitdir: " + strings.Repeat("x", 1<<16)},
		{name: "a link to a git folder", text: "gitdir: inner\n", links: map[string]string{"inner": victim + "/.git"}},
		{
			name: "a made-up admin folder", text: "gitdir: fake/worktrees/x\n",
			files: map[string]string{"HEAD": "ref: refs/heads/main\n", "commondir": victim + "/.git\n", "gitdir": "../../../.git\n"},
		},
		{
			name: "an admin folder with a link as common", text: "gitdir: fake/worktrees/x\n",
			files: map[string]string{"HEAD": "ref: refs/heads/main\n", "commondir": "../../../common\n", "gitdir": "../../../.git\n"},
			links: map[string]string{"common": victim + "/.git"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(base, strings.ReplaceAll(tt.name, " ", "-"))
			write(t, dir+"/.git", tt.text)
			for name, text := range tt.files {
				write(t, dir+"/fake/worktrees/x/"+name, text)
			}
			for name, target := range tt.links {
				link(t, target, dir+"/"+name)
			}
			w := open(t, dir)
			for _, m := range w.Mounts {
				if m.Source != dir && !strings.HasPrefix(m.Source, dir+"/") {
					t.Errorf("%s is visible", m.Source)
				}
			}
			if len(w.Notes) == 0 {
				t.Error("nothing is said of it")
			}
		})
	}
}

// TestOpen_RefusesLinksInTheGitFolder covers what cannot be guarded: each is
// refused with a word on how to mend it.
func TestOpen_RefusesLinksInTheGitFolder(t *testing.T) {
	t.Parallel()
	base := yard(t)
	for _, name := range []string{".git", ".git/config", ".git/hooks", ".git/info", ".git/objects", ".git/logs", "pipe"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(base, filepath.Base(name))
			if name == "pipe" {
				if err := errors.Join(os.MkdirAll(dir, 0o755), syscall.Mkfifo(dir+"/.git", 0o600)); err != nil {
					t.Fatal(err)
				}
			} else {
				replace(t, filepath.Join(repository(t, dir), name))
			}
			_, err := workspace.Open(request(dir))
			e, ok := errors.AsType[*bailey.Error](err)
			if !ok || e.Kind != bailey.Invalid || e.Hint == "" || !strings.Contains(e.Message, dir) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestOpen_LeftoversStopNothing opens what an earlier sandbox may have left in
// a git folder so that no other should start.
func TestOpen_LeftoversStopNothing(t *testing.T) {
	t.Parallel()
	module := func(t *testing.T, dir string) string {
		t.Helper()
		for _, name := range []string{"HEAD", "objects/file", "refs/file"} {
			write(t, filepath.Join(dir, ".git/modules/m", name), "x")
		}
		return dir + "/.git/modules/m"
	}
	admin := func(t *testing.T, dir string) string {
		t.Helper()
		git(t, dir, "worktree", "add", "-q", "sub")
		return dir + "/.git/worktrees/sub"
	}
	for name, leave := range map[string]func(t *testing.T, dir string) string{
		"a file modules":   func(t *testing.T, dir string) string { write(t, dir+"/.git/modules", ""); return "" },
		"a file worktrees": func(t *testing.T, dir string) string { write(t, dir+"/.git/worktrees", ""); return "" },
		"a submodule's file modules": func(t *testing.T, dir string) string {
			write(t, module(t, dir)+"/modules", "")
			return ""
		},
		"a submodule's folder config": func(t *testing.T, dir string) string {
			m := module(t, dir)
			write(t, m+"/config/file", "")
			return m
		},
		"a submodule's file hooks": func(t *testing.T, dir string) string {
			m := module(t, dir)
			write(t, m+"/hooks", "")
			return m
		},
		"a submodule that names itself": func(t *testing.T, dir string) string {
			m := module(t, dir)
			write(t, m+"/config", "[core]\nworktree = ../../..\nhooksPath = "+m+"\n")
			return m
		},
		"a work tree's pipe": func(t *testing.T, dir string) string {
			a := admin(t, dir)
			if err := errors.Join(os.Remove(a+"/commondir"), syscall.Mkfifo(a+"/commondir", 0o600)); err != nil {
				t.Fatal(err)
			}
			return a
		},
		"a work tree's folder config.worktree": func(t *testing.T, dir string) string {
			a := admin(t, dir)
			write(t, a+"/config.worktree/file", "")
			return a
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := repository(t, yard(t))
			readOnly := leave(t, dir)
			w := open(t, dir)
			got := show(w, dir)
			if !slices.Contains(got, "rw .git") || !slices.ContainsFunc(w.Shadows, func(s bailey.Shadow) bool { return s.Path == dir+"/.git/config" }) {
				t.Errorf("the rest is not guarded: %v", got)
			}
			if readOnly == "" {
				return
			}
			rel := strings.TrimPrefix(readOnly, dir+"/")
			if !slices.Contains(got, "ro "+rel) || slices.Contains(got, "rw "+rel) || slices.Contains(w.Guard.GitDirs, readOnly) || len(w.Notes) != 1 || !strings.Contains(w.Notes[0], rel) {
				t.Errorf("%v %q", got, w.Notes)
			}
		})
	}
}

// What stops a start says which file to move away.
func TestOpen_SaysHowToMendAGitFolder(t *testing.T) {
	t.Parallel()
	for at, make := range map[string]string{".git/logs": "file", ".git/refs": "file", ".git/hooks": "file", ".git/config": "folder", ".git/commondir": "folder"} {
		dir := repository(t, yard(t))
		path := filepath.Join(dir, at)
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		if make == "folder" {
			path += "/file"
		}
		write(t, path, "")
		_, err := workspace.Open(request(dir))
		e, ok := errors.AsType[*bailey.Error](err)
		if want := "mv " + filepath.Join(dir, at) + " "; !ok || !strings.Contains(e.Hint, want) || !strings.Contains(e.Hint, "this is a "+make) {
			t.Errorf("%s: %v", at, err)
		}
	}
}

// TestOpen_OddNamesStopNothing opens a workspace in which an earlier sandbox
// left git folders under names that cannot be mounted.
func TestOpen_OddNamesStopNothing(t *testing.T) {
	t.Parallel()
	const odd = "a\x1b[31mb\nc"
	for _, at := range []string{odd, ".git/modules/" + odd, ".git/worktrees/" + odd} {
		t.Run(clean(at), func(t *testing.T) {
			t.Parallel()
			dir := repository(t, yard(t))
			for _, name := range []string{"HEAD", "objects/file", "refs/file", ".git/file"} {
				write(t, filepath.Join(dir, at, name), "x")
			}
			w := open(t, dir)
			for _, m := range w.Mounts {
				if strings.Contains(m.Target, odd) {
					t.Errorf("%q is a mount", m.Target)
				}
			}
			for _, s := range w.Shadows {
				if strings.Contains(s.Path, odd) {
					t.Errorf("%q has a private copy", s.Path)
				}
			}
			if len(w.Notes) == 0 || strings.Contains(strings.Join(w.Notes, ""), odd) {
				t.Errorf("notes: %q", w.Notes)
			}
		})
	}
}

// clean makes a name printable.
func clean(s string) string { return strings.Map(func(r rune) rune { return max(r, ' ') }, s) }

// replace moves a file away and puts a link to it in its place.
func replace(t *testing.T, path string) {
	t.Helper()
	if err := os.Rename(path, path+".real"); err != nil {
		t.Fatal(err)
	}
	link(t, path+".real", path)
}

// TestOpen_NamesACommonDir: what a sandbox left of which nobody lived to take
// it away is named before the next one starts.
func TestOpen_NamesACommonDir(t *testing.T) {
	t.Parallel()
	dir := repository(t, t.TempDir())
	if w := open(t, dir); len(w.Notes) != 0 {
		t.Errorf("a plain repository: %q", w.Notes)
	}
	left := filepath.Join(dir, ".git", "commondir")
	if err := os.WriteFile(left, []byte("../evil\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if w := open(t, dir); len(w.Notes) != 1 || !strings.Contains(w.Notes[0], left) {
		t.Errorf("notes: %q", w.Notes)
	}
}

// TestOpen_OwnFolderNamedRelatively: it is guarded all the same.
func TestOpen_OwnFolderNamedRelatively(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for own, fine := range map[string]bool{filepath.Join(dir, "run"): false, filepath.Join(dir, "..", "elsewhere"): true} {
		rel, err := filepath.Rel(here, own)
		if err != nil {
			t.Fatal(err)
		}
		r := workspace.Request{Dir: dir, UID: os.Getuid(), Home: "/nonexistent", Passwd: "/dev/null", Own: []string{rel}, ReadOnly: false}
		if _, err := workspace.Open(r); (err == nil) != fine {
			t.Errorf("%s: %v", rel, err)
		}
	}
}
