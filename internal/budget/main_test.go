package budget_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/bailey-dev/bailey/internal/budget"
	"github.com/bailey-dev/bailey/internal/pricing"
)

// TestMain is also the program of the other processes of a test.
func TestMain(m *testing.M) {
	switch role, dir, _ := strings.Cut(os.Getenv("BUDGET_TEST"), ":"); role {
	case "":
		os.Exit(m.Run())
	case "race":
		child(func(ctx context.Context) error { return raceChild(ctx, dir) })
	case "die":
		child(func(ctx context.Context) error { return dieChild(ctx, dir) })
	case "full":
		child(func(ctx context.Context) error { return fullChild(ctx, dir) })
	}
}

func child(f func(context.Context) error) {
	if err := f(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// start starts another process in a role.
func start(t *testing.T, role, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), "BUDGET_TEST="+role+":"+dir)
	cmd.Stderr = os.Stderr
	return cmd
}

// noon is a time far from midnight.
var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func atNoon() time.Time { return noon }

// open opens a ledger of a task in a folder.
func open(ctx context.Context, dir, task string, now func() time.Time) (*budget.Ledger, error) {
	f := budget.In(dir)
	p, err := f.Newest(ctx, now())
	if err != nil {
		return nil, err
	}
	return budget.Open(ctx, budget.Config{
		Task: task, Page: p, Now: now,
		Next: func(ctx context.Context, after budget.Day) (budget.Page, error) { return f.Next(ctx, after, now()) },
	})
}

func ledger(t *testing.T, dir, task string) *budget.Ledger {
	t.Helper()
	l, err := open(t.Context(), dir, task, atNoon)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func tokens(n int64) budget.Limit { return budget.Limit{Tokens: n} }

// day asks for input and output under a limit of the day.
func day(limit, input, output int64) budget.Ask {
	return budget.Ask{Model: "m", Limits: budget.Limits{Day: tokens(limit)}, Input: input, Output: output}
}

func reserve(t *testing.T, l *budget.Ledger, a budget.Ask) *budget.Grant {
	t.Helper()
	g, err := l.Reserve(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// denied asks for what is not granted.
func denied(t *testing.T, l *budget.Ledger, a budget.Ask) error {
	t.Helper()
	g, err := l.Reserve(t.Context(), a)
	if err == nil {
		t.Fatalf("%+v was granted %+v", a, g)
	}
	return err
}

// cancelled is the context of a client that is gone already: nothing waits.
func cancelled(t *testing.T) (context.Context, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx, cancel
}

func settle(t *testing.T, l *budget.Ledger, g *budget.Grant, input, output int64) {
	t.Helper()
	if err := l.Settle(g, pricing.Usage{Input: input, Output: output}, 0); err != nil {
		t.Fatal(err)
	}
}

func isSpent(err error) (*budget.SpentError, bool) { return errors.AsType[*budget.SpentError](err) }
