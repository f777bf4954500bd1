package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bailey-dev/bailey/internal/pki"
	"github.com/bailey-dev/bailey/internal/policy"
)

// Open is what TLS is opened with.
type Open struct {
	Leaves *pki.Leaves    // for the sandbox's side
	Roots  *x509.CertPool // whom the machine trusts: for the host's side
}

const (
	handshakeTimeout = 10 * time.Second
	protoHTTP2       = "h2"
	protoHTTP1       = "http/1.1"

	// Of one connection: what a sandbox and a host that are in league can make
	// the proxy hold.
	maxStreams      = 64
	maxUpConns      = 16        // to a host that speaks HTTP/1.1, for the streams of one connection
	maxFrame        = 64 << 10  // bytes
	maxStreamBuffer = 512 << 10 // bytes of an answer
	maxConnBuffer   = 1 << 20   // bytes of all answers
	maxStreamUpload = 128 << 10 // bytes of a request's body: the sandbox is near, so little waits
	maxConnUpload   = 256 << 10 // bytes of all bodies
)

// limitsOfHTTP2 bounds one side, by what may wait of a stream and of all. It is
// the sandbox's for uploads. CONTINUATION, PING, SETTINGS and reset floods are
// bounded by net/http itself (CVE-2023-44487, CVE-2023-45288).
func limitsOfHTTP2(stream, all int) *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams:          maxStreams,
		MaxReadFrameSize:              maxFrame,
		MaxReceiveBufferPerStream:     stream,
		MaxReceiveBufferPerConnection: all,
	}
}

// crowded takes a request of HTTP/2 in and returns nil, which its end has to give back; or
// says that the sandbox asks too many things at once. It waits for nothing, as
// a request that waits holds its head, which may be long.
func (e *exchange) crowded(r *http.Request) *refusal {
	f := e.f
	select {
	case f.p.asked <- struct{}{}:
		return nil
	default:
	}
	// The flow itself is another request's while that is decided.
	alone := &flow{p: f.p, dest: f.dest, protocol: f.protocol, seen: askedOf(r)}
	alone.number, alone.began = f.number, f.began
	if _, err := netip.ParseAddr(e.open.host); err != nil {
		alone.host = e.open.host
	}
	alone.refuse(policy.ReasonTooMany, fmt.Sprintf("the sandbox asks for %d things at once by HTTP/2 already; wait for some of them", cap(f.p.asked)))
	alone.record()
	return &refusal{http.StatusServiceUnavailable, alone.decision}
}

// opened is TLS that ends here: to the sandbox this process is the host.
type opened struct {
	host string // whose certificate was shown: a normalised name, or an address
}

// serveOpened is the host for the sandbox, and a client of the host: each
// request between the two is judged and rebuilt, as over plain HTTP. The host is
// not connected to before a request for it was allowed, and gets none before its
// certificate has proved the name.
func (f *flow) serveOpened(ctx context.Context) {
	f.isOpened.Store(true)
	o := &opened{host: f.host}
	if o.host == "" {
		o.host = f.dest.Addr().String()
	}
	conn := f.handshake(ctx, o.host)
	if conn == nil {
		return
	}
	f.refuse("", "") // the connection alone is no decision
	e := &exchange{f: f, open: o}
	if conn.ConnectionState().NegotiatedProtocol != protoHTTP2 {
		var in, out atomic.Int64 // for the guard, which wants to see progress: the event has what passed the wire
		e.guard = newGuard(conn, nil, &in, &out)
	}
	e.run(ctx, conn)
	f.kept = true
}

// handshake shows the sandbox a certificate for a host. On nil the decision
// says why there is no connection.
func (f *flow) handshake(ctx context.Context, host string) *tls.Conn {
	open := f.p.cfg.Open
	if open == nil || !open.Leaves.Root().Speaks(host) {
		f.refuse(policy.ReasonSealed, fmt.Sprintf("the rules want TLS to %s to be opened, and what this run trusts was settled at its start, without that host: start it again", host))
		return nil
	}
	leaf, err := open.Leaves.For(host)
	if err != nil {
		f.refuse(policy.ReasonBadTLS, "bug: no certificate could be made: "+printable(err.Error()))
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	_ = f.down.SetReadDeadline(time.Time{})
	wire := newWireConn(f)
	conn := tls.Server(wire, &tls.Config{
		Certificates:           []tls.Certificate{*leaf},
		MinVersion:             tls.VersionTLS12,
		NextProtos:             []string{protoHTTP2, protoHTTP1},
		SessionTicketsDisabled: true, // a session is for one host: CVE-2025-68121, CVE-2025-23419
	})
	if err := conn.HandshakeContext(ctx); err != nil {
		f.refuseHandshake(host, err, wire.lastAlert())
		return nil
	}
	return conn
}

// refuseHandshake says why a program inside did not get to speak.
func (f *flow) refuseHandshake(host string, err error, alert byte) {
	f.kept = true // so that an alert of ours arrives
	switch text := err.Error(); {
	case isRejection(err) || aboutCertificate(alert):
		f.refuse(policy.ReasonRootRejected, fmt.Sprintf("the program inside does not trust the certificate that bailey shows for %s (%s): TLS to it is opened, as rules ask for that, and the program has its own idea of whom to trust, or knows the host's certificate by heart; see docs/policy.md, Inside TLS", host, printable(text)))
	case errors.Is(err, io.EOF) || isBroken(err):
		f.refuse(policy.ReasonBadTLS, fmt.Sprintf("the program inside ended the TLS handshake when it saw the certificate that bailey shows for %s, or before: it may trust another one only", host))
	case strings.Contains(text, "application protocols"):
		f.refuse(policy.ReasonBadTLS, fmt.Sprintf("TLS to %s is opened, as rules ask for that, and inside nothing but HTTP is understood: %s", host, printable(text)))
	default:
		f.refuse(policy.ReasonBadTLS, fmt.Sprintf("the TLS handshake for %s, which is opened, did not come to its end: %s", host, printable(text)))
	}
}

// isBroken reports whether a connection was reset.
func isBroken(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && (op.Op == "read" || op.Op == "write")
}

// isRejection reports whether the other side sent one of the alerts that are
// about a certificate (RFC 8446 §6.2). crypto/tls has no type for them.
func isRejection(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "remote error" && slices.Contains([]string{
		"tls: unknown certificate authority", "tls: bad certificate", "tls: unknown certificate",
		"tls: unsupported certificate", "tls: expired certificate", "tls: revoked certificate",
	}, op.Err.Error())
}

// aboutCertificate is isRejection for the number of an alert: from
// bad_certificate to certificate_unknown, and unknown_ca.
func aboutCertificate(alert byte) bool { return 42 <= alert && alert <= 46 || alert == 48 }

// wireConn is the sandbox's connection below TLS. It begins with what was read
// already, and counts.
type wireConn struct {
	net.Conn
	f     *flow
	early []byte
	tail  []byte // what was read last, as long as an alert
}

// alertSize is the size of a record with an alert in the clear: header, level,
// description.
const alertSize = recordHeader + 2

// lastAlert returns the description of the alert that the client said last, if
// that was in the clear, or 0. OpenSSL says so in TLS 1.3 what it finds wrong
// with a certificate, and crypto/tls takes it for a broken record.
func (w *wireConn) lastAlert() byte {
	if len(w.tail) < alertSize || w.tail[0] != tlsAlert || w.tail[3] != 0 || w.tail[4] != 2 {
		return 0
	}
	return w.tail[alertSize-1]
}

func newWireConn(f *flow) *wireConn {
	w := &wireConn{Conn: f.down, f: f, early: f.head}
	f.head = nil
	f.out.Add(int64(len(w.early)))
	return w
}

func (w *wireConn) Read(b []byte) (int, error) {
	if len(w.early) > 0 {
		n := copy(b, w.early)
		w.early = w.early[n:]
		return n, nil
	}
	n, err := w.Conn.Read(b)
	w.f.out.Add(int64(n))
	if n >= alertSize {
		w.tail = append(w.tail[:0], b[n-alertSize:n]...)
	} else {
		w.tail = append(w.tail, b[:n]...)
		w.tail = w.tail[max(0, len(w.tail)-alertSize):]
	}
	return n, err
}

func (w *wireConn) Write(b []byte) (int, error) {
	n, err := w.Conn.Write(b)
	w.f.in.Add(int64(n))
	return n, err
}

// serveHTTP2 serves a connection to its end, by the door that net/http keeps for
// protocols that TLS has agreed on (http.Server.TLSNextProto). By way of Serve a
// handler would not see what :scheme was: a TLS state that is missing for that
// reason is filled in.
func serveHTTP2(ctx context.Context, server *http.Server, conn *tls.Conn) {
	_ = server.Serve(noConn{conn}) // sets HTTP/2 up, and nothing else
	if serve := server.TLSNextProto[protoHTTP2]; serve != nil {
		serve(server, conn, based{server.Handler, ctx})
	}
	_ = conn.Close()
}

// based is a handler whose requests end with a context.
type based struct {
	http.Handler
	ctx context.Context //nolint:containedctx // net/http asks for it
}

// BaseContext is what net/http asks a handler of HTTP/2 for.
func (b based) BaseContext() context.Context { return b.ctx }

// noConn is a listener without a connection.
type noConn struct{ conn net.Conn }

func (noConn) Accept() (net.Conn, error) { return nil, net.ErrClosed }
func (noConn) Close() error              { return nil }
func (l noConn) Addr() net.Addr          { return l.conn.LocalAddr() }

// secure has a transport reach the host by TLS of our own, which verifies its
// name with the roots of this machine: by HTTP/2 only for a client that speaks
// it, as whoever speaks HTTP/1.1 gets no more of it than its cost.
func (o *opened) secure(t *http.Transport, p *Proxy, second bool) {
	t.TLSClientConfig = &tls.Config{
		ServerName: o.host, MinVersion: tls.VersionTLS12,
		ClientSessionCache: p.tickets,
	}
	if p.cfg.Open != nil {
		t.TLSClientConfig.RootCAs = p.cfg.Open.Roots
	}
	t.TLSHandshakeTimeout = handshakeTimeout
	if !second {
		t.TLSClientConfig.NextProtos = []string{protoHTTP1}
		return
	}
	t.ForceAttemptHTTP2 = true
	t.HTTP2 = limitsOfHTTP2(maxStreamBuffer, maxConnBuffer)
	t.MaxIdleConns, t.MaxIdleConnsPerHost, t.MaxConnsPerHost = maxUpConns, maxUpConns, maxUpConns
}

// checkRequest is for requests inside TLS what the guard and head.go are for
// plain HTTP: it returns why one is refused, or nil. HTTP/2 has no guard before
// it; net/http sees to its framing (RFC 9113 §8.2.1, §8.3) and leaves open what
// is asked here. Over plain HTTP, where o is nil, nothing is.
func (o *opened) checkRequest(r *http.Request) *badRequestError {
	if o == nil {
		return nil
	}
	bad := func(format string, args ...any) *badRequestError {
		return &badRequestError{reasonBadRequest, fmt.Sprintf(format, args...)}
	}
	switch {
	case r.Method == http.MethodConnect || r.Method == http.MethodTrace || r.Method == "PRI":
		return bad("%s is refused", r.Method)
	case !isToken(r.Method) || len(r.Method) > maxMethod:
		return bad("the method is none")
	case r.ProtoMajor == 2 && r.TLS == nil: // how net/http tells of a :scheme other than https
		return bad("the request says that it is not for https (:scheme)")
	case !strings.HasPrefix(r.RequestURI, "/") && (r.RequestURI != "*" || r.Method != http.MethodOptions):
		return bad("the request target is not a path; inside TLS it names no host")
	case r.ProtoMajor == 2 && r.ContentLength == 0 && strings.Trim(r.Header.Get("Content-Length"), "0") != "":
		return bad("the request announces a body and has none")
	case len(r.Header) > maxFields:
		return bad("the request has more than %d header fields", maxFields)
	}
	if err, ok := errors.AsType[*badRequestError](checkTargetBytes(r.RequestURI)); ok {
		return err
	}
	return o.checkAuthority(r)
}

// checkAuthority wants a host to be named once, or twice the same: HTTP/2 has a
// field Host besides :authority, and servers are known that go by it.
func (o *opened) checkAuthority(r *http.Request) *badRequestError {
	if r.Host == "" {
		return &badRequestError{policy.ReasonNoName, "the request does not name its host"}
	}
	for i := range len(r.Host) {
		if !isHostByte(r.Host[i]) {
			return &badRequestError{policy.ReasonInvalidName, fmt.Sprintf("the name of the host holds the byte %q", r.Host[i])}
		}
	}
	for _, other := range r.Header["Host"] {
		if !strings.EqualFold(other, r.Host) {
			return &badRequestError{policy.ReasonNameMismatch, fmt.Sprintf("the request is for %s, and its field Host says %q", printable(r.Host), printable(other))}
		}
	}
	return nil
}

// buffers lends the memory in which bodies are copied.
type buffers struct{ pool sync.Pool }

// Get returns a buffer.
func (b *buffers) Get() []byte {
	if p, ok := b.pool.Get().(*[]byte); ok {
		return *p
	}
	const size = 32 << 10
	return make([]byte, size)
}

// Put takes it back.
func (b *buffers) Put(p []byte) { b.pool.Put(&p) }
