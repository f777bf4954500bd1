package spec_test

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// forgePack makes a pack and an index for it that gives evil the name of good:
// git hashes nothing that it reads (gitformat-pack(5)).
func forgePack(good, evil string) (pack, index []byte) {
	name := sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(good), good))
	pack = []byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01")
	n := len(evil)
	c := byte(3<<4 | n&15)
	for n >>= 4; n > 0; n >>= 7 {
		pack, c = append(pack, c|0x80), byte(n&0x7f)
	}
	var z bytes.Buffer
	w := zlib.NewWriter(&z)
	_, _ = w.Write([]byte(evil))
	_ = w.Close()
	pack = append(append(pack, c), z.Bytes()...)
	sum := sha1.Sum(pack)
	pack = append(pack, sum[:]...)
	index = []byte("\xfftOc\x00\x00\x00\x02")
	for i := range 256 {
		count := uint32(0)
		if i >= int(name[0]) {
			count = 1
		}
		index = binary.BigEndian.AppendUint32(index, count)
	}
	index = append(append(index, name[:]...), 0, 0, 0, 0, 0, 0, 0, 12)
	index = append(index, sum[:]...)
	end := sha1.Sum(index)
	return pack, append(index, end[:]...)
}

// packForged is a line of shell that puts such a pack into the store.
func packForged(good, evil string) string {
	pack, index := forgePack(good, evil)
	name := ".git/objects/pack/pack-" + hex.EncodeToString(pack[len(pack)-20:])
	return fmt.Sprintf("mkdir -p .git/objects/pack; printf '%s' > %s.pack; printf '%s' > %s.idx\n", octal(pack), name, octal(index), name)
}

// looseForged is a line of shell that has the loose object of a name hold
// something else.
func looseForged(good, evil string) string {
	name := sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(good), good))
	var z bytes.Buffer
	w := zlib.NewWriter(&z)
	_, _ = fmt.Fprintf(w, "blob %d\x00%s", len(evil), evil)
	_ = w.Close()
	id := hex.EncodeToString(name[:])
	return fmt.Sprintf("mkdir -p .git/objects/%s; rm -f .git/objects/%[1]s/%[2]s; printf '%[3]s' > .git/objects/%[1]s/%[2]s\n", id[:2], id[2:], octal(z.Bytes()))
}

// octal is bytes for printf(1).
func octal(data []byte) string {
	var b strings.Builder
	for _, c := range data {
		fmt.Fprintf(&b, `\%03o`, c)
	}
	return b.String()
}

// TestRES08_NoForgedObjectIsCommitted: an agent, or a validation that it wrote,
// gives the name of what was validated to something else. Git would commit and
// show that; the unit fails, and names the file.
func TestRES08_NoForgedObjectIsCommitted(t *testing.T) {
	t.Attr("claim", "RES-08")
	t.Attr("claim", "RES-06")
	t.Attr("claim", "RES-02")
	t.Parallel()
	const evil, quiet, loud = "evil; rm -rf ~\n", `{"name":"x"}` + "\n", `{"scripts":{"postinstall":"./x"}}` + "\n"
	for i, c := range []struct{ name, agent, validate, names string }{
		{"a pack", packForged("two\n", evil) + "echo two > list.txt", "", ".git/objects/pack/pack-"},
		{"a loose object", looseForged("two\n", evil) + "echo two > list.txt", "", ".git/objects/" + "f7"},
		{"by the validation", "echo two > list.txt", packForged("two\n", evil), ".git/objects/pack/pack-"},
		{"what a file was before", packForged(quiet, loud) + "printf '%s' '" + loud + "' > package.json; echo two > list.txt", "", ".git/objects/pack/pack-"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			yard.InTurn(t, i, func(t *testing.T, y *yard.Yard) {
				script := "cat > /dev/null 2>&1\n" + c.agent + "\n"
				p := newPhaseYard(t, y, script, "#!/bin/sh\n"+c.validate+"grep -qx two list.txt\n", "The unit")
				owned(t, y, y.Dir+"/package.json", quiet, 0o644)
				git(t, y, y.Dir, "add", "package.json")
				git(t, y, y.Dir, "commit", "-q", "-m", "package")
				y.Host(t, "cp", "-a", y.Dir, y.Home+"/twin")
				head := git(t, y, y.Dir, "rev-parse", "HEAD")
				r := p.phase(t, "--push", "origin", "--tries", "2")
				if r.Code == 0 || !strings.Contains(r.Stderr, "nothing is committed") || !strings.Contains(r.Stderr, c.names) {
					t.Errorf("the phase ended with %d:\n%s", r.Code, r.Stderr)
				}
				if got := git(t, y, y.Dir, "rev-parse", "main"); got != head {
					t.Errorf("the branch moved: %s", git(t, y, y.Dir, "log", "--stat"))
				}
				if got := git(t, y, p.remote, "for-each-ref"); got != "" {
					t.Errorf("pushed: %s", got)
				}
				y.Host(t, "sh", "-ec", "cd "+y.Home+"/twin; ("+script+c.validate+") < /dev/null; git add .; git commit -q -m unit")
				shown := git(t, y, y.Home+"/twin", "show", "HEAD:list.txt") + git(t, y, y.Home+"/twin", "cat-file", "-p", "HEAD~:package.json")
				if !strings.Contains(shown, "evil") && !strings.Contains(shown, "postinstall") {
					t.Errorf("git is not deceived where nothing is in the way: %q", shown)
				}
			})
		})
	}
}

// TestRES08_WhatGitWritesIsCommitted is the positive twin: an agent that tidies
// the repository up, or commits, is believed.
func TestRES08_WhatGitWritesIsCommitted(t *testing.T) {
	t.Attr("claim", "RES-08")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		const agent = `cat > /dev/null
for i in 1 2 3; do echo $i >> list.txt; git add .; git commit -q -m "of the agent"; done
git repack -q -ad; git gc -q; git commit-graph write --reachable; git multi-pack-index write
echo two >> list.txt
`
		p := newPhaseYard(t, y, agent, "#!/bin/sh\ngrep -qx two list.txt\n", "Unit a", "Unit b")
		r := p.phase(t, "--push", "origin").OK(t)
		for _, dir := range []string{y.Dir, p.remote} {
			if got := git(t, y, dir, "show", "main:list.txt"); got != "1\n2\n3\ntwo\n1\n2\n3\ntwo\n" || p.count(t, dir) != 2 {
				t.Errorf("%s: %q\n%s", dir, got, r.Stderr)
			}
		}
		git(t, y, y.Dir, "fsck", "--strict")
	})
}

// TestRES02_ForgedObjectsAreSetAside: after a run git on the host would show no
// change, and check out what was never committed. The twin is the same without
// bailey. What git itself writes is believed without a word.
func TestRES02_ForgedObjectsAreSetAside(t *testing.T) {
	t.Attr("claim", "RES-02")
	t.Parallel()
	const honest = `for i in 1 2 3; do echo $i >> more; git add .; git commit -q -m more; done; git fetch -q . main:copy
git repack -q -ad; echo 4 >> more; git commit -qam four; git gc -q; git show HEAD:file > again; git add again; git multi-pack-index write`
	for _, c := range []struct{ name, script, names string }{
		{"a pack", packForged("one\n", "evil\n"), ".git/objects/pack/pack-"},
		{"a loose object", looseForged("one\n", "evil\n"), ".git/objects/56/"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			yard.Each(t, func(t *testing.T, y *yard.Yard) {
				repository(t, y, y.Dir)
				twin := y.Home + "/twin"
				y.Host(t, "cp", "-a", y.Dir, twin)
				if r := y.Sh(t, honest).OK(t); strings.Contains(r.Stderr, "objects") {
					t.Errorf("what git wrote is pointed out:\n%s", r.Stderr)
				}
				git(t, y, y.Dir, "fsck", "--strict")
				r := y.Sh(t, c.script+"exit 3").Exit(t, 3)
				if !strings.Contains(r.Stderr, c.names) || !strings.Contains(r.Stderr, ".set-aside") {
					t.Errorf("the end does not name it:\n%s", r.Stderr)
				}
				if r := y.Sh(t, c.script, "--json").OK(t); !strings.Contains(r.Stdout+r.Stderr, `"file.git"`) {
					t.Errorf("no event:\n%s", r.Stdout)
				}
				const checkout = "rm file; git checkout -q -- file; cat file"
				if got := y.Host(t, "sh", "-ec", "cd "+y.Dir+"; "+checkout); got != "one\n" {
					t.Errorf("checked out: %q", got)
				}
				git(t, y, y.Dir, "fsck", "--strict")
				if got := y.Host(t, "sh", "-ec", "cd "+twin+"; "+c.script+checkout); got != "evil\n" {
					t.Errorf("git is not deceived where nothing is in the way: %q", got)
				}
			})
		})
	}
}
