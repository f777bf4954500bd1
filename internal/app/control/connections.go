package control

import (
	"net"
	"sync"
)

// counted is a listener that tells how many of its connections are open.
type counted struct {
	net.Listener
	told func(int)

	mu   sync.Mutex
	open int
}

// Accept returns the next connection.
func (c *counted) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c.add(1)
	return &countedConn{Conn: conn, gone: sync.OnceFunc(func() { c.add(-1) })}, nil
}

func (c *counted) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open += n
	c.told(c.open)
}

type countedConn struct {
	net.Conn
	gone func()
}

// Close ends the connection.
func (c *countedConn) Close() error {
	defer c.gone()
	return c.Conn.Close()
}
