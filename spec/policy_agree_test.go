package spec_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey/internal/testkit/netlab"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// agreed is the policy of TestEGR08_TestAndGateAgree: each kind of rule, and
// rules that overlap.
const agreed = `net:
  allow:
    - allow.test
    - {host: www.allow.test, ports: [80, 8080], methods: [GET, HEAD], paths: [/v1/*, /health]}
    - {host: www.allow.test, ports: [443], methods: [POST]}
    - "*.model.test:80"
    - {host: model.test, ports: [80], methods: [POST]}
    - {host: private.test, ports: [8080], addresses: [10.0.0.0/8]}
    - 11.0.0.66:8080
  deny:
    - evil.test
    - bad.model.test
    - {host: allow.test, ports: [80], paths: [/secret/*]}
    - 203.0.113.0/24
`

// asked is one question that both are asked.
type asked struct {
	host, method, path string
	port               int
}

func (q asked) String() string { return fmt.Sprintf("%s %s:%d%s", q.method, q.host, q.port, q.path) }

// attempt is the question as a connection to where the name might lie.
func (q asked) attempt(n int) attempt {
	to := "11.0.0.10"
	if net.ParseIP(q.host) != nil {
		to = q.host
	}
	host := q.host
	if q.port != 80 && q.port != 443 {
		host += ":" + strconv.Itoa(q.port)
	}
	a := say(fmt.Sprintf("%d: %s", n, q), net.JoinHostPort(to, strconv.Itoa(q.port)),
		fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", q.method, q.path, host), nil, nil)
	if q.port == 443 {
		a.Op, a.SNI = "tls", q.host
	}
	return a
}

// questions are random, and the same in each run.
func questions(n int) []asked {
	r := rand.New(rand.NewPCG(8, 40))
	one := func(list ...string) string { return list[r.IntN(len(list))] }
	ports := []int{80, 80, 80, 8080, 443}
	var out []asked
	for len(out) < n {
		q := asked{
			host: one("allow.test", "ALLOW.test", "www.allow.test", "www.allow.test", "www.allow.test", "model.test", "sub.model.test", "bad.model.test",
				"evil.test", "x.evil.test", "private.test", "other.test", "11.0.0.66", "10.1.2.3", "203.0.113.9"),
			method: one("GET", "GET", "POST", "HEAD", "DELETE"),
			path:   one("/", "/v1/a", "/v1", "/v1/a/b?q=1", "/v1//a", "/v1/../v2", "/health", "/secret/x", "/Secret/x", "/v1/%61"),
			port:   ports[r.IntN(len(ports))],
		}
		if q.port == 443 && net.ParseIP(q.host) != nil { // names no host
			continue
		}
		if !slices.Contains(out, q) {
			out = append(out, q)
		}
	}
	return out
}

// TestEGR08_TestAndGateAgree: what `bailey policy test` answers is what the gate
// of a running sandbox does, and says.
func TestEGR08_TestAndGateAgree(t *testing.T) {
	t.Attr("claim", "EGR-08")
	t.Parallel()
	list := questions(40)
	var attempts []attempt
	for i, q := range list {
		attempts = append(attempts, q.attempt(i+1))
	}
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		lab := netlab.New(t)
		world(lab)
		lab.Trust()
		for _, name := range []string{"sub.model.test", "bad.model.test", "x.evil.test", "other.test"} {
			lab.Name(name, netlab.Allowed)
		}
		for _, at := range []string{"11.0.0.10:8080", "11.0.0.66:8080"} {
			ln := lab.Listen(at)
			go func() { _ = http.Serve(ln, http.NotFoundHandler()) }() // ends with the lab
		}
		y.Wrap = lab.Enter
		userPolicy(t, y, agreed)
		attack(t, y, attempts, "--name", "asked")
		did := map[uint64]netRecord{}
		for _, r := range kept(t, y, "--sandbox", "asked") {
			did[r.Connection] = r // the latest
		}
		verdicts := map[string]int{}
		for i, q := range list {
			var said struct{ Verdict, Rule, Reason string }
			out := y.Run(t, "policy", "test", fmt.Sprintf("%s:%d", q.host, q.port), "--method", q.method, "--path", q.path, "--json").OK(t).Stdout
			if err := json.Unmarshal([]byte(out), &said); err != nil {
				t.Fatal(err)
			}
			verdicts[said.Verdict+" "+said.Reason]++
			if said.Verdict == "allow" { // the record names a rule, and no reason
				said.Reason = ""
			}
			r, ok := did[uint64(i+1)]
			if got := r.Verdict + " " + r.Rule + " " + r.Reason; !ok || got != said.Verdict+" "+said.Rule+" "+said.Reason {
				t.Errorf("%s: policy test says %+v, the gate %q (%s)", q, said, got, r.Message)
			}
		}
		for want := range strings.FieldsSeq("allowed-by-rule not-allowed port-not-allowed method-not-allowed path-not-allowed denied-by-rule ambiguous-path") {
			verdict := "deny "
			if want == "allowed-by-rule" {
				verdict = "allow "
			}
			if verdicts[verdict+want] == 0 {
				t.Errorf("no question comes to %s: %v", want, verdicts)
			}
		}
		if verdicts["allow allowed-by-rule"] < 5 {
			t.Errorf("too few are allowed to tell: %v", verdicts)
		}
	})
}
