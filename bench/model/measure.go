package main

import (
	"context"
	"fmt"
	"time"

	"github.com/bailey-dev/bailey/bench/figures"
)

const (
	perTurn  = 40                     // calls of one turn, one after another
	atOnce   = 16                     // connections, each with one call under way
	rateTurn = 400 * time.Millisecond // of one contender
	streams  = 600                    // held open at once
)

// kinds are what is asked for.
func kinds() []kind { return []kind{{false, false}, {false, true}, {true, false}, {true, true}} }

// cell is what a contender did in all turns.
type cell struct {
	first, whole []float64 // milliseconds of each call
	rates, cpu   []float64 // of each turn: calls a second, and the proxy's microseconds for each call
}

// take has all contenders that can take turns at an order.
func (l *lab) take(ctx context.Context, name string, o order) (map[*contender]*cell, error) {
	cells := map[*contender]*cell{}
	var who []*contender
	for _, c := range l.contenders {
		if !o.Kind.Stream || !c.noStreams {
			who = append(who, c)
			cells[c] = &cell{}
		}
	}
	err := l.turns(ctx, name+", "+o.Kind.String(), 15*time.Second, who, func(c *contender, turn int) error {
		before := c.cpu()
		got, err := c.do(o)
		if turn >= 0 && err == nil {
			cells[c].add(got, c.cpu()-before)
		}
		return err
	})
	return cells, err
}

func (x *cell) add(r result, cpu time.Duration) {
	x.first, x.whole = append(x.first, r.First...), append(x.whole, r.Whole...)
	if r.Took > 0 {
		x.rates = append(x.rates, float64(r.Calls)*1000/r.Took)
	}
	if n := r.Calls + int64(len(r.Whole)); n > 0 {
		x.cpu = append(x.cpu, float64(cpu.Microseconds())/float64(n))
	}
}

// measureCalls times calls that are made one after another.
func measureCalls(ctx context.Context, l *lab, r *report) error {
	for _, k := range kinds() {
		cells, err := l.take(ctx, "calls", order{Do: "calls", Kind: k, N: perTurn})
		if err != nil {
			return err
		}
		for _, c := range l.contenders {
			if x := cells[c]; x != nil && len(x.whole) > 0 {
				r.Calls = append(r.Calls, calls{
					Name: c.name, Kind: k.String(), Count: len(x.whole), Whole: spread(x.whole), First: spread(x.first), CPU: figures.Median(x.cpu),
				})
			}
		}
	}
	r.Calls = added(r.Calls)
	return nil
}

func spread(ms []float64) times {
	return times{P50: figures.Median(ms), P99: figures.Percentile(ms, 99)}
}

// measureRates has clients make one call after another at the same time.
func measureRates(ctx context.Context, l *lab, r *report) error {
	for _, k := range []kind{{}, {Stream: true}, {Large: true}} {
		cells, err := l.take(ctx, "rates", order{Do: "rate", Kind: k, N: atOnce, Milli: rateTurn.Milliseconds()})
		if err != nil {
			return err
		}
		row := rate{Kind: k.String(), PerSecond: map[string]float64{}, CPU: map[string]float64{}}
		for c, x := range cells {
			if len(x.rates) > 0 {
				row.PerSecond[c.name], row.CPU[c.name] = figures.Median(x.rates), figures.Median(x.cpu)
			}
		}
		row.OverPlain, row.OverPortkey = over(l, cells, casePlain), over(l, cells, casePortkey)
		r.Rates = append(r.Rates, row)
	}
	return nil
}

// over is bailey's rate over that of another, round by round.
func over(l *lab, cells map[*contender]*cell, other string) float64 {
	var rates [2][]float64
	for i, name := range []string{caseBailey, other} {
		for _, c := range l.among(name) {
			if cells[c] != nil {
				rates[i] = cells[c].rates
			}
		}
	}
	return figures.Paired(rates[0], rates[1])
}

// measureStreams holds many streams open, weighs who passes them on, and has
// them end.
func measureStreams(ctx context.Context, l *lab, r *report) error {
	for _, c := range l.among(casePlain, caseBailey, casePortkey, caseInside) {
		before := 0.0
		for _, k := range []kind{{false, true}, {true, true}} {
			if c.noStreams {
				continue
			}
			row, err := l.stream(ctx, c, k, &before)
			if err != nil {
				l.missing["streams, "+k.String()+", "+c.name] = err.Error()
				break
			}
			r.Streams = append(r.Streams, row)
		}
	}
	return ctx.Err()
}

// stream measures one contender.
//
// before is what the process took at first: what streams before these have left
// behind is not to hide what these take.
func (l *lab) stream(ctx context.Context, c *contender, k kind, before *float64) (row stream, err error) {
	if _, err := c.do(order{Do: "calls", Kind: kind{}, N: perTurn}); err != nil { // so that what is done once is done
		return row, err
	}
	pause(ctx, time.Second)
	if *before == 0 {
		if *before, err = private(c.pid); err != nil {
			return row, err
		}
	}
	release := l.provider.holding()
	defer release()
	got, err := c.do(order{Do: "hold", Kind: k, N: streams})
	if err != nil {
		_, _ = c.do(order{Do: "drain"})
		return row, fmt.Errorf("%d of %d began: %w", got.Calls, streams, err)
	}
	pause(ctx, 2*time.Second)
	after, err := private(c.pid)
	release()
	ended, err2 := c.do(order{Do: "drain"})
	row = stream{Name: c.name, Kind: k.String(), Began: got.Calls, Ended: ended.Calls, BeforeMB: *before / 1024, AfterMB: after / 1024}
	row.EachKB = (after - *before) / float64(max(1, got.Calls))
	if err == nil {
		err = err2
	}
	return row, err
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
