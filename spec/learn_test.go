package spec_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey/internal/testkit/netlab"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// TestEGR13_Learn: a run that learns reaches nothing more for that, and what it
// proposes lets through what it asked for, and no more.
func TestEGR13_Learn(t *testing.T) {
	t.Attr("claim", "EGR-13")
	t.Attr("claim", "EGR-11")
	t.Attr("claim", "ISO-11")
	t.Parallel()
	const script = `
get() { curl -sS --max-time 20 "$@" 2>&1 | head -c 200; echo; }
get http://allow.test/
get http://www.allow.test:80/
get http://evil.test/
get -A "$(printf 'x\033[31m\nnet: {mode: full}')" http://evil.test/
get http://169.254.169.254/
get http://metadata.google.internal/
get -H 'Host: a"],"mode":"full' http://evil.test/
git ls-remote ssh://git@evil.test/team/repo.git </dev/null
true`
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		lab := netlab.New(t)
		y.Wrap = lab.Enter
		r := y.Sh(t, script, "--tool", "curl", "--learn").OK(t)
		if strings.Contains(r.Stdout, "hello from") || len(lab.ConnectionsTo(netlab.Allowed))+len(lab.ConnectionsTo(netlab.Evil)) > 0 {
			t.Errorf("something was reached:\n%s", r.Stdout)
		}
		saysAll(t, r, "learn: what is asked for beyond that is refused", `{host: "allow.test", ports: [80], why: "refused once`, `{host: "evil.test", ports: [80]`,
			`# left out: 169.254.169.254: a private or special address`)
		if strings.Contains(r.Stderr, "\x1b") || strings.Contains(r.Stderr, "bailey:   net: {mode") {
			t.Errorf("a sandbox's words in it:\n%s", r.Stderr)
		}
		path := filepath.Join(y.Dir, "proposal.yaml")
		y.Sh(t, script, "--tool", "curl", "--learn="+path).OK(t)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text := string(b)
		if strings.Contains(text, "169.254.169.254\"") || strings.Contains(text, "\n  mode: full") {
			t.Errorf("proposed:\n%s", text)
		}
		// What it proposes is a policy that is enough.
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		userPolicy(t, y, text)
		r = y.Sh(t, script, "--tool", "curl").OK(t)
		saysAll(t, r, "hello from allow.test", "hello from www.allow.test", "hello from evil.test")
		// And what is used of a wider one is less than that: the smallest.
		userPolicy(t, y, "net: {allow: [allow.test, evil.test, {host: www.allow.test, methods: [GET], paths: [/x/*]}]}\n")
		r = y.Sh(t, "curl -sS http://allow.test/; curl -sS http://www.allow.test/x/1; curl -sS -d a=b http://www.allow.test/y", "--tool", "curl", "--learn").OK(t)
		saysAll(t, r, `{host: "allow.test", ports: [80], why: "used once`, `{host: "www.allow.test", ports: [80], methods: [GET, POST], paths: ["/x/1", "/y"]`)
		if strings.Contains(r.Stderr, `host: "evil.test"`) {
			t.Errorf("what was not asked for is proposed:\n%s", r.Stderr)
		}
		// Where nothing of what was refused is proposed, that is said.
		r = y.Sh(t, "curl -sS --max-time 20 http://169.254.169.254/; true", "--tool", "curl", "--learn", "--net", "open").OK(t)
		saysAll(t, r, "learn: nothing is proposed; what was refused is left out:", "  169.254.169.254: a private or special address")
		saysAll(t, y.Sh(t, "true", "--learn").OK(t), "learn: nothing is proposed: no connection was asked for")
		// The file is nobody's to choose but the user's.
		y.Write(t, "there.yaml", "x")
		saysAll(t, y.Sh(t, "true", "--learn=there.yaml").Exit(t, 125), "there is such a file already")
		saysAll(t, y.Sh(t, "true", "--learn", "--net", "none").Exit(t, 125), "contradict")
		r = y.Sh(t, "ln -s "+filepath.Join(y.Home, "victim")+" planted.yaml; curl -sS http://allow.test/", "--tool", "curl", "--learn=planted.yaml").OK(t)
		saysAll(t, r, "write the proposed policy")
		if _, err := os.Stat(filepath.Join(y.Home, "victim")); err == nil {
			t.Error("the proposal was written through a link of the sandbox's")
		}
	})
}

// TestEGR13_LearnPresets: hosts that a preset has are proposed by its name.
func TestEGR13_LearnPresets(t *testing.T) {
	t.Attr("claim", "EGR-13")
	t.Parallel()
	y := yard.Root(t)
	lab := netlab.New(t)
	for _, name := range []string{"pypi.org", "files.pythonhosted.org"} {
		lab.Name(name, netip.MustParseAddr("11.0.0.10"))
	}
	y.Wrap = lab.Enter
	r := y.Sh(t, "curl -sS https://pypi.org/ -k; curl -ksS https://files.pythonhosted.org/; curl -sS http://allow.test/", "--tool", "curl", "--learn")
	saysAll(t, r, "presets:", "files.pythonhosted.org, pypi.org", `host: "allow.test"`)
	if strings.Contains(r.Stderr, `host: "pypi.org"`) {
		t.Errorf("a host of a preset is proposed too:\n%s", r.Stderr)
	}
}
