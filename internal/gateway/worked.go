package gateway

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"slices"
	"time"
)

// Worked reports whether a provider may have done the work of a call that was
// answered with another status than 200. No provider takes money for what it
// refuses; but one that fails late, or a proxy before it that waits no longer,
// may have done it.
func Worked(status int, took time.Duration) bool {
	const late, waited = 3 * time.Second, time.Second
	switch {
	case status < http.StatusMultipleChoices:
		return true
	case took >= waited && slices.Contains([]int{http.StatusRequestTimeout, statusClosed, http.StatusGatewayTimeout, statusTimeout}, status):
		return true
	case status < http.StatusInternalServerError, took < late,
		status == http.StatusNotImplemented, status == http.StatusServiceUnavailable, status == statusOverloaded:
		return false
	}
	return true
}

// Statuses that are in no RFC.
const (
	statusClosed     = 499 // nginx: the client is gone
	statusTimeout    = 524 // Cloudflare: the server takes longer than it waits
	statusOverloaded = 529 // Anthropic's API
)

// Connected returns a context for one request, and what tells afterwards whether
// there was a connection for it, TLS included. A call that failed without one was
// not sent; one that failed later may have been paid for.
func Connected(ctx context.Context) (traced context.Context, was func() bool) {
	connected := false
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected = true }}
	return httptrace.WithClientTrace(ctx, trace), func() bool { return connected }
}
