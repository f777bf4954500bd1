package policy_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/policy"
)

// narrowed makes a rule narrower, or ends the test.
func narrowed(t *testing.T, host string, n policy.Narrow) policy.Rule {
	t.Helper()
	r, err := policy.ParseTarget(host, n.Addresses)
	if err == nil {
		r, err = r.With(n)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func prefixes(texts ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range texts {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

func request(host string, port uint16, method, path string) policy.Request {
	return policy.Request{Protocol: policy.ProtocolHTTP, Host: host, Port: port, Method: method, Path: path}
}

func TestDecide_RequestsOfAHost(t *testing.T) {
	t.Parallel()
	p := policy.Policy{
		Mode: bailey.NetAllow,
		Allow: []policy.Rule{
			narrowed(t, "api.test", policy.Narrow{Methods: []string{"GET", "HEAD"}, Paths: []string{"/v1/*", "/health", "/repos/*/issues"}}),
			narrowed(t, "post.test:80", policy.Narrow{Methods: []string{"POST"}}),
			narrowed(t, "whole.test", policy.Narrow{Paths: []string{"/only"}}),
			{Host: "whole.test"},
			{Host: "part.test"},
		},
		Deny: []policy.Rule{
			narrowed(t, "part.test", policy.Narrow{Methods: []string{"DELETE"}}),
			narrowed(t, "part.test", policy.Narrow{Paths: []string{"/admin/*"}}),
		},
	}
	for _, c := range []struct {
		ask    policy.Request
		reason string
	}{
		{request("api.test", 80, "GET", "/v1/models"), ""},
		{request("API.test.", 80, "HEAD", "/v1/a/b"), ""},
		{request("api.test", 80, "GET", "/v1/"), ""},
		{request("api.test", 80, "GET", "/health"), ""},
		{request("api.test", 80, "GET", "/repos/x/issues"), ""},
		{request("api.test", 80, "GET", "/repos/x/y/issues"), policy.ReasonPath},
		{request("api.test", 80, "GET", "/repos//issues"), policy.ReasonBadPath},
		{request("api.test", 80, "GET", "/v1"), policy.ReasonPath},
		{request("api.test", 80, "GET", "/v1evil"), policy.ReasonPath},
		{request("api.test", 80, "GET", "/health/"), policy.ReasonPath},
		{request("api.test", 80, "GET", "/HEALTH"), policy.ReasonPath},
		{request("api.test", 80, "POST", "/v1/models"), policy.ReasonMethod},
		{request("api.test", 80, "get", "/v1/models"), policy.ReasonMethod},
		{request("api.test", 81, "GET", "/v1/models"), policy.ReasonPortNotAllowed},
		{request("api.test", 80, "GET", "/v1/../admin"), policy.ReasonBadPath}, // A145
		{request("api.test", 80, "GET", "/v1/%2e%2e/admin"), policy.ReasonBadPath},
		{request("api.test", 80, "GET", "/v1/..;/admin"), policy.ReasonBadPath},
		{request("api.test", 80, "GET", `/v1/\..\admin`), policy.ReasonBadPath},
		{request("api.test", 80, "GET", "/v1/%2f../admin"), policy.ReasonBadPath},
		{request("api.test", 80, "GET", "*"), policy.ReasonBadPath},
		{request("api.test", 80, "GET", ""), policy.ReasonBadPath},
		{name("api.test", 443), policy.ReasonSealed}, // nothing of it can be seen
		{dns("api.test"), ""},
		{request("post.test", 80, "POST", "/a/../b"), ""}, // no rule is about its paths
		{request("post.test", 80, "GET", "/"), policy.ReasonMethod},
		{request("whole.test", 80, "GET", "/x"), ""},
		{name("whole.test", 443), ""},
		{request("part.test", 80, "GET", "/"), ""},
		{request("part.test", 80, "DELETE", "/"), policy.ReasonDeniedByRule},
		{request("part.test", 80, "GET", "/admin/x"), policy.ReasonDeniedByRule},
		{request("part.test", 80, "GET", "/x/../admin/x"), policy.ReasonBadPath},
		{name("part.test", 443), policy.ReasonSealed},
		{dns("part.test"), ""},
	} {
		got := policy.Decide(p, c.ask)
		if got.Reason != c.reason || (got.Verdict == bailey.Allow) != (c.reason == "") {
			t.Errorf("%+v: %+v, want reason %q", c.ask, got, c.reason)
		}
	}
}

// A rule for a repository lets git's own requests for it through, and nothing
// else of the host.
func TestDecide_Repositories(t *testing.T) {
	t.Parallel()
	p := policy.Policy{Mode: bailey.NetAllow, Allow: []policy.Rule{
		narrowed(t, "git.test", policy.Narrow{Repositories: []string{"owner/name", "top"}}),
		narrowed(t, "git.test", policy.Narrow{Repositories: []string{"owner/mine"}, Push: true}),
	}}
	const fetch, push = "service=git-upload-pack", "service=git-receive-pack"
	for _, c := range []struct{ method, path, query, reason string }{
		{"GET", "/owner/name.git/info/refs", fetch, ""},
		{"GET", "/owner/name/info/refs", fetch, ""},
		{"POST", "/owner/name.git/git-upload-pack", "", ""},
		{"GET", "/top/info/refs", fetch, ""},
		{"GET", "/owner/mine.git/info/refs", push, ""},
		{"POST", "/owner/mine/git-receive-pack", "", ""},
		{"POST", "/owner/mine/git-upload-pack", "", ""},
		{"GET", "/owner/name.git/info/refs", push, policy.ReasonPath},
		{"POST", "/owner/name.git/git-receive-pack", "", policy.ReasonPath},
		{"GET", "/owner/other.git/info/refs", fetch, policy.ReasonPath},
		{"GET", "/owner/name.git.git/info/refs", fetch, policy.ReasonPath},
		{"GET", "/owner/Name.git/info/refs", fetch, policy.ReasonPath},
		{"GET", "/x/owner/name.git/info/refs", fetch, policy.ReasonPath},
		{"GET", "/owner/name.git/info/refs", "", policy.ReasonPath},
		{"GET", "/owner/name.git/info/refs", fetch + "&" + push, policy.ReasonPath},
		{"GET", "/owner/name.git/info/refs", "service=git%2Dupload-pack", policy.ReasonPath},
		{"GET", "/owner/name.git/info/refs", push + "&" + fetch, policy.ReasonPath},
		{"POST", "/owner/name.git/info/refs", fetch, policy.ReasonPath},
		{"GET", "/owner/name.git/git-upload-pack", "", policy.ReasonPath},
		{"POST", "/owner/name.git/git-upload-pack", "x", policy.ReasonPath},
		{"GET", "/owner/name.git/HEAD", "", policy.ReasonPath},
		{"GET", "/owner/name/archive/main.zip", "", policy.ReasonPath},
		{"POST", "/owner/name.git/info/lfs/objects/batch", "", policy.ReasonPath},
		{"GET", "/", "", policy.ReasonPath},
		{"GET", "/owner/other/../name.git/info/refs", fetch, policy.ReasonBadPath},
		{"GET", "/owner/name.git//info/refs", fetch, policy.ReasonBadPath},
		{"", "", "", policy.ReasonSealed}, // TLS that nobody opens
	} {
		ask := request("git.test", 443, c.method, c.path)
		ask.Query = c.query
		got := policy.Decide(p, ask)
		if got.Reason != c.reason || (got.Verdict == bailey.Allow) != (c.reason == "") {
			t.Errorf("%s %s?%s: %+v, want reason %q", c.method, c.path, c.query, got, c.reason)
		}
		if c.query == "x" && strings.Contains(got.Detail, "?x") {
			t.Errorf("the query is repeated: %s", got.Detail)
		}
	}
	if r := p.Allow[0]; !r.InsideTLS() || r.Text() != "git.test git fetch owner/name,top" || p.Allow[1].Text() != "git.test git fetch and push owner/mine" {
		t.Errorf("%s, %s: inside TLS %v", r.Text(), p.Allow[1].Text(), r.InsideTLS())
	}
	for text, want := range map[string]string{`{"host":"git.test","git":{"repositories":[]}}`: "without repositories", `{"host":"git.test","git":{"repositories":["a/../b"]}}`: "segment of dots", `{"host":"git.test","git":{"repos":["a"]}}`: "unknown field"} {
		if err := new(policy.Rule).UnmarshalJSON([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestDecideAddr_NamedAddresses(t *testing.T) {
	t.Parallel()
	listed := policy.Policy{Mode: bailey.NetAllow, Allow: []policy.Rule{
		narrowed(t, "db.test", policy.Narrow{Addresses: prefixes("10.1.0.0/16", "11.0.0.0/24")}),
		narrowed(t, "cgnat.test", policy.Narrow{Addresses: prefixes("100.64.0.0/10")}),
		narrowed(t, "10.9.0.1:5432", policy.Narrow{Addresses: prefixes("10.9.0.1/32")}),
		{Host: "plain.test"},
	}}
	full := policy.Policy{Mode: bailey.NetFull, Allow: listed.Allow, Deny: rules(t, "denied.test")}
	open := policy.Policy{Mode: bailey.NetOpen, Allow: listed.Allow}
	for _, c := range []struct {
		policy policy.Policy
		host   string
		addr   string
		reason string
	}{
		{listed, "db.test", "10.1.2.3", ""},
		{listed, "db.test", "11.0.0.10", ""},
		{listed, "db.test", "10.2.0.1", policy.ReasonAddress},
		{listed, "db.test", "11.0.1.10", policy.ReasonAddress},
		{listed, "db.test", "127.0.0.1", policy.ReasonSpecialAddress},
		{listed, "cgnat.test", "100.64.0.1", ""},
		{listed, "cgnat.test", "100.100.100.200", policy.ReasonSpecialAddress}, // a cloud's metadata
		{listed, "plain.test", "10.1.2.3", policy.ReasonSpecialAddress},
		{listed, "plain.test", "11.0.0.10", ""},
		{open, "db.test", "10.1.2.3", ""},
		{open, "db.test", "11.9.9.9", policy.ReasonAddress},
		{open, "other.test", "10.1.2.3", policy.ReasonSpecialAddress},
		{open, "other.test", "11.9.9.9", ""},
		{full, "other.test", "10.1.2.3", ""},
		{full, "other.test", "fd12::1", ""},
		{full, "other.test", "100.64.0.1", policy.ReasonSpecialAddress},
		{full, "other.test", "169.254.169.254", policy.ReasonSpecialAddress},
		{full, "other.test", "fd00:ec2::254", policy.ReasonSpecialAddress},
		{full, "other.test", "168.63.129.16", policy.ReasonSpecialAddress},
		{full, "other.test", "127.0.0.1", policy.ReasonSpecialAddress},
		{full, "other.test", "224.0.0.251", policy.ReasonSpecialAddress},
		{full, "other.test", "192.0.0.1", policy.ReasonSpecialAddress},
	} {
		x, ask := policy.NewIndex(c.policy), name(c.host, 443)
		got := x.DecideAddr(ask, x.Decide(ask), netip.MustParseAddr(c.addr))
		if got.Reason != c.reason || (got.Verdict == bailey.Allow) != (c.reason == "") {
			t.Errorf("mode %s, %s at %s: %+v, want reason %q", c.policy.Mode, c.host, c.addr, got, c.reason)
		}
	}
	for _, c := range []struct {
		policy policy.Policy
		ask    policy.Request
		reason string
	}{
		{listed, literal("10.9.0.1", 5432), ""},
		{listed, literal("10.9.0.1", 22), policy.ReasonPortNotAllowed},
		{listed, literal("10.9.0.2", 5432), policy.ReasonSpecialAddress},
		{full, literal("10.9.0.2", 22), ""},
		{full, literal("169.254.169.254", 80), policy.ReasonSpecialAddress},
		{full, literal("127.0.0.1", 80), policy.ReasonSpecialAddress},
		{full, name("denied.test", 22), policy.ReasonDeniedByRule},
		{full, name("localhost", 22), policy.ReasonSpecialAddress},
	} {
		if got := policy.Decide(c.policy, c.ask); got.Reason != c.reason {
			t.Errorf("mode %s, %+v: %+v, want reason %q", c.policy.Mode, c.ask, got, c.reason)
		}
	}
}

// An address of this machine needs a rule that names it, whatever range holds it.
func TestDecideHostAddress_Private(t *testing.T) {
	t.Parallel()
	own := netip.MustParseAddr("10.1.0.7")
	fenced := narrowed(t, "fenced.test", policy.Narrow{Addresses: prefixes("10.1.0.7/32")})
	fenced.Fenced = true
	p := policy.Policy{Mode: bailey.NetFull, Allow: []policy.Rule{
		narrowed(t, "range.test", policy.Narrow{Addresses: prefixes("10.1.0.0/16")}),
		narrowed(t, "exact.test", policy.Narrow{Addresses: prefixes("10.1.0.7/32")}),
		fenced,
		{Host: "plain.test"},
	}}
	for host, reason := range map[string]string{
		"exact.test": "", "range.test": policy.ReasonHostAddress, "fenced.test": policy.ReasonHostAddress,
		"plain.test": policy.ReasonHostAddress, "other.test": policy.ReasonHostAddress,
	} {
		x, ask := policy.NewIndex(p), name(host, 443)
		if got := x.DecideHostAddress(ask, x.DecideAddr(ask, x.Decide(ask), own), own, false); got.Reason != reason {
			t.Errorf("%s: %+v, want reason %q", host, got, reason)
		}
	}
}

func TestDecide_ServicesOfTheMachine(t *testing.T) {
	t.Parallel()
	service, err := policy.ServiceRule(5432)
	if err != nil {
		t.Fatal(err)
	}
	with := policy.Policy{Mode: bailey.NetAllow, Allow: []policy.Rule{service}}
	loopback, six := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")
	for _, c := range []struct {
		policy policy.Policy
		ask    policy.Request
		addr   netip.Addr
		reason string
	}{
		{with, name(policy.ServiceHost, 5432), loopback, ""},
		{with, name("HOST.bailey.internal.", 5432), six, ""},
		{with, name(policy.ServiceHost, 5432), netip.MustParseAddr("127.0.0.2"), policy.ReasonSpecialAddress},
		{with, name(policy.ServiceHost, 5432), netip.MustParseAddr("11.0.0.10"), policy.ReasonSpecialAddress},
		{with, name(policy.ServiceHost, 5433), loopback, policy.ReasonNotAllowed},
		{with, name("x.bailey.internal", 5432), loopback, policy.ReasonNotAllowed},
		{with, dns(policy.ServiceHost), policy.ServiceAddr(), ""},
		{with, dns(policy.ServiceHost), loopback, policy.ReasonSpecialAddress},
		{policy.Policy{Mode: bailey.NetFull}, name(policy.ServiceHost, 5432), loopback, policy.ReasonNotAllowed},
		{policy.Policy{Mode: bailey.NetOpen, DNS: bailey.DNSOpen}, dns(policy.ServiceHost), policy.ServiceAddr(), policy.ReasonNotAllowed},
		{policy.Policy{Mode: bailey.NetAllow, Allow: with.Allow, Deny: rules(t, policy.ServiceHost)}, name(policy.ServiceHost, 5432), loopback, policy.ReasonDeniedByRule},
	} {
		x := policy.NewIndex(c.policy)
		got := x.DecideAddr(c.ask, x.Decide(c.ask), c.addr)
		if got.Verdict == bailey.Allow && c.addr != policy.ServiceAddr() {
			got = x.DecideHostAddress(c.ask, got, c.addr, false)
		}
		if got.Reason != c.reason {
			t.Errorf("%+v at %s: %+v, want reason %q", c.ask, c.addr, got, c.reason)
		}
	}
	for _, text := range []string{policy.ServiceHost, "host.bailey.internal:5432", "*.bailey.internal", "x.bailey.internal"} {
		if _, err := policy.ParseRule(text); err == nil {
			t.Errorf("--allow %s is accepted", text)
		}
	}
}

func TestDecide_NamesAndQuestions(t *testing.T) {
	t.Parallel()
	open := policy.Policy{Mode: bailey.NetAllow, Allow: rules(t, "allow.test"), Deny: rules(t, "denied.test"), DNS: bailey.DNSOpen}
	ask := policy.Policy{Mode: bailey.NetAllow, Allow: rules(t, "allow.test"), Deny: rules(t, "denied.test"), Ask: true}
	for _, c := range []struct {
		policy  policy.Policy
		ask     policy.Request
		verdict bailey.Verdict
	}{
		{open, dns("evil.test"), bailey.Allow},
		{open, dns("denied.test"), bailey.Deny},
		{open, dns("localhost"), bailey.Deny},
		{open, name("evil.test", 443), bailey.Deny},
		{open, name("allow.test", 443), bailey.Allow},
		{ask, name("evil.test", 443), bailey.Ask},
		{ask, name("allow.test", 22), bailey.Ask},
		{ask, name("allow.test", 443), bailey.Allow},
		{ask, name("denied.test", 443), bailey.Deny},
		{ask, literal("169.254.169.254", 80), bailey.Deny},
		{policy.Policy{Mode: bailey.NetNone, Ask: true}, name("evil.test", 443), bailey.Deny},
	} {
		if got := policy.Decide(c.policy, c.ask); got.Verdict != c.verdict {
			t.Errorf("%+v: %+v, want %s", c.ask, got, c.verdict)
		}
	}
	x := policy.NewIndex(open) // a name that may be looked up has no private address
	if got := x.DecideAddr(dns("evil.test"), x.Decide(dns("evil.test")), netip.MustParseAddr("10.0.0.1")); got.Verdict == bailey.Allow {
		t.Errorf("dns open tells a private address: %+v", got)
	}
}

func TestRule_WithRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		narrow policy.Narrow
		want   string // empty: accepted
	}{
		{policy.Narrow{Addresses: prefixes("10.0.0.0/8", "fd12::/32", "11.0.0.0/24", "100.64.0.0/10", "2600::/32")}, ""},
		{policy.Narrow{Addresses: prefixes("127.0.0.0/8")}, "loopback"},
		{policy.Narrow{Addresses: prefixes("127.0.0.1/32")}, "loopback"},
		{policy.Narrow{Addresses: prefixes("0.0.0.0/0")}, "no sandbox reaches"},
		{policy.Narrow{Addresses: prefixes("::/0")}, "no sandbox reaches"},
		{policy.Narrow{Addresses: prefixes("169.254.0.0/16")}, "link-local"},
		{policy.Narrow{Addresses: prefixes("168.63.129.16/32")}, "cloud platform"},
		{policy.Narrow{Addresses: prefixes("fd00:ec2::254/128")}, "cloud platform"},
		{policy.Narrow{Addresses: prefixes("224.0.0.0/4")}, "multicast"},
		{policy.Narrow{Addresses: prefixes("4000::/16")}, "reserved"},
		{policy.Narrow{Addresses: prefixes("::ffff:10.0.0.0/104")}, "not a range"},
		{policy.Narrow{Addresses: prefixes("10.0.0.1/8")}, "one address with the length"},
		{policy.Narrow{Addresses: []netip.Prefix{{}}}, "not a range"},
		{policy.Narrow{Methods: []string{"get"}}, "capitals"},
		{policy.Narrow{Repositories: []string{"owner/name", "a", "a/b/c", "~a/.b"}}, ""},
		{policy.Narrow{Repositories: []string{"owner/name.git"}}, "ends in .git"},
		{policy.Narrow{Repositories: []string{"/owner/name"}}, "empty segment"},
		{policy.Narrow{Repositories: []string{"owner/name/"}}, "empty segment"},
		{policy.Narrow{Repositories: []string{""}}, "empty segment"},
		{policy.Narrow{Repositories: []string{"owner/.."}}, "segment of dots"},
		{policy.Narrow{Repositories: []string{"owner/*"}}, "holds the byte"},
		{policy.Narrow{Repositories: []string{"owner/%2e"}}, "holds the byte"},
		{policy.Narrow{Repositories: []string{"a"}, Methods: []string{"GET"}}, "two entries"},
		{policy.Narrow{Repositories: []string{"a"}, Paths: []string{"/a"}}, "two entries"},
		{policy.Narrow{Methods: []string{"TRACE"}}, "never passed on"},
		{policy.Narrow{Methods: []string{""}}, "capitals"},
		{policy.Narrow{Paths: []string{"v1"}}, "begin with a slash"},
		{policy.Narrow{Paths: []string{"/v1*"}}, "whole segment"},
		{policy.Narrow{Paths: []string{"/v1/**"}}, "whole segment"},
		{policy.Narrow{Paths: []string{"/a/../b"}}, "another folder"},
		{policy.Narrow{Paths: []string{"/a%41"}}, "servers read differently"},
		{policy.Narrow{Paths: []string{"/a%c3%bc"}}, "capitals"},
		{policy.Narrow{Paths: []string{"/a?b"}}, "holds the byte"},
		{policy.Narrow{Paths: []string{"/a%C3%BC", "/", "/*", "/a/*/b/*"}}, ""},
	} {
		_, err := policy.Rule{Host: "a.test"}.With(c.narrow)
		text := ""
		if e, ok := errors.AsType[*bailey.Error](err); ok {
			text = e.Message + "; " + e.Hint
		}
		if (err == nil) != (c.want == "") || !strings.Contains(text, c.want) {
			t.Errorf("%+v: %v, want %q", c.narrow, text, c.want)
		}
	}
}

func TestRule_JSONOfNarrowOnes(t *testing.T) {
	t.Parallel()
	service, _ := policy.ServiceRule(5432)
	fenced := policy.Rule{Host: "f.test", Fenced: true}
	for _, r := range []policy.Rule{
		service, fenced,
		narrowed(t, "git.test", policy.Narrow{Repositories: []string{"a/b", "~c/d.e"}, Push: true}),
		narrowed(t, "git.test:80", policy.Narrow{Repositories: []string{"a"}}),
		narrowed(t, "10.0.0.5:22", policy.Narrow{Addresses: prefixes("10.0.0.0/24")}),
		narrowed(t, "*.a.test:80", policy.Narrow{Methods: []string{"GET"}, Paths: []string{"/a/*"}, Inspect: true}),
	} {
		b, err := r.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		var got policy.Rule
		if err := got.UnmarshalJSON(b); err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		if diff := cmp.Diff(r, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
			t.Errorf("%s: %s", b, diff)
		}
	}
}

// naivePath is a second matcher of paths, by the words of the documentation:
// it cuts both into segments.
func naivePath(pattern, path string) bool {
	if rest, ok := strings.CutSuffix(pattern, "/*"); ok {
		want, have := strings.Split(rest, "/"), strings.Split(path, "/")
		return len(have) > len(want) && naiveSegments(want, have[:len(want)])
	}
	return naiveSegments(strings.Split(pattern, "/"), strings.Split(path, "/"))
}

func naiveSegments(want, have []string) bool {
	if len(want) != len(have) {
		return false
	}
	for i := range want {
		if want[i] != have[i] && (want[i] != "*" || have[i] == "") {
			return false
		}
	}
	return true
}

// generator makes policies and requests out of few words, so that they meet.
type generator struct{ rng *rand.Rand }

func (g generator) pick(list ...string) string { return list[g.rng.IntN(len(list))] }

func (g generator) host() string {
	parts := make([]string, 2+g.rng.IntN(2))
	for i := range parts {
		parts[i] = g.pick("a", "b", "ab")
	}
	return strings.Join(parts, ".")
}

func (g generator) pattern() string {
	return g.pick("/", "/*", "/a", "/a/", "/a/*", "/*/b", "/a/*/b", "/b/*/*", "/a/b")
}

func (g generator) path() string {
	return g.pick("/", "/a", "/a/", "/a/b", "/b", "/a/b/b", "/b/a/b", "/a/../b", "//a", "/b/")
}

func (g generator) rule() policy.Rule {
	r := policy.Rule{Host: g.host(), Wildcard: g.rng.IntN(3) == 0}
	if g.rng.IntN(2) == 0 {
		r.Port = []uint16{80, 443, 22}[g.rng.IntN(3)]
	}
	var n policy.Narrow
	if g.rng.IntN(3) == 0 {
		n.Methods = append(n.Methods, g.pick("GET", "POST"))
	}
	if g.rng.IntN(3) == 0 {
		n.Paths = append(n.Paths, g.pattern(), g.pattern())
	}
	if g.rng.IntN(6) == 0 && len(n.Methods)+len(n.Paths) == 0 {
		n.Repositories, n.Push = []string{g.pick("a/b", "b", "a/b/c"), g.pick("b/a", "b")}, g.rng.IntN(2) == 0
	}
	if g.rng.IntN(6) == 0 {
		n.Addresses = prefixes(g.pick("10.0.0.0/8", "10.1.0.0/16", "11.0.0.0/8"))
	}
	r, _ = r.With(n)
	return r
}

func (g generator) rules(most int) []policy.Rule {
	out := make([]policy.Rule, g.rng.IntN(most))
	for i := range out {
		out[i] = g.rule()
	}
	return out
}

func (g generator) request() policy.Request {
	r := request(g.host(), []uint16{80, 443, 22}[g.rng.IntN(3)], g.pick("GET", "POST"), g.path())
	if g.rng.IntN(3) == 0 { // as git asks, or nearly
		r.Path = "/" + g.pick("a/b", "b", "a/b/c", "b/a") + g.pick("", "", ".git") + g.pick("/info/refs", "/git-upload-pack", "/git-receive-pack", "")
		r.Query = g.pick("", "", "service=git-upload-pack", "service=git-receive-pack", "service=git-upload-pack&x")
	}
	return r
}

// naiveGit writes out each request that a rule about git lets through.
func naiveGit(n policy.Narrow, r policy.Request) bool {
	text := r.Method + " " + r.Path + "?" + r.Query
	for _, repo := range n.Repositories {
		for _, at := range []string{"/" + repo, "/" + repo + ".git"} {
			switch text {
			case "GET " + at + "/info/refs?service=git-upload-pack", "POST " + at + "/git-upload-pack?":
				return true
			case "GET " + at + "/info/refs?service=git-receive-pack", "POST " + at + "/git-receive-pack?":
				return n.Push
			}
		}
	}
	return false
}

// naiveNarrow is a second matcher, without an index and without code shared:
// every rule in turn, by the sentences of docs/policy.md.
func naiveNarrow(p policy.Policy, r policy.Request) bool {
	hit := func(rule policy.Rule, deny bool) (about, certain bool) {
		host := rule.Host == r.Host
		if rule.Wildcard {
			host = strings.HasSuffix(r.Host, "."+rule.Host)
		}
		port := rule.Port == r.Port || rule.Port == 0 && (deny || r.Port == 80 || r.Port == 443)
		if !host || !port {
			return false, true
		}
		if rule.Narrow == nil {
			return true, true
		}
		if len(rule.Narrow.Repositories) > 0 {
			return deny || naiveGit(*rule.Narrow, r), true
		}
		if len(rule.Narrow.Methods) > 0 && !strings.Contains(fmt.Sprint(rule.Narrow.Methods), r.Method) {
			return false, true
		}
		if len(rule.Narrow.Paths) == 0 {
			return true, true
		}
		if strings.Contains(r.Path, "..") || strings.Contains(r.Path, "//") {
			return false, false
		}
		for _, pattern := range rule.Narrow.Paths {
			if naivePath(pattern, r.Path) {
				return true, true
			}
		}
		return false, true
	}
	for _, rule := range p.Deny {
		if rule.Narrow != nil && len(rule.Narrow.Addresses) > 0 {
			continue // it is the address that is denied: naiveAddr
		}
		if about, certain := hit(rule, true); about || !certain {
			return false
		}
	}
	for _, rule := range p.Allow {
		if about, _ := hit(rule, false); about {
			return true
		}
	}
	return !p.Mode.ByList()
}

func TestDecide_AgreesWithNaiveNarrowMatcher(t *testing.T) {
	t.Parallel()
	g := generator{rand.New(rand.NewPCG(5, 6))}
	allowed, total := 0, 15_000
	for range total {
		p := policy.Policy{Mode: []bailey.NetMode{bailey.NetAllow, bailey.NetAllow, bailey.NetOpen}[g.rng.IntN(3)], Allow: g.rules(5), Deny: g.rules(3)}
		r := g.request()
		got := policy.Decide(p, r).Verdict == bailey.Allow
		if want := naiveNarrow(p, r); got != want {
			t.Fatalf("%+v of\n%+v\nallowed %v, the naive matcher says %v", r, p, got, want)
		}
		if got {
			allowed++
		}
	}
	if allowed < total/20 || allowed > total*19/20 {
		t.Errorf("%d of %d were allowed: the test shows little", allowed, total)
	}
}

// ranged makes deny rules about addresses, by range or by a name that has them.
func (g generator) ranged() policy.Rule {
	list := []string{"10.0.0.0/8", "11.0.0.0/8", "11.0.0.0/24", "11.0.0.8/29", "11.0.0.9/32", "0.0.0.0/0", "2600::/16", "::/0"}
	r := policy.Rule{Range: netip.MustParsePrefix(list[g.rng.IntN(len(list))])}
	switch g.rng.IntN(4) {
	case 0:
		r = policy.Rule{Addr: netip.MustParseAddr("11.0.0.9")}
	case 1:
		r = policy.Rule{Host: g.host(), Wildcard: g.rng.IntN(3) == 0}
		r, _ = r.With(policy.Narrow{Addresses: prefixes(g.pick("10.0.0.0/8", "11.0.0.0/24", "11.0.0.9/32"))})
	}
	if g.rng.IntN(2) == 0 {
		r.Port = []uint16{80, 443, 22}[g.rng.IntN(3)]
	}
	return r
}

// naiveAddr says whether a deny rule keeps a request from an address, rule by
// rule and bit by bit.
func naiveAddr(deny []policy.Rule, r policy.Request, a netip.Addr) bool {
	in := func(p netip.Prefix) bool {
		one, other := p.Addr().AsSlice(), a.AsSlice()
		for bit := range p.Bits() {
			if len(one) != len(other) || (one[bit/8]^other[bit/8])>>(7-bit%8)&1 != 0 {
				return false
			}
		}
		return len(one) == len(other)
	}
	for _, rule := range deny {
		host := rule.Host == r.Host
		if rule.Wildcard {
			host = strings.HasSuffix(r.Host, "."+rule.Host)
		}
		at := rule.Addr == a
		switch {
		case rule.Host != "":
			at = host && in(rule.Narrow.Addresses[0])
		case rule.Range.IsValid():
			at = in(rule.Range)
		}
		if at && (rule.Port == 0 || rule.Port == r.Port) {
			return true
		}
	}
	return false
}

// A range in a deny rule holds for addresses that are asked for, and for names
// that resolve to them, whatever allows those.
func TestDecideAddr_AgreesWithNaiveRanges(t *testing.T) {
	t.Parallel()
	g := generator{rand.New(rand.NewPCG(11, 12))}
	refused, total := 0, 15_000
	for range total {
		p := policy.Policy{Mode: bailey.NetFull}
		for range g.rng.IntN(4) {
			p.Deny = append(p.Deny, g.ranged())
		}
		x, ask := policy.NewIndex(p), g.request()
		a := netip.MustParseAddr(g.pick("10.1.0.1", "11.0.0.9", "11.0.0.20", "11.9.9.9", "12.0.0.1", "2600::1", "2a00::1"))
		got := x.DecideAddr(ask, x.Decide(ask), a)
		want := naiveAddr(p.Deny, ask, a)
		if (got.Verdict != bailey.Allow) != want || want && (got.Reason != policy.ReasonDeniedByRule || !strings.Contains(got.Detail, a.String()) || got.Rule == "") {
			t.Fatalf("%+v at %s of\n%+v\n%+v, the naive matcher says %v", ask, a, p, got, want)
		}
		ask.Host, ask.Addr = "", a
		if got := x.Decide(ask); (got.Verdict != bailey.Allow) != naiveAddr(p.Deny, ask, a) {
			t.Fatalf("%s:%d of\n%+v\n%+v", a, ask.Port, p, got)
		}
		if want {
			refused++
		}
	}
	if refused < total/20 || refused > total*19/20 {
		t.Errorf("%d of %d were refused: the test shows little", refused, total)
	}
}

func TestDecide_Ranges(t *testing.T) {
	t.Parallel()
	p := policy.Policy{
		Mode:  bailey.NetAllow,
		Allow: rules(t, "allow.test", "allow.test:22", "11.0.0.10:22", "11.0.1.10:22"),
		Deny:  append(rules(t, "11.0.0.0/24:22"), narrowed(t, "allow.test:443", policy.Narrow{Addresses: prefixes("11.0.1.0/24")})),
	}
	x := policy.NewIndex(p)
	for _, c := range []struct {
		ask          policy.Request
		addr, reason string
		rule         string
	}{
		{name("allow.test", 22), "11.0.0.10", policy.ReasonDeniedByRule, "11.0.0.0/24:22"},
		{name("allow.test", 443), "11.0.0.10", "", "allow.test"},
		{name("allow.test", 443), "11.0.1.10", policy.ReasonDeniedByRule, "allow.test:443"},
		{name("allow.test", 22), "11.0.1.10", "", "allow.test:22"},
		{dns("allow.test"), "11.0.0.10", "", "allow.test"}, // a rule for a port is none for a name
		{literal("11.0.0.10", 22), "11.0.0.10", policy.ReasonDeniedByRule, "11.0.0.0/24:22"},
		{literal("11.0.1.10", 22), "11.0.1.10", "", "11.0.1.10:22"},
	} {
		got := x.DecideAddr(c.ask, x.Decide(c.ask), netip.MustParseAddr(c.addr))
		if got.Reason != c.reason || got.Rule != c.rule {
			t.Errorf("%+v at %s: %+v, want %q by %s", c.ask, c.addr, got, c.reason, c.rule)
		}
	}
	// A range allows nothing, however it came into the list.
	wrong := policy.Policy{Mode: bailey.NetAllow, Allow: rules(t, "11.0.0.0/24")}
	if err := wrong.Validate(); err == nil {
		t.Error("a range in allow is valid")
	}
	if got := policy.Decide(wrong, literal("11.0.0.10", 443)); got.Verdict == bailey.Allow {
		t.Errorf("a range in allow: %+v", got)
	}
	// A name that is denied at some addresses is no reason to refuse others to
	// a connection without a name.
	yes := bailey.Decision{Verdict: bailey.Allow}
	found := []netip.Addr{netip.MustParseAddr("11.0.1.10"), netip.MustParseAddr("11.0.0.10")}
	for i, want := range []bailey.Verdict{bailey.Deny, bailey.Allow} {
		if got := policy.DecideNameless(yes, p.Deny[1], found[i:i+1], found); got.Verdict != want {
			t.Errorf("nameless to %s: %+v", found[i], got)
		}
	}
}

// FuzzDecide holds the two matchers together where chance does not look.
func FuzzDecide(f *testing.F) {
	f.Add(uint64(1), uint64(2), "/a/b")
	f.Add(uint64(7), uint64(9), "/a/%2e%2e/b")
	f.Fuzz(func(t *testing.T, one, two uint64, path string) {
		g := generator{rand.New(rand.NewPCG(one, two))}
		p := policy.Policy{Mode: bailey.NetAllow, Allow: g.rules(8), Deny: g.rules(4)}
		r := g.request()
		if norm, err := policy.NormalizePath(path); err == nil {
			if again, err := policy.NormalizePath(norm); err != nil || again != norm {
				t.Errorf("path %q: %q normalises to %q, %v", path, norm, again, err)
			}
			if strings.Contains(norm, "..") && strings.Contains("/"+norm+"/", "/../") || strings.Contains(norm, "//") {
				t.Errorf("path %q is taken as %q", path, norm)
			}
			r.Path = norm
		}
		if got, want := policy.Decide(p, r).Verdict == bailey.Allow, naiveNarrow(p, r); got != want && !strings.Contains(r.Path, "..") {
			t.Errorf("%+v of %+v: allowed %v, the naive matcher says %v", r, p, got, want)
		}
	})
}

// What Covers says yes to adds nothing: no request, at no address, is allowed
// with the rule that was not allowed without it.
func TestCovers_AddsNothing(t *testing.T) {
	t.Parallel()
	g := generator{rand.New(rand.NewPCG(8, 9))}
	yes := 0
	modes := []bailey.NetMode{bailey.NetNone, bailey.NetAllow, bailey.NetAllow, bailey.NetOpen, bailey.NetFull}
	for range 8_000 {
		p := policy.Policy{Mode: modes[g.rng.IntN(len(modes))], Allow: g.rules(4)}
		r := g.rule()
		if g.rng.IntN(2) == 0 && len(p.Allow) > 0 { // near one that is there
			r = p.Allow[g.rng.IntN(len(p.Allow))]
			r.Wildcard = false
		}
		if !p.Covers(r) {
			continue
		}
		yes++
		r.Fenced = true
		without, with := policy.NewIndex(p), policy.NewIndex(policy.Policy{Mode: p.Mode, Allow: append([]policy.Rule{r}, p.Allow...)})
		for range 20 {
			ask := g.request()
			ask.Host = g.pick(ask.Host, r.Host, "a."+r.Host)
			addr := netip.MustParseAddr(g.pick("10.1.0.1", "10.2.0.1", "11.0.0.1", "12.0.0.1"))
			for what, decide := range map[string]func(*policy.Index) bailey.Decision{
				"the request": func(x *policy.Index) bailey.Decision { return x.Decide(ask) },
				"its address": func(x *policy.Index) bailey.Decision { return x.DecideAddr(ask, x.Decide(ask), addr) },
				"as ours": func(x *policy.Index) bailey.Decision {
					return x.DecideHostAddress(ask, x.DecideAddr(ask, x.Decide(ask), addr), addr, true)
				},
			} {
				if decide(with).Verdict == bailey.Allow && decide(without).Verdict != bailey.Allow {
					t.Fatalf("%+v at %s: %s is allowed only with %+v in\n%+v", ask, addr, what, r, p)
				}
			}
		}
	}
	if yes < 200 {
		t.Errorf("only %d rules were covered: the test shows nothing", yes)
	}
}

// many makes a policy of n rules, and questions of which half is allowed.
func many(n int) (*policy.Index, []policy.Request) {
	p := policy.Policy{Mode: bailey.NetAllow}
	for i := range n {
		p.Allow = append(p.Allow, policy.Rule{Host: fmt.Sprintf("h%d.example.com", i), Wildcard: i%3 == 0, Port: uint16(443 * (i % 2))})
	}
	asks := make([]policy.Request, 0, 256)
	for i := range 128 {
		asks = append(asks, name(fmt.Sprintf("h%d.example.com", i*n/128), 443), name(fmt.Sprintf("x%d.example.net", i), 443))
	}
	return policy.NewIndex(p), asks
}

// A thousand times the rules do not cost a decision several times more.
func TestDecide_CostDoesNotGrowWithTheRules(t *testing.T) {
	cost := func(n int) time.Duration {
		x, asks := many(n)
		best := time.Hour
		for range 20 { // the machine may be busy with something else
			began := time.Now()
			for _, ask := range asks {
				x.Decide(ask)
			}
			best = min(best, time.Since(began))
		}
		return best
	}
	few, lots := cost(10), cost(10_000)
	if lots > 6*few {
		t.Errorf("256 decisions take %v with 10 rules and %v with 10,000", few, lots)
	}
}

func BenchmarkDecide(b *testing.B) {
	for _, n := range []int{10, 100, 10_000} {
		b.Run(fmt.Sprintf("rules=%d", n), func(b *testing.B) {
			x, asks := many(n)
			i := 0
			for b.Loop() {
				x.Decide(asks[i%len(asks)])
				i++
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
		})
	}
}
