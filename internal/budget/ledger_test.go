package budget_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/budget"
	"github.com/bailey-dev/bailey/internal/pricing"
)

func TestReserve_LowersTheOutputToWhatIsLeft(t *testing.T) {
	t.Parallel()
	l := ledger(t, t.TempDir(), "t")
	g := reserve(t, l, day(1000, 100, 500))
	if g.Output != 500 || g.Tokens() != 600 {
		t.Fatalf("%d, %d", g.Output, g.Tokens())
	}
	settle(t, l, g, 100, 50)
	if g := reserve(t, l, day(1000, 100, 5000)); g.Output != 750 {
		t.Errorf("850 are left for 100 of input and %d of output", g.Output)
	} else {
		settle(t, l, g, 100, 700)
	}
	// 50 are left: 34 and the least of 16 fit, one more does not.
	if g := reserve(t, l, day(1000, 34, 100)); g.Output != 16 {
		t.Errorf("%d", g.Output)
	} else {
		settle(t, l, g, 0, 0)
	}
	err := denied(t, l, day(1000, 35, 100))
	e, ok := isSpent(err)
	if !ok || !errors.Is(err, budget.ErrSpent) || bailey.KindOf(err) != bailey.Exhausted {
		t.Fatalf("%v", err)
	}
	if diff := cmp.Diff(&budget.SpentError{Scope: budget.OfDay, Model: "m", Limit: tokens(1000), Used: tokens(950), Needs: tokens(51), Least: tokens(17)}, e); diff != "" {
		t.Error(diff)
	}
	if want := "the budget of 1k tokens of the day over all models cannot be spent on the next call: it needs about 51 tokens, and 50 of 1k are left"; err.Error() != want || !e.TooLarge() {
		t.Errorf("%s", err)
	}
	// A call that wants less than the least gets that.
	if g := reserve(t, l, day(1000, 35, 3)); g.Output != 3 {
		t.Errorf("%d", g.Output)
	}
}

func TestReserve_WhatIsNotSaidIsBoundedWhereThereIsALimit(t *testing.T) {
	t.Parallel()
	l := ledger(t, t.TempDir(), "t")
	if g := reserve(t, l, budget.Ask{Model: "m", Input: 5}); g.Output != 0 || g.Tokens() != 5 {
		t.Errorf("without a limit: %d, %d", g.Output, g.Tokens())
	}
	if g := reserve(t, l, day(1_000_000, 5, 0)); g.Output != 32_000 {
		t.Errorf("under one: %d", g.Output)
	}
	if g := reserve(t, l, day(40_000, 5, 0)); g.Output != 40_000-32_005-10 {
		t.Errorf("under a small one: %d", g.Output)
	}
}

func abandon(l *budget.Ledger, g *budget.Grant, u pricing.Usage) error {
	_, err := l.Abandon(g, u)
	return err
}

// TestReserve_OneCallDoesNotHoldEverything: what asks for a million tokens leaves
// others what no model answers with. Twin: who said how long its answers are.
func TestReserve_OneCallDoesNotHoldEverything(t *testing.T) {
	t.Parallel()
	l := ledger(t, t.TempDir(), "t")
	vast := day(1_000_000, 5, 1_000_000)
	if g := reserve(t, l, vast); g.Output != 128_000 {
		t.Errorf("of a model of which nothing is known: %d", g.Output)
	}
	vast.Longest, vast.Output = 500_000, 500_000
	if g := reserve(t, l, vast); g.Output != 500_000 {
		t.Errorf("of one that answers longer: %d", g.Output)
	}
}

// TestReserve_EachLimit is each scope in each unit, with a twin of another task,
// run, model or day that has the whole of it.
func TestReserve_EachLimit(t *testing.T) {
	t.Parallel()
	price := &pricing.Price{Rates: pricing.Rates{Input: 1, Output: 2, CacheRead: 1, CacheWrite: 1, CacheWrite1h: 1}}
	limit := budget.Limit{Tokens: 100}
	money := budget.Limit{Money: 100}
	for name, c := range map[string]struct {
		limits           budget.Limits
		task, run, model string // of the twin
		scope            budget.Scope
	}{
		"run":             {budget.Limits{Run: limit}, "t", "other", "m", budget.OfRun},
		"run, money":      {budget.Limits{Run: money}, "t", "other", "m", budget.OfRun},
		"task":            {budget.Limits{Task: limit}, "other", "r", "m", budget.OfTask},
		"task, money":     {budget.Limits{Task: money}, "other", "r", "m", budget.OfTask},
		"model and task":  {budget.Limits{ModelTask: limit}, "t", "r", "other", budget.OfModelTask},
		"model and task2": {budget.Limits{ModelTask: money}, "other", "r", "m", budget.OfModelTask},
		"model and day":   {budget.Limits{ModelDay: limit}, "t", "r", "other", budget.OfModelDay},
		"model and day2":  {budget.Limits{ModelDay: money}, "t", "r", "other", budget.OfModelDay},
		"day":             {budget.Limits{Day: limit}, "", "", "", budget.OfDay},
		"day, money":      {budget.Limits{Day: money}, "", "", "", budget.OfDay},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			with := func(task, run string) *budget.Ledger {
				p, err := budget.In(dir).Newest(t.Context(), noon)
				if err != nil {
					t.Fatal(err)
				}
				l, err := budget.Open(t.Context(), budget.Config{Task: task, Run: run, Page: p, Now: atNoon})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = l.Close() })
				return l
			}
			l := with("t", "r")
			ask := budget.Ask{Model: "m", Limits: c.limits, Input: 10, Output: 1000, Price: price}
			g := reserve(t, l, ask)
			want := int64(90)
			if c.limits.Money() {
				want = 45
			}
			if g.Output != want {
				t.Fatalf("%d of output, want %d", g.Output, want)
			}
			if _, err := l.Abandon(g, pricing.Usage{}); err != nil {
				t.Fatal(err)
			}
			if e, ok := isSpent(denied(t, l, ask)); !ok || e.Scope != c.scope || e.Model != "m" || e.Used != e.Limit || e.Used.Tokens+int64(e.Used.Money) != 100 {
				t.Errorf("%+v", e)
			}
			if c.task == "" {
				if _, ok := isSpent(denied(t, with("other", "other"), ask)); !ok {
					t.Error("another task has a day of its own")
				}
				return
			}
			ask.Model = c.model
			if g := reserve(t, with(c.task, c.run), ask); g.Output != want {
				t.Errorf("the twin has %d", g.Output)
			}
		})
	}
}

func TestReserve_MoneyNeedsAPrice(t *testing.T) {
	t.Parallel()
	l := ledger(t, t.TempDir(), "t")
	a := budget.Ask{Model: "m", Limits: budget.Limits{Day: budget.Limit{Money: pricing.USD}}, Output: 1}
	if err := denied(t, l, a); bailey.KindOf(err) != bailey.Invalid {
		t.Errorf("%v", err)
	}
	a.Price = &pricing.Price{}
	reserve(t, l, a)
}

// TestReserve_D053_OddNumbers takes numbers that no provider means.
func TestReserve_D053_OddNumbers(t *testing.T) {
	t.Parallel()
	l := ledger(t, t.TempDir(), "t")
	if g := reserve(t, l, day(1000, -50, 100)); g.Tokens() != 100 {
		t.Errorf("input below zero makes %d of 100", g.Tokens())
	}
	if g := reserve(t, l, day(1000, 0, math.MinInt64)); g.Output != 900 {
		t.Errorf("output below zero is %d", g.Output)
	} else if err := l.Settle(g, pricing.Usage{Input: math.MinInt64, Output: -5}, math.MinInt64); err != nil {
		t.Fatal(err)
	}
	if g := reserve(t, l, day(1000, 0, math.MaxInt64)); g.Output != 900 {
		t.Errorf("what was below zero gave %d back, or took it", g.Output)
	} else if err := l.Settle(g, pricing.Usage{Input: math.MaxInt64, Output: math.MaxInt64}, math.MaxInt64); err != nil {
		t.Fatal(err)
	}
	if _, ok := isSpent(denied(t, l, day(1000, 0, 1))); !ok {
		t.Error("a huge usage is not spent")
	}
	if _, ok := isSpent(denied(t, l, day(1000, math.MaxInt64, 1))); !ok {
		t.Error("a huge input is granted")
	}
}

// TestReserve_D053_HugeReservationsDoNotWrap adds up what no number holds.
func TestReserve_D053_HugeReservationsDoNotWrap(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) { // nobody gives back what is held: it is waited for
		l, err := open(t.Context(), dir, "t", time.Now)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		a := budget.Ask{Model: "x", Limits: budget.Limits{Day: budget.Limit{Money: math.MaxInt64}}, Output: 1, Price: &pricing.Price{}}
		reserve(t, l, a) // the twin: before
		price := &pricing.Price{Rates: pricing.Rates{Input: math.MaxInt64, Output: math.MaxInt64}}
		for range 3 {
			reserve(t, l, budget.Ask{Model: "x", Input: 1 << 40, Output: 1 << 40, Price: price})
		}
		a.Price = &pricing.Price{Rates: pricing.Rates{Output: 1}}
		if _, ok := isSpent(denied(t, l, a)); !ok {
			t.Error("the sum of huge reservations wrapped")
		}
	})
}

func TestSettle_IsBookedOnceAndMayBeMore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := ledger(t, dir, "t")
	g := reserve(t, l, day(1000, 10, 100))
	for range 3 {
		settle(t, l, g, 10, 400) // more than was reserved
	}
	if err := errors.Join(abandon(l, g, pricing.Usage{}), l.Cancel(g)); err != nil {
		t.Fatal(err)
	}
	for name, l := range map[string]*budget.Ledger{"here": l, "another process": ledger(t, dir, "other")} {
		if g := reserve(t, l, day(1000, 0, 10000)); g.Output != 590 {
			t.Errorf("%s: %d are left, want 590", name, g.Output)
		} else if err := l.Cancel(g); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAbandon_D052_NeverBooksNothing is a client that hangs up.
func TestAbandon_D052_NeverBooksNothing(t *testing.T) {
	t.Parallel()
	l := ledger(t, t.TempDir(), "t")
	a := day(1000, 100, 200)
	if _, err := l.Abandon(reserve(t, l, a), pricing.Usage{}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Abandon(reserve(t, l, a), pricing.Usage{Input: 100, Output: 50}); err != nil {
		t.Fatal(err)
	}
	if err := l.Cancel(reserve(t, l, a)); err != nil { // the twin: the provider never got it
		t.Fatal(err)
	}
	if g := reserve(t, l, day(1000, 0, 10000)); g.Output != 550 {
		t.Errorf("%d are left, want 550", g.Output)
	}
}

// TestReserve_WorstCasesFitBesideEachOther (D050): a call that is alone passes by
// its estimate, whatever its worst case; beside others each has to fit with that,
// and waits until it does.
func TestReserve_WorstCasesFitBesideEachOther(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l, err := open(t.Context(), dir, "t", time.Now)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		ask := day(1000, 10, 50)
		ask.Bound = 5000 // such as a document's
		first := reserve(t, l, ask)
		passed := make(chan *budget.Grant, 20)
		for range cap(passed) {
			go func() {
				g, _ := l.Reserve(t.Context(), ask)
				passed <- g
			}()
		}
		time.Sleep(time.Second)
		if len(passed) != 0 {
			t.Errorf("%d calls passed beside one whose worst case is more than all that is left", len(passed))
		}
		settle(t, l, first, 900, 50)
		if g := <-passed; g == nil || g.Output != 40 {
			t.Errorf("the next one alone: %+v", g)
		}
		for range cap(passed) - 1 {
			if g := <-passed; g != nil {
				t.Error("a call passed beside it")
			}
		}
	})
	t.Run("twin", func(t *testing.T) {
		t.Parallel()
		l, err := open(t.Context(), t.TempDir(), "t", time.Now)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		ask := day(1000, 10, 50)
		ask.Bound = 30
		for range 12 { // what fits with its worst case passes beside others
			reserve(t, l, ask)
		}
	})
}

func TestReserve_WaitsForCallsThatAreUnderWay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l, err := open(t.Context(), dir, "t", time.Now)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		g := reserve(t, l, day(100, 0, 100))
		done := make(chan *budget.Grant)
		go func() {
			g, _ := l.Reserve(t.Context(), day(100, 0, 100))
			done <- g
		}()
		time.Sleep(time.Second)
		settle(t, l, g, 0, 40)
		if g := <-done; g == nil || g.Output != 60 {
			t.Errorf("%+v", g)
		}

		// If none ends, it is held, and not spent.
		begun := time.Now()
		_, err = l.Reserve(t.Context(), day(100, 0, 100))
		e, ok := isSpent(err)
		if waited := time.Since(begun); !ok || !e.Busy || waited < 29*time.Second || waited > 31*time.Second || e.Held != tokens(60) || e.Used != tokens(40) {
			t.Errorf("%v after %v", err, waited)
		}
		if !strings.Contains(err.Error(), "60 tokens held by calls that are under way") {
			t.Error(err)
		}

		// Who goes away is not waited for.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.Reserve(ctx, day(100, 0, 100)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}

		// What never ended is not waited for by those who come much later.
		time.Sleep(time.Hour)
		begun = time.Now()
		if _, err := l.Reserve(t.Context(), day(100, 0, 100)); time.Since(begun) > 0 {
			t.Errorf("waited %v: %v", time.Since(begun), err)
		} else if e, ok := isSpent(err); !ok || e.Used != tokens(100) {
			t.Errorf("%v", err)
		}
	})
}

func TestReserve_SeesWhatAnotherProcessSettles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var list []*budget.Ledger
		for range 2 {
			l, err := open(t.Context(), dir, "t", time.Now)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			list = append(list, l)
		}
		g := reserve(t, list[0], day(100, 0, 100))
		done := make(chan error)
		go func() {
			_, err := list[1].Reserve(t.Context(), day(100, 0, 100))
			done <- err
		}()
		time.Sleep(time.Second)
		settle(t, list[0], g, 0, 1)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// clock is a clock that a test sets.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func date(s string) time.Time {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		panic(err)
	}
	return t
}

// TestLedger_D057_Midnight is a task that goes on over midnight, by UTC.
func TestLedger_D057_Midnight(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := &clock{date("2026-11-30T23:59:59Z")}
	l, err := open(t.Context(), dir, "t", c.now)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	limits := budget.Limits{Day: tokens(1000), Task: tokens(1500)}
	before := reserve(t, l, budget.Ask{Model: "m", Limits: limits, Output: 600})
	c.at = date("2026-12-01T00:00:00Z")
	after := reserve(t, l, budget.Ask{Model: "m", Limits: limits, Output: 5000})
	if after.Output != 900 { // the day is new, the task is not
		t.Errorf("%d", after.Output)
	}
	settle(t, l, before, 0, 100) // it counts for the day on which it was reserved
	settle(t, l, after, 0, 900)
	if g := reserve(t, l, budget.Ask{Model: "m", Limits: budget.Limits{Task: tokens(1500)}, Output: 5000}); g.Output != 500 {
		t.Errorf("of the task %d are left", g.Output)
	} else if err := l.Cancel(g); err != nil {
		t.Fatal(err)
	}
	if g := reserve(t, l, budget.Ask{Model: "m", Limits: budget.Limits{Day: tokens(1000)}, Output: 5000}); g.Output != 100 {
		t.Errorf("of the day %d are left", g.Output)
	} else if err := l.Cancel(g); err != nil {
		t.Fatal(err)
	}
	days, err := budget.In(dir).Days()
	if diff := cmp.Diff([]budget.Day{"2026-11-30", "2026-12-01"}, days); err != nil || diff != "" {
		t.Error(err, diff)
	}

	// Many days later the task has used what it used, and few files are open.
	for i := range 10 {
		c.at = date("2026-12-02T12:00:00Z").AddDate(0, 0, i)
		settle(t, l, reserve(t, l, budget.Ask{Model: "m", Limits: limits, Output: 10}), 0, 10)
		if err := l.Flush(); err != nil { // as Run does
			t.Fatal(err)
		}
	}
	if g := reserve(t, l, budget.Ask{Model: "m", Limits: budget.Limits{Task: tokens(1500)}, Output: 5000}); g.Output != 400 {
		t.Errorf("of the task %d are left", g.Output)
	}
	if files := openFiles(t, dir); files > 2 {
		t.Errorf("%d files are open", files)
	}

	// A process that goes on with the task has what it used before.
	f := budget.In(dir)
	newest, err := f.Newest(t.Context(), c.at)
	if err != nil {
		t.Fatal(err)
	}
	earlier, err := f.Since("2026-11-30", newest.Day)
	if err != nil || len(earlier) != 11 {
		t.Fatal(len(earlier), err)
	}
	again, err := budget.Open(t.Context(), budget.Config{Task: "t", Page: newest, Earlier: earlier, Now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = again.Close() }()
	if err := again.Cancel(reserve(t, again, day(1000, 0, 1))); err != nil {
		t.Fatal(err)
	}
	if _, ok := isSpent(denied(t, again, budget.Ask{Model: "m", Limits: budget.Limits{Task: tokens(1100)}, Output: 5000})); !ok {
		t.Error("the task begins anew")
	}
}

func openFiles(t *testing.T, dir string) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range entries {
		if target, _ := os.Readlink("/proc/self/fd/" + e.Name()); strings.HasPrefix(target, dir) {
			n++
		}
	}
	return n
}

// TestLedger_D057_DaysNeverGoBack is a clock that is set back, to the hour
// before and over midnight, and one that was wrong by years.
func TestLedger_D057_DaysNeverGoBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := &clock{date("2026-12-01T00:30:00Z")}
	l, err := open(t.Context(), dir, "t", c.now)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	settle(t, l, reserve(t, l, day(1000, 0, 900)), 0, 900)
	c.at = date("2026-11-30T23:30:00Z")
	if g := reserve(t, l, day(1000, 0, 5000)); g.Output != 100 {
		t.Errorf("set back, the day has %d", g.Output)
	} else if err := l.Cancel(g); err != nil {
		t.Fatal(err)
	}
	again, err := open(t.Context(), dir, "u", c.now)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = again.Close() }()
	if g := reserve(t, again, day(1000, 0, 5000)); g.Output != 100 {
		t.Errorf("begun after it was set back, the day has %d", g.Output)
	}
	c.at = date("2026-11-28T23:30:00Z")
	_, err = open(t.Context(), dir, "v", c.now)
	if bailey.KindOf(err) != bailey.Unavailable || !strings.Contains(err.Error(), "2026-12-01.jsonl") {
		t.Errorf("set back by days: %v", err)
	}
	c.at = date("2026-11-29T23:30:00Z")
	if twin, err := open(t.Context(), dir, "v", c.now); err != nil {
		t.Errorf("twin: %v", err)
	} else if err := twin.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestLedger_D057_WhoIsLateFollows is a process that still works on the day that
// another one has ended.
func TestLedger_D057_WhoIsLateFollows(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	late := ledger(t, dir, "t") // at noon
	open1 := reserve(t, late, budget.Ask{Model: "m", Limits: budget.Limits{Task: tokens(1000)}, Output: 300})
	early, err := open(t.Context(), dir, "t", func() time.Time { return noon.AddDate(0, 0, 1) })
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = early.Close() }()
	settle(t, early, reserve(t, early, day(1000, 0, 900)), 0, 900)
	if g := reserve(t, late, day(1000, 0, 5000)); g.Output != 100 {
		t.Errorf("it has %d on a day that has ended", g.Output)
	}
	settle(t, late, open1, 0, 300) // what was open is settled where it was reserved
	b, err := os.ReadFile(filepath.Join(dir, "usage", "2026-11-30.jsonl"))
	if err != nil || strings.Count(string(b), `"k":"settle"`) != 1 {
		t.Errorf("%s, %v", b, err)
	}
}

// TestLedger_D057_OpenReservationsSurvive is a process that is killed.
func TestLedger_D057_OpenReservationsSurvive(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := start(t, "die", dir).Run(); err == nil {
		t.Fatal("it was not killed")
	}
	l := ledger(t, dir, "t")
	if g := reserve(t, l, day(1000, 0, 5000)); g.Output != 600 {
		t.Errorf("%d are left, want 600", g.Output)
	}
}

func dieChild(ctx context.Context, dir string) error {
	l, err := open(ctx, dir, "t", atNoon)
	if err != nil {
		return err
	}
	if _, err := l.Reserve(ctx, day(1000, 100, 300)); err != nil {
		return err
	}
	p, err := os.FindProcess(os.Getpid())
	if err != nil {
		return err
	}
	_ = p.Kill()
	select {}
}

func write(t *testing.T, dir, text string) {
	t.Helper()
	path := filepath.Join(dir, "usage", "2026-11-30.jsonl")
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

const (
	header   = `{"k":"day","v":1,"day":"2026-11-30"}` + "\n"
	reserved = `{"k":"reserve","id":"0000000000000001","at":1,"task":"t","model":"m","tokens":100}` + "\n"
	settled  = `{"k":"settle","id":"0000000000000001","at":1,"task":"t","model":"m","tokens":60,"usage":{"input":10,"output":50}}` + "\n"
)

// TestOpen_ReadsWhatIsThere is a file as others left it: whole, torn, or
// damaged.
func TestOpen_ReadsWhatIsThere(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		left int64
		odd  int
	}{
		"nothing":                {"", 1000, 0},
		"a header":               {header, 1000, 0},
		"a reservation":          {header + reserved, 900, 0},
		"twice":                  {header + reserved + reserved, 900, 0},
		"settled":                {header + reserved + settled, 940, 0},
		"settled twice":          {header + reserved + settled + settled + reserved, 940, 0},
		"settled before":         {header + settled + reserved, 940, 0},
		"no header":              {reserved + settled, 940, 0},
		"a torn reservation":     {header + reserved[:40], 1000, 1},
		"a torn settlement":      {header + reserved + settled[:60], 900, 1},
		"torn, and gone on":      {header + reserved + settled[:60] + "\n" + settled, 940, 1},
		"garbage":                {header + "garbage\n\x00\xff\n[]\nnull\n{}\n" + reserved, 900, 5},
		"below zero":             {header + strings.ReplaceAll(reserved, "100", "-100") + reserved, 900, 1},
		"too large for a number": {header + strings.ReplaceAll(reserved, "100", "99999999999999999999") + reserved, 900, 1},
		"without a call":         {header + strings.ReplaceAll(reserved, "0000000000000001", "") + reserved, 900, 1},
		"an unknown kind":        {header + `{"k":"other"}` + "\n" + reserved, 900, 1},
		"a long line":            {header + strings.Repeat("x", 1<<20) + "\n" + reserved, 900, 1},
		"a long torn line":       {header + reserved + strings.Repeat("x", 1<<20), 900, 1},
		"empty lines":            {"\n\n" + header + "\n" + reserved, 900, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, dir, c.text)
			l := ledger(t, dir, "t")
			g := reserve(t, l, day(1000, 0, 5000))
			if g.Output != c.left || l.Odd() != c.odd {
				t.Errorf("%d are left and %d lines odd, want %d and %d", g.Output, l.Odd(), c.left, c.odd)
			}
			settle(t, l, g, 0, 1)
			again := ledger(t, dir, "t") // what was added is read as it was meant
			if g := reserve(t, again, day(1000, 0, 5000)); g.Output != c.left-1 {
				t.Errorf("then %d are left, want %d", g.Output, c.left-1)
			}
		})
	}
}

func TestOpen_RefusesWhatIsOfAnotherDayOrVersion(t *testing.T) {
	t.Parallel()
	for text, kind := range map[string]bailey.Kind{
		strings.ReplaceAll(header, "11-30", "11-29"):     bailey.Invalid,
		strings.ReplaceAll(header, `"v":1`, `"v":2`):     bailey.Unsupported,
		strings.ReplaceAll(header, "2026-11-30", "x\\n"): bailey.Invalid,
	} {
		dir := t.TempDir()
		write(t, dir, text)
		if _, err := open(t.Context(), dir, "t", atNoon); bailey.KindOf(err) != kind {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestLedger_AFileThatShrinksIsNotTrusted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := ledger(t, dir, "t")
	settle(t, l, reserve(t, l, day(1000, 0, 900)), 0, 900)
	if err := os.Truncate(filepath.Join(dir, "usage", "2026-11-30.jsonl"), 10); err != nil {
		t.Fatal(err)
	}
	if err := denied(t, l, day(1000, 0, 10)); bailey.KindOf(err) != bailey.Unavailable {
		t.Errorf("%v", err)
	}
}

func TestFolder_IsTheUsersAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ledger(t, dir, "t")
	path := filepath.Join(dir, "usage", "2026-11-30.jsonl")
	for at, want := range map[string]os.FileMode{filepath.Dir(path): 0o700 | os.ModeDir, path: 0o600} {
		if fi, err := os.Stat(at); err != nil || fi.Mode() != want {
			t.Errorf("%s: %v, %v", at, fi.Mode(), err)
		}
	}
	refused := func(what string) {
		t.Helper()
		if _, err := budget.In(dir).Newest(t.Context(), noon); bailey.KindOf(err) != bailey.Forbidden {
			t.Errorf("%s: %v", what, err)
		}
	}
	_ = os.Chmod(path, 0o640)
	refused("a file that others read")
	_ = os.Chmod(path, 0o600)
	_ = os.Chmod(filepath.Dir(path), 0o755)
	refused("a folder that others read")
	_ = os.Chmod(filepath.Dir(path), 0o700)
	ledger(t, dir, "twin")
	_ = os.Rename(path, path+".old")
	_ = os.Symlink(path+".old", path)
	refused("a link")
	_ = os.Remove(path)
	_ = os.Mkdir(path, 0o700)
	if _, err := budget.In(dir).Newest(t.Context(), noon); err == nil {
		t.Error("a folder in the place of the file")
	}
}

func TestOpen_RefusesWhatNamesNothing(t *testing.T) {
	t.Parallel()
	for _, task := range []string{"", strings.Repeat("x", 201)} {
		if _, err := open(t.Context(), t.TempDir(), task, atNoon); err == nil {
			t.Errorf("%.10q names a task", task)
		}
	}
	if _, err := budget.Open(t.Context(), budget.Config{Task: "t", Page: budget.Page{Day: "2026-11-30"}, Now: atNoon}); err == nil {
		t.Error("no file")
	}
	l := ledger(t, t.TempDir(), "t")
	for _, model := range []string{"", strings.Repeat("x", 201)} {
		if _, err := l.Reserve(t.Context(), budget.Ask{Model: model, Output: 1}); err == nil {
			t.Errorf("%.10q names a model", model)
		}
	}
}
