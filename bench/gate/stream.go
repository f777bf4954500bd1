package main

import (
	"bufio"
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	pathStream  = "/stream"
	streamPause = 5 * time.Millisecond // before the first event, and after
	perStream   = 10                   // streams of one turn
)

// stream is a way that event streams take.
type stream struct {
	name, host string
	port       uint16
	who        []*contender
}

// measureStreams takes the time from the upstream's sending the first event of
// a stream, which says when that was, to its arrival at the client.
func measureStreams(ctx context.Context, l *lab, r *report) error {
	for _, kind := range []stream{
		{"HTTP", nameSpliced, portHTTP, l.among(caseDirect, casePlain, caseBailey)},
		{"TLS, passed through", nameSpliced, portTLS, l.among(caseDirect, casePlain, caseBailey, caseMitm)},
		{"TLS, opened", nameOpened, portTLS, opening(l.contenders)},
	} {
		if err := l.streams(ctx, r, kind); err != nil {
			return err
		}
	}
	return nil
}

// streams is all turns of one kind of stream.
func (l *lab) streams(ctx context.Context, r *report, kind stream) error {
	ms := map[*contender][]float64{}
	err := l.turns(ctx, series{"stream, " + kind.name, l.n, 5 * time.Second}, kind.who, func(c *contender, turn int) error {
		for range perStream {
			took, err := c.firstEvent(l, kind.host, kind.port)
			if err != nil {
				return err
			}
			if turn >= 0 {
				ms[c] = append(ms[c], took)
			}
		}
		return nil
	})
	for _, c := range kind.who {
		if len(ms[c]) > 0 {
			r.Streams = append(r.Streams, summarize(kind.name+": "+c.name, ms[c]))
		}
	}
	return err
}

// opening are the contenders that open TLS.
func opening(all []*contender) []*contender {
	var out []*contender
	for _, c := range all {
		if c.roots != nil {
			out = append(out, c)
		}
	}
	return out
}

// rootsFor is whom a client must trust for a name.
func (c *contender) rootsFor(l *lab, name string) *x509.CertPool {
	if name == nameOpened && c.roots != nil {
		return c.roots
	}
	return l.w.ca.Pool()
}

// firstEvent asks for a stream on a new connection; it returns milliseconds.
func (c *contender) firstEvent(l *lab, host string, port uint16) (float64, error) {
	conn, err := c.dial(host, port)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if port == portTLS {
		s, err := c.shake(conn, host, c.rootsFor(l, host), "http/1.1")
		if err != nil {
			return 0, err
		}
		defer func() { _ = s.Close() }()
		conn = s
	}
	line, now, err := readEvent(conn, host)
	if err != nil {
		return 0, err
	}
	sent, err := strconv.ParseInt(line, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the first event is %q", line)
	}
	return milliseconds(time.Duration(now.UnixNano() - sent)), nil
}

// readEvent asks for the stream and returns what the first event says, and when
// it was there.
func readEvent(conn net.Conn, host string) (string, time.Time, error) {
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", pathStream, host); err != nil {
		return "", time.Time{}, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return "", time.Time{}, err
	}
	defer resp.Body.Close() // reads the rest
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	now := time.Now()
	if err != nil {
		return "", now, fmt.Errorf("read the first event (%s): %w", resp.Status, err)
	}
	return strings.TrimSpace(strings.TrimPrefix(line, "data:")), now, nil
}
