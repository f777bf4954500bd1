package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/bailey-dev/bailey/bench/figures"
)

// One transfer of each kind; sealing and opening TLS costs clients and
// upstream the most, so less of it shows as much.
const (
	rawBytes    = 256 << 20
	tlsBytes    = 128 << 20
	chunk       = 256 << 10
	transferMax = time.Minute
)

// A transfer begins with a direction and a length.
const (
	down   = 'd' // from the upstream
	upward = 'u' // to the upstream, which says when it has all
)

// bulk is the upstream's side of a transfer.
func bulk(c net.Conn) {
	var order [9]byte
	if _, err := io.ReadFull(c, order[:]); err != nil {
		return
	}
	n := int64(binary.BigEndian.Uint64(order[1:]))
	if order[0] == down {
		_ = send(c, n)
		return
	}
	if receive(c, n) == nil {
		_, _ = c.Write([]byte{upward})
	}
}

func send(c net.Conn, n int64) error {
	buf := make([]byte, chunk)
	for n > 0 {
		m, err := c.Write(buf[:min(n, chunk)])
		n -= int64(m)
		if err != nil {
			return err
		}
	}
	return nil
}

func receive(c net.Conn, n int64) error {
	buf := make([]byte, chunk)
	for n > 0 {
		m, err := c.Read(buf[:min(n, chunk)])
		n -= int64(m)
		if err != nil {
			return err
		}
	}
	return nil
}

// transfer is one kind of long connection.
type transfer struct {
	name string
	tls  bool
	way  byte
	size int64
}

func transfers() []transfer {
	return []transfer{
		{"TCP, to the client", false, down, rawBytes},
		{"TCP, to the upstream", false, upward, rawBytes},
		{"TLS, to the client", true, down, tlsBytes},
		{"TLS, to the upstream", true, upward, tlsBytes},
	}
}

// measureThroughput times one long connection at a time.
func measureThroughput(ctx context.Context, l *lab, r *report) error {
	who := l.among(caseDirect, casePlain, caseBailey)
	for _, t := range transfers() {
		rates, cpu := map[*contender][]float64{}, map[*contender]time.Duration{}
		err := l.turns(ctx, series{"throughput, " + t.name, l.n, 7 * time.Second}, who, func(c *contender, turn int) error {
			before := c.cpu()
			took, err := c.transfer(l, t)
			if err == nil && turn >= 0 {
				rates[c] = append(rates[c], float64(t.size)/(1<<20)/took.Seconds())
				cpu[c] += c.cpu() - before
			}
			return err
		})
		if err != nil {
			return err
		}
		row := throughput{Name: t.name, MBs: map[string]float64{}, CPU: map[string]float64{}}
		for _, c := range who {
			if n := len(rates[c]); n > 0 {
				row.MBs[c.name] = figures.Median(rates[c])
				row.CPU[c.name] = milliseconds(cpu[c]) / float64(n) / (float64(t.size) / (1 << 30))
			}
		}
		if plain, bailey := l.among(casePlain), l.among(caseBailey); len(plain)+len(bailey) == 2 {
			row.Ratio = figures.Paired(rates[bailey[0]], rates[plain[0]])
		}
		r.Throughput = append(r.Throughput, row)
	}
	return nil
}

func (c *contender) transfer(l *lab, t transfer) (time.Duration, error) {
	port := uint16(portRaw)
	if t.tls {
		port = portBulk
	}
	conn, err := c.dial(nameSpliced, port)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if t.tls {
		s, err := c.shake(conn, nameSpliced, l.w.ca.Pool())
		if err != nil {
			return 0, err
		}
		defer func() { _ = s.Close() }()
		conn = s
	}
	if err := conn.SetDeadline(time.Now().Add(transferMax)); err != nil {
		return 0, err
	}
	order := binary.BigEndian.AppendUint64([]byte{t.way}, uint64(t.size))
	begin := time.Now()
	if _, err := conn.Write(order); err != nil {
		return 0, err
	}
	if t.way == down {
		err = receive(conn, t.size)
	} else {
		err = errors.Join(send(conn, t.size), receive(conn, 1))
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", t.name, err)
	}
	return time.Since(begin), nil
}
