package spec_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey/internal/testkit/carrying"
)

// gitTrick makes git run $EVIL, in the folder that it is planted in.
type gitTrick struct {
	id    string
	plant string // a shell script, in the work tree
	twin  string // what a user does there, and it runs
	// refused says that a user's repository with it is refused.
	refused bool
}

// gitTricks are those of the attacks C041 to C062 that run something.
func gitTricks() []gitTrick {
	const modify = "echo changed >> file; "
	hook := func(name, twin string) gitTrick {
		return gitTrick{"C042 " + name, "cp $EVIL .git/hooks/" + name, twin, false}
	}
	return []gitTrick{
		{"C041 fsmonitor", "git config core.fsmonitor $EVIL", "git status", false},
		hook("post-index-change", modify+"git add file"),
		hook("reference-transaction", "git update-ref refs/heads/twin HEAD"),
		hook("post-checkout", "git checkout -q -b twin"),
		hook("pre-commit", "git commit -q --allow-empty -m x"),
		hook("pre-auto-gc", "git repack -q; git commit -q --allow-empty -m y; git repack -q; git -c gc.auto=1 -c gc.autoPackLimit=1 -c gc.autoDetach=false gc -q --auto"),
		{"C042 hooksPath", "mkdir h; cp $EVIL h/pre-commit; git config core.hooksPath h", "git commit -q --allow-empty -m x", false},
		{"C044 filter clean", "git config filter.evil.clean $EVIL; echo '* filter=evil' > .git/info/attributes; " + modify, "git add file", false},
		{"C044 filter smudge", "git config filter.evil.smudge $EVIL; echo '* filter=evil' > .gitattributes", "rm file; git checkout -q -- file", false},
		{"C044 filter process", "git config filter.evil.process $EVIL; echo '* filter=evil' > .gitattributes; " + modify, "git diff || true", false},
		{"C045 textconv", "git config diff.evil.textconv $EVIL; echo '* diff=evil' > .gitattributes; " + modify, "git diff", false},
		{"C046 diff.external", "git config diff.external $EVIL; " + modify, "git diff", false},
		{"C046 diff command", "git config diff.evil.command $EVIL; echo '* diff=evil' > .gitattributes; " + modify, "git diff", false},
		{"C048 gpg.program", `git config gpg.program $EVIL; git config log.showSignature true
signed=$(git cat-file commit HEAD | sed '/^committer/a gpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----' | git hash-object -t commit -w --stdin)
git update-ref HEAD $signed`, "git log -1", false},
		{"C049 sshCommand", "git config core.sshCommand $EVIL; git remote add evil ssh://evil.test/x", "git fetch evil || true", false},
		{"C049 ext", "git config protocol.ext.allow always; git remote add evil \"ext::$EVIL\"", "git fetch evil || true", false},
		{"C049 insteadOf", "git config protocol.ext.allow always; git config url.\"ext::$EVIL #\".insteadOf https://good.test/; git remote add evil https://good.test/x", "git fetch evil || true", false},
		{
			"C050 alternateRefsCommand", "git init -q other; rm -rf other/x; git -C other commit -q --allow-empty -m x; echo $PWD/other/.git/objects > .git/objects/info/alternates; git config core.alternateRefsCommand $EVIL",
			"git init -q third; git -C third commit -q --allow-empty -m y; git fetch -q third HEAD || true", false,
		},
		{"C052 include", "printf '[core]\\n\\tfsmonitor = %s\\n' $EVIL > evil.cfg; git config include.path ../evil.cfg", "git status", false},
		{"C052 includeIf", "printf '[core]\\n\\tfsmonitor = %s\\n' $EVIL > evil.cfg; git config includeIf.gitdir:/.path ../evil.cfg", "git status", false},
		{"C052 config.worktree", "git config extensions.worktreeConfig true; printf '[core]\\n\\tfsmonitor = %s\\n' $EVIL > .git/config.worktree", "git status", false},
		{"C053 git file", "git config core.fsmonitor $EVIL; mv .git elsewhere; echo \"gitdir: $PWD/elsewhere\" > .git", "git status", true},
		{"C053 commondir", "cp -r .git common; git --git-dir=common config core.fsmonitor $EVIL; echo ../common > .git/commondir", "git status", true},
		{"C056 submodule", "git init -q sub; git -C sub commit -q --allow-empty -m x; git add sub; git -C sub config core.fsmonitor $EVIL; touch sub/new", "git status", false},
		{
			"C058 promisor", "git config protocol.ext.allow always; git config extensions.partialClone evil; git remote add evil \"ext::$EVIL\"; git config remote.evil.promisor true; git config core.repositoryFormatVersion 1",
			"git cat-file -p 0123456789012345678901234567890123456789 || true", false,
		},
		{"C062 replace", "git replace HEAD $(git commit-tree -m shown HEAD^{tree}); git config core.fsmonitor $EVIL", "git status; test \"$(git log -1 --format=%s)\" = shown", false},
		{"alias", "git config alias.st \"!$EVIL\"; git config core.pager $EVIL; git config core.editor $EVIL", "git st", false},
		{"attributes of a macro", "git config filter.evil.clean $EVIL; printf '[attr]x filter=evil\\n* x\\n' > .gitattributes; " + modify, "git add file", false},
	}
}

// ready undoes in the clone what keeps its files as they were committed.
const ready = "mkdir -p .git/hooks; rm -f .git/info/attributes; "

// evil writes what it was called by, and passes on what it is given.
const evil = "#!/bin/sh\necho \"$0 $*\" >> %s\ncase $0$* in *clean*|*smudge*|*conv*|*evil*) timeout 1 cat;; esac\n"

// planted is a desk with a repository, a program, and the file that shows that
// it ran.
type planted struct {
	*carrying.Desk
	evil, canary string
}

func newPlanted(t *testing.T, d *carrying.Desk) planted {
	t.Helper()
	p := planted{Desk: d, evil: d.Dir + "/evil", canary: d.Dir + "/canary"}
	text := strings.Replace(evil, "%s", p.canary, 1)
	if err := os.WriteFile(p.evil, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p.canary, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(p.canary, 0o666); err != nil {
		t.Fatal(err)
	}
	p.do(t, d.Repo, "echo one > file; mkdir dir; echo x > dir/other; git add -A; git commit -q -m first")
	return p
}

func (p planted) do(t *testing.T, dir, script string) string {
	t.Helper()
	return p.Script(t, dir, script, "EVIL="+p.evil)
}

// ran tells what ran, and forgets it.
func (p planted) ran(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(p.canary)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(p.canary, 0); err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestRES02_NoGitTrickOfTheAgentsRuns: whatever an agent writes into its git
// folder and its tree, nothing of it runs when the work is taken back and
// delivered. The twin is the user's own git in the same folder.
func TestRES02_NoGitTrickOfTheAgentsRuns(t *testing.T) {
	t.Attr("claim", "RES-02")
	t.Parallel()
	for _, trick := range gitTricks() {
		t.Run(trick.id, func(t *testing.T) {
			t.Parallel()
			carrying.Each(t, func(t *testing.T, d *carrying.Desk) {
				p := newPlanted(t, d)
				base := d.Take(t).Base
				p.do(t, d.Clone(), ready+trick.plant+"\necho work > work")
				p.ran(t) // what planting itself ran
				got, _ := d.Gather(t)
				if got.Commit == "" {
					t.Fatal("the work is lost")
				}
				if err := d.Send(t); err != nil {
					t.Fatal(err)
				}
				if ran := p.ran(t); ran != "" {
					t.Errorf("ran on the host:\n%s", ran)
				}
				if at := p.do(t, d.Repo, "git show agent/t1:work; git rev-parse agent/t1~1; git log -1 --format='%an <%ae>' agent/t1"); at != "work\n"+base+"\nbailey agent <agent@bailey.invalid>\n" {
					t.Errorf("delivered: %s", at)
				}
				p.do(t, d.Clone(), trick.twin)
				if p.ran(t) == "" {
					t.Error("twin: the user's git did not run it")
				}
			})
		})
	}
}

// TestRES02_NoGitTrickInAUsersRepositoryRuns: an agent may have written to the
// repository in another session. No operation on it runs anything of it.
func TestRES02_NoGitTrickInAUsersRepositoryRuns(t *testing.T) {
	t.Attr("claim", "RES-02")
	t.Parallel()
	for _, trick := range gitTricks() {
		t.Run(trick.id, func(t *testing.T) {
			t.Parallel()
			carrying.Each(t, func(t *testing.T, d *carrying.Desk) {
				p := newPlanted(t, d)
				p.do(t, d.Repo, ready+trick.plant)
				p.ran(t) // what planting itself ran
				place := d.Place()
				_, err := d.Do(t, carrying.Request{Snapshot: &carrying.Snapshot{Repository: place, ID: "t1", IncludeDirty: true, Shadow: d.Shadow(), Clone: d.Clone()}})
				if (err != nil) != trick.refused {
					t.Fatalf("refused: %v, want %v", err, trick.refused)
				}
				if err == nil {
					if err := os.WriteFile(filepath.Join(d.Clone(), "work"), []byte("work\n"), 0o644); err != nil {
						t.Fatal(err)
					}
					d.Own(t, d.Clone())
					d.Gather(t)
					if err := d.Send(t); err != nil {
						t.Fatal(err)
					}
					for _, r := range []carrying.Request{
						{Checkout: &carrying.Checkout{Repository: place, Branch: "agent/t1", Clone: d.Folder + "/check"}},
						{DeleteBranch: &carrying.DeleteBranch{Repository: place, Branch: "agent/t1"}},
					} {
						if _, err := d.Do(t, r); err != nil {
							t.Error(err)
						}
					}
				}
				if ran := p.ran(t); ran != "" {
					t.Errorf("ran on the host:\n%s", ran)
				}
				p.do(t, d.Repo, trick.twin)
				if p.ran(t) == "" {
					t.Error("twin: the user's git did not run it")
				}
			})
		})
	}
}
