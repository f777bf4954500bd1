package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	perSecond   = 200 // new connections
	perTurn     = 100 // connections of one turn of a contender
	connectTurn = time.Second / perSecond
)

// measureLatency opens connections at a steady rate, whether or not the one
// before is through, and times each from connect to the end of its TLS
// handshake with the upstream.
func measureLatency(ctx context.Context, l *lab, r *report) error {
	who := l.contenders
	ms := map[*contender][]float64{}
	cpu := map[*contender]time.Duration{}
	err := l.turns(ctx, series{"latency", l.n, 25 * time.Second}, who, func(c *contender, turn int) error {
		before := c.cpu()
		took, err := c.handshakes(ctx, l)
		if turn < 0 {
			return err
		}
		ms[c] = append(ms[c], took...)
		cpu[c] += c.cpu() - before
		return err
	})
	var rows []latency
	for _, c := range who {
		row := summarize(c.name, ms[c])
		if c.proxy != nil && row.Count > 0 {
			row.CPU = float64(cpu[c].Microseconds()) / float64(row.Count)
		}
		if row.Count > 0 {
			rows = append(rows, row)
		}
	}
	r.Latency = added(rows)
	return err
}

// handshakes is one turn; it returns milliseconds.
func (c *contender) handshakes(ctx context.Context, l *lab) ([]float64, error) {
	fds, err := c.sockets(perTurn)
	if err != nil {
		return nil, err
	}
	roots := l.w.ca.Pool()
	ms, errs := make([]float64, len(fds)), make([]error, len(fds))
	tick := time.NewTicker(connectTurn)
	defer tick.Stop()
	var all sync.WaitGroup
	for i, fd := range fds {
		select {
		case <-tick.C:
		case <-ctx.Done():
			closeAll(fds[i:])
			all.Wait()
			return nil, ctx.Err()
		}
		all.Go(func() {
			begin := time.Now()
			conn, err := c.open(fd, nameSpliced, portTLS)
			if err != nil {
				errs[i] = err
				return
			}
			s, err := c.shake(conn, nameSpliced, roots, "http/1.1")
			ms[i] = milliseconds(time.Since(begin))
			if errs[i] = err; err == nil {
				_ = s.Close()
			}
		})
	}
	all.Wait()
	return ms, errors.Join(errs...)
}

func milliseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// cpu is what the contender's proxy has used of a CPU so far, as the scheduler
// counts it (/proc/PID/task/TID/schedstat, in nanoseconds).
func (c *contender) cpu() time.Duration {
	if c.proxy == nil {
		return 0
	}
	files, err := filepath.Glob("/proc/" + strconv.Itoa(c.proxy.pid()) + "/task/*/schedstat")
	if err != nil {
		return 0
	}
	var sum time.Duration
	for _, f := range files {
		text, err := os.ReadFile(f)
		first, _, _ := strings.Cut(string(text), " ")
		if ns, err2 := strconv.ParseInt(first, 10, 64); err == nil && err2 == nil {
			sum += time.Duration(ns)
		}
	}
	return sum
}
