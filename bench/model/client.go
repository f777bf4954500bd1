package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// way is how calls get to the provider, as a client sees it.
type way struct {
	Addr  string `json:"addr"`            // HOST:PORT
	Token string `json:"token,omitempty"` // what the client has to say
	Head  string `json:"head,omitempty"`  // more header fields, each with its line's end
}

// kind is what is asked for.
type kind struct {
	Large  bool `json:"large"` // a request such as an agent's after some turns; else one of a question
	Stream bool `json:"stream"`
}

func (k kind) String() string {
	name := "1 KB"
	if k.Large {
		name = "100 KB"
	}
	if k.Stream {
		return name + ", stream"
	}
	return name + ", whole"
}

// order is what a worker is asked to do.
type order struct {
	Do    string `json:"do"` // calls, rate, hold, drain
	Way   way    `json:"way"`
	Kind  kind   `json:"kind"`
	N     int    `json:"n,omitempty"`     // calls one after another, or connections at once
	Milli int64  `json:"milli,omitempty"` // of a rate
}

// result is what came of it.
type result struct {
	First []float64 `json:"first,omitempty"` // milliseconds to the first bytes of each answer's body
	Whole []float64 `json:"whole,omitempty"` // and to its end
	Calls int64     `json:"calls,omitempty"`
	Took  float64   `json:"took_ms,omitempty"`
	Error string    `json:"error,omitempty"`
}

// worker carries orders out.
type worker struct {
	dial func(addr string) (net.Conn, error)
	held []*client // streams that stay open
}

func (w *worker) do(o order) (r result) {
	var err error
	switch o.Do {
	case "calls":
		err = w.calls(o, &r)
	case "rate":
		err = w.rate(o, &r)
	case "hold":
		err = w.hold(o)
		r.Calls = int64(len(w.held))
	case "drain":
		r.Calls, err = w.drain()
	default:
		err = fmt.Errorf("unknown order %q", o.Do)
	}
	if err != nil {
		r.Error = err.Error()
	}
	return r
}

// client is one connection that is kept.
type client struct {
	conn net.Conn
	in   *bufio.Reader
	ask  []byte // the whole request
	body io.Reader
	end  []byte // the last bytes of the answer
}

// patience bounds what one call may take.
const patience = 20 * time.Second

func dialTCP(ctx context.Context, addr string) (net.Conn, error) {
	d := net.Dialer{Timeout: patience}
	return d.DialContext(ctx, "tcp4", addr)
}

func (w *worker) client(o order) (*client, error) {
	dial := w.dial
	if dial == nil {
		dial = func(addr string) (net.Conn, error) { return dialTCP(context.Background(), addr) }
	}
	conn, err := dial(o.Way.Addr)
	if err != nil {
		return nil, err
	}
	return &client{conn: conn, in: bufio.NewReader(conn), ask: request(o.Way, o.Kind)}, nil
}

// request is the bytes of a call, made once.
func request(w way, k kind) []byte {
	body := ask(k)
	head := "POST /v1/messages HTTP/1.1\r\nHost: " + cmp.Or(w.Addr, "model.test") + "\r\nContent-Type: application/json\r\nAnthropic-Version: 2023-06-01\r\n" +
		"X-Api-Key: " + w.Token + "\r\n" + w.Head + "Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n"
	return append([]byte(head), body...)
}

// begin sends the request and returns with the first bytes of the answer's body.
func (c *client) begin() error {
	_ = c.conn.SetDeadline(time.Now().Add(patience))
	if _, err := c.conn.Write(c.ask); err != nil {
		return err
	}
	res, err := http.ReadResponse(c.in, nil) //nolint:bodyclose // it is read to its end, and the connection is kept
	if err != nil {
		return err
	}
	c.body, c.end = res.Body, c.end[:0]
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(res.Body, 512))
		return fmt.Errorf("%s: %s", res.Status, bytes.TrimSpace(text))
	}
	return c.more()
}

// more reads a piece of the answer.
func (c *client) more() error {
	const kept = 64
	var buf [4096]byte
	n, err := c.body.Read(buf[:])
	c.end = append(c.end, buf[:n]...)
	c.end = c.end[max(0, len(c.end)-kept):]
	return err
}

// finish reads the rest, and holds it to be one that ended well.
func (c *client) finish() error {
	for {
		err := c.more()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	if end := bytes.TrimSpace(c.end); !bytes.HasSuffix(end, []byte(`}`)) || bytes.Contains(end, []byte("error")) {
		return fmt.Errorf("the answer ends with %q", end)
	}
	return nil
}

// call is one call; it returns milliseconds.
func (c *client) call() (first, whole float64, err error) {
	begun := time.Now()
	if err := c.begin(); err != nil && !errors.Is(err, io.EOF) {
		return 0, 0, err
	}
	first = milliseconds(time.Since(begun))
	err = c.finish()
	return first, milliseconds(time.Since(begun)), err
}

func milliseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// calls makes one call after another on one connection, once it is warm.
func (w *worker) calls(o order, r *result) error {
	const warm = 5
	c, err := w.client(o)
	if err != nil {
		return err
	}
	defer c.conn.Close()
	for i := range o.N + warm {
		first, whole, err := c.call()
		if err != nil {
			return err
		}
		if i >= warm {
			r.First, r.Whole = append(r.First, first), append(r.Whole, whole)
		}
	}
	return nil
}

// rate has o.N clients make one call after another.
func (w *worker) rate(o order, r *result) error {
	clients, err := w.clients(o)
	defer closeAll(clients)
	if err != nil {
		return err
	}
	for _, c := range clients { // whoever stands between dials now
		if _, _, err := c.call(); err != nil {
			return err
		}
	}
	var n atomic.Int64
	errs := make([]error, len(clients))
	begun := time.Now()
	until := begun.Add(time.Duration(o.Milli) * time.Millisecond)
	var all sync.WaitGroup
	for i, c := range clients {
		all.Go(func() {
			for errs[i] == nil && time.Now().Before(until) {
				_, _, errs[i] = c.call()
				n.Add(1)
			}
		})
	}
	all.Wait()
	r.Calls, r.Took = n.Load(), milliseconds(time.Since(begun))
	return some(errs)
}

func (w *worker) clients(o order) (out []*client, err error) {
	for range o.N {
		c, err := w.client(o)
		if err != nil {
			return out, err
		}
		out = append(out, c)
	}
	return out, nil
}

func closeAll(clients []*client) {
	for _, c := range clients {
		_ = c.conn.Close()
	}
}

// hold opens streams and returns when each has begun. A connection is used as
// soon as it is made: bailey's wire has few to spare that say nothing.
func (w *worker) hold(o order) error {
	const atOnce = 16
	turn := make(chan struct{}, atOnce)
	clients, errs := make([]*client, o.N), make([]error, o.N)
	var all sync.WaitGroup
	for i := range clients {
		turn <- struct{}{}
		all.Go(func() {
			defer func() { <-turn }()
			if clients[i], errs[i] = w.client(o); errs[i] == nil {
				errs[i] = clients[i].begin()
			}
		})
	}
	all.Wait()
	for i, c := range clients {
		switch {
		case errs[i] == nil:
			w.held = append(w.held, c)
		case c != nil:
			_ = c.conn.Close()
		}
	}
	return some(errs)
}

// some is the first of many errors, with how many there are.
func some(errs []error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(errs) < 2 {
		return errors.Join(errs...)
	}
	return fmt.Errorf("%d times, such as: %w", len(errs), errs[0])
}

// drain reads the streams that are held to their ends, and returns how many
// ended well.
func (w *worker) drain() (int64, error) {
	held := w.held
	w.held = nil
	defer closeAll(held)
	var well atomic.Int64
	errs := make([]error, len(held))
	var all sync.WaitGroup
	for i, c := range held {
		all.Go(func() {
			if errs[i] = c.finish(); errs[i] == nil {
				well.Add(1)
			}
		})
	}
	all.Wait()
	return well.Load(), some(errs)
}
