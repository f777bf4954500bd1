package spec_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bailey-dev/bailey/internal/posture"
	"github.com/bailey-dev/bailey/internal/testkit/agents"
	"github.com/bailey-dev/bailey/internal/testkit/provider"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// controlID is the id that control has in root's service.
const controlID = 0x71000000

// served is a service that runs, for a yard whose workspace is a repository.
type served struct {
	y    *yard.Yard
	run  *yard.Running
	pid  int
	http *http.Client
}

// serveTasks starts a service. Its starter's environment has a secret.
func serveTasks(t *testing.T, y *yard.Yard, flags ...string) *served {
	t.Helper()
	if _, err := os.Stat(filepath.Join(y.Dir, ".git")); err != nil {
		y.Write(t, "file", "contents\n")
		y.Host(t, "git", "init", "-q", "-b", "main", ".")
		y.Host(t, "git", "add", "-A")
		y.Host(t, "git", "-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "-q", "-m", "one")
	}
	y.WriteHome(t, ".config/bailey/config.yaml", "tasks: {roots: ["+y.Dir+"], mcp_listen: \"127.0.0.1:0\"}\n")
	wrap := y.Wrap
	y.Wrap = func(cmd *exec.Cmd) {
		if wrap != nil {
			wrap(cmd)
		}
		cmd.Env = append(cmd.Env, "CALLER_SECRET=value")
	}
	r := y.Start(t, append([]string{"serve", "--local", "--json"}, flags...)...)
	y.Wrap = wrap
	r.Await(t, `"serving"`)
	out, _ := r.Output()
	var said struct{ Socket string }
	if err := json.Unmarshal([]byte(strings.SplitN(out, "\n", 2)[0]), &said); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", said.Socket)
	}
	s := &served{y: y, run: r, pid: r.Cmd.Process.Pid, http: &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}}
	t.Cleanup(func() {
		_ = r.Cmd.Process.Signal(syscall.SIGTERM)
		r.Wait(t, 2*yard.Timeout)
	})
	return s
}

// ask sends a request and returns the status and the body.
func (s *served) ask(ctx context.Context, method, path string, body any) (int, []byte, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return 0, nil, err
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://service"+path, bytes.NewReader(text))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	a, err := s.http.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	return a.StatusCode, b, err
}

// checked is how a check ended.
type checked struct {
	Status   string
	Passed   bool
	ExitCode int `json:"exit_code"`
	Output   string
	Warnings []string
}

// check runs a command on main and returns how it ended.
func (s *served) check(t *testing.T, command string) checked {
	t.Helper()
	_, b, err := s.ask(t.Context(), http.MethodPost, "/v1/checks", map[string]any{"repo_path": s.y.Dir, "branch": "main", "command": command, "timeout_minutes": 1})
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		var a struct{ Check *checked }
		if json.Unmarshal(lines.Bytes(), &a) == nil && a.Check != nil {
			return *a.Check
		}
	}
	t.Fatalf("no answer to a check: %s", b)
	return checked{}
}

// live starts a check that lasts, and returns the processes of the service when
// it runs.
func (s *served) live(t *testing.T, roles ...posture.Role) []posture.Posture {
	t.Helper()
	go func() {
		ctx := context.WithoutCancel(t.Context())
		_, _, _ = s.ask(ctx, http.MethodPost, "/v1/checks", map[string]any{"repo_path": s.y.Dir, "branch": "main", "command": "echo up; sleep 600", "timeout_minutes": 1})
	}()
	yard.Eventually(t, yard.Timeout, func() bool {
		said, _ := filepath.Glob(filepath.Join(s.y.Home, ".local/share/bailey/engine/*/output.log"))
		return slices.ContainsFunc(said, func(path string) bool {
			b, _ := os.ReadFile(path)
			return string(b) == "up\n"
		})
	}, func() string { return "the check's command does not run\n" + s.log() })
	return s.await(t, append(roles, posture.Control, posture.Runner, posture.Helper, posture.Sentry, posture.Stub)...)
}

// await waits until the roles are there, and settled: nobody starts anything,
// and who faces strangers is confined, which it is before it serves anybody.
func (s *served) await(t *testing.T, roles ...posture.Role) (list []posture.Posture) {
	t.Helper()
	yard.Eventually(t, yard.Timeout, func() bool {
		var err error
		if list, err = (posture.Reader{}).Service(s.pid); err != nil {
			return false
		}
		for _, role := range roles {
			if !slices.ContainsFunc(list, func(p posture.Posture) bool { return p.Role == role }) {
				return false
			}
		}
		return !slices.ContainsFunc(list, func(p posture.Posture) bool {
			facing := p.Role == posture.Control || p.Role == posture.Gateway
			return p.Role == posture.Git || p.Role == posture.Catalog || p.Role == posture.Unknown || facing && p.Seccomp == 0
		})
	}, func() string {
		_, stderr := s.run.Output()
		return fmt.Sprintf("the service has %v\n%s\n%s", rolesOf(list), stderr, s.log())
	})
	return list
}

func (s *served) log() string {
	b, _ := os.ReadFile(filepath.Join(s.y.Home, ".local/state/bailey/serve.log"))
	return string(b)
}

func rolesOf(list []posture.Posture) (roles []string) {
	for _, p := range list {
		roles = append(roles, string(p.Role))
	}
	return roles
}

// caller is the posture of any process that the yard's user starts.
func caller(t *testing.T, y *yard.Yard) posture.Posture {
	t.Helper()
	cmd := y.Command(t.Context())
	cmd.Path, cmd.Args = "/bin/sleep", []string{"sleep", "60"}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	var p posture.Posture
	yard.Eventually(t, yard.Timeout, func() bool { // it has the ids of the user from before its exec on
		var err error
		p, err = posture.Reader{}.Collect(cmd.Process.Pid, os.Getpid())
		return err == nil && strings.HasPrefix(readProc(t, cmd.Process.Pid, "cmdline"), "sleep\x00")
	}, func() string { return "no process of the user's" })
	return p
}

// expected is what the processes of a service must be.
func (s *served) expected(t *testing.T, list []posture.Posture) posture.Config {
	t.Helper()
	user := posture.IDs{UID: s.y.UID, GID: s.y.GID}
	c := posture.Config{
		Caller: caller(t, s.y), Sandbox: user, Proxy: user, Gateway: user, Control: user, Inside: user,
		AllCaps: posture.Reader{}.AllCaps(),
	}
	// Root's are in a mount namespace that the machine does not see.
	seen := ""
	if s.y.UID == 0 {
		seen = fmt.Sprintf("/proc/%d/root", s.pid)
	}
	work, err := filepath.Glob(filepath.Join(seen, s.y.Home, ".local/share/bailey/engine/*", "work/disk/workspace"))
	if err != nil || len(work) == 0 {
		t.Fatalf("the service keeps no work: %v", err)
	}
	for _, w := range work {
		source, err := posture.Reader{}.Source(s.pid, strings.TrimPrefix(w, seen))
		if err != nil {
			t.Fatal(err)
		}
		c.Writable = append(c.Writable, source)
	}
	helper := find(t, list, posture.Helper)
	for _, p := range list { // of the sandbox that has a model, where there are two
		if p.Role == posture.Gateway {
			for _, h := range list {
				if h.Role == posture.Helper && h.UIDs[0]^0x400000 == p.UIDs[0] {
					helper = h
				}
			}
		}
	}
	if s.y.UID == 0 {
		c.Root, c.Grouped = true, true
		n := helper.UIDs[0]
		if n&^0xffffff != 0x70000000 {
			t.Errorf("root's sandbox has the id %d", n)
		}
		c.Sandbox = posture.IDs{UID: n, GID: n}
		c.Gateway = posture.IDs{UID: n ^ 0x400000, GID: n ^ 0x400000}
		c.Control = posture.IDs{UID: controlID, GID: controlID}
	} else if n := helper.UIDs[0]; n != s.y.UID { // one that owns nothing, of the user's subordinate ones
		c.Sandbox = posture.IDs{UID: n, GID: helper.GIDs[0]}
	}
	return c
}

// judge compares the processes of a service with what they must be.
func (s *served) judge(t *testing.T, list []posture.Posture, roles ...posture.Role) posture.Config {
	t.Helper()
	c := s.expected(t, list)
	for _, p := range list {
		if !slices.Contains(roles, p.Role) {
			continue
		}
		for _, d := range posture.Diff(p, posture.Expected(p.Role, c)) {
			t.Error(d)
		}
		if len(p.Hidden) > 0 {
			t.Errorf("%s: %v could not be read", p.Role, p.Hidden)
		}
	}
	for _, p := range list {
		if p.Role == posture.Unknown {
			t.Errorf("process %d belongs to no role: %q", p.PID, readProc(t, p.PID, "cmdline"))
		}
	}
	return c
}

// TestPRV01_TheLauncherIsSmall: what holds the power has no network code in it,
// speaks no protocol to anyone, and is not to be looked into. It does what is on
// its list: asked for anything else, by whoever can ask, it refuses.
func TestPRV01_TheLauncherIsSmall(t *testing.T) {
	t.Attr("claim", "PRV-01")
	t.Parallel()
	for pkg, reaches := range map[string]bool{"./internal/app/launcher": false, "./internal/app/control": true} { // the second is the twin
		out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "../"+pkg).Output()
		if err != nil {
			t.Fatal(err)
		}
		deps := strings.Fields(string(out))
		if len(deps) < 50 {
			t.Fatalf("%s reaches %d packages", pkg, len(deps))
		}
		for _, bad := range []string{"net/http", "crypto/tls", "database/sql", "go.yaml.in/yaml/v3"} {
			if got := slices.Contains(deps, bad); got && !reaches || !got && reaches && bad == "net/http" {
				t.Errorf("%s reaches %s: %v", pkg, bad, got)
			}
		}
	}
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		s := serveTasks(t, y)
		list := s.live(t)
		c := s.judge(t, list, posture.Launcher, posture.Runner)
		if launcher := find(t, list, posture.Launcher); len(posture.Diff(launcher, posture.Expected(posture.Control, c))) == 0 {
			t.Error("twin: the launcher passes for control")
		}
		// Its mounts are its own where it can have some (of tasks' disks).
		ours, theirs := link(t, os.Getpid(), "ns/mnt"), link(t, s.pid, "ns/mnt")
		if (ours != theirs) != (y.UID == 0) {
			t.Errorf("mount namespaces: ours %s, its %s", ours, theirs)
		}
		// It holds the sockets for the next control, and answers on none.
		control := find(t, list, posture.Control).PID
		hello := func(wait time.Duration) bool {
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			defer cancel()
			code, _, err := s.ask(ctx, http.MethodGet, "/v1/hello", struct{}{})
			return err == nil && code == http.StatusOK
		}
		_ = syscall.Kill(control, syscall.SIGSTOP)
		// One thread takes the signal, and the others go on until it has run.
		hold(t, "control is stopped", func() bool {
			_, after, _ := strings.Cut(readProc(t, control, "stat"), ") ")
			return strings.HasPrefix(after, "T")
		})
		if hello(time.Second) {
			t.Error("a client is answered while control is stopped")
		}
		_ = syscall.Kill(control, syscall.SIGCONT)
		if !hello(yard.Timeout) {
			t.Error("twin: control does not answer")
		}
	})
}

// TestPRV02_PathsComeOfIds: nothing that a client says becomes a path but a
// repository's, and that is not followed if it is a link.
func TestPRV02_PathsComeOfIds(t *testing.T) {
	t.Attr("claim", "PRV-02")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		s := serveTasks(t, y)
		for _, id := range []string{"..%2f..%2fetc", "%2e%2e", "A", "-rf", strings.Repeat("a", 65), "a%00b"} {
			for _, what := range []struct{ method, path string }{
				{http.MethodGet, "/v1/tasks/" + id}, {http.MethodDelete, "/v1/tasks/" + id}, {http.MethodGet, "/v1/tasks/" + id + "/parts/log"},
			} {
				if code, b, err := s.ask(t.Context(), what.method, what.path, struct{}{}); err != nil || code < 400 {
					t.Errorf("%s %s: %d %s %v", what.method, what.path, code, b, err)
				}
			}
		}
		link := filepath.Join(y.Home, "link")
		if err := os.Symlink(y.Dir, link); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{link, y.Dir + "/../work", "work", "/etc", filepath.Join(y.Dir, "absent")} {
			_, b, err := s.ask(t.Context(), http.MethodPost, "/v1/checks", map[string]any{"repo_path": path, "branch": "main", "command": "true"})
			if err != nil || !bytes.Contains(b, []byte(`"error"`)) {
				t.Errorf("a check of %s: %s %v", path, b, err)
			}
		}
		if c := s.check(t, "cat file"); !c.Passed || !strings.Contains(c.Output, "contents") {
			t.Errorf("twin: a check of the repository itself: %+v", c)
		}
		// Somebody has put a link in the place of the folder of tasks.
		_ = s.run.Cmd.Process.Signal(syscall.SIGTERM)
		s.run.Wait(t, 2*yard.Timeout).OK(t)
		engine := filepath.Join(y.Home, ".local/share/bailey/engine")
		if err := os.Rename(engine, engine+"-moved"); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(engine+"-moved", engine); err != nil {
			t.Fatal(err)
		}
		if r := y.Run(t, "serve", "--local"); r.Code != 125 || !strings.Contains(r.Stderr, "no link") {
			t.Errorf("a service whose folder of tasks is a link: %d %s", r.Code, r.Stderr)
		}
	})
}

// TestPRV03_WhatRunsIsChosenByKind: a check has no model and no network, and
// nothing of anybody's environment; what an agent is, is a name of a list.
func TestPRV03_WhatRunsIsChosenByKind(t *testing.T) {
	t.Attr("claim", "PRV-03")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		w := newModelWorld(t, y, "anthropic", nil, provider.Do(provider.Shell("sleep 60")))
		wrap := y.Wrap
		y.Wrap = func(cmd *exec.Cmd) {
			if wrap != nil {
				wrap(cmd)
			}
			for i, v := range cmd.Env {
				if path, ok := strings.CutPrefix(v, "PATH="); ok {
					cmd.Env[i] = "PATH=" + agents.Bin(t) + ":" + path
				}
			}
		}
		s := serveTasks(t, y)
		c := s.check(t, "env; ls /sys/class/net; cat /proc/net/dev; ls /proc/self/fd")
		for _, bad := range []string{"CALLER_SECRET", "ANTHROPIC", "API_KEY", "XDG_RUNTIME_DIR", "eth0", w.key, y.Home} {
			if strings.Contains(c.Output, bad) {
				t.Errorf("a check sees %s:\n%s", bad, c.Output)
			}
		}
		if !c.Passed || !strings.Contains(c.Output, "HOME=/home/agent") {
			t.Errorf("twin: it shows what it has: %+v", c)
		}
		for _, p := range s.live(t) {
			if p.Role == posture.Gateway || p.Role == posture.Proxy {
				t.Errorf("a check has a %s", p.Role)
			}
		}
		for _, harness := range []string{"/bin/sh", "sh", "bash -c true", "../claude", "--help"} {
			code, b, err := s.ask(t.Context(), http.MethodPost, "/v1/tasks", map[string]any{"task": "work", "repo_path": y.Dir, "model": "small", "harness": harness})
			if err != nil || code < 400 {
				t.Errorf("a task of the agent %q: %d %s %v", harness, code, b, err)
			}
		}
		code, b, err := s.ask(t.Context(), http.MethodPost, "/v1/tasks", map[string]any{"task": "work", "repo_path": y.Dir, "model": "small", "harness": "claude", "timeout_minutes": 1})
		if err != nil || code >= 400 {
			t.Fatalf("twin: a task: %d %s %v", code, b, err)
		}
		list := s.await(t, posture.Gateway)
		s.judge(t, list, posture.Gateway)
	})
}

// TestPRV04_ControlHasNothing: the role that reads what agents print is nobody,
// may nothing, and holds nothing but its sockets and its folder. Each of its
// rights is compared; the launcher beside it is the twin, in which they differ.
func TestPRV04_ControlHasNothing(t *testing.T) {
	t.Attr("claim", "PRV-04")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		w := newModelWorld(t, y, "anthropic", nil)
		s := serveTasks(t, y)
		list := s.live(t)
		c := s.judge(t, list, posture.Control, posture.Runner, posture.Helper, posture.Runsc, posture.Gofer, posture.Sentry, posture.Stub, posture.Watchdog)
		launcher := find(t, list, posture.Launcher)
		var differs []string
		for _, d := range posture.Diff(launcher, posture.Expected(posture.Control, c)) {
			differs = append(differs, d.Field)
		}
		want := []string{"NoNewPrivs", "FDs"}
		if c.Caller.Seccomp == 0 { // what everybody has here, the launcher has too
			want = append(want, "Seccomp")
		}
		if y.UID == 0 {
			want = append(want, "UIDs", "GIDs", "Caps")
		}
		for _, field := range want {
			if !slices.Contains(differs, field) {
				t.Errorf("twin: in %s the launcher passes for control", field)
			}
		}
		control := find(t, list, posture.Control)
		if memory := readMemory(t, control.PID); strings.Contains(memory, w.key) {
			t.Error("control has the provider's key in its memory")
		} else if !strings.Contains(memory, "sleep 600") {
			t.Error("twin: nothing that control was asked is found in its memory")
		}
		if y.UID != 0 {
			out, err := asUser(t, y, "cat", fmt.Sprintf("/proc/%d/environ", control.PID))
			if err == nil {
				t.Errorf("its own user can look into control: %q", out)
			}
			if _, err := asUser(t, y, "cat", fmt.Sprintf("/proc/%d/environ", find(t, list, posture.Runner).PID)); err != nil {
				t.Errorf("twin: its own user cannot look into a runner: %v", err)
			}
		}
	})
}

// TestPRV04_WithoutLandlock: a kernel that cannot keep control to its folder is
// no secret, and what else confines it holds. The twin is the same service on
// this kernel as it is.
func TestPRV04_WithoutLandlock(t *testing.T) {
	t.Attr("claim", "PRV-04")
	t.Parallel()
	for _, lacks := range []bool{true, false} {
		t.Run(fmt.Sprintf("lacks %v", lacks), func(t *testing.T) {
			y := yard.Root(t)
			if lacks {
				y.Wrap = func(cmd *exec.Cmd) { withoutLandlock(t, cmd) }
			}
			s := serveTasks(t, y)
			says := func(where, text string) {
				t.Helper()
				if strings.Contains(text, "no Landlock: control") != lacks {
					t.Errorf("%s: %q; this kernel lacks Landlock: %v", where, text, lacks)
				}
			}
			c := s.check(t, "true")
			if !c.Passed {
				t.Errorf("a check: %+v", c)
			}
			says("the result of a check", strings.Join(c.Warnings, "\n"))
			says("the log", s.log())
			says("serve status", y.Run(t, "serve", "status").OK(t).Stdout)
			var status struct{ Warnings []string }
			if err := json.Unmarshal([]byte(y.Run(t, "serve", "status", "--json").OK(t).Stdout), &status); err != nil || (len(status.Warnings) > 0) != lacks {
				t.Errorf("serve status --json: %q, %v", status.Warnings, err)
			}
			if control := find(t, s.await(t, posture.Control), posture.Control); control.Seccomp != 2 {
				t.Errorf("control has no filter: %d", control.Seccomp)
			}
			layers := y.Run(t, "doctor", "--json").Stdout
			if strings.Contains(layers, "the service of tasks run without this layer") != lacks {
				t.Errorf("doctor: %s", layers)
			}
		})
	}
}

// asUser runs a program as the yard's user.
func asUser(t *testing.T, y *yard.Yard, name string, args ...string) (string, error) {
	t.Helper()
	cmd := y.Command(t.Context())
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Path, cmd.Args = path, append([]string{name}, args...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// readMemory reads what a process has written into its own memory.
func readMemory(t *testing.T, pid int) string {
	t.Helper()
	maps := readProc(t, pid, "maps")
	mem, err := os.Open("/proc/" + strconv.Itoa(pid) + "/mem")
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	var all strings.Builder
	for line := range strings.Lines(maps) {
		var from, to int64
		var rights string
		if n, _ := fmt.Sscanf(line, "%x-%x %s", &from, &to, &rights); n != 3 || !strings.HasPrefix(rights, "rw") || to-from > 256<<20 {
			continue
		}
		b := make([]byte, to-from)
		n, _ := mem.ReadAt(b, from)
		all.Write(b[:n])
	}
	return all.String()
}

// TestPRV05_Folders: who else is on the machine reads nothing of a service's
// folders, and reaches none of its sockets, not by the file system and not when
// somebody has opened that to them.
func TestPRV05_Folders(t *testing.T) {
	t.Attr("claim", "PRV-05")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		s := serveTasks(t, y)
		s.live(t)
		runtime := filepath.Dir(y.Dir) + "/run/bailey"
		task, err := filepath.Glob(filepath.Join(y.Home, ".local/share/bailey/engine/*"))
		if err != nil || len(task) == 0 {
			t.Fatalf("no folder of a task: %v", err)
		}
		folders := append(task, filepath.Join(y.Home, ".local/share/bailey/engine"), filepath.Join(y.Home, ".local/state/bailey/control"))
		for _, dir := range folders {
			if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("%s: %v, %v", dir, info.Mode(), err)
			}
		}
		if info, err := os.Stat(runtime); err != nil || info.Mode().Perm()&^0o711 != 0 {
			t.Errorf("the folder of sockets: %v, %v", info.Mode(), err)
		}
		for _, file := range []string{filepath.Join(y.Home, ".config/bailey/mcp-token"), filepath.Join(y.Home, ".local/state/bailey/serve.log"), filepath.Join(runtime, "serve.sock")} {
			if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: %v, %v", file, info.Mode(), err)
			}
		}
		const connect = `
import socket, sys
s = socket.socket(socket.AF_UNIX); s.settimeout(10)
try:
    s.connect(sys.argv[1])
    s.sendall(b"GET /v1/hello HTTP/1.0\r\n\r\n")
    print("answered" if b"version" in s.recv(4096) + s.recv(4096) else "closed")
except OSError as e:
    print("errno", e.errno)
`
		as := func(uid int) string {
			cmd := exec.CommandContext(t.Context(), python, "-c", connect, filepath.Join(runtime, "serve.sock"))
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			return strings.TrimSpace(string(out))
		}
		const stranger = 65534
		if got := as(stranger); got != "errno 13" {
			t.Errorf("a stranger: %s", got)
		}
		for _, path := range []string{filepath.Dir(runtime), runtime, filepath.Join(runtime, "serve.sock")} {
			if err := os.Chmod(path, 0o777); err != nil {
				t.Fatal(err)
			}
		}
		if got := as(stranger); got != "closed" && got != "errno 104" && got != "errno 32" {
			t.Errorf("a stranger to whom the folder was opened: %s", got)
		}
		for _, uid := range []int{y.UID, 0} {
			if got := as(uid); got != "answered" {
				t.Errorf("twin: user %d: %s", uid, got)
			}
		}
		for _, path := range []string{filepath.Dir(runtime), runtime} {
			if err := os.Chmod(path, 0o700); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestISO09_TheDeadlineOfATask kills and stops what could keep a check's
// deadline, but for one in each: the deadline is kept all the same.
func TestISO09_TheDeadlineOfATask(t *testing.T) {
	t.Attr("claim", "ISO-09")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		type blow struct {
			role   posture.Role
			signal syscall.Signal
		}
		kill, stop := syscall.SIGKILL, syscall.SIGSTOP
		cases := map[string][]blow{
			"control killed for good":     {{posture.Launcher, stop}, {posture.Control, kill}}, // a launcher that runs starts it again, and that one ends what nobody waits for
			"control stopped":             {{posture.Control, stop}},
			"all but the launcher":        {{posture.Control, stop}, {posture.Runner, stop}, {posture.Watchdog, stop}},
			"all but runner and watchdog": {{posture.Control, stop}, {posture.Launcher, stop}},
			"all but the watchdog":        {{posture.Control, stop}, {posture.Launcher, stop}, {posture.Runner, stop}},
		}
		type hit struct {
			blows   []blow
			list    []posture.Posture
			began   time.Time
			started string
		}
		hits := map[string]hit{}
		for name, blows := range cases { // all of them last one minute
			s := serveTasks(t, another(t, y))
			h := hit{blows: blows, list: s.live(t, posture.Watchdog), began: time.Now()}
			h.started = startOf(t, find(t, h.list, posture.Sentry).PID)
			t.Cleanup(func() { // before the service is told to end
				for _, b := range blows {
					_ = syscall.Kill(find(t, h.list, b.role).PID, syscall.SIGCONT)
				}
			})
			for _, b := range blows {
				if err := syscall.Kill(find(t, h.list, b.role).PID, b.signal); err != nil {
					t.Fatal(err)
				}
			}
			hits[name] = h
		}
		for name, h := range hits {
			if now := startOf(t, find(t, h.list, posture.Sentry).PID); now == "" || now != h.started {
				t.Errorf("twin: %s: the sandbox ended before its deadline, %v after the blow", name, time.Since(h.began))
			}
		}
		for name, h := range hits {
			t.Run(name, func(t *testing.T) {
				sentry := find(t, h.list, posture.Sentry).PID
				yard.Eventually(t, 110*time.Second, func() bool { return startOf(t, sentry) != h.started }, func() string {
					return fmt.Sprintf("the sandbox still runs after %v, with a deadline of a minute", time.Since(h.began))
				})
			})
		}
	})
}

// TestSRV09_KilledAtAnyPoint kills each role of a service while a sandbox runs
// or is made. Nothing is orphaned, what was begun is known to the next one, and
// what another role keeps goes on.
func TestSRV09_KilledAtAnyPoint(t *testing.T) {
	t.Attr("claim", "SRV-09")
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		t.Run("launcher", func(t *testing.T) {
			s := serveTasks(t, another(t, y))
			s.goneWith(t, s.live(t), posture.Launcher)
			// The next one begins where this one ended.
			next := serveTasks(t, s.y)
			if c := next.check(t, "cat file"); !c.Passed {
				t.Errorf("after the restart: %+v", c)
			}
			left, err := filepath.Glob(filepath.Join(s.y.Home, ".local/share/bailey/engine/*"))
			if err != nil || len(left) > 0 {
				t.Errorf("the next service keeps %v (%v)", left, err)
			}
		})
		t.Run("control", func(t *testing.T) {
			s := serveTasks(t, another(t, y))
			list := s.live(t)
			control, sentry := find(t, list, posture.Control).PID, find(t, list, posture.Sentry).PID
			started := startOf(t, sentry)
			if err := syscall.Kill(control, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			yard.Eventually(t, yard.Timeout, func() bool {
				code, _, err := s.ask(t.Context(), http.MethodGet, "/v1/hello", struct{}{})
				return err == nil && code == http.StatusOK
			}, func() string { return "no control answers again\n" + s.log() })
			if again := find(t, s.await(t, posture.Control), posture.Control).PID; again == control {
				t.Error("twin: control was not killed")
			}
			if startOf(t, sentry) != started && started != "" {
				t.Log("the check of a client that is gone was ended") // it may be: nobody waits for it
			}
		})
		t.Run("runner", func(t *testing.T) {
			s := serveTasks(t, another(t, y))
			list := s.live(t)
			s.goneWith(t, list, posture.Runner)
			if c := s.check(t, "cat file"); !c.Passed {
				t.Errorf("the service after a runner was killed: %+v", c)
			}
		})
		t.Run("git", func(t *testing.T) {
			s := serveTasks(t, another(t, y))
			hit := make(chan int, 1)
			go func() {
				for t.Context().Err() == nil {
					list, _ := posture.Reader{}.Service(s.pid)
					for _, p := range list {
						if p.Role == posture.Git && syscall.Kill(p.PID, syscall.SIGKILL) == nil {
							hit <- p.PID
							return
						}
					}
				}
			}()
			for range 50 { // it lives for a moment
				_, b, err := s.ask(t.Context(), http.MethodPost, "/v1/checks", map[string]any{"repo_path": s.y.Dir, "branch": "main", "command": "true", "timeout_minutes": 1})
				if err != nil {
					t.Fatal(err)
				}
				if len(hit) > 0 {
					t.Logf("the check's answer: %s", b)
					break
				}
			}
			if len(hit) == 0 {
				t.Fatal("twin: no helper was killed")
			}
			if c := s.check(t, "cat file"); !c.Passed {
				t.Errorf("the service after a helper was killed: %+v", c)
			}
		})
	})
}

// another is one more yard of the same identity.
func another(t *testing.T, y *yard.Yard) *yard.Yard {
	t.Helper()
	if y.UID == 0 {
		return yard.Root(t)
	}
	return yard.Unprivileged(t)
}

// goneWith kills a role, and waits until everything that descended from it is
// gone.
func (s *served) goneWith(t *testing.T, list []posture.Posture, role posture.Role) {
	t.Helper()
	known := map[int]string{}
	for _, p := range list {
		if role == posture.Launcher || p.Role != posture.Launcher && p.Role != posture.Control {
			known[p.PID] = startOf(t, p.PID)
		}
	}
	if len(known) < 5 {
		t.Fatalf("twin: there are %d processes", len(known))
	}
	if err := syscall.Kill(find(t, list, role).PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	var left []string
	yard.Eventually(t, 10*time.Second, func() bool {
		left = nil
		for pid, started := range known {
			if now := startOf(t, pid); now != "" && now == started {
				left = append(left, strings.ReplaceAll(readProc(t, pid, "cmdline"), "\x00", " "))
			}
		}
		return len(left) == 0
	}, func() string { return fmt.Sprintf("left after 10 s: %v", left) })
}
