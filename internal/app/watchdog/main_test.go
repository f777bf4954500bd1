package watchdog_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/app/watchdog"
	"github.com/bailey-dev/bailey/internal/linux/cgroup"
	"github.com/bailey-dev/bailey/internal/linux/proc"
	"github.com/bailey-dev/bailey/internal/watch"
)

const starterArgv0 = "test-starter"

func TestMain(m *testing.M) {
	switch os.Args[0] {
	case watchdog.Argv0:
		os.Exit(watchdog.Main(os.Args))
	case starterArgv0:
		starter()
	case evaderArgv0:
		evader()
	default:
		os.Exit(m.Run())
	}
}

func dogCommand() *exec.Cmd {
	return &exec.Cmd{Path: "/proc/self/exe", Args: []string{watchdog.Argv0}, Stderr: os.Stderr}
}

// The stages of a run, in order. A starter told to reach one says so and stays
// there until it is killed.
var stages = []string{"watched", "grouped", "started", "moved", "told"}

// plan is what a starter is to do.
type plan struct {
	ID        string
	Limits    cgroup.Limits
	Settings  watch.Settings
	Until     string // the stage to stay in
	Script    string // of the helper, a shell
	Namespace bool   // whether the helper is the first process of a pid namespace
}

// starter does what bailey run does around its watchdog.
func starter() {
	runtime.LockOSThread() // Pdeathsig is of the thread that forks
	var p plan
	check(json.Unmarshal([]byte(os.Getenv("PLAN")), &p))
	reached := func(stage string) {
		fmt.Println(stage)
		if stage == p.Until {
			<-time.After(time.Hour)
		}
	}
	g, err := cgroup.Find(cgroup.Config{ID: p.ID, Limits: p.Limits})
	check(err)
	p.Settings.Cgroup = g.Place()
	c, err := watch.Start(dogCommand(), p.Settings)
	check(err)
	fmt.Println("watchdog", c.PID())
	reached("watched")
	check(g.Create())
	reached("grouped")
	helper := exec.Command("sh", "-c", p.Script)
	helper.Stderr = os.Stderr
	helper.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if p.Namespace {
		helper.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID
	}
	check(helper.Start())
	fmt.Println("helper", helper.Process.Pid)
	reached("started")
	check(g.AddProcess(helper.Process.Pid))
	reached("moved")
	id, err := proc.Identify(helper.Process.Pid)
	check(err)
	check(c.Helper(id))
	reached("told")
	runtime.KeepAlive(c)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "starter:", err)
		os.Exit(1)
	}
}

// begun is a starter that has reached its stage.
type begun struct {
	cmd      *exec.Cmd
	watchdog proc.Identity
	helper   proc.Identity // zero before "started"
	group    cgroup.Place
}

// begin runs a plan.
func begin(t *testing.T, p plan) begun {
	t.Helper()
	p.ID = string(bailey.NewSandboxID())
	if p.Limits == (cgroup.Limits{}) {
		p.Limits = cgroup.Limits{MemoryBytes: 1 << 30, Tasks: cgroup.BackstopTasks}
	}
	g, err := cgroup.Find(cgroup.Config{ID: p.ID, Limits: p.Limits})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	b := begun{cmd: &exec.Cmd{Path: "/proc/self/exe", Args: []string{starterArgv0}, Env: append(os.Environ(), "PLAN="+string(text)), Stderr: os.Stderr}, group: g.Place()}
	out, err := b.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = b.cmd.Process.Kill()
		_ = b.cmd.Wait()
	})
	for {
		var word string
		var pid int
		if _, err := fmt.Fscan(out, &word); err != nil {
			t.Fatalf("starter: %v", err)
		}
		switch word {
		case "watchdog", "helper":
			if _, err := fmt.Fscan(out, &pid); err != nil {
				t.Fatal(err)
			}
			id, err := proc.Identify(pid)
			if err != nil {
				t.Fatal(err)
			}
			if word == "helper" {
				b.helper = id
			} else {
				b.watchdog = id
			}
		case p.Until:
			return b
		}
	}
}

func eventually(t *testing.T, within time.Duration, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !cond(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", within, what)
		}
	}
}

// atMost is how long after the starter's death something may be left.
const atMost = 3 * time.Second * raceFactor

// gone waits until nothing is left of a run whose starter is dead.
func (b begun) gone(t *testing.T, within time.Duration) {
	t.Helper()
	eventually(t, within, "the end of watchdog and helper and their cgroup", func() bool {
		for _, dir := range b.group.Dirs {
			if _, err := os.Stat(dir); err == nil {
				return false
			}
		}
		return !b.watchdog.Alive() && !b.helper.Alive()
	})
}
