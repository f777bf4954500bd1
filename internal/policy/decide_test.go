package policy_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/policy"
)

func name(host string, port uint16) policy.Request {
	return policy.Request{Protocol: policy.ProtocolTLS, Host: host, Port: port}
}

func dns(host string) policy.Request {
	return policy.Request{Protocol: policy.ProtocolDNS, Host: host}
}

func literal(addr string, port uint16) policy.Request {
	return policy.Request{Protocol: policy.ProtocolTCP, Addr: netip.MustParseAddr(addr), Port: port}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	p := policy.Policy{
		Mode: bailey.NetAllow,
		Allow: rules(t, "allow.test", "*.wild.test", "docs.test:8443", "ssh.test:22", "11.0.0.10:443",
			"multi.test:1", "multi.test:2", "[2606:4700::1]:443", "xn--bcher-kva.test"),
		Deny: rules(t, "x.wild.test", "*.y.wild.test", "allow.test:80", "11.0.0.66"),
	}
	open := policy.Policy{Mode: bailey.NetOpen, Deny: p.Deny}
	for _, c := range []struct {
		what   string
		policy policy.Policy
		ask    policy.Request
		reason string // empty: allowed
		rule   string
	}{
		{"listed", p, name("allow.test", 443), "", "allow.test"},
		{"upper case, A013", p, name("ALLOW.TEST", 443), "", "allow.test"},
		{"trailing dot, A014", p, name("allow.test.", 443), "", "allow.test"},
		{"two trailing dots, A014", p, name("allow.test..", 443), policy.ReasonInvalidName, ""},
		{"unlisted", p, name("evil.test", 443), policy.ReasonNotAllowed, ""},
		{"below a bare host", p, name("www.allow.test", 443), policy.ReasonNotAllowed, ""},
		{"suffix without a dot, A041", p, name("evil-allow.test", 443), policy.ReasonNotAllowed, ""},
		{"suffix without a dot, A041", p, name("notallow.test", 443), policy.ReasonNotAllowed, ""},
		{"prefix, A042", p, name("docs.test.evil.test", 8443), policy.ReasonNotAllowed, ""},
		{"prefix, A042", p, name("docs.testevil", 8443), policy.ReasonNotAllowed, ""},
		{"wildcard", p, name("a.wild.test", 443), "", "*.wild.test"},
		{"wildcard, two levels", p, name("a.b.wild.test", 80), "", "*.wild.test"},
		{"wildcard is not its own suffix", p, name("wild.test", 443), policy.ReasonNotAllowed, ""},
		{"wildcard needs a dot", p, name("evilwild.test", 443), policy.ReasonNotAllowed, ""},
		{"deny beats a wildcard, A049", p, name("X.wild.test.", 443), policy.ReasonDeniedByRule, "x.wild.test"},
		{"deny wildcard", p, name("a.y.wild.test", 443), policy.ReasonDeniedByRule, "*.y.wild.test"},
		{"deny wildcard leaves its suffix", p, name("y.wild.test", 443), "", "*.wild.test"},
		{"deny of one port", p, name("allow.test", 80), policy.ReasonDeniedByRule, "allow.test:80"},
		{"port of the rule", p, name("docs.test", 8443), "", "docs.test:8443"},
		{"other port", p, name("docs.test", 443), policy.ReasonPortNotAllowed, ""},
		{"no port means 80 and 443, A104", p, name("allow.test", 22), policy.ReasonPortNotAllowed, ""},
		{"second rule of a host", p, name("multi.test", 2), "", "multi.test:2"},
		{"punycode", p, name("XN--bcher-kva.test", 443), "", "xn--bcher-kva.test"},
		{"unicode on the wire, A050", p, name("bücher.test", 443), policy.ReasonInvalidName, ""},
		{"NUL", p, name("evil.test\x00.allow.test", 443), policy.ReasonInvalidName, ""},
		{"port 0", p, name("allow.test", 0), policy.ReasonNotAllowed, ""},
		{"address as a name, A009", p, name("11.0.0.10", 443), policy.ReasonInvalidName, ""},
		{"no name, no address", p, policy.Request{Protocol: policy.ProtocolTLS, Port: 443}, policy.ReasonNoName, ""},

		{"dns of a listed name", p, dns("allow.test"), "", "allow.test"},
		{"dns of a name with another port", p, dns("ssh.test."), "", "ssh.test:22"},
		{"dns below a wildcard", p, dns("a.wild.test"), "", "*.wild.test"},
		{"dns of an unlisted name, A076", p, dns("mfzwi.x.evil.test"), policy.ReasonNotAllowed, ""},
		{"dns of a denied name", p, dns("x.wild.test"), policy.ReasonDeniedByRule, "x.wild.test"},

		{"literal of a rule", p, literal("11.0.0.10", 443), "", "11.0.0.10:443"},
		{"literal, mapped form", p, literal("::ffff:11.0.0.10", 443), policy.ReasonSpecialAddress, ""},
		{"literal v6", p, literal("2606:4700::1", 443), "", "[2606:4700::1]:443"},
		{"literal, other port", p, literal("11.0.0.10", 80), policy.ReasonPortNotAllowed, ""},
		{"literal without a rule", p, literal("11.0.0.11", 443), policy.ReasonNotAllowed, ""},
		{"literal, special", p, literal("169.254.169.254", 80), policy.ReasonSpecialAddress, ""},
		{"literal, port 0", p, literal("11.0.0.10", 0), policy.ReasonNotAllowed, ""},

		{"open: a rule is named", policy.Policy{Mode: bailey.NetOpen, Allow: p.Allow}, name("allow.test", 443), "", "allow.test"},
		{"open: any name", open, name("evil.test", 9999), "", ""},
		{"open: any literal", open, literal("11.0.0.11", 22), "", ""},
		{"open: denied name, any port", open, name("x.wild.test", 9999), policy.ReasonDeniedByRule, "x.wild.test"},
		{"open: denied address", open, literal("11.0.0.66", 22), policy.ReasonDeniedByRule, "11.0.0.66"},
		{"open: special", open, literal("127.0.0.1", 80), policy.ReasonSpecialAddress, ""},
		{"open: invalid", open, name("1.1", 80), policy.ReasonInvalidName, ""},
		{"open: dns with a port denied", open, dns("allow.test"), "", ""},

		{"none", policy.Policy{Mode: bailey.NetNone, Allow: p.Allow}, name("allow.test", 443), policy.ReasonModeNone, ""},
		{"unknown mode", policy.Policy{Mode: 9, Allow: p.Allow}, name("allow.test", 443), policy.ReasonModeNone, ""},
		{"zero policy", policy.Policy{}, literal("11.0.0.10", 443), policy.ReasonModeNone, ""},
		{"empty list, EGR-07", policy.Policy{Mode: bailey.NetAllow}, name("allow.test", 443), policy.ReasonNotAllowed, ""},
		{"zero rule", policy.Policy{Mode: bailey.NetAllow, Allow: []policy.Rule{{}}}, name("allow.test", 443), policy.ReasonNotAllowed, ""},
		{"zero rule, literal", policy.Policy{Mode: bailey.NetAllow, Allow: []policy.Rule{{}}}, literal("11.0.0.10", 443), policy.ReasonNotAllowed, ""},
		{"wildcard of nothing", policy.Policy{Mode: bailey.NetAllow, Allow: []policy.Rule{{Wildcard: true}}}, name("allow.test", 443), policy.ReasonNotAllowed, ""},
	} {
		got := policy.Decide(c.policy, c.ask)
		if allowed := got.Verdict == bailey.Allow; allowed != (c.reason == "") || got.Reason != c.reason || got.Rule != c.rule {
			t.Errorf("%s: %+v, want reason %q by rule %q", c.what, got, c.reason, c.rule)
		}
		if c.reason != "" && got.Detail == "" {
			t.Errorf("%s: a denial without a sentence", c.what)
		}
	}
}

func TestDecide_NamesTheFlag(t *testing.T) {
	t.Parallel()
	p := policy.Policy{Mode: bailey.NetAllow, Allow: rules(t, "allow.test")}
	for want, ask := range map[string]policy.Request{
		"--allow evil.test:8443":    name("EVIL.test.", 8443),
		"--allow allow.test:22":     name("allow.test", 22),
		"--allow evil.test":         dns("evil.test"),
		"--allow 11.0.0.66:22":      literal("11.0.0.66", 22),
		"; and no rule can name it": literal("2606:4700::1", 443), // by IPv4 alone
	} {
		if d := policy.Decide(p, ask); !strings.HasSuffix(d.Detail, want) {
			t.Errorf("%+v: detail %q does not end in %q", ask, d.Detail, want)
		}
	}
}

func TestDecideAddr(t *testing.T) {
	t.Parallel()
	p := policy.Policy{Mode: bailey.NetAllow, Allow: rules(t, "allow.test", "allow.test:22"), Deny: rules(t, "11.0.0.66", "11.0.0.67:22")}
	x := policy.NewIndex(p)
	yes := x.Decide(name("allow.test", 443))
	for _, c := range []struct {
		addr   string
		port   uint16
		reason string
	}{
		{"11.0.0.10", 443, ""},
		{"2606:4700::1", 443, ""},
		{"11.0.0.66", 443, policy.ReasonDeniedByRule},
		{"11.0.0.67", 443, ""},
		{"11.0.0.67", 22, policy.ReasonDeniedByRule},
		{"10.0.0.5", 443, policy.ReasonSpecialAddress}, // A069
		{"127.0.0.1", 443, policy.ReasonSpecialAddress},
		{"::1", 443, policy.ReasonSpecialAddress}, // A073
		{"169.254.169.254", 80, policy.ReasonSpecialAddress},
		{"::ffff:169.254.169.254", 80, policy.ReasonSpecialAddress},
		{"64:ff9b::a9fe:a9fe", 80, policy.ReasonSpecialAddress},
	} {
		got := x.DecideAddr(name("allow.test", c.port), yes, netip.MustParseAddr(c.addr))
		if got.Reason != c.reason || (got.Verdict == bailey.Allow) != (c.reason == "") {
			t.Errorf("%s:%d: %+v, want reason %q", c.addr, c.port, got, c.reason)
		}
	}
	no := policy.Decide(p, name("evil.test", 443))
	if got := x.DecideAddr(name("evil.test", 443), no, netip.MustParseAddr("11.0.0.10")); got != no {
		t.Errorf("an address turned a denial into %+v", got)
	}
	if got := x.DecideAddr(name("allow.test", 443), bailey.Decision{}, netip.MustParseAddr("11.0.0.10")); got.Verdict == bailey.Allow {
		t.Errorf("the zero decision became %+v", got)
	}
	if got := x.DecideAddr(name("allow.test", 443), yes, netip.Addr{}); got.Verdict == bailey.Allow {
		t.Errorf("the zero address is %+v", got)
	}
}

func TestDecideHostAddress(t *testing.T) {
	t.Parallel()
	own := netip.MustParseAddr("11.0.0.1")
	listed := policy.Policy{Mode: bailey.NetAllow, Allow: rules(t, "allow.test", "allow.test:22", "*.wild.test", "11.0.0.1:22")}
	for _, c := range []struct {
		what   string
		policy policy.Policy
		ask    policy.Request
		reason string
	}{
		{"the very host", listed, name("allow.test", 443), ""},
		{"the very address", listed, literal("11.0.0.1", 22), ""},
		{"a wildcard", listed, name("a.wild.test", 443), policy.ReasonHostAddress},
		{"open", policy.Policy{Mode: bailey.NetOpen}, name("allow.test", 443), policy.ReasonHostAddress},
		{"open, with a rule", policy.Policy{Mode: bailey.NetOpen, Allow: listed.Allow}, name("allow.test", 443), ""},
		{"denied before", listed, name("evil.test", 443), policy.ReasonNotAllowed},
		{"a wildcard, then the very host", policy.Policy{Mode: bailey.NetAllow, Allow: rules(t, "*.wild.test", "a.wild.test")}, name("a.wild.test", 443), ""},
		{"the very host, then a wildcard", policy.Policy{Mode: bailey.NetAllow, Allow: rules(t, "a.wild.test", "*.wild.test")}, name("a.wild.test", 443), ""},
		{"the very host at another port", policy.Policy{Mode: bailey.NetAllow, Allow: rules(t, "*.wild.test", "a.wild.test:22")}, name("a.wild.test", 443), policy.ReasonHostAddress},
	} {
		decision := policy.Decide(c.policy, c.ask)
		if got := policy.NewIndex(c.policy).DecideHostAddress(c.ask, decision, own, true); got.Reason != c.reason {
			t.Errorf("%s: %+v, want reason %q", c.what, got, c.reason)
		}
	}
	// A name that the DNS gives the address, whoever owns it: only a rule for
	// the address and port opens that.
	for port, reason := range map[uint16]string{443: policy.ReasonHostAddress, 22: ""} {
		decision := policy.Decide(listed, name("allow.test", port))
		if got := policy.NewIndex(listed).DecideHostAddress(name("allow.test", port), decision, own, false); got.Reason != reason {
			t.Errorf("port %d of a name of the DNS: %+v, want reason %q", port, got, reason)
		}
	}
}

func TestPolicy_DeniedNames(t *testing.T) {
	t.Parallel()
	p := policy.Policy{Mode: bailey.NetOpen, Deny: rules(t, "a.test", "b.test:22", "*.wild.test", "11.0.0.66")}
	for port, want := range map[uint16][]policy.Rule{22: rules(t, "a.test", "b.test:22"), 443: rules(t, "a.test")} {
		if got := p.DeniedNames(port); !slices.Equal(got, want) {
			t.Errorf("port %d: %v, want %v", port, got, want)
		}
	}
	yes := policy.Decide(p, literal("11.0.0.10", 22))
	to := []netip.Addr{netip.MustParseAddr("11.0.0.10")}
	if got := policy.DecideNameless(yes, p.Deny[0], to, []netip.Addr{netip.MustParseAddr("11.0.0.9"), to[0]}); got.Reason != policy.ReasonDeniedByRule || got.Rule != "a.test" || got.Verdict == bailey.Allow {
		t.Errorf("an address of a denied name: %+v", got)
	}
	if got := policy.DecideNameless(yes, p.Deny[0], to, []netip.Addr{netip.MustParseAddr("11.0.0.9")}); got.Verdict != bailey.Allow {
		t.Errorf("another address: %+v", got)
	}
}

func TestUnresolved(t *testing.T) {
	t.Parallel()
	none := policy.Unresolved("a.test", "a.test", fmt.Errorf("look up: %w", policy.ErrNoAddress))
	failed := policy.Unresolved("a.test", "a.test", context.DeadlineExceeded)
	if !strings.Contains(none.Detail, "finds no IPv4 address") || !strings.Contains(failed.Detail, "failed to answer") {
		t.Errorf("%q, %q", none.Detail, failed.Detail)
	}
	for _, d := range []bailey.Decision{none, failed} {
		if d.Verdict == bailey.Allow || d.Reason != policy.ReasonUnresolved || d.Rule != "a.test" {
			t.Errorf("%+v", d)
		}
	}
}

func TestPolicy_Validate(t *testing.T) {
	t.Parallel()
	allow := rules(t, "allow.test")
	for what, c := range map[string]struct {
		policy policy.Policy
		want   string
	}{
		"none":           {policy.Policy{}, ""},
		"open":           {policy.Policy{Mode: bailey.NetOpen}, ""},
		"allow":          {policy.Policy{Mode: bailey.NetAllow, Allow: allow}, ""},
		"allow, no rule": {policy.Policy{Mode: bailey.NetAllow}, "no allow rule"}, // EGR-07
		"only deny":      {policy.Policy{Mode: bailey.NetAllow, Deny: allow}, "no allow rule"},
		"unknown mode":   {policy.Policy{Mode: 7, Allow: allow}, "unknown network mode"},
		"zero rule":      {policy.Policy{Mode: bailey.NetAllow, Allow: []policy.Rule{{}}}, "empty"},
		"zero deny rule": {policy.Policy{Mode: bailey.NetOpen, Deny: []policy.Rule{{Port: 80}}}, "empty"},
	} {
		err := c.policy.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
	}
}

// naive is a second matcher, written from the sentence "deny beats allow, a
// wildcard is anything that ends in a dot and its suffix" with no code shared.
func naive(p policy.Policy, host string, port uint16) bool {
	hit := func(r policy.Rule, portless bool) bool {
		text := r.String()
		pattern, want, hasPort := strings.Cut(text, ":")
		if hasPort && want != strconv.Itoa(int(port)) {
			return false
		}
		if !hasPort && !portless && port != 80 && port != 443 {
			return false
		}
		if after, ok := strings.CutPrefix(pattern, "*"); ok {
			return strings.HasSuffix(host, after) && host != after
		}
		return pattern == host
	}
	for _, r := range p.Deny {
		if hit(r, true) {
			return false
		}
	}
	for _, r := range p.Allow {
		if hit(r, false) {
			return true
		}
	}
	return p.Mode == bailey.NetOpen
}

func TestDecide_AgreesWithNaiveMatcher(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	labels := []string{"a", "b", "ab", "x", "test", "a-b"}
	ports := []uint16{80, 443, 22, 8443}
	host := func() string {
		parts := make([]string, 2+rng.IntN(3))
		for i := range parts {
			parts[i] = labels[rng.IntN(len(labels))]
		}
		return strings.Join(parts, ".")
	}
	ruleList := func() []policy.Rule {
		out := make([]policy.Rule, rng.IntN(4))
		for i := range out {
			out[i] = policy.Rule{Host: host(), Wildcard: rng.IntN(2) == 0}
			if rng.IntN(2) == 0 {
				out[i].Port = ports[rng.IntN(len(ports))]
			}
		}
		return out
	}
	allowed := 0
	for range 100_000 {
		p := policy.Policy{Mode: bailey.NetAllow, Allow: ruleList(), Deny: ruleList()}
		if rng.IntN(4) == 0 {
			p.Mode = bailey.NetOpen
		}
		h, port := host(), ports[rng.IntN(len(ports))]
		got := policy.Decide(p, name(h, port)).Verdict == bailey.Allow
		if want := naive(p, h, port); got != want {
			t.Fatalf("%v: %s:%d allowed %v, the naive matcher says %v", p, h, port, got, want)
		}
		if got {
			allowed++
		}
	}
	if allowed < 1000 {
		t.Errorf("only %d cases were allowed: the test shows nothing", allowed)
	}
}

func TestAllowFlag(t *testing.T) {
	t.Parallel()
	ev := func(host, addr string, port uint16, reason string) bailey.Event {
		return bailey.Event{Type: bailey.EventNetDecision, Verdict: "deny", Host: host, Address: addr, Port: port, Reason: reason}
	}
	over := func(protocol string, ev bailey.Event) bailey.Event {
		ev.Protocol = protocol
		return ev
	}
	for _, c := range []struct {
		ev   bailey.Event
		want string
	}{
		{ev("evil.test", "", 0, policy.ReasonNotAllowed), "evil.test"},
		{ev("evil.test", "11.0.0.66", 443, policy.ReasonNotAllowed), "evil.test:443"},
		{ev("evil.test", "", 22, policy.ReasonPortNotAllowed), "evil.test:22"},
		{ev("", "11.0.0.66", 22, policy.ReasonNotAllowed), "11.0.0.66:22"},
		{over(policy.ProtocolTLS, ev("", "11.0.0.66", 443, policy.ReasonNoName)), "11.0.0.66:443"},
		{over(policy.ProtocolHTTP, ev("", "11.0.0.66", 80, policy.ReasonNoName)), ""}, // a rule does not mend the request
		{ev("", "2606:4700::1", 22, policy.ReasonUnknown), ""},
		{ev("", "10.0.0.1", 22, policy.ReasonSpecialAddress), ""},
		{ev("", "10.0.0.1", 22, policy.ReasonNotAllowed), ""},
		{ev("x.test", "", 443, policy.ReasonDeniedByRule), ""},
		{ev("4.3.2.1.in-addr.arpa", "", 0, policy.ReasonNotAllowed), ""},
		{ev("bad host", "", 443, policy.ReasonNotAllowed), ""},
		{ev("", "", 443, policy.ReasonNoName), ""},
		{bailey.Event{Type: bailey.EventNetDecision, Verdict: "allow", Host: "a.test"}, ""},
		{bailey.Event{Type: bailey.EventWarning, Host: "a.test", Reason: policy.ReasonNotAllowed}, ""},
	} {
		got, ok := policy.AllowFlag(c.ev)
		if got != c.want || ok != (c.want != "") {
			t.Errorf("AllowFlag(%+v) = %q, %v; want %q", c.ev, got, ok, c.want)
		}
	}
}

// What a sandbox is told to ask for must be something that can be given.
func TestDecide_AdviceIsARule(t *testing.T) {
	t.Parallel()
	listed := policy.Policy{Mode: bailey.NetAllow, Allow: rules(t, "allow.test")}
	for host, want := range map[string]string{
		"evil.test":    "bailey run --allow evil.test:80",
		"allow.test":   "bailey run --allow allow.test:8080",
		"intranet":     "no rule can name it",
		"localhost":    "names the services of the machine itself",
		"db.localhost": "names the services of the machine itself",
	} {
		port := uint16(80)
		if host == "allow.test" {
			port = 8080
		}
		d := policy.Decide(listed, policy.Request{Protocol: policy.ProtocolHTTP, Host: host, Port: port})
		if d.Verdict != bailey.Deny || !strings.Contains(d.Detail, want) {
			t.Errorf("%s: %+v, want %q", host, d, want)
		}
	}
	if d := policy.Decide(policy.Policy{Mode: bailey.NetOpen}, policy.Request{Protocol: policy.ProtocolTLS, Host: "LocalHost.", Port: 443}); d.Reason != policy.ReasonSpecialAddress {
		t.Errorf("open: %+v", d)
	}
}
