package mcp

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// callers are the connections on which somebody has shown the token. Whoever
// only connects, or is refused, is none of them.
type callers struct {
	told func(number int) // at each change; nil: nobody asks

	mu   sync.Mutex
	open map[net.Conn]struct{}
}

// connection is the key of a request's connection in its context, where
// net/http has a handler look for it.
type connection struct{}

// know puts a connection where welcome finds it; it is for http.Server.
func (c *callers) know(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connection{}, conn)
}

// welcome counts the connection of a request that was let through.
func (c *callers) welcome(r *http.Request) {
	conn, ok := r.Context().Value(connection{}).(net.Conn)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, there := c.open[conn]; !there {
		c.open[conn] = struct{}{}
		c.tell()
	}
}

// changed takes out a connection that has ended; it is for http.Server.
func (c *callers) changed(conn net.Conn, state http.ConnState) {
	if state != http.StateClosed && state != http.StateHijacked {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, there := c.open[conn]; there {
		delete(c.open, conn)
		c.tell()
	}
}

func (c *callers) tell() {
	if c.told != nil {
		c.told(len(c.open))
	}
}
