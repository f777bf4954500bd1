package policy_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/policy"
)

func gitRule(t *testing.T, repo string, s policy.SSH) policy.Rule {
	t.Helper()
	host, login, path, err := policy.ParseGit(repo)
	if err != nil {
		t.Fatal(err)
	}
	s.Login, s.Repositories = login, append(s.Repositories, path)
	r, err := host.With(policy.Narrow{SSH: &s})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestEGR14_SSHDecisions: a rule for git over SSH is for its user, repositories
// and verbs, takes the port from everything else, and opens nothing else.
func TestEGR14_SSHDecisions(t *testing.T) {
	t.Parallel()
	fetch := gitRule(t, "git@a.test:team/repo.git", policy.SSH{})
	push := gitRule(t, "ssh://me@a.test:2222/srv/x.git", policy.SSH{Push: true, Branches: []string{"agent/*"}})
	plain, err := policy.ParseRule("a.test:22")
	if err != nil {
		t.Fatal(err)
	}
	ask := func(port uint16, login, command, path string) policy.Request {
		return policy.Request{Protocol: policy.ProtocolSSH, Host: "a.test", Port: port, Login: login, Method: command, Path: path}
	}
	for _, mode := range []bailey.NetMode{bailey.NetAllow, bailey.NetOpen, bailey.NetFull} {
		p := policy.Policy{Mode: mode, Allow: []policy.Rule{plain, fetch, push}}
		for _, tc := range []struct {
			r    policy.Request
			want bool
		}{
			{ask(22, "git", "git-upload-pack", "team/repo.git"), true},
			{ask(22, "git", "git-upload-pack", "/team/repo"), true},
			{ask(22, "git", "git-receive-pack", "team/repo.git"), false},
			{ask(22, "root", "git-upload-pack", "team/repo.git"), false},
			{ask(22, "git", "git-upload-pack", "team/repo.git.git"), false},
			{ask(22, "git", "git-upload-pack", "team/../team/repo.git"), false},
			{ask(22, "git", "git-upload-pack", ""), false},
			{ask(22, "git", "", "team/repo.git"), false},
			{ask(2222, "git", "git-upload-pack", "team/repo.git"), false},
			{ask(2222, "me", "git-receive-pack", "srv/x"), true},
			{policy.Request{Protocol: policy.ProtocolTCP, Host: "a.test", Port: 22}, false},
			{policy.Request{Protocol: policy.ProtocolTLS, Host: "a.test", Port: 2222}, false},
			{policy.Request{Protocol: policy.ProtocolDNS, Host: "a.test"}, true},
			{policy.Request{Protocol: policy.ProtocolTLS, Host: "a.test", Port: 443}, mode != bailey.NetAllow},
			{policy.Request{Protocol: policy.ProtocolSSH, Host: "b.test", Port: 22, Login: "git", Method: "git-upload-pack", Path: "team/repo.git"}, false},
		} {
			if d := policy.Decide(p, tc.r); (d.Verdict == bailey.Allow) != tc.want {
				t.Errorf("%s: %+v: %+v", mode, tc.r, d)
			}
		}
		p.Deny = []policy.Rule{plain}
		if d := policy.Decide(p, ask(22, "git", "git-upload-pack", "team/repo.git")); d.Reason != policy.ReasonDeniedByRule {
			t.Errorf("deny does not win: %+v", d)
		}
	}
	p := policy.Policy{Mode: bailey.NetAllow, Allow: []policy.Rule{fetch, push}}
	if g, ok := p.GrantGit(ask(2222, "me", "git-receive-pack", "srv/x")); !ok || g.Repository != "/srv/x.git" || len(g.Branches) != 1 {
		t.Errorf("%+v, %v", g, ok)
	}
	if _, ok := p.GrantGit(ask(22, "git", "git-receive-pack", "team/repo.git")); ok {
		t.Error("granted beyond the rule")
	}
	for _, r := range p.Allow { // as it goes between processes
		b, err := json.Marshal(r)
		var back policy.Rule
		if err == nil {
			err = json.Unmarshal(b, &back)
		}
		if err != nil || cmp.Diff(r.Text(), back.Text()) != "" {
			t.Errorf("%s: %s, %v", r.Text(), back.Text(), err)
		}
	}
	all := policy.Policy{Mode: bailey.NetFull, Allow: []policy.Rule{plain}}
	if all.Covers(fetch) || p.Covers(plain) || !p.Covers(fetch) {
		t.Error("what covers a rule for git over SSH is such a rule alone")
	}
	if more := gitRule(t, "git@a.test:team/repo.git", policy.SSH{Push: true}); p.Covers(more) {
		t.Error("fetching covers pushing")
	}
	if wide := gitRule(t, "ssh://me@a.test:2222/srv/x.git", policy.SSH{Push: true}); p.Covers(wide) {
		t.Error("some branches cover all")
	}
}

// TestParseGit reads what git's users write, and refuses what means two things.
func TestParseGit(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"git@a.test:x/y.git": "a.test:22 git x/y.git", "ssh://git@a.test/x/y": "a.test:22 git /x/y", "ssh://me@a.test:2222/srv/y.git": "a.test:2222 me /srv/y.git", "git@A.Test:/srv/y": "a.test:22 git /srv/y",
	} {
		host, login, path, err := policy.ParseGit(in)
		if got := host.String() + " " + login + " " + path; err != nil || got != want {
			t.Errorf("%s: %s, %v", in, got, err)
		}
	}
	for _, bad := range []string{
		"", "a.test:x", "git@a.test", "git@a.test:", "git@a.test:../x", "git@a.test:x/../y", "git@a.test:~x", "git@a.test:x//y", "git@a.test:x/", "git@a.test:x y", "git@a.test:-x", "git@a.test:x/-y",
		"git@a.test:x%2ey", "git@a.test:x'y", "git@a.test:x\ny", "-o@a.test:x", "git@*.a.test:x", "git@11.0.0.1:x", "https://a.test/x", "ssh://a.test/x", "ssh://git:pw@a.test/x", "git@a b:x", "ssh://git@a.test:0/x",
	} {
		if host, login, path, err := policy.ParseGit(bad); err == nil {
			t.Errorf("%q: %s %s %s", bad, host, login, path)
		}
	}
}
