package main

import (
	"context"
	"fmt"
	"runtime"
	"syscall"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/bench/figures"
	"github.com/bailey-dev/bailey/internal/policy"
)

const (
	decisionTurn  = 40 * time.Millisecond
	decisionTurns = 9
)

// measureDecisions asks policies of different sizes on one core; every second
// answer is a refusal.
func measureDecisions(ctx context.Context, _ *lab, r *report) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, n := range []int{10, 100, 10_000} {
		index, asks, err := many(n)
		if err != nil {
			return err
		}
		var rates []float64
		for range decisionTurns {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			rate, err := decide(index, asks)
			if err != nil {
				return err
			}
			rates = append(rates, rate)
		}
		r.Decisions = append(r.Decisions, decisions{Rules: n, PerSecond: figures.Median(rates)})
	}
	return nil
}

// decide returns how many decisions the calling thread takes in a second of its
// CPU time: what else the machine does is no matter.
func decide(index *policy.Index, asks []policy.Request) (float64, error) {
	begin, err := threadTime()
	n, used := 0, time.Duration(0)
	for err == nil && used < decisionTurn {
		for range 8 {
			for _, ask := range asks {
				index.Decide(ask)
			}
		}
		n += 8 * len(asks)
		used, err = threadTime()
		used -= begin
	}
	return float64(n) / used.Seconds(), err
}

// threadTime is the CPU time of the calling thread so far.
func threadTime() (time.Duration, error) {
	const thread = 1 // RUSAGE_THREAD, getrusage(2)
	var u syscall.Rusage
	if err := syscall.Getrusage(thread, &u); err != nil {
		return 0, err
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

func many(n int) (*policy.Index, []policy.Request, error) {
	p := policy.Policy{Mode: bailey.NetAllow}
	for i := range n {
		p.Allow = append(p.Allow, policy.Rule{Host: fmt.Sprintf("h%d.example.com", i), Wildcard: i%3 == 0, Port: uint16(443 * (i % 2))})
	}
	if err := p.Validate(); err != nil {
		return nil, nil, err
	}
	ask := func(host string) policy.Request {
		return policy.Request{Protocol: policy.ProtocolTLS, Host: host, Addr: upstream, Port: portTLS}
	}
	const half = 128
	asks := make([]policy.Request, 0, 2*half)
	for i := range half {
		k := i * n / half
		known := fmt.Sprintf("h%d.example.com", k)
		if k%3 == 0 {
			known = "x." + known
		}
		asks = append(asks, ask(known), ask(fmt.Sprintf("x%d.example.net", i)))
	}
	return policy.NewIndex(p), asks, nil
}
