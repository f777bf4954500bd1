package spec_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// forge is a program that writes an index by hand: entries of the mode $1 with
// the paths that follow, each of which is the commit or the blob that it can
// find.
const forge = `python3 - "$@" <<'P'
import struct, sys, os, subprocess
mode, paths = int(sys.argv[1], 8), sorted(sys.argv[2:])
sha = bytes.fromhex(subprocess.run(["git", "rev-parse", "HEAD" if mode == 0o160000 else "HEAD:file"], capture_output=True, text=True).stdout.strip())
out = b"DIRC" + struct.pack(">II", 2, len(paths))
for p in paths:
    e = b"\0" * 24 + struct.pack(">I", mode) + b"\0" * 12 + sha + struct.pack(">H", len(p)) + p.encode()
    out += e + b"\0" * (8 - len(e) % 8)
open(".git/index.new", "wb").write(out + b"\0" * 20)
os.rename(".git/index.new", ".git/index")
P
`

// evilIn makes a repository at $1 in which git runs $2.
const evilIn = `git init -q "$1"; git -C "$1" -c user.name=x -c user.email=x commit -q --allow-empty -m x
git -C "$1" config core.fsmonitor "touch $2; false"
`

// liveAttack is one that needs no end of the run: the host's git falls for it
// as soon as it is there. $1 is what shows that it did.
type liveAttack struct {
	name, script string
	names        string // what the message names, in the git folder
	victim       bool   // it is a file of the user's that is written to, not a program that is run
}

func liveAttacks(victim string) []liveAttack {
	return []liveAttack{
		{name: "commondir", names: "commondir", script: `
mkdir ev; cp -r .git/objects .git/refs ev/
printf '[core]\n\trepositoryformatversion = 0\n\tfsmonitor = "touch %s; false"\n' "$1" > ev/config
echo ../ev > .git/commondir`},
		{name: "an index with a repository in the git folder", names: "index", script: `
set -- .git/evil "$1"; ` + evilIn + `set -- 160000 .git/evil; ` + forge},
		{name: "an index with a file beside the workspace", names: "index", victim: true, script: `
set -- 100644 file ../victim; ` + forge},
		{name: "a link that git writes through", names: "COMMIT_EDITMSG", victim: true, script: `
rm -f .git/COMMIT_EDITMSG; ln -s ` + victim + ` .git/COMMIT_EDITMSG`},
	}
}

// TestRES02_WhatCannotWaitEndsTheSandbox: what the host's git would act on
// before the end of the run ends it, and is set aside. The twin is the same
// without a sandbox.
func TestRES02_WhatCannotWaitEndsTheSandbox(t *testing.T) {
	t.Attr("claim", "RES-02")
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		victim := filepath.Join(base(y), "victim")
		for _, tt := range liveAttacks(victim) {
			t.Run(tt.name, func(t *testing.T) {
				mark := filepath.Join(y.Home, "ran")
				attack := func() string { return "set -- " + mark + "\n" + tt.script + "\n" }
				fell := func() bool {
					git(t, y, y.Dir, "status", "--porcelain")
					_ = nativeCommand(t.Context(), y, "git", "-C", y.Dir, "-c", "user.name=T", "-c", "user.email=t", "checkout", "--", ".").Run()
					_ = nativeCommand(t.Context(), y, "git", "-C", y.Dir, "-c", "user.name=T", "-c", "user.email=t", "commit", "-q", "--allow-empty", "-m", "mine").Run()
					text, _ := os.ReadFile(victim)
					return fileMode(mark).IsRegular() || tt.victim && string(text) != "kept\n"
				}
				fresh(t, y, victim)
				begun := time.Now()
				r := y.Sh(t, attack()+"sleep 60\n")
				if took := time.Since(begun); r.Code != 137 || took > 30*time.Second || !strings.Contains(r.Stderr, "stopped: "+y.Dir+"/.git/"+tt.names+" ") {
					t.Errorf("after %v: %d\n%s", took, r.Code, r.Stderr)
				}
				if tt.names == "index" {
					git(t, y, y.Dir, "reset", "-q")
				}
				if fell() {
					t.Errorf("the host's git fell for it\n%s", r.Stderr)
				}
				fresh(t, y, victim)
				y.Host(t, "sh", "-c", "cd "+y.Dir+"; "+attack())
				if !fell() {
					t.Error("the twin: natively the attack has no effect")
				}
			})
		}
	})
}

// fresh makes the workspace a repository with a commit, and a file of the
// user's beside it.
func fresh(t *testing.T, y *yard.Yard, victim string) {
	t.Helper()
	y.Host(t, "sh", "-c", "rm -rf "+y.Home+"/ran "+y.Dir+"/* "+y.Dir+"/.git")
	repository(t, y, y.Dir)
	owned(t, y, victim, "kept\n", 0o644)
}

// TestRES02_ASubmoduleMadeInsideRunsNothing: git goes into each submodule of
// the index by itself. The sandbox may make one, and goes on; its .git is set
// aside at the end.
func TestRES02_ASubmoduleMadeInsideRunsNothing(t *testing.T) {
	t.Attr("claim", "RES-02")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		mark := filepath.Join(y.Home, "ran")
		attack := "set -- sub " + mark + "\n" + evilIn + "git -c core.fsmonitor=false -c advice.addEmbeddedRepo=false add sub; git commit -q -m sub; echo done\n"
		for _, native := range []bool{false, true} {
			fresh(t, y, filepath.Join(base(y), "victim"))
			if native {
				y.Host(t, "sh", "-c", "cd "+y.Dir+"; "+attack)
				y.Host(t, "rm", "-f", mark)
			} else {
				r := y.Sh(t, attack).OK(t)
				if !strings.Contains(r.Stderr, y.Dir+"/sub/.git: was made or changed during the run") || !strings.Contains(r.Stdout, "done") {
					t.Errorf("%s\n%s", r.Stdout, r.Stderr)
				}
			}
			git(t, y, y.Dir, "status")
			if got := fileMode(mark).IsRegular(); got != native {
				t.Errorf("natively %t: the program ran %t", native, got)
			}
		}
	})
}

// TestGitWorksInside_WithoutBeingEnded is the twin: what makes new names,
// links of git's own and new indexes is let be.
func TestGitWorksInside_WithoutBeingEnded(t *testing.T) {
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		lib := otherRepository(t, y, "lib")
		git(t, y, "/", "clone", "-q", lib, y.Dir+"/lib-src")
		repository(t, y, y.Dir)
		script := slices.Concat([]string{"set -e"}, []string{
			"git worktree add -q wt", "git init -q nested; git -C nested commit -q --allow-empty -m x", "git add nested",
			"git -c protocol.file.allow=always submodule --quiet add ./lib-src lib", "git commit -q -m subs",
			"git checkout -q -b topic HEAD~1; echo x > more; git add more; git commit -q -m more; git rebase -q main",
			"echo y > more; git stash -q; git stash pop -q; git checkout -q more",
			"for v in 2 3 4; do git update-index --index-version $v; git status --porcelain >/dev/null; done",
			"git update-index --split-index; git sparse-checkout set --no-cone '/*'; git gc -q; echo all done",
		})
		r := y.Sh(t, strings.Join(script, "\n")+"\n").OK(t)
		if !strings.Contains(r.Stdout, "all done") || strings.Contains(r.Stderr, "stopped") {
			t.Errorf("%s\n%s", r.Stdout, r.Stderr)
		}
	})
}
