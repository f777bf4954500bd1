package spec_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// outside makes a folder of the host beside the workspace, the identity's own.
func outside(t *testing.T, y *yard.Yard, name string) string {
	t.Helper()
	dir := filepath.Join(filepath.Dir(y.Dir), name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, y.UID, y.GID); err != nil {
		t.Fatal(err)
	}
	return dir
}

// tree lists what is below a folder: names, and of files the contents.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var lines []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		line := strings.TrimPrefix(path, dir+"/")
		switch {
		case d.Type()&fs.ModeSymlink != 0:
			target, _ := os.Readlink(path)
			line += "->" + target
		case d.Type().IsRegular():
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += "=" + strings.TrimSpace(string(b))
		}
		lines = append(lines, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, " ")
}

func TestCopy_BothWays(t *testing.T) {
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		background(t, y, "cp", `mkdir -p /tmp/o/sub /tmp/in; echo one > /tmp/o/f; ln -s ../f /tmp/o/sub/l; chmod 755 /tmp/o/f; echo up; sleep 300`)
		yard.Eventually(t, yard.Timeout, func() bool { return y.Run(t, "logs", "cp").Stdout == "up\n" }, func() string { return "" })
		dir := outside(t, y, "there")
		at := func(args ...string) yard.Result {
			return y.RunWith(t, func(c *exec.Cmd) { c.Dir = dir }, append([]string{"cp"}, args...)...)
		}
		for _, args := range [][]string{{"cp:/tmp/o", "."}, {"cp:/tmp/o", "new"}, {"cp:/tmp/o/f", "file"}, {"cp:/tmp/o/.", "new"}, {"cp:/tmp/o/f", "new/sub"}, {"cp:/tmp/o/f", dir + "/o/f"}} {
			if res := at(args...); res.Code != 0 || res.Stderr != "" {
				t.Errorf("%v: %+v", args, res)
			}
		}
		const want = "file=one new new/f=one new/sub new/sub/f=one new/sub/l->../f o o/f=one o/sub o/sub/l->../f"
		if got := tree(t, dir); got != want {
			t.Errorf("there are %s", got)
		}
		if fi, err := os.Stat(filepath.Join(dir, "o/f")); err != nil || fi.Mode() != 0o755 {
			t.Errorf("%v, %v", fi, err)
		}
		for _, args := range [][]string{{"./new", "cp:/tmp/in"}, {"./new", "cp:/tmp/in/other"}, {"./new/.", "cp:/tmp/in"}, {"./file", "cp:/tmp/in/renamed"}, {"./file", "cp:here"}} {
			if res := at(args...); res.Code != 0 || res.Stderr != "" {
				t.Errorf("%v: %+v", args, res)
			}
		}
		const find = `cd /tmp/in && find . -mindepth 1 | sort | tr '\n' ' '; stat -c %U /tmp/in/renamed; id -un; cat "$1/here"`
		res := y.Run(t, "exec", "cp", "--", "sh", "-c", find, "sh", y.Dir).OK(t)
		lines := strings.Split(res.Stdout, "\n")
		const inside = "./f ./new ./new/f ./new/sub ./new/sub/f ./new/sub/l ./other ./other/f ./other/sub ./other/sub/f ./other/sub/l ./renamed ./sub ./sub/f ./sub/l "
		if !strings.HasPrefix(lines[0], inside) || lines[0] != inside+lines[1] || lines[2] != "one" {
			t.Errorf("inside: %q", lines)
		}
		stream := at("cp:/tmp/o", "-").OK(t).Stdout
		in := func(c *exec.Cmd) { c.Stdin = strings.NewReader(stream) }
		y.RunWith(t, in, "cp", "-", "cp:/tmp/in/sub").OK(t)
		y.Run(t, "exec", "cp", "--", "cat", "/tmp/in/sub/o/f").OK(t)
		for _, c := range []struct{ from, to, says string }{
			{"cp:/tmp/none", ".", "there is no /tmp/none in the sandbox"},
			{"cp:/tmp/none/more", ".", "there is no /tmp/none/more in the sandbox"},
			{"cp:/tmp/o", "none/", "make the folder first"},
			{"cp:/tmp/o", "none/below", "none/below"},
			{"./none", "cp:/tmp", "none"},
			{"./file", "cp:/tmp/none/", "no folder /tmp/none/ in the sandbox"},
			{"./file", "cp:/none/f", "in the sandbox"},
			{"./file", "./other", "NAME:PATH"},
			{"cp:a", "cp:b", "both"},
			{"nobody:/tmp", ".", `no sandbox named "nobody"`},
			{"cp:/tmp/o", "file", "a folder on one side and a file on the other"},
		} {
			if res := at(c.from, c.to); res.Code != 125 || !strings.Contains(res.Stderr, c.says) {
				t.Errorf("%s to %s: %+v", c.from, c.to, res)
			}
		}
		if got := tree(t, dir); got != want {
			t.Errorf("failures left something: %s", got)
		}
		for _, bound := range []string{"--max-size=3", "--max-files=2"} {
			if res := at(bound, "cp:/tmp/o", "bounded").Exit(t, 125); !strings.Contains(res.Stderr, bound[:strings.Index(bound, "=")]+" raises the limit") {
				t.Errorf("%s: %s", bound, res.Stderr)
			}
		}
		at("--max-size=4", "--max-files=4", "cp:/tmp/o", "bounded").OK(t) // twin
	})
}

// TestISO12_CopyFollowsNoLinkOfTheSandbox: the sandbox plants links in its
// workspace, and the person copies there and from there.
func TestISO12_CopyFollowsNoLinkOfTheSandbox(t *testing.T) {
	t.Attr("claim", "ISO-12")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		victim := outside(t, y, "victim")
		if err := os.WriteFile(filepath.Join(victim, "secret"), []byte("mine"), 0o644); err != nil {
			t.Fatal(err)
		}
		background(t, y, "links", fmt.Sprintf(`ln -s %[1]s out; mkdir real; ln -s %[1]s/secret real/secret; ln -s %[1]s real/out; echo evil > f; mkdir /tmp/in; echo up; sleep 300`, victim))
		yard.Eventually(t, yard.Timeout, func() bool { return y.Run(t, "logs", "links").Stdout == "up\n" }, func() string { return "" })
		for _, to := range []string{"./out/", "./out/secret", "./out/new", "./real/out/secret", "./real/../out/new", y.Dir + "/out/new"} {
			y.Run(t, "cp", "links:f", to).Exit(t, 125)
			y.Run(t, "cp", "links:/tmp/in", to).Exit(t, 125)
		}
		y.Run(t, "cp", "links:f", y.Dir+"/real/secret").OK(t) // the link itself gives way
		if got := tree(t, victim); got != "secret=mine" {
			t.Errorf("written outside: %s", got)
		}
		for _, from := range []string{"out/secret", "out/.", "real/out/secret", "out/"} {
			y.Run(t, "cp", "./"+from, "links:/tmp/in").Exit(t, 125)
			y.Run(t, "cp", "-L", "./"+from, "links:/tmp/in").Exit(t, 125)
		}
		y.Run(t, "cp", "./real", "links:/tmp/in").OK(t) // with links as links
		if out := y.Run(t, "exec", "links", "--", "sh", "-c", "cat /tmp/in/real/out/* /tmp/in/*; true").Stdout; strings.Contains(out, "mine") {
			t.Errorf("read outside: %s", out)
		}
		y.Run(t, "cp", "links:f", "./out").OK(t) // likewise
		if got := tree(t, victim); got != "secret=mine" {
			t.Errorf("written outside: %s", got)
		}
		otherWaysToCopy(t, y, victim)
		// Twin: a link of the person's own, where no sandbox can put one, leads where it leads.
		own := outside(t, y, "own")
		if err := os.Symlink(victim, filepath.Join(own, "l")); err != nil {
			t.Fatal(err)
		}
		y.Run(t, "cp", own+"/l/secret", "links:/tmp/in/").OK(t)
		y.Run(t, "cp", "links:f", own+"/l/").OK(t)
		if out := y.Run(t, "exec", "links", "--", "cat", "/tmp/in/secret").Stdout; out != "mine" || tree(t, victim) != "f=evil secret=mine" {
			t.Errorf("%q, %s", out, tree(t, victim))
		}
	})
}

// otherWaysToCopy has the workspace named by another path.
func otherWaysToCopy(t *testing.T, y *yard.Yard, victim string) {
	t.Helper()
	base := filepath.Dir(y.Dir)
	for link, to := range map[string]string{base + "/alias": "work", base + "/alias-of-real": y.Dir + "/real"} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	y.Run(t, "exec", "links", "--", "sh", "-c", "mkdir again; ln -s "+victim+" again/out; ln -s "+victim+" real/up; echo good > again/f; ln -sfn "+victim+" out").OK(t)
	for _, at := range []string{base + "/alias/again/out", base + "/alias-of-real/up", base + "/alias-of-real/../again/out", "../alias/again/out"} {
		y.Run(t, "cp", "links:f", at+"/").Exit(t, 125)
		y.Run(t, "cp", "links:f", at+"/new").Exit(t, 125)
		y.Run(t, "cp", "links:/tmp/in/.", at+"/").Exit(t, 125)
		for _, from := range []string{at + "/secret", at + "/.", at + "/"} {
			y.Run(t, "cp", from, "links:/tmp/in").Exit(t, 125)
			y.Run(t, "cp", "-L", from, "links:/tmp/in").Exit(t, 125)
		}
		y.Run(t, "cp", "-L", at, "links:/tmp/in").Exit(t, 125)
	}
	if out := y.Run(t, "exec", "links", "--", "sh", "-c", "cat /tmp/in/* /tmp/in/*/*; true").Stdout; strings.Contains(out, "mine") {
		t.Errorf("read outside: %s", out)
	}
	if got := tree(t, victim); got != "secret=mine" {
		t.Errorf("written outside: %s", got)
	}
	y.Run(t, "cp", "links:f", base+"/alias/again/new").OK(t) // the twins
	y.Run(t, "cp", base+"/alias/again/f", "links:/tmp/twin").OK(t)
	if out := y.Run(t, "exec", "links", "--", "cat", "again/new", "/tmp/twin").OK(t).Stdout; out != "evil\ngood\n" {
		t.Errorf("twins: %q", out)
	}
}

// TestISO12_CopyRaces: the sandbox exchanges folders for links while files are
// copied into its workspace.
func TestISO12_CopyRaces(t *testing.T) {
	t.Attr("claim", "ISO-12")
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		victim := outside(t, y, "victim")
		const race = `import os, shutil, sys, glob
victim = sys.argv[1]
os.makedirs("/tmp/o/d", exist_ok=True)
for i in range(200):
    open("/tmp/o/d/f%d" % i, "w").write("evil")
os.makedirs("place/o/d", exist_ok=True); print("up", flush=True)
while True:
    for d in glob.glob("place/.bailey-cp-*/x/d") + glob.glob("place/.bailey-cp-*/x") + glob.glob("place/.bailey-cp-*") + ["place/o/d", "place/o", "place"]:
        try:
            os.rename(d, d + ".away"); os.symlink(victim, d); os.unlink(d); os.rename(d + ".away", d)
        except OSError:
            try:
                if os.path.lexists(d): shutil.rmtree(d + ".away", ignore_errors=True) # bailey was there first
                else: os.rename(d + ".away", d)
            except OSError: pass
    try: os.makedirs("place/o/d", exist_ok=True)
    except OSError: pass
`
		y.Write(t, "race.py", race)
		background(t, y, "race", "exec python3 race.py "+victim)
		yard.Eventually(t, yard.Timeout, func() bool { return y.Run(t, "logs", "race").Stdout == "up\n" }, func() string { return y.Run(t, "logs", "race").Stderr })
		whole := 0
		for end := time.Now().Add(8 * time.Second); time.Now().Before(end); {
			if y.Run(t, "cp", "race:/tmp/o", "./place").Code == 0 {
				whole++
			}
			if got := tree(t, victim); got != "" {
				t.Fatalf("written outside: %s", got)
			}
		}
		t.Logf("%d copies came through", whole)
		// Twin: a program that goes by paths is led out.
		yard.Eventually(t, yard.Timeout, func() bool {
			for range 1000 {
				_ = os.WriteFile(filepath.Join(y.Dir, "place/o/d/twin"), nil, 0o600)
			}
			return tree(t, victim) != ""
		}, func() string { return "the race is never won: the test shows nothing" })
	})
}

// TestISO12_CopyOfAHostileArchive: the tar of the sandbox is the sandbox's, and
// sends what it likes. RES-06: what would run on the host is pointed out.
func TestISO12_CopyOfAHostileArchive(t *testing.T) {
	t.Attr("claim", "ISO-12")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		hostile := func(name string, heads ...tar.Header) {
			var b bytes.Buffer
			w := tar.NewWriter(&b)
			for _, h := range heads {
				if h.Typeflag == tar.TypeReg {
					h.Size = 4
				}
				if err := w.WriteHeader(&h); err != nil {
					t.Fatal(err)
				}
				if h.Size > 0 {
					_, _ = w.Write([]byte("evil"))
				}
			}
			_ = w.Close()
			y.Write(t, name, b.String())
		}
		dir := tar.Header{Typeflag: tar.TypeDir, Name: "o/", Mode: 0o755}
		file := func(name string) tar.Header {
			return tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o4755}
		}
		hostile("dots", dir, file("o/../../escaped"))
		hostile("absolute", file(filepath.Dir(y.Dir)+"/escaped"))
		hostile("link", dir, tar.Header{Typeflag: tar.TypeSymlink, Name: "o/l", Linkname: "d"}, tar.Header{Typeflag: tar.TypeDir, Name: "o/d/", Mode: 0o755}, file("o/l/escaped"))
		hostile("twice", dir, file("o/f"), file("o/f"))
		hostile("good", dir, file("o/f"), file("o/.envrc"), file("o/.vscode/tasks.json"), tar.Header{Typeflag: tar.TypeSymlink, Name: "o/evil\x1b]0;x\a", Linkname: "/etc/passwd"}, tar.Header{Typeflag: tar.TypeChar, Name: "o/null", Devmajor: 1, Devminor: 3, Mode: 0o666})
		y.Write(t, "tar", "#!/bin/sh\ncat \"$WHICH\"\n")
		background(t, y, "hostile", `mkdir /tmp/bin; cp tar /tmp/bin; chmod 755 /tmp/bin/tar; ln -s "$PWD" /tmp/arch; echo up; sleep 300`, "--env", "PATH=/tmp/bin:/usr/bin:/bin", "--env", "WHICH=/tmp/which")
		yard.Eventually(t, yard.Timeout, func() bool { return y.Run(t, "logs", "hostile").Stdout == "up\n" }, func() string { return "" })
		base := outside(t, y, "place")
		into := filepath.Join(base, "into")
		y.Host(t, "mkdir", into)
		for _, name := range []string{"dots", "absolute", "link", "twice"} {
			y.Run(t, "exec", "hostile", "--", "cp", name, "/tmp/which").OK(t)
			if res := y.Run(t, "cp", "hostile:/tmp/o", into).Exit(t, 125); !strings.Contains(res.Stderr, "nothing was copied") && name != "link" {
				t.Errorf("%s: %s", name, res.Stderr)
			}
			if got := tree(t, base); got != "into" {
				t.Errorf("%s: there are %s", name, got)
			}
			if _, err := os.Lstat(filepath.Join(filepath.Dir(y.Dir), "escaped")); err == nil {
				t.Errorf("%s: it escaped", name)
			}
			if name != "absolute" && name != "twice" { // twin: tar by itself, which is told to trust names
				y.Host(t, "sh", "-c", "mkdir twin twin/in && tar -x -P -C twin/in -f "+name+" && find twin -name escaped | grep . ; rm -rf twin escaped")
			}
		}
		y.Run(t, "exec", "hostile", "--", "cp", "good", "/tmp/which").OK(t)
		res := y.Run(t, "cp", "hostile:/tmp/o", into).OK(t)
		if got := tree(t, base); got != "into into/o into/o/.envrc=evil into/o/.vscode into/o/.vscode/tasks.json=evil into/o/f=evil" {
			t.Errorf("there are %s", got)
		}
		if fi, err := os.Stat(filepath.Join(into, "o/f")); err != nil || fi.Mode() != 0o755 {
			t.Errorf("%v, %v", fi.Mode(), err)
		}
		for _, says := range []string{"o/.envrc: ", "o/.vscode/tasks.json: ", "left out: evil", "left out: null"} {
			if !strings.Contains(res.Stderr, says) {
				t.Errorf("not told: %q in %s", says, res.Stderr)
			}
		}
		if strings.ContainsAny(res.Stderr, "\x1b\a") {
			t.Errorf("it drives the terminal: %q", res.Stderr)
		}
	})
}

func TestStats(t *testing.T) {
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		background(t, y, "busy", `curl -sS https://denied.example.net; head -c 3000000 /dev/zero | tee /tmp/f > grown; echo up; while :; do :; done`, "--memory", "512M", "--pids", "100", "--allow", "example.com")
		yard.Eventually(t, yard.Timeout, func() bool { return strings.HasSuffix(y.Run(t, "logs", "busy").Stdout, "up\n") }, func() string { return "" })
		var s struct {
			Name                                 string
			Memory, Processes, Tmp, Disk, Inodes struct{ Used, Limit int64 }
			CPUNS                                int64   `json:"cpu_ns"`
			Percent                              float64 `json:"cpu_percent"`
			Net                                  struct{ Denied, Allowed int64 }
		}
		out := ""
		yard.Eventually(t, yard.Timeout, func() bool { // the workspace is counted once in a while
			out = y.Run(t, "stats", "--no-stream", "--json", "busy").OK(t).Stdout
			return json.Unmarshal([]byte(out), &s) == nil && s.Disk.Used >= 3_000_000 && s.Inodes.Used >= 1 && s.Processes.Used > 0
		}, func() string { return out })
		if err := json.Unmarshal([]byte(out), &s); err != nil || strings.Count(out, "\n") != 1 {
			t.Fatalf("%q: %v", out, err)
		}
		if s.Name != "busy" || s.Memory.Limit != 512<<20 || s.Memory.Used < 3_000_000 || s.Memory.Used > 512<<20 ||
			s.Processes.Limit != 100 || s.Processes.Used < 1 || s.Processes.Used > 10 || s.Tmp.Used < 3_000_000 || s.CPUNS <= 0 || s.Net.Denied < 1 {
			t.Errorf("%s", out)
		}
		if s.Percent < 1 || s.Percent > 250 {
			t.Errorf("one processor is busy: %v", s.Percent)
		}
		table := y.Run(t, "stats", "--no-stream").OK(t).Stdout
		if !strings.HasPrefix(table, "NAME") || !strings.Contains(table, "busy") || !strings.Contains(table, "/ 512M") {
			t.Errorf("%s", table)
		}
		live := sit(t, y, "stats", "--interval", "100ms", "busy")
		live.sees("\x1b[H\x1b[2JNAME")
		yard.Eventually(t, yard.Timeout, func() bool { return strings.Count(live.screen(), "NAME") > 2 }, live.screen)
		live.types("\x03").leaves()
		y.Run(t, "stop", "busy").OK(t)
		y.Run(t, "stats", "--no-stream", "busy").Exit(t, 125)
		y.Run(t, "stats", "--no-stream").OK(t)
	})
}
