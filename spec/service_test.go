package spec_test

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey/internal/testkit/provider"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// config writes the user's config.yaml.
func (d *taskDesk) config(text string) {
	d.t.Helper()
	d.y.WriteHome(d.t, ".config/bailey/config.yaml", text)
}

// refused runs a command that is: with one message and its hint, which hold
// the words.
func (d *taskDesk) refused(words []string, args ...string) {
	d.t.Helper()
	r := d.y.Run(d.t, args...)
	if r.Code != 125 || strings.Count(r.Stderr, "bailey: ") != 1 {
		d.t.Errorf("%q: code %d, %s", args, r.Code, r.Stderr)
	}
	for _, w := range words {
		if !strings.Contains(r.Stderr, w) {
			d.t.Errorf("%q does not say %q: %s", args, w, r.Stderr)
		}
	}
}

// TestService_ReadsTheSettingsAnew: what config.yaml says when a task comes is
// what holds for it, and messages name the file, and the PATH that is the
// service's.
func TestService_ReadsTheSettingsAnew(t *testing.T) {
	t.Parallel()
	y := yard.Unprivileged(t)
	d := newTaskDesk(t, y, "anthropic", "", provider.Say("one"))
	if s, _ := d.run("echo made >made.txt"); s.Status != "success" {
		t.Fatalf("%+v", s)
	}
	file := filepath.Join(y.Home, ".config/bailey/config.yaml")
	d.config("tasks: {roots: [/srv], mcp_listen: \"off\"}\n")
	d.refused([]string{y.Dir + " lies outside", "hint: they are /srv, by tasks.roots at " + file + ":1:17"}, "task", "run", "true")
	d.config("tasks: {mcp_listen: \"off\"}\n")
	d.refused([]string{"hint: they are " + y.Home, file + " has no tasks.roots"}, "task", "run", "true")
	d.config("tasks: {roots: [~]}\n")
	d.refused([]string{file + `:1:17: tasks.roots[0]: ~ is YAML's word for nothing; for the text write "~", in quotes`}, "task", "run", "true")
	d.config("tasks: {roots: [" + y.Dir + "], mcp_listen: \"off\"}\n")
	if s, _ := d.run("echo made >made.txt"); s.Status != "success" {
		t.Errorf("twin: %+v", s)
	}
	d.refused([]string{`agent "codex" does not speak the protocol of model small`, "with it can: "}, "task", "run", "--harness", "codex", "true")
	d.y.Run(t, "serve", "stop").OK(t)
	d.config("tasks: {roots: [src]}\n")
	d.refused([]string{"could not be started", file + ":1:17"}, "task", "ls")
}

// TestService_RefusesAtTheCall: what could not begin is no task.
func TestService_RefusesAtTheCall(t *testing.T) {
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		d := newTaskDesk(t, y, "anthropic", "", provider.Say("one"))
		empty := filepath.Join(y.Dir, "empty")
		d.git("init", "-q", empty)
		d.refused([]string{"/nope does not exist", "repo_path (--repo)"}, "task", "run", "--repo", "/nope", "true")
		d.refused([]string{y.Dir + "/nope does not exist"}, "task", "run", "--repo", y.Dir+"/nope", "true")
		d.refused([]string{`--harness: unknown agent "claud"`, `did you mean "claude"?`}, "task", "run", "--harness", "claud", "true")
		d.refused([]string{"--harness: qwen does not work on tasks", "claude, codex, gemini, opencode, pi"}, "task", "run", "--harness", "qwen", "true")
		d.refused([]string{"/usr lies outside"}, "task", "run", "--repo", "/usr", "true")
		d.refused([]string{empty + " has no commit yet", "hint: commit something"}, "task", "run", "--repo", empty, "true")
		d.refused([]string{"there is no commit nope in the repository " + y.Dir, "(--ref)"}, "task", "run", "--ref", "nope", "true")
		d.refused([]string{"there is no commit HEAD~9"}, "task", "run", "--ref", "HEAD~9", "true")
		d.refused([]string{"nope"}, "task", "run", "--environment", "nope", "true")
		asked := strings.Join([]string{
			mcpHello, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, "no message at all",
			`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"delegate_task","arguments":{"task":"true","repo_path":"` + empty + `"}}}`,
		}, "\n") + "\n"
		r := y.RunWith(t, func(c *exec.Cmd) { c.Stdin = strings.NewReader(asked) }, "mcp").OK(t)
		for _, want := range []string{`"isError":true`, "has no commit yet", `"id":null,"error":{"code":-32700,`} {
			if !strings.Contains(r.Stdout, want) {
				t.Errorf("MCP does not say %q: %s", want, r.Stdout)
			}
		}
		if got := strings.TrimSpace(y.Run(t, "task", "ls", "--json").OK(t).Stdout); got != "[]" {
			t.Errorf("recorded: %s", got)
		}
		if s, _ := d.run("echo made >made.txt", "--ref", "HEAD"); s.Status != "success" {
			t.Errorf("twin: %+v", s)
		}
	})
}

// TestService_SaysWhatBecomesOfTheQueue: at its end, and at the next start.
func TestService_SaysWhatBecomesOfTheQueue(t *testing.T) {
	t.Parallel()
	y := yard.Unprivileged(t)
	d := newTaskDesk(t, y, "anthropic", "", provider.Say("one"))
	d.config("tasks: {roots: [" + y.Dir + "], mcp_listen: \"off\", max_parallel: 1}\n")
	const works = "echo it is there; sleep 300"
	first := d.start(works)
	queued := func() string {
		t.Helper()
		return strings.TrimSpace(y.Run(t, "task", "run", "--detach", "--no-preamble", "--no-guide", works).OK(t).Stdout)
	}
	second := queued()
	if r := y.Run(t, "serve", "stop").OK(t); !strings.Contains(r.Stderr, "the next start of the service takes up again: 1;") {
		t.Errorf("the end says %q", r.Stderr)
	}
	r := y.Run(t, "task", "ls").OK(t)
	if !strings.Contains(r.Stderr, "takes up again what an earlier one left: "+second+" ") {
		t.Errorf("the next start says %q", r.Stderr)
	}
	if s := d.show(first); s.Status != "cancelled" {
		t.Errorf("what ran: %+v", s)
	}
	yard.Eventually(t, yard.Timeout, func() bool { return d.show(second).State == "running" }, func() string { return d.show(second).State })
	third := queued()
	if r := y.Run(t, "serve", "stop", "--cancel-queued").OK(t); !strings.Contains(r.Stderr, "cancelled 1 task that had not begun") {
		t.Errorf("the end says %q", r.Stderr)
	}
	if r := y.Run(t, "task", "ls").OK(t); strings.Contains(r.Stderr, "takes up again") {
		t.Errorf("the next start says %q", r.Stderr)
	}
	if s := d.show(third); s.Status != "cancelled" {
		t.Errorf("what was queued: %+v", s)
	}
}

// TestService_IsOneForItsTasks: another runtime folder leads to the same service,
// and another home is not served by it.
func TestService_IsOneForItsTasks(t *testing.T) {
	t.Parallel()
	y := yard.Unprivileged(t)
	d := newTaskDesk(t, y, "anthropic", "", provider.Say("one"))
	y.Run(t, "task", "ls").OK(t)
	with := func(name, value string, args ...string) yard.Result {
		t.Helper()
		return y.RunWith(t, func(c *exec.Cmd) {
			for i, kv := range c.Env {
				if strings.HasPrefix(kv, name+"=") {
					c.Env[i] = name + "=" + value
				}
			}
		}, args...)
	}
	elsewhere := filepath.Dir(y.WriteHome(t, "elsewhere/x", ""))
	ours := y.Run(t, "serve", "status").OK(t).Stdout
	if got := with("XDG_RUNTIME_DIR", elsewhere, "serve", "status").OK(t).Stdout; got != ours {
		t.Errorf("by another runtime folder: %s\nby its own: %s", got, ours)
	}
	with("XDG_RUNTIME_DIR", elsewhere, "task", "ls").OK(t)
	if r := with("XDG_RUNTIME_DIR", elsewhere, "serve", "--local"); r.Code != 125 || !strings.Contains(r.Stderr, "by another XDG_RUNTIME_DIR") || !strings.Contains(r.Stderr, "hint: bailey serve stop ends it") {
		t.Errorf("a second service: %d, %s", r.Code, r.Stderr)
	}
	if r := with("HOME", elsewhere, "task", "ls"); r.Code != 125 || !strings.Contains(r.Stderr, "another HOME") || !strings.Contains(r.Stderr, elsewhere) || !strings.Contains(r.Stderr, "hint: bailey serve stop ends it") {
		t.Errorf("by another home: %d, %s", r.Code, r.Stderr)
	}
	with("XDG_RUNTIME_DIR", elsewhere, "serve", "stop").OK(t)
	if r := y.Run(t, "serve", "status"); r.Code != 1 {
		t.Errorf("it was ended by another runtime folder: %s", r.Stdout)
	}
	d.refused([]string{"there is no task"}, "task", "show", "nothing-1") // and it starts again
}

// TestTasks_SayThatTheProviderIsDown: while it is, and in the result.
func TestTasks_SayThatTheProviderIsDown(t *testing.T) {
	t.Parallel()
	y := yard.Unprivileged(t)
	d := newTaskDesk(t, y, "anthropic", "")
	d.w.serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }))
	d.w.models(t, "anthropic", "context: 200000", "max_output: 8000")
	s, r := d.run(`curl -s -H "Authorization: Bearer $ANTHROPIC_AUTH_TOKEN" -H 'Content-Type: application/json' -d '{"model":"x","max_tokens":100,"messages":[{"role":"user","content":"hello"}]}' "$ANTHROPIC_BASE_URL/v1/messages"; exit 1`)
	if !strings.Contains(r.Stderr, `"kind":"warning","message":"the provider local answered 500; the agent tries again by itself"`) {
		t.Errorf("what is told: %s", r.Stderr)
	}
	if all := strings.Join(s.Result.Warnings, "\n"); !strings.Contains(all, "did not answer at the end; model calls that failed: 1, the last since the provider local answered 500") {
		t.Errorf("what the result says: %s", all)
	}
}
