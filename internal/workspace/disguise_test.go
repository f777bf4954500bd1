package workspace_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/workspace"
)

// TestRevert_SaysWhatItDidNotLookAt fills a git folder so that the look ends
// before it has seen everything: that may not pass in silence.
func TestRevert_SaysWhatItDidNotLookAt(t *testing.T) {
	t.Parallel()
	dir := repository(t, yard(t))
	w := open(t, dir)
	since := start(t, dir)
	if got := workspace.Revert(w.Guard, since); len(got) != 0 {
		t.Fatalf("before anything was done: %v", say(got, dir))
	}
	const folders = 25_001 // each counts for the look and for its entry
	for i := range folders {
		if err := os.MkdirAll(fmt.Sprintf("%s/.git/fill/%d/%d", dir, i/500, i), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{".git: holds too much: not all of it was checked; do not use git here before you have looked for links"}
	if diff := cmp.Diff(want, say(workspace.Revert(w.Guard, since), dir)); diff != "" {
		t.Error(diff)
	}
}

// TestNewGitDirs_FindsGitFoldersInDisguise makes folders that the host's git
// takes for a repository though they look unlike one. Each has a command in
// its configuration; the twin is that git runs it.
func TestNewGitDirs_FindsGitFoldersInDisguise(t *testing.T) {
	t.Parallel()
	const head, submodule = "ref: refs/heads/main\n", "modules/lib"
	for _, tt := range []struct {
		name  string
		top   string // the folder that becomes a repository, in the workspace
		links bool   // objects and refs are links
		apart bool   // and lie in another folder, with config, which commondir names
	}{
		{name: "the workspace itself"},
		{name: "linked parts", top: "/sub", links: true},
		{name: "parts elsewhere", top: "/sub", apart: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir, mark := yard(t), filepath.Join(yard(t), "ran")
			write(t, dir+"/file", "")
			w := open(t, dir)
			since := start(t, dir)
			top := dir + tt.top
			parts := top
			if tt.apart {
				parts = dir + "/store"
				write(t, top+"/commondir", "../store\n")
			}
			write(t, top+"/HEAD", head)
			write(t, parts+"/config", "[core]\n\tsshCommand = \"touch "+mark+"; false\"\n[remote \"origin\"]\n\turl = ssh://host/path\n")
			for _, name := range []string{"objects", "refs"} {
				at := parts + "/" + name
				if tt.links {
					at = parts + "/real-" + name
					link(t, "real-"+name, parts+"/"+name)
				}
				write(t, at+"/file", "")
			}
			found, _ := workspace.NewGitDirs(w.Guard, since, 10*time.Second, time.Now)
			if !slices.ContainsFunc(found, func(f workspace.Finding) bool { return f.Path == top }) {
				t.Errorf("%s is not named: %v", top, found)
			}
			_ = exec.Command("git", "-C", top, "ls-remote", "origin").Run() // it fails, after it ran the command
			if _, err := os.Stat(mark); err != nil {
				t.Errorf("git runs nothing there: this test proves nothing (%v)", err)
			}
		})
	}
	t.Run("a submodule that was not set up", func(t *testing.T) {
		t.Parallel()
		dir := repository(t, yard(t))
		write(t, dir+"/.git/modules/group/file", "")
		w := open(t, dir)
		since := start(t, dir)
		if found, _ := workspace.NewGitDirs(w.Guard, since, 10*time.Second, time.Now); len(found) != 0 {
			t.Errorf("before anything was done: %v", say(found, dir))
		}
		for _, name := range []string{submodule, "modules/group/inner"} {
			write(t, dir+"/.git/"+name+"/HEAD", head)
		}
		want := []string{
			".git/modules/lib: is a submodule's git folder made during the run: git there takes commands from it",
			".git/modules/group/inner: is a submodule's git folder made during the run: git there takes commands from it",
		}
		found, _ := workspace.NewGitDirs(w.Guard, since, 10*time.Second, time.Now)
		if diff := cmp.Diff(want, say(found, dir)); diff != "" {
			t.Error(diff)
		}
	})
}

// TestHostRun_LooksBelowAndBehind changes what tools read in ways that leave
// the usual traces out: in depth, by moving a folder made before, and in a
// todo list that is a link.
func TestHostRun_LooksBelowAndBehind(t *testing.T) {
	t.Parallel()
	dir := repository(t, yard(t))
	write(t, dir+"/.claude/hooks/deep/pre.sh", "old")
	write(t, dir+"/made-before/tasks.json", "old")
	write(t, dir+"/todo-before/git-rebase-todo", "exec touch /tmp/x\n")
	w := open(t, dir)
	since := start(t, dir)
	if got := workspace.HostRun(w.Guard, since); len(got) != 0 {
		t.Errorf("before anything was done: %v", say(got, dir))
	}
	write(t, dir+"/.claude/hooks/deep/pre.sh", "new")
	for from, to := range map[string]string{"made-before": ".vscode", "todo-before": ".git/rebase-merge"} {
		if err := os.Rename(filepath.Join(dir, from), filepath.Join(dir, to)); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		".vscode: runs on the host: changed during the run", ".claude/hooks/deep/pre.sh: runs on the host: changed during the run",
		".git/rebase-merge/git-rebase-todo: would run commands on `git rebase --continue`",
	}
	if diff := cmp.Diff(want, say(workspace.HostRun(w.Guard, since), dir)); diff != "" {
		t.Error(diff)
	}
	if err := os.Rename(dir+"/.git/rebase-merge/git-rebase-todo", dir+"/todo"); err != nil {
		t.Fatal(err)
	}
	link(t, "../../todo", dir+"/.git/rebase-merge/git-rebase-todo")
	want[2] = ".git/rebase-merge/git-rebase-todo: cannot be read: look at it before `git rebase --continue`"
	if diff := cmp.Diff(want, say(workspace.HostRun(w.Guard, since), dir)); diff != "" {
		t.Error(diff)
	}
}

// TestNewGitDirs_FindsOneInThePlaceOfAGuarded moves a repository away with its
// guarded git folder, and makes another at its path.
func TestNewGitDirs_FindsOneInThePlaceOfAGuarded(t *testing.T) {
	t.Parallel()
	dir := repository(t, yard(t))
	repository(t, dir+"/sub")
	w := open(t, dir)
	if !slices.Contains(w.Guard.GitDirs, dir+"/sub/.git") {
		t.Fatal("the repository in sub is not guarded: this test proves nothing")
	}
	since := start(t, dir)
	find := func() []string {
		found, _ := workspace.NewGitDirs(w.Guard, since, 10*time.Second, time.Now)
		return say(found, dir)
	}
	if got := find(); len(got) != 0 {
		t.Errorf("before anything was done: %v", got)
	}
	if err := os.Rename(dir+"/sub", dir+"/away"); err != nil {
		t.Fatal(err)
	}
	repository(t, dir+"/sub")
	if diff := cmp.Diff([]string{"sub/.git: was made during the run: git there takes commands from it"}, find()); diff != "" {
		t.Error(diff)
	}
}

// TestCompare_HostileConfigCostsWhatItWeighs reads a private copy in which each
// of many variables has a name as long as half of the file. Kept one by one
// they would take gigabytes.
func TestCompare_HostileConfigCostsWhatItWeighs(t *testing.T) {
	t.Parallel()
	const keys, long = 15_000, 1 << 20
	section, subsection := "["+strings.Repeat("s", long)+"]\n", "[a \""+strings.Repeat("s", long)+"\"]\n"
	names, values := func(i int) string { return fmt.Sprintf("k%d\n", i) }, func(int) string { return "k = " + strings.Repeat("v", 100) + "\n" }
	for name, tt := range map[string]struct {
		header string
		line   func(i int) string
	}{
		"long names":                  {subsection, names},
		"one name for many":           {subsection, values},
		"a long section":              {section, names},
		"a section with a dot":        {"[a." + strings.Repeat("S", long) + "]\n", names},
		"a long section for one name": {section, values},
		"sections in turns":           {section, func(i int) string { return fmt.Sprintf("[a%d]\nk = v\n", i) }},
	} {
		t.Run(name, func(t *testing.T) {
			var text strings.Builder
			text.WriteString(tt.header)
			for i := range keys {
				text.WriteString(tt.line(i))
			}
			s := bailey.Shadow{Path: "/w/.git/config", Dir: false, Files: nil}
			after := workspace.Copy{Files: []bailey.File{{Path: "", Mode: 0o644, Data: []byte(text.String())}}, Gone: false, Odd: false}
			var before, now runtime.MemStats
			runtime.ReadMemStats(&before)
			found := workspace.Compare(s, after)
			runtime.ReadMemStats(&now)
			if len(found) != 1 || len(found[0].What) > 1000 {
				t.Errorf("%d findings", len(found))
			}
			const most = 512 << 20 // the copies would be 14 GiB, or 11 GiB
			if got := now.TotalAlloc - before.TotalAlloc; got > most {
				t.Errorf("%d MiB were allocated for a file of %d KiB", got>>20, text.Len()>>10)
			}
		})
	}
}

// TestCompare_TellsLongNamesApart: what is shortened for the report is still
// compared as a whole.
func TestCompare_TellsLongNamesApart(t *testing.T) {
	t.Parallel()
	config := func(last string) []bailey.File {
		name := strings.Repeat("s", 1000) + last
		return []bailey.File{{Path: "", Mode: 0o644, Data: []byte("[url \"" + name + "\"]\n\tinsteadOf = x\n")}}
	}
	s := bailey.Shadow{Path: "/w/.git/config", Dir: false, Files: config("a")}
	if got := workspace.Compare(s, workspace.Copy{Files: config("a"), Gone: false, Odd: false}); len(got) != 0 {
		t.Errorf("unchanged: %v", got)
	}
	got := workspace.Compare(s, workspace.Copy{Files: config("b"), Gone: false, Odd: false})
	if len(got) != 1 || !strings.Contains(got[0].What, "added url.s") || !strings.Contains(got[0].What, "removed url.s") {
		t.Errorf("changed: %v", got)
	}
}
