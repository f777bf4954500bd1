package egress

import (
	"context"
	"crypto/sha1" //nolint:gosec // RFC 6455 wants it; nothing rests on it
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/policy"
)

const (
	headTimeout = 10 * time.Second
	webIdle     = 2 * time.Minute // between two requests of a connection
)

// exchange is the HTTP side of a flow. One connection has one identity: the
// first request sets it, and one that names another host ends it.
type exchange struct {
	f     *flow
	guard *guard
	proxy *httputil.ReverseProxy
	to    judged // resolved and judged once for the connection
	first string // normalised host of the first request, "" before it
	began bailey.Decision

	byRequest bool   // rules tell the host's requests apart: each is decided
	method    string // of the first request
	asked     asked  // likewise
}

// serveHTTP serves the requests of a plain HTTP connection.
func (f *flow) serveHTTP(ctx context.Context) {
	f.protocol = policy.ProtocolHTTP
	e := &exchange{f: f, guard: newGuard(f.down, f.head, &f.in, &f.out)}
	f.out.Add(int64(len(f.head)))
	f.head = nil
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return f.dialAny(ctx, e.to)
		},
		DisableCompression:     true,
		MaxIdleConns:           1,
		MaxResponseHeaderBytes: 256 << 10,
		ExpectContinueTimeout:  time.Second,
	}
	defer transport.CloseIdleConnections()
	quiet := log.New(io.Discard, "", 0) // what goes wrong is in the event
	e.proxy = &httputil.ReverseProxy{
		Rewrite:        e.rewrite,
		Transport:      transport,
		FlushInterval:  -1, // nothing is held back
		ErrorLog:       quiet,
		ModifyResponse: e.checkResponse,
		ErrorHandler:   e.upstreamFailed,
	}
	server := &http.Server{
		Handler:           http.HandlerFunc(e.serve),
		ReadHeaderTimeout: headTimeout,
		IdleTimeout:       webIdle,
		MaxHeaderBytes:    maxHead,
		ErrorLog:          quiet,
		// OPTIONS * is the host's to answer.
		DisableGeneralOptionsHandler: true,

		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	_ = f.down.SetReadDeadline(time.Time{})
	_ = server.Serve(&oneConn{g: e.guard}) // ends with the connection
	f.kept = true
	e.settle()
}

// settle leaves the decision to record: a connection that was used well and
// then refused has two.
func (e *exchange) settle() {
	f := e.f
	if bad := e.guard.badBody.Load(); bad != nil && f.decision.Verdict == bailey.Allow {
		f.refuse(bad.reason, bad.detail)
	}
	switch {
	case e.first == "" && f.decision.Reason == "":
		f.refuse(policy.ReasonBadRequest, "the connection ended before a request was whole")
	case e.first != "" && f.decision.Verdict != bailey.Allow:
		refused, method, asked := f.decision, f.method, f.asked
		f.decision, f.method, f.asked = e.began, e.method, e.asked
		f.record()
		f.decision, f.method, f.asked = refused, method, asked
		f.in.Store(0)
		f.out.Store(0)
	}
}

// serve judges each request and passes it on.
func (e *exchange) serve(w http.ResponseWriter, r *http.Request) {
	defer e.guard.served()
	if bad := e.refusedHead(r); bad != nil {
		e.f.refuse(bad.reason, bad.detail)
		e.explain(w, r, http.StatusBadRequest)
		return
	}
	if e.f.method == "" {
		e.f.method, e.f.program = r.Method, programOf(r.Header)
	}
	if e.f.forward && e.first == "" && !e.aim(r) {
		e.explain(w, r, refusalStatus(e.f.decision.Reason))
		return
	}
	host, ok := e.hostOf(r)
	if !ok {
		e.explain(w, r, http.StatusBadRequest)
		return
	}
	switch {
	case e.first == "":
		if !e.begin(r, host) {
			status := http.StatusForbidden
			if e.f.decision.Reason == policy.ReasonUnresolved {
				status = http.StatusBadGateway
			}
			e.explain(w, r, status)
			return
		}
	case e.first != host:
		e.f.refuse(policy.ReasonNameMismatch, fmt.Sprintf("a connection for %s was used for %s; open another one", e.first, host))
		e.explain(w, r, http.StatusMisdirectedRequest)
		return
	case e.byRequest && !e.again(r):
		e.explain(w, r, http.StatusForbidden)
		return
	}
	if _, ok := webSocketKey(r.Method, r.Proto, r.Header); !ok {
		r.Header.Del("Upgrade") // h2c and the rest: the server may answer as if it were not there
	}
	// A host may answer while it reads: else net/http would want the whole body
	// before the first byte of an answer goes out.
	_ = http.NewResponseController(w).EnableFullDuplex()
	e.proxy.ServeHTTP(w, r)
}

// refusedHead returns why the guard refused this request, or nil.
func (e *exchange) refusedHead(r *http.Request) *badRequestError {
	if r.Host != standInHost {
		return nil
	}
	return e.guard.badHead.Load()
}

// aim takes from a request to the explicit proxy where it goes.
func (e *exchange) aim(r *http.Request) bool {
	if !strings.HasPrefix(r.RequestURI, "http://") {
		e.f.refuse(policy.ReasonBadRequest, "this is bailey's own proxy, which has no pages: a request to it has a whole URL for its target, or the method CONNECT")
		return false
	}
	to, err := parseAuthority(r.Host, "80")
	if bad, ok := errors.AsType[*badRequestError](err); ok {
		e.f.host = printable(r.Host)
		e.f.refuse(bad.reason, bad.detail)
		return false
	}
	return e.f.aim(to.host, to.port)
}

// begin gives the connection its identity.
func (e *exchange) begin(r *http.Request, host string) bool {
	f := e.f
	f.host, f.spoken = host, true
	if !f.sameAsTunnel() {
		return false
	}
	if a, err := netip.ParseAddr(host); err == nil {
		f.host, f.spoken = "", false
		if a != f.dest.Addr() {
			f.refuse(policy.ReasonNameMismatch, fmt.Sprintf("a connection to %s asks for the host %s", f.dest.Addr(), a))
			return false
		}
	}
	e.method = r.Method
	if e.byRequest = f.p.rules.ByRequest(f.request()); e.byRequest {
		f.asked = askedOf(r)
	}
	if !f.decide() {
		return false
	}
	e.to = f.resolve(r.Context())
	if len(e.to.addrs) == 0 {
		return false
	}
	e.first, e.began, e.asked = host, f.decision, f.asked
	return true
}

// again decides a further request of a connection. The addresses stay: they
// were judged for the host, and a rule that names others for this request
// refuses it.
func (e *exchange) again(r *http.Request) bool {
	f := e.f
	before := f.decision
	f.asked = askedOf(r)
	if !f.decide() {
		f.method = r.Method
		return false
	}
	for _, a := range e.to.addrs {
		if d := f.addrJudge()(a); d.Verdict != bailey.Allow {
			f.decision, f.method = d, r.Method
			return false
		}
	}
	f.decision, f.asked = before, e.asked // the event is of the connection
	return true
}

// askedOf returns what rules see of a request: its path as it came, byte by
// byte, which is how it goes out (setTarget).
func askedOf(r *http.Request) asked {
	path, _, _ := strings.Cut(originForm(r.RequestURI), "?")
	return asked{r.Method, path}
}

// hostOf returns the request's host in normal form: a name, or an address as
// it is written in a URL. Its port must be the connection's or absent.
func (e *exchange) hostOf(r *http.Request) (string, bool) {
	host := r.Host
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		port := host[i+1:]
		host = host[:i]
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n != uint64(e.f.dest.Port()) {
			e.f.host = printable(r.Host)
			e.f.refuse(policy.ReasonNameMismatch, fmt.Sprintf("Host %q has another port than the connection, which is to port %d", printable(r.Host), e.f.dest.Port()))
			return "", false
		}
	}
	if a, err := netip.ParseAddr(host); err == nil && a.Is4() {
		return host, true
	}
	name, err := policy.NormalizeName(host)
	if err != nil {
		e.f.host = printable(host)
		e.f.refuse(policy.ReasonInvalidName, err.Error())
		return "", false
	}
	return name, true
}

// rewrite builds the request that goes out: the same method, path, query and
// end-to-end fields, for the host that was judged.
func (e *exchange) rewrite(pr *httputil.ProxyRequest) {
	host := e.first
	if e.f.dest.Port() != 80 {
		host += ":" + strconv.FormatUint(uint64(e.f.dest.Port()), 10)
	}
	pr.Out.URL.Scheme = "http"
	pr.Out.URL.Host = host
	pr.Out.Host = host
	setTarget(pr.Out.URL, pr.In)
	pr.Out.Trailer = nil
	if e.byRequest { // some servers let these change what was judged
		maps.DeleteFunc(pr.Out.Header, func(name string, _ []string) bool { return isOverride(name) })
	}
	for _, name := range []string{"Trailer", "Http2-Settings", "Te"} {
		pr.Out.Header.Del(name)
	}
}

// setTarget has the path and query go out byte by byte as they came: net/url
// would unescape and escape them again, and ReverseProxy drops of a query what
// it cannot parse.
func setTarget(out *url.URL, in *http.Request) {
	path, query, asked := strings.Cut(originForm(in.RequestURI), "?")
	out.RawQuery, out.ForceQuery = query, asked && query == ""
	if strings.HasPrefix(path, "//") {
		// As Opaque this would be taken for a host. Path and RawPath, which
		// ReverseProxy has left as they came, do: parseRequestLine has seen to
		// it that they are not written in another way.
		return
	}
	out.Opaque = path
}

// isOverride reports whether a field asks to take the request for another one.
// What is written with a line below is the same field for a server that hands
// fields on as variables (RFC 3875 §4.1.18).
func isOverride(name string) bool {
	switch strings.ToLower(strings.ReplaceAll(name, "_", "-")) {
	case "x-http-method-override", "x-http-method", "x-method-override", "x-original-method", "x-forwarded-method",
		"x-original-url", "x-original-uri", "x-rewrite-url", "x-forwarded-uri", "x-forwarded-path", "x-forwarded-prefix":
		return true
	}
	return false
}

// originForm takes scheme and host, which are judged already, off a target in
// absolute form (RFC 9112 §3.2.2).
func originForm(target string) string {
	rest, absolute := strings.CutPrefix(target, "http://")
	if !absolute {
		return target
	}
	i := strings.IndexAny(rest, "/?")
	switch {
	case i < 0:
		return "/"
	case rest[i] == '?':
		return "/" + rest[i:]
	}
	return rest[i:]
}

// checkResponse lets an upgrade through only as the answer to the WebSocket
// handshake that was asked for. After any other answer to one the connection
// ends, as the guard no longer reads it as HTTP.
func (e *exchange) checkResponse(res *http.Response) error {
	e.guard.begun.Store(true)
	key, asked := webSocketKey(res.Request.Method, "HTTP/1.1", res.Request.Header)
	switch {
	case res.StatusCode == http.StatusSwitchingProtocols:
		if !asked || res.Header.Get("Sec-Websocket-Accept") != webSocketAccept(key) {
			return errors.New("the host switched protocols without a WebSocket handshake")
		}
	case asked, e.f.forward: // the next request may be for another host: it gets a connection, and an identity, of its own
		res.Header.Set("Connection", "close")
	}
	res.Header.Del("Alt-Svc") // HTTP/3 and other ports are not reachable
	return nil
}

// webSocketAccept is Sec-WebSocket-Accept for a key (RFC 6455 §4.2.2).
func webSocketAccept(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) //nolint:gosec // see import
	return base64.StdEncoding.EncodeToString(sum[:])
}

// upstreamFailed answers a request whose host did not.
func (e *exchange) upstreamFailed(w http.ResponseWriter, r *http.Request, err error) {
	if bad := e.guard.badBody.Load(); bad != nil { // it is the request that failed
		e.f.refuse(bad.reason, bad.detail)
		e.explain(w, r, http.StatusBadRequest)
		return
	}
	e.f.decision.Reason = policy.ReasonUpstream
	e.f.decision.Detail = printable(err.Error())
	e.explain(w, r, http.StatusBadGateway)
}

// explain answers a request that was not passed on, for a person or an agent
// to read, and ends the connection.
func (e *exchange) explain(w http.ResponseWriter, r *http.Request, status int) {
	d := e.f.decision
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Bailey-Reason", d.Reason)
	h.Set("Cache-Control", "no-store")
	h.Set("Connection", "close")
	w.WriteHeader(status)
	verb := "refused"
	if d.Verdict == bailey.Allow {
		verb = "could not pass on"
	}
	what := "this request"
	if e.refusedHead(r) == nil {
		what = fmt.Sprintf("%s %s (port %d)", r.Method, printable(r.Host), e.f.dest.Port())
	}
	//nolint:gosec // text/plain, and what the client sent is quoted
	_, _ = io.WriteString(w, explanation(verb, what, d))
}
