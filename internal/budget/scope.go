package budget

import (
	"fmt"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/pricing"
)

// Limits are the limits of a call. All of them hold.
type Limits struct {
	Run       Limit `json:"run,omitzero"`        // of this run, whatever it uses
	ModelTask Limit `json:"model_task,omitzero"` // of the task, for this model
	ModelDay  Limit `json:"model_day,omitzero"`  // of the user, for this model in a day
	Task      Limit `json:"task,omitzero"`       // of the task, over all models
	Day       Limit `json:"day,omitzero"`        // of the user, over all models in a day
}

// None reports whether there is no limit at all.
func (l Limits) None() bool { return l == Limits{} }

// Money reports whether there is a limit in money, which needs a price.
func (l Limits) Money() bool {
	for _, s := range scopes() {
		if l.of(s).Money != 0 {
			return true
		}
	}
	return false
}

// Scope says what a limit is of.
type Scope uint8

// The scopes.
const (
	OfRun Scope = iota
	OfModelTask
	OfTask
	OfModelDay
	OfDay

	scopeCount = iota
)

func scopes() [scopeCount]Scope {
	return [scopeCount]Scope{OfRun, OfModelTask, OfTask, OfModelDay, OfDay}
}

// daily reports whether what is used counts by the day.
func (s Scope) daily() bool { return s == OfModelDay || s == OfDay }

func (l Limits) of(s Scope) Limit {
	switch s {
	case OfRun:
		return l.Run
	case OfModelTask:
		return l.ModelTask
	case OfTask:
		return l.Task
	case OfModelDay:
		return l.ModelDay
	case OfDay:
		return l.Day
	}
	return Limit{}
}

// String says it for a person.
func (s Scope) String() string {
	switch s {
	case OfRun:
		return "of this run"
	case OfModelTask:
		return "of this task for the model"
	case OfTask:
		return "of this task"
	case OfModelDay:
		return "of the day for the model"
	case OfDay:
		return "of the day over all models"
	}
	return "of something unknown"
}

// amount is what was used, or is held, in each unit.
type amount struct {
	tokens int64
	money  pricing.Money
}

func (a amount) plus(b amount) amount {
	return amount{pricing.Add(a.tokens, b.tokens), a.money.Plus(b.money)}
}

// ErrSpent is what every SpentError is.
var ErrSpent = bailey.NewError(bailey.Exhausted, "the budget is spent", "raise it in models.yaml, or with --budget; budgets of a day begin again at 00:00 UTC")

// SpentError says that a call would be more than a limit, even with the least
// output that makes sense.
type SpentError struct {
	Scope Scope
	Model string // bailey's name
	Limit Limit  // in the one unit that ran out
	Used  Limit  // in that unit
	Held  Limit  // in that unit, by calls that are under way or never ended
}

// Error is one sentence.
func (e *SpentError) Error() string {
	of := e.Scope.String()
	if e.Scope == OfModelTask || e.Scope == OfModelDay {
		of += " " + e.Model
	}
	text := fmt.Sprintf("the budget of %s %s is spent: %s used", e.Limit.person(), of, e.Used.person())
	if !e.Held.None() {
		text += fmt.Sprintf(", and %s held by calls that are under way or did not end", e.Held.person())
	}
	return text
}

// Unwrap is ErrSpent.
func (*SpentError) Unwrap() error { return ErrSpent }

// person is a limit in one unit as a sentence has it.
func (l Limit) person() string {
	if l.Money != 0 {
		return l.Money.String()
	}
	return Tokens(l.Tokens) + " tokens"
}
