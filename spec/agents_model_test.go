package spec_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey/internal/testkit/agents"
	"github.com/bailey-dev/bailey/internal/testkit/netlab"
	"github.com/bailey-dev/bailey/internal/testkit/provider"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

const (
	providerKey = "sk-canary-provider-0123456789-abcdefghijkl"
	providerAt  = "127.0.0.1:18098"
	servedName  = "real-1" // the provider's name of every model here
)

// pinnedAgents are the agents as a person would ask them for work, and for
// more of it in the same session; each with the models of modelsFile that it
// can use.
var pinnedAgents = []struct {
	name, work, resume string
	models             []string
}{
	{"claude", `claude -p "do the work"`, `claude -p --continue "some more"`, []string{"messages"}},
	{"codex", `codex exec --skip-git-repo-check "do the work"`, `codex exec --skip-git-repo-check resume --last "some more"`, []string{"responses"}},
	{"copilot", `copilot -p "do the work"`, `copilot --continue -p "some more"`, []string{"chat", "responses", "messages"}},
	{"gemini", `gemini -p "do the work"`, `gemini --resume latest -p "some more"`, []string{"gem"}},
	{"opencode", `opencode run "do the work"`, `opencode run -c "some more"`, []string{"chat", "responses", "messages"}},
	{"pi", `pi -p "do the work"`, `pi -p -c "some more"`, []string{"chat", "responses", "messages"}},
	{"qwen", `qwen "do the work"`, `qwen -c "some more"`, []string{"chat", "messages"}},
}

// modelsFile has one model of each dialect, all at the scripted provider.
const modelsFile = `providers:
  anthropic: {kind: anthropic, base_url: "http://` + providerAt + `", key: {secret: provider-key}}
  openai: {kind: openai, base_url: "http://` + providerAt + `/v1", key: {secret: provider-key}}
  gemini: {kind: gemini, base_url: "http://` + providerAt + `", key: {secret: provider-key}}
models:
  messages: {provider: anthropic, dialect: anthropic, name: ` + servedName + `, context: 200000, max_output: 8000}
  responses: {provider: openai, dialect: openai-responses, name: ` + servedName + `, context: 200000, max_output: 8000}
  chat: {provider: openai, dialect: openai-chat, name: ` + servedName + `, context: 200000, max_output: 8000}
  gem: {provider: gemini, dialect: gemini, name: ` + servedName + `, context: 200000, max_output: 8000}
`

// modelLab is a host on whose loopback a model provider listens.
type modelLab struct {
	yard  *yard.Yard
	lab   *netlab.Lab
	bin   string
	model *provider.Server
}

func newModelLab(t *testing.T, script func(l *modelLab) []provider.Turn) *modelLab {
	t.Helper()
	l := newProviderLab(t, yard.Unprivileged(t))
	l.yard.Write(t, "hello.txt", "one\ntwo\nthree\n")
	l.model = provider.New(providerKey, script(l)...)
	l.serve(t, l.model)
	return l
}

// newProviderLab has no provider yet.
func newProviderLab(t *testing.T, y *yard.Yard) *modelLab {
	t.Helper()
	l := &modelLab{yard: y, lab: netlab.New(t), bin: agents.Bin(t), model: nil}
	l.yard.Wrap = l.lab.Enter
	l.yard.WriteHome(t, ".config/bailey/models.yaml", modelsFile)
	l.yard.RunWith(t, func(c *exec.Cmd) { c.Stdin = strings.NewReader(providerKey) }, "secret", "set", "provider-key", "--for", "gateway").OK(t)
	return l
}

// serve is the provider, on the host's loopback.
func (l *modelLab) serve(t *testing.T, h http.Handler) {
	t.Helper()
	srv := &http.Server{Handler: h}
	listener := l.lab.Listen(providerAt)
	go func() { _ = srv.Serve(listener) }()
	t.Cleanup(func() { _ = srv.Close() })
}

// run runs a shell script in a sandbox that has the agent and the model.
func (l *modelLab) run(t *testing.T, agent, model, script string, flags ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), agentTime)
	defer cancel()
	args := append([]string{"run", "--model", model, "--tool", agent, "--net", "none"}, flags...)
	cmd := l.yard.Command(ctx, append(args, "--", "sh", "-c", script)...)
	for i, kv := range cmd.Env {
		if path, ok := strings.CutPrefix(kv, "PATH="); ok {
			cmd.Env[i] = "PATH=" + l.bin + ":" + path
		}
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// check holds that the provider was asked for its one model, by its key, and
// that nothing else was asked for by anybody.
func (l *modelLab) check(t *testing.T, token string) {
	t.Helper()
	for _, p := range l.model.Problems() {
		t.Errorf("provider: %s", p)
	}
	for _, r := range l.model.Requests() {
		if r.Model != "" && r.Model != servedName {
			t.Errorf("%s was served for the model %q", r.Path, r.Model)
		}
		sent := fmt.Sprint(r.Header)
		if !strings.Contains(sent, providerKey) {
			t.Errorf("%s has no key of the provider: %v", r.Path, r.Header)
		}
		if strings.Contains(sent, token) || strings.Contains(r.Path, token) {
			t.Errorf("%s carries the sandbox's token: %v", r.Path, r.Header)
		}
	}
	for _, c := range l.lab.Connections() {
		if c.To.String() == providerAt { // the gateway, from the host
			continue
		}
		t.Errorf("%s to %s left the machine", c.Proto, c.To)
	}
	for _, q := range l.lab.Questions() {
		t.Errorf("%s %s was asked for", q.Type, q.Name)
	}
}

// onThisKernel are the flags of a test that is about what an agent says, and not
// about what holds it: in gVisor each takes several times as long to start.
func onThisKernel(flags ...string) []string { return append([]string{"--runtime", "native"}, flags...) }

// TestMGW08_AgentsWorkInTheirDialects: every agent, in every dialect that it
// speaks, finishes a task by tool calls, without a network; in its own dialect
// it does so in gVisor, and also goes on in the same session.
func TestMGW08_AgentsWorkInTheirDialects(t *testing.T) {
	t.Attr("claim", "MGW-08")
	slots := make(chan struct{}, 2) // an agent fills a processor
	for _, a := range pinnedAgents {
		for _, model := range a.models {
			t.Run(a.name+"_"+model, func(t *testing.T) {
				t.Parallel()
				slots <- struct{}{}
				defer func() { <-slots }()
				l := newModelLab(t, workAndMore)
				flags := onThisKernel()
				script := "env | grep -E '(TOKEN|_KEY)=bly-' | head -n 1; " + a.work
				said := []string{"first part done"}
				made := map[string]string{"hello.txt": "one\nTWO\nthree\n", "new.txt": "made\n", "shell.txt": "42\n"}
				if model == a.models[0] {
					flags = nil
					script += " && " + a.resume
					said = append(said, "second part done")
					made["again.txt"] = "again\n"
				}
				out, err := l.run(t, a.name, model, script, flags...)
				if err != nil {
					t.Error(err)
				}
				token := tokenOf(t, out)
				l.check(t, token)
				for _, want := range said {
					if !strings.Contains(out, want) {
						t.Errorf("%q was not printed", want)
					}
				}
				if model == a.models[0] && !l.model.Finished() {
					t.Error("the script did not come to its end")
				}
				for name, want := range made {
					if b, err := os.ReadFile(filepath.Join(l.yard.Dir, name)); err != nil || string(b) != want {
						t.Errorf("%s: %q %v, want %q", name, b, err, want)
					}
				}
				if t.Failed() {
					t.Logf("%s\noutput:\n%s", l.asked(), out)
				}
			})
		}
	}
}

// TestAgents_EndWhenTheBudgetIsSpent: a spent budget ends every agent, and the
// agent says why.
func TestAgents_EndWhenTheBudgetIsSpent(t *testing.T) {
	slots := make(chan struct{}, 2)
	for _, a := range pinnedAgents {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			slots <- struct{}{}
			defer func() { <-slots }()
			l := newModelLab(t, workAndMore)
			out, err := l.run(t, a.name, a.models[0], a.work, onThisKernel("--budget", "20")...)
			if e, failed := errors.AsType[*exec.ExitError](err); !failed || e.ExitCode() != 1 {
				t.Errorf("it ended with %v, and docs/agents.md says with 1", err)
			}
			if said := strings.ToLower(without(out, "bailey: ")); !strings.Contains(said, "budget") {
				t.Error("the agent does not say why")
			}
			if n := len(l.model.Requests()); n != 0 {
				t.Errorf("the provider was asked %d times", n)
			}
			if t.Failed() {
				t.Logf("%s\noutput:\n%s", l.asked(), out)
			}
		})
	}
}

// without leaves out the lines with a prefix.
func without(out, prefix string) string {
	lines := strings.Split(out, "\n")
	return strings.Join(slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, prefix) }), "\n")
}

// workAndMore is a task by each kind of tool, and what comes when the session
// is resumed.
func workAndMore(l *modelLab) []provider.Turn {
	hello := filepath.Join(l.yard.Dir, "hello.txt")
	return []provider.Turn{
		provider.Do(provider.Read(hello)),
		provider.Do(provider.Edit(hello, "two", "TWO")),
		provider.Do(provider.Write(filepath.Join(l.yard.Dir, "new.txt"), "made\n")),
		provider.Do(provider.Shell("expr 6 '*' 7 > shell.txt; cat hello.txt")),
		provider.Say("first part done"),
		provider.Do(provider.Shell("echo again > again.txt; cat shell.txt")),
		provider.Say("second part done"),
	}
}

// asked lists what reached the provider, for a test that failed.
func (l *modelLab) asked() string {
	var b strings.Builder
	for _, r := range l.model.Requests() {
		fmt.Fprintf(&b, "%s %s model=%s side=%v %d\n", r.Method, r.Path, r.Model, r.Side, r.Status)
	}
	return b.String()
}

// tokenOf reads the token that the sandbox's environment showed.
func tokenOf(t *testing.T, out string) string {
	t.Helper()
	_, rest, ok := strings.Cut(out, "=bly-")
	if !ok {
		t.Fatalf("the sandbox has no token:\n%s", out)
	}
	token, _, _ := strings.Cut(rest, "\n")
	return "bly-" + token
}
