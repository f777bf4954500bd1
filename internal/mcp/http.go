package mcp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/net/netutil"

	"github.com/bailey-dev/bailey"
)

// Path is where the HTTP door is.
const Path = "/mcp"

// Bounds of the HTTP door.
const (
	headerLimit     = 32 << 10
	headerWithin    = 10 * time.Second
	bodyWithin      = 30 * time.Second
	idleFor         = 2 * time.Minute
	sessionFor      = 24 * time.Hour // without any request
	mostConnections = 256
)

// Door is who may come in.
type Door struct {
	// TokenSum is the SHA-256 of the token that a request has to carry: who
	// serves need not know the token itself. Without one nobody comes in.
	TokenSum []byte
	// Clients is told on how many connections the token has been shown, at each
	// change. It must not block, and may be nil.
	Clients func(number int)
}

// Serve answers MCP over streamable HTTP on a listener of the loopback until
// ctx ends, then closes it. A listener elsewhere is a *bailey.Error of kind
// Forbidden.
func (s *Server) Serve(ctx context.Context, l net.Listener, d Door) error {
	h, err := s.guard(l.Addr(), d)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	srv := &http.Server{
		Handler: h, ConnContext: h.callers.know, ConnState: h.callers.changed, ReadHeaderTimeout: headerWithin, IdleTimeout: idleFor, MaxHeaderBytes: headerLimit,
		ErrorLog: log.New(io.Discard, "", 0), // what strangers send is no news
	}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(netutil.LimitListener(l, mostConnections)); !errors.Is(err, http.ErrServerClosed) {
		return bailey.WrapError(bailey.Unavailable, "serve MCP over HTTP", err, "")
	}
	return nil
}

// Handler is the HTTP door at an address of the loopback: the guard, and behind
// it the protocol.
func (s *Server) Handler(at net.Addr, d Door) (http.Handler, error) { return s.guard(at, d) }

func (s *Server) guard(at net.Addr, d Door) (*guard, error) {
	ap, err := netip.ParseAddrPort(at.String())
	if err != nil || !ap.Addr().Unmap().IsLoopback() || ap.Port() == 0 {
		return nil, bailey.NewError(bailey.Forbidden, "the MCP door does not listen on "+at.String(), "it is for this machine alone: 127.0.0.1 or [::1], and a port")
	}
	inner := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s.sdk }, &sdk.StreamableHTTPOptions{
		SessionTimeout: sessionFor, MaxRequestBodyBytes: requestLimit,
	})
	return &guard{port: strconv.Itoa(int(ap.Port())), door: d, inner: inner, callers: callers{told: d.Clients, open: make(map[net.Conn]struct{})}}, nil
}

// guard lets a request through that is for this door, from this machine and
// nobody's browser, and has the token. It answers all else by itself, the same
// to everybody, before anything of the request but its header has been read.
type guard struct {
	port    string
	door    Door
	inner   http.Handler
	callers callers
}

// ServeHTTP answers one request.
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if !g.forUs(r.Host) || !local(r.RemoteAddr) || !ownOrigin(r.Header) || !g.hasToken(r.Header) {
		w.Header().Set("Connection", "close") // or whoever is refused could hold all of them
	} else {
		g.callers.welcome(r)
	}
	switch {
	case !g.forUs(r.Host):
		http.Error(w, "this is not the host you asked for", http.StatusMisdirectedRequest)
	case !local(r.RemoteAddr) || !ownOrigin(r.Header):
		http.Error(w, "requests from elsewhere are not answered", http.StatusForbidden)
	case !g.hasToken(r.Header):
		w.Header().Set("WWW-Authenticate", `Bearer realm="bailey"`)
		http.Error(w, "the token is missing or wrong: bailey mcp token says where it is", http.StatusUnauthorized)
	case r.URL.Path != Path || r.URL.RawQuery != "":
		http.Error(w, "there is nothing but "+Path, http.StatusNotFound)
	case r.Method != http.MethodPost && r.Method != http.MethodGet && r.Method != http.MethodDelete:
		w.Header().Set("Allow", "GET, POST, DELETE")
		http.Error(w, "no such method", http.StatusMethodNotAllowed)
	default:
		g.pass(w, r)
	}
}

// pass reads the body, all of it and not for long, and hands the request on.
func (g *guard) pass(w http.ResponseWriter, r *http.Request) {
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Now().Add(bodyWithin)) //nolint:forbidigo // the connection's clock is the kernel's
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, requestLimit))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		http.Error(w, "the request is too large", http.StatusRequestEntityTooLarge)
		return
	}
	if err != nil {
		http.Error(w, "the request did not come to its end", http.StatusBadRequest)
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	g.inner.ServeHTTP(w, r)
}

// forUs reports whether a request names this door as its host. A name that was
// made to lead here (DNS rebinding) is another one.
func (g *guard) forUs(host string) bool {
	for _, name := range loopbackNames() {
		if host == name+":"+g.port {
			return true
		}
	}
	return false
}

func loopbackNames() []string { return []string{"127.0.0.1", "localhost", "[::1]"} }

// local reports whether a connection comes from the loopback.
func local(remote string) bool {
	ap, err := netip.ParseAddrPort(remote)
	return err == nil && ap.Addr().Unmap().IsLoopback()
}

// ownOrigin reports whether a request is of no web page, or of one of this
// machine.
func ownOrigin(h http.Header) bool {
	switch h.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
	default:
		return false
	}
	origins := h.Values("Origin")
	if len(origins) == 0 {
		return true
	}
	u, err := url.Parse(origins[0])
	if err != nil || len(origins) > 1 || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
		return false
	}
	name := u.Host
	if port := u.Port(); port != "" {
		name = strings.TrimSuffix(name, ":"+port)
	}
	return slices.Contains(loopbackNames(), name)
}

// hasToken wants one Authorization, of the Bearer scheme (RFC 6750, section
// 2.1), with the token.
func (g *guard) hasToken(h http.Header) bool {
	all := h.Values("Authorization")
	if len(all) != 1 {
		return false
	}
	scheme, got, ok := strings.Cut(all[0], " ")
	return ok && strings.EqualFold(scheme, "Bearer") && sameToken(strings.TrimLeft(got, " "), g.door.TokenSum)
}
