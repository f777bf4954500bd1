package carry_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/carry"
)

func (b *bench) begin(dirty bool) (carry.PhaseBegan, error) {
	b.Helper()
	a, err := b.do(carry.Request{PhaseBegin: &carry.PhaseBegin{Repository: b.place(), Folder: b.folder, AllowDirty: dirty}})
	got, _ := a.Head.(carry.PhaseBegan)
	return got, err
}

func (b *bench) begun(dirty bool) carry.PhaseBegan {
	b.Helper()
	got, err := b.begin(dirty)
	if err != nil {
		b.Fatal(err)
	}
	return got
}

func (b *bench) gather() carry.PhaseCollected {
	b.Helper()
	a, err := b.do(carry.Request{PhaseCollect: &carry.PhaseCollect{Repository: b.place(), Folder: b.folder}})
	if err != nil {
		b.Fatal(err)
	}
	got, _ := a.Head.(carry.PhaseCollected)
	return got
}

func (b *bench) settle() (carry.PhaseCommitted, error) {
	b.Helper()
	a, err := b.do(carry.Request{PhaseCommit: &carry.PhaseCommit{Repository: b.place(), Folder: b.folder, Message: "a unit\n", Name: "A Person", Email: "person@example.com"}})
	got, _ := a.Head.(carry.PhaseCommitted)
	return got, err
}

func (b *bench) settled() carry.PhaseCommitted {
	b.Helper()
	got, err := b.settle()
	if err != nil {
		b.Fatal(err)
	}
	return got
}

// head is what the branch holds, as a list of changes and who made them.
func (b *bench) head(want string) {
	b.Helper()
	git(b, b.repo, "fsck", "--strict")
	if diff := cmp.Diff(want, git(b, b.repo, "log", "-1", "--format=%an %s", "--name-status", "--no-renames", "main")); diff != "" {
		b.Error(diff)
	}
}

func (b *bench) status(want string) {
	b.Helper()
	if diff := cmp.Diff(want, git(b, b.repo, "status", "--porcelain")); diff != "" {
		b.Error("status:", diff)
	}
}

// TestPhase_CommitsWhatChanged, on the branch, by the person, and leaves the
// tree clean.
func TestPhase_CommitsWhatChanged(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := b.begun(false)
	b.file("a.txt", "two\n").file("new/d.txt", "d\n")
	if err := os.Remove(b.repo + "/dir/sub/c.txt"); err != nil {
		t.Fatal(err)
	}
	if got := b.gather(); !strings.Contains(got.Stat, "a.txt") || len(got.Refused) != 0 {
		t.Errorf("%+v", got)
	}
	got := b.settled()
	b.head("A Person a unit\n\nM\ta.txt\nD\tdir/sub/c.txt\nA\tnew/d.txt")
	b.status("")
	if len(got.Left)+len(got.Kept) != 0 || git(t, b.repo, "rev-parse", "main~1") != first.Head {
		t.Errorf("%+v", got)
	}
	if again := b.settled(); again.Commit != got.Commit || git(t, b.repo, "rev-parse", "main") != got.Commit {
		t.Errorf("done again: %+v", again)
	}
	if b.begun(false); b.gather().Work != "" {
		t.Error("there is work where nothing changed")
	}
}

// TestPhase_RefusesToBegin in a tree that holds what a person has not
// committed, or is in the middle of something.
func TestPhase_RefusesToBegin(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(b *bench){
		"changed":         func(b *bench) { b.file("a.txt", "mine\n") },
		"untracked":       func(b *bench) { b.file("mine.txt", "mine\n") },
		"staged":          func(b *bench) { b.file("mine.txt", "mine\n"); git(b, b.repo, "add", "mine.txt") },
		"staged deletion": func(b *bench) { git(b, b.repo, "rm", "-q", "--cached", "a.txt") },
		"detached":        func(b *bench) { git(b, b.repo, "switch", "-q", "--detach") },
		"merge":           func(b *bench) { b.file(".git/MERGE_HEAD", git(b, b.repo, "rev-parse", "HEAD")+"\n") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.begun(false)
			make(b)
			if _, err := b.begin(false); bailey.KindOf(err) != bailey.Conflict && bailey.KindOf(err) != bailey.Invalid {
				t.Errorf("it begins: %v", err)
			}
		})
	}
}

// TestPhase_LeavesUncommittedWork: of a file that both changed the unit's lines
// alone are committed; the person's stay where they are.
func TestPhase_LeavesUncommittedWork(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	lines := strings.Repeat("line\n", 30)
	b.file("both.txt", "first\n"+lines+"last\n").commit("both")
	b.file("both.txt", "mine\n"+lines+"last\n").file("a.txt", "mine\n").file("mine.txt", "mine\n")
	b.file("staged.txt", "staged\n")
	git(t, b.repo, "add", "staged.txt")
	b.file("staged.txt", "staged, and more\n")
	got := b.begun(true)
	if diff := cmp.Diff([]string{"a.txt", "both.txt", "mine.txt", "staged.txt"}, got.Dirty); diff != "" {
		t.Error(diff)
	}
	b.file("both.txt", "mine\n"+lines+"unit\n").file("unit.txt", "unit\n")
	b.gather()
	left := b.settled().Left
	b.head("A Person a unit\n\nM\tboth.txt\nA\tunit.txt")
	if text := git(t, b.repo, "show", "main:both.txt"); text+"\n" != "first\n"+lines+"unit\n" {
		t.Errorf("committed: %q", text)
	}
	b.status(" M a.txt\n M both.txt\nAM staged.txt\n?? mine.txt")
	if text := git(t, b.repo, "show", ":staged.txt"); text != "staged" {
		t.Errorf("staged: %q", text)
	}
	if diff := cmp.Diff([]string{"a.txt", "both.txt", "mine.txt", "staged.txt"}, left); diff != "" {
		t.Error(diff)
	}
}

// TestPhase_RefusesWhatIsInOnePlace: where the two cannot be told apart nothing
// is committed, and the files are named.
func TestPhase_RefusesWhatIsInOnePlace(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(b *bench){
		"one line":  func(b *bench) { b.file("a.txt", "mine and the unit's\n") },
		"untracked": func(b *bench) { b.file("mine.txt", "mine and the unit's\n") },
		"removed":   func(b *bench) { _ = os.Remove(b.repo + "/a.txt") },
		"staged":    func(b *bench) { b.file("staged.txt", "1\nstaged\nunit\n") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.file("staged.txt", "1\n").commit("more")
			b.file("a.txt", "mine\n").file("mine.txt", "mine\n").file("staged.txt", "1\nstaged\n")
			git(t, b.repo, "add", "staged.txt")
			was := b.begun(true).Head
			change(b)
			b.gather()
			_, err := b.settle()
			if e, ok := errors.AsType[*bailey.Error](err); !ok || e.Kind != bailey.Conflict || !strings.Contains(e.Message, ".txt") {
				t.Errorf("%v", err)
			}
			if git(t, b.repo, "rev-parse", "main") != was {
				t.Error("something was committed")
			}
		})
	}
}

// TestPhase_GoesOnUponWhatThePersonCommitted meanwhile, to set it right.
func TestPhase_GoesOnUponWhatThePersonCommitted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.file("a.txt", "mine\n")
	b.begun(true)
	b.file("a.txt", "mine\nunit\n").file("unit.txt", "unit\n")
	b.gather()
	if _, err := b.settle(); bailey.KindOf(err) != bailey.Conflict {
		t.Fatal(err)
	}
	b.file("a.txt", "mine\n")
	git(t, b.repo, "commit", "-q", "-m", "mine", "a.txt")
	b.file("a.txt", "mine\nunit\n")
	mine := git(t, b.repo, "rev-parse", "HEAD")
	if got := b.settled(); len(got.Kept) != 0 || git(t, b.repo, "rev-parse", "main~1") != mine {
		t.Errorf("%+v", got)
	}
	b.head("A Person a unit\n\nM\ta.txt\nA\tunit.txt")
	b.status("")
}

// TestPhase_WhateverTheUnitDidToGit: what it committed, where it moved HEAD and
// what it staged is not believed, and not lost.
func TestPhase_WhateverTheUnitDidToGit(t *testing.T) {
	t.Parallel()
	for name, attack := range map[string]func(b *bench){
		"nothing":        func(*bench) {},
		"commits":        func(b *bench) { git(b, b.repo, "add", "-A"); git(b, b.repo, "commit", "-q", "-m", "own") },
		"other branch":   func(b *bench) { git(b, b.repo, "switch", "-q", "-c", "other"); b.commit("own") },
		"detached":       func(b *bench) { git(b, b.repo, "switch", "-q", "--detach"); b.commit("own") },
		"branch deleted": func(b *bench) { git(b, b.repo, "switch", "-q", "--detach"); git(b, b.repo, "branch", "-D", "main") },
		"reset":          func(b *bench) { git(b, b.repo, "update-ref", "refs/heads/main", "HEAD~1") },
		"packed":         func(b *bench) { git(b, b.repo, "pack-refs", "--all") },
		"index":          func(b *bench) { git(b, b.repo, "rm", "-q", "--cached", "-r", ".") },
		"no index":       func(b *bench) { _ = os.Remove(b.repo + "/.git/index") },
		"assumed":        func(b *bench) { git(b, b.repo, "update-index", "--assume-unchanged", "a.txt") },
		"replaced":       func(b *bench) { git(b, b.repo, "replace", "HEAD", "HEAD~1") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.file("b.txt", "b\n").commit("second")
			was := b.begun(false).Head
			b.file("a.txt", "unit\n")
			attack(b)
			b.gather()
			got := b.settled()
			if name == "replaced" {
				git(t, b.repo, "replace", "-d", "HEAD~1")
			}
			b.head("A Person a unit\n\nM\ta.txt")
			b.status("")
			if git(t, b.repo, "rev-parse", "main~1") != was || git(t, b.repo, "symbolic-ref", "HEAD") != "refs/heads/main" {
				t.Error("the branch is another")
			}
			for _, ref := range got.Kept {
				git(t, b.repo, "cat-file", "commit", ref)
			}
			if own := name == "commits" || name == "other branch" || name == "detached"; own && len(got.Kept) != 1 {
				t.Errorf("kept: %v", got.Kept)
			}
		})
	}
}

// TestPhase_TakesNothingElse: what was ignored stays out whatever became of the
// rules, and so does what is no data.
func TestPhase_TakesNothingElse(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.file(".gitignore", ".env\nbuild/\n").commit("rules")
	b.file(".env", "TOKEN=canary\n").file("build/out", "out\n")
	b.begun(false)
	b.file(".gitignore", "other\n").file("unit.txt", "unit\n").file("nested/x", "x\n")
	git(t, b.repo+"/nested", "init", "-q")
	if err := os.Symlink("/etc/passwd", b.repo+"/link"); err != nil {
		t.Fatal(err)
	}
	got := b.gather()
	b.settled()
	b.head("A Person a unit\n\nM\t.gitignore\nA\tunit.txt")
	for _, want := range []string{".env: was there before", "build: was there before", "nested: a repository", "link: a link to an absolute"} {
		if !strings.Contains(strings.Join(got.Refused, "\n"), want) {
			t.Errorf("not said: %s\n%v", want, got.Refused)
		}
	}
}

// TestPhase_RefusesAnotherRepository: a git folder that was put in the place of
// the one that was there is not written to.
func TestPhase_RefusesAnotherRepository(t *testing.T) {
	t.Parallel()
	for name, attack := range map[string]func(b *bench, other string){
		"file": func(b *bench, other string) {
			_ = os.Rename(b.repo+"/.git", b.repo+"/old")
			b.file(".git", "gitdir: "+other+"/.git\n")
		},
		"link": func(b *bench, other string) {
			_ = os.Rename(b.repo+"/.git", b.repo+"/old")
			_ = os.Symlink(other+"/.git", b.repo+"/.git")
		},
		"alternates": func(b *bench, other string) { b.file(".git/objects/info/alternates", other+"/.git/objects\n") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			other := filepath.Dir(b.repo) + "/other"
			git(t, filepath.Dir(b.repo), "clone", "-q", b.repo, other)
			b.begun(false)
			b.file("a.txt", "unit\n")
			b.gather()
			attack(b, other)
			if got, err := b.settle(); err == nil {
				t.Errorf("it commits: %+v", got)
			}
			if git(t, other, "log", "--format=%s") != "first" {
				t.Error("the other repository has a commit more")
			}
		})
	}
}

// TestPhase_GoesOnAfterAnEnd at each step of a commit.
func TestPhase_GoesOnAfterAnEnd(t *testing.T) {
	t.Parallel()
	for name, undo := range map[string]func(b *bench, was string, index []byte){
		"branch": func(b *bench, was string, _ []byte) { git(b, b.repo, "update-ref", "refs/heads/main", was) },
		"index":  func(b *bench, _ string, index []byte) { b.file(".git/index", string(index)) },
		"lock": func(b *bench, was string, index []byte) {
			after, _ := os.ReadFile(b.repo + "/.git/index")
			git(b, b.repo, "update-ref", "refs/heads/main", was)
			b.file(".git/index", string(index)).file(".git/index.lock", string(after[:40]))
			write(b, b.folder+"/locking", "index.lock")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			was := b.begun(false).Head
			index, err := os.ReadFile(b.repo + "/.git/index")
			if err != nil {
				t.Fatal(err)
			}
			b.file("a.txt", "unit\n")
			b.gather()
			first := b.settled()
			undo(b, was, index)
			if again := b.settled(); again.Commit != first.Commit {
				t.Errorf("%+v, then %+v", first, again)
			}
			b.head("A Person a unit\n\nM\ta.txt")
			b.status("")
		})
	}
}
