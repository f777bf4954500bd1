package spec_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bailey-dev/bailey/internal/posture"
	"github.com/bailey-dev/bailey/internal/role"
	"github.com/bailey-dev/bailey/internal/testkit/agents"
	"github.com/bailey-dev/bailey/internal/testkit/provider"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// taskEnd is the record that a runner leaves.
type taskEnd struct {
	ExitCode int       `json:"exit_code"`
	Limit    string    `json:"limit"`
	Error    string    `json:"error"`
	Hint     string    `json:"hint"`
	Started  time.Time `json:"started"`
	Ended    time.Time `json:"ended"`
	HostUID  int       `json:"host_uid"`
	Notes    []string  `json:"notes"`
}

// taskSandbox is one runner, started as the launcher starts it.
type taskSandbox struct {
	cmd    *exec.Cmd
	y      *yard.Yard
	done   chan struct{}
	stdout string // paths of what it was given
	stderr string
	events string
	end    string
}

// startTask starts a runner in the yard's workspace, which stands for a scratch
// clone. The settings are those of a check with a deadline, changed by more.
func startTask(t *testing.T, y *yard.Yard, more map[string]any, change ...func(*exec.Cmd)) *taskSandbox {
	t.Helper()
	settings := map[string]any{"kind": "check", "id": "t" + newValue()[4:12], "dir": y.Dir, "limit": int64(80 * time.Second)}
	maps.Copy(settings, more)
	dir := t.TempDir()
	s := &taskSandbox{
		y: y, done: make(chan struct{}),
		stdout: filepath.Join(dir, "stdout"), stderr: filepath.Join(dir, "stderr"), events: filepath.Join(dir, "events"), end: filepath.Join(dir, "end"),
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cmd = y.Command(ctx)
	s.cmd.Args = []string{role.Runner}
	in, told, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var files []*os.File
	for _, path := range []string{s.stdout, s.stderr, s.events, s.end} {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	s.cmd.Stdout, s.cmd.Stderr, s.cmd.ExtraFiles = files[0], files[1], []*os.File{in, files[2], files[3]}
	for _, f := range change {
		f(s.cmd)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, f := range append(files, in) {
		_ = f.Close()
	}
	if err := json.NewEncoder(told).Encode(settings); err != nil {
		t.Fatal(err)
	}
	_ = told.Close()
	go func() {
		defer close(s.done)
		_ = s.cmd.Wait()
	}()
	t.Cleanup(func() {
		cancel()
		<-s.done
	})
	return s
}

func (s *taskSandbox) read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// wait waits for the end and returns it with what was printed.
func (s *taskSandbox) wait(t *testing.T) (taskEnd, string, string) {
	t.Helper()
	select {
	case <-s.done:
	case <-time.After(agentTime):
		_ = s.cmd.Process.Kill()
		t.Fatalf("the runner did not end\n%s\n%s", s.read(t, s.stdout), s.read(t, s.stderr))
	}
	var e taskEnd
	d := json.NewDecoder(strings.NewReader(s.read(t, s.end)))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		t.Fatalf("the end: %v: %q\nstderr: %s", err, s.read(t, s.end), s.read(t, s.stderr))
	}
	return e, s.read(t, s.stdout), s.read(t, s.stderr)
}

// await waits until something that was given to the runner holds a text.
func (s *taskSandbox) await(t *testing.T, path, text string) {
	t.Helper()
	yard.Eventually(t, yard.Timeout, func() bool {
		select {
		case <-s.done:
			t.Fatalf("it ended: %s\n%s", s.read(t, s.end), s.read(t, s.stderr))
		default:
		}
		return strings.Contains(s.read(t, path), text)
	}, func() string {
		return fmt.Sprintf("no %q in %s; stderr: %s; end: %s", text, s.read(t, path), s.read(t, s.stderr), s.read(t, s.end))
	})
}

// runCheck runs a command as a check does.
func runCheck(t *testing.T, y *yard.Yard, command string, more ...map[string]any) (taskEnd, string) {
	t.Helper()
	settings := map[string]any{"command": command}
	for _, m := range more {
		maps.Copy(settings, m)
	}
	e, out, errs := startTask(t, y, settings).wait(t)
	if errs != "" {
		t.Errorf("the runner said %q", errs)
	}
	return e, out
}

// mustCheck is a check that must end well.
func mustCheck(t *testing.T, y *yard.Yard, command string, more ...map[string]any) string {
	t.Helper()
	e, out := runCheck(t, y, command, more...)
	if e.ExitCode != 0 || e.Error != "" {
		t.Fatalf("%+v\n%s", e, out)
	}
	return out
}

// TestISO06_TasksIDOwnsNothing: what a task's sandbox runs as owns nothing on
// the host when root started it, and what it writes belongs to whom the copy
// belongs to.
func TestISO06_TasksIDOwnsNothing(t *testing.T) {
	t.Attr("claim", "ISO-06")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		y.Write(t, "own", "x")
		e, out := runCheck(t, y, `id -u; echo new > new; chmod 600 own; cat own; stat -c %u own; cat /etc/shadow; true`)
		if e.ExitCode != 0 || strings.HasPrefix(out, "0\n") || !strings.Contains(out, "\nx") {
			t.Errorf("%+v %q", e, out)
		}
		if root := y.UID == 0; root != (e.HostUID != y.UID) {
			t.Errorf("the host's id is %d", e.HostUID)
		}
		if y.UID != 0 && !slices.ContainsFunc(e.Notes, func(n string) bool { return strings.Contains(n, "own id") }) {
			t.Errorf("nothing says that the id is the caller's own: %q", e.Notes)
		}
		for _, name := range []string{"own", "new"} {
			info, err := os.Stat(filepath.Join(y.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != y.UID {
				t.Errorf("%s belongs to %v", name, st.Uid)
			}
		}
		if y.UID != 0 {
			return
		}
		// Nothing of the host has that id, before or after.
		if found := y.Host(t, "find", filepath.Dir(y.Dir), "-uid", fmt.Sprint(e.HostUID)); found != "" {
			t.Errorf("it owns %s", found)
		}
	})
}

// TestISO07_TasksHaveNoSetuidAndNoManager: package managers, su and sudo and
// setuid programs can be neither read nor run in a task's sandbox, and no way
// round leads there. The twin: `bailey run` shows the same files.
func TestISO07_TasksHaveNoSetuidAndNoManager(t *testing.T) {
	t.Attr("claim", "ISO-07")
	t.Parallel()
	const names = "apt apt-get dpkg su passwd mount newgrp"
	var there []string
	for name := range strings.FieldsSeq(names) {
		if _, err := os.Stat("/usr/bin/" + name); err == nil {
			there = append(there, "/usr/bin/"+name)
		}
	}
	if len(there) < 3 {
		t.Fatalf("this host has only %q of %s", there, names)
	}
	list := strings.Join(there, " ")
	try := `for p in ` + list + `; do
  head -c 1 $p >/dev/null 2>&1 && echo read $p
  [ -x $p ] && echo run $p
  $p --version >/dev/null 2>&1; [ $? = 126 ] || echo started $p
  /lib64/ld-linux-x86-64.so.2 $p --version 2>/dev/null | grep . && echo loaded $p
  cp $p /tmp/copy 2>/dev/null && echo copied $p
  chmod 755 $p 2>/dev/null && echo changed $p
  rm -f $p 2>/dev/null && echo removed $p
  ln $p /workspace/link 2>/dev/null && head -c 1 /workspace/link && echo linked $p
done
mv /usr/bin /usr/bin2 2>/dev/null && echo moved
mount -t tmpfs none /usr/bin 2>/dev/null && echo mounted
umount /usr/bin/su 2>/dev/null && echo unmounted
find /usr/bin /usr/sbin /usr/libexec /usr/lib/openssh /usr/lib/dbus-1.0 /usr/lib/polkit-1 -type f -perm /6000 2>/dev/null
grep -E '^(NoNewPrivs|CapEff|CapPrm|CapBnd)' /proc/self/status
true`
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		got := strings.Fields(mustCheck(t, y, try))
		want := strings.Fields("CapPrm: 0000000000000000 CapEff: 0000000000000000 CapBnd: 0000000000000000 NoNewPrivs: 1")
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		twin := y.Sh(t, try).OK(t).Stdout
		for _, p := range there {
			if !strings.Contains(twin, "read "+p) {
				t.Errorf("bailey run does not show %s: the test can tell nothing\n%s", p, twin)
			}
		}
	})
}

// TestISO07_MakesNoSetuid: a setuid file that a task's sandbox makes gives
// nothing inside, and the host's side of the copy is no place for one.
func TestISO07_MakesNoSetuid(t *testing.T) {
	t.Attr("claim", "ISO-07")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		out := mustCheck(t, y, `for d in /workspace /tmp $HOME; do cp /usr/bin/id $d/id; chmod 755 $d/id; chmod 6755 $d/id 2>/dev/null && echo $d may; $d/id -u; done; id -u; find /workspace /tmp $HOME -perm /6000`)
		if lines := strings.Fields(out); len(lines) != 4 || len(slices.Compact(lines)) != 1 {
			t.Errorf("%q", out)
		}
	})
}

// TestRES05_ChecksHaveNoWayOut: a check has no network, no wire to a model and
// nothing of whoever asked for it. The twin: in a run with a model the same
// look finds a token, and somebody who takes calls.
func TestRES05_ChecksHaveNoWayOut(t *testing.T) {
	t.Attr("claim", "RES-05")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		w := newModelWorld(t, y, "anthropic", nil, provider.Say("hello"))
		probe := `env | grep -iE 'token|key|url|secret' ; ls /proc/self/fd | wc -l
for i in /sys/class/net/*; do echo if ${i##*/}; done
(echo > /dev/tcp/127.0.0.1/4749) 2>/dev/null && echo model
(echo > /dev/tcp/10.0.0.1/80) 2>/dev/null && echo out
for port in 53 80 443 8765 11434; do (echo > /dev/tcp/127.0.0.1/$port) 2>/dev/null && echo port $port; done
getent hosts example.com && echo name
find /dev /etc /home /opt /run /tmp /var /workspace \( -type s -o -type p \) 2>/dev/null
ls -A /home/agent /run`
		e, out := runCheck(t, y, probe, map[string]any{"id": "check-1"})
		if e.Error != "" {
			t.Fatal(e.Error)
		}
		if strings.Contains(out, "TOKEN") || strings.Contains(out, "model") || strings.Contains(out, "out") || strings.Contains(out, "port") || strings.Contains(out, "name") {
			t.Errorf("the check has %s", out)
		}
		if n := len(w.srv.Requests()); n != 0 {
			t.Errorf("the provider was asked %d times", n)
		}
		twin := y.Run(t, "run", "--model", "small", "--", "bash", "-c", probe).Stdout
		if !strings.Contains(twin, "TOKEN") || !strings.Contains(twin, "model\n") {
			t.Errorf("a run with a model shows neither: the test can tell nothing\n%s", twin)
		}
		// A check cannot be given a model or an agent.
		for field, v := range map[string]any{"model": "small", "harness": "claude", "prompt": "x", "max_turns": 1, "guide": true, "budget": []string{"2M"}} {
			e, _ := runCheck(t, y, "true", map[string]any{field: v})
			if e.ExitCode != 125 || e.Error == "" {
				t.Errorf("a check with %s: %+v", field, e)
			}
		}
	})
}

// TestRES05_StreamsAndCode: of a check both streams come as they were written,
// its code is its own, and its time is bounded.
func TestRES05_StreamsAndCode(t *testing.T) {
	t.Attr("claim", "RES-05")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		y.Write(t, "sub/a", "")
		e, out := runCheck(t, y, `echo one; echo two >&2; echo three; pwd; exit 7`, map[string]any{"subdir": "sub"})
		if e.ExitCode != 7 || e.Limit != "" || out != "one\ntwo\nthree\n/workspace/sub\n" || e.Started.IsZero() || e.Ended.Before(e.Started) {
			t.Errorf("%+v %q", e, out)
		}
		for what, more := range map[string]map[string]any{
			"too long":   {"limit": int64(2 * time.Hour)},
			"no limit":   {"limit": 0},
			"outside":    {"subdir": "../x"},
			"relative":   {"dir": "x"},
			"no command": {"command": ""},
			"kind":       {"kind": "other"},
			"unknown":    {"mounts": []string{"/"}},
			"id":         {"id": "A B"},
		} {
			e, _ := runCheck(t, y, "true", more)
			if e.ExitCode != 125 || e.Error == "" || !e.Started.IsZero() {
				t.Errorf("%s: %+v", what, e)
			}
		}
	})
}

// TestTask_LimitsEndIt: what runs away is ended, said by its name, and leaves
// nothing.
func TestTask_LimitsEndIt(t *testing.T) {
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		t.Run("deadline", func(t *testing.T) {
			e, out := runCheck(t, y, `echo before; echo kept > kept; sleep 1000`, map[string]any{"limit": int64(3 * time.Second)})
			if e.ExitCode != 124 || e.Limit != "timeout" || out != "before\n" {
				t.Errorf("%+v %q", e, out)
			}
			if b, err := os.ReadFile(filepath.Join(y.Dir, "kept")); err != nil || string(b) != "kept\n" {
				t.Errorf("%q %v", b, err)
			}
		})
		t.Run("forks", func(t *testing.T) {
			e, out := runCheck(t, y, `f() { f 2>/dev/null | f 2>/dev/null & }; f; sleep 1; ulimit -u; exit 3`, map[string]any{"limit": int64(40 * time.Second)})
			if e.Error != "" || !strings.Contains(out, "512") && e.Limit == "" {
				t.Errorf("%+v %q", e, out)
			}
		})
		t.Run("memory", func(t *testing.T) {
			if y.UID != 0 {
				return // no cgroup: the watchdog's way is TestISO08_…'s
			}
			// That a group ends what is in it is TestISO08_BombsEndInside's; eight
			// gigabytes take long to fill.
			s := startTask(t, y, map[string]any{"command": "echo up; sleep 600"})
			s.await(t, s.stdout, "up")
			limited := 0
			for _, pid := range descendants(t, s.cmd.Process.Pid) {
				if n, err := strconv.ParseInt(memoryLimit(t, pid), 10, 64); err == nil && n <= 8<<30 {
					limited++
				}
			}
			if limited < 4 { // helper, gVisor's three
				t.Errorf("%d processes have a limit of eight gigabytes", limited)
			}
			if n, err := strconv.ParseInt(memoryLimit(t, s.cmd.Process.Pid), 10, 64); err == nil && n <= 8<<30 {
				t.Errorf("twin: the runner has a limit of %d too", n)
			}
			_ = s.cmd.Process.Signal(syscall.SIGTERM)
			s.wait(t)
		})
		t.Run("tmp", func(t *testing.T) {
			out := mustCheck(t, y, `df -k --output=size /tmp $HOME | tail -n 2; ulimit -n; ulimit -u; nproc`)
			if sizes := strings.Fields(out); len(sizes) != 5 || sizes[0] != "2097152" || sizes[1] != "1048576" || sizes[2] != "4096" || sizes[3] != "512" {
				t.Errorf("%q", out)
			}
		})
	})
}

// TestTask_DiskEndsAtItsFileSystem: where the copy is a file system of its own,
// a program that fills it is told so by the kernel, and nothing is watched. The
// twin: without one the end says that the disk is watched.
func TestTask_DiskEndsAtItsFileSystem(t *testing.T) {
	y := yard.Root(t)
	image := filepath.Join(filepath.Dir(y.Dir), "image")
	const size = 64 << 20
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, size)); err != nil {
		t.Fatal(err)
	}
	y.Host(t, "mkfs.ext4", "-q", "-F", "-m", "0", "-O", "^has_journal", image)
	y.Host(t, "mount", "-o", "loop,nosuid,nodev", image, y.Dir)
	t.Cleanup(func() {
		if err := syscall.Unmount(y.Dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	e, out := runCheck(t, y, `echo kept > kept; cat /dev/zero > f; echo code $?; rm f; for i in 1 2 3; do head -c 30M /dev/zero > f$i && echo wrote; done; cat kept`, map[string]any{"bounded": true})
	if e.ExitCode != 0 || e.Limit != "" || len(e.Notes) != 0 || strings.Count(out, "No space left") < 2 || !strings.Contains(out, "code 1\n") || !strings.HasSuffix(out, "kept\n") {
		t.Errorf("%+v %q", e, out)
	}
	if e, _ := runCheck(t, y, "true"); !slices.ContainsFunc(e.Notes, func(n string) bool { return strings.HasPrefix(n, "disk is watched") }) {
		t.Errorf("%+v", e)
	}
}

// TestTask_StopAndKill: a SIGTERM ends a task in order, and a SIGKILL of its
// runner leaves no process.
func TestTask_StopAndKill(t *testing.T) {
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		s := startTask(t, y, map[string]any{"command": `trap 'echo told; exit 9' TERM; echo ready; echo work > work; while :; do sleep 0.05; done`})
		s.await(t, s.stdout, "ready")
		if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		e, out, _ := s.wait(t)
		if e.Limit != "stop" || e.Error != "" || !strings.Contains(out, "ready") {
			t.Errorf("%+v %q", e, out)
		}
		if b, err := os.ReadFile(filepath.Join(y.Dir, "work")); err != nil || string(b) != "work\n" {
			t.Errorf("%q %v", b, err)
		}
		s = startTask(t, y, map[string]any{"command": `head -c 1M /dev/zero > large; exec 3> open; echo kept >&3; echo ready; while :; do sleep 0.05; done`})
		s.await(t, s.stdout, "ready")
		tree := descendants(t, s.cmd.Process.Pid)
		if len(tree) < 4 {
			t.Fatalf("only %d processes below the runner", len(tree))
		}
		if err := s.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-s.done
		yard.Eventually(t, 10*time.Second, func() bool {
			return !slices.ContainsFunc(tree, func(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
		}, func() string { return fmt.Sprintf("of %v some are left", tree) })
		for name, size := range map[string]int64{"large": 1 << 20, "open": 5} {
			if info, err := os.Stat(filepath.Join(y.Dir, name)); err != nil || info.Size() != size {
				t.Errorf("what it wrote to %s is lost: %v %v", name, info, err)
			}
		}
	})
}

// TestISO07_DoctorShowsATasksSandbox: bailey doctor --task starts one and shows
// what was promised. (That each row can be missing is a unit test's.)
func TestISO07_DoctorShowsATasksSandbox(t *testing.T) {
	t.Attr("claim", "ISO-07")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		var report struct {
			OK     bool `json:"ok"`
			Layers []struct{ Layer, Status, Detail string }
		}
		r := y.Run(t, "doctor", "--task", "--json").OK(t)
		if err := json.Unmarshal([]byte(r.Stdout), &report); err != nil || !report.OK {
			t.Fatalf("%v: %s", err, r.Stdout)
		}
		want := map[string]string{
			"gvisor": "was started", "network": "none", "root": "read-only", "capabilities": "none", "privileges": "no new ones", "seccomp": "filter",
			"id": "on the host", "mounts": "/workspace", "descriptors": "the wire", "setuid": "none of the host's", "masked": "neither read nor run",
		}
		for _, l := range report.Layers {
			if l.Status != "ok" || !strings.Contains(l.Detail, want[l.Layer]) {
				t.Errorf("%s: %s: %q", l.Layer, l.Status, l.Detail)
			}
			delete(want, l.Layer)
		}
		if len(want) > 0 {
			t.Errorf("nothing is said of %v", want)
		}
	})
}

// taskAgents are the agents that work on tasks, each with the dialect of its
// model.
var taskAgents = []struct{ name, dialect string }{
	{"claude", "anthropic"}, {"codex", "openai-responses"}, {"gemini", "gemini"}, {"opencode", "openai-chat"}, {"pi", "openai-chat"},
}

// TestMGW01_AgentsWorkHeadless: every agent works on a task by its headless form
// in gVisor, with the model's wire as its one way out, and without the caller's
// environment. Its prompt and its guide reach the model.
func TestMGW01_AgentsWorkHeadless(t *testing.T) {
	t.Attr("claim", "MGW-01")
	t.Parallel()
	slots := make(chan struct{}, 2)
	bin := agents.Bin(t)
	for _, a := range taskAgents {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			slots <- struct{}{}
			defer func() { <-slots }()
			y := yard.Unprivileged(t)
			y.Write(t, "hello.txt", "one\ntwo\nthree\n")
			w := newModelWorld(t, y, a.dialect, []string{"context: 200000", "max_output: 8000"},
				provider.Do(provider.Read("/workspace/hello.txt")),
				provider.Do(provider.Shell("env > shown.txt; expr 6 '*' 7 > shell.txt; cat hello.txt")),
				provider.Say("the task is done"),
			)
			const prompt = "--help is the first word of this task\nand \"this\" its second line"
			s := startTask(t, y, map[string]any{
				"kind": "agent", "harness": a.name, "model": "small", "prompt": prompt, "max_turns": 20, "guide": true, "thinking_tokens": 2048,
				"budget": []string{"2M"}, "limit": int64(agentTime - 30*time.Second),
			}, func(c *exec.Cmd) {
				c.Env = append(c.Env, "CANARY_OF_THE_CALLER=1", "ANTHROPIC_API_KEY=sk-of-the-caller")
				for i, kv := range c.Env {
					if path, ok := strings.CutPrefix(kv, "PATH="); ok {
						c.Env[i] = "PATH=" + bin + ":" + path
					}
				}
			})
			e, out, errs := s.wait(t)
			bodies := strings.Join(w.sent(), "\n")
			if e.ExitCode != 0 || e.Error != "" || !w.srv.Finished() {
				t.Fatalf("%+v\nfinished %t, asked %d times\nstdout: %s\nstderr: %s", e, w.srv.Finished(), len(w.srv.Requests()), tail(out), tail(errs))
			}
			for i, line := range strings.Split(strings.TrimSpace(out), "\n") {
				if !json.Valid([]byte(line)) {
					t.Errorf("line %d of its stream is not JSON: %q", i, line)
				}
			}
			if !strings.Contains(out, "the task is done") {
				t.Errorf("no report in %s", tail(out))
			}
			for _, want := range []string{"--help is the first word of this task", "Working on a delegated task"} {
				if !strings.Contains(bodies, want) {
					t.Errorf("%q did not reach the model", want)
				}
			}
			shown := y.Host(t, "cat", "shown.txt")
			if strings.Contains(shown, "CANARY") || strings.Contains(shown, "of-the-caller") || strings.Contains(shown, w.key) {
				t.Errorf("it has of the caller's environment: %s", shown)
			}
			if got := y.Host(t, "cat", "shell.txt"); got != "42\n" {
				t.Errorf("shell.txt: %q", got)
			}
			if a.name == "claude" && !strings.Contains(bodies, `"budget_tokens":2048`) && !strings.Contains(bodies, `"budget_tokens": 2048`) {
				t.Log("no thinking budget in the requests")
			}
			if limited := slices.Contains([]string{"claude", "gemini", "opencode"}, a.name); limited == slices.ContainsFunc(e.Notes, func(n string) bool { return strings.Contains(n, "turns") }) {
				t.Errorf("notes: %q", e.Notes)
			}
		})
	}
}

// TestEGR01_TasksHaveTheWireAlone: an agent of a task has loopback, its model's
// address on it, and nothing else.
func TestEGR01_TasksHaveTheWireAlone(t *testing.T) {
	t.Attr("claim", "EGR-01")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		newModelWorld(t, y, "anthropic", nil, provider.Say("one"))
		e, out, errs := startTask(t, y, map[string]any{"kind": "agent", "harness": "claude", "model": "small", "prompt": "look", "max_turns": 3}, fakeAgent(t, y)).wait(t)
		if e.ExitCode != 0 || !strings.Contains(out, "model 200\n") {
			t.Fatalf("%+v %s %s", e, out, errs)
		}
		if strings.Count(out, "\nif ") != 1 || !strings.Contains(out, "\nif lo\n") || strings.Contains(out, "way out") {
			t.Error(out)
		}
	})
}

// TestMGW01_TasksHaveOneModel: an agent of a task reaches its model and
// nothing else, its token is of this sandbox alone, and the provider's key is
// nowhere inside. What runs there is no real agent but a program that looks.
func TestMGW01_TasksHaveOneModel(t *testing.T) {
	t.Attr("claim", "MGW-01")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		w := newModelWorld(t, y, "anthropic", nil, provider.Say("one"), provider.Say("two"))
		seen := map[string]bool{}
		for i := range 2 {
			s := startTask(t, y, map[string]any{"kind": "agent", "harness": "claude", "model": "small", "prompt": "look", "max_turns": 3}, fakeAgent(t, y))
			e, out, errs := s.wait(t)
			if e.ExitCode != 0 {
				t.Fatalf("%+v %s %s", e, out, errs)
			}
			token := lineOf(out, "token ")
			if len(token) < 40 || seen[token] {
				t.Errorf("the token %q is short, or not new", token)
			}
			seen[token] = true
			want := []string{"model 200", "wrong 401", "none 401", "if lo"}
			if i > 0 {
				want = append(want, "stolen 401")
			}
			for _, line := range want {
				if lineOf(out, line) == "" && !strings.Contains(out, line+"\n") {
					t.Errorf("no %q in %s", line, out)
				}
			}
			if strings.Contains(out, w.key) || strings.Contains(out, "way out") {
				t.Errorf("it has %s", out)
			}
		}
	})
}

var buildTaskProbe = sync.OnceValues(func() ([]byte, error) { return buildTestdata("taskprobe") })

// fakeAgent puts a program in the place of Claude Code.
func fakeAgent(t *testing.T, y *yard.Yard) func(*exec.Cmd) {
	t.Helper()
	bin, err := buildTaskProbe()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(y.WriteHome(t, "tools/claude", string(bin)), 0o755); err != nil {
		t.Fatal(err)
	}
	return func(c *exec.Cmd) {
		for i, kv := range c.Env {
			if path, ok := strings.CutPrefix(kv, "PATH="); ok {
				c.Env[i] = "PATH=" + filepath.Join(y.Home, "tools") + ":" + path
			}
		}
	}
}

// lineOf is what stands behind a prefix on the first line that has it.
func lineOf(text, prefix string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

func tail(s string) string { return s[max(0, len(s)-6000):] }

// TestISO08_TheDiskOfRootsTasksEnds: the copy of a task or check of root's
// service is on a file system of its own, which ends at what the work may grow
// by; the machine does not see it, and nothing of it is left. The twin: an
// ordinary user's can have none, and each result says so.
func TestISO08_TheDiskOfRootsTasksEnds(t *testing.T) {
	t.Attr("claim", "ISO-08")
	t.Parallel()
	y := yard.Root(t)
	s := serveTasks(t, y)
	got := s.check(t, "fallocate -l 12G a && echo one; fallocate -l 12G b || echo no second; rm a; fallocate -l 12G b && echo but instead")
	if want := []string{"one", "No space left", "no second", "but instead"}; !got.Passed || slices.ContainsFunc(want, func(w string) bool { return !strings.Contains(got.Output, w) }) {
		t.Errorf("%+v", got)
	}
	if i := slices.IndexFunc(got.Warnings, func(w string) bool { return strings.Contains(w, "disk") }); i >= 0 {
		t.Errorf("%q", got.Warnings)
	}
	got = s.check(t, "fallocate -l 20479M a; cat /dev/zero > f")
	if got.Passed || got.Status != "disk" {
		t.Errorf("%+v", got)
	}
	list := s.live(t)
	engine := filepath.Join(y.Home, ".local/share/bailey/engine")
	if theirs, ours := readProc(t, s.pid, "mountinfo"), readProc(t, os.Getpid(), "mountinfo"); !strings.Contains(theirs, engine) || strings.Contains(ours, engine) {
		t.Errorf("the machine's mounts:\n%s\nthe service's:\n%s", ours, theirs)
	}
	images, err := filepath.Glob(engine + "/*/disk.img")
	if err != nil || len(images) == 0 {
		t.Fatalf("no image: %v", err)
	}
	attached := func() (n int) {
		files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if b, _ := os.ReadFile(f); strings.HasPrefix(string(b), engine) {
				n++
			}
		}
		return n
	}
	if n := attached(); n == 0 {
		t.Error("no loop device has an image")
	}
	// Killed, and with it everything: the kernel takes all of it away.
	_ = syscall.Kill(s.pid, syscall.SIGKILL)
	s.run.Wait(t, yard.Timeout)
	yard.Eventually(t, yard.Timeout, func() bool { return attached() == 0 }, func() string { return fmt.Sprintf("%d loop devices are left", attached()) })
	yard.Eventually(t, yard.Timeout, func() bool { return len(alive(list)) == 0 }, func() string { return "processes are left" })
	other := serveTasks(t, yard.Unprivileged(t)).check(t, "true")
	if !other.Passed || !slices.ContainsFunc(other.Warnings, func(w string) bool { return strings.HasPrefix(w, "disk is watched") }) {
		t.Errorf("twin: %+v", other)
	}
}

// alive lists those processes that are still there.
func alive(list []posture.Posture) (pids []int) {
	for _, p := range list {
		if syscall.Kill(p.PID, 0) == nil {
			pids = append(pids, p.PID)
		}
	}
	return pids
}

// memoryLimit is what the group of a process may use, as the kernel writes it.
func memoryLimit(t *testing.T, pid int) string {
	t.Helper()
	for line := range strings.Lines(readProc(t, pid, "cgroup")) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		for file := range groupFiles(f[1]) {
			if strings.HasPrefix(file, "memory.") {
				b, _ := os.ReadFile(filepath.Join("/sys/fs/cgroup", f[1], f[2], file)) // the root of version 2 has none
				return strings.TrimSpace(string(b))
			}
		}
	}
	return ""
}
