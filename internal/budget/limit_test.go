package budget_test

import (
	"testing"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/budget"
	"github.com/bailey-dev/bailey/internal/pricing"
)

func TestParseLimit(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]budget.Limit{
		"20000": {Tokens: 20000}, "1": {Tokens: 1}, "500k": {Tokens: 500_000}, "2M": {Tokens: 2_000_000}, "2m": {Tokens: 2_000_000}, "1.5M": {Tokens: 1_500_000},
		"0.001k": {Tokens: 1}, "1000000M": {Tokens: 1_000_000_000_000}, "20M": {Tokens: 20_000_000},
		"5usd": {Money: 5 * pricing.USD}, "0.50usd": {Money: pricing.USD / 2}, "$5": {Money: 5 * pricing.USD}, "5 USD": {Money: 5 * pricing.USD}, "0.01usd": {Money: pricing.USD / 100},
	} {
		got, err := budget.ParseLimit(in)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v; want %+v", in, got, err, want)
		}
	}
	for _, in := range []string{
		"", "0", "0usd", "$0", "-1", "-5usd", "$-5", "2.5", "0.0001k", "5eur", "5€", "2G", "M", "usd", "$", "1e6", "1_000", "1,000", "nan", "inf", "--5",
		"1000001M", "99999999999999999999", "10000000usd", "5usd5", "9223372036854775807", "2M 5usd", "٣k",
	} {
		got, err := budget.ParseLimit(in)
		if e, ok := err.(*bailey.Error); !ok || e.Kind != bailey.Invalid || e.Hint == "" || !got.None() { //nolint:errorlint // it is no chain
			t.Errorf("%q: %+v, %v", in, got, err)
		}
	}
}

func TestParseLimits_SeveralHoldAtOnce(t *testing.T) {
	t.Parallel()
	both, err := budget.ParseLimits([]string{"2M", "5usd"})
	if want := (budget.Limit{Tokens: 2_000_000, Money: 5 * pricing.USD}); err != nil || both != want {
		t.Errorf("%+v, %v", both, err)
	}
	if none, err := budget.ParseLimits(nil); err != nil || !none.None() {
		t.Errorf("%+v, %v", none, err)
	}
	for _, bad := range [][]string{{"2M", "1M"}, {"5usd", "$5"}, {"2M", "x"}} {
		if got, err := budget.ParseLimits(bad); bailey.KindOf(err) != bailey.Invalid {
			t.Errorf("%v: %+v, %v", bad, got, err)
		}
	}
	small := both.And(budget.Limit{Tokens: 3_000_000, Money: pricing.USD})
	if small != (budget.Limit{Tokens: 2_000_000, Money: pricing.USD}) || both.And(budget.Limit{}) != both || (budget.Limit{}).And(both) != both {
		t.Errorf("%+v", small)
	}
}

func FuzzParseLimit(f *testing.F) {
	for _, s := range []string{"2M", "500k", "20000", "5usd", "$0.50", "1.5m", "-1", "1e9"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		l, err := budget.ParseLimit(in)
		if err != nil {
			return
		}
		if again, err := budget.ParseLimit(l.String()); l.Tokens < 0 || l.Money < 0 || l.None() || err != nil || again != l {
			t.Fatalf("%q is %+v, written as %q, read as %+v, %v", in, l, l.String(), again, err)
		}
	})
}
