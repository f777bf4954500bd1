package document

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// quick reads a document that is well and within the bounds, in one pass. Of all
// else it says only that it is not: Parse then has it read by what can say why,
// and whose word counts. FuzzQuickly holds the two together.
type quick struct {
	tree

	in   []byte
	at   int
	text strings.Builder // the text of all strings; it never grows, so that they are parts of it
}

// quickly returns nil for what it does not read.
func quickly(b []byte, lim Limits) *Value {
	q := quick{tree: tree{lim: lim}, in: b}
	q.text.Grow(len(b)) // none is longer decoded than it was written
	root, ok := q.document()
	if q.blank(); !ok || q.at < len(q.in) {
		return nil
	}
	return root
}

// document reads values until the outermost is complete.
func (q *quick) document() (*Value, bool) {
	for {
		v, ok := q.value()
		for ok && v != nil {
			if len(q.open) == 0 {
				return v, true
			}
			if q.add(v) != nil {
				return nil, false
			}
			v, ok = q.next()
		}
		if !ok {
			return nil, false
		}
	}
}

// value reads a value. It is nil if it has parts, the first of which comes next.
func (q *quick) value() (*Value, bool) {
	q.blank()
	if q.at >= len(q.in) {
		return nil, false
	}
	switch q.in[q.at] {
	case '{':
		return q.begin(Object, '}')
	case '[':
		return q.begin(Array, ']')
	case '"':
		s, ok := q.str()
		return q.leaf(String, s, ok)
	case 'n':
		return q.literal("null", Null)
	case 't':
		return q.literal("true", True)
	case 'f':
		return q.literal("false", False)
	}
	s, ok := q.number()
	return q.leaf(Number, s, ok)
}

func (q *quick) begin(kind Kind, end byte) (*Value, bool) {
	q.at++
	if q.enter(kind) != nil {
		return nil, false
	}
	if q.take(end) {
		return q.leave(), true
	}
	return nil, kind == Array || q.name()
}

// next reads what follows a part of a container, which it returns if it ends
// there.
func (q *quick) next() (*Value, bool) {
	object := q.open[len(q.open)-1].kind == Object
	switch {
	case q.take(','):
		return nil, !object || q.name()
	case object && q.take('}'):
		v := q.leave()
		return v, !repeats(v.Members)
	case !object && q.take(']'):
		return q.leave(), true
	}
	return nil, false
}

// name reads the name of a member, and the colon.
func (q *quick) name() bool {
	q.blank()
	s, ok := q.str()
	q.open[len(q.open)-1].name = s
	return ok && q.take(':')
}

// repeats reports whether a name is there twice.
func repeats(members []Member) bool {
	const few = 16
	if len(members) > few {
		seen := make(map[string]struct{}, len(members))
		for i := range members {
			seen[members[i].Name] = struct{}{}
		}
		return len(seen) < len(members)
	}
	for i := range members {
		for j := range i {
			if members[i].Name == members[j].Name {
				return true
			}
		}
	}
	return false
}

func (q *quick) blank() {
	for q.at < len(q.in) && (q.in[q.at] == ' ' || q.in[q.at] == '\n' || q.in[q.at] == '\r' || q.in[q.at] == '\t') {
		q.at++
	}
}

// take passes over blanks and one byte, if it is that one.
func (q *quick) take(c byte) bool {
	q.blank()
	if q.at >= len(q.in) || q.in[q.at] != c {
		return false
	}
	q.at++
	return true
}

func (q *quick) literal(word string, kind Kind) (*Value, bool) {
	if len(q.in)-q.at < len(word) || string(q.in[q.at:q.at+len(word)]) != word {
		return nil, false
	}
	q.at += len(word)
	return q.leaf(kind, "", true)
}

func (q *quick) leaf(kind Kind, s string, ok bool) (*Value, bool) {
	if !ok {
		return nil, false
	}
	v, err := q.make(kind)
	if err != nil {
		return nil, false
	}
	v.Text = s
	return v, true
}

// number reads one (RFC 8259 §6).
func (q *quick) number() (string, bool) {
	from := q.at
	q.skip('-', '-')
	zero := q.at < len(q.in) && q.in[q.at] == '0'
	if n := q.digits(); n == 0 || zero && n > 1 {
		return "", false
	}
	if q.skip('.', '.') && q.digits() == 0 {
		return "", false
	}
	if q.skip('e', 'E') {
		q.skip('+', '-')
		if q.digits() == 0 {
			return "", false
		}
	}
	return q.keep(q.in[from:q.at]), q.at-from <= q.lim.Number
}

// skip passes over one byte, if it is one of two.
func (q *quick) skip(a, b byte) bool {
	if q.at >= len(q.in) || q.in[q.at] != a && q.in[q.at] != b {
		return false
	}
	q.at++
	return true
}

func (q *quick) digits() int {
	from := q.at
	for q.at < len(q.in) && q.in[q.at] >= '0' && q.in[q.at] <= '9' {
		q.at++
	}
	return q.at - from
}

// keep copies what is a part of the text of all.
func (q *quick) keep(b []byte) string {
	from := q.text.Len()
	q.text.Write(b)
	return q.text.String()[from:]
}

// str reads a string (RFC 8259 §7).
func (q *quick) str() (string, bool) {
	if q.at >= len(q.in) || q.in[q.at] != '"' {
		return "", false
	}
	begun, from := q.at, q.text.Len()
	for q.at++; ; {
		end := q.usual()
		q.text.Write(q.in[q.at:end])
		q.at = end
		switch {
		case q.at >= len(q.in):
			return "", false
		case q.in[q.at] == '"':
			q.at++
			s := q.text.String()[from:]
			return s, len(s) <= q.lim.String && (q.at-begun)/len(`\u0000`) <= q.lim.String
		case q.in[q.at] != '\\': // a control character, or none at all
			return "", false
		case !q.escape():
			return "", false
		}
	}
}

// usual returns where what stands in a string as it is ends.
func (q *quick) usual() int {
	for i := usual(q.in, q.at); ; i = usual(q.in, i) {
		if i >= len(q.in) || q.in[i] < utf8.RuneSelf {
			return i
		}
		r, n := utf8.DecodeRune(q.in[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
}

// escape reads what is behind a backslash.
func (q *quick) escape() bool {
	if q.at+1 >= len(q.in) {
		return false
	}
	if c, ok := unescaped(q.in[q.at+1]); ok {
		q.at += 2
		q.text.WriteByte(c)
		return true
	}
	r, ok := q.unit()
	if !ok || r == 0 {
		return false
	}
	if utf16.IsSurrogate(r) {
		low, ok := q.unit()
		if r = utf16.DecodeRune(r, low); !ok || r == utf8.RuneError {
			return false
		}
	}
	q.text.WriteRune(r)
	return true
}

// unit reads a code unit of UTF-16.
func (q *quick) unit() (r rune, ok bool) {
	const length = len(`\u0000`)
	if len(q.in)-q.at < length || q.in[q.at] != '\\' || q.in[q.at+1] != 'u' {
		return 0, false
	}
	for _, c := range q.in[q.at+2 : q.at+length] {
		r <<= 4
		switch {
		case c >= '0' && c <= '9':
			r |= rune(c - '0')
		case c|' ' >= 'a' && c|' ' <= 'f':
			r |= rune(c|' ') - 'a' + 10
		default:
			return 0, false
		}
	}
	q.at += length
	return r, true
}
