package watchdog_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bailey-dev/bailey/internal/app/watchdog"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
	"github.com/bailey-dev/bailey/internal/watch"
	ws "github.com/bailey-dev/bailey/internal/workspace"
)

// workspace makes a folder that already holds more than the limits allow to
// be added.
func workspace(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "old"), make([]byte, 30<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("old", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestDisk_IsKept(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ script, limit string }{
		"bytes":           {"head -c 25M /dev/zero > a/$n", watch.Disk},
		"bytes unlisted":  {"mkdir -p a/$n/b; head -c 25M /dev/zero > a/$n/b/x; chmod 300 a/$n/b", watch.Disk},
		"bytes no name":   {"exec {fd}> a/x; rm a/x; head -c 25M /dev/zero >&$fd", watch.Disk},
		"files":           {"touch a/$n-{1..250}", watch.Inodes},
		"folders":         {"mkdir a/$n-{1..250}", watch.Inodes},
		"hard links":      {"head -c 10M /dev/zero > a/x; ln a/x a/$n; head -c 15M /dev/zero >> a/$n; rm a/x", watch.Disk},
		"symbolic links":  {"ln -s /usr/$n-{1..250} a", watch.Inodes},
		"named pipes":     {"mkfifo a/$n-{1..250}", watch.Inodes},
		"nested too deep": {"mkdir -p a/$n$(printf '/%.0sd' {1..600})", watch.Inodes},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := workspace(t)
			limits := watch.Settings{Workspace: dir, DiskBytes: 20 << 20, Inodes: 200}
			if name == "nested too deep" {
				limits.Inodes = 100_000
			}
			c := start(t, limits)
			// What comes before the watchdog has begun belongs to its baseline,
			// so the script does it again and again.
			script := "mkdir -p a; while :; do ((++n)); " + tc.script + "; sleep 1; done"
			r := killedFor(t, c, sandbox(t, c, script, dir), tc.limit)
			if r.Message == "" || r.Value <= 0 {
				t.Errorf("got %+v", r)
			}
		})
	}
}

// TestDisk_CountsFromTheStart: what a sandbox has made before its watchdog came
// to look is the sandbox's, and what was there before it is not.
func TestDisk_CountsFromTheStart(t *testing.T) {
	t.Parallel()
	dir := workspace(t)
	<-time.After(20 * time.Millisecond) // the clock of file systems is coarse
	started := time.Now()
	<-time.After(20 * time.Millisecond)
	if err := os.WriteFile(filepath.Join(dir, "new"), make([]byte, 25<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	const script = "while :; do echo >> small; sleep 0.1; done" // a walk needs a reason
	limits := watch.Settings{Workspace: dir, DiskBytes: 20 << 20, Started: started}
	c := start(t, limits)
	killedFor(t, c, sandbox(t, c, script, dir), watch.Disk)
	limits.DiskBytes = 40 << 20
	c = start(t, limits)
	lives(t, c, sandbox(t, c, script, dir))
}

func TestDisk_LetsLessPass(t *testing.T) {
	t.Parallel()
	dir := workspace(t)
	c := start(t, watch.Settings{Workspace: dir, DiskBytes: 20 << 20, Inodes: 200})
	// Sparse files are long, not large; one file by many names is one file; and
	// what a link leads to is not in the workspace.
	lives(t, c, sandbox(t, c, `
		mkdir a; head -c 10M /dev/zero > a/x; truncate -s 10G a/sparse; for i in {1..150}; do ln a/x a/$i; done
		ln -s / a/root; ln -s .. a/up; sleep 1000`, dir))
}

func TestWalk_LeavesOutWhatIsNew(t *testing.T) {
	t.Parallel()
	dir := workspace(t)
	<-time.After(20 * time.Millisecond) // the clock of file systems is coarse
	now := time.Now()
	<-time.After(20 * time.Millisecond)
	if err := os.WriteFile(filepath.Join(dir, "new"), make([]byte, 5<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	oldBytes, oldInodes := watchdog.Walk(t, dir, now)
	allBytes, allInodes := watchdog.Walk(t, dir, time.Time{})
	if oldBytes < 30<<20 || allBytes-oldBytes < 5<<20 || oldInodes != 301 || allInodes != 302 {
		t.Errorf("before: %d bytes, %d files; all: %d, %d", oldBytes, oldInodes, allBytes, allInodes)
	}
}

func BenchmarkWalk(b *testing.B) {
	for b.Loop() {
		_, n := watchdog.Walk(b, "/usr/share", time.Time{})
		b.ReportMetric(float64(n), "entries")
	}
}

// TestRevert: a starter that is killed leaves no more behind than one that
// ends. The agent may have made anything of what is reverted.
func TestRevert(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	keep := filepath.Join(outside, "hooks", "keep")
	for _, f := range []string{keep, filepath.Join(dir, ".git/refs/old"), filepath.Join(dir, ".git/HEAD")} {
		if err := os.MkdirAll(filepath.Dir(f), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(f, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	git := filepath.Join(dir, ".git")
	b := begin(t, plan{
		Until: "told", Namespace: true,
		Script: "cd " + dir + " && mkdir -p .git/hooks/deep && ln -s " + outside + " .git/hooks/out && ln -s " + keep +
			" .git/COMMIT_EDITMSG && ln -s " + outside + " linked && echo > .git/commondir && echo > made; sleep 1000",
		Settings: watch.Settings{
			Workspace: dir, Started: beneath.Clock(),
			Guard: ws.Guard{
				Root: dir, GitDirs: []string{git}, Watch: nil,
				Absent: []string{git + "/hooks", git + "/commondir", git + "/absent", dir + "/linked/hooks"},
			},
		},
	})
	for end := time.Now().Add(10 * time.Second); ; {
		if _, err := os.Lstat(dir + "/made"); err == nil || time.Now().After(end) {
			break
		}
		<-time.After(time.Millisecond)
	}
	if err := b.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	b.gone(t, atMost)
	for name, want := range map[string]bool{
		".git/hooks": false, ".git/hooks.set-aside/deep": true, ".git/commondir": false, ".git/commondir.set-aside": true,
		".git/COMMIT_EDITMSG": false, ".git/HEAD": true, ".git/refs/old": true, "made": true, "linked": true,
	} {
		if _, err := os.Lstat(filepath.Join(dir, name)); (err == nil) != want {
			t.Errorf("%s: %v, want it to be there: %t", name, err, want)
		}
	}
	if _, err := os.Stat(keep); err != nil {
		t.Error(err)
	}
}

// TestRevert_NotAfterDone: then the starter has looked after it.
func TestRevert_NotAfterDone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	made := filepath.Join(dir, "made")
	c := start(t, watch.Settings{Workspace: dir, Guard: ws.Guard{Root: dir, GitDirs: nil, Absent: []string{made}, Watch: nil}})
	if err := os.Mkdir(made, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := c.Done(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(made); err != nil {
		t.Error(err)
	}
}
