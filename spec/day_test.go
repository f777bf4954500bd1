package spec_test

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey/internal/testkit/netlab"
	"github.com/bailey-dev/bailey/internal/testkit/provider"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// TestDay is a developer's whole day with the real agents: Claude Code is
// refused a page, gets it by the flag that the refusal names, and remembers the
// conversation; Codex is logged in inside, and still is in its next run; pi does
// a plan of three units, of which one fails its validation once, and each is
// pushed to a remote. Nothing but what was named has left the machine.
func TestDay(t *testing.T) {
	t.Parallel()
	l := newProviderLab(t, yard.Unprivileged(t))
	y := l.yard
	claude := provider.New(providerKey,
		provider.Do(provider.Shell("curl -sS -m 30 http://docs.test/ > page.txt; wc -c page.txt")),
		provider.Say("the page is refused"),
		provider.Do(provider.Shell("curl -sS -m 30 http://docs.test/ > page.txt; wc -c page.txt")),
		provider.Say("the page is there"))
	pi := provider.New(providerKey,
		provider.Do(provider.Shell("echo line >> made.txt")),
		provider.Say("the unit is done"))
	l.serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/messages") {
			claude.ServeHTTP(w, r)
			return
		}
		pi.ServeHTTP(w, r)
	}))
	codex := provider.New(agentKey, provider.Do(provider.Shell("echo 42 > answer.txt")), provider.Say("all done"))
	l.lab.Handle("api.openai.com", codex)
	l.lab.Name("docs.test", netlab.Allowed)

	repository(t, y, y.Dir)
	remote := filepath.Join(y.Home, "remote.git")
	git(t, y, "/", "init", "-q", "--bare", "-b", "main", remote)
	git(t, y, y.Dir, "remote", "add", "origin", remote)
	owned(t, y, y.Dir+"/.gitignore", "page.txt\nanswer.txt\nca.pem\n", 0o644)
	owned(t, y, y.Dir+"/ca.pem", contents(t, l.lab.CAFile()), 0o644)
	// The second unit's file has three lines only after a second try.
	owned(t, y, y.Dir+"/.agents/validate.sh", "[ $(wc -l < made.txt) != 2 ] || { echo two lines are not enough; exit 4; }\n", 0o644)
	git(t, y, y.Dir, "add", ".")
	git(t, y, y.Dir, "commit", "-q", "-m", "validation")
	bailey := func(stdin string, args ...string) yard.Result {
		t.Helper()
		return y.RunFor(t, agentTime, func(c *exec.Cmd) {
			withAgents(t)(c)
			c.Stdin = strings.NewReader(stdin)
		}, args...)
	}

	// The morning.
	r := bailey("", "run", "--model", "messages", "--allow", "other.test", "claude", "-p", "read the page").OK(t)
	hasAll(t, r.Stdout, "the page is refused")
	hasAll(t, r.Stderr, "docs.test", "--allow docs.test")
	hasAll(t, contents(t, y.Dir+"/page.txt"), "bailey refused GET docs.test")
	hasNone(t, contents(t, y.Dir+"/page.txt"), "hello from")
	r = bailey("", "run", "--model", "messages", "--allow", "docs.test", "claude", "-p", "--continue", "try again").OK(t)
	hasAll(t, r.Stdout, "the page is there")
	hasAll(t, contents(t, y.Dir+"/page.txt"), "hello from docs.test")
	if !claude.Finished() {
		t.Error("the second run of Claude Code does not know of the first")
	}

	// Noon.
	ca := []string{"--env", "SSL_CERT_FILE=" + y.Dir + "/ca.pem"}
	r = bailey(agentKey+"\n", "run", "codex", "login", "--with-api-key").OK(t)
	hasAll(t, r.Stderr, "login made inside: codex (.codex/auth.json)")
	work := []string{"codex", "exec", "--skip-git-repo-check", "what is the answer"}
	r = bailey("", append(append([]string{"run"}, ca...), work...)...).OK(t)
	hasAll(t, r.Stderr, "logged in: codex")
	if got := contents(t, y.Dir+"/answer.txt"); got != "42\n" || !codex.Finished() {
		t.Errorf("answer.txt: %q\n%s%s", got, r.Stdout, r.Stderr)
	}
	r = bailey("", append(append([]string{"run", "--ephemeral-home"}, ca...), work...)...)
	if r.Code == 0 {
		t.Errorf("it is logged in without its home:\n%s%s", r.Stdout, r.Stderr)
	}

	// The afternoon.
	plan := y.WriteHome(t, "plan.md", "---\nagent: pi\nmodel: chat\n---\n# Plan\n- [ ] First\n- [ ] Second\n- [ ] Third\n")
	r = l.phase(t, plan, "--push", "origin").OK(t)
	hasAll(t, r.Stdout, "3 of 3 units done", "Second: done")
	for _, dir := range []string{y.Dir, remote} {
		if got := git(t, y, dir, "log", "-3", "--format=%an %s", "--name-only", "main"); got != "Ada Third\n\nmade.txt\nAda Second\n\nmade.txt\nAda First\n\nmade.txt\n" {
			t.Errorf("%s has:\n%s", dir, got)
		}
	}
	for i, want := range []string{"line\nline\nline\nline\n", "line\nline\nline\n", "line\n"} {
		if got := git(t, y, remote, "show", "main"+strings.Repeat("^", i)+":made.txt"); got != want {
			t.Errorf("pushed, %d before the last: %q", i, got)
		}
	}
	told := false
	for _, q := range pi.Requests() {
		told = told || strings.Contains(string(q.Body), "two lines are not enough")
	}
	if !told {
		t.Error("no try was told what the validation printed")
	}
	if got := git(t, y, y.Dir, "status", "--porcelain"); got != "" {
		t.Errorf("the tree is not clean:\n%s", got)
	}

	// The evening.
	for _, p := range [][]string{claude.Problems(), codex.Problems(), pi.Problems()} {
		for _, problem := range p {
			t.Errorf("provider: %s", problem)
		}
	}
	for _, c := range l.lab.Connections() {
		if to := c.To.String(); to != providerAt && c.To.Addr() != netlab.Resolver && c.To.Addr() != netlab.Allowed {
			t.Errorf("%s to %s left the machine", c.Proto, c.To)
		}
	}
	for _, q := range l.lab.Questions() {
		if q.Name != "docs.test." && q.Name != "api.openai.com." {
			t.Errorf("%s %s was asked for", q.Type, q.Name)
		}
	}
}
