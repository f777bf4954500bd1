package proc_test

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bailey-dev/bailey/internal/linux/proc"
)

// start runs a command that is killed and reaped with the test.
func start(t *testing.T, attr *syscall.SysProcAttr, argv ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.SysProcAttr = attr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); !cond(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

func identify(t *testing.T, pid int) proc.Identity {
	t.Helper()
	id, err := proc.Identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestReadStat_OfAProcessWithAStrangeName(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	strange := dir + "/a) R 1 (b" // would fool a reader of the first parenthesis
	b, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(strange, b, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := start(t, nil, strange, "60")
	s, err := proc.ReadStat(cmd.Process.Pid)
	if err != nil || s.PPID != os.Getpid() || s.Start == 0 {
		t.Errorf("got %+v, %v; want parent %d", s, err, os.Getpid())
	}
}

func TestReadStat_Gone(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if _, err := proc.ReadStat(cmd.Process.Pid); !errors.Is(err, proc.ErrGone) {
		t.Errorf("got %v, want ErrGone", err)
	}
	if _, err := proc.Identify(cmd.Process.Pid); !errors.Is(err, proc.ErrGone) {
		t.Errorf("got %v, want ErrGone", err)
	}
}

func TestIdentity_SignalReachesItsProcessAlone(t *testing.T) {
	t.Parallel()
	cmd := start(t, nil, "sleep", "60")
	id := identify(t, cmd.Process.Pid)
	other := proc.Identity{PID: id.PID, Start: id.Start + 1} // as if the pid had been given away
	if err := other.Signal(syscall.SIGKILL); !errors.Is(err, proc.ErrGone) {
		t.Errorf("signal to another life of the pid: %v, want ErrGone", err)
	}
	if other.Alive() || !id.Alive() {
		t.Fatalf("alive: other %v, itself %v", other.Alive(), id.Alive())
	}
	if err := id.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "death", func() bool { return !id.Alive() }) // a zombie, not yet reaped
	_ = cmd.Wait()
	if err := id.Signal(syscall.SIGKILL); !errors.Is(err, proc.ErrGone) {
		t.Errorf("signal after the end: %v, want ErrGone", err)
	}
	if err := (proc.Identity{}).Signal(syscall.SIGKILL); !errors.Is(err, proc.ErrGone) {
		t.Errorf("signal to nobody: %v, want ErrGone", err)
	}
}

func TestDescendants_HasChildrenOfChildrenAndNothingElse(t *testing.T) {
	t.Parallel()
	start(t, nil, "sleep", "60") // a sibling
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "sleep 60 & echo $!; (sleep 60 & echo $!; wait) & wait")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() })
	lines := bufio.NewScanner(out)
	var want []int
	for range 2 {
		lines.Scan()
		pid, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, pid)
	}
	got, err := proc.Descendants(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	// A kernel without lists of children has to come to the same.
	other, err := proc.ByParents(cmd.Process.Pid)
	byPID := func(a, b proc.Identity) int { return a.PID - b.PID }
	slices.SortFunc(got, byPID)
	slices.SortFunc(other, byPID)
	if err != nil || !slices.Equal(got, other) {
		t.Errorf("by children %v, by parents %v, %v", got, other, err)
	}
	var pids []int
	for _, id := range got {
		pids = append(pids, id.PID)
		defer func() { _ = id.Signal(syscall.SIGKILL) }()
	}
	if len(got) != 3 || !slices.Contains(pids, want[0]) || !slices.Contains(pids, want[1]) {
		t.Errorf("got %v, want %v and their subshell", pids, want)
	}
}

func TestMembers_OfAPIDNamespace(t *testing.T) {
	t.Parallel()
	attr := &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
	}
	cmd := start(t, attr, "sh", "-c", "sleep 60 & sleep 60")
	ns, err := proc.PIDNamespace(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if own, err := proc.PIDNamespace(os.Getpid()); err != nil || own == ns {
		t.Fatalf("own namespace %d, %v; that of the child is %d", own, err, ns)
	}
	eventually(t, "three members", func() bool {
		ids, err := proc.Members(ns)
		return err == nil && len(ids) == 3
	})
}

func TestMemory_CountsWhatIsTouched(t *testing.T) {
	t.Parallel()
	const size = 64 << 20
	before, err := proc.PSS(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	mem, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Munmap(mem) }()
	for i := 0; i < size; i += 4096 {
		mem[i] = 1
	}
	after, err := proc.PSS(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if grown := after - before; grown < size*9/10 || grown > 2*size {
		t.Errorf("PSS grew by %d bytes, touched %d", grown, size)
	}
	if rss, err := proc.RSS(os.Getpid()); err != nil || rss < size {
		t.Errorf("RSS %d, %v; want at least %d", rss, err, size)
	}
}

func TestMemory_OfNobody(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if _, err := proc.PSS(cmd.Process.Pid); !errors.Is(err, proc.ErrGone) {
		t.Errorf("PSS: %v, want ErrGone", err)
	}
	if _, err := proc.RSS(cmd.Process.Pid); !errors.Is(err, proc.ErrGone) {
		t.Errorf("RSS: %v, want ErrGone", err)
	}
}

func BenchmarkDescendants(b *testing.B) {
	for b.Loop() {
		if _, err := proc.Descendants(os.Getpid()); err != nil {
			b.Fatal(err)
		}
	}
}

func TestParse_RefusesNonsense(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "1", "1 (a", "1 (a)", "1 (a) R", "1 (a) R x" + strings.Repeat(" 0", 30), "1 (a) RR 1" + strings.Repeat(" 0", 30)} {
		if got, err := proc.ParseStat([]byte(s)); err == nil {
			t.Errorf("%q: got %+v", s, got)
		}
	}
}
