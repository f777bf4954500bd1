package main

import (
	"context"
	"fmt"
	"slices"
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

// measureCalls times calls that are made one after another.
func measureCalls(ctx context.Context, l *lab, r *report) error {
	type cell struct {
		first, whole []float64
		cpu          time.Duration
	}
	for _, k := range kinds() {
		cells := map[*contender]*cell{}
		err := l.turns(ctx, "calls, "+k.String(), 15*time.Second, l.contenders, func(c *contender, turn int) error {
			if k.Stream && c.noStreams {
				return nil
			}
			before := c.cpu()
			got, err := c.do(order{Do: "calls", Kind: k, N: perTurn})
			if turn < 0 || err != nil {
				return err
			}
			if cells[c] == nil {
				cells[c] = &cell{}
			}
			cells[c].first, cells[c].whole = append(cells[c].first, got.First...), append(cells[c].whole, got.Whole...)
			cells[c].cpu += c.cpu() - before
			return nil
		})
		if err != nil {
			return err
		}
		for _, c := range l.contenders {
			x := cells[c]
			if x == nil {
				continue
			}
			row := calls{Name: c.name, Kind: k.String(), Count: len(x.whole), Whole: spread(x.whole), First: spread(x.first)}
			if c.pid != 0 {
				row.CPU = float64(x.cpu.Microseconds()) / float64(row.Count)
			}
			r.Calls = append(r.Calls, row)
		}
	}
	r.Calls = added(r.Calls)
	return nil
}

func spread(ms []float64) times { return times{P50: figures.Median(ms), P99: percentile(ms, 99)} }

// measureRates has clients make one call after another at the same time.
func measureRates(ctx context.Context, l *lab, r *report) error {
	for _, k := range kinds() {
		if k.Large && k.Stream {
			continue
		}
		rates, cpu := map[*contender][]float64{}, map[*contender][]float64{}
		err := l.turns(ctx, "rates, "+k.String(), 15*time.Second, l.contenders, func(c *contender, turn int) error {
			if k.Stream && c.noStreams {
				return nil
			}
			before := c.cpu()
			got, err := c.do(order{Do: "rate", Kind: k, N: atOnce, Milli: rateTurn.Milliseconds()})
			if turn < 0 || err != nil {
				return err
			}
			rates[c] = append(rates[c], float64(got.Calls)*1000/got.Took)
			cpu[c] = append(cpu[c], float64((c.cpu()-before).Microseconds())/float64(got.Calls+atOnce))
			return nil
		})
		if err != nil {
			return err
		}
		row := rate{Kind: k.String(), PerSecond: map[string]float64{}, CPU: map[string]float64{}}
		for _, c := range l.contenders {
			if len(rates[c]) > 0 {
				row.PerSecond[c.name] = figures.Median(rates[c])
			}
			if c.pid != 0 && len(cpu[c]) > 0 {
				row.CPU[c.name] = figures.Median(cpu[c])
			}
		}
		row.OverPlain, row.OverPortkey = over(l, rates, casePlain), over(l, rates, casePortkey)
		r.Rates = append(r.Rates, row)
	}
	return nil
}

// over is bailey's rate over that of another, round by round.
func over(l *lab, rates map[*contender][]float64, other string) float64 {
	both := l.among(caseBailey, other)
	if len(both) != 2 {
		return 0
	}
	i := slices.IndexFunc(both, func(c *contender) bool { return c.name == caseBailey })
	return paired(rates[both[i]], rates[both[1-i]])
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
