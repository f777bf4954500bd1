package budget_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/budget"
	"github.com/bailey-dev/bailey/internal/pricing"
)

func TestParseLimit(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]budget.Limit{
		"20000": {Tokens: 20000}, "17": {Tokens: 17}, "20": {Tokens: 20}, "999": {Tokens: 999}, "500k": {Tokens: 500_000}, "2M": {Tokens: 2_000_000}, "2m": {Tokens: 2_000_000}, "1.5M": {Tokens: 1_500_000},
		"0.017k": {Tokens: 17}, "1000000M": {Tokens: 1_000_000_000_000}, "20M": {Tokens: 20_000_000},
		"5usd": {Money: 5 * pricing.USD}, "0.50usd": {Money: pricing.USD / 2}, "$5": {Money: 5 * pricing.USD}, "5 USD": {Money: 5 * pricing.USD}, "0.01usd": {Money: pricing.USD / 100},
	} {
		got, err := budget.ParseLimit(in)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v; want %+v", in, got, err, want)
		}
	}
	for _, in := range []string{
		"", "1", "5", "16", "0.016k", "10G", "100%", "2X", "2M,5usd", "0", "0usd", "$0", "-1", "-5usd", "$-5", "2.5", "0.0001k", "5eur", "5€", "2G", "M", "usd", "$", "1e6", "1_000", "1,000", "nan", "inf", "--5",
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

// TestParseLimit_SaysWhatIsMeant: what another unit was meant by, and which units
// there are; none is guessed.
func TestParseLimit_SaysWhatIsMeant(t *testing.T) {
	t.Parallel()
	for in, want := range map[string][2]string{
		"5":      {`"5" is no budget: 5 tokens would pay for no call`, "write 5usd or 5M, if that is meant; a call takes 17 tokens at least"},
		"1":      {`"1" is no budget: 1 token would pay for no call`, "write 1usd or 1M"},
		"0.005k": {`"0.005k" is no budget: 5 tokens would pay for no call`, "write tokens as 20000"},
		"10G":    {`"10G" is no budget: unknown unit "G"; units are k (a thousand tokens), M (a million tokens) and usd`, "write tokens as 20000"},
		"100%":   {`unknown unit "%"; units are`, ""},
		"2X":     {`unknown unit "X"; units are`, ""},
		"5eur":   {`unknown unit "eur"; units are`, ""},
	} {
		_, err := budget.ParseLimit(in)
		e, ok := errors.AsType[*bailey.Error](err)
		if !ok || !strings.Contains(e.Message, want[0]) || !strings.HasPrefix(e.Hint, want[1]) || strings.Contains(e.Message, "did you mean") {
			t.Errorf("%s: %v", in, e)
		}
	}
}

func TestParseLimits_ACommaSeparates(t *testing.T) {
	t.Parallel()
	both := budget.Limit{Tokens: 2_000_000, Money: 5 * pricing.USD}
	for _, in := range []string{"2M,5usd", "2M, 5usd", "$5 , 2M", both.String()} {
		if got, err := budget.ParseLimits([]string{in}); err != nil || got != both {
			t.Errorf("%q: %+v, %v", in, got, err)
		}
	}
	for in, want := range map[string]string{
		"1,000": "a comma stands between two budgets", "20,000k": "a comma stands between", "$1,000.50": "a comma stands between",
		"2M,": "it is empty", ",": "it is empty", "2M,3M": "a second budget in one unit", "2M,x": "no number",
	} {
		if got, err := budget.ParseLimits([]string{in}); bailey.KindOf(err) != bailey.Invalid || !strings.Contains(err.Error(), want) || !got.None() {
			t.Errorf("%q: %+v, %v", in, got, err)
		}
	}
}

func TestLimits_Line(t *testing.T) {
	t.Parallel()
	for want, l := range map[string]budget.Limits{
		"": {},
		"this run 2M; a task 200k, 1usd; a day 2M, 20usd; all models: a task 4M, a day 10M, 50usd": {
			Run: budget.Limit{Tokens: 2_000_000}, ModelTask: budget.Limit{Tokens: 200_000, Money: pricing.USD},
			ModelDay: budget.Limit{Tokens: 2_000_000, Money: 20 * pricing.USD},
			Task:     budget.Limit{Tokens: 4_000_000}, Day: budget.Limit{Tokens: 10_000_000, Money: 50 * pricing.USD},
		},
		"a day 20usd":           {ModelDay: budget.Limit{Money: 20 * pricing.USD}},
		"all models: a day 10M": {Day: budget.Limit{Tokens: 10_000_000}},
	} {
		if got := l.Line(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
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
