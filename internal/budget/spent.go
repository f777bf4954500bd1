package budget

import (
	"fmt"
	"strconv"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/pricing"
)

// ErrSpent is what every SpentError is.
var ErrSpent = bailey.NewError(bailey.Exhausted, "the budget is spent", "raise it; budgets of a day begin again at 00:00 UTC")

// SpentError says that a call would be more than a limit, even with the least
// output that makes sense.
type SpentError struct {
	Scope Scope
	Model string // bailey's name
	Limit Limit  // in the one unit that ran out
	Used  Limit  // in that unit
	Held  Limit  // in that unit, by calls that are under way or never ended
	Needs Limit  // in that unit: the call, with the least output
	Least Limit  // in that unit: the smallest call that there is

	// Busy says that only calls that are under way stand in the way: some of
	// what they hold comes back.
	Busy bool
}

// TooLarge reports whether it is the size of the call that stands in the way: a
// smaller one could still be paid for.
func (e *SpentError) TooLarge() bool { return e.left() >= e.Least.number() && e.left() > 0 }

// left is what is neither used nor held, in the one unit.
func (e *SpentError) left() int64 {
	return pricing.Add(pricing.Add(e.Limit.number(), -e.Used.number()), -e.Held.number())
}

// Error is one sentence.
func (e *SpentError) Error() string {
	of := e.Scope.String()
	if e.Scope == OfModelTask || e.Scope == OfModelDay {
		of += " " + e.Model
	}
	text := fmt.Sprintf("the budget of %s %s ", e.Limit.person(), of)
	if e.Busy {
		return text + fmt.Sprintf("has nothing left at the moment: %s held by calls that are under way, and %s used", e.Held.person(), e.Used.person())
	}
	if e.TooLarge() {
		text += e.tooLarge()
	} else {
		text += "is spent: " + e.Used.person() + " used"
	}
	if !e.Held.None() {
		text += fmt.Sprintf(", and %s held by calls that are under way or did not end", e.Held.person())
	}
	return text
}

func (e *SpentError) tooLarge() string {
	const form = "cannot be spent on the next call: it needs about %s, and %s of %s are left"
	if m := e.Limit.Money; m != 0 {
		left := pricing.Money(e.left())
		needs, rest := e.Needs.Money.String(), left.String()
		if needs == rest { // to the digits that are shown
			needs, rest = e.Needs.Money.Decimal()+" USD", left.Decimal()+" USD"
		}
		return fmt.Sprintf(form, needs, rest, m)
	}
	return fmt.Sprintf(form, about(e.Needs.Tokens, up)+" tokens", about(e.left(), down), Tokens(e.Limit.Tokens))
}

// Unwrap is ErrSpent, and where the limit is written.
func (e *SpentError) Unwrap() []error {
	return []error{bailey.NewError(bailey.Exhausted, e.Error(), e.fix("")), ErrSpent}
}

// Told is what a sandbox is told, and the person with it: the limit, where it is
// written, and what goes on until that is changed.
func (e *SpentError) Told() string {
	rest := "until then no call of the model is made"
	if e.TooLarge() {
		rest = "a smaller call may pass"
	}
	return e.Error() + ". Whoever started this can " + e.fix(" and start again") + "; " + rest
}

// fix is what can be done about a limit. again is for who has started already:
// what is raised holds from the next start.
func (e *SpentError) fix(again string) string {
	if e.Scope == OfRun {
		return "give the run more with --budget" + again
	}
	text := "raise " + e.Scope.Key(e.Model) + " in models.yaml" + again
	if e.Scope.daily() {
		text += ", or wait: a day begins again at 00:00 UTC"
	}
	return text
}

// person is a limit in one unit as a sentence has it.
func (l Limit) person() string {
	if l.Money != 0 {
		return l.Money.String()
	}
	if l.Tokens == 1 {
		return "1 token"
	}
	return Tokens(l.Tokens) + " tokens"
}

// number is a limit in one unit.
func (l Limit) number() int64 {
	if l.Money != 0 {
		return int64(l.Money)
	}
	return l.Tokens
}

// The ways of rounding.
const (
	down = false
	up   = true
)

// about is a number of tokens in two or three digits: of what is needed it is
// never less, of what is left never more.
func about(n int64, above bool) string {
	const ten = 10
	unit := int64(1)
	for n >= thousand && n >= 100*unit {
		unit *= ten
	}
	if above {
		n = pricing.Add(n, unit-1)
	}
	n -= n % unit
	switch {
	case n >= million:
		return tenths(n/(million/ten)) + "M"
	case n >= thousand:
		return tenths(n/(thousand/ten)) + "k"
	}
	return strconv.FormatInt(n, ten)
}

// tenths is n tenths as a number with one digit behind the point, if it is not 0.
func tenths(n int64) string {
	text := strconv.FormatInt(n/10, 10)
	if n%10 != 0 {
		text += "." + strconv.FormatInt(n%10, 10)
	}
	return text
}
