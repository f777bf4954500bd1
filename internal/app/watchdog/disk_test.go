package watchdog_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bailey-dev/bailey/internal/app/watchdog"
	"github.com/bailey-dev/bailey/internal/watch"
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
		"bytes":           {"while :; do head -c 1M /dev/zero >> a/$((++n%7)); done", watch.Disk},
		"bytes unlisted":  {"chmod 300 a; while :; do head -c 1M /dev/zero >> a/$((++n%7)); done", watch.Disk},
		"bytes no name":   {"exec 9> a/x; rm a/x; (while :; do head -c 1M /dev/zero >&9; done)", watch.Disk},
		"files":           {"while :; do : > a/$((++n)); done", watch.Inodes},
		"folders":         {"while :; do mkdir a/$((++n)); done", watch.Inodes},
		"hard links":      {"head -c 1M /dev/zero > a/x; while :; do ln a/x a/$((++n)); head -c 1M /dev/zero >> a/x; done", watch.Disk},
		"symbolic links":  {"while :; do ln -s /usr/lib a/$((++n)); done", watch.Inodes},
		"named pipes":     {"while :; do mkfifo a/$((++n)); done", watch.Inodes},
		"nested too deep": {"cd -P a; while mkdir d 2>/dev/null; do cd -P d; done; sleep 1000", watch.Inodes},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := workspace(t)
			limits := watch.Settings{Workspace: dir, DiskBytes: 20 << 20, Inodes: 200}
			if name == "nested too deep" {
				limits.Inodes = 100_000
			}
			c := start(t, limits)
			baseline(t, c.PID())
			script := "mkdir a; " + tc.script
			r := killedFor(t, c, sandbox(t, c, script, dir), tc.limit)
			if r.Message == "" || r.Value <= 0 {
				t.Errorf("got %+v", r)
			}
		})
	}
}

// baseline waits until the watchdog has measured the workspace: its walk has
// a thread of its own, which then ends.
func baseline(t *testing.T, pid int) {
	t.Helper()
	nice := func() bool {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil || len(tasks) == 0 {
			return true
		}
		for _, name := range tasks {
			b, err := os.ReadFile(name)
			if f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:])); err == nil && len(f) > 16 && f[16] == "10" {
				return true
			}
		}
		return false
	}
	<-time.After(100 * time.Millisecond) // it has started by then, or measures a little too much
	eventually(t, 5*time.Second, "the first walk", func() bool { return !nice() })
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
	now := time.Now()
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

func TestRevert(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	keep := filepath.Join(outside, "hooks", "keep")
	for _, f := range []string{keep, filepath.Join(dir, "repo/.git/hooks/deep/er/x"), filepath.Join(dir, "repo/.git/config"), filepath.Join(dir, "file")} {
		if err := os.MkdirAll(filepath.Dir(f), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(f, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"linked": outside, "repo/.git/hooks/out": outside, "last": filepath.Dir(keep)} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	b := begin(t, plan{Until: "told", Namespace: true, Script: "sleep 1000", Settings: watch.Settings{
		Workspace: dir,
		RevertPaths: []string{
			"repo/.git/hooks", // a folder, with a link out of it
			"file", "absent", "absent/below", "file/below",
			"linked/hooks", // through a link: not followed
			"last",         // a link: itself
			"../" + filepath.Base(outside), "/etc/passwd", "..", ".", "",
		},
	}})
	if err := b.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	b.gone(t, 2*time.Second)
	for name, want := range map[string]bool{
		"repo/.git/hooks": false, "file": false, "last": false,
		"repo/.git/config": true, "linked": true,
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
	c := start(t, watch.Settings{Workspace: dir, RevertPaths: []string{"made"}})
	if err := os.Mkdir(filepath.Join(dir, "made"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := c.Done(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "made")); err != nil {
		t.Error(err)
	}
}
