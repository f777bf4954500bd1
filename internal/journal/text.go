package journal

import (
	"strings"
	"unicode/utf8"

	"github.com/bailey-dev/bailey/internal/terminal"
)

// mostLine bounds a line that is put together.
const mostLine = 64 << 10

// Text makes lines of what a program wrote, to a terminal or not, that can act
// on no terminal: what the program did with its own, colours and movement, is
// left out, and of what was written over in one line, the last is left. The
// zero value is ready.
type Text struct {
	filter terminal.Filter
	line   []byte
	back   bool // the cursor is at the beginning of the line
}

// Lines calls yield with each line that p completes, without its end.
func (t *Text) Lines(p []byte, yield func(line string)) {
	b := t.filter.Filter(nil, p)
	for len(b) > 0 {
		if b[0] == 0x1b {
			b = b[sequence(b):]
			continue
		}
		_, size := utf8.DecodeRune(b)
		t.put(b[:size], yield)
		b = b[size:]
	}
}

func (t *Text) put(char []byte, yield func(line string)) {
	switch c := char[0]; {
	case c == '\n':
		yield(t.Rest())
	case c == '\r':
		t.back = true
	case c == '\b':
		_, n := utf8.DecodeLastRune(t.line)
		t.line = t.line[:len(t.line)-n]
	case c < 0x20 && c != '\t':
	default:
		if t.back {
			t.line, t.back = t.line[:0], false
		}
		if len(t.line) >= mostLine {
			yield(t.Rest())
		}
		t.line = append(t.line, char...)
	}
}

// Rest returns the line that has no end yet, and forgets it.
func (t *Text) Rest() string {
	cells := strings.Split(string(t.line), "\t")
	for i := range cells {
		cells[i] = terminal.Sanitize(cells[i])
	}
	t.line, t.back = t.line[:0], false
	return strings.Join(cells, "\t")
}

// sequence returns the length of the sequence at the front of what the filter
// has passed, which is whole.
func sequence(b []byte) int { //nolint:gocognit // the grammar of sequences, state by state
	if len(b) < 2 {
		return len(b)
	}
	switch b[1] {
	case '[':
		for i, c := range b[2:] {
			if c >= 0x40 && c <= 0x7e {
				return 2 + i + 1
			}
		}
		return len(b)
	case ']':
		for i, c := range b[2:] {
			if c == 0x07 {
				return 2 + i + 1
			}
			if c == 0x1b {
				return min(2+i+2, len(b))
			}
		}
		return len(b)
	}
	for i, c := range b[1:] {
		if c >= 0x30 {
			return 1 + i + 1
		}
	}
	return len(b)
}
