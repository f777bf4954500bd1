package watchdog_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey/internal/app/watchdog"
	"github.com/bailey-dev/bailey/internal/testkit/tier"
	"github.com/bailey-dev/bailey/internal/watch"
)

const evaderArgv0 = "test-evader"

// evader makes a folder of many files and moves it ahead of whoever lists it,
// as long as it lives. After the first move it fills a file that was there.
// An argument "loud" has it fill the file at once, and not move.
func evader() {
	dir, grow := os.Args[1], os.Args[2]
	const stations = 400
	for i := range stations {
		check(os.MkdirAll(filepath.Join(dir, "P"+fmt.Sprint(i)), 0o755))
	}
	order, err := os.Open(dir)
	check(err)
	names, err := order.Readdirnames(-1) // the order in which a walk comes along
	check(err)
	var at []string
	for _, n := range names {
		if n[0] == 'P' {
			at = append(at, filepath.Join(dir, n, "heavy"))
		}
	}
	check(os.Mkdir(at[0], 0o755))
	for i := range 3000 {
		check(os.WriteFile(filepath.Join(at[0], fmt.Sprint(i)), nil, 0o600))
	}
	ino, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	check(err)
	_, err = unix.InotifyAddWatch(ino, at[0], unix.IN_OPEN) // of the inode, wherever it is moved to
	check(err)
	fmt.Println("made")
	buf := make([]byte, 4096)
	for i := 0; ; {
		n, err := unix.Read(ino, buf)
		check(err)
		for n >= unix.SizeofInotifyEvent {
			mask, size := binary.NativeEndian.Uint32(buf[4:]), binary.NativeEndian.Uint32(buf[12:])
			buf, n = append(buf[unix.SizeofInotifyEvent+size:], make([]byte, unix.SizeofInotifyEvent+size)...), n-unix.SizeofInotifyEvent-int(size)
			if mask&unix.IN_ISDIR == 0 || size != 0 {
				continue
			}
			next := (i + 1) % len(at)
			check(os.Rename(at[i], at[next]))
			i = next
			if grow != "" {
				check(os.WriteFile(grow, make([]byte, 60<<20), 0o600))
				grow = ""
			}
		}
	}
}

// TestWalk_EndsThoughFoldersMove: a folder that is moved ahead of the walk is
// counted once, and the walk ends.
func TestWalk_EndsThoughFoldersMove(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	startEvader(t, dir, "")
	for range 5 {
		if all, _, finished := watchdog.WalkAll(t, dir, time.Time{}, time.Now().Add(20*time.Second)); !finished || all > 3000+400+1 {
			t.Errorf("counted %d of 3401 entries, finished: %t", all, finished)
		}
	}
}

func startEvader(t *testing.T, dir, grow string) {
	t.Helper()
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p, err := os.StartProcess("/proc/self/exe", []string{evaderArgv0, dir, grow}, &os.ProcAttr{Files: []*os.File{nil, in, os.Stderr}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Kill()
		_, _ = p.Wait()
		_ = out.Close()
	})
	_ = in.Close()
	var word string
	if _, err := fmt.Fscan(out, &word); err != nil {
		t.Fatal(err)
	}
}

// TestWalk_HasADeadline: and says that it did not come to its end.
func TestWalk_HasADeadline(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range 500 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if all, _, finished := watchdog.WalkAll(t, dir, time.Time{}, time.Now().Add(-time.Second)); finished || all >= 500 {
		t.Errorf("past the deadline: %d entries, finished: %t", all, finished)
	}
	if all, _, finished := watchdog.WalkAll(t, dir, time.Time{}, time.Now().Add(time.Minute)); !finished || all != 500 {
		t.Errorf("before the deadline: %d entries, finished: %t", all, finished)
	}
}

// TestWalk_OldFilesThatGrew: what was written to an old file after the command
// began was not there before, whenever the walk comes to see it.
func TestWalk_OldFilesThatGrew(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"kept", "grown"} {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, 1<<20), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	<-time.After(60 * time.Millisecond) // the clock of file systems is coarse
	released := time.Now()
	<-time.After(60 * time.Millisecond)
	if err := os.WriteFile(filepath.Join(dir, "grown"), make([]byte, 20<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	old := released.Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(dir, "grown"), old, old); err != nil { // no program sets the ctime
		t.Fatal(err)
	}
	if _, bytes, _ := watchdog.WalkAll(t, dir, released, time.Time{}); bytes < 1<<20 || bytes >= 2<<20 {
		t.Errorf("%d bytes of %d were there before", bytes, 2<<20)
	}
	if _, bytes, _ := watchdog.WalkAll(t, dir, time.Time{}, time.Time{}); bytes < 21<<20 {
		t.Errorf("without a command: %d bytes", bytes)
	}
}

// TestDisk_IsKeptThoughFoldersMove: a sandbox that knows when it is looked at.
func TestDisk_IsKeptThoughFoldersMove(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := workspace(t)
	grown := filepath.Join(dir, "old")
	script := fmt.Sprintf("exec -a %s %s %s %s", evaderArgv0, self, dir, grown)
	limits := watch.Settings{Workspace: dir, DiskBytes: 20 << 20, Inodes: 100_000}
	c := start(t, limits)
	killedFor(t, c, sandbox(t, c, "while sleep 0.2; do echo >> small; done & "+script, dir), watch.Disk)
	// The first one's folder would stand in the way of the second's.
	stations, err := filepath.Glob(filepath.Join(dir, "P*"))
	if err != nil || len(stations) == 0 {
		t.Fatalf("%d stations, %v", len(stations), err)
	}
	for _, s := range stations {
		if err := os.RemoveAll(s); err != nil {
			t.Fatal(err)
		}
	}
	limits.DiskBytes = 60 << 20 // the 30M that were there before are not growth
	c = start(t, limits)
	lives(t, c, sandbox(t, c, "while sleep 0.2; do echo >> small; done & "+script, dir))
}

// TestDisk_CountsMountsInTheWorkspace: the sandbox can write there, too.
func TestDisk_CountsMountsInTheWorkspace(t *testing.T) {
	t.Parallel()
	tier.Root(t)
	for limit, want := range map[int64]bool{20 << 20: true, 50 << 20: false} {
		dir := workspace(t)
		at := filepath.Join(dir, "other")
		if err := os.Mkdir(at, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("other", at, "tmpfs", 0, "size=100m"); err != nil {
			tier.Lacks(t, "no mounts here: "+err.Error())
		}
		t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
		c := start(t, watch.Settings{Workspace: dir, DiskBytes: limit})
		helper := sandbox(t, c, "head -c 30M /dev/zero > other/x; sleep 1000", dir)
		if want {
			killedFor(t, c, helper, watch.Disk)
		} else {
			lives(t, c, helper)
		}
	}
}

// TestFreeze_LetsGoAgain: a sandbox on a disk that others fill is stopped for
// moments and not ended.
func TestFreeze_LetsGoAgain(t *testing.T) {
	t.Parallel()
	dir := workspace(t)
	c := start(t, watch.Settings{Workspace: dir, DiskBytes: 20 << 20})
	helper := sandbox(t, c, "while sleep 0.05; do echo >> ticks; done", dir)
	other, err := os.CreateTemp(filepath.Dir(dir), "other")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := other.Write(make([]byte, 30<<20)); err != nil {
			t.Fatal(err)
		}
		<-time.After(700 * time.Millisecond)
	}
	before, _ := os.ReadFile(filepath.Join(dir, "ticks"))
	eventually(t, 10*time.Second, "the sandbox to go on", func() bool {
		now, _ := os.ReadFile(filepath.Join(dir, "ticks"))
		return len(now) > len(before)+5
	})
	lives(t, c, helper)
}
