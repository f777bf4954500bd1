package cli

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/policy"
	"github.com/bailey-dev/bailey/internal/settings"
	"github.com/bailey-dev/bailey/internal/terminal"
)

type policyTestCommand struct {
	Host   string `arg:"" placeholder:"HOST[:PORT]" help:"A name or an address; the port is 443 unless it is written."`
	Method string `placeholder:"METHOD" default:"GET" help:"Of the request that is asked about. Default: GET."`
	Path   string `placeholder:"PATH" default:"/" help:"Of the request that is asked about, with its query. Default: /."`
	Policy text   `placeholder:"FILE" help:"Ask this file alone, and not what holds here."`
	JSON   bool   `name:"json" help:"Print JSON."`
}

// Help is what `bailey policy test --help` says beyond the flags.
func (policyTestCommand) Help() string {
	return `Answers by what holds here. Nothing is looked up and nothing is started: a name that is allowed can still be refused when it turns out to lie at an address that no rule names. With --json: an object with verdict (allow, deny or ask), rule, reason, detail, from, host, port, method and path, tls_opened when rules want TLS to the host opened, and refused when bailey run would not start by this policy, which says why.

Examples:
  bailey policy test api.example.com
  bailey policy test db.example.com:5432 --json
  bailey policy test api.example.com:80 --method POST --path /v1/models

Exit codes: 0 whatever the verdict; 125 when there is none.`
}

// testReport is the published form of an answer.
type testReport struct {
	Verdict string `json:"verdict"`
	Rule    string `json:"rule"`
	Reason  string `json:"reason"`
	Detail  string `json:"detail"`
	From    string `json:"from"`
	Host    string `json:"host"`
	Port    uint16 `json:"port"`
	Method  string `json:"method"`
	Path    string `json:"path"`
	Opened  bool   `json:"tls_opened,omitempty"`
	Refused string `json:"refused,omitempty"`
}

// Run answers one question.
func (c *policyTestCommand) Run(a *app) error {
	ask, err := c.request()
	if err != nil {
		return err
	}
	r, _, err := a.answer(ask, string(c.Policy))
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(a.stdout, r)
	}
	_, err = fmt.Fprintln(a.stdout, terminal.Sanitize(r.line()))
	return err
}

// line is the answer for a person.
func (r testReport) line() string {
	line := fmt.Sprintf("%s %s:%d (%s): %s", r.Verdict, bracketed(r.Host), r.Port, r.Reason, r.Detail)
	if r.From != "" {
		line += " [" + r.From + "]"
	}
	if r.Opened {
		line += "; TLS to it is opened"
	}
	return line
}

// answer answers a question by what holds here, or by a file alone. Where
// nothing would start by it, it says so.
func (a *app) answer(ask policy.Request, file string) (testReport, settings.Sources, error) {
	s, e, err := a.holds(file)
	if err != nil {
		return testReport{}, s, err
	}
	refused := refusal(e)
	if refused != "" {
		without := ""
		if len(e.Widens) > 0 {
			without = "this is without what would widen; "
		}
		_, _ = fmt.Fprintf(a.stderr, "note: %sbailey run does not start: %s\n", without, terminal.Sanitize(refused))
	}
	d := outOfReach(ask, policy.Decide(e.Policy(), ask))
	r := reportOf(ask, here(ask, e, d), e.Mode.Value)
	r.From, r.Refused = decider(e, ask, d), refused
	r.Opened = ask.Protocol == policy.ProtocolTLS && policy.NewIndex(e.Policy()).Opens(ask)
	return r, s, nil
}

// reportOf is the published form of a decision about a question.
func reportOf(ask policy.Request, d bailey.Decision, mode bailey.NetMode) testReport {
	r := testReport{
		Verdict: d.Verdict.String(), Rule: d.Rule, Reason: d.Reason, Detail: d.Detail,
		Host: ask.Host, Port: ask.Port, Method: ask.Method, Path: ask.Path,
	}
	if ask.Host == "" {
		r.Host = ask.Addr.String()
	}
	if d.Verdict == bailey.Allow {
		r.Reason, r.Detail = policy.ReasonAllowedByRule, fmt.Sprintf("the rule %s allows it", d.Rule)
		if d.Rule == "" {
			r.Reason, r.Detail = policy.ReasonAllowedByMode, fmt.Sprintf("mode %s allows it", mode)
		}
	}
	return r
}

// outOfReach refuses what the rules would allow and no connection comes to.
func outOfReach(ask policy.Request, d bailey.Decision) bailey.Decision {
	const dnsPort = 53
	detail := ""
	switch {
	case d.Verdict == bailey.Deny:
	case ask.Host == "" && ask.Addr.Is6():
		detail = "no sandbox reaches an IPv6 address yet: bailey dials by IPv4 alone"
	case policy.IsMetadata(ask.Host):
		detail = "a cloud's metadata service lies at a link-local address, and no rule opens those"
	case ask.Port == dnsPort:
		detail = "whatever goes to port 53 is answered by bailey itself"
	}
	if detail == "" {
		return d
	}
	return bailey.Decision{Verdict: bailey.Deny, Rule: "", Reason: policy.ReasonNotAllowed, Detail: detail}
}

func bracketed(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

// request reads the question.
func (c *policyTestCommand) request() (policy.Request, error) {
	if !strings.HasPrefix(c.Path, "/") {
		return policy.Request{}, bailey.NewError(bailey.Invalid, fmt.Sprintf("--path: %q does not begin with a slash", c.Path), "write --path /v1/models")
	}
	if err := policy.CheckMethod(c.Method); err != nil {
		return policy.Request{}, bailey.WrapError(bailey.Invalid, "--method", err, "write it in capitals, such as POST")
	}
	ask, _, err := question(c.Host)
	ask.Method = c.Method
	ask.Path, ask.Query, _ = strings.Cut(c.Path, "?")
	return ask, err
}

// question reads HOST or HOST:PORT as a connection that is asked about: to 443
// where no port is written, which it reports.
func question(text string) (ask policy.Request, written bool, err error) {
	ask = policy.Request{Protocol: policy.ProtocolTLS, Host: text, Port: 443}
	if strings.Contains(text, "/") {
		return ask, false, bailey.NewError(bailey.Invalid, fmt.Sprintf("%q is not a host name", text), "write the host alone"+bareHost(text)+"; bailey policy test takes a path with --path")
	}
	if addr, err := netip.ParseAddr(text); err == nil {
		ask.Host, ask.Addr = "", addr
		return ask, false, nil
	}
	host, port, found := text, "", false
	if i := strings.LastIndexByte(text, ':'); i >= 0 && !strings.HasSuffix(text, "]") {
		host, port, found = text[:i], text[i+1:], true
	}
	if found {
		n, err := policy.CheckPort(port)
		if err != nil {
			return ask, false, err
		}
		ask.Port = n
	}
	ask.Host = host
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		ask.Host, ask.Addr = "", addr
		return ask, found, nil
	}
	name, err := policy.OperatorName(host)
	if err != nil {
		return ask, false, bailey.WrapError(bailey.Invalid, fmt.Sprintf("%q", text), err, "write a host such as example.com, or example.com:8443")
	}
	ask.Host = name
	if ask.Port == 80 {
		ask.Protocol = policy.ProtocolHTTP
	}
	return ask, found, nil
}

// bareHost writes the host and port out that a URL names, for a hint.
func bareHost(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" {
		return ", such as example.com:443"
	}
	port := u.Port()
	if port == "" && u.Scheme == "http" {
		port = "80"
	}
	if port == "" {
		return ": " + u.Hostname()
	}
	return ": " + net.JoinHostPort(u.Hostname(), port)
}

// decider finds where the rule that decided comes from.
func decider(e settings.Effective, ask policy.Request, d bailey.Decision) string {
	p := e.Policy()
	list := e.Deny
	if d.Verdict == bailey.Allow {
		list = e.Allow
	}
	if d.Rule == "" {
		return ""
	}
	for _, h := range list {
		if h.String() != d.Rule {
			continue
		}
		alone := policy.Policy{Mode: p.Mode, Deny: []policy.Rule{h.Rule}, Allow: p.Allow}
		if d.Verdict == bailey.Allow {
			alone = policy.Policy{Mode: bailey.NetAllow, Allow: []policy.Rule{h.Rule}}
		}
		if got := policy.Decide(alone, ask); got.Verdict == d.Verdict && got.Rule == d.Rule {
			return h.From
		}
	}
	return ""
}
