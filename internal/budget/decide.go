package budget

import (
	"math"
	"time"

	"github.com/bailey-dev/bailey/internal/pricing"
)

const (
	// leastOutput is what a call is worth making for, in tokens.
	leastOutput = 16
	// unsaidOutput is what a call is taken to want that does not say it, in
	// tokens, if there is a limit.
	unsaidOutput = 32_000
	// longestAnswer is what a call can want of a model of whose answers nothing
	// is known, in tokens: no model of 2026 has longer ones, and one that asks
	// for a million holds what others could have.
	longestAnswer = 128_000
)

// decision is what becomes of a call.
type decision struct {
	output int64 // that it may have
	spent  *SpentError
	waits  bool // it may still have some when another call ends
}

// decide looks at every limit. The current page is locked and read.
func (l *Ledger) decide(a Ask, now time.Time) decision {
	d := decision{output: a.Output}
	if a.Limits.None() {
		return d
	}
	if d.output == 0 {
		d.output = unsaidOutput
	}
	if a.Longest == 0 {
		d.output = min(d.output, longestAnswer)
	}
	least := min(leastOutput, d.output)
	var wait *SpentError
	for _, s := range scopes() {
		limit := a.Limits.of(s)
		if limit.None() {
			continue
		}
		used, alive := l.used(s, a.Model, now)
		for _, u := range units() {
			output, waits, spent := u.judge(a, least, u.limit(limit), u.of(used), u.of(alive))
			if spent == nil {
				d.output = min(d.output, output)
				continue
			}
			spent.Scope, spent.Model = s, a.Model
			if !waits {
				return decision{spent: spent}
			}
			wait = spent
		}
	}
	if wait != nil {
		return decision{spent: wait, waits: true}
	}
	return d
}

// judge holds a call to one limit, which is none if it is 0: how much output it
// may have, or what stands in the way.
//
// A call that is alone is let through by the estimate of its input: its worst
// case is several times that, and nobody could spend the last of a budget. Beside
// others that are under way it has to fit with its worst case, and theirs, which
// are reserved: else each of them could be as wrong as the first. So no more is
// used beyond a limit than by one call.
func (u unit) judge(a Ask, least, most, used, alive int64) (output int64, waits bool, spent *SpentError) {
	if most == 0 {
		return math.MaxInt64, false, nil
	}
	left := pricing.Add(most, -used)
	input := a.Input
	if alive > 0 {
		input = a.Bound
	}
	if room := u.room(a, input, pricing.Add(left, -alive)); room >= least {
		return room, false, nil
	}
	return 0, u.room(a, a.Input, left) >= least, &SpentError{
		Limit: u.as(most), Used: u.as(used), Held: u.as(alive), Needs: u.as(u.most(a, a.Input, least)), Least: u.as(u.most(a, 1, leastOutput)),
	}
}

// most is what a call is at most.
func (u unit) most(a Ask, input, output int64) int64 {
	if u == inMoney {
		return int64(a.Price.Most(input, output))
	}
	return pricing.Add(input, output)
}

// used is what counts for a scope: used for good, and held by calls that may
// still give some of it back.
func (l *Ledger) used(s Scope, model string, now time.Time) (used, alive amount) {
	pages := l.pages
	if s.daily() {
		pages = pages[len(pages)-1:]
	} else {
		used = l.carried[keyOf(s, model)]
	}
	for _, p := range pages {
		some, rest := p.held(s, model, now)
		used = used.plus(p.sums[keyOf(s, model)]).plus(rest)
		alive = alive.plus(some)
	}
	return used, alive
}

// unit is tokens or money, both as whole numbers.
type unit bool

const (
	inTokens unit = false
	inMoney  unit = true
)

func units() [2]unit { return [2]unit{inTokens, inMoney} }

func (u unit) limit(l Limit) int64 {
	if u == inMoney {
		return int64(l.Money)
	}
	return l.Tokens
}

func (u unit) of(a amount) int64 {
	if u == inMoney {
		return int64(a.money)
	}
	return a.tokens
}

func (u unit) as(n int64) Limit {
	if u == inMoney {
		return Limit{Money: pricing.Money(n)}
	}
	return Limit{Tokens: n}
}

// room is how much output a call of an input may have where so much is left;
// below zero: the input alone is more.
func (u unit) room(a Ask, input, left int64) int64 {
	if left < 0 {
		return -1
	}
	if u == inMoney {
		return a.Price.Affordable(pricing.Money(left), input)
	}
	return left - input
}
