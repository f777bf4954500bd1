package spec_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/bailey-dev/bailey/internal/testkit/netlab"
	"github.com/bailey-dev/bailey/internal/testkit/origin"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// gitHost is a host that offers git over SSH as a real one does, and a shell and
// port forwarding besides.
type gitHost struct {
	t      *testing.T
	root   string
	key    ssh.Signer
	config *ssh.ServerConfig

	mu   sync.Mutex
	seen []string // commands, and what else was asked for
}

// newGitHost listens in the lab. It lets in who has the key; nil: everybody.
func newGitHost(t *testing.T, lab *netlab.Lab, at, root string, user ssh.PublicKey) *gitHost {
	t.Helper()
	h := &gitHost{t: t, root: root, key: newKey(t)}
	h.config = &ssh.ServerConfig{NoClientAuth: user == nil, PublicKeyCallback: func(_ ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
		if user == nil || string(k.Marshal()) != string(user.Marshal()) {
			return nil, fmt.Errorf("another key")
		}
		return &ssh.Permissions{}, nil
	}}
	h.config.AddHostKey(h.key)
	ln := lab.Listen(at)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go h.serve(c)
		}
	}()
	return h
}

func newKey(t *testing.T) ssh.Signer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (h *gitHost) note(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen = append(h.seen, what)
}

func (h *gitHost) asked() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := h.seen
	h.seen = nil
	return out
}

func (h *gitHost) serve(c net.Conn) {
	defer c.Close()
	conn, channels, requests, err := ssh.NewServerConn(c, h.config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for ch := range channels {
		if ch.ChannelType() != "session" {
			h.note(ch.ChannelType())
			got, in, err := ch.Accept()
			if err == nil {
				go ssh.DiscardRequests(in)
				_, _ = io.WriteString(got, "forwarded\n")
				_ = got.Close()
			}
			continue
		}
		got, in, err := ch.Accept()
		if err != nil {
			return
		}
		go h.session(conn.User(), got, in)
	}
}

func (h *gitHost) session(user string, ch ssh.Channel, in <-chan *ssh.Request) {
	defer ch.Close()
	var env []string
	for r := range in {
		_ = r.Reply(true, nil)
		switch r.Type {
		case "env":
			var kv struct{ Name, Value string }
			_ = ssh.Unmarshal(r.Payload, &kv)
			env = append(env, kv.Name+"="+kv.Value)
			continue
		case "exec":
			var line struct{ Line string }
			_ = ssh.Unmarshal(r.Payload, &line)
			h.note(user + " " + line.Line)
			cmd := exec.Command("sh", "-c", line.Line)
			cmd.Dir, cmd.Env = h.root, append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + h.root, "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"}, env...)
			cmd.Stdout, cmd.Stderr = ch, ch.Stderr()
			code := uint32(0)
			stdin, err := cmd.StdinPipe()
			if err != nil {
				return
			}
			go func() { // which must not keep the command's end waiting for the client's
				_, _ = io.Copy(stdin, ch)
				_ = stdin.Close()
			}()
			if err := cmd.Run(); err != nil {
				code = 1
			}
			_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(struct{ C uint32 }{code}))
			return
		default:
			h.note(r.Type)
			_, _ = io.WriteString(ch, "did it\n")
			return
		}
	}
}

// keyAgent is an agent of the user's that counts what it signs.
type keyAgent struct {
	agent.Agent
	signed atomic.Int64
}

func (a *keyAgent) Sign(key ssh.PublicKey, data []byte) (*ssh.Signature, error) {
	a.signed.Add(1)
	return a.Agent.Sign(key, data)
}

func newAgent(t *testing.T, _ *yard.Yard) (*keyAgent, ssh.PublicKey, string) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := &keyAgent{Agent: agent.NewKeyring()}
	if err := a.Add(agent.AddedKey{PrivateKey: private}); err != nil {
		t.Fatal(err)
	}
	s, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "agent-") //nolint:usetesting // a path that is short for a socket's sake
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "agent.sock")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	if err := os.Chmod(path, 0o777); err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() { _ = agent.ServeAgent(a, c) }()
		}
	}()
	return a, s.PublicKey(), path
}

// gitWorld is a host with two repositories, and a user who may enter it.
type gitWorld struct {
	*gitHost
	y     *yard.Yard
	lab   *netlab.Lab
	agent *keyAgent
	sock  string
	team  *origin.Git
}

func newGitWorld(t *testing.T, y *yard.Yard, open bool) *gitWorld {
	t.Helper()
	w := &gitWorld{y: y, lab: netlab.New(t)}
	var user ssh.PublicKey
	w.agent, user, w.sock = newAgent(t, y)
	root := t.TempDir()
	w.team = origin.NewGit(t)
	for name, from := range map[string]string{"team/repo.git": w.team.Dir, "other/repo.git": origin.NewGit(t).Dir} {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(from, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	if open {
		user = nil
	}
	w.gitHost = newGitHost(t, w.lab, netlab.Allowed.String()+":22", root, user)
	w.lab.Name("git.test", netlab.Allowed)
	w.knows(t, w.key.PublicKey())
	y.Wrap = w.lab.Enter
	return w
}

// knows has the user know a key of the host.
func (w *gitWorld) knows(t *testing.T, key ssh.PublicKey) {
	t.Helper()
	w.y.WriteHome(t, ".ssh/known_hosts", "git.test "+string(ssh.MarshalAuthorizedKey(key)))
}

// sh runs a script with git and ssh, and the user's agent outside.
func (w *gitWorld) sh(t *testing.T, script string, flags ...string) yard.Result {
	t.Helper()
	args := append([]string{"run", "--name", "web"}, flags...)
	return w.y.RunWith(t, func(c *exec.Cmd) { c.Env = append(c.Env, "SSH_AUTH_SOCK="+w.sock) },
		append(args, "--", "sh", "-c", "export GIT_TERMINAL_PROMPT=0 GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_0=user.name GIT_CONFIG_VALUE_0=a GIT_CONFIG_KEY_1=user.email GIT_CONFIG_VALUE_1=a@example.com; cd /tmp\n"+script)...)
}

func saysAll(t *testing.T, r yard.Result, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(r.Stdout+r.Stderr, text) {
			t.Errorf("no %q in\n%s%s", text, r.Stdout, r.Stderr)
		}
	}
}

// TestEGR14_GitOverSSH: a rule for repositories over SSH lets real git fetch from
// those alone, and push where it says so, by the user's key, which nobody inside
// has.
func TestEGR14_GitOverSSH(t *testing.T) {
	t.Attr("claim", "EGR-14")
	t.Attr("claim", "SEC-06")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		w := newGitWorld(t, y, false)
		const both = `
git clone -q git@git.test:team/repo.git a 2>&1 && echo cloned && cat a/README
git clone -q ssh://git@git.test/team/repo b 2>&1 && echo cloned the other way
cd a && git commit -q --allow-empty -m "from inside" && git push -q origin HEAD:main 2>&1 && echo pushed
env | grep -i ssh_auth; ls /tmp/ssh-* ~/.ssh 2>&1; true`
		r := w.sh(t, both, "--git", "git@git.test:team/repo.git").OK(t)
		saysAll(t, r, "cloned", "first words", "cloned the other way", "bailey: of git.test only git over SSH as git, fetch team/repo.git is allowed, not git-receive-pack of team/repo.git", "--git git@git.test:team/repo.git:rw",
			"signed outside by your ssh-agent", "known_hosts")
		if strings.Contains(r.Stdout, "pushed") || strings.Contains(r.Stdout, "SSH_AUTH") || w.team.Log(t) != "first\n" {
			t.Errorf("pushed without write, or an agent inside: %s", r.Stdout)
		}
		if got := strings.Join(w.asked(), "; "); got != "git git-upload-pack 'team/repo.git'; git git-upload-pack 'team/repo.git'" {
			t.Errorf("the host was asked for %q", got)
		}
		if w.agent.signed.Load() != 2 {
			t.Errorf("the agent signed %d times", w.agent.signed.Load())
		}
		r = w.sh(t, both, "--git", "git@git.test:team/repo.git:rw").OK(t)
		saysAll(t, r, "pushed")
		if got := w.team.Log(t); got != "from inside\nfirst\n" {
			t.Errorf("pushed: %q", got)
		}
		var last netRecord
		for _, rec := range recordsIn(t, y.Run(t, "net", "log", "--json").OK(t).Stdout) {
			if rec.Proto == "ssh" {
				last = rec
			}
		}
		if last.Method != "git-receive-pack" || last.Path != "git@git.test:team/repo.git" || last.Verdict != "allow" || last.BytesOut < 100 || last.Name != "git.test" {
			t.Errorf("record: %+v", last)
		}
	})
}

// TestEGR14_GitOverSSHAttacks: nothing else of the host passes. The twin has a
// rule for the port in place of the repositories, and a host that lets anybody in.
func TestEGR14_GitOverSSHAttacks(t *testing.T) {
	t.Attr("claim", "EGR-14")
	t.Attr("claim", "EGR-13")
	t.Parallel()
	const ask = "ssh -T -o BatchMode=yes -o ConnectTimeout=10 -o StrictHostKeyChecking=accept-new git@git.test "
	attacks := []struct{ name, command, reached string }{
		{"another repository", "git clone -q git@git.test:other/repo.git x && cat x/README", "first words"},
		{"path climbs", ask + `"git-upload-pack 'team/../other/repo.git'" </dev/null`, "refs/heads/main"},
		{"two commands", ask + `"git-upload-pack 'none'; ls" </dev/null`, "team"},
		{"quote", ask + `"git-upload-pack 'team/repo.git'; ls '.'" </dev/null`, "other"},
		{"no quote", ask + `"git-upload-pack other/repo.git" </dev/null`, "refs/heads/main"},
		{"substitution", ask + `'git-upload-pack "$(echo other/repo.git)"' </dev/null`, "refs/heads/main"},
		{"option", ask + `"git-upload-pack --strict 'other/repo.git'" </dev/null`, "refs/heads/main"},
		{"another command of git", ask + `"git -C other/repo.git log --format=%s"`, "first"},
		{"archive", "git archive --remote=git@git.test:other/repo.git HEAD | tar t", "README"},
		{"command", ask + "echo did", "did"},
		{"shell", "echo | timeout 10 " + ask + "-v 2>&1", "did it"},
		{"subsystem", "timeout 10 " + ask + "-v -s sftp 2>&1 </dev/null", "did it"},
		{"forwarding", "timeout 10 " + ask + "-W evil.test:80", "forwarded"},
		{"another user", "ssh -T -o BatchMode=yes -o StrictHostKeyChecking=accept-new root@git.test \"git-upload-pack 'team/repo.git'\" </dev/null", "refs/heads/main"},
		{"variable", "LC_X=1 GIT_PROTOCOL='version=2:x' ssh -T -o BatchMode=yes -o StrictHostKeyChecking=accept-new -o SendEnv='LC_X GIT_PROTOCOL' git@git.test 'echo $LC_X$GIT_PROTOCOL'", "1version"},
	}
	var script strings.Builder
	for i, a := range attacks {
		fmt.Fprintf(&script, "echo '#%d'; ( %s ) 2>&1; echo\n", i, a.command)
	}
	results := func(r yard.Result) []string {
		var out []string
		for i := range attacks {
			_, rest, _ := strings.Cut(r.Stdout, fmt.Sprintf("#%d\n", i))
			rest, _, _ = strings.Cut(rest, fmt.Sprintf("#%d\n", i+1))
			out = append(out, rest)
		}
		return out
	}
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		w := newGitWorld(t, y, false)
		r := w.sh(t, script.String(), "--git", "git@git.test:team/repo.git")
		for i, got := range results(r) {
			a := attacks[i]
			says := strings.Contains(got, "bailey: ") || a.name == "forwarding" && strings.Contains(got, "administratively prohibited")
			if strings.Contains(got, a.reached) || !says {
				t.Errorf("%s: %s", a.name, got)
			}
		}
		if asked := w.asked(); len(asked) != 0 || w.agent.signed.Load() != 0 {
			t.Errorf("the host was asked for %q, and %d signatures were made", asked, w.agent.signed.Load())
		}
		rules := y.Run(t, "net", "log", "--json", "--denied").OK(t)
		for _, want := range []string{"repository-not-allowed", "command-not-allowed", "ssh://git@git.test:22/"} {
			if want != "ssh://git@git.test:22/" && !strings.Contains(rules.Stdout, want) {
				t.Errorf("no %s on record:\n%s", want, rules.Stdout)
			}
		}
		t.Run("twin", func(t *testing.T) {
			w := newGitWorld(t, y, true)
			y.WriteHome(t, ".none", "")
			twin := w.sh(t, "export GIT_SSH_COMMAND='ssh -o StrictHostKeyChecking=accept-new'\n"+script.String(), "--allow", "git.test:22")
			for i, got := range results(twin) {
				if a := attacks[i]; !strings.Contains(got, a.reached) {
					t.Errorf("%s: the attack does not work without the control: %s", a.name, got)
				}
			}
		})
	})
}

// TestEGR14_GitOverSSHHostKeys: a host is entered only under a key that the user
// knows, and the sandbox can do nothing about it.
func TestEGR14_GitOverSSHHostKeys(t *testing.T) {
	t.Attr("claim", "EGR-14")
	t.Attr("claim", "EGR-04")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		w := newGitWorld(t, y, false)
		const clone = "git clone -q git@git.test:team/repo.git a 2>&1 && echo cloned; rm -rf a; true"
		refused := func(why, text string) {
			t.Helper()
			r := w.sh(t, clone, "--git", "git@git.test:team/repo.git").OK(t)
			if strings.Contains(r.Stdout, "cloned") || !strings.Contains(r.Stdout, text) {
				t.Errorf("%s: want %q in %s%s", why, text, r.Stdout, r.Stderr)
			}
			if w.agent.signed.Load() != 0 || len(w.asked()) != 0 {
				t.Errorf("%s: something was signed or done", why)
			}
		}
		w.knows(t, newKey(t).PublicKey())
		refused("another key", "is not the one that you know")
		y.WriteHome(t, ".ssh/known_hosts", "other.test "+string(ssh.MarshalAuthorizedKey(w.key.PublicKey())))
		refused("no key", "is not among those that you know")
		y.WriteHome(t, ".ssh/known_hosts", "@revoked * "+string(ssh.MarshalAuthorizedKey(w.key.PublicKey()))+"git.test "+string(ssh.MarshalAuthorizedKey(w.key.PublicKey())))
		refused("revoked", "revoked")
		w.knows(t, w.key.PublicKey())
		saysAll(t, w.sh(t, clone, "--git", "git@git.test:team/repo.git"), "cloned")
		w.agent.signed.Store(0)
		// Nobody's key: the user's agent holds another one.
		_ = w.agent.RemoveAll()
		r := w.sh(t, clone, "--git", "git@git.test:team/repo.git")
		saysAll(t, r, "takes none of your keys for git")
	})
}

// TestEGR14_GitOverSSHBranches: with branches a push changes those alone, and
// deletes none.
func TestEGR14_GitOverSSHBranches(t *testing.T) {
	t.Attr("claim", "EGR-14")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		w := newGitWorld(t, y, false)
		userPolicy(t, y, "net:\n  git:\n    repositories: [git@git.test:team/repo.git]\n    write: true\n    branches: [agent/*]\n")
		push := func(what, refs string) string {
			return "git push -q -f origin " + refs + " 2>&1 && echo '" + what + " passed'\n"
		}
		script := "git clone -q git@git.test:team/repo.git a && cd a && git commit -q --allow-empty -m new\n" +
			push("main", "HEAD:main") + push("agent", "HEAD:agent/one") + push("both", "HEAD:agent/two HEAD:main") +
			push("tag", "HEAD:refs/tags/v1") + push("deletion", ":agent/one") + push("climb", "HEAD:refs/heads/agent/../main") + "true"
		r := w.sh(t, script).OK(t)
		saysAll(t, r, "agent passed", "refs/heads/main is not one of the branches", "refs/tags/v1 is not one", "no branch may be deleted")
		for _, no := range []string{"main passed", "both passed", "tag passed", "deletion passed", "climb passed"} {
			if strings.Contains(r.Stdout, no) {
				t.Errorf("%s:\n%s", no, r.Stdout)
			}
		}
		if w.team.Log(t) != "first\n" {
			t.Error("main was changed")
		}
		// Twin: without branches all of it passes but what the host itself refuses.
		userPolicy(t, y, "net:\n  git:\n    repositories: [git@git.test:team/repo.git]\n    write: true\n")
		saysAll(t, w.sh(t, script), "main passed", "agent passed", "both passed", "tag passed", "deletion passed")
	})
}

// TestEGR13_GitOverSSHProject: a project's file takes repositories away and adds
// none, and names no key.
func TestEGR13_GitOverSSHProject(t *testing.T) {
	t.Attr("claim", "EGR-13")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		userPolicy(t, y, "net: {git: {repositories: ['git@git.test:team/repo.git']}}\n")
		y.Write(t, "bailey.yaml", "net: {git: {repositories: ['git@git.test:other/repo.git']}}\n")
		doesNotStart(t, y, "would widen what you allow (allow git.test:22 git over SSH as git, fetch other/repo.git)")
		y.Write(t, "bailey.yaml", "net: {git: {repositories: ['git@git.test:team/repo.git'], write: true}}\n")
		doesNotStart(t, y, "fetch and push team/repo.git")
		y.Write(t, "bailey.yaml", "net: {git: {repositories: ['git@git.test:team/repo.git'], key: /etc/key}}\n")
		doesNotStart(t, y, "only your own file says which key is yours")
		y.Write(t, "bailey.yaml", "net: {deny: [git.test]}\n")
		r := y.Sh(t, "ssh git@git.test 2>&1 | head -1")
		saysAll(t, r, "denied: git.test")
		for _, bad := range []string{"git@git.test:../x", "git@git.test:a//b", "git@git.test:~me/x", "https://git.test/a/b", "git@git.test:a%2e", "git.test:a/b", "-x@git.test:a/b", "git@*.test:a/b"} {
			if r := y.Sh(t, "true", "--git", bad); r.Code != 125 || !strings.Contains(r.Stderr, "--git") {
				t.Errorf("%s: %d %s", bad, r.Code, r.Stderr)
			}
		}
	})
}
