package pricing

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"

	"github.com/bailey-dev/bailey"
)

// Money is an amount in 10^-12 USD, in which every price a token is whole. The
// largest is above nine million dollars; arithmetic stays there and never wraps.
type Money int64

// USD is one dollar.
const USD Money = 1_000_000_000_000

// moneyDigits is how many digits stand behind a dollar's point.
const moneyDigits = 12

// Plus is the sum, at most the largest amount.
func (m Money) Plus(n Money) Money { return Money(Add(int64(m), int64(n))) }

// Times is the amount for n, at most the largest amount; nothing for none and
// for less.
func (m Money) Times(n int64) Money {
	if m <= 0 || n <= 0 {
		return 0
	}
	high, low := bits.Mul64(uint64(m), uint64(n))
	if high != 0 || low > math.MaxInt64 {
		return math.MaxInt64
	}
	return Money(low)
}

// Add is the sum of two numbers, at most the largest and at least the smallest
// that there is.
func Add(a, b int64) int64 {
	switch sum := a + b; {
	case a > 0 && b > 0 && sum < 0:
		return math.MaxInt64
	case a < 0 && b < 0 && sum >= 0:
		return math.MinInt64
	default:
		return sum
	}
}

// Decimal is the amount in dollars, exactly, such as "0.0315".
func (m Money) Decimal() string {
	if m < 0 {
		return "-" + decimalText(-uint64(m))
	}
	return decimalText(uint64(m))
}

func decimalText(n uint64) string {
	whole := strconv.FormatUint(n/uint64(USD), 10)
	fraction := strings.TrimRight(fmt.Sprintf("%0*d", moneyDigits, n%uint64(USD)), "0")
	if fraction == "" {
		return whole
	}
	return whole + "." + fraction
}

// String is the amount for a person, everywhere in the same form: "0.009996 USD".
// It has the four digits that say most, and cents at least.
func (m Money) String() string {
	sign, n := "", uint64(m)
	if m < 0 {
		sign, n = "-", -n
	}
	unit := uint64(1) // of the last digit that is written
	for unit < uint64(USD)/100 && n >= 10_000*unit {
		unit *= 10
	}
	whole, fraction, _ := strings.Cut(decimalText((n+unit/2)/unit*unit), ".")
	const cents = 2
	for len(fraction) < cents {
		fraction += "0"
	}
	return sign + whole + "." + fraction + " USD"
}

// Brief is the amount as a budget in money is written, in cents of a dollar or
// more, such as "3.12usd"; below that in the two digits that say most.
func (m Money) Brief() string {
	n := max(m, 0)
	unit := Money(1)
	for unit < USD/100 && n >= 100*unit {
		unit *= 10
	}
	return ((n + unit/2) / unit * unit).Decimal() + "usd"
}

// ParseUSD reads an amount of dollars, such as "5" or "0.50": digits, at most
// one point, and at most twelve digits behind it. It is never below zero.
func ParseUSD(s string) (Money, error) {
	n, err := decimal(s, moneyDigits)
	return Money(n), err
}

// ParsePerMillion reads a price in dollars a million tokens, such as "3.75", as
// that of one token.
func ParsePerMillion(s string) (Money, error) {
	n, err := decimal(s, moneyDigits-6)
	return Money(n), err
}

// decimal reads a number that is not negative, as a whole number of units of
// 10^-digits. It has to be exact.
func decimal(s string, digits int) (int64, error) {
	whole, fraction, pointed := strings.Cut(s, ".")
	fraction = strings.TrimRight(fraction, "0")
	bad := whole == "" || !onlyDigits(whole) || !onlyDigits(fraction) || pointed && strings.HasSuffix(s, ".")
	switch {
	case strings.HasPrefix(s, "-"):
		return 0, bailey.NewError(bailey.Invalid, strconv.QuoteToASCII(short(s))+" is below zero", "write an amount of dollars, such as 0.50")
	case bad:
		return 0, bailey.NewError(bailey.Invalid, strconv.QuoteToASCII(short(s))+" is not an amount", "write digits with at most one point, such as 0.50")
	case len(fraction) > digits:
		return 0, bailey.NewError(bailey.Invalid, fmt.Sprintf("%s has more than %d digits behind the point", strconv.QuoteToASCII(short(s)), digits), "round it")
	}
	n, err := strconv.ParseInt(whole+fraction+strings.Repeat("0", digits-len(fraction)), 10, 64)
	if err != nil {
		return 0, bailey.NewError(bailey.Invalid, strconv.QuoteToASCII(short(s))+" is too large", "no amount is above 9 million dollars")
	}
	return n, nil
}

func onlyDigits(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < '0' || r > '9' })
}

func short(s string) string {
	const most = 40
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
