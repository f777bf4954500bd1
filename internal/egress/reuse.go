package egress

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"
)

// reusing is a transport that uses a connection to a host again only once
// nothing is left over on it. A host that says more than its answer has the
// rest taken for the answer to the next request, if that is written before
// net/http has looked for such leavings: which comes first is otherwise chance.
type reusing struct{ *http.Transport }

// RoundTrip is http.Transport's.
func (t reusing) RoundTrip(r *http.Request) (*http.Response, error) {
	trace := &httptrace.ClientTrace{GotConn: awaitQuiet}
	return t.Transport.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
}

// awaitQuiet waits until net/http's own reader of a connection waits for the
// host, which it does when all that was read has been used up, or has closed
// it, which it does when not. HTTP/2 numbers its answers.
func awaitQuiet(info httptrace.GotConnInfo) {
	conn := info.Conn
	if secure, ok := conn.(*tls.Conn); ok {
		if secure.ConnectionState().NegotiatedProtocol == protoHTTP2 {
			return
		}
		conn = secure.NetConn()
	}
	if up, ok := conn.(*upConn); ok && info.Reused {
		up.await()
	}
}

// quietTime is far beyond what a reader takes from one answer to the next.
const quietTime = time.Second

// upConn is a connection to a host that knows whether somebody waits for it.
type upConn struct {
	net.Conn
	release func() // called once, when it is closed

	mu     sync.Mutex
	change *sync.Cond
	reads  bool
	closed bool
}

func newUpConn(c net.Conn, release func()) *upConn {
	u := &upConn{Conn: c, release: release}
	u.change = sync.NewCond(&u.mu)
	return u
}

// Read reads, and lets it be known.
func (c *upConn) Read(b []byte) (int, error) {
	c.set(true)
	defer c.set(false)
	return c.Conn.Read(b)
}

func (c *upConn) set(reads bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads = reads
	c.change.Broadcast()
}

// await waits for a Read or for Close. If neither comes it closes.
func (c *upConn) await() {
	if c.settled() { // most often
		return
	}
	timer := time.AfterFunc(quietTime, func() { _ = c.Close() })
	defer timer.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.reads && !c.closed {
		c.change.Wait()
	}
}

func (c *upConn) settled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reads || c.closed
}

// Close closes the connection.
func (c *upConn) Close() error {
	c.mu.Lock()
	first := !c.closed
	c.closed = true
	c.change.Broadcast()
	c.mu.Unlock()
	if first && c.release != nil {
		c.release()
	}
	return c.Conn.Close()
}
