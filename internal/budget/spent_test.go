package budget_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/budget"
	"github.com/bailey-dev/bailey/internal/pricing"
)

// TestSpentError_SaysWhetherTheCallIsTooLarge: of what is left, and not of what
// is not there any more.
func TestSpentError_SaysWhetherTheCallIsTooLarge(t *testing.T) {
	t.Parallel()
	price := &pricing.Price{Rates: pricing.Rates{Input: 1_000_000, Output: 5_000_000, CacheRead: 1_000_000, CacheWrite: 1_000_000, CacheWrite1h: 1_000_000}}
	for name, c := range map[string]struct {
		limit budget.Limit
		used  int64 // tokens of input
		input int64
		large bool
		want  string
	}{
		"a first call":           {tokens(2000), 0, 11_900, true, "the budget of 2k tokens of this run cannot be spent on the next call: it needs about 12k tokens, and 2k of 2k are left"},
		"a later one":            {tokens(20_000), 12_345, 11_900, true, "it needs about 12k tokens, and 7.6k of 20k are left"},
		"a little too large":     {tokens(12_000), 0, 12_000, true, "it needs about 13k tokens, and 12k of 12k are left"},
		"millions":               {tokens(2_000_000), 1, 2_300_000, true, "it needs about 2.4M tokens, and 1.9M of 2M are left"},
		"nothing is left":        {tokens(2000), 1990, 5, false, "the budget of 2k tokens of this run is spent: 1990 tokens used"},
		"one token":              {tokens(17), 1, 5, false, "the budget of 17 tokens of this run is spent: 1 token used"},
		"more than all was used": {tokens(2000), 3000, 5, false, "is spent: 3k tokens used"},
		"money":                  {budget.Limit{Money: pricing.USD / 100}, 2000, 20_000, true, "the budget of 0.01 USD of this run cannot be spent on the next call: it needs about 0.02008 USD, and 0.008 USD of 0.01 USD are left"},
		"money that is spent":    {budget.Limit{Money: pricing.USD / 100}, 10_000, 20_000, false, "the budget of 0.01 USD of this run is spent: 0.01 USD used"},
		"money by a hair":        {budget.Limit{Money: pricing.USD + 1}, 0, 1_000_000 - 79, true, "it needs about 1.000001 USD, and 1.000000000001 USD of 1.00 USD are left"},
	} {
		l := ledger(t, t.TempDir(), "t")
		if c.used > 0 {
			g := reserve(t, l, budget.Ask{Model: "m", Input: 1, Output: 1, Price: price})
			if err := l.Settle(g, pricing.Usage{Input: c.used}, price.Input.Times(c.used)); err != nil {
				t.Fatal(err)
			}
		}
		err := denied(t, l, budget.Ask{Model: "m", Limits: budget.Limits{Run: c.limit}, Input: c.input, Output: 100, Price: price})
		e, ok := isSpent(err)
		if !ok || e.TooLarge() != c.large || !strings.Contains(e.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSpentError_NamesWhereTheLimitIsWritten, and offers the flag where the flag
// is what stands in the way.
func TestSpentError_NamesWhereTheLimitIsWritten(t *testing.T) {
	t.Parallel()
	for want, l := range map[string]budget.Limits{
		"give the run more with --budget":                   {Run: tokens(100)},
		"raise models.m.budget.task in models.yaml":         {ModelTask: tokens(100)},
		"raise budget.task in models.yaml":                  {Task: tokens(100)},
		"raise models.m.budget.day in models.yaml, or wait": {ModelDay: tokens(100)},
		"raise budget.day in models.yaml, or wait":          {Day: tokens(100)},
	} {
		err := denied(t, ledger(t, t.TempDir(), "t"), budget.Ask{Model: "m", Limits: l, Input: 200})
		e, ok := errors.AsType[*bailey.Error](err)
		if !ok || !strings.HasPrefix(e.Hint, want) || l.Run.None() && strings.Contains(e.Hint, "--budget") || !errors.Is(err, budget.ErrSpent) || bailey.KindOf(err) != bailey.Exhausted {
			t.Errorf("%v: %+v; want %s", err, e, want)
		}
		spent, _ := isSpent(err)
		told, day := spent.Told(), strings.HasSuffix(want, ", or wait")
		if fix := strings.TrimSuffix(want, ", or wait") + " and start again"; !strings.Contains(told, fix) || strings.Contains(told, "or wait: a day begins again at 00:00 UTC") != day {
			t.Errorf("told: %s", told)
		}
	}
}

// TestUsed is what was used today, as far as it can be read.
func TestUsed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := budget.In(dir)
	if u, err := f.Used(noon); err != nil || u.Model("a") != (budget.Use{}) || u.All() != (budget.Use{}) {
		t.Fatalf("of nothing: %+v, %v", u, err)
	}
	price := &pricing.Price{Rates: pricing.Rates{Input: 1, Output: 1, CacheRead: 1, CacheWrite: 1, CacheWrite1h: 1}}
	c := &clock{noon}
	l, err := open(t.Context(), dir, "t", c.now)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	call := func(model string, n int64) {
		if err := l.Settle(reserve(t, l, budget.Ask{Model: model, Input: n, Price: price}), pricing.Usage{Input: n}, pricing.Money(n)); err != nil {
			t.Fatal(err)
		}
	}
	call("a", 10)
	call("a", 20)
	call("b", 100)
	reserve(t, l, budget.Ask{Model: "b", Input: 1000, Price: price}) // never ends
	want := func(when time.Time, a, b, all int64) {
		t.Helper()
		u, err := f.Used(when)
		for got, want := range map[budget.Use]int64{u.Model("a"): a, u.Model("b"): b, u.All(): all} {
			if err != nil || got != (budget.Use{Tokens: want, Money: pricing.Money(want)}) {
				t.Errorf("%v: %+v, want %d; %v", when, got, want, err)
			}
		}
	}
	want(noon, 30, 100, 130)
	for when, held := range map[time.Time]int64{noon: 1000, noon.Add(time.Hour): 0} {
		u, err := f.Used(when)
		if h := u.Held("b"); err != nil || h != u.Held("") || h.Tokens != held || u.Held("a") != (budget.Use{}) {
			t.Errorf("%v: held %+v, want %d; %v", when, h, held, err)
		}
	}
	want(noon.Add(time.Hour), 30, 1100, 1130)
	want(noon.AddDate(0, 0, -1), 30, 100, 130) // days never go back
	want(noon.AddDate(0, 0, 1), 0, 0, 0)
	if got := (budget.Use{Tokens: 1_234_567, Money: 3_123_456_789_000}); got.Of(budget.Limit{Tokens: 1, Money: 1}) != "1.2M, 3.12usd" || got.Of(budget.Limit{Money: 1}) != "3.12usd" || got.Of(budget.Limit{}) != "" {
		t.Error(got.Of(budget.Limit{Tokens: 1, Money: 1}))
	}
	if err := errors.Join(os.Remove(filepath.Join(dir, "usage", "2026-11-30.jsonl")), os.Mkdir(filepath.Join(dir, "usage", "2026-11-30.jsonl"), 0o700)); err != nil {
		t.Fatal(err)
	}
	if u, err := f.Used(noon); err == nil || u.All() != (budget.Use{}) {
		t.Errorf("of what cannot be read: %+v, %v", u, err)
	}
}
