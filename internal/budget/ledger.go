package budget

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/pricing"
)

// Config is what a Ledger needs.
type Config struct {
	Task    string // whose limits of a task hold; children of a run have their parent's
	Run     string // empty: as the task
	Page    Page   // the newest day's
	Earlier []Page // of days since the task began, the oldest first; what it used there counts

	// Next returns the page of a day that follows another one. Nil: there is
	// none, and no call after midnight.
	Next func(ctx context.Context, after Day) (Page, error)
	Now  func() time.Time
	Log  func(error) // of what is kept and tried again; nil: nobody wants it
}

// Ledger reserves and settles. It is safe for concurrent use, and so is the use
// of one day's file by many processes.
//
// What it writes is in the file when a call returns, where every other process
// sees it and no end of a process loses it. That the disk has it as well (fsync)
// is Run's to see to, within a second: a machine that loses its power may forget
// that second.
type Ledger struct {
	cfg  Config
	mine identity

	turn    chan struct{} // held by who uses what follows
	pages   []*page       // the oldest first; the last is the one that is written to
	carried map[sumKey]amount
	unsure  error         // why it is not known that the disk keeps what was written
	settled chan struct{} // closed when something was settled, and made anew

	work chan struct{} // there is something for Run
}

// Ask is what a call wants.
type Ask struct {
	Model   string // bailey's name
	Limits  Limits
	Input   int64          // the estimate of its tokens
	Bound   int64          // what they are at most; less than Input: as Input
	Output  int64          // the most that it wants; 0: it does not say
	Longest int64          // the most that the model can, in tokens; 0: nobody said
	Price   *pricing.Price // nil: it has none
}

// Grant is what a call may use. It is settled, abandoned or canceled, once; what
// is never is spent.
type Grant struct {
	Output int64 // the most that the call may be sent with; 0: whatever it says itself

	page     *page
	record   record // the reservation
	input    int64
	reserved int64 // of output
	price    *pricing.Price
	done     bool
}

// Tokens is what is reserved, in tokens.
func (g *Grant) Tokens() int64 { return g.record.Tokens }

// Open begins with the newest page, and reads it.
func Open(ctx context.Context, cfg Config) (*Ledger, error) {
	if cfg.Run == "" {
		cfg.Run = cfg.Task
	}
	for _, name := range []string{cfg.Task, cfg.Run} {
		if name == "" || len(name) > longestName {
			return nil, fmt.Errorf("bug: %.20q names no task", name)
		}
	}
	l := &Ledger{
		cfg: cfg, mine: identity{cfg.Task, cfg.Run}, turn: make(chan struct{}, 1), carried: map[sumKey]amount{},
		settled: make(chan struct{}), work: make(chan struct{}, 1),
	}
	for _, p := range append(slices.Clone(cfg.Earlier), cfg.Page) {
		if err := l.add(ctx, p); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// add makes a page the one that is written to.
func (l *Ledger) add(ctx context.Context, p Page) error {
	if p.File == nil {
		return errors.New("bug: a page without a file")
	}
	if _, err := p.Day.start(); err != nil {
		return fmt.Errorf("bug: %.20q is no day", p.Day)
	}
	if p.Day.aheadOf(l.cfg.Now()) {
		return ahead(p.File.Name(), p.Day)
	}
	if n := len(l.pages); n > 0 && p.Day <= l.pages[n-1].Day {
		return fmt.Errorf("bug: the page of %s follows that of %s", p.Day, l.pages[n-1].Day)
	}
	next := newPage(p, l.mine)
	if err := next.locked(ctx.Done(), next.read); err != nil {
		return err
	}
	l.pages = append(l.pages, next)
	return nil
}

// ahead is the error of a file of a day that is not to come for long: while it
// is there, no other day could begin.
func ahead(file string, day Day) error {
	return bailey.NewError(bailey.Unavailable, fmt.Sprintf("the record of usage %s is of a day (%s) that has not come: the clock was wrong when it was made, or is now", file, day),
		"set the clock; if it is right, move that file away")
}

// begin takes the turn.
func (l *Ledger) begin(ctx context.Context) error {
	select {
	case l.turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case l.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *Ledger) end() { <-l.turn }

// Waiting for calls that are under way: for how long, and how often others' are
// looked at.
const (
	longestWait = 30 * time.Second
	lookEvery   = 50 * time.Millisecond
)

// Reserve takes what a call may use from all of its limits, in one step. Its
// output is lowered to what is left. Where not even the least is left, the
// error is a *SpentError; if only calls that are under way stand in the way,
// Reserve waits some seconds for one of them to end, and the error is Busy. An error of another kind
// means that nothing is known for sure: nothing was reserved, and the call is
// not made.
func (l *Ledger) Reserve(ctx context.Context, a Ask) (*Grant, error) {
	a, err := checked(a)
	if err != nil {
		return nil, err
	}
	var deadline <-chan time.Time
	for {
		o, err := l.try(ctx, a)
		if err != nil {
			return nil, err
		}
		if o.grant != nil {
			return o.grant, nil
		}
		if o.wake == nil {
			return nil, o.spent
		}
		if deadline == nil {
			timer := time.NewTimer(longestWait)
			defer timer.Stop()
			deadline = timer.C
		}
		look := time.NewTimer(lookEvery)
		select {
		case <-o.wake:
		case <-look.C:
		case <-deadline:
			look.Stop()
			o.spent.Busy = true
			return nil, o.spent
		case <-ctx.Done():
			look.Stop()
			return nil, context.Cause(ctx)
		}
		look.Stop()
	}
}

// checked holds a question to what it can be.
func checked(a Ask) (Ask, error) {
	if a.Model == "" || len(a.Model) > longestName {
		return a, fmt.Errorf("bug: %.20q names no model", a.Model)
	}
	if a.Limits.Money() && a.Price == nil {
		return a, bailey.NewError(bailey.Invalid, "the budget is in money, and the model "+a.Model+" has no price", "write models."+a.Model+".price in models.yaml, or give a budget in tokens")
	}
	a.Input = min(max(a.Input, 0), MaxTokens)
	a.Bound = min(max(a.Bound, a.Input), MaxTokens)
	a.Output = min(max(a.Output, 0), MaxTokens)
	return a, nil
}

// outcome is what became of a question: a grant, or what stands in the way, for
// good unless wake says when to ask again.
type outcome struct {
	grant *Grant
	spent *SpentError
	wake  <-chan struct{}
}

// try asks once.
func (l *Ledger) try(ctx context.Context, a Ask) (o outcome, err error) {
	if err := l.begin(ctx); err != nil {
		return o, err
	}
	defer l.end()
	if l.unsure != nil {
		return o, l.unsure
	}
	const mostDays = 4 // a page may have ended when it is come to
	for range mostDays {
		p, err := l.today(ctx)
		if err != nil {
			return o, err
		}
		err = p.locked(ctx.Done(), func() (err error) {
			o, err = l.once(p, a)
			return err
		})
		if err != nil {
			return outcome{}, gone(ctx, err)
		}
		if o.grant != nil {
			l.tell()
		}
		if o.grant != nil || o.spent != nil {
			return o, nil
		}
	}
	return o, bailey.NewError(bailey.Unavailable, "the record of usage ended on several days at once", "set the clock")
}

// gone is why ctx ended, if it has: what failed then failed for that.
func gone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// once asks on a page that is locked. Nothing comes out of one that has ended.
func (l *Ledger) once(p *page, a Ask) (o outcome, err error) {
	if err := p.read(); err != nil {
		return o, err
	}
	if err := p.settlePending(); err != nil || p.ended != "" {
		return o, err
	}
	now := l.cfg.Now()
	d := l.decide(a, now)
	if d.spent != nil {
		o.spent = d.spent
		if d.waits {
			o.wake = l.settled
		}
		return o, nil
	}
	g := l.grant(p, a, d.output, now)
	if err := p.append(g.record); err != nil {
		return o, err
	}
	return outcome{grant: g}, nil
}

// grant makes the reservation of a call.
func (l *Ledger) grant(p *page, a Ask, output int64, now time.Time) *Grant {
	g := &Grant{Output: output, page: p, input: a.Bound, reserved: output, price: a.Price}
	g.record = record{
		Kind: reserveOne, ID: newCallID(), At: now.UnixMilli(), Task: l.mine.task, Model: a.Model,
		Tokens: pricing.Add(a.Bound, output), Priced: a.Price != nil,
	}
	if l.mine.run != l.mine.task {
		g.record.Run = l.mine.run
	}
	if a.Price != nil {
		g.record.Money = a.Price.Most(a.Bound, output)
	}
	return g
}

// today returns the page that is written to, after those before it were looked
// at. A day that was come to is never gone back from.
func (l *Ledger) today(ctx context.Context) (*page, error) {
	last := l.pages[len(l.pages)-1]
	if last.ended != "" || DayOf(l.cfg.Now()) > last.Day {
		if l.cfg.Next == nil {
			return nil, bailey.NewError(bailey.Unavailable, "the day of the record of usage "+last.File.Name()+" is over", "start the sandbox again")
		}
		p, err := l.cfg.Next(ctx, last.Day)
		if err != nil {
			return nil, err
		}
		if err := l.add(ctx, p); err != nil {
			_ = p.File.Close()
			return nil, err
		}
		l.retire()
	}
	for _, p := range l.pages[:len(l.pages)-1] {
		size, err := p.size()
		if err == nil && (size != p.offset || len(p.pending) > 0) {
			err = p.locked(ctx.Done(), func() error { return errors.Join(p.read(), p.settlePending()) })
		}
		if err != nil {
			return nil, err
		}
	}
	return l.pages[len(l.pages)-1], nil
}

// retire closes the pages before yesterday's that hold nothing open of the
// task: what it used there stays counted.
func (l *Ledger) retire() {
	const kept = 2
	for len(l.pages) > kept {
		p := l.pages[0]
		if len(p.pending) > 0 || p.dirty || p.holdsOfTask() {
			return
		}
		for key, sum := range p.sums {
			if !key.scope.daily() {
				l.carried[key] = l.carried[key].plus(sum)
			}
		}
		_ = p.File.Close() // nothing is left to be written
		l.pages = l.pages[1:]
	}
}

// holdsOfTask reports whether something of the task is open.
func (p *page) holdsOfTask() bool {
	for _, r := range p.open {
		if p.counts(OfTask, r) {
			return true
		}
	}
	return false
}

// tell says that there is something to be kept.
func (l *Ledger) tell() {
	select {
	case l.work <- struct{}{}:
	default:
	}
}
