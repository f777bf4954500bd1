package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/bailey-dev/bailey/bench/figures"
	"github.com/bailey-dev/bailey/internal/testkit/agents"
	"github.com/bailey-dev/bailey/internal/testkit/provider"
)

// The agents.
const (
	agentShell  = "a shell for an agent"
	agentClaude = "Claude Code"
)

// The provider's key, and the name under which bailey is told it.
const key = "sk-0123456789abcdef0123456789abcdef"

// household is a user with one agent: a home, a repository, a provider and
// bailey's service.
type household struct {
	agent  string
	dir    string
	bin    string // folder of the agent's command
	bailey string
	server *provider.Server
	http   *http.Server
	url    string
}

// lab is both households.
type lab struct {
	dir        string
	households []*household
	missing    map[string]string
}

func newLab(ctx context.Context, o options) (*lab, error) {
	program, err := figures.Program(o.bailey)
	if err != nil {
		return nil, fmt.Errorf("%w: run make first", err)
	}
	l := &lab{missing: map[string]string{}}
	if l.dir, err = os.MkdirTemp("", "bailey-task-"); err != nil {
		return nil, err
	}
	shell := filepath.Join(l.dir, "shell")
	build := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(shell, "claude"), "./spec/testdata/taskshell")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		l.close(ctx)
		return nil, fmt.Errorf("building the shell: %w: %s", err, out)
	}
	bins := map[string]string{agentShell: shell}
	if bins[agentClaude], err = agents.Folder(ctx); err != nil {
		l.missing[agentClaude] = err.Error()
	}
	for _, agent := range []string{agentShell, agentClaude} {
		if l.missing[agent] != "" {
			continue
		}
		h := &household{agent: agent, dir: filepath.Join(l.dir, fmt.Sprint(len(l.households))), bin: bins[agent], bailey: program}
		l.households = append(l.households, h)
		if err := h.move(ctx, o); err != nil {
			l.close(ctx)
			return nil, err
		}
	}
	return l, nil
}

func (l *lab) close(ctx context.Context) {
	for _, h := range l.households {
		_ = h.command(context.WithoutCancel(ctx), "serve", "stop").Run()
		if h.http != nil {
			_ = h.http.Close()
		}
	}
	if err := os.RemoveAll(l.dir); err != nil {
		fmt.Fprintln(os.Stderr, "bench/task:", err)
	}
}

// move sets all of a household up.
func (h *household) move(ctx context.Context, o options) error {
	h.server = provider.New(key, provider.Do(provider.Shell("echo made > made.txt")), provider.Say("the task is done"))
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(h.dir+"/run", 0o700); err != nil {
		return err
	}
	h.url, h.http = "http://"+listener.Addr().String(), &http.Server{Handler: h.server}
	go func() { _ = h.http.Serve(listener) }()
	for name, text := range map[string]string{
		"config.yaml": "tasks: {roots: [" + h.dir + "], mcp_listen: \"off\"}\n",
		"models.yaml": fmt.Sprintf("default: small\nproviders:\n  local: {kind: anthropic, base_url: %q, key: {secret: provider}}\nmodels:\n  small: {provider: local, name: real-1, dialect: anthropic, context: 200000, max_output: 8000, max_agents: %d, price: {input: 1, output: 2}}\n", h.url, max(1, o.many)),
	} {
		path := filepath.Join(h.dir, "home/.config/bailey", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			return err
		}
	}
	set := h.command(ctx, "secret", "set", "provider", "--for", "gateway")
	set.Stdin = strings.NewReader(key)
	if out, err := set.CombinedOutput(); err != nil {
		return fmt.Errorf("bailey secret set: %w: %s", err, out)
	}
	return h.fill(ctx, o.files)
}

// fill makes the repository, a commit of n files of some KB.
func (h *household) fill(ctx context.Context, n int) error {
	var s strings.Builder
	s.WriteString("commit refs/heads/main\ncommitter a <a@example.com> 1700000000 +0000\ndata 1\nx\n")
	for i := range n {
		text := strings.Repeat(fmt.Sprintf("line %d of a file\n", i*7919), 1+i%200)
		fmt.Fprintf(&s, "M 100644 inline d%d/e%d/f%d.txt\ndata %d\n%s\n", i%50, i/50%20, i, len(text), text)
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main", h.repo()}, {"-C", h.repo(), "fast-import", "--quiet"}, {"-C", h.repo(), "reset", "-q", "--hard"}} {
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Env, cmd.Stdin = h.env(), strings.NewReader(s.String())
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("git %s: %w: %s", args[0], err, out)
		}
	}
	return nil
}

func (h *household) repo() string { return filepath.Join(h.dir, "repo") }

func (h *household) env(more ...string) []string {
	return append([]string{"HOME=" + h.dir + "/home", "XDG_RUNTIME_DIR=" + h.dir + "/run", "PATH=" + h.bin + ":" + os.Getenv("PATH"), "LANG=C.UTF-8"}, more...)
}

func (h *household) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, h.bailey, args...)
	cmd.Env, cmd.Dir = h.env(), h.repo()
	if _, err := os.Stat(cmd.Dir); err != nil {
		cmd.Dir = h.dir
	}
	return cmd
}

// contender is one way to have an agent begin.
type contender struct {
	name  string
	first func(context.Context) (time.Duration, error)
}

func (l *lab) contenders() (out []contender) {
	for _, h := range l.households {
		out = append(out, contender{byTask + h.agent, h.byTask}, contender{byHand + h.agent, h.byHand})
	}
	return out
}

// script is the task: the shell asks for a model as an agent does; to a real
// agent they are words.
const script = `curl -s -X POST -H 'content-type: application/json' -H "authorization: Bearer $ANTHROPIC_AUTH_TOKEN" -d '{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hello"}]}' "$ANTHROPIC_BASE_URL/v1/messages" >/dev/null
echo made > made.txt
echo '{"type":"result","subtype":"success","result":"the task is done"}'`

// since is the time from a start to the first request for a model.
func (h *household) since(began time.Time) (time.Duration, error) {
	for _, r := range h.server.Requests() {
		if r.Time.After(began) && r.Model != "" {
			return r.Time.Sub(began), nil
		}
	}
	return 0, errors.New("no model was asked for")
}

// byTask hands a task over, waits for its end, and removes it.
func (h *household) byTask(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	t, err := h.task(ctx)
	if err != nil {
		return 0, err
	}
	took, err := h.since(began)
	if err == nil {
		var out []byte
		if out, err = h.command(ctx, "task", "rm", "--force", t.ID).CombinedOutput(); err != nil {
			err = fmt.Errorf("bailey task rm: %w: %s", err, out)
		}
	}
	return took, err
}

// task is what `bailey task run --json` prints, as far as it is looked at.
type task struct {
	ID, Branch string
	Result     struct{ Status, Branch string }
}

func (h *household) task(ctx context.Context) (t task, err error) {
	cmd := h.command(ctx, "task", "run", "--json", "--no-preamble", "--no-guide", "-")
	var out, said bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(script), &out, &said
	if err := cmd.Run(); err != nil {
		return t, fmt.Errorf("bailey task run: %w: %.600s", err, said.String())
	}
	if err := json.Unmarshal(out.Bytes(), &t); err != nil {
		return t, err
	}
	if t.Result.Status != "success" {
		return t, fmt.Errorf("task %s ended as %s", t.ID, t.Result.Status)
	}
	return t, nil
}

// byHand is what a person would do: a clone, and the agent in it.
func (h *household) byHand(ctx context.Context) (time.Duration, error) {
	at := filepath.Join(h.dir, "clone")
	defer func() { _ = os.RemoveAll(at) }()
	began := time.Now()
	clone := exec.CommandContext(ctx, "git", "clone", "-q", "--local", h.repo(), at)
	clone.Env = h.env()
	if out, err := clone.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("git clone: %w: %s", err, out)
	}
	cmd := exec.CommandContext(ctx, filepath.Join(h.bin, "claude"), "--print", "--model", "real-1")
	cmd.Dir, cmd.Stdin = at, strings.NewReader(script)
	cmd.Env = h.env("ANTHROPIC_BASE_URL="+h.url, "ANTHROPIC_AUTH_TOKEN="+key, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "IS_SANDBOX=1")
	out, err := cmd.CombinedOutput()
	took, missing := h.since(began)
	if missing != nil {
		return 0, fmt.Errorf("%w: %w: %.600s", missing, err, out)
	}
	return took, nil // how it ends does not matter: it may use no tool here
}

// atOnce hands many tasks over at the same time and looks at every branch.
func (h *household) atOnce(ctx context.Context, n int) (atOnce, error) {
	began := time.Now()
	type end struct {
		t   task
		err error
	}
	ends := make(chan end)
	for range n {
		go func() {
			t, err := h.task(ctx)
			ends <- end{t, err}
		}()
	}
	m := atOnce{Name: h.agent, Tasks: n}
	var problem error // the last
	for range n {
		e := <-ends
		if e.err == nil {
			e.err = h.right(ctx, e.t)
		}
		if e.err != nil {
			problem = e.err
			continue
		}
		m.Right++
	}
	m.Seconds = time.Since(began).Seconds()
	return m, problem
}

// right reports whether a task's branch holds what its agent made.
func (h *household) right(ctx context.Context, t task) error {
	show := exec.CommandContext(ctx, "git", "-C", h.repo(), "show", t.Branch+":made.txt")
	show.Env = h.env()
	out, err := show.CombinedOutput()
	if err != nil || string(out) != "made\n" {
		return fmt.Errorf("task %s, branch %q: %w: %.200s", t.ID, t.Branch, err, out)
	}
	return nil
}
