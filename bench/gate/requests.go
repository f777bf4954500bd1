package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bailey-dev/bailey/bench/figures"
)

const (
	keepAlive   = 8                      // connections at once, each with one request under way
	requestTurn = 400 * time.Millisecond // of one contender
)

// measureLending has one client ask one request after another, where a value is
// put on each and where none is.
func measureLending(ctx context.Context, l *lab, r *report) error {
	for _, proto := range []string{"http/1.1", "h2"} {
		times := map[string][]float64{}
		err := l.turns(ctx, series{"lending, " + proto, l.n, 8 * time.Second}, l.among(caseBailey, caseLent), func(c *contender, turn int) error {
			ms, err := c.oneByOne(ctx, l, proto)
			if turn >= 0 {
				times[c.name] = append(times[c.name], ms...)
			}
			return err
		})
		if err != nil {
			return err
		}
		if len(times[caseLent]) > 0 && len(times[caseBailey]) > 0 {
			r.Lending = append(r.Lending, lending{proto, figures.Median(times[caseLent]), figures.Median(times[caseBailey])})
		}
	}
	return nil
}

// oneByOne returns how long requests take on one connection, in milliseconds,
// once it is warm.
func (c *contender) oneByOne(ctx context.Context, l *lab, proto string) ([]float64, error) {
	const warm, each = 20, 200
	a, err := c.asker(l, proto)
	if err != nil {
		return nil, err
	}
	defer a.close()
	var out []float64
	for i := range each {
		begin := time.Now()
		if err := a.ask(ctx); err != nil {
			return out, err
		}
		if i >= warm {
			out = append(out, float64(time.Since(begin).Microseconds())/1000)
		}
	}
	return out, nil
}

// asker makes one request on a connection that is kept.
type asker interface {
	ask(ctx context.Context) error
	close()
}

// measureRequests has the same number of clients ask one request after another
// on connections that stay, through whoever opens TLS.
func measureRequests(ctx context.Context, l *lab, r *report) error {
	open := opening(l.contenders)
	if !slices.ContainsFunc(open, func(c *contender) bool { return c.name == caseBailey }) {
		l.missing["requests, "+caseBailey] = "it opens no TLS"
	}
	who := append(l.among(caseDirect), open...)
	for _, proto := range []string{"http/1.1", "h2"} {
		rates, cpu := map[*contender][]float64{}, map[*contender][]float64{}
		err := l.turns(ctx, series{"requests, " + proto, max(1, l.n/2), 8 * time.Second}, who, func(c *contender, turn int) error {
			before := c.cpu()
			n, took, err := c.requests(ctx, l, proto)
			if err == nil && turn >= 0 {
				rates[c] = append(rates[c], float64(n)/took.Seconds())
				cpu[c] = append(cpu[c], float64((c.cpu()-before).Microseconds())/float64(n))
			}
			return err
		})
		if err != nil {
			return err
		}
		row := requests{Name: proto, PerSecond: map[string]float64{}, CPU: map[string]float64{}}
		for _, c := range who {
			if len(rates[c]) > 0 {
				row.PerSecond[c.name], row.CPU[c.name] = figures.Median(rates[c]), figures.Median(cpu[c])
			}
		}
		r.Requests = append(r.Requests, row)
	}
	return nil
}

// requests is one turn: how many were answered, and in what time. Connecting
// does not count.
func (c *contender) requests(ctx context.Context, l *lab, proto string) (int64, time.Duration, error) {
	askers := make([]asker, 0, keepAlive)
	defer func() {
		for _, a := range askers {
			a.close()
		}
	}()
	for range keepAlive {
		a, err := c.asker(l, proto)
		if err != nil {
			return 0, 0, err
		}
		askers = append(askers, a)
		if err := a.ask(ctx); err != nil { // the proxy dials now
			return 0, 0, err
		}
	}
	var n atomic.Int64
	errs := make([]error, len(askers))
	begin := time.Now()
	var all sync.WaitGroup
	for i, a := range askers {
		all.Go(func() {
			for errs[i] == nil && time.Since(begin) < requestTurn {
				errs[i] = a.ask(ctx)
				n.Add(1)
			}
		})
	}
	all.Wait()
	return n.Load(), time.Since(begin), errors.Join(errs...)
}

func (c *contender) asker(l *lab, proto string) (asker, error) {
	conn, err := c.dial(nameOpened, portTLS)
	if err != nil {
		return nil, err
	}
	s, err := c.shake(conn, nameOpened, c.rootsFor(l, nameOpened), proto)
	if err != nil {
		return nil, err
	}
	if got := s.ConnectionState().NegotiatedProtocol; got != proto {
		return nil, errors.Join(fmt.Errorf("%q was negotiated, not %q", got, proto), s.Close())
	}
	if proto == "h2" {
		return newSecond(s, c.auth), nil
	}
	return &first{s, bufio.NewReader(s), c.auth}, nil
}

// first speaks HTTP/1.1, with little work of its own.
type first struct {
	conn *tls.Conn
	r    *bufio.Reader
	auth string
}

func (f *first) close() { _ = f.conn.Close() }

func (f *first) ask(context.Context) error {
	if _, err := io.WriteString(f.conn, "GET / HTTP/1.1\r\nHost: "+nameOpened+"\r\n"+f.auth+"\r\n"); err != nil {
		return err
	}
	resp, err := http.ReadResponse(f.r, nil)
	if err != nil {
		return err
	}
	return finish(resp)
}

func finish(resp *http.Response) error {
	_, err := io.Copy(io.Discard, resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return errors.Join(err, resp.Body.Close())
}

// second speaks HTTP/2.
type second struct {
	conn      *tls.Conn
	transport *http.Transport
	auth      string // of the header Authorization
}

func newSecond(s *tls.Conn, auth string) *second {
	_, value, _ := strings.Cut(strings.TrimSpace(auth), ": ")
	return &second{s, &http.Transport{
		ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 1,
		DialTLSContext: func(context.Context, string, string) (net.Conn, error) { return s, nil },
	}, value}
}

func (s *second) close() {
	s.transport.CloseIdleConnections()
	_ = s.conn.Close()
}

func (s *second) ask(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+nameOpened+"/", nil)
	if err != nil {
		return err
	}
	if s.auth != "" {
		req.Header.Set("Authorization", s.auth)
	}
	resp, err := s.transport.RoundTrip(req)
	if err != nil {
		return err
	}
	return finish(resp)
}
