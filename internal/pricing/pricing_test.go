package pricing_test

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/pricing"
)

func TestParse_IsExactOrAnError(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]pricing.Money{
		"0": 0, "3": 3_000_000, "0.3": 300_000, "3.75": 3_750_000, "0.000001": 1, "0.10": 100_000, "007": 7_000_000, "0.0000010000": 1,
	} {
		if got, err := pricing.ParsePerMillion(in); err != nil || got != want {
			t.Errorf("%q a million is %d a token, %v; want %d", in, got, err, want)
		}
	}
	for in, want := range map[string]pricing.Money{"5": 5 * pricing.USD, "0.50": pricing.USD / 2, "0.000000000001": 1} {
		if got, err := pricing.ParseUSD(in); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", in, got, err, want)
		}
	}
	for _, in := range []string{
		"", "-1", "-0", "+1", ".5", "5.", "1e3", "0x1", "1_000", "1,5", "nan", "inf", " 1", "1 ", "１", "1.2.3",
		"0.0000001", "9300000000000", strings.Repeat("9", 1000), "0." + strings.Repeat("1", 1000),
	} {
		if got, err := pricing.ParsePerMillion(in); bailey.KindOf(err) != bailey.Invalid || got != 0 || len(err.Error()) > 200 {
			t.Errorf("%.20q: %d, %v", in, got, err)
		}
	}
}

func TestMoney_IsWrittenExactlyAndForPeople(t *testing.T) {
	t.Parallel()
	for m, want := range map[pricing.Money][2]string{
		0: {"0", "0.00 USD"}, 1: {"0.000000000001", "0.000000000001 USD"}, pricing.USD: {"1", "1.00 USD"}, pricing.USD/2 + 1: {"0.500000000001", "0.50 USD"},
		pricing.USD * 315 / 10000: {"0.0315", "0.0315 USD"}, pricing.USD * 123456 / 100000: {"1.23456", "1.235 USD"}, pricing.USD * 123456 / 1000: {"123.456", "123.46 USD"},
		-pricing.USD * 3 / 2: {"-1.5", "-1.50 USD"}, math.MaxInt64: {"9223372.036854775807", "9223372.04 USD"}, math.MinInt64: {"-9223372.036854775808", "-9223372.04 USD"},
		pricing.USD * 138 / 1_000_000: {"0.000138", "0.000138 USD"}, pricing.USD / 8: {"0.125", "0.125 USD"}, pricing.USD / 10: {"0.1", "0.10 USD"},
		pricing.USD - 1: {"0.999999999999", "1.00 USD"}, 123_456: {"0.000000123456", "0.0000001235 USD"}, pricing.USD * 9996 / 1_000_000: {"0.009996", "0.009996 USD"},
	} {
		if got := [2]string{m.Decimal(), m.String()}; got != want {
			t.Errorf("%d is %q, want %q", int64(m), got, want)
		}
	}
}

func rates(input, output, read, write, hour pricing.Money) pricing.Rates {
	return pricing.Rates{Input: input, Output: output, CacheRead: read, CacheWrite: write, CacheWrite1h: hour}
}

func TestCost(t *testing.T) {
	t.Parallel()
	plain := pricing.Price{Rates: rates(3_000_000, 15_000_000, 300_000, 3_750_000, 6_000_000)}
	tiered := pricing.Price{Rates: rates(1, 2, 3, 4, 5), Tiers: []pricing.Tier{{Above: 100, Rates: rates(10, 20, 30, 40, 50)}, {Above: 200, Rates: rates(100, 200, 300, 400, 500)}}}
	for name, c := range map[string]struct {
		u    pricing.Usage
		p    pricing.Price
		want pricing.Money
	}{
		"nothing":                       {pricing.Usage{}, plain, 0},
		"a million each":                {pricing.Usage{Input: 1e6, Output: 1e6}, plain, 18 * pricing.USD},
		"each class":                    {pricing.Usage{Input: 1, CacheRead: 10, CacheWrite: 100, CacheWrite1h: 1000, Output: 10000}, plain, 3_000_000 + 3_000_000 + 375_000_000 + 6_000_000_000 + 150_000_000_000},
		"reasoning is of the output":    {pricing.Usage{Output: 10, Reasoning: 9}, plain, 150_000_000},
		"below the tier":                {pricing.Usage{Input: 100, Output: 1}, tiered, 102},
		"the cache counts for the tier": {pricing.Usage{Input: 1, CacheRead: 100, Output: 1}, tiered, 10 + 3000 + 20},
		"the highest tier":              {pricing.Usage{CacheWrite: 201}, tiered, 201 * 400},
		"below zero":                    {pricing.Usage{Input: -5, Output: -1, CacheRead: math.MinInt64}, plain, 0},
		"huge":                          {pricing.Usage{Input: math.MaxInt64, Output: math.MaxInt64, CacheRead: math.MaxInt64}, plain, math.MaxInt64},
		"a tool":                        {pricing.Usage{Tools: map[string]int64{"web_search": 2, "other": -1}}, plain, pricing.USD * 70 / 1000},
	} {
		if got := pricing.Cost(c.u, c.p); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	if got := (pricing.Usage{Input: math.MaxInt64, Output: 1, CacheRead: -1}).Tokens(); got != math.MaxInt64 {
		t.Error(got)
	}
	if got := (pricing.Usage{Input: 1, CacheRead: 2, CacheWrite: 3, CacheWrite1h: 4, Output: 5, Reasoning: 5}).Tokens(); got != 15 {
		t.Error(got)
	}
}

func TestPrice_AffordsWhatItCosts(t *testing.T) {
	t.Parallel()
	p := pricing.Price{Rates: rates(3, 15, 1, 4, 6), Tiers: []pricing.Tier{{Above: 10, Rates: rates(6, 30, 2, 8, 12)}}}
	for _, c := range []struct {
		left  pricing.Money
		input int64
		want  int64
	}{{100, 10, 2}, {60, 10, 0}, {59, 10, -1}, {-1, 0, -1}, {0, 0, 0}, {1000, 11, (1000 - 132) / 30}, {math.MaxInt64, math.MaxInt64, 0}} {
		got := p.Affordable(c.left, c.input)
		if got != c.want {
			t.Errorf("%d with %d of input: %d, want %d", c.left, c.input, got, c.want)
		}
		if got > 0 && (p.Most(c.input, got) > c.left || p.Most(c.input, got+1) <= c.left) {
			t.Errorf("%d of output cost %d of %d", got, p.Most(c.input, got), c.left)
		}
	}
	if got := (pricing.Price{}).Affordable(0, 1000); got < 1<<60 {
		t.Errorf("what costs nothing is bounded by %d", got)
	}
}

func TestShipped_IsDatedAndReadsAsWritten(t *testing.T) {
	t.Parallel()
	list, err := pricing.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	if list.Dated == "" || list.Source == "" {
		t.Error("the list says neither when nor where from")
	}
	for kind, models := range list.Models {
		for name := range models {
			p, ok := list.Find(kind, name)
			if !ok || p.Input == 0 || p.Output == 0 || p.CacheRead == 0 || p.CacheWrite < p.Input || p.CacheWrite1h < p.CacheWrite || p.Output < p.Input {
				t.Errorf("%s %s: %+v", kind, name, p)
			}
		}
	}
	haiku, _ := list.Find("anthropic", "claude-haiku-5-5")
	want := pricing.Price{Rates: rates(100_000, 500_000, 10_000, 125_000, 200_000), Tiers: []pricing.Tier{{Above: 100_000, Rates: rates(500_000, 2_500_000, 50_000, 625_000, 1_000_000)}}}
	if diff := cmp.Diff(want, haiku); diff != "" {
		t.Error(diff)
	}
	for _, unknown := range [][2]string{{"anthropic", "claude-haiku"}, {"openai", "claude-haiku-5-5"}, {"", ""}, {"anthropic", "Claude-Haiku-5-5"}} {
		if p, ok := list.Find(unknown[0], unknown[1]); ok {
			t.Errorf("%v has a price: %+v", unknown, p)
		}
	}
}

func TestListItem_WhatIsAbsentIsNeverCheaper(t *testing.T) {
	t.Parallel()
	p, err := pricing.ListItem{Input: "3", Output: "15"}.Price()
	if diff := cmp.Diff(rates(3_000_000, 15_000_000, 3_000_000, 3_750_000, 6_000_000), p.Rates); err != nil || diff != "" {
		t.Error(err, diff)
	}
	for name, bad := range map[string]pricing.ListItem{
		"no input": {Output: "1"}, "no output": {Input: "1"}, "below zero": {Input: "1", Output: "-1"},
		"tiers out of order": {Input: "1", Output: "1", Tiers: []pricing.ListItemTier{{Above: 5, ListItem: pricing.ListItem{Input: "1", Output: "1"}}, {Above: 5, ListItem: pricing.ListItem{Input: "1", Output: "1"}}}},
	} {
		if p, err := bad.Price(); err == nil {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

func FuzzParseUSD(f *testing.F) {
	for _, s := range []string{"0.50", "5", "-1", "9223372.036854775807", "1.0000000000001"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		m, err := pricing.ParseUSD(in)
		if err != nil {
			return
		}
		if again, err := pricing.ParseUSD(m.Decimal()); m < 0 || err != nil || again != m {
			t.Fatalf("%q is %d, written as %s, read as %d, %v", in, m, m.Decimal(), again, err)
		}
	})
}
