package policy_test

import (
	"testing"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/policy"
)

// What a deny rule for a path is about is not reached by another spelling.
func TestDecide_OtherSpellingsOfADeniedPath(t *testing.T) {
	t.Parallel()
	p := policy.Policy{Mode: bailey.NetOpen, Deny: []policy.Rule{
		narrowed(t, "a.test:80", policy.Narrow{Paths: []string{"/admin/*", "/@evil/*", "/v1/m:gen", "/config/*", "/c/*"}}),
	}}
	for _, path := range []string{
		"/admin;x/secret", "/x;a/b", "/%40evil/x", "/v1/m%3Agen", "/v1/%2A", "/x%26y", "/%C0%AE%C0%AE/admin/x", "/x/%FF", "/x/..%20/admin/x",
		"/x/%20/y", "/x/.../y", "/x/%EF%BC%8E%EF%BC%8E/admin/x", "/x/%E3%80%82/y", "/%EF%BC%A1dmin/x", "/con%EF%AC%81g/x", "/x%C2%85/y", "/x%EF%BC%8Fy",
		"/x%2Cy", "/x%3By",
	} {
		if d := policy.Decide(p, request("a.test", 80, "GET", path)); d.Reason != policy.ReasonBadPath {
			t.Errorf("%s: %+v", path, d)
		}
	}
	for _, path := range []string{"/x", "/x%20y", "/x/%C3%BC/y.", "/%E6%97%A5/x", "/a:b/@c/(d)", "/..a/.b"} { // twins
		if d := policy.Decide(p, request("a.test", 80, "GET", path)); d.Verdict != bailey.Allow {
			t.Errorf("%s: %+v", path, d)
		}
	}
	if err := policy.CheckPattern("/a;b"); err == nil {
		t.Error("a rule for a path that no request can have")
	}
}

// A method in small letters is not read as another one than its capitals.
func TestDecide_MethodsInSmallLetters(t *testing.T) {
	t.Parallel()
	p := policy.Policy{Mode: bailey.NetOpen, Deny: []policy.Rule{narrowed(t, "a.test:80", policy.Narrow{Methods: []string{"DELETE"}})}}
	for _, m := range []string{"delete", "Delete"} {
		if d := policy.Decide(p, request("a.test", 80, m, "/")); d.Verdict == bailey.Allow {
			t.Errorf("%s: %+v", m, d)
		}
	}
	if d := policy.Decide(p, request("a.test", 80, "GET", "/")); d.Verdict != bailey.Allow {
		t.Errorf("GET: %+v", d)
	}
}

// A private address that mode full reaches can be denied, and not be allowed
// by its number alone.
func TestParseDenyRule_PrivateAddresses(t *testing.T) {
	t.Parallel()
	r, err := policy.ParseDenyRule("10.0.0.5")
	if err != nil {
		t.Fatal(err)
	}
	p := policy.Policy{Mode: bailey.NetFull, Deny: []policy.Rule{r}}
	if d := policy.Decide(p, literal("10.0.0.5", 443)); d.Reason != policy.ReasonDeniedByRule {
		t.Errorf("by number: %+v", d)
	}
	x, ask := policy.NewIndex(p), name("a.test", 443)
	if d := x.DecideAddr(ask, x.Decide(ask), r.Addr); d.Reason != policy.ReasonDeniedByRule {
		t.Errorf("by name: %+v", d)
	}
	if d := policy.Decide(p, literal("10.0.0.6", 443)); d.Verdict != bailey.Allow {
		t.Errorf("another one: %+v", d)
	}
	for _, text := range []string{"127.0.0.1", "169.254.169.254", "fe80::1", "100.100.100.200"} {
		if _, err := policy.ParseDenyRule(text); err == nil {
			t.Errorf("%s, which nothing reaches, is accepted", text)
		}
	}
	if _, err := policy.ParseRule("10.0.0.5"); err == nil {
		t.Error("an allow rule for it is accepted")
	}
	if _, err := policy.ParseTarget("10.0.0.5", prefixes("10.1.0.0/16")); err == nil {
		t.Error("an allow rule whose addresses are others is accepted")
	}
	var again policy.Rule
	if b, err := r.MarshalJSON(); err != nil || again.UnmarshalJSON(b) != nil || again != r {
		t.Errorf("%s: %+v, %v", b, again, err)
	}
}

func TestIndex_OfUser(t *testing.T) {
	t.Parallel()
	fenced := policy.Rule{Host: "f.test", Fenced: true}
	x := policy.NewIndex(policy.Policy{Mode: bailey.NetAllow, Allow: []policy.Rule{fenced, {Host: "u.test"}, {Host: "both.test", Fenced: true}, {Host: "both.test"}}})
	for host, want := range map[string]bool{"f.test": false, "u.test": true, "both.test": true, "other.test": false} {
		if got := x.OfUser(name(host, 443)); got != want {
			t.Errorf("%s: %v", host, got)
		}
	}
	if x.OfUser(name("u.test", 22)) || x.OfUser(policy.Request{}) {
		t.Error("a rule about another port, or nothing")
	}
}
