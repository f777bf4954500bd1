package budget

import "github.com/bailey-dev/bailey/internal/pricing"

// glance is readLine without Usage, which a Ledger does not look at. A day may
// have hundreds of thousands of lines, all of which each process reads when it
// begins: those that are in the very form in which they are written are read
// without the general decoder.
func glance(b []byte) (record, bool) {
	s := scan{rest: b}
	r, ok := s.record()
	if !ok || len(b) > longestLine {
		r, ok = readLine(b)
		r.Usage = nil
		return r, ok
	}
	return r, r.says()
}

// scan reads plain JSON: without blanks, escapes, anything but ASCII, numbers
// below zero or above 18 digits. Whatever else there is it does not read.
type scan struct {
	rest []byte
	bad  bool
}

func (s *scan) take(c byte) {
	if len(s.rest) == 0 || s.rest[0] != c {
		s.bad, s.rest = true, nil
		return
	}
	s.rest = s.rest[1:]
}

// more goes on after a member, and reports whether there is another.
func (s *scan) more() bool {
	if len(s.rest) > 0 && s.rest[0] == ',' {
		s.rest = s.rest[1:]
		return true
	}
	s.take('}')
	return false
}

func (s *scan) text() []byte {
	s.take('"')
	for i, c := range s.rest {
		switch {
		case c == '"':
			out := s.rest[:i]
			s.rest = s.rest[i+1:]
			return out
		case c == '\\' || c < ' ' || c > '~':
			s.bad = true
			return nil
		}
	}
	s.bad = true
	return nil
}

func (s *scan) number() int64 {
	const most = 18 // digits that an int64 always holds
	var n int64
	i := 0
	for i < len(s.rest) && s.rest[i] >= '0' && s.rest[i] <= '9' {
		if i == most || i == 1 && n == 0 {
			s.bad = true
			return 0
		}
		n = n*10 + int64(s.rest[i]-'0')
		i++
	}
	s.bad = s.bad || i == 0
	s.rest = s.rest[i:]
	return n
}

func (s *scan) yes() bool {
	for _, c := range []byte("true") {
		s.take(c)
	}
	return true
}

// skip passes over an object of numbers.
func (s *scan) skip() {
	s.take('{')
	for more := true; more && !s.bad; more = s.more() {
		switch string(s.text()) {
		case "input", "output", "cache_read", "cache_write", "cache_write_1h", "reasoning":
		default:
			s.bad = true
		}
		s.take(':')
		s.number()
	}
}

func (s *scan) record() (r record, ok bool) {
	s.take('{')
	for more := true; more && !s.bad; more = s.more() {
		name := s.text()
		s.take(':')
		s.member(string(name), &r)
	}
	return r, !s.bad && len(s.rest) == 0
}

func (s *scan) member(name string, r *record) {
	switch name {
	case "k":
		r.Kind = kind(s.text())
	case "id":
		s.bad = r.ID.UnmarshalText(s.text()) != nil || s.bad
	case "at":
		r.At = s.number()
	case "task":
		r.Task = string(s.text())
	case "run":
		r.Run = string(s.text())
	case "model":
		r.Model = string(s.text())
	case "usage":
		s.skip()
	default:
		s.amount(name, r)
	}
}

func (s *scan) amount(name string, r *record) {
	switch name {
	case "tokens":
		r.Tokens = s.number()
	case "money":
		r.Money = pricing.Money(s.number())
	case "priced":
		r.Priced = s.yes()
	case "estimated":
		r.Estimated = s.yes()
	case "void":
		r.Void = s.yes()
	default: // the first line, the last, and what is not ours
		s.bad = true
	}
}
