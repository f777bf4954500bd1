package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"syscall"

	"github.com/bailey-dev/bailey/internal/policy"
	"github.com/bailey-dev/bailey/internal/upstream"
)

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
	if !u.Has(target) {
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
	return nil, fmt.Errorf("reach your upstream proxy: %w", &unreachedError{text: listed(errs), causes: errs})
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

// askUpstream asks for a tunnel.
func (f *flow) askUpstream(ctx context.Context, c *net.TCPConn, target string) error {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	err := f.p.cfg.Upstream.Ask(ctx, c, target)
	if no, ok := errors.AsType[*upstream.RefusedError](err); ok && no.ByPolicy() && f.protocol == policy.ProtocolHTTP && !f.p.cfg.Upstream.Forward {
		return fmt.Errorf("%w; plain_http: forward may help (docs/upstream.md)", err)
	}
	return err //nolint:wrapcheck // it says what was asked of whom
}

// forward returns the upstream proxy that is asked for the requests of this
// connection as such, or nil.
func (e *exchange) forward() *upstream.Way {
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
func form(u *upstream.Way, r *http.Request) *http.Request {
	out := r.WithContext(r.Context()) // a copy
	out.Header = r.Header.Clone()
	out.Header.Del("Max-Forwards")
	out.Header.Del("Expect")
	u.Authorize(out.Header)
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
