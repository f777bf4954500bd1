package agents_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/bailey-dev/bailey/internal/harness"
	"github.com/bailey-dev/bailey/internal/testkit/agents"
	"github.com/bailey-dev/bailey/internal/testkit/netlab"
	"github.com/bailey-dev/bailey/internal/testkit/provider"
)

const key = "sk-canary-0123456789-abcdefghijklmnop"

// headless is how each agent is asked for one piece of work.
var headless = []struct {
	agent, keyName, apiHost string
	args                    []string
}{
	{"claude", "ANTHROPIC_API_KEY", "api.anthropic.com", []string{"-p", "--output-format", "json", "do the work"}},
	{"codex", "OPENAI_API_KEY", "api.openai.com", []string{"exec", "--json", "--skip-git-repo-check", "do the work"}},
	{"opencode", "ANTHROPIC_API_KEY", "api.anthropic.com", []string{"run", "--format", "json", "-m", "anthropic/claude-opus-5-5", "do the work"}},
	{"opencode", "OPENAI_API_KEY", "api.openai.com", []string{"run", "--format", "json", "-m", "openai/gpt-5.5", "do the work"}},
}

// TestPresets_RealAgentsWork shows without any sandbox that each preset is
// what its agent needs: it reads a file, edits it, runs a command and ends,
// asks nothing, and speaks to no host but its API.
func TestPresets_RealAgentsWork(t *testing.T) {
	t.Parallel()
	bin := agents.Bin(t)
	for _, tc := range headless {
		t.Run(tc.agent+"_"+tc.keyName, func(t *testing.T) {
			t.Parallel()
			lab := netlab.New(t)
			user := lab.Tester()
			work := filepath.Join(lab.Dir(), "work")
			must(t, os.Mkdir(work, 0o755))
			must(t, os.WriteFile(filepath.Join(work, "hello.txt"), []byte("one\ntwo\nthree\n"), 0o644))
			for _, p := range []string{work, filepath.Join(work, "hello.txt")} {
				must(t, os.Chown(p, int(user.UID), int(user.GID)))
			}
			preset, err := harness.Find(tc.agent, harness.Host{
				Arch: runtime.GOARCH, Home: user.Home, Path: []string{bin}, Workspace: work,
				Env: map[string]string{tc.keyName: key}, Files: harness.OS{},
			})
			must(t, err)
			placeFiles(t, preset, user)
			hello := filepath.Join(work, "hello.txt")
			model := provider.New(key,
				provider.Do(provider.Read(hello)),
				provider.Do(provider.Edit(hello, "two", "TWO")),
				provider.Do(provider.Write(filepath.Join(work, "new.txt"), "made\n")),
				provider.Do(provider.Shell("echo $((6*7)) > shell.txt; cat hello.txt; id -u")),
				provider.Say("all done"),
			)
			lab.Handle(tc.apiHost, model)
			ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
			defer cancel()
			cmd := lab.CommandAs(user, preset.Argv[0], append(preset.Argv[1:], tc.args...)...)
			cmd.Dir = work
			cmd.Env = []string{
				"PATH=/usr/bin:/bin", "HOME=" + user.Home, "USER=" + user.Name, "TERM=dumb", "LANG=C.UTF-8",
				"SSL_CERT_FILE=" + lab.CAFile(), "NODE_EXTRA_CA_CERTS=" + lab.CAFile(),
				tc.keyName + "=" + key,
			}
			cmd.Env = append(cmd.Env, preset.Env...)
			out, err := run(ctx, cmd)
			if err != nil {
				t.Errorf("%v: %v\n%s", tc.agent, err, out)
			}
			t.Logf("%s", out)
			for _, r := range model.Requests() {
				t.Logf("%s %s%s -> %d side=%v %d bytes", r.Method, r.Host, r.Path, r.Status, r.Side, len(r.Body))
				if d := os.Getenv("DUMP"); d != "" {
					f := filepath.Join(d, tc.agent+tc.keyName+r.Time.Format("150405.000000")+".json")
					_ = os.WriteFile(f, r.Body, 0o644)
				}
			}
			for _, p := range model.Problems() {
				t.Errorf("provider: %s", p)
			}
			if !model.Finished() {
				t.Error("the script did not come to its end")
			}
			checkFile(t, hello, "one\nTWO\nthree\n")
			checkFile(t, filepath.Join(work, "new.txt"), "made\n")
			checkFile(t, filepath.Join(work, "shell.txt"), "42\n")
			for _, r := range model.Results() {
				t.Logf("result %d.%d err=%v: %.300q", r.Turn, r.Call, r.IsError, r.Output)
			}
			if !strings.Contains(out, "all done") {
				t.Error("the model's last words did not reach stdout")
			}
			for _, c := range lab.Connections() {
				if c.To.Addr() != netlab.Allowed && c.To.Addr() != netlab.Resolver {
					t.Errorf("it spoke to %s %s", c.Proto, c.To)
				}
			}
			for _, q := range lab.Questions() {
				if q.Name != tc.apiHost+"." {
					t.Errorf("it asked for %s %s", q.Type, q.Name)
				}
			}
		})
	}
}

func run(ctx context.Context, cmd *exec.Cmd) (string, error) {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return "", err
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	cmd.WaitDelay = 5 * time.Second
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
