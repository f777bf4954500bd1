package spec_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/bailey-dev/bailey/internal/linux/proc"
	"github.com/bailey-dev/bailey/internal/role"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// childNamed waits for a process below a run by the name it was started under,
// and returns its pid. It is quick enough for the moments of a start.
func childNamed(t *testing.T, holder int, name string) int {
	t.Helper()
	pid := 0
	yard.Eventually(t, yard.Timeout, func() bool {
		below, err := proc.Descendants(holder)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(below, func(id proc.Identity) bool { // the highest: its own children have its name until they have theirs
			return strings.HasPrefix(readProc(t, id.PID, "cmdline"), name+"\x00")
		})
		if i >= 0 {
			pid = below[i].PID
		}
		return i >= 0
	}, func() string { return fmt.Sprintf("process %d has no child %s", holder, name) })
	return pid
}

// signal sends a signal to a process of the host.
func signal(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		t.Fatalf("signal %d to process %d: %v", s, pid, err)
	}
}

// TestExec_WhileTheSandboxIsMade: who comes before the sandbox runs waits for
// it. The helper is stopped, so the sandbox is not there until it goes on.
func TestExec_WhileTheSandboxIsMade(t *testing.T) {
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		for _, ends := range []bool{false, true} {
			r, helper := halfMade(t, y, "early")
			e := y.Start(t, "exec", "early", "--", "sh", "-c", "echo came; pwd")
			connected(t, y, "early")
			if ends { // it is never there
				signal(t, helper, syscall.SIGKILL)
				if res := e.Wait(t, 10*time.Second); res.Code != 125 || strings.Contains(res.Stderr, "panic") {
					t.Errorf("exec into what never ran: %+v", res)
				}
				if res := r.Wait(t, 10*time.Second); res.Code != 125 || strings.Contains(res.Stderr, "panic") {
					t.Errorf("the run: %+v", res)
				}
				continue
			}
			signal(t, helper, syscall.SIGCONT)
			if res := e.Wait(t, yard.Timeout); res.Code != 0 || res.Stdout != "came\n"+y.Dir+"\n" {
				t.Errorf("exec: %+v", res)
			}
			_ = r.Stdin.Close()
			r.Wait(t, yard.Timeout).OK(t)
		}
	})
}

// halfMade starts a run and stops its helper at the moment when the run has its
// name and not yet its sandbox: step by step, and with another run where the
// moment was missed.
func halfMade(t *testing.T, y *yard.Yard, name string) (r *yard.Running, helper int) {
	t.Helper()
	socket := filepath.Join(filepath.Dir(y.Dir), "run/bailey", name+".sock")
	for range 20 {
		r := y.Start(t, "run", "-q", "--name", name, "--", "sh", "-c", "echo up; cat")
		helper := childNamed(t, r.Cmd.Process.Pid, role.Helper)
		claimed := func() bool {
			_, err := os.Stat(socket)
			return err == nil
		}
		for !claimed() {
			if err := syscall.Kill(helper, syscall.SIGSTOP); err != nil {
				t.Fatalf("the helper: %v; the run: %+v", err, r.Wait(t, yard.Timeout))
			}
			for end := time.Now().Add(100 * time.Millisecond); !claimed() && time.Now().Before(end); time.Sleep(time.Millisecond) {
			}
			if !claimed() {
				signal(t, helper, syscall.SIGCONT)
				time.Sleep(time.Millisecond) // one step
			}
		}
		if strings.Contains(y.Run(t, "ps", "--json").Stdout, `"creating"`) {
			return r, helper
		}
		signal(t, helper, syscall.SIGCONT)
		_ = r.Stdin.Close()
		r.Wait(t, yard.Timeout)
	}
	t.Fatal("the moment was always missed: the test shows nothing")
	return nil, 0
}

// TestStop_OfWhatIsNotThereYet: a sandbox that is being made, and does not get
// on, ends when it is told to.
func TestStop_OfWhatIsNotThereYet(t *testing.T) {
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		clean := nothingLeft(t, y)
		r, _ := halfMade(t, y, "slow")
		y.Run(t, "stop", "slow").OK(t)
		if res := r.Wait(t, stopWithin); res.Code != 128+int(syscall.SIGTERM) {
			t.Errorf("the run ended with %+v", res)
		}
		clean()
	})
}

// connected waits until the holder of a sandbox has a client on its socket.
func connected(t *testing.T, y *yard.Yard, name string) {
	t.Helper()
	yard.Eventually(t, yard.Timeout, func() bool {
		n := 0
		for _, pid := range processesOf(y) {
			for line := range strings.Lines(readProc(t, pid, "net/unix")) {
				// proc_net(5): a connected socket has state 03 (SS_CONNECTED)
				if f := strings.Fields(line); len(f) == 8 && f[5] == "03" && strings.HasSuffix(f[7], "/"+name+".sock") {
					n++
				}
			}
		}
		return n > 0
	}, func() string { return "nobody is connected to " + name })
}

// stopWithin is what `bailey stop` may take: the grace that a sandbox has, and
// a second for what is slow.
const stopWithin = 4 * time.Second

// TestStop_OfAFrozenSandbox stops everything inside, the first process too,
// while so much is sent in that nothing more fits into the wire. It ends
// nevertheless, by `bailey stop` and by a signal.
func TestStop_OfAFrozenSandbox(t *testing.T) {
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		for _, how := range []string{"stop", "SIGTERM"} {
			t.Run(how, func(t *testing.T) {
				clean := nothingLeft(t, y)
				r := y.Start(t, "run", "-q", "--name", "frozen", "--", "sh", "-c", "echo up; cat >/dev/null")
				r.Await(t, "up")
				var all feeds
				all.pour(r)
				for range 8 {
					e := y.Start(t, "exec", "frozen", "--", "sh", "-c", "echo up; cat >/dev/null")
					e.Await(t, "up")
					all.pour(e)
				}
				y.Start(t, "exec", "frozen", "--", "sh", "-c", "kill -STOP 1; kill -STOP -1")
				all.stall(t)
				began := time.Now()
				code := 128 + int(syscall.SIGTERM)
				if how == "stop" {
					y.Run(t, "stop", "frozen").OK(t)
				} else {
					signal(t, r.Cmd.Process.Pid, syscall.SIGTERM)
				}
				if res := r.Wait(t, 30*time.Second); res.Code != code {
					t.Errorf("it ended with %+v, want %d", res, code)
				}
				if took := time.Since(began); took > stopWithin {
					t.Errorf("it took %v, at most %v are promised", took, stopWithin)
				}
				clean()
			})
		}
	})
}

// feeds write to commands for ever.
type feeds struct{ last atomic.Int64 } // when one of them took something

func (f *feeds) pour(r *yard.Running) {
	go func() {
		for {
			if _, err := r.Stdin.Write(make([]byte, 64<<10)); err != nil {
				return
			}
			f.last.Store(time.Now().UnixNano())
		}
	}()
}

// stall waits until none of them takes anything any more.
func (f *feeds) stall(t *testing.T) {
	t.Helper()
	yard.Eventually(t, yard.Timeout, func() bool { return time.Since(time.Unix(0, f.last.Load())) > time.Second },
		func() string { return "the commands still read: nothing is frozen" })
}

// TestEvents_OfACommandThatCannotRun: nothing is said to have started that did
// not.
func TestEvents_OfACommandThatCannotRun(t *testing.T) {
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		y.Write(t, "plain", "no program")
		for _, c := range []struct {
			command, want string
			code          int
		}{
			{"no-such-command", "sandbox.starting error sandbox.exited", 127},
			{"./plain", "sandbox.starting error sandbox.exited", 126},
			{"true", "sandbox.starting sandbox.started sandbox.exited", 0},
		} {
			list := events(t, y.Run(t, "run", "--json", "--", c.command).Exit(t, c.code).Stderr)
			var types []string
			for _, e := range list {
				types = append(types, e.Type)
			}
			if got := strings.Join(types, " "); got != c.want {
				t.Errorf("%s: events %s, want %s", c.command, got, c.want)
			}
			if e := eventOf(list, "error"); c.code != 0 && (e.ExitCode == nil || *e.ExitCode != c.code || e.Message == "") {
				t.Errorf("%s: %+v", c.command, e)
			}
		}
	})
}

// TestEvents_OfFiles: each kind of finding is an event of its own type.
func TestEvents_OfFiles(t *testing.T) {
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		y.Host(t, "git", "init", "-q", ".")
		script := `git config core.fsmonitor ./evil; git init -q made; echo 'all:' > Makefile; mkdir -p .git/hooks; echo x > .git/hooks/post-commit`
		list := events(t, y.Sh(t, script, "--json").OK(t).Stderr)
		for typ, path := range map[string]string{"file.shadowed": ".git/config", "file.git": "made"} {
			i := slices.IndexFunc(list, func(e runEvent) bool { return e.Type == typ && strings.Contains(e.Path, path) })
			if i < 0 || list[i].Message == "" {
				t.Errorf("no %s about %s in %+v", typ, path, list)
			}
		}
	})
}

// TestDebugLogs: gVisor's logs are written where they are asked for, as the
// caller's own, and a folder that cannot take them is named.
func TestDebugLogs(t *testing.T) {
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		base := filepath.Dir(y.Dir)
		mkdirFor(t, y, base, filepath.Join(base, "logs"))
		if err := os.Symlink("logs", filepath.Join(base, "link")); err != nil {
			t.Fatal(err)
		}
		with := func(dir string) yard.Result {
			return y.RunWith(t, func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, "BAILEY_DEBUG="+dir) }, "run", "-q", "--", "true")
		}
		with("../link").OK(t)
		files, err := os.ReadDir(filepath.Join(base, "logs"))
		if err != nil || len(files) < 3 { // run, gofer, boot
			t.Errorf("%d files, %v", len(files), err)
		}
		for _, f := range files {
			info, err := f.Info()
			if err != nil {
				t.Fatal(err)
			}
			if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != y.UID || int(st.Gid) != y.GID || info.Size() == 0 {
				t.Errorf("%s: %d bytes, of %+v", f.Name(), info.Size(), info.Sys())
			}
		}
		for _, bad := range []string{"/absent-folder", y.WriteHome(t, "plain", "no folder")} {
			if r := with(bad).Exit(t, 125); !strings.Contains(r.Stderr, bad) || !strings.Contains(r.Stderr, "BAILEY_DEBUG names a folder") {
				t.Errorf("%s: %s", bad, r.Stderr)
			}
		}
	})
}
