package budget

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/bailey-dev/bailey/internal/pricing"
)

// Day is a day by UTC, such as "2026-11-30". Days compare as their texts do.
type Day string

// DayOf is the day of an instant.
func DayOf(t time.Time) Day { return Day(t.UTC().Format(time.DateOnly)) }

// start is the day's first instant.
func (d Day) start() (time.Time, error) { return time.Parse(time.DateOnly, string(d)) }

// aheadOf reports whether the day is more than two days after that of t: no
// clock is set back that far by accident.
func (d Day) aheadOf(t time.Time) bool { return d > DayOf(t.AddDate(0, 0, 2)) }

// kind is what a line says.
type kind string

const (
	dayLine    kind = "day"     // the first line: which day it is
	reserveOne kind = "reserve" // a call may use so much
	settleOne  kind = "settle"  // it did use so much
	endOfDay   kind = "end"     // nothing is reserved here from now on, but in the file of Next
)

// formatVersion is that of the files.
const formatVersion = 1

// record is one line of a day's file.
type record struct {
	Kind    kind          `json:"k"`
	Version int           `json:"v,omitempty"`    // of the first line
	Day     Day           `json:"day,omitempty"`  // of the first line
	Next    Day           `json:"next,omitempty"` // of the last day's end
	ID      callID        `json:"id,omitzero"`
	At      int64         `json:"at,omitempty"` // milliseconds since 1970
	Task    string        `json:"task,omitempty"`
	Run     string        `json:"run,omitempty"` // where it is not the task's name
	Model   string        `json:"model,omitempty"`
	Tokens  int64         `json:"tokens,omitempty"`
	Money   pricing.Money `json:"money,omitempty"`

	Priced    bool           `json:"priced,omitempty"`    // Money says something
	Usage     *pricing.Usage `json:"usage,omitempty"`     // of a settlement
	Estimated bool           `json:"estimated,omitempty"` // the provider did not say it
	Void      bool           `json:"void,omitempty"`      // the provider never got the call
}

// callID tells calls apart.
type callID uint64

func newCallID() callID {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return callID(binary.BigEndian.Uint64(b[:]) | 1)
}

// MarshalText is 16 hexadecimal digits.
func (c callID) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%016x", uint64(c)), nil }

// UnmarshalText reads them.
func (c *callID) UnmarshalText(b []byte) error {
	var raw [8]byte
	if n, err := hex.Decode(raw[:], b[:min(len(b), 16)]); err != nil || n != 8 || len(b) != 16 {
		return fmt.Errorf("%.20q is no call", b)
	}
	*c = callID(binary.BigEndian.Uint64(raw[:]))
	return nil
}

// Bounds of a line and of the names in it, in bytes.
const (
	longestLine = 4096
	longestName = 200
)

// line is a record as it is written, with the line's end.
func (r *record) line() ([]byte, error) {
	b, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return append(b, '\n'), nil
}

// readLine reads a line, and reports whether it says anything. What it says is
// never below zero.
func readLine(b []byte) (record, bool) {
	var r record
	if len(b) > longestLine || json.Unmarshal(b, &r) != nil {
		return record{}, false
	}
	return r, r.says()
}

// says reports whether a record says anything.
func (r *record) says() bool {
	switch r.Kind {
	case dayLine:
		return r.Version != 0 && r.Day != ""
	case endOfDay:
		_, err := r.Next.start()
		return err == nil
	case reserveOne, settleOne:
		return r.ID != 0 && r.Tokens >= 0 && r.Money >= 0 && r.Model != ""
	}
	return false
}

func (r *record) amount() amount { return amount{r.Tokens, r.Money} }

// run is the run's name.
func (r *record) run() string {
	if r.Run == "" {
		return r.Task
	}
	return r.Run
}
