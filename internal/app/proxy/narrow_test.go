package proxy_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"testing"

	mdns "github.com/miekg/dns"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/policy"
)

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

// A145 and A030: on a host with rules about requests each one is judged, also
// the second of a connection, by the bytes that go out.
func TestHTTP_RulesAboutRequests(t *testing.T) {
	t.Parallel()
	l := newLab(t, policy.Policy{Mode: bailey.NetAllow, Allow: []policy.Rule{
		narrowed(t, "allow.test", policy.Narrow{Methods: []string{"GET"}, Paths: []string{"/v1/*", "/a%C3%BC/*"}}),
		{Host: "other.test"},
	}}, withoutRoot)
	ask := func(method, host, target string) string {
		got, _ := l.say(evil+":80", fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\nX-HTTP-Method-Override: DELETE\r\nX-Original-URL: /admin\r\nConnection: close\r\n\r\n", method, target, host))
		return got
	}
	for _, c := range []struct{ method, host, target, reason string }{
		{"GET", "allow.test", "/v1/x?q=/../y", ""},
		{"GET", "allow.test", "/a%C3%BC/x", ""},
		{"GET", "allow.test", "http://allow.test/v1/abs", ""},
		{"GET", "other.test", "/x/../y", ""},
		{"POST", "allow.test", "/v1/x", policy.ReasonMethod},
		{"GET", "allow.test", "/v2/x", policy.ReasonPath},
		{"GET", "allow.test", "/", policy.ReasonPath},
		{"GET", "allow.test", "http://allow.test", policy.ReasonPath},
		{"GET", "allow.test", "/v1/../v2/x", policy.ReasonBadPath},
		{"GET", "allow.test", "/v1/%2e%2e/v2/x", policy.ReasonBadPath},
		{"GET", "allow.test", "/v1/%2E%2E%2Fv2/x", policy.ReasonBadPath},
		{"GET", "allow.test", "/v1//x", policy.ReasonBadPath},
		{"GET", "allow.test", "/v1/..;/v2", policy.ReasonBadPath},
		{"GET", "allow.test", `/v1/\x`, policy.ReasonBadPath},
		{"GET", "allow.test", "/v1/%", policy.ReasonBadPath},
		{"GET", "allow.test", "/v1/%00", policy.ReasonBadPath},
		{"OPTIONS", "allow.test", "*", policy.ReasonMethod},
	} {
		got := ask(c.method, c.host, c.target)
		if c.reason == "" && !strings.Contains(got, "hello from "+allowed) {
			t.Errorf("%s %s: %q", c.method, c.target, got)
		}
		if c.reason != "" && !strings.Contains(got, "X-Bailey-Reason: "+c.reason) && !strings.Contains(got, "400 Bad Request") {
			t.Errorf("%s %s: %q, want %s", c.method, c.target, got, c.reason)
		}
	}
	for _, r := range l.requests() {
		if !strings.Contains(r, "/v1/x?q=") && !strings.Contains(r, "/a%C3%BC/x") && !strings.Contains(r, "/v1/abs") && !strings.Contains(r, "other.test") {
			t.Errorf("passed on: %s", r)
		}
	}
	c := l.dial("tcp4", evil+":80")
	r := bufio.NewReader(c)
	for _, step := range []struct {
		path   string
		status int
	}{{"/v1/one", 200}, {"/v1/two", 200}, {"/v2/three", 403}} {
		_, _ = fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: allow.test\r\n\r\n", step.path)
		if res, body := response(t, r, "GET"); res.StatusCode != step.status {
			t.Errorf("%s: %d %q", step.path, res.StatusCode, body)
		}
	}
	if _, err := r.ReadByte(); err != io.EOF {
		t.Errorf("the connection goes on after a refusal: %v", err)
	}
	for path, verdict := range map[string]string{"/v1/one": "allow", "/v1/two": "allow", "/v2/three": "deny"} { // each was decided
		l.event(path, func(ev bailey.Event) bool {
			return ev.Path == path && ev.Verdict == verdict && ev.Method == "GET" && (ev.Rule != "") == (verdict == "allow")
		})
	}
	if _, err := l.get(evil+":443", &tls.Config{ServerName: "allow.test"}); !isReset(err) {
		t.Errorf("TLS, whose requests cannot be seen: %v", err)
	}
	l.denied(policy.ReasonSealed)
	if got, err := l.get(evil+":443", &tls.Config{ServerName: "other.test"}); err != nil || !strings.Contains(got, "hello") {
		t.Errorf("TLS to a host without such rules: %q, %v", got, err)
	}
	if got, _ := l.say(evil+":80", "GET /v1/../headers HTTP/1.1\r\nHost: allow.test\r\n\r\n"); strings.Contains(got, "200 OK") {
		t.Errorf("a server's own reading of the path: %q", got)
	}
	l.untouched(evil)
}

func TestHTTP_OverridesAreTakenOff(t *testing.T) {
	t.Parallel()
	l := newLab(t, policy.Policy{Mode: bailey.NetAllow, Allow: []policy.Rule{
		narrowed(t, "allow.test", policy.Narrow{Methods: []string{"GET"}}), {Host: "other.test"},
	}})
	for host, want := range map[string]bool{"allow.test": false, "other.test": true} {
		got, _ := l.say(evil+":80", "GET /headers HTTP/1.1\r\nHost: "+host+"\r\nX-HTTP-Method-Override: DELETE\r\nX-Rewrite-Url: /x\r\nX_Method_Override: DELETE\r\nX.HTTP.Method: DELETE\r\nX-Original-Uri: /Rewrite\r\nX-Forwarded-Uri: /Rewrite\r\nX-Forwarded-Prefix: /Rewrite\r\nX-Forwarded-Method: DELETE\r\nConnection: close\r\n\r\n")
		if !strings.Contains(got, "200 OK") || strings.Contains(got, "DELETE") != want || strings.Contains(got, "Rewrite") != want {
			t.Errorf("%s: %q", host, got)
		}
	}
}

// A036: a query and fields that name another request are held to the rules, on
// the first request of a connection and on further ones; fields that say the
// framing again never pass.
func TestHTTP_OtherTargetsAreJudged(t *testing.T) {
	t.Parallel()
	l := newLab(t, policy.Policy{Mode: bailey.NetAllow, Allow: []policy.Rule{
		narrowed(t, "allow.test", policy.Narrow{Methods: []string{"POST", "MOVE"}, Paths: []string{"/headers", "/me/*"}}), {Host: "other.test"},
	}})
	for _, c := range []struct {
		line, field string
		ok          bool
	}{
		{"POST /headers?a=1", "X: y", true},
		{"POST /headers?.method=DELETE", "X: y", false},
		{"MOVE /headers", "Destination: http://allow.test/me/b", true},
		{"MOVE /headers", "Destination: http://allow.test/you/b", false},
		{"POST /headers", "X-Amz-Copy-Source: /me/b", false},
	} {
		head := " HTTP/1.1\r\nHost: allow.test\r\n" + c.field + "\r\nContent-Length: 0\r\nContent_Length: 3\r\nTransfer_Encoding: chunked\r\n"
		got, _ := l.say(evil+":80", c.line+head+"Connection: close\r\n\r\n")
		if strings.Contains(got, "200 OK") != c.ok || strings.Contains(got, "chunked") || strings.Contains(strings.ToLower(got), "content_length") {
			t.Errorf("%s, %s: %q", c.line, c.field, got)
		}
		got, _ = l.say(evil+":80", "POST /headers HTTP/1.1\r\nHost: allow.test\r\nContent-Length: 0\r\n\r\n"+c.line+head+"Connection: close\r\n\r\n")
		if n := strings.Count(got, "200 OK"); n != 1 && !c.ok || n != 2 && c.ok {
			t.Errorf("then %s, %s: %q", c.line, c.field, got)
		}
		got, _ = l.say(evil+":80", c.line+strings.ReplaceAll(head, "allow.test", "other.test")+"Connection: close\r\n\r\n")
		if !strings.Contains(got, "200 OK") || strings.Contains(got, "chunked") {
			t.Errorf("%s, %s to a host without such rules: %q", c.line, c.field, got)
		}
	}
}

// A069: a private address is reached where a rule names it for this host, or
// in mode full; metadata, loopback and the machine itself never.
func TestResolution_NamedAddresses(t *testing.T) {
	t.Parallel()
	named := policy.Policy{Mode: bailey.NetAllow, Allow: []policy.Rule{
		narrowed(t, "private.test", policy.Narrow{Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}}),
		narrowed(t, "cname.test", policy.Narrow{Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}}),
		{Host: "cnamepriv.test"},
		{Host: "meta.test"},
		{Host: "loop.test"},
		{Host: "allow.test"},
	}}
	full := policy.Policy{Mode: bailey.NetFull, Deny: rules(t, "evil.test")}
	for what, c := range map[string]struct {
		policy policy.Policy
		reach  map[string]string // host → address; empty: refused
	}{
		"rules": {named, map[string]string{
			"private.test": private, "allow.test": allowed,
			"cname.test": "", "cnamepriv.test": "", "meta.test": "", "loop.test": "",
		}},
		"full": {full, map[string]string{
			"private.test": private, "cnamepriv.test": private, "allow.test": allowed,
			"meta.test": "", "loop.test": "", "evil.test": "", "host.test": "",
		}},
	} {
		l := newLab(t, c.policy)
		for name, want := range c.reach {
			got, err := l.get(second+":443", &tls.Config{ServerName: name})
			if want == "" && !isReset(err) || want != "" && !strings.Contains(got, "hello from "+want) {
				t.Errorf("%s: %s: %q, %v", what, name, got, err)
			}
			answer := answers(l.lookup("udp", "192.0.0.1:53", name, mdns.TypeA))
			if (len(answer) > 0) != (want != "" || name == "host.test") {
				t.Errorf("%s: the answer for %s is %v", what, name, answer)
			}
		}
		l.untouched(metadata, "127.0.0.1", evil, host)
	}
	l := newLab(t, full)
	for dest, want := range map[string]bool{private + ":22": true, metadata + ":22": false, host + ":80": false, "127.0.0.1:80": false} {
		if strings.HasPrefix(dest, "127.") {
			continue // never leaves the sandbox
		}
		c := l.dial("tcp4", dest)
		b := make([]byte, 64)
		n, err := c.Read(b)
		if got := strings.HasPrefix(string(b[:n]), "SSH-2.0"); got != want {
			t.Errorf("full, %s by number: %q, %v", dest, b[:n], err)
		}
	}
	l.untouched(metadata, host)
}

// One service of the machine, by its port, and nothing beside it.
func TestService_OfTheMachine(t *testing.T) {
	t.Parallel()
	service, err := policy.ServiceRule(8081)
	if err != nil {
		t.Fatal(err)
	}
	l := newLab(t, policy.Policy{Mode: bailey.NetAllow, Allow: []policy.Rule{service}})
	l.web(l.hostSide, "127.0.0.1:8081", false)
	l.web(l.hostSide, host+":8082", false)
	got := answers(l.lookup("udp", "192.0.0.1:53", policy.ServiceHost, mdns.TypeA))
	if len(got) != 1 || got[0] != policy.ServiceAddr().String() {
		t.Fatalf("the name resolves to %v", got)
	}
	at := func(port string) string {
		text, _ := l.say(got[0]+":"+port, "GET / HTTP/1.1\r\nHost: "+policy.ServiceHost+":"+port+"\r\nConnection: close\r\n\r\n")
		return text
	}
	if text := at("8081"); !strings.Contains(text, "hello from 127.0.0.1") {
		t.Errorf("the service: %q", text)
	}
	for _, port := range []string{"8082", "443"} {
		if text := at(port); strings.Contains(text, "hello") {
			t.Errorf("port %s: %q", port, text)
		}
	}
	if text, _ := l.say(got[0]+":8081", "GET / HTTP/1.1\r\nHost: loop.test:8081\r\nConnection: close\r\n\r\n"); strings.Contains(text, "hello") {
		t.Errorf("by another name: %q", text)
	}
	l.untouched(host)
	for _, q := range l.questions() {
		t.Errorf("a question left: %s", q)
	}
	without := newLab(t, policy.Policy{Mode: bailey.NetFull})
	without.web(without.hostSide, "127.0.0.1:8081", false)
	if got := answers(without.lookup("udp", "192.0.0.1:53", policy.ServiceHost, mdns.TypeA)); len(got) != 0 {
		t.Errorf("full: the name resolves to %v", got)
	}
	if text, _ := without.say(policy.ServiceAddr().String()+":8081", "GET / HTTP/1.1\r\nHost: "+policy.ServiceHost+":8081\r\n\r\n"); strings.Contains(text, "hello") {
		t.Errorf("full: %q", text)
	}
	without.untouched("127.0.0.1")
}

// dns open answers what no rule names; the connection is still refused.
func TestDNS_Open(t *testing.T) {
	t.Parallel()
	p := allow(t, "allow.test")
	p.DNS, p.Deny = bailey.DNSOpen, rules(t, "other.test")
	l := newLab(t, p)
	for name, want := range map[string]string{"allow.test": allowed, "evil.test": evil, "private.test": "", "other.test": ""} {
		if got := strings.Join(answers(l.lookup("udp", "192.0.0.1:53", name, mdns.TypeA)), " "); got != want {
			t.Errorf("%s resolves to %q, want %q", name, got, want)
		}
	}
	if _, err := l.get(evil+":443", &tls.Config{ServerName: "evil.test"}); !isReset(err) {
		t.Errorf("a connection to what was looked up: %v", err)
	}
	if got, err := l.get(evil+":443", &tls.Config{ServerName: "allow.test"}); err != nil || !strings.Contains(got, "hello from "+allowed) {
		t.Errorf("the rule's host: %q, %v", got, err)
	}
	l.untouched(evil)
}

// A range in a deny rule holds for every way to an address in it: by number, by
// a name that an allow rule names, and for the answer of a look-up.
func TestDeny_Ranges(t *testing.T) {
	t.Parallel()
	p := policy.Policy{
		Mode:  bailey.NetOpen,
		Allow: rules(t, "evil.test", evil, evil+":22"),
		Deny:  append(rules(t, "11.0.0.64/26"), narrowed(t, "*.wild.test", policy.Narrow{Addresses: []netip.Prefix{netip.MustParsePrefix("11.0.0.8/29")}})),
	}
	l := newLab(t, p)
	l.rebind("in.wild.test", allowed)
	l.rebind("out.wild.test", "11.0.0.99")
	l.rebind("free.wild.test", "11.0.0.200")
	for _, c := range []struct {
		host, addr string
		port       uint16
		protocol   string
		rule       string // empty: allowed
	}{
		{"evil.test", evil, 443, "tls", "11.0.0.64/26"},
		{"evil.test", evil, 80, "http", "11.0.0.64/26"},
		{evil, evil, 80, "http", "11.0.0.64/26"},
		{evil, evil, 22, "banner", "11.0.0.64/26"},
		{"cname.test", evil, 443, "tls", "11.0.0.64/26"},
		{"in.wild.test", allowed, 443, "tls", "*.wild.test"},
		{"allow.test", allowed, 443, "tls", ""}, // the twin: the same address for another name
		{"allow.test", allowed, 80, "http", ""},
		{second, second, 22, "banner", ""},
	} {
		for _, w := range ways()[:3] {
			answered := false
			ev := l.outcome(func() { answered = w.make(l, c.host, c.addr, c.port, c.protocol) })
			if answered != (c.rule == "") || ev.Rule != c.rule || c.rule != "" && (ev.Reason != "denied-by-rule" || !strings.Contains(ev.Message, c.addr)) {
				t.Errorf("%s:%d %s, %s: answered %v, %+v; want rule %q", c.host, c.port, c.protocol, w.name, answered, ev, c.rule)
			}
		}
	}
	for name, want := range map[string]int{"evil.test": 0, "in.wild.test": 0, "out.wild.test": 0, "free.wild.test": 1, "allow.test": 1} {
		if got := answers(l.lookup("udp", "9.9.9.9:53", name, mdns.TypeA)); len(got) != want {
			t.Errorf("the look-up of %s says %v", name, got)
		}
	}
	l.untouched(evil)
}
