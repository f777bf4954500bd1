package budget

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/pricing"
	"github.com/bailey-dev/bailey/internal/spell"
)

// Limit is how much may be used, in each unit. Nothing in a unit is no limit
// of it: no limit is ever zero.
type Limit struct {
	Tokens int64         `json:"tokens,omitempty"`
	Money  pricing.Money `json:"money,omitempty"` // in 10^-12 USD
}

// None reports whether there is no limit.
func (l Limit) None() bool { return l == Limit{} }

// And is both limits at once: in each unit the smaller one.
func (l Limit) And(o Limit) Limit {
	return Limit{Tokens: smaller(l.Tokens, o.Tokens), Money: smaller(l.Money, o.Money)}
}

func smaller[T int64 | pricing.Money](a, b T) T {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// String is the limit as a person writes it: "2M, 5usd", or "none".
func (l Limit) String() string {
	var parts []string
	if l.Tokens != 0 {
		parts = append(parts, Tokens(l.Tokens))
	}
	if l.Money != 0 {
		parts = append(parts, l.Money.Decimal()+"usd")
	}
	if parts == nil {
		return "none"
	}
	return strings.Join(parts, ", ")
}

const thousand, million = 1000, 1_000_000

// Tokens is a number of tokens as a person writes it, exactly: 2M, 500k, 1234.
func Tokens(n int64) string {
	switch {
	case n != 0 && n%million == 0:
		return strconv.FormatInt(n/million, 10) + "M"
	case n != 0 && n%thousand == 0:
		return strconv.FormatInt(n/thousand, 10) + "k"
	}
	return strconv.FormatInt(n, 10)
}

// MaxTokens bounds a budget in tokens.
const MaxTokens = 1_000_000_000_000

const limitHint = "write tokens as 20000, 500k or 2M, and money as 5usd, 0.50usd or $5"

// ParseLimit reads one budget: tokens (20000, 500k, 2M) or money (5usd, 0.50usd,
// $5). k and M are a thousand and a million.
func ParseLimit(s string) (Limit, error) {
	bad := func(problem string) (Limit, error) {
		return Limit{}, bailey.NewError(bailey.Invalid, fmt.Sprintf("%q is no budget: %s", clip(s), problem), limitHint)
	}
	number, unit := s, ""
	if rest, dollars := strings.CutPrefix(s, "$"); dollars {
		number, unit = rest, "usd"
	} else if i := strings.IndexFunc(s, func(r rune) bool {
		return (r < '0' || r > '9') && r != '.' && r != '-' && r != '+' && r != ',' && r != '_'
	}); i >= 0 {
		number, unit = s[:i], strings.ToLower(strings.TrimSpace(s[i:]))
	}
	switch {
	case s == "":
		return bad("it is empty")
	case strings.HasPrefix(number, "-"):
		return bad("it is below zero")
	case number == "":
		return bad("it has no number")
	}
	const units = "units are k (a thousand tokens), M (a million tokens) and usd"
	per, known := map[string]pricing.Money{"": pricing.USD, "k": thousand * pricing.USD, "m": million * pricing.USD, "usd": pricing.USD}[unit]
	if !known {
		return bad(fmt.Sprintf("unknown unit %q; %s", clip(strings.TrimSpace(strings.TrimPrefix(s, number))), units))
	}
	amount, err := pricing.ParseUSD(number)
	switch {
	case err != nil:
		return bad("its number cannot be read")
	case amount == 0:
		return bad("nothing could be used; leave it out for no budget")
	case unit == "usd":
		return Limit{Money: amount}, nil
	}
	l, err := tokenLimit(s, amount, int64(per/pricing.USD))
	if err == nil && l.Tokens < LeastTokens {
		return Limit{}, tooFew(s, number, unit, l.Tokens)
	}
	return l, err
}

// ParseTokens reads a number of tokens: 200000, 200k, 1M.
func ParseTokens(s string) (int64, error) {
	number, per := s, int64(1)
	if n := len(s); n > 0 {
		if by, known := map[byte]int64{'k': thousand, 'K': thousand, 'm': million, 'M': million}[s[n-1]]; known {
			number, per = s[:n-1], by
		}
	}
	amount, err := pricing.ParseUSD(number)
	if err != nil {
		return 0, bailey.NewError(bailey.Invalid, fmt.Sprintf("%q is no number of tokens", clip(s)), "write it as 20000, 500k or 2M")
	}
	l, err := tokenLimit(s, amount, per)
	return l.Tokens, err
}

// LeastTokens is the smallest budget in tokens: less cannot pay for one call.
const LeastTokens = 1 + leastOutput

// tooFew is the error of a budget in tokens that pays for nothing; most often
// another unit was meant.
func tooFew(s, number, unit string, n int64) error {
	hint := limitHint
	if unit == "" {
		hint = fmt.Sprintf("write %susd or %sM, if that is meant; a call takes %d tokens at least", number, number, LeastTokens)
	}
	return bailey.NewError(bailey.Invalid, fmt.Sprintf("%q is no budget: %s would pay for no call", clip(s), spell.Count(int(n), "token")), hint)
}

// tokenLimit is amount times per, where that is a whole number.
func tokenLimit(s string, amount pricing.Money, per int64) (Limit, error) {
	n := amount.Times(per)
	if n == math.MaxInt64 { // an amount of a million times a million
		n = amount / pricing.USD
		if n > MaxTokens/pricing.Money(per) || amount%pricing.USD != 0 {
			return Limit{}, bailey.NewError(bailey.Invalid, fmt.Sprintf("%q is no budget: it is above %s tokens", clip(s), Tokens(MaxTokens)), limitHint)
		}
		return Limit{Tokens: int64(n) * per}, nil
	}
	if n%pricing.USD != 0 {
		return Limit{}, bailey.NewError(bailey.Invalid, fmt.Sprintf("%q is no budget: tokens are whole", clip(s)), limitHint)
	}
	return Limit{Tokens: int64(n / pricing.USD)}, nil
}

// ParseLimits reads several budgets that hold at once, each text one of them or
// more with commas between, such as "2M, 5usd"; of two in one unit that is an
// error.
func ParseLimits(list []string) (Limit, error) {
	var out Limit
	for _, text := range list {
		if grouped().MatchString(text) {
			return Limit{}, bailey.NewError(bailey.Invalid, fmt.Sprintf("%q is no budget: a comma stands between two budgets", clip(text)), "write the number without commas; "+limitHint)
		}
		parts := []string{text}
		if strings.Contains(text, ",") {
			parts = strings.Split(strings.ReplaceAll(text, " ", ""), ",")
		}
		for _, s := range parts {
			l, err := ParseLimit(s)
			if err == nil {
				out, err = out.with(l, s)
			}
			if err != nil {
				return Limit{}, err
			}
		}
	}
	return out, nil
}

// with is both limits at once, of which the other was written as s; of two in
// one unit that is an error.
func (l Limit) with(o Limit, s string) (Limit, error) {
	if l.Tokens != 0 && o.Tokens != 0 || l.Money != 0 && o.Money != 0 {
		return Limit{}, bailey.NewError(bailey.Invalid, fmt.Sprintf("%q is a second budget in one unit", clip(s)), "name one in tokens, one in money, or both")
	}
	return l.And(o), nil
}

// grouped is a number with a comma before each three digits.
var grouped = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\$?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]*)? ?[A-Za-z]*$`) })

func clip(s string) string {
	const most = 40
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
