package upstream

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpproxy"
)

// Proxy is the proxy by way of which hosts are reached. It holds a login in the
// clear, and goes through a pipe and nothing else.
type Proxy struct {
	Host    string   `json:"host"` // a name, or an address
	Port    uint16   `json:"port"`
	Login   []byte   `json:"login,omitempty"`    // USER:PASSWORD; empty: none
	NoProxy []string `json:"no_proxy,omitempty"` // what is reached directly, as NO_PROXY has it

	// Forward has it asked for plain HTTP request by request (RFC 9112 §3.2.2),
	// as one wants it that opens tunnels for TLS alone. It then sees those
	// requests, and whoever it hands them on to may see the login.
	Forward bool `json:"forward,omitempty"`
}

// String keeps the login from being printed.
func (Proxy) String() string { return "[upstream]" }

// GoString keeps %#v from printing it.
func (p Proxy) GoString() string { return p.String() }

// Way is a Proxy in use.
type Way struct {
	Proxy

	direct func(*url.URL) (*url.URL, error)
}

// New makes a Way; of none it is nil, which leads nowhere.
func New(p *Proxy) *Way {
	if p == nil {
		return nil
	}
	const stand = "http://stand-in.invalid"
	c := httpproxy.Config{HTTPSProxy: stand, HTTPProxy: stand, NoProxy: strings.Join(p.NoProxy, ",")}
	return &Way{*p, c.ProxyFunc()}
}

// Roots are those that this machine trusts, and extra certificates (DER).
func Roots(extra [][]byte) (*x509.CertPool, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("read the roots that this machine trusts: %w", err)
	}
	for _, der := range extra {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, fmt.Errorf("read a certificate that is trusted too: %w", err)
		}
		pool.AddCert(cert)
	}
	return pool, nil
}

// Has reports whether a host (a name or an address, with or without a port) is
// reached by way of the proxy. This machine itself never is.
func (w *Way) Has(host string) bool {
	if w == nil {
		return false
	}
	to, err := w.direct(&url.URL{Scheme: "https", Host: host})
	return err == nil && to != nil
}

// Addr is where the proxy listens, as HOST:PORT.
func (w *Way) Addr() string { return net.JoinHostPort(w.Host, strconv.Itoa(int(w.Port))) }

// Authorize puts the login on a request to the proxy.
func (w *Way) Authorize(h http.Header) {
	if len(w.Login) > 0 {
		h.Set("Proxy-Authorization", w.basic())
	}
}

func (w *Way) basic() string { return "Basic " + base64.StdEncoding.EncodeToString(w.Login) }

// ErrLogin is a proxy that answers 407.
var ErrLogin = errors.New("your upstream proxy wants a login: keep USER:PASSWORD as a secret (bailey secret set NAME --for gateway), and name it in net.upstream.login")

// errProtocol is a proxy that answers with something else.
var errProtocol = errors.New("your upstream proxy speaks no HTTP")

// RefusedError is a proxy that opens no tunnel. Its words are not repeated: they
// may hold what it was asked with.
type RefusedError struct {
	Target string // HOST:PORT
	Status string // three digits, or "?"
}

// Error implements error.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("your upstream proxy refused %s with status %s", e.Target, e.Status)
}

// ByPolicy reports whether the proxy understood and does not want to (4xx).
func (e *RefusedError) ByPolicy() bool { return e.Status[0] == '4' }

// maxHead bounds the head of the proxy's answer, in bytes.
const maxHead = 16 << 10

// Ask asks for a tunnel to target, HOST:PORT, on a connection to the proxy (RFC
// 9110 §9.3.6), and takes no byte of what comes through it. ErrLogin and
// *RefusedError are told apart. The deadlines of c are its own meanwhile, and
// whoever calls it closes c on an error.
func (w *Way) Ask(ctx context.Context, c net.Conn, target string) error {
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	err := w.ask(c, target)
	if !stop() {
		return fmt.Errorf("ask your upstream proxy for %s: %w", target, context.Cause(ctx))
	}
	return err
}

func (w *Way) ask(c net.Conn, target string) error {
	ask := "CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n"
	if len(w.Login) > 0 {
		ask += "Proxy-Authorization: " + w.basic() + "\r\n"
	}
	if _, err := c.Write([]byte(ask + "\r\n")); err != nil {
		return fmt.Errorf("ask your upstream proxy for %s: %w", target, err)
	}
	var head []byte
	for one := make([]byte, 1); !bytes.HasSuffix(head, []byte("\r\n\r\n")); {
		if len(head) == maxHead {
			return fmt.Errorf("your upstream proxy answered for %s with a head of more than %d bytes", target, maxHead)
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
		return errProtocol
	case code == strconv.Itoa(http.StatusProxyAuthRequired):
		return ErrLogin
	case len(code) != 3 || strings.Trim(code, "0123456789") != "":
		return &RefusedError{target, "?"}
	case code[0] != '2':
		return &RefusedError{target, code}
	}
	return nil
}

// Into has a transport reach hosts by way of the proxy: by tunnels, and plain
// HTTP as the proxy wants it. It is called when DialContext is set, on a Way that
// may be nil.
func (w *Way) Into(t *http.Transport) {
	if w == nil {
		return
	}
	dial := t.DialContext
	t.DialContext = w.Dialer(dial)
	if !w.Forward {
		return
	}
	at := &url.URL{Scheme: "http", Host: w.Addr()}
	if user, password, ok := strings.Cut(string(w.Login), ":"); ok {
		at.User = url.UserPassword(user, password)
	}
	t.Proxy = func(r *http.Request) (*url.URL, error) {
		if r.URL.Scheme == "http" && w.Has(r.URL.Host) {
			return at, nil
		}
		return nil, nil //nolint:nilnil // by a tunnel, or directly
	}
}

// Dial is what connects to an address, HOST:PORT.
type Dial = func(ctx context.Context, network, addr string) (net.Conn, error)

// askWait is how long the proxy may take to open a tunnel, which takes it a
// connection of its own.
const askWait = 20 * time.Second

// Dialer has what is reached by way of the proxy dialled through a tunnel.
func (w *Way) Dialer(dial Dial) Dial {
	if w == nil {
		return dial
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if addr == w.Addr() || !w.Has(addr) {
			return dial(ctx, network, addr)
		}
		c, err := dial(ctx, network, w.Addr())
		if err != nil {
			return nil, fmt.Errorf("reach your upstream proxy: %w", err)
		}
		ctx, cancel := context.WithTimeout(ctx, askWait)
		defer cancel()
		if err := w.Ask(ctx, c, addr); err != nil {
			return nil, errors.Join(err, c.Close())
		}
		return c, nil
	}
}
