package budget

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/bailey-dev/bailey/internal/pricing"
)

// Settle books what a call did use, which may be more than was reserved, and
// gives the rest back. It does so once. It counts at once in this process; an
// error says that the file does not have it yet, and that it is tried again.
func (l *Ledger) Settle(g *Grant, u pricing.Usage, cost pricing.Money) error {
	return l.settle(g, record{Usage: &u, Tokens: max(u.Tokens(), 0), Money: max(cost, 0)})
}

// Abandon books a call whose usage nobody said: an estimate, or, where that is
// nothing, all that was reserved. It returns what that costs, with the dearest
// kind of input where nobody knows which it was; 0 without a price.
func (l *Ledger) Abandon(g *Grant, estimate pricing.Usage) (pricing.Money, error) {
	r := record{Usage: &estimate, Tokens: estimate.Tokens(), Estimated: true}
	switch {
	case r.Tokens <= 0:
		r.Usage = &pricing.Usage{Input: g.input, Output: g.reserved}
		r.Tokens = pricing.Add(g.input, g.reserved)
		if g.price != nil {
			r.Money = g.price.Most(g.input, g.reserved)
		}
	case g.price != nil:
		r.Money = pricing.Cost(estimate, *g.price)
	}
	return r.Money, l.settle(g, r)
}

// Cancel gives a reservation back whose call the provider never got.
func (l *Ledger) Cancel(g *Grant) error {
	return l.settle(g, record{Usage: &pricing.Usage{}, Void: true})
}

// settle is not given up with the call, whose client may be gone: what was used
// was used.
func (l *Ledger) settle(g *Grant, r record) error {
	l.turn <- struct{}{}
	defer l.end()
	if g.done {
		return nil
	}
	g.done = true
	r.Kind, r.ID, r.At = settleOne, g.record.ID, l.cfg.Now().UnixMilli()
	r.Task, r.Run, r.Model, r.Priced = g.record.Task, g.record.Run, g.record.Model, g.record.Priced
	p := g.page
	p.apply(r)
	p.pending = append(p.pending, r)
	close(l.settled)
	l.settled = make(chan struct{})
	l.tell()
	return l.write(p)
}

// write adds what is pending.
func (l *Ledger) write(p *page) error {
	return p.locked(nil, func() error {
		if err := p.read(); err != nil {
			return err
		}
		return p.settlePending()
	})
}

// keepAfter is how long after it was written something is kept by the disk, and
// how often what could not be written is tried again.
const keepAfter = 500 * time.Millisecond

// Run sees to it that the disk keeps what is written, until ctx ends; then once
// more, and its error says what is not kept.
func (l *Ledger) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return l.Flush()
		case <-l.work:
		}
		if !pauseFor(ctx.Done(), keepAfter) {
			return l.Flush()
		}
		if err := l.Flush(); err != nil {
			if l.cfg.Log != nil {
				l.cfg.Log(err)
			}
			l.tell() // to try again
		}
	}
}

// Flush writes what could not be written, and waits for the disk to keep all of
// it.
func (l *Ledger) Flush() error {
	l.turn <- struct{}{}
	var errs []error
	var dirty []*page
	for _, p := range l.pages {
		if len(p.pending) > 0 {
			errs = append(errs, l.write(p))
		}
		if p.dirty {
			dirty = append(dirty, p)
			p.dirty = false
		}
	}
	l.end()

	var unsure error
	for _, p := range dirty {
		if err := p.File.Sync(); err != nil && !errors.Is(err, os.ErrClosed) { // of a day that is over
			unsure = errors.Join(unsure, p.failed("keep", err))
		}
	}
	l.turn <- struct{}{}
	defer l.end()
	if unsure != nil {
		for _, p := range dirty {
			p.dirty = true
		}
	}
	if unsure != nil || len(dirty) > 0 {
		l.unsure = unsure
	}
	return errors.Join(append(errs, unsure)...)
}

// Close writes what is left and closes the files. Reservations that are open
// stay spent.
func (l *Ledger) Close() error {
	err := l.Flush()
	l.turn <- struct{}{}
	defer l.end()
	for _, p := range l.pages {
		err = errors.Join(err, p.File.Close())
	}
	return err
}

// Odd is how many lines of the files said nothing: they were damaged.
func (l *Ledger) Odd() int {
	l.turn <- struct{}{}
	defer l.end()
	n := 0
	for _, p := range l.pages {
		n += p.odd
	}
	return n
}
