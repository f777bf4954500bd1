package watchdog_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bailey-dev/bailey/internal/linux/proc"
	"github.com/bailey-dev/bailey/internal/watch"
)

func TestKilledStarter_LeavesNothing(t *testing.T) {
	t.Parallel()
	for _, stage := range stages {
		for _, namespace := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s namespace=%t", stage, namespace), func(t *testing.T) {
				t.Parallel()
				b := begin(t, plan{Until: stage, Namespace: namespace, Script: "until grep -q bailey /proc/self/cgroup; do :; done; sleep 1000 & (sleep 1000 & sleep 1000) & wait"})
				if !b.watchdog.Alive() {
					t.Fatal("the watchdog is not there")
				}
				if err := b.cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				b.gone(t, atMost)
			})
		}
	}
}

// TestKilledStarter_TakesAGrandchildWithIt: a process that has left the
// helper's tree and session is still in its cgroup.
func TestKilledStarter_TakesAGrandchildWithIt(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pid")
	b := begin(t, plan{Until: "told", Script: "until grep -q bailey /proc/self/cgroup; do :; done; setsid sh -c 'echo $$ > " + file + ".new; mv " + file + ".new " + file + "; exec sleep 1000' & exit 0"})
	var text []byte
	eventually(t, 5*time.Second, "the grandchild", func() bool {
		var err error
		text, err = os.ReadFile(file)
		return err == nil
	})
	var pid int
	if _, err := fmt.Sscan(string(text), &pid); err != nil {
		t.Fatal(err)
	}
	grandchild, err := proc.Identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, 5*time.Second, "the end of the helper", func() bool { return !b.helper.Alive() })
	if !grandchild.Alive() {
		t.Fatal("the grandchild is dead too early")
	}
	if err := b.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	b.gone(t, atMost)
	if grandchild.Alive() {
		t.Error("the grandchild lives")
	}
}

func TestStoppedStarter_DoesNotStopTheDeadline(t *testing.T) {
	t.Parallel()
	b := begin(t, plan{Until: "told", Namespace: true, Script: "sleep 1000", Settings: watch.Settings{Timeout: 300 * time.Millisecond, Grace: 100 * time.Millisecond}})
	if err := b.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, 3*time.Second, "the end of the helper", func() bool { return !b.helper.Alive() })
	if !b.watchdog.Alive() {
		t.Error("the watchdog has left before the starter")
	}
	if err := b.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	b.gone(t, atMost)
}

// TestSignals_DoNotReachIt: not those of a terminal, and not one that is sent
// to the starter's group.
func TestSignals_DoNotReachIt(t *testing.T) {
	t.Parallel()
	c := start(t, watch.Settings{})
	if sid, err := getsid(c.PID()); err != nil || sid != c.PID() {
		t.Errorf("session %d, %v; want its own, %d", sid, err, c.PID())
	}
	id, err := proc.Identify(c.PID())
	if err != nil {
		t.Fatal(err)
	}
	// It ignores them from the time it has read its settings; a message that
	// it understood is later than that.
	eventually(t, 5*time.Second, "signals to be ignored", func() bool { return ignores(t, c.PID(), syscall.SIGTERM) })
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		if err := id.Signal(sig); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Done(); err != nil {
		t.Error(err)
	}
}

func ignores(t *testing.T, pid int, sig syscall.Signal) bool {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "SigIgn:")
	var mask uint64
	if _, err := fmt.Sscanf(rest, "%x", &mask); err != nil {
		t.Fatal(err)
	}
	return mask&(1<<(sig-1)) != 0
}

func getsid(pid int) (int, error) {
	sid, _, e := syscall.Syscall(syscall.SYS_GETSID, uintptr(pid), 0, 0)
	if e != 0 {
		return 0, e
	}
	return int(sid), nil
}

func start(t *testing.T, s watch.Settings) *watch.Client {
	t.Helper()
	c, err := watch.Start(dogCommand(), s)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestKilledWatchdog_IsSeen(t *testing.T) {
	t.Parallel()
	c := start(t, watch.Settings{})
	id, err := proc.Identify(c.PID())
	if err != nil {
		t.Fatal(err)
	}
	if err := id.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want EOF", err)
	}
	if err := c.Done(); err == nil {
		t.Error("Done says nothing of it")
	}
}

func TestBadStart_IsRefused(t *testing.T) {
	t.Parallel()
	good := start(t, watch.Settings{Workspace: t.TempDir(), DiskBytes: 1 << 20})
	if counted, err := good.Ready(); err != nil || !counted {
		t.Errorf("a good one is ready: %t, %v", counted, err)
	}
	if err := good.Done(); err != nil {
		t.Error(err)
	}
	c := start(t, watch.Settings{Workspace: "/absent/folder"})
	if _, err := c.Ready(); err == nil || !strings.Contains(err.Error(), "/absent/folder") {
		t.Errorf("got %v, want the reason", err)
	}
	if _, err := c.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want EOF", err)
	}
	if err := c.Done(); err == nil {
		t.Error("Done says nothing of it")
	}
	cmd := &exec.Cmd{Path: "/proc/self/exe", Args: dogCommand().Args}
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "bailey run alone") {
		t.Errorf("by hand: %v, %s", err, out)
	}
}

// TestLaunch_WaitsToBeTold: one that is started ahead watches when it is told
// what, and ends when nobody will.
func TestLaunch_WaitsToBeTold(t *testing.T) {
	t.Parallel()
	launch := func() *watch.Client {
		c, err := watch.Launch(dogCommand())
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := launch()
	time.Sleep(50 * time.Millisecond)
	if err := c.Begin(watch.Settings{Workspace: t.TempDir(), DiskBytes: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	if counted, err := c.Ready(); err != nil || !counted {
		t.Errorf("it is ready: %t, %v", counted, err)
	}
	if err := c.Done(); err != nil {
		t.Error(err)
	}
	c = launch()
	id, err := proc.Identify(c.PID())
	if err != nil {
		t.Fatal(err)
	}
	c.Abandon()
	if id.Alive() {
		t.Error("it lives on")
	}
}

// sandbox starts a helper in a pid namespace and tells the watchdog.
func sandbox(t *testing.T, c *watch.Client, script, dir string) proc.Identity {
	t.Helper()
	if _, err := c.Ready(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWPID | syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: os.Getegid(), Size: 1}},
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	id, err := proc.Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Helper(id); err != nil {
		t.Fatal(err)
	}
	return id
}

// killedFor waits for a report, and for the death of the helper.
func killedFor(t *testing.T, c *watch.Client, helper proc.Identity, limit string) watch.Report {
	t.Helper()
	watchdog, err := proc.Identify(c.PID())
	if err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(time.Minute, func() { _ = watchdog.Signal(syscall.SIGKILL) })
	defer timer.Stop()
	r, err := c.Next()
	if err != nil || r.Limit != limit {
		t.Fatalf("got %+v, %v; want limit %s", r, err, limit)
	}
	eventually(t, 2*time.Second, "the end of the helper", func() bool { return !helper.Alive() })
	if err := c.Done(); err != nil {
		t.Error(err)
	}
	return r
}

// lives gives the watchdog two seconds to find fault and expects none.
func lives(t *testing.T, c *watch.Client, helper proc.Identity) {
	t.Helper()
	said := make(chan watch.Report, 1)
	go func() {
		if r, err := c.Next(); err == nil {
			said <- r
		}
	}()
	select {
	case r := <-said:
		t.Errorf("was killed: %+v", r)
	case <-time.After(3 * time.Second):
		if !helper.Alive() {
			t.Error("the helper is dead")
		}
	}
	if err := c.Done(); err != nil {
		t.Error(err)
	}
}

// hog holds the given MB in each of two children of the helper.
func hog(mb int) string {
	return fmt.Sprintf(`hog() { head -c %dM /dev/zero | tail -c %dM | sleep 1000; }; hog & hog & wait`, mb, mb)
}

func TestMemory_IsKept(t *testing.T) {
	t.Parallel()
	c := start(t, watch.Settings{MemoryBytes: 150 << 20})
	r := killedFor(t, c, sandbox(t, c, hog(100), "/"), watch.Memory)
	if r.Value < 150<<20 || r.Value > 400<<20 || !strings.Contains(r.Message, "out of memory") {
		t.Errorf("got %+v", r)
	}
}

func TestMemory_IsKeptWhenToldLater(t *testing.T) {
	t.Parallel()
	c := start(t, watch.Settings{})
	if err := c.WatchMemory(150 << 20); err != nil {
		t.Fatal(err)
	}
	killedFor(t, c, sandbox(t, c, hog(100), "/"), watch.Memory)
}

func TestMemory_LetsLessPass(t *testing.T) {
	t.Parallel()
	c := start(t, watch.Settings{MemoryBytes: 300 << 20})
	lives(t, c, sandbox(t, c, hog(100), "/"))
}

func TestTimeout_IsReported(t *testing.T) {
	t.Parallel()
	c := start(t, watch.Settings{Timeout: 100 * time.Millisecond, Grace: 50 * time.Millisecond})
	r := killedFor(t, c, sandbox(t, c, "sleep 1000", "/"), watch.Timeout)
	if r.Value != int64(100*time.Millisecond) {
		t.Errorf("got %+v", r)
	}
}

// TestTimeout_BeforeThereIsAHelper: who comes after the deadline is killed.
func TestTimeout_BeforeThereIsAHelper(t *testing.T) {
	t.Parallel()
	c := start(t, watch.Settings{Timeout: time.Millisecond, Grace: time.Millisecond})
	if r, err := c.Next(); err != nil || r.Limit != watch.Timeout {
		t.Fatalf("got %+v, %v", r, err)
	}
	helper := sandbox(t, c, "sleep 1000", "/")
	eventually(t, 2*time.Second, "the end of the helper", func() bool { return !helper.Alive() })
	if err := c.Done(); err != nil {
		t.Error(err)
	}
}
