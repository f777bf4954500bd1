package egress

import (
	"context"
	"crypto/sha1" //nolint:gosec // RFC 6455 wants it; nothing rests on it
	"crypto/tls"
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
	"sync"
	"sync/atomic"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/policy"
)

const (
	headTimeout = 10 * time.Second
	webIdle     = 2 * time.Minute // between two requests of a connection

	maxAnswerHead = 256 << 10 // bytes of an answer's fields
)

// exchange is the HTTP side of a flow. One connection has one identity: the
// first request sets it, or the TLS around it did; one that names another host
// is refused.
type exchange struct {
	f     *flow
	open  *opened // TLS that was opened; nil over plain HTTP
	guard *guard  // nil over HTTP/2
	proxy *httputil.ReverseProxy
	to    judged // resolved and judged once for the connection
	first string // normalised host of the first request that passed, "" before it
	began bailey.Decision

	webSocket string      // key of the upgrade that the request under way asks for, after which the guard is blind; "" for none
	byRequest atomic.Bool // rules tell the host's requests apart: each is decided
	opening   asked       // the first request that passed

	// HTTP/2 asks several things at once. Whoever decides holds mu: the flow
	// and all of the above are changed under it alone.
	mu      sync.Mutex
	ours    map[netip.Addr]bool // addresses of the host that are, or are not, this machine's
	looked  time.Time           // when that was so
	over    bool                // the connection has ended: nothing is passed on any more
	serving sync.WaitGroup
}

// serveHTTP serves the requests of a plain HTTP connection.
func (f *flow) serveHTTP(ctx context.Context) {
	f.protocol = policy.ProtocolHTTP
	e := &exchange{f: f, guard: newGuard(f.down, f.head, &f.in, &f.out)}
	f.out.Add(int64(len(f.head)))
	f.head = nil
	_ = f.down.SetReadDeadline(time.Time{})
	e.run(ctx, e.guard)
	f.kept = true
}

// run serves a connection to its end, and leaves the decision to record.
func (e *exchange) run(ctx context.Context, conn net.Conn) {
	var transport closingTransport
	if e.guard != nil {
		transport = e.line()
	} else {
		transport = reusing{e.transport()}
	}
	defer transport.CloseIdleConnections()
	quiet := log.New(io.Discard, "", 0) // what goes wrong is in the event
	e.proxy = &httputil.ReverseProxy{
		Rewrite:        e.rewrite,
		Transport:      transport,
		FlushInterval:  -1, // nothing is held back
		BufferPool:     &e.f.p.buffers,
		ErrorLog:       quiet,
		ModifyResponse: e.checkResponse,
		ErrorHandler:   e.upstreamFailed,
	}
	server := &http.Server{
		Handler:           http.HandlerFunc(e.serve),
		ReadHeaderTimeout: headTimeout,
		IdleTimeout:       webIdle,
		MaxHeaderBytes:    maxHead,
		HTTP2:             limitsOfHTTP2(maxStreamUpload, maxConnUpload),
		ErrorLog:          quiet,
		// OPTIONS * is the host's to answer.
		DisableGeneralOptionsHandler: true,

		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	if secure, ok := conn.(*tls.Conn); ok && e.guard == nil {
		serveHTTP2(ctx, server, secure)
	} else {
		_ = server.Serve(&oneConn{g: e.guard}) // ends with the connection
	}
	e.mu.Lock()
	e.over = true
	e.mu.Unlock()
	e.serving.Wait()
	e.settle()
}

// settle leaves the decision to record: a connection that was used well and
// then refused has two. One of which nothing was passed on was not used.
func (e *exchange) settle() {
	f := e.f
	if e.guard != nil {
		if bad := e.guard.badBody.Load(); bad != nil && f.decision.Verdict == bailey.Allow {
			f.refuse(bad.reason, bad.detail)
		}
	}
	switch {
	case e.first == "" && f.decision.Reason == "" && e.open != nil: // as browsers do, to be ready
		f.refuse(policy.ReasonSilent, "the TLS connection, which is opened, ended before a request in it was whole")
	case e.first == "" && f.decision.Reason == "":
		f.refuse(policy.ReasonBadRequest, "the connection ended before a request was whole")
	case e.first != "" && f.decision.Verdict != bailey.Allow && f.dialled.Load() != nil:
		refused, asked := f.decision, f.seen
		f.decision, f.seen = e.began, e.opening
		f.record()
		f.decision, f.seen = refused, asked
		f.in.Store(0)
		f.out.Store(0)
	}
}

// enter reports whether a request may still be served; leave follows.
func (e *exchange) enter() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.over {
		e.serving.Add(1)
	}
	return !e.over
}

func (e *exchange) leave() {
	if e.guard != nil {
		e.guard.served()
	}
	e.serving.Done()
}

// serve judges each request and passes it on.
func (e *exchange) serve(w http.ResponseWriter, r *http.Request) {
	if !e.enter() {
		panic(http.ErrAbortHandler) // there is nobody to answer
	}
	defer e.leave()
	if e.guard == nil {
		if no := e.crowded(r); no != nil {
			e.explain(w, r, no)
			return
		}
		defer func() { <-e.f.p.asked }()
	}
	r, no := e.judge(r)
	if no != nil {
		e.explain(w, r, no)
		return
	}
	defer e.f.served(r)
	key, ok := webSocketKey(r.Method, r.Proto, r.Header)
	if !ok {
		key = ""
		r.Header.Del("Upgrade") // h2c and the rest: the server may answer as if it were not there
	}
	if e.guard != nil { // in whose connection one request follows the other; over HTTP/2 none is an upgrade
		e.webSocket = key
	}
	// A host may answer while it reads: else net/http would want the whole body
	// before the first byte of an answer goes out.
	_ = http.NewResponseController(w).EnableFullDuplex()
	if lentTo(r) != nil {
		w = finalOnly{w}
	}
	defer e.ended(r) // ReverseProxy panics to end a connection
	e.proxy.ServeHTTP(w, r)
}

// refusal is the answer to a request that is not passed on.
type refusal struct {
	status   int
	decision bailey.Decision
}

// judge returns why a request is not passed on, or nil. What was decided last
// is the flow's decision, and so is recorded at its end; over HTTP/2, where
// other requests go on, a refusal is recorded at once. The request that is
// passed on is the one returned, with what it is lent.
func (e *exchange) judge(r *http.Request) (*http.Request, *refusal) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f := e.f
	before, host, asked, refused := f.decision, f.host, f.asked, f.refused
	status := e.verdict(r)
	if status == 0 {
		seen, decided := f.seen, f.decision
		with, ok := e.lend(r)
		if ok {
			f.seen = e.opening // the event is of the connection
			f.serving(with)
			return with, nil
		}
		status, f.seen = http.StatusForbidden, seen
		if e.guard == nil {
			before = decided
		}
	}
	no := &refusal{status, f.decision}
	if e.guard == nil {
		f.recordRequest(true)
		// What a refused request says of its host is for the record alone: the
		// next one is decided for the host of the connection.
		f.host, f.asked, f.refused = host, asked, refused
		if e.first != "" {
			f.decision, f.seen = before, e.opening
		}
	}
	return r, no
}

// verdict decides a request, and returns the status of the answer if it is
// refused, 0 if not.
func (e *exchange) verdict(r *http.Request) int {
	if bad := e.refusedHead(r); bad != nil {
		e.f.refuse(bad.reason, bad.detail)
		return http.StatusBadRequest
	}
	if e.f.seen.method == "" {
		e.f.program = programOf(r.Header)
	}
	e.f.seen = asked{method: r.Method}
	if e.open != nil || e.byRequest.Load() { // a path is for the record where somebody wanted it seen
		e.f.seen = askedOf(r)
	}
	if bad := e.open.checkRequest(r); bad != nil {
		e.f.refuse(bad.reason, bad.detail)
		return http.StatusBadRequest
	}
	if e.f.forward && e.first == "" && !e.aim(r) {
		return refusalStatus(e.f.decision.Reason)
	}
	host, ok := e.hostOf(r)
	switch {
	case !ok:
		return http.StatusBadRequest
	case e.open != nil && host != e.open.host:
		e.f.refuse(policy.ReasonNameMismatch, fmt.Sprintf("a TLS connection for %s was used for %s; open another one", e.open.host, host))
		return http.StatusMisdirectedRequest
	case e.first == "":
		if !e.begin(r, host) {
			if e.f.decision.Reason == policy.ReasonUnresolved {
				return http.StatusBadGateway
			}
			return http.StatusForbidden
		}
	case e.first != host:
		e.f.refuse(policy.ReasonNameMismatch, fmt.Sprintf("a connection for %s was used for %s; open another one", e.first, host))
		return http.StatusMisdirectedRequest
	case !e.again(r):
		return http.StatusForbidden
	}
	return 0
}

// refusedHead returns why the guard refused this request, or nil.
func (e *exchange) refusedHead(r *http.Request) *badRequestError {
	if e.guard == nil || r.Host != standInHost {
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
	if e.open == nil && !e.identify(host) {
		return false
	}
	if e.tellApart(r) {
		f.seen = f.asked
	}
	if !f.decide() {
		return false
	}
	e.to = f.resolve(r.Context())
	if e.to.none() {
		return false
	}
	e.first, e.began, e.opening = host, f.decision, f.seen
	return true
}

// identify takes the host of the first request of plain HTTP for that of the
// connection.
func (e *exchange) identify(host string) bool {
	f := e.f
	f.host, f.spoken = host, true
	if !f.sameAsTunnel() {
		return false
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		return true
	}
	f.host, f.spoken = "", false
	if a != f.dest.Addr() {
		f.refuse(policy.ReasonNameMismatch, fmt.Sprintf("a connection to %s asks for the host %s", f.dest.Addr(), a))
		return false
	}
	return true
}

// again decides a further request of a connection, by the rules of now. The
// addresses stay: they were judged for the host, and a rule that names others
// for this request refuses it.
func (e *exchange) again(r *http.Request) bool {
	f := e.f
	before := f.decision
	e.tellApart(r)
	if !f.decide() {
		return false
	}
	s := standing{ask: f.request(), once: f.once}
	for _, a := range e.to.addrs {
		if d := f.p.judgeBy(&s, a, e.isOurs); d.Verdict != bailey.Allow {
			f.decision = d
			return false
		}
	}
	f.recordRequest(false)
	f.decision = before
	return true
}

// oursAge is how old the word of the kernel may be that an address of a
// connection's host is not this machine's. To ask it costs more than all rules.
// That is for requests on a connection that is there: who dials asks again.
const oursAge = 2 * time.Second

// isOurs is Config.HostAddress for further requests. The caller holds e.mu.
func (e *exchange) isOurs(a netip.Addr) bool {
	if now := e.f.p.cfg.Now(); e.ours == nil || now.Sub(e.looked) > oursAge {
		e.looked, e.ours = now, map[netip.Addr]bool{}
	}
	ours, known := e.ours[a]
	if !known {
		ours = e.f.p.cfg.HostAddress(a)
		e.ours[a] = ours
	}
	return ours
}

// tellApart has the request itself decided where rules of now tell the requests
// to the host apart, and reports whether they do.
func (e *exchange) tellApart(r *http.Request) bool {
	f := e.f
	apart := f.p.rules.ByRequest(f.request())
	e.byRequest.Store(apart)
	if apart {
		f.asked = askedOf(r)
	}
	return apart
}

// askedOf returns what rules see of a request: its path and query as they came,
// byte by byte, which is how they go out (setTarget).
func askedOf(r *http.Request) asked {
	path, query, _ := strings.Cut(originForm(r.RequestURI), "?")
	return asked{method: r.Method, path: path, query: query, targets: policy.Targets(r.Header, r.Host)}
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
	if e.f.dest.Port() != e.defaultPort() {
		host += ":" + strconv.FormatUint(uint64(e.f.dest.Port()), 10)
	}
	pr.Out.URL.Scheme = e.scheme()
	pr.Out.URL.Host = host
	pr.Out.Host = host
	setTarget(pr.Out.URL, pr.In)
	pr.Out.Trailer = nil
	maps.DeleteFunc(pr.Out.Header, func(name string, _ []string) bool {
		return namesHost(name) || isDouble(name) || e.byRequest.Load() && policy.IsOverride(name) // some servers let these change what was judged
	})
	for _, name := range []string{"Trailer", "Http2-Settings", "Host"} {
		pr.Out.Header.Del(name)
	}
	if !isGRPC(pr.Out.ProtoMajor, pr.Out.Header) {
		pr.Out.Header.Del("Te")
	}
	lentTo(pr.In).apply(pr.Out)
}

func (e *exchange) scheme() string {
	if e.open != nil {
		return "https"
	}
	return "http"
}

func (e *exchange) defaultPort() uint16 {
	if e.open != nil {
		return 443
	}
	return 80
}

// isGRPC reports whether a message of HTTP/2 is one of gRPC, which says in
// trailers how a call went (gRPC over HTTP/2, "Responses").
func isGRPC(major int, h http.Header) bool {
	kind := h.Get("Content-Type")
	return major == 2 && (kind == "application/grpc" || strings.HasPrefix(kind, "application/grpc+") || strings.HasPrefix(kind, "application/grpc;"))
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

// namesHost reports whether a field is one by which proxies tell servers the
// host that was asked for.
func namesHost(name string) bool {
	switch policy.AsVariable(name) {
	case "forwarded", "x-forwarded-host", "x-forwarded-server", "x-host", "x-original-host", "x-http-host-override", "x-envoy-original-dst-host":
		return true
	}
	return false
}

// isDouble reports whether a field is one about framing or the connection, or
// the host, in another spelling, which servers may take for it that hand fields
// on as variables: Content_Length.
func isDouble(name string) bool {
	v := policy.AsVariable(name)
	switch v {
	case "content-length", "transfer-encoding", "host", "connection", "te", "trailer", "upgrade", "expect", "keep-alive", "proxy-connection":
		return !strings.EqualFold(name, v)
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
	if e.guard != nil {
		e.guard.begun.Store(true)
	}
	switch {
	case res.StatusCode == http.StatusSwitchingProtocols:
		if e.webSocket == "" || res.Header.Get("Sec-Websocket-Accept") != webSocketAccept(e.webSocket) {
			return errors.New("the host switched protocols without a WebSocket handshake")
		}
	case e.webSocket != "", e.f.forward: // the next request may be for another host: it gets a connection, and an identity, of its own
		res.Header.Set("Connection", "close")
	}
	res.Header.Del("Alt-Svc") // HTTP/3 and other ports are not reachable
	if res.StatusCode != http.StatusSwitchingProtocols && !isGRPC(res.ProtoMajor, res.Header) {
		res.Trailer = nil
		res.Body = &untrailed{res.Body, res}
	}
	return e.answer(res)
}

// untrailed is a body whose trailers are dropped: fields that come after those
// which everybody looks at (RFC 9110 §6.5.1 lets a proxy drop them).
type untrailed struct {
	io.ReadCloser
	of *http.Response
}

func (u *untrailed) Read(b []byte) (int, error) {
	n, err := u.ReadCloser.Read(b)
	if err != nil {
		u.of.Trailer = nil
	}
	return n, err
}

// webSocketAccept is Sec-WebSocket-Accept for a key (RFC 6455 §4.2.2).
func webSocketAccept(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) //nolint:gosec // see import
	return base64.StdEncoding.EncodeToString(sum[:])
}

// upstreamFailed answers a request whose host did not.
func (e *exchange) upstreamFailed(w http.ResponseWriter, r *http.Request, err error) {
	if no := e.blame(r, err); no != nil {
		e.explain(w, r, no)
	}
}

// blame says who is at fault that a request was passed on in vain. Nil: nobody
// waits for an answer.
func (e *exchange) blame(r *http.Request, err error) *refusal {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.guard != nil {
		if bad := e.guard.badBody.Load(); bad != nil { // it is the request that failed
			e.f.refuse(bad.reason, bad.detail)
			return &refusal{http.StatusBadRequest, e.f.decision}
		}
	} else if r.Context().Err() != nil {
		return nil // the client has taken it back
	}
	l := lentTo(r)
	if bad := l.take(); bad != nil {
		return e.refuseLate(r, bad)
	}
	d := e.f.decision
	d.Reason, d.Detail = policy.ReasonUpstream, l.said(err)
	if bad, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		d.Reason = policy.ReasonCertificate
		d.Detail = fmt.Sprintf("%s has shown a certificate that does not prove its name, and nothing was sent to it: %s", e.first, l.said(bad.Err))
	}
	e.f.decision = d
	return &refusal{http.StatusBadGateway, d}
}

// explain answers a request that was not passed on, for a person or an agent
// to read. It ends the connection, but for one of HTTP/2 in which other requests
// are well.
func (e *exchange) explain(w http.ResponseWriter, r *http.Request, no *refusal) {
	d := no.decision
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Bailey-Reason", d.Reason)
	h.Set("Cache-Control", "no-store")
	if e.guard != nil || no.status == http.StatusMisdirectedRequest {
		h.Set("Connection", "close")
	}
	w.WriteHeader(no.status)
	what := "this request"
	if e.refusedHead(r) == nil {
		what = fmt.Sprintf("%s %s (port %d)", printable(r.Method), printable(r.Host), e.f.dest.Port())
	}
	_, _ = io.WriteString(w, explanation(what, d))
}
