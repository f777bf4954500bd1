package egress

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/policy"
)

// enter serves a connection that a program made to the explicit proxy: HTTP
// (RFC 9110 §9.3.6, RFC 9112 §3.2.2) or SOCKS5 (RFC 1928), told apart by the
// first byte. It reports whether a tunnel was granted: what comes next is then
// sniffed and judged as if it had been redirected to where the tunnel leads.
func (f *flow) enter(ctx context.Context) (tunnel bool) {
	deadline := f.p.cfg.Now().Add(sniffTimeout)
	first, err := take(f, deadline, parseOpening)
	switch {
	case err != nil:
		f.kept = errors.Is(err, io.EOF)
		f.refuse(policy.ReasonSilent, "the connection to bailey's proxy ended, or waited, before it said what it wants")
	case first == openSOCKS5:
		return f.enterSOCKS(ctx, deadline)
	case first == openConnect:
		return f.enterConnect(ctx, deadline)
	case first == openTLS:
		f.refuse(policy.ReasonBadTLS, "the connection to bailey's proxy itself speaks TLS; write the proxy's address with http://")
	case first == openSOCKS4:
		f.refuse(policy.ReasonBadRequest, "bailey's proxy does not speak SOCKS4; use SOCKS5, or HTTP")
	default:
		f.forward = true
		f.serveHTTP(ctx)
	}
	return false
}

// opening is what a connection to the explicit proxy begins with.
type opening uint8

const (
	openRequest opening = iota // any HTTP request but CONNECT
	openConnect
	openSOCKS5
	openSOCKS4
	openTLS
)

// parseOpening tells it from the first bytes, and takes none of them.
func parseOpening(b []byte) (o opening, size int, err error) {
	const connect = http.MethodConnect + " "
	n := min(len(b), len(connect))
	switch {
	case n == 0:
		return 0, 0, errShort
	case b[0] == socksVersion:
		return openSOCKS5, 0, nil
	case b[0] == socksVersion-1:
		return openSOCKS4, 0, nil
	case b[0] == tlsHandshake:
		return openTLS, 0, nil
	case string(b[:n]) != connect[:n]:
		return openRequest, 0, nil
	case n < len(connect):
		return 0, 0, errShort
	}
	return openConnect, 0, nil
}

// take reads until parse is content or refuses, and takes what it parsed off
// the head. parse returns errShort while a message does not end; it bounds how
// long one can be.
func take[T any](f *flow, deadline time.Time, parse func([]byte) (v T, size int, err error)) (T, error) {
	for {
		v, size, err := parse(f.head)
		if !errors.Is(err, errShort) {
			f.head = f.head[size:]
			return v, err
		}
		if err := f.readMore(deadline); err != nil {
			return v, err
		}
	}
}

// aim makes a host and port that a program said to the proxy the place that
// the connection goes to: a name that whatever it says later has to repeat, or
// an address as if it had been connected to.
func (f *flow) aim(host string, port uint16) bool {
	f.dest = netip.AddrPortFrom(netip.Addr{}, port)
	a, err := netip.ParseAddr(host)
	switch {
	case err == nil && a.Zone() == "" && !a.Is4():
		f.dest = netip.AddrPortFrom(a, port)
		f.refuse(policy.ReasonNotAllowed, "no sandbox reaches an IPv6 address yet: bailey dials by IPv4 alone; name the host")
		return false
	case err == nil && a.Is4():
		f.dest = netip.AddrPortFrom(a, port)
	default:
		if f.tunnel, err = policy.NormalizeName(host); err != nil {
			f.host = printable(host)
			f.refuse(policy.ReasonInvalidName, err.Error())
			return false
		}
	}
	if port == dnsPort { // as for every connection that is redirected
		f.host = f.tunnel
		f.refuse(policy.ReasonNotAllowed, "whatever goes to port 53 is answered by bailey itself: ask the name server in /etc/resolv.conf")
		return false
	}
	return true
}

// sameAsTunnel holds the name that a connection says to the one that its tunnel
// is for.
func (f *flow) sameAsTunnel() bool {
	if f.tunnel == "" || f.host == f.tunnel {
		return true
	}
	f.refuse(policy.ReasonNameMismatch, fmt.Sprintf("a tunnel for %s was used for %s; ask for another one", f.tunnel, f.host))
	return false
}

// dnsPort is never a tunnel's: the airlock redirects it to the responder.
const dnsPort = 53

// mayEnter decides whether a tunnel is granted, so that a refusal can say why.
// What is said in the tunnel is decided again, by more: rules about requests,
// which cannot be seen yet, are left to that.
func (f *flow) mayEnter(ctx context.Context) bool {
	if len(f.gitHosts()) > 0 {
		return true // what is asked for in it is decided
	}
	if f.tunnel == "" {
		return f.identify(true) || f.decision.Reason == policy.ReasonSealed
	}
	f.host, f.spoken = f.tunnel, true
	if !f.decide() {
		return f.decision.Reason == policy.ReasonSealed
	}
	return !f.resolve(ctx).none()
}

// enterConnect answers CONNECT.
func (f *flow) enterConnect(ctx context.Context, deadline time.Time) bool {
	to, err := take(f, deadline, parseConnect)
	if bad, ok := errors.AsType[*badRequestError](err); ok {
		f.refuse(bad.reason, bad.detail)
		f.explainConnect("this request")
		return false
	}
	if err != nil {
		f.refuse(policy.ReasonBadRequest, "the CONNECT request does not end")
		return false
	}
	f.program = to.program
	if !f.aim(to.host, to.port) || !f.mayEnter(ctx) {
		f.explainConnect(fmt.Sprintf("CONNECT %s (port %d)", printable(to.host), to.port))
		return false
	}
	return f.answer([]byte("HTTP/1.1 200 Connection established\r\n\r\n"))
}

// authority is whom a CONNECT is for, and what asks. The host has no brackets.
type authority struct {
	host    string
	port    uint16
	program string // see programOf
}

// parseConnect judges a CONNECT request as strictly as others: one line end,
// one target with a port, at most one Host, which names the same, and nothing
// that could be read as a body. What else it says, such as a name and password
// for the proxy, is of no account.
func parseConnect(b []byte) (authority, int, error) {
	end := bytes.Index(b, []byte("\r\n\r\n"))
	if end < 0 && len(b) > maxHead || end > maxHead {
		return authority{}, 0, malformed("the head of the request is longer than %d bytes", maxHead)
	}
	if end < 0 {
		if err := checkLineEnds(b); err != nil {
			return authority{}, 0, err
		}
		return authority{}, 0, errShort
	}
	to, err := parseConnectHead(b[:end+4])
	if err != nil {
		return authority{}, 0, err
	}
	return to, end + 4, nil
}

// parseConnectHead judges a head that is whole.
func parseConnectHead(head []byte) (authority, error) {
	if err := checkLineEnds(head); err != nil {
		return authority{}, err
	}
	lines := strings.Split(strings.TrimSuffix(string(head), "\r\n\r\n"), "\r\n")
	words := strings.Split(lines[0], " ")
	if len(words) != 3 || words[0] != http.MethodConnect || words[2] != "HTTP/1.1" && words[2] != "HTTP/1.0" {
		return authority{}, malformed("the request line is not CONNECT HOST:PORT HTTP/1.1")
	}
	fields, err := parseFields(lines[1:])
	if err != nil {
		return authority{}, err
	}
	if length := fields["Content-Length"]; len(fields["Transfer-Encoding"]) > 0 || len(length) > 1 || len(length) == 1 && length[0] != "0" {
		return authority{}, malformed("a CONNECT request has a body")
	}
	to, err := parseAuthority(words[1], "")
	if err != nil {
		return authority{}, err
	}
	to.program = programOf(fields)
	return to, checkConnectHost(words[1], to, fields["Host"])
}

// checkConnectHost wants Host to be the target, with or without its port. A
// client of HTTP/1.0 sends none.
func checkConnectHost(target string, to authority, hosts []string) error {
	switch {
	case len(hosts) == 0:
		return nil
	case len(hosts) > 1:
		return &badRequestError{policy.ReasonNoName, "the request does not name its host exactly once (Host)"}
	}
	bare := strings.TrimSuffix(target, fmt.Sprintf(":%d", to.port))
	if !strings.EqualFold(hosts[0], target) && !strings.EqualFold(hosts[0], bare) {
		return &badRequestError{policy.ReasonNameMismatch, "the request target and Host name different hosts"}
	}
	return nil
}

// parseAuthority takes HOST:PORT apart. port is what stands for one that is
// not written; without it a port has to be.
func parseAuthority(s, port string) (authority, error) {
	host := s
	if i := strings.LastIndexByte(s, ':'); i >= 0 && !strings.HasSuffix(s, "]") {
		host, port = s[:i], s[i+1:]
	}
	n, err := policy.CheckPort(port)
	if err != nil {
		return authority{}, malformed("%q is not HOST:PORT with a port from 1 to 65535", printable(s))
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		if a, err := netip.ParseAddr(inner); !ok || err != nil || a.Is4() || a.Zone() != "" {
			return authority{}, &badRequestError{policy.ReasonInvalidName, fmt.Sprintf("%q: brackets are for IPv6 addresses without a zone", printable(s))}
		}
		return authority{host: inner, port: n}, nil
	}
	if strings.Contains(host, ":") {
		return authority{}, &badRequestError{policy.ReasonInvalidName, fmt.Sprintf("%q has several colons and no brackets", printable(s))}
	}
	return authority{host: host, port: n}, nil
}

// explainConnect answers a CONNECT that is refused, as explain does requests.
func (f *flow) explainConnect(what string) {
	d := f.decision
	status := refusalStatus(d.Reason)
	body := explanation(what, d)
	f.farewell(fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nX-Bailey-Reason: %s\r\nCache-Control: no-store\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s",
		status, http.StatusText(status), d.Reason, len(body), body))
}

// refusalStatus is the HTTP status for what the explicit proxy refuses.
func refusalStatus(reason string) int {
	switch reason {
	case policy.ReasonBadRequest, policy.ReasonInvalidName, policy.ReasonNoName, policy.ReasonNameMismatch:
		return http.StatusBadRequest
	case policy.ReasonUnresolved, policy.ReasonUpstream:
		return http.StatusBadGateway
	}
	return http.StatusForbidden
}

// explanation is the text of a refusal, or of a failure to reach what is
// allowed, for a person or an agent to read.
func explanation(what string, d bailey.Decision) string {
	verb, why := "refused", d.Reason
	if words := policy.Unreached(d.Reason); words != "" {
		verb, why = "could not pass on", words+" ("+d.Reason+")"
	} else if d.Verdict == bailey.Allow {
		verb = "could not pass on"
	}
	return fmt.Sprintf("bailey %s %s: %s.\n%s\n", verb, what, why, d.Detail)
}

// answer sends bytes of the proxy's own to the sandbox.
func (f *flow) answer(b []byte) bool {
	_ = f.down.SetWriteDeadline(f.p.cfg.Now().Add(sniffTimeout))
	_, err := f.down.Write(b)
	_ = f.down.SetWriteDeadline(time.Time{})
	if err != nil {
		f.refuse(policy.ReasonSilent, "the connection ended before the proxy's answer")
	}
	return err == nil
}

// farewell sends the last answer and ends the connection in order. What the
// client has sent on is read for a moment: unread, the kernel would turn the
// end into a reset, which can overtake the answer.
func (f *flow) farewell(b []byte) {
	const moment, most = 500 * time.Millisecond, 256 << 10
	refusal := f.decision
	f.kept = f.answer(b) && f.down.CloseWrite() == nil
	f.decision = refusal
	if f.kept {
		_ = f.down.SetReadDeadline(f.p.cfg.Now().Add(moment))
		_, _ = io.CopyN(io.Discard, f.down, most)
	}
}
