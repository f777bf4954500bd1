package budget_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bailey-dev/bailey/internal/budget"
	"github.com/bailey-dev/bailey/internal/pricing"
)

func TestReport(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := budget.In(dir)
	if r, err := f.Report(budget.ByModel, time.Time{}); err != nil || len(r.Rows) != 0 {
		t.Fatalf("of nothing: %+v, %v", r, err)
	}
	c := &clock{noon}
	price := &pricing.Price{Rates: pricing.Rates{Input: 1, Output: 2, CacheRead: 3, CacheWrite: 4, CacheWrite1h: 5}}
	call := func(task, model string, price *pricing.Price, u pricing.Usage) {
		t.Helper()
		l, err := open(t.Context(), dir, task, c.now)
		if err != nil {
			t.Fatal(err)
		}
		g, err := l.Reserve(t.Context(), budget.Ask{Model: model, Input: 10, Output: 10, Price: price})
		if err == nil && price != nil {
			err = l.Settle(g, u, pricing.Cost(u, *price))
		} else if err == nil {
			err = l.Settle(g, u, 0)
		}
		if err = errors.Join(err, l.Close()); err != nil {
			t.Fatal(err)
		}
	}
	call("t1", "a", price, pricing.Usage{Input: 1, CacheRead: 2, CacheWrite: 3, CacheWrite1h: 4, Output: 5})
	call("t1", "b", nil, pricing.Usage{Input: 100})
	c.at = c.at.AddDate(0, 0, 1)
	call("t2", "a", price, pricing.Usage{Output: 1})
	l, err := open(t.Context(), dir, "t2", c.now)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	reserve(t, l, budget.Ask{Model: "a", Input: 3, Output: 4, Price: price})
	if err := l.Cancel(reserve(t, l, budget.Ask{Model: "z", Input: 3})); err != nil {
		t.Fatal(err)
	}

	a1 := budget.Row{Requests: 1, Input: 1, CacheRead: 2, CacheWrite: 7, Output: 5, Cost: 1 + 6 + 12 + 20 + 10, Priced: true}
	b := budget.Row{Requests: 1, Input: 100}
	a2 := budget.Row{Requests: 1, Output: 1, Cost: 2, Priced: true, Open: 1, OpenTokens: 7, OpenCost: 15 + 8}
	late := func(r budget.Row) budget.Row { r.Started, r.Models = c.at, []string{"a"}; return r }
	if got, err := f.Report(budget.ByTask, time.Time{}); err != nil || len(got.Rows) != 2 || !got.Rows[0].Started.Equal(noon) || !slices.Equal(got.Rows[0].Models, []string{"a", "b"}) {
		t.Errorf("when it began, and with which models: %+v, %v", got.Rows, err)
	} else if diff := cmp.Diff(late(named("t2", a2)), got.Rows[1]); diff != "" {
		t.Error(diff)
	}
	for name, want := range map[string]struct {
		by    budget.By
		since time.Time
		rows  []budget.Row
	}{
		"by model":   {budget.ByModel, time.Time{}, []budget.Row{named("a", a1, a2), named("b", b)}},
		"by task":    {budget.ByTask, time.Time{}, []budget.Row{named("t1", a1, b), named("t2", a2)}},
		"by day":     {budget.ByDay, time.Time{}, []budget.Row{named("2026-11-30", a1, b), named("2026-12-01", a2)}},
		"of one day": {budget.ByModel, c.at.Add(-time.Hour), []budget.Row{named("a", a2)}},
		"of later":   {budget.ByModel, c.at.Add(time.Hour), nil},
	} {
		got, err := f.Report(want.by, want.since)
		if diff := cmp.Diff(want.rows, got.Rows, plainly()); err != nil || diff != "" || got.Odd != 0 {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
	all, _ := f.Report(budget.ByModel, time.Time{})
	if diff := cmp.Diff(named("", a1, a2, b), all.Total, plainly()); diff != "" {
		t.Error(diff)
	}
}

// plainly compares rows but for when they began and what they called.
func plainly() cmp.Option { return cmpopts.IgnoreFields(budget.Row{}, "Started", "Models") }

// TestReport_TasksAreInTheOrderInWhichTheyBegan, and everything else by name.
func TestReport_TasksAreInTheOrderInWhichTheyBegan(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := &clock{noon}
	for _, task := range []string{"sbx_3", "sbx_1", "sbx_2", "sbx_3"} {
		l, err := open(t.Context(), dir, task, c.now)
		if err != nil {
			t.Fatal(err)
		}
		settle(t, l, reserve(t, l, budget.Ask{Model: "of_" + task, Input: 1}), 1, 1)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		c.at = c.at.Add(time.Minute)
	}
	for by, want := range map[budget.By]string{budget.ByTask: "sbx_3 sbx_1 sbx_2", budget.ByModel: "of_sbx_1 of_sbx_2 of_sbx_3"} {
		r, err := budget.In(dir).Report(by, time.Time{})
		var got []string
		for _, row := range r.Rows {
			got = append(got, row.Key)
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%v, %v; want %s", got, err, want)
		}
	}
}

// named adds rows up.
func named(key string, rows ...budget.Row) budget.Row {
	out := budget.Row{Key: key}
	for _, r := range rows {
		out.Requests += r.Requests
		out.Estimated += r.Estimated
		out.Input += r.Input
		out.Output += r.Output
		out.CacheRead += r.CacheRead
		out.CacheWrite += r.CacheWrite
		out.Cost += r.Cost
		out.Priced = out.Priced || r.Priced
		out.Open += r.Open
		out.OpenTokens += r.OpenTokens
		out.OpenCost += r.OpenCost
	}
	return out
}

// TestReport_CountsEstimates: what the provider did not say is told apart.
func TestReport_CountsEstimates(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, err := open(t.Context(), dir, "t", (&clock{noon}).now)
	if err != nil {
		t.Fatal(err)
	}
	settle(t, l, reserve(t, l, budget.Ask{Model: "m", Input: 1}), 1, 1)
	if err := abandon(l, reserve(t, l, budget.Ask{Model: "m", Input: 1}), pricing.Usage{Input: 2}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := budget.In(dir).Report(budget.ByModel, time.Time{})
	if err != nil || r.Total.Requests != 2 || r.Total.Estimated != 1 {
		t.Errorf("%+v, %v", r.Total, err)
	}
}

func TestReport_OfDamagedLines(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, header+"garbage\n"+strings.Repeat("x", 100_000)+"\n"+reserved+settled+settled+reserved+`{"k":"settle"`)
	if err := os.WriteFile(filepath.Join(dir, "usage", "notes.jsonl"), []byte("garbage\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := budget.In(dir).Report(budget.ByModel, time.Time{})
	if diff := cmp.Diff([]budget.Row{{Key: "m", Requests: 1, Input: 10, Output: 50}}, r.Rows, plainly()); err != nil || diff != "" || r.Odd != 2 {
		t.Errorf("%v, %d odd %s", err, r.Odd, diff)
	}
}

func FuzzOpen(f *testing.F) {
	for _, s := range []string{header + reserved + settled, "", "\n", header + `{"k":"end","next":"2026-12-01"}` + "\n", `{"k":"settle","id":"0000000000000001","model":"m","tokens":9223372036854775807,"money":9223372036854775807}` + "\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		dir := t.TempDir()
		write(t, dir, text)
		l, err := open(t.Context(), dir, "t", atNoon)
		if err != nil {
			return
		}
		defer func() { _ = l.Close() }()
		a := day(1000, 10, 10)
		a.Limits.Task = budget.Limit{Tokens: 1000}
		ctx, cancel := cancelled(t)
		defer cancel()
		if g, err := l.Reserve(ctx, a); err == nil && (g.Output < 1 || g.Output > 10) {
			t.Fatalf("%+v", g)
		}
		if _, err := budget.In(dir).Report(budget.ByTask, time.Time{}); err != nil {
			t.Fatal(err)
		}
	})
}
