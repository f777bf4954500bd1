package budget

import (
	"strings"

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

// Line is all limits for a person: "this run 2M; a task 200k, 1usd; a day 2M,
// 20usd; all models: a task 4M, a day 10M, 50usd"; empty: there is none. What
// stands before "all models" is of the run's model.
func (l Limits) Line() string {
	var own, all []string
	for _, part := range []struct {
		to    *[]string
		of    string
		limit Limit
	}{{&own, "this run", l.Run}, {&own, "a task", l.ModelTask}, {&own, "a day", l.ModelDay}, {&all, "a task", l.Task}, {&all, "a day", l.Day}} {
		if !part.limit.None() {
			*part.to = append(*part.to, part.of+" "+part.limit.String())
		}
	}
	if all != nil {
		own = append(own, "all models: "+strings.Join(all, ", "))
	}
	return strings.Join(own, "; ")
}

// Key is where a limit is written: its key in models.yaml, or the flag of the
// run that has it. model is bailey's name.
func (s Scope) Key(model string) string {
	switch s {
	case OfRun:
		return "--budget"
	case OfModelTask:
		return "models." + model + ".budget.task"
	case OfTask:
		return "budget.task"
	case OfModelDay:
		return "models." + model + ".budget.day"
	case OfDay:
		return "budget.day"
	}
	return "budget"
}
