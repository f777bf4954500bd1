package agents_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/bailey-dev/bailey/internal/harness"
	"github.com/bailey-dev/bailey/internal/testkit/agents"
	"github.com/bailey-dev/bailey/internal/testkit/netlab"
	"github.com/bailey-dev/bailey/internal/testkit/provider"
)

const key = "sk-canary-0123456789-abcdefghijklmnop"

// jobs is how each agent is asked for one piece of work.
var jobs = []struct {
	agent, keyName, apiHost string
	headless                []string
}{
	{
		"claude", "ANTHROPIC_API_KEY", "api.anthropic.com",
		[]string{"-p", "--output-format", "json", prompt},
	},
	{
		"codex", "OPENAI_API_KEY", "api.openai.com",
		[]string{"exec", "--json", "--skip-git-repo-check", prompt},
	},
	{
		"codex", "CODEX_API_KEY", "api.openai.com",
		[]string{"exec", "-m", "gpt-5.5", "--skip-git-repo-check", prompt},
	},
	{
		"opencode", "ANTHROPIC_API_KEY", "api.anthropic.com",
		[]string{"run", "--format", "json", "-m", "anthropic/claude-opus-5-5", prompt},
	},
	{
		"opencode", "OPENAI_API_KEY", "api.openai.com",
		[]string{"run", "--format", "json", "-m", "openai/gpt-5.5", prompt},
	},
}

const prompt = "do the work"

// bench is one agent at one task in a lab.
type bench struct {
	lab   *netlab.Lab
	model *provider.Server
	work  string
	cmd   *exec.Cmd
	quiet []string

	user   netlab.User
	preset harness.Preset
	env    []string

	anyModel bool // that is asked for
}

// command starts the agent with arguments in the folder of the work.
func (b bench) command(args []string) *exec.Cmd {
	argv := append(slices.Clone(b.preset.Argv), args...)
	cmd := b.lab.CommandAs(b.user, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = b.work, b.env
	return cmd
}

// newBench lays out the work and prepares the agent as its preset says.
func newBench(t *testing.T, agent, keyName, apiHost string, args []string) bench {
	t.Helper()
	lab := netlab.New(t)
	user := lab.Tester()
	b := bench{lab: lab, work: filepath.Join(lab.Dir(), "work")}
	hello := filepath.Join(b.work, "hello.txt")
	must(t, os.Mkdir(b.work, 0o755))
	must(t, os.WriteFile(hello, []byte("one\ntwo\nthree\n"), 0o644))
	for _, p := range []string{b.work, hello} {
		must(t, os.Chown(p, int(user.UID), int(user.GID)))
	}
	preset, err := harness.Find(agent, harness.Host{
		Arch: runtime.GOARCH, Home: user.Home, Path: []string{agents.Bin(t)}, Workspace: b.work,
		Env: map[string]string{keyName: key}, Files: harness.OS{},
	})
	must(t, err)
	placeFiles(t, preset, user)
	b.quiet = preset.Quiet
	b.model = provider.New(key,
		provider.Do(provider.Read(hello)),
		provider.Do(provider.Edit(hello, "two", "TWO")),
		provider.Do(provider.Write(filepath.Join(b.work, "new.txt"), "made\n")),
		provider.Do(provider.Shell("echo $((6*7)) > shell.txt; cat hello.txt; id -u")),
		provider.Say("all done"),
	)
	lab.Handle(apiHost, b.model)
	b.cmd = lab.CommandAs(user, preset.Argv[0], append(preset.Argv[1:], args...)...)
	b.cmd.Dir = b.work
	b.cmd.Env = append([]string{
		"PATH=/usr/bin:/bin", "HOME=" + user.Home, "USER=" + user.Name, "TERM=xterm-256color", "LANG=C.UTF-8",
		"SSL_CERT_FILE=" + lab.CAFile(), "NODE_EXTRA_CA_CERTS=" + lab.CAFile(), keyName + "=" + key,
	}, preset.Env...)
	return b
}

// check holds that the script came to its end, the tree is as scripted, and
// no host but the API was spoken to or asked for.
func (b bench) check(t *testing.T, apiHost string) {
	t.Helper()
	for _, p := range b.model.Problems() {
		t.Errorf("provider: %s", p)
	}
	if !b.model.Finished() {
		t.Errorf("the script did not come to its end: %+v", b.model.Results())
	}
	checkFile(t, filepath.Join(b.work, "hello.txt"), "one\nTWO\nthree\n")
	checkFile(t, filepath.Join(b.work, "new.txt"), "made\n")
	checkFile(t, filepath.Join(b.work, "shell.txt"), "42\n")
	results := b.model.Results()
	if len(results) != 4 || !strings.Contains(results[0].Output, "two") || !strings.Contains(results[3].Output, "TWO") {
		t.Errorf("results: %+v", results)
	}
	for _, c := range b.lab.Connections() {
		if c.To.Addr() != netlab.Allowed && c.To.Addr() != netlab.Resolver && !c.To.Addr().IsLoopback() {
			t.Errorf("it spoke to %s %s", c.Proto, c.To)
		}
	}
	for _, q := range b.lab.Questions() {
		if q.Name != apiHost+"." && !slices.Contains(b.quiet, strings.TrimSuffix(q.Name, ".")) {
			t.Errorf("it asked for %s %s", q.Type, q.Name)
		}
	}
}

// TestPresets_RealAgentsWork shows without any sandbox that each preset is
// what its agent needs: it reads a file, edits it, makes one, runs a command
// and ends, asks nothing, and speaks to no host but its API.
func TestPresets_RealAgentsWork(t *testing.T) {
	t.Parallel()
	for _, tc := range jobs {
		t.Run(tc.agent+"_"+tc.keyName, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, tc.agent, tc.keyName, tc.apiHost, tc.headless)
			out, err := run(t, b.cmd)
			if err != nil {
				t.Errorf("%s: %v", tc.agent, err)
			}
			if !strings.Contains(out, "all done") {
				t.Error("the model's last words did not reach stdout")
			}
			b.check(t, tc.apiHost)
			if t.Failed() {
				t.Logf("output:\n%s", out)
			}
		})
	}
}

// inTerminal runs the agent on a pty until the script is done, then ends it.
func inTerminal(t *testing.T, b bench) string {
	t.Helper()
	master, err := pty.StartWithSize(b.cmd, &pty.Winsize{Rows: 40, Cols: 120})
	must(t, err)
	defer func() { _ = master.Close() }()
	var screen lockedBuffer
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(&screen, master)
	}()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(4 * time.Minute)
wait:
	for !b.model.Finished() {
		select {
		case <-tick.C:
		case <-read:
			break wait
		case <-deadline:
			t.Error("not done in time")
			break wait
		}
	}
	_ = b.cmd.Process.Kill()
	_ = b.cmd.Wait()
	return screen.String()
}

// lockedBuffer is a bytes.Buffer for two goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// run waits at most four minutes and returns both outputs.
func run(t *testing.T, cmd *exec.Cmd) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		return "", err
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	err := cmd.Wait()
	return out.String(), err
}

// placeFiles puts the preset's files into a home that is not the sandbox's.
func placeFiles(t *testing.T, p harness.Preset, u netlab.User) {
	t.Helper()
	for _, f := range p.Files {
		path := filepath.Join(u.Home, strings.TrimPrefix(f.Path, harness.Home))
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, f.Data, f.Mode))
		for d := path; d != u.Home; d = filepath.Dir(d) {
			must(t, os.Chown(d, int(u.UID), int(u.GID)))
		}
		if strings.HasSuffix(path, ".json") && !json.Valid(f.Data) {
			t.Errorf("%s is no JSON", f.Path)
		}
	}
}

func checkFile(t *testing.T, path, want string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil || string(b) != want {
		t.Errorf("%s: %q %v, want %q", path, b, err, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
