package cgroup_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/linux/cgroup"
	"github.com/bailey-dev/bailey/internal/testkit/tier"
)

// These tests use the machine's own cgroups of version 1, as root.

func TestMain(m *testing.M) {
	switch role := os.Getenv("BAILEY_CGROUP_TEST_ROLE"); role {
	case "hog":
		hog()
	case "spin":
		spin()
	case "bomb":
		bomb()
	default:
		os.Exit(m.Run())
	}
}

// waitGo blocks until the test has put this process where it belongs.
func waitGo() { _, _ = os.Stdin.Read(make([]byte, 1)) }

func hog() {
	waitGo()
	// Not of the Go heap, whose cost the race detector multiplies.
	b, err := syscall.Mmap(-1, 0, 256<<20, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		panic(err)
	}
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
}

func spin() {
	waitGo()
	var t syscall.Rusage
	for { // until this process has used 200 ms of CPU time
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &t)
		if time.Duration(t.Utime.Nano()+t.Stime.Nano()) > 200*time.Millisecond {
			return
		}
	}
}

func bomb() {
	waitGo()
	for {
		cmd := exec.Command("/proc/self/exe")
		cmd.Stdin, _ = os.Open("/dev/null") // a child does not wait
		_ = cmd.Start()
	}
}

type child struct {
	*exec.Cmd
	start func()
}

// role starts this program again; it waits for start.
func role(t *testing.T, name string) child {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), "BAILEY_CGROUP_TEST_ROLE="+name)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return child{cmd, func() {
		if _, err := in.Write([]byte{1}); err != nil {
			t.Fatal(err)
		}
	}}
}

// create makes a group that goes with the test.
func create(t *testing.T, l cgroup.Limits) *cgroup.Group {
	t.Helper()
	g, err := cgroup.Find(cgroup.Config{ID: string(bailey.NewSandboxID()), Limits: l})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Create(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(g.Kill(), g.Remove()); err != nil {
			t.Error(err)
		}
		for _, dir := range g.Place().Dirs {
			if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s is left: %v", dir, err)
			}
		}
	})
	for _, s := range g.Statuses() {
		if !s.Enforced || s.Why != "" {
			t.Errorf("%s: %+v", s.Limit, s)
		}
	}
	return g
}

func TestGroup_MemoryLimitKillsAndIsCounted(t *testing.T) {
	t.Parallel()
	g := create(t, cgroup.Limits{MemoryBytes: 64 << 20})
	if n, err := g.OOMKills(); n != 0 || err != nil {
		t.Fatalf("out-of-memory kills before: %d, %v", n, err)
	}
	h := role(t, "hog")
	if err := g.AddProcess(h.Process.Pid); err != nil {
		t.Fatal(err)
	}
	h.start()
	if err := h.Wait(); err == nil || h.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("the hog ended with %v", err)
	}
	if n, err := g.OOMKills(); n != 1 || err != nil {
		t.Errorf("out-of-memory kills: %d, %v; want 1", n, err)
	}
}

func TestGroup_MemoryLimitLetsLessPass(t *testing.T) {
	t.Parallel()
	g := create(t, cgroup.Limits{MemoryBytes: 512 << 20})
	h := role(t, "hog")
	if err := g.AddProcess(h.Process.Pid); err != nil {
		t.Fatal(err)
	}
	h.start()
	if err := h.Wait(); err != nil {
		t.Error(err)
	}
	if n, err := g.OOMKills(); n != 0 || err != nil {
		t.Errorf("out-of-memory kills: %d, %v; want 0", n, err)
	}
}

func TestGroup_CPUQuotaSlowsDown(t *testing.T) {
	t.Parallel()
	g := create(t, cgroup.Limits{MilliCPUs: 250})
	s := role(t, "spin")
	if err := g.AddProcess(s.Process.Pid); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	s.start()
	if err := s.Wait(); err != nil {
		t.Fatal(err)
	}
	// 200 ms of CPU at a quarter of one take 800 ms; the first period may give
	// 25 ms early. A busy machine only makes it longer, so how often the
	// kernel held the process back is asked too.
	if took := time.Since(began); took < 600*time.Millisecond {
		t.Errorf("200 ms of CPU took %s at a quarter of a CPU", took)
	}
	b, err := os.ReadFile(path.Join(g.Place().Dirs[0], "cpu.stat"))
	if err != nil || strings.Contains(string(b), "nr_throttled 0\n") {
		t.Errorf("never throttled: %s (%v)", b, err)
	}
}

func TestGroup_KillEndsAForkBomb(t *testing.T) {
	t.Parallel()
	g := create(t, cgroup.Limits{MemoryBytes: 512 << 20, Tasks: 100})
	b := role(t, "bomb")
	if err := g.AddProcess(b.Process.Pid); err != nil {
		t.Fatal(err)
	}
	b.start()
	procs := path.Join(g.Place().Dirs[0], "cgroup.procs")
	eventually(t, "a crowd", func() bool { return count(t, procs) > 5 })
	if err := g.Kill(); err != nil {
		t.Fatal(err)
	}
	if n := count(t, procs); n != 0 {
		t.Errorf("%d processes are left", n)
	}
}

func count(t *testing.T, procs string) int {
	t.Helper()
	b, err := os.ReadFile(procs)
	if err != nil {
		t.Fatal(err)
	}
	return len(strings.Fields(string(b)))
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !cond(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

func TestGroup_IDIsTaken(t *testing.T) {
	t.Parallel()
	cfg := cgroup.Config{ID: string(bailey.NewSandboxID()), Limits: cgroup.Limits{Tasks: 10}}
	a, err := cgroup.Find(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Create(); err != nil {
		t.Fatal(err)
	}
	defer a.Remove()
	b, err := cgroup.Find(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Create(); !errors.Is(err, cgroup.ErrExists) {
		t.Errorf("second group of the same ID: %v, want ErrExists", err)
	}
	if _, err := os.Stat(a.Place().Dirs[0]); err != nil {
		t.Errorf("the first group suffered: %v", err)
	}
}

// TestCreate_SweepsWhatNobodyHolds: what a starter and its watchdog left that
// were killed together goes with the next start, and what is in use stays.
func TestCreate_SweepsWhatNobodyHolds(t *testing.T) {
	t.Parallel()
	used := create(t, cgroup.Limits{Tasks: 10}) // empty, and held by this process
	left := filepath.Join(filepath.Dir(used.Place().Dirs[0]), string(bailey.NewSandboxID()))
	if err := os.Mkdir(left, 0o755); err != nil {
		t.Fatal(err)
	}
	create(t, cgroup.Limits{Tasks: 10})
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is left: %v", left, err)
	}
	if _, err := os.Stat(used.Place().Dirs[0]); err != nil {
		t.Errorf("a group in use was swept: %v", err)
	}
}

// TestGroup_ManyAtOnce: the folder around the groups comes and goes while
// others are made in it.
func TestGroup_ManyAtOnce(t *testing.T) {
	t.Parallel()
	var wg sync.WaitGroup
	errs := make([]error, 100)
	for i := range errs {
		wg.Go(func() {
			for range 3 {
				g, err := cgroup.Find(cgroup.Config{
					ID:     string(bailey.NewSandboxID()),
					Limits: cgroup.Limits{MemoryBytes: 64 << 20, MilliCPUs: 1000, Tasks: cgroup.BackstopTasks},
				})
				if err == nil {
					err = g.Create()
				}
				if err != nil {
					errs[i] = err
					return
				}
				for _, s := range g.Statuses() {
					if !s.Enforced {
						errs[i] = fmt.Errorf("%s: %s", s.Limit, s.Why)
					}
				}
				errs[i] = errors.Join(errs[i], g.Remove())
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}

func TestPlace_OfNothing(t *testing.T) {
	t.Parallel()
	for _, p := range []cgroup.Place{{}, {Version: 1, Dirs: []string{"/sys/fs/cgroup/memory/bailey/never-was"}}} {
		if err := errors.Join(p.Kill(), p.Remove()); err != nil {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

// TestPlace_Version2 uses the machine's cgroup2 mount, which on a hybrid
// machine has no controller but moves, kills and removes as any.
func TestPlace_Version2(t *testing.T) {
	t.Parallel()
	root := unified(t)
	p := cgroup.Place{Version: 2, Dirs: []string{path.Join(root, "bailey", string(bailey.NewSandboxID()))}}
	if err := os.MkdirAll(p.Dirs[0], 0o755); err != nil {
		t.Fatal(err)
	}
	b := role(t, "bomb")
	if err := os.WriteFile(path.Join(p.Dirs[0], "cgroup.procs"), []byte(strconv.Itoa(b.Process.Pid)), 0); err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Error(err)
	}
	if err := b.Wait(); err == nil {
		t.Error("the process was not killed")
	}
	if err := p.Remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(p.Dirs[0]); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is left: %v", p.Dirs[0], err)
	}
}

func unified(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); strings.Contains(line, " - cgroup2 ") {
			return f[4]
		}
	}
	tier.Lacks(t, "no cgroup2 is mounted")
	return ""
}

// TestFind_AsAnOrdinaryUser: version 1 belongs to root.
func TestFind_AsAnOrdinaryUser(t *testing.T) {
	t.Parallel()
	tier.Root(t)
	// A thread of its own gets the user's id: a raw call changes that alone.
	done := make(chan []cgroup.Status, 1)
	go func() {
		lockAndDrop()
		g, err := cgroup.Find(cgroup.Config{ID: "x", Limits: cgroup.Limits{MemoryBytes: 1, MilliCPUs: 1, Tasks: 1}})
		if err != nil {
			t.Error(err)
			done <- nil
			return
		}
		if err := g.Create(); err != nil || g.Place().Version != 0 {
			t.Errorf("create: %v, %+v", err, g.Place())
		}
		done <- g.Statuses()
	}()
	var got []string
	for _, s := range <-done {
		got = append(got, fmt.Sprintf("%s enforced=%t root=%t", s.Limit, s.Enforced, strings.Contains(s.Why, "belong to root")))
	}
	want := []string{"memory enforced=false root=true", "cpu enforced=false root=true", "pids enforced=false root=true"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
