package tally

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Most is the greatest count that is believed. It is far above what a call can
// use, and leaves room to add and to multiply.
const Most = 1 << 40

// Tally holds counts by name. The zero Tally is empty. It is not safe for
// concurrent use.
type Tally struct {
	most  map[string]int64
	odd   []string
	wrong bool
}

// Count takes what an answer says under a name, and returns the most that it
// said so far, in tokens. What is absent or null changes nothing.
func (t *Tally) Count(name string, raw json.RawMessage) int64 {
	if t.most == nil {
		t.most = map[string]int64{}
	}
	before, seen := t.most[name]
	if !Present(raw) {
		return before
	}
	n := t.number(name, raw)
	if seen && n < before {
		t.Note("%s went from %d to %d", name, before, n)
		return before
	}
	t.most[name] = n
	return n
}

func (t *Tally) number(name string, raw json.RawMessage) int64 {
	text := string(bytes.TrimSpace(raw))
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		f, ferr := strconv.ParseFloat(text, 64)
		if ferr != nil || math.IsNaN(f) {
			t.Note("%s is no number", name)
			t.wrong = true
			return 0
		}
		t.Note("%s is no whole number", name)
		t.wrong = t.wrong || f < 0
		n = int64(min(max(f, -1), Most)) + 1 // rounded up
	}
	switch {
	case n < 0:
		t.Note("%s is negative", name)
		t.wrong = true
		return 0
	case n > Most:
		t.Note("%s is more than any call can use", name)
		t.wrong = true
		return Most
	}
	return n
}

// Sound reports whether all that was said were counts. Where one is none, what
// was used is not known (D053): a call whose output counts as -5 was not free.
func (t *Tally) Sound() bool { return !t.wrong }

// Has reports whether anything was said under a name.
func (t *Tally) Has(name string) bool {
	_, ok := t.most[name]
	return ok
}

// Note adds to what was odd. It keeps a few different notes, however many come.
func (t *Tally) Note(format string, args ...any) {
	const few = 8
	note := fmt.Sprintf(format, args...)
	if len(t.odd) < few && !slices.Contains(t.odd, note) {
		t.odd = append(t.odd, note)
	}
}

// Odd returns the notes in one line; empty if nothing was odd.
func (t *Tally) Odd() string { return strings.Join(t.odd, "; ") }

// Present reports whether a member of an answer is there and not null.
func Present(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) > 0 && !bytes.Equal(raw, []byte("null"))
}

// Tokens estimates, from above, how many tokens so many bytes of text are.
func Tokens(size int64) int64 { return (size + 2) / 3 }

// Text returns how many bytes of text a JSON value holds: of its strings, as
// they are written, but not of its members' names. It never fails; of what is
// no JSON it counts what looks like strings.
func Text(raw json.RawMessage) int64 {
	total := int64(0)
	for i := 0; i < len(raw); i++ {
		if raw[i] != '"' {
			continue
		}
		start := i + 1
		for i++; i < len(raw) && raw[i] != '"'; i++ {
			if raw[i] == '\\' {
				i++
			}
		}
		end := min(i, len(raw))
		if !named(raw, i+1) {
			total += int64(end - start)
		}
	}
	return total
}

// named reports whether a colon follows, so that the string was a name.
func named(raw []byte, i int) bool {
	for ; i < len(raw); i++ {
		switch raw[i] {
		case ' ', '\t', '\r', '\n':
		default:
			return raw[i] == ':'
		}
	}
	return false
}
