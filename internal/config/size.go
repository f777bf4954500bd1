package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/bailey-dev/bailey"
)

// Bytes is a size as people write it: a number with an optional K, M, G or T
// (powers of 1024; "KiB" and "KB" mean the same here, as for docker).
type Bytes int64

// UnmarshalText reads a size. Zero and negative sizes are refused.
func (b *Bytes) UnmarshalText(text []byte) error {
	v, err := parseBytes(string(text))
	if err != nil {
		return err
	}
	*b = Bytes(v)
	return nil
}

// String writes the size with the largest unit that divides it.
func (b Bytes) String() string {
	v := int64(b)
	for i := len(units) - 1; i > 0; i-- {
		if size := int64(1) << (10 * i); v >= size && v%size == 0 {
			return strconv.FormatInt(v/size, 10) + strings.ToUpper(string(units[i]))
		}
	}
	return strconv.FormatInt(v, 10)
}

const (
	units    = "bkmgt"
	maxBytes = 1 << 52 // 4096T: a number of bytes that a float holds exactly
)

func parseBytes(s string) (int64, error) {
	bad := bailey.NewError(bailey.Invalid, fmt.Sprintf("%q is not a size", s), "use a number with K, M, G or T, such as 512M or 4G")
	t := strings.ToLower(strings.TrimSpace(s))
	number := strings.TrimRight(t, "abcdefghijklmnopqrstuvwxyz")
	unit := t[len(number):]
	if unit == "" {
		unit = "b"
	}
	power := strings.Index(units, unit[:1])
	if rest := unit[1:]; power < 0 || rest != "" && (power == 0 || rest != "b" && rest != "ib") {
		return 0, bad
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || n <= 0 || strings.ContainsAny(number, "xpe_+") {
		return 0, bad
	}
	v := n * math.Exp2(float64(10*power))
	if v < 1 || v > maxBytes {
		return 0, bailey.NewError(bailey.Invalid, fmt.Sprintf("size %q is out of range", s), "use a size between 1 byte and 4096T")
	}
	return int64(v), nil
}

// CPUs is a number of processors in thousandths.
type CPUs int64

// UnmarshalText reads a number of processors such as "2" or "0.5".
func (c *CPUs) UnmarshalText(text []byte) error {
	n, err := strconv.ParseFloat(string(text), 64)
	if err != nil || !(n >= 0.01 && n <= 4096) || strings.ContainsAny(string(text), "xXpPeE_+") {
		return bailey.NewError(bailey.Invalid, fmt.Sprintf("%q is not a number of processors", text), "use a number of at least 0.01, such as 2 or 0.5")
	}
	*c = CPUs(math.Round(n * 1000))
	return nil
}

// Count is a whole number of at least one.
type Count int64

// UnmarshalText reads a count.
func (c *Count) UnmarshalText(text []byte) error {
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || n < 1 {
		return bailey.NewError(bailey.Invalid, fmt.Sprintf("%q is not a whole number of at least 1", text), "use a number such as 512")
	}
	*c = Count(n)
	return nil
}

// Duration is a span of time as Go writes it.
type Duration time.Duration

// UnmarshalText reads a duration such as "90s", "30m" or "2h".
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil || v <= 0 {
		return bailey.NewError(bailey.Invalid, fmt.Sprintf("%q is not a duration", text), "use a number with s, m or h, such as 90s or 30m")
	}
	*d = Duration(v)
	return nil
}

// Span is how long ago something began: as Duration, or in days.
type Span time.Duration

// UnmarshalText reads a span such as "90m", "24h" or "7d". A day has 24 hours.
func (s *Span) UnmarshalText(text []byte) error {
	const most = 100_000 // days: more do not fit
	if days, ok := strings.CutSuffix(string(text), "d"); ok {
		n, err := strconv.ParseUint(days, 10, 32)
		if err != nil || n < 1 || n > most {
			return bailey.NewError(bailey.Invalid, fmt.Sprintf("%q is not a number of days", text), "use a whole number with d, such as 7d")
		}
		*s = Span(time.Duration(n) * 24 * time.Hour)
		return nil
	}
	var d Duration
	if err := d.UnmarshalText(text); err != nil {
		return bailey.NewError(bailey.Invalid, fmt.Sprintf("%q is not a span of time", text), "use a number with m, h or d, such as 90m, 24h or 7d")
	}
	*s = Span(d)
	return nil
}
