package egress

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/http/httpproxy"

	"github.com/bailey-dev/bailey/internal/policy"
)

// Upstream is a proxy by way of which hosts are reached, as some networks are
// left by one alone. It is asked for a name, and resolves that itself: what of
// that we can resolve too is judged as ever, and what we cannot is left to it.
type Upstream struct {
	Host  string // a name, or an address
	Port  uint16
	Login []byte // USER:PASSWORD; empty: none

	// Forward has it asked for plain HTTP request by request (RFC 9112 §3.2.2),
	// as one wants it that opens tunnels for TLS alone. It then sees those
	// requests, and whoever it hands them on to may see the login.
	Forward bool

	direct func(*url.URL) (*url.URL, error)
}

// NewUpstream makes one, but for hosts that are reached directly: as NO_PROXY
// has them, each with all below it.
func NewUpstream(host string, port uint16, login []byte, noProxy []string) *Upstream {
	const stand = "http://stand-in.invalid"
	c := httpproxy.Config{HTTPSProxy: stand, HTTPProxy: stand, NoProxy: strings.Join(noProxy, ",")}
	return &Upstream{Host: host, Port: port, Login: login, direct: c.ProxyFunc()}
}

// has reports whether a host is reached by way of the proxy.
func (u *Upstream) has(target string) bool {
	to, err := u.direct(&url.URL{Scheme: "https", Host: target})
	return err == nil && to != nil
}

// through is what the upstream proxy is to be asked for, or "". What has to be
// at an address that a rule names is dialled by us, and so is this machine.
func (f *flow) through() string {
	u := f.p.cfg.Upstream
	if u == nil || f.host == policy.ServiceHost || f.p.rules.Pins(f.request()) {
		return ""
	}
	host := f.host
	if host == "" {
		host = f.dest.Addr().String()
	}
	target := net.JoinHostPort(host, strconv.Itoa(int(f.dest.Port())))
	if !u.has(target) {
		return ""
	}
	return target
}

// dialThrough connects to a host by way of the upstream proxy (RFC 9110 §9.3.6).
func (f *flow) dialThrough(ctx context.Context, target string) (*net.TCPConn, error) {
	c, err := f.dialUpstream(ctx)
	if err != nil {
		return nil, err
	}
	if err := f.askUpstream(ctx, c, target); err != nil {
		reset(c)
		return nil, err
	}
	return c, nil
}

// dialUpstream connects to the upstream proxy. That lies where the user says,
// whatever that is.
func (f *flow) dialUpstream(ctx context.Context) (*net.TCPConn, error) {
	u := f.p.cfg.Upstream
	addrs := []netip.Addr{}
	if a, err := netip.ParseAddr(u.Host); err == nil {
		addrs = append(addrs, a)
	} else if addrs, err = f.p.cfg.Resolver.Lookup(ctx, strings.ToLower(u.Host)); err != nil {
		return nil, fmt.Errorf("find your upstream proxy: %w", err)
	}
	var errs []error
	for _, a := range addrs[:min(len(addrs), maxDials)] {
		to := netip.AddrPortFrom(a, u.Port)
		dialer := newDialer(only(to))
		c, err := dialer.DialContext(ctx, "tcp", to.String())
		if err != nil {
			errs = append(errs, err)
			continue
		}
		tcp, ok := c.(*net.TCPConn)
		if !ok {
			return nil, errors.Join(fmt.Errorf("dial %s: bug: not a TCP connection", to), c.Close())
		}
		f.dialled.Store(&to)
		return tcp, nil
	}
	return nil, fmt.Errorf("reach your upstream proxy: %w", errors.Join(errs...))
}

// only is a last look that lets nothing through but one address, which the user
// has named.
func only(to netip.AddrPort) lastLook {
	return func(_, address string, _ syscall.RawConn) error {
		if address != to.String() {
			return fmt.Errorf("dial %s: bug: your upstream proxy is at %s", address, to)
		}
		return nil
	}
}

// maxUpstreamHead bounds the head of the proxy's answer, in bytes.
const maxUpstreamHead = 16 << 10

// askUpstream asks for a tunnel, and takes no byte of what comes through it.
func (f *flow) askUpstream(ctx context.Context, c *net.TCPConn, target string) error {
	stop := context.AfterFunc(ctx, func() { reset(c) })
	defer stop()
	ask := "CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n"
	if login := f.p.cfg.Upstream.Login; len(login) > 0 {
		ask += "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString(login) + "\r\n"
	}
	_ = c.SetDeadline(f.p.cfg.Now().Add(dialTimeout))
	if _, err := c.Write([]byte(ask + "\r\n")); err != nil {
		return fmt.Errorf("ask your upstream proxy for %s: %w", target, err)
	}
	var head []byte
	for one := make([]byte, 1); !bytes.HasSuffix(head, []byte("\r\n\r\n")); {
		if len(head) == maxUpstreamHead {
			return fmt.Errorf("your upstream proxy answered for %s with a head of more than %d bytes", target, maxUpstreamHead)
		}
		if _, err := c.Read(one); err != nil {
			return fmt.Errorf("hear your upstream proxy about %s: %w", target, err)
		}
		head = append(head, one[0])
	}
	status, _, _ := strings.Cut(string(head), "\r\n")
	version, code, _ := strings.Cut(status, " ")
	code, _, _ = strings.Cut(code, " ")
	switch {
	case !strings.HasPrefix(version, "HTTP/1."):
		return errors.New("your upstream proxy speaks no HTTP")
	case code == "407":
		return errUpstreamLogin
	case len(code) == 3 && code[0] == '4' && f.protocol == policy.ProtocolHTTP && !f.p.cfg.Upstream.Forward:
		return fmt.Errorf("your upstream proxy refused %s with status %.3s; plain_http: forward may help (docs/upstream.md)", target, printable(code))
	case len(code) != 3 || code[0] != '2':
		// Its words are not repeated to the sandbox: they may hold what it was asked with.
		return fmt.Errorf("your upstream proxy refused %s with status %.3s", target, printable(code))
	}
	return c.SetDeadline(time.Time{})
}

// errUpstreamLogin is a proxy that answers 407.
var errUpstreamLogin = errors.New("your upstream proxy wants a login: keep USER:PASSWORD as a secret (bailey secret set NAME --for gateway), and name it in net.upstream.login")

// forward returns the upstream proxy that is asked for the requests of this
// connection as such, or nil.
func (e *exchange) forward() *Upstream {
	if u := e.f.p.cfg.Upstream; u != nil && u.Forward && e.open == nil && e.to.through != "" {
		return u
	}
	return nil
}

// reachUpstream connects to the upstream proxy.
func (e *exchange) reachUpstream(ctx context.Context) (net.Conn, func(), error) {
	c, err := e.f.dialUpstream(ctx)
	if err != nil {
		return nil, nil, err
	}
	return c, func() {}, nil
}

// form returns the request as it is put to the proxy: with the whole of what it
// is for as its target, and the login. What a proxy may answer by itself, which
// is what Max-Forwards and Expect are about, is left out.
func (u *Upstream) form(r *http.Request) *http.Request {
	out := r.WithContext(r.Context()) // a copy
	out.Header = r.Header.Clone()
	out.Header.Del("Max-Forwards")
	out.Header.Del("Expect")
	if len(u.Login) > 0 {
		out.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString(u.Login))
	}
	path := r.URL.Opaque
	switch path {
	case "":
		path = r.URL.EscapedPath()
	case "*": // of the host itself (RFC 9112 §3.2.4)
		path = ""
	}
	whole := *r.URL
	whole.Opaque = "//" + r.URL.Host + path
	out.URL = &whole
	return out
}
