package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/bailey-dev/bailey/internal/upstream"
)

// line is the way to the host for a connection of HTTP/1.1, on which one
// request follows the other. It does what http.Transport does for such a
// connection in the goroutine of whoever asks: Transport hands each request to
// one goroutine and takes its answer from another, which costs more than the
// rest of what it does. What is out of the ordinary goes by Transport.
//
// One goroutine uses it, but for the body of a request, which has one of its
// own: a host may answer while it reads.
type line struct {
	reach  func(context.Context) (net.Conn, func(), error) // to the host's port; the function is called once, when that is closed
	secure *tls.Config                                     // nil: no TLS
	odd    closingTransport                                // for what is out of the ordinary

	forward       func() *upstream.Way                            // that requests are put to as such; nil: none
	reachUpstream func(context.Context) (net.Conn, func(), error) // likewise to that

	copies *buffers

	way *way // to the host, if it is kept; nil: none
}

// way is one connection to the host.
type way struct {
	wire    *wire
	to      *upstream.Way // it leads to this proxy, and not to the host; nil: it does not
	conn    net.Conn      // wire, or TLS over it
	r       *bufio.Reader
	w       *bufio.Writer
	copies  *buffers
	left    int64      // bytes of an answer's head that may still be read
	sending chan error // what became of the request under way that has a body; nil: it has none
}

// errQuiet says that a host has said nothing that was not read.
var errQuiet error = quietError{}

// quietError is an error after which TLS can be read on: net.Error asks a
// reader of it to try again.
type quietError struct{}

func (quietError) Error() string   { return "nothing is there to be read" }
func (quietError) Timeout() bool   { return true }
func (quietError) Temporary() bool { return true }

// errLeavings says that a host has said more than its answer.
var errLeavings = errors.New("the host has said more than its answer")

// wire is a TCP connection to a host.
type wire struct {
	net.Conn
	raw     syscall.RawConn
	release func() // nil: nothing is to be released
	once    sync.Once
	sent    atomic.Int64 // bytes
	looking bool         // Read waits for nothing, and is a question only
}

// RoundTrip is http.RoundTripper's.
func (l *line) RoundTrip(r *http.Request) (*http.Response, error) {
	var to *upstream.Way
	if l.forward != nil {
		to = l.forward()
	}
	if r.Header["Upgrade"] != nil || to == nil && r.Header["Expect"] != nil {
		return l.odd.RoundTrip(r)
	}
	if err := checkFields(r); err != nil {
		return nil, err
	}
	if to != nil {
		res, err := l.roundTrip(form(to, r), to)
		if err == nil && res.StatusCode == http.StatusProxyAuthRequired {
			_ = res.Body.Close() // it is said to us
			return nil, upstream.ErrLogin
		}
		return res, err
	}
	return l.roundTrip(r, nil)
}

// roundTrip asks the host, or to for it.
func (l *line) roundTrip(r *http.Request, to *upstream.Way) (*http.Response, error) {
	if w := l.kept(to); w != nil {
		res, err := l.ask(w, r)
		if err == nil || !mayAskAgain(r, err) {
			return res, unwrapped(err)
		}
	}
	w, err := l.open(r.Context(), to)
	if err != nil {
		return nil, err
	}
	res, err := l.ask(w, r)
	return res, unwrapped(err)
}

// CloseIdleConnections closes what is kept.
func (l *line) CloseIdleConnections() {
	if l.way != nil {
		_ = l.way.conn.Close()
		l.way = nil
	}
	l.odd.CloseIdleConnections()
}

// checkFields refuses what would be read as another field, or as two.
func checkFields(r *http.Request) error {
	if !isToken(r.Method) {
		return errors.New("the method of the request is none")
	}
	for name, values := range r.Header {
		if !httpguts.ValidHeaderFieldName(name) {
			return fmt.Errorf("the request has a header field whose name is none: %q", name)
		}
		for _, v := range values {
			if !httpguts.ValidHeaderFieldValue(v) {
				return fmt.Errorf("the header field %s of the request holds a control byte", name)
			}
		}
	}
	return nil
}

// kept returns the connection of the request before, if it can be used again:
// that request went out whole, and nothing is left over of its answer, or has
// come unasked. A host that says more than its answer would else have the rest
// taken for the answer to the next request.
func (l *line) kept(to *upstream.Way) *way {
	w := l.way
	l.way = nil
	if w == nil {
		return nil
	}
	if w.to != to || !w.isSent() || !w.isQuiet() {
		w.cut()
		return nil
	}
	return w
}

// cut ends a connection at once: the end of TLS, which is written before that
// of the connection, might wait for a host that does not read.
func (w *way) cut() { _ = w.wire.Close() }

// sentPatience is how long who sent a request may take to say that it is
// through: a host's answer to its last byte can be here before the sender runs
// again.
const sentPatience = 50 * time.Millisecond

// isSent reports whether the body of the last request is through.
func (w *way) isSent() bool {
	if w.sending == nil {
		return true
	}
	late := time.NewTimer(sentPatience)
	defer late.Stop()
	select {
	case err := <-w.sending:
		w.sending = nil
		return err == nil
	case <-late.C:
		return false
	}
}

// isQuiet reports whether there is nothing to be read: in memory, of TLS, or
// of the kernel.
func (w *way) isQuiet() bool {
	if w.r.Buffered() > 0 {
		return false
	}
	w.wire.looking = true
	var one [1]byte
	_, err := w.conn.Read(one[:])
	w.wire.looking = false
	return errors.Is(err, errQuiet)
}

// open connects to the host, which proves its name where there is TLS, or to the
// upstream proxy.
func (l *line) open(ctx context.Context, to *upstream.Way) (*way, error) {
	reach := l.reach
	if to != nil {
		reach = l.reachUpstream
	}
	c, release, err := reach(ctx)
	if err != nil {
		return nil, err
	}
	plain, err := newWire(c, release)
	if err != nil {
		return nil, err
	}
	w := &way{wire: plain, to: to, conn: plain, copies: l.copies}
	if l.secure != nil {
		ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
		defer cancel()
		conn := tls.Client(plain, l.secure)
		if err := conn.HandshakeContext(ctx); err != nil {
			_ = plain.Close()
			return nil, fmt.Errorf("TLS handshake with the host: %w", err)
		}
		w.conn = conn
	}
	w.r, w.w = bufio.NewReader(bounded{w}), bufio.NewWriter(unheld{w})
	return w, nil
}

// earlyError is that a connection ended before a byte of an answer came.
type earlyError struct {
	err     error
	nothing bool // of the request was written
}

func (e *earlyError) Error() string { return e.err.Error() }

// unwrapped is the error below an earlyError.
func unwrapped(err error) error {
	if early, ok := errors.AsType[*earlyError](err); ok {
		return early.err
	}
	return err
}

// mayAskAgain reports whether a request that failed on a connection that was
// kept can be made on another one, as http.Transport sees it: a host may close
// a connection just as the next request is under way, and a request that changes
// nothing can be made twice.
func mayAskAgain(r *http.Request, err error) bool {
	early, ok := errors.AsType[*earlyError](err)
	if !ok || r.Context().Err() != nil || r.Body != nil && r.Body != http.NoBody {
		return false
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return true
	}
	return early.nothing || r.Header["Idempotency-Key"] != nil || r.Header["X-Idempotency-Key"] != nil
}

// ask sends a request and reads the head of its answer. The connection is kept
// once the answer's body was read, unless something speaks against it.
func (l *line) ask(w *way, r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	stop := context.AfterFunc(ctx, w.cut)
	res, err := w.exchange(r)
	if err != nil {
		stop()
		w.cut()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, err
	}
	b := &answerBody{body: res.Body, l: l, w: w, stop: stop, ctx: ctx, keep: !res.Close && res.StatusCode >= http.StatusOK}
	if res.Body == http.NoBody {
		b.end(true)
		return res, nil
	}
	res.Body = b
	return res, nil
}

// exchange writes a request, or begins to, and reads the head of its answer.
func (w *way) exchange(r *http.Request) (*http.Response, error) {
	before := w.wire.sent.Load()
	early := func(err error) error { return &earlyError{err, w.wire.sent.Load() == before} }
	if r.Body == nil || r.Body == http.NoBody {
		if err := w.send(r); err != nil {
			return nil, early(err)
		}
	} else {
		sending := make(chan error, 1)
		w.sending = sending
		go func() {
			err := w.send(r)
			sending <- err // first: it is why there is no answer
			if err != nil {
				w.cut() // the host is not to take what it has for the whole
			}
		}()
	}
	w.left = maxAnswerHead
	if _, err := w.r.Peek(1); err != nil {
		if w.sending != nil {
			return nil, w.failed(err)
		}
		return nil, early(err)
	}
	res, err := w.readHead(r)
	switch {
	case err != nil && w.left <= 0:
		return nil, fmt.Errorf("the head of the answer is longer than %d bytes", maxAnswerHead)
	case err != nil:
		return nil, w.failed(err)
	}
	w.left = math.MaxInt64
	return res, nil
}

// failed is why there is no answer: that the request could not be sent comes
// first.
func (w *way) failed(err error) error {
	select {
	case sent := <-w.sending: // nil where there is no body, which is never ready
		w.sending = nil
		if sent != nil {
			return sent
		}
	default:
	}
	return err
}

// send writes a request. Its body goes out as it comes.
func (w *way) send(r *http.Request) error {
	if err := r.Write(w.w); err != nil {
		return err
	}
	return w.w.Flush()
}

// readHead reads the head of an answer, and passes informational ones on.
func (w *way) readHead(r *http.Request) (*http.Response, error) {
	trace := httptrace.ContextClientTrace(r.Context())
	for {
		res, err := http.ReadResponse(w.r, r)
		if err != nil {
			return nil, err
		}
		if res.StatusCode < http.StatusContinue || res.StatusCode >= http.StatusOK || res.StatusCode == http.StatusSwitchingProtocols {
			return res, nil
		}
		if trace != nil && trace.Got1xxResponse != nil {
			if err := trace.Got1xxResponse(res.StatusCode, textproto.MIMEHeader(res.Header)); err != nil {
				return nil, err
			}
			w.left = maxAnswerHead
		}
	}
}

// answerBody is the body of an answer, at whose end the connection is kept.
type answerBody struct {
	body  io.ReadCloser
	l     *line
	w     *way
	stop  func() bool
	ctx   context.Context //nolint:containedctx // of the request
	keep  bool            // neither side wants the connection to end
	ended bool
}

// Read reads the body.
func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	if err == nil {
		return n, nil
	}
	whole := errors.Is(err, io.EOF)
	b.end(whole)
	if !whole && b.ctx.Err() != nil {
		err = context.Cause(b.ctx)
	}
	return n, err
}

// Close ends the connection if there is more of the body.
func (b *answerBody) Close() error {
	b.end(false)
	return nil
}

// end is called with whether the body was read to its end; the first call
// counts.
func (b *answerBody) end(whole bool) {
	if b.ended {
		return
	}
	b.ended = true
	switch stopped := b.stop(); {
	case stopped && whole && b.keep:
		b.l.way = b.w
	case whole:
		_ = b.w.conn.Close()
	default:
		b.w.cut()
	}
}

// bounded is what a way's reader reads from.
type bounded struct{ w *way }

// Read reads no more of a head than is allowed.
func (b bounded) Read(p []byte) (int, error) {
	w := b.w
	if w.left <= 0 {
		return 0, errors.New("bug: read beyond the head of an answer")
	}
	n, err := w.conn.Read(p[:min(int64(len(p)), w.left)])
	w.left -= int64(n)
	return n, err
}

// unheld is what a way's writer writes to. By ReadFrom a body whose length is
// known goes out as it comes: else the writer would wait until it is full.
type unheld struct{ w *way }

// Write writes.
func (u unheld) Write(p []byte) (int, error) { return u.w.conn.Write(p) }

// ReadFrom copies.
func (u unheld) ReadFrom(from io.Reader) (int64, error) {
	buf := u.w.copies.Get()
	defer u.w.copies.Put(buf)
	return io.CopyBuffer(struct{ io.Writer }{u}, struct{ io.Reader }{from}, buf)
}

func newWire(c net.Conn, release func()) (*wire, error) {
	w := &wire{Conn: c, release: release}
	under, ok := c.(syscall.Conn)
	err := errors.New("bug: the connection is none of the kernel's")
	if ok {
		w.raw, err = under.SyscallConn()
	}
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// Read reads, or looks whether there is something to be read: then it returns
// an error in any case.
func (w *wire) Read(b []byte) (int, error) {
	if w.looking {
		return 0, w.look()
	}
	return w.Conn.Read(b)
}

// look reads a byte, if there is one, as whoever gets it closes the connection.
func (w *wire) look() error {
	var one [1]byte
	n, err := 0, error(nil)
	if bad := w.raw.Read(func(fd uintptr) bool {
		n, err = syscall.Read(int(fd), one[:])
		return true
	}); bad != nil {
		return bad
	}
	switch {
	case errors.Is(err, syscall.EAGAIN):
		return errQuiet
	case err != nil:
		return err
	case n == 0:
		return io.EOF
	}
	return errLeavings
}

// Write writes, and counts.
func (w *wire) Write(b []byte) (int, error) {
	n, err := w.Conn.Write(b)
	w.sent.Add(int64(n))
	return n, err
}

// Close closes the connection.
func (w *wire) Close() error {
	if w.release != nil {
		w.once.Do(w.release)
	}
	return w.Conn.Close()
}
