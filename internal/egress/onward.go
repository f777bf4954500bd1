package egress

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"
)

// closingTransport is what passes requests on.
type closingTransport interface {
	http.RoundTripper
	CloseIdleConnections()
}

// reach connects to the host that was judged, at the addresses that were, within
// the sandbox's bound where TLS is opened. The function is to be called once the
// connection is closed.
func (e *exchange) reach(ctx context.Context) (net.Conn, func(), error) {
	release := func() {}
	if e.open != nil {
		ups := e.f.p.ups
		select {
		case ups <- struct{}{}:
			release = func() { <-ups }
		case <-ctx.Done():
			return nil, nil, fmt.Errorf("wait for one of %d connections: %w", cap(ups), ctx.Err())
		}
	}
	c, err := e.f.dialAny(ctx, e.to)
	if err != nil {
		release()
		return nil, nil, err
	}
	return c, release, nil
}

// transport reaches the host.
func (e *exchange) transport() *http.Transport {
	t := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			c, release, err := e.reach(ctx)
			if err != nil {
				return nil, err
			}
			return newUpConn(c, release), nil
		},
		DisableCompression:     true,
		MaxIdleConns:           1,
		MaxResponseHeaderBytes: maxAnswerHead,
		ExpectContinueTimeout:  time.Second,
	}
	if e.open != nil {
		e.open.secure(t, e.f.p, e.guard == nil)
	}
	return t
}

// line reaches the host for a connection of HTTP/1.1.
func (e *exchange) line() *line {
	t := e.transport()
	l := &line{reach: e.reach, forward: e.forward, reachUpstream: e.reachUpstream, odd: reusing{t}, copies: &e.f.p.buffers}
	if e.open != nil {
		l.secure = t.TLSClientConfig.Clone()
	}
	return l
}
