package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/budget"
	"github.com/bailey-dev/bailey/internal/gateway"
	"github.com/bailey-dev/bailey/internal/linux/fdpass"
	"github.com/bailey-dev/bailey/internal/modelgate"
	"github.com/bailey-dev/bailey/internal/pricing"
)

// book is the ledger as the server wants it.
type book struct {
	ledger  *budget.Ledger
	s       modelgate.Settings
	journal *journal
	stop    context.CancelFunc
	done    chan struct{}
}

// newBook opens the ledger with the day that the starter sends first.
func newBook(ctx context.Context, s modelgate.Settings, days *os.File, j *journal) (*book, error) {
	first, err := receiveDay(days)
	if err != nil {
		return nil, err
	}
	l, err := budget.Open(ctx, budget.Config{
		Task: cmp.Or(s.Task, string(s.Sandbox)), Run: string(s.Sandbox), Page: first, Now: j.now,
		Next: func(_ context.Context, after budget.Day) (budget.Page, error) { return nextDay(days, after) },
		Log:  func(err error) { j.say(bailey.EventWarning, "the record of usage: "+err.Error()+"; it is tried again") },
	})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	b := &book{ledger: l, s: s, journal: j, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(b.done)
		if err := l.Run(ctx); err != nil {
			j.say(bailey.EventError, "the record of usage is not complete: "+err.Error())
		}
	}()
	return b, nil
}

// nextDay asks the starter, who may open files, for the page after a day.
func nextDay(days *os.File, after budget.Day) (budget.Page, error) {
	ask, err := json.Marshal(modelgate.Day{Day: after})
	if err == nil {
		err = fdpass.SendFile(days, ask, nil)
	}
	if err != nil {
		return budget.Page{}, fmt.Errorf("ask for the next day's record of usage: %w", err)
	}
	return receiveDay(days)
}

func receiveDay(days *os.File) (budget.Page, error) {
	payload, f, err := fdpass.ReceiveFile(days)
	if err != nil {
		return budget.Page{}, fmt.Errorf("wait for a day's record of usage: %w", err)
	}
	var d modelgate.Day
	err = json.Unmarshal(payload, &d)
	switch {
	case err == nil && d.Error != "":
		err = errors.New(d.Error) //nolint:err113 // the starter's words
	case err == nil && f == nil:
		err = errors.New("it came without a file")
	}
	if err != nil {
		if f != nil {
			_ = f.Close()
		}
		return budget.Page{}, fmt.Errorf("a day's record of usage: %w", err)
	}
	return budget.Page{Day: d.Day, File: f}, nil
}

func (b *book) close() {
	b.stop()
	<-b.done
	if err := b.ledger.Close(); err != nil {
		b.journal.say(bailey.EventError, "the record of usage is not complete: "+err.Error())
	}
}

// spent is a budget that is spent, in words for who asked.
type spent struct{ *budget.SpentError }

// Spent is one sentence, and what to do.
func (s spent) Spent() string { return s.Told() }

// held is a budget that calls under way hold.
type held struct{ *budget.SpentError }

// Held is one sentence.
func (h held) Held() string { return h.Error() }

// Reserve sets tokens aside.
func (b *book) Reserve(ctx context.Context, input, bound, output int64) (gateway.Grant, error) {
	g, err := b.ledger.Reserve(ctx, budget.Ask{Model: b.s.Pin.ID, Limits: b.s.Limits, Input: input, Bound: bound, Output: output, Longest: b.s.Pin.MaxOutput, Price: b.s.Price})
	if e, ok := errors.AsType[*budget.SpentError](err); ok && e.Busy {
		return nil, held{e}
	} else if ok {
		return nil, spent{e}
	}
	if err != nil {
		return nil, err
	}
	return &grant{b, g}, nil
}

// grant is a reservation as the server wants it.
type grant struct {
	b *book
	g *budget.Grant
}

// Output is the most that the answer may have; 0: there is no bound.
func (g *grant) Output() int64 { return g.g.Output }

// Settle books what was used, by the provider's word.
func (g *grant) Settle(u pricing.Usage) {
	var cost pricing.Money
	if c := g.Cost(u); c != nil {
		cost = *c
	}
	g.told(g.b.ledger.Settle(g.g, u, cost))
}

// Abandon books an estimate, or all.
func (g *grant) Abandon(u pricing.Usage) *pricing.Money {
	cost, err := g.b.ledger.Abandon(g.g, u)
	g.told(err)
	if g.b.s.Price == nil {
		return nil
	}
	return &cost
}

// Release gives it back.
func (g *grant) Release() { g.told(g.b.ledger.Cancel(g.g)) }

// Cost is nil without a price.
func (g *grant) Cost(u pricing.Usage) *pricing.Money {
	if g.b.s.Price == nil {
		return nil
	}
	c := pricing.Cost(u, *g.b.s.Price)
	return &c
}

func (g *grant) told(err error) {
	if err != nil {
		g.b.journal.say(bailey.EventWarning, "the record of usage: "+err.Error()+"; it is tried again")
	}
}
