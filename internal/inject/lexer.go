package inject

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// kinds are sorts of escapes, which texts are read with.
type kinds uint8

const (
	percent   kinds = 1 << iota // %41, and %2541 for twice: RFC 3986 §2.1
	backslash                   // \u0041 \x41 \/, after any number of backslashes: JSON, JavaScript
	entity                      // &#65; &#x41; &amp;: HTML, XML

	allKinds = percent | backslash | entity
)

const (
	maxAgain = 3  // how often %25 and &amp; are taken for the same escape, escaped again
	maxRun   = 8  // backslashes that are taken for one escape
	maxToken = 24 // bytes of the longest escape
)

// token is an escape in a text.
type token struct {
	start, end int
	text       [utf8.UTFMax]byte // what it stands for
	size       int               // bytes of that
}

// lexed is what stands at a place.
type lexed uint8

const (
	literal lexed = iota // no escape
	whole
	cut // the text ends within what may be one
)

// lex reads the escape that begins at b[i], which is a percent sign, the first
// backslash of some, or an ampersand. A final text does not go on. The escapes
// of a kind do not depend on what stands before them, so they can be read from
// anywhere outside of one.
func lex(b []byte, i int, final bool) (token, lexed) {
	var (
		t token
		l lexed
	)
	switch b[i] {
	case '%':
		t, l = lexPercent(b, i)
	case '\\':
		t, l = lexBackslash(b, i)
	case '&':
		t, l = lexEntity(b, i)
	}
	if l == cut && final {
		if t.end > t.start { // a shorter one is whole
			return t, whole
		}
		return t, literal
	}
	return t, l
}

// one makes a token of a code point.
func one(start, end int, r rune) token {
	t := token{start: start, end: end}
	t.size = utf8.EncodeRune(t.text[:], r)
	return t
}

// octet makes a token of a byte.
func octet(start, end int, c byte) token {
	return token{start: start, end: end, text: [utf8.UTFMax]byte{c}, size: 1}
}

// hexAt reads n hexadecimal digits. Without them it says whether that is for
// the text's end.
func hexAt(b []byte, n int) (v rune, l lexed) {
	for i := range n {
		if i == len(b) {
			return 0, cut
		}
		d := strings.IndexByte("0123456789abcdef", b[i]|0x20)
		if d < 0 || b[i] < '0' {
			return 0, literal
		}
		v = v<<4 | rune(d&15)
	}
	return v, whole
}

// lexPercent reads %, up to maxAgain times 25, and two digits.
func lexPercent(b []byte, i int) (token, lexed) {
	best := token{start: i}
	found := literal
	for j, n := i+1, 0; n <= maxAgain; j, n = j+2, n+1 {
		v, l := hexAt(b[j:], 2)
		if l != whole {
			if l == cut {
				return best, cut
			}
			break
		}
		best, found = octet(i, j+2, byte(v&0xff)), whole
		if v != '%' {
			break
		}
	}
	return best, found
}

// lexBackslash reads the last of some backslashes and what it escapes.
func lexBackslash(b []byte, i int) (token, lexed) {
	e := i
	for e < len(b) && b[e] == '\\' {
		e++
	}
	start := max(i, e-maxRun)
	if e == len(b) {
		return token{start: start}, cut
	}
	switch c := b[e]; c {
	case '"', '/', '\'':
		return octet(start, e+1, c), whole
	case 'b', 'f', 'n', 'r', 't':
		return octet(start, e+1, "\b..\x00\f.......\n...\r.\t"[c-'b']), whole
	case 'u':
		return digits(b, start, e+1, 4)
	case 'x':
		return digits(b, start, e+1, 2)
	}
	if e-start > 1 {
		return octet(start, e, '\\'), whole
	}
	return token{start: start, end: start}, literal
}

// digits reads what is behind \u or \x.
func digits(b []byte, start, at, n int) (token, lexed) {
	v, l := hexAt(b[at:], n)
	if n == 4 && utf8.RuneLen(v) < 0 { // half of a surrogate pair
		l = literal
	}
	if l != whole {
		return token{start: start, end: start}, l
	}
	if n == 2 {
		return octet(start, at+n, byte(v&0xff)), whole
	}
	return one(start, at+n, v), whole
}

// lexEntity reads &, up to maxAgain times amp;, and the rest of an entity.
func lexEntity(b []byte, i int) (token, lexed) {
	best := token{start: i}
	found := literal
	for j, n := i+1, 0; n < maxAgain; n++ {
		r, size, l := entityAt(b[j:])
		if l != whole {
			if l == cut {
				return best, cut
			}
			break
		}
		j += size
		best, found = one(i, j, r), whole
		if r != '&' || b[j-size] == '#' {
			break
		}
	}
	return best, found
}

// maxEntity is the longest entity without its ampersand, such as #x00041; or
// lowbar;.
const maxEntity = 8

// entityAt reads an entity behind its ampersand.
func entityAt(b []byte) (r rune, size int, l lexed) {
	b = b[:min(len(b), maxEntity)]
	end := bytes.IndexByte(b, ';')
	if end < 0 {
		if len(b) < maxEntity && couldBeEntity(b) {
			return 0, 0, cut
		}
		return 0, 0, literal
	}
	name := string(b[:end])
	if number, ok := strings.CutPrefix(name, "#"); ok {
		base := 10
		if number != "" && number[0]|0x20 == 'x' {
			number, base = number[1:], 16
		}
		if v, err := strconv.ParseUint(number, base, 16); err == nil && v > 0 && utf8.RuneLen(rune(v)) > 0 {
			return rune(v), end + 1, whole
		}
		return 0, 0, literal
	}
	if r = named(name); r == 0 {
		return 0, 0, literal
	}
	return r, end + 1, whole
}

// couldBeEntity reports whether more bytes could make an entity.
func couldBeEntity(b []byte) bool {
	for i, c := range b {
		if c != '#' && !isAlphanumeric(c) || c == '#' && i > 0 {
			return false
		}
	}
	return true
}

// named is the character of a name. Those are in that values hold, or base64.
func named(s string) rune {
	switch s {
	case "amp":
		return '&'
	case "lt":
		return '<'
	case "gt":
		return '>'
	case "quot":
		return '"'
	case "apos":
		return '\''
	case "sol":
		return '/'
	case "plus":
		return '+'
	case "equals":
		return '='
	case "lowbar":
		return '_'
	case "period":
		return '.'
	case "colon":
		return ':'
	}
	return 0
}

// view is a text with escapes undone, and where each byte of it comes from.
type view struct {
	b     []byte
	off   int    // of the text: where the view begins
	marks []mark // escapes, in order
}

// mark is an escape in a view.
type mark struct {
	at, size   int // of the view: what it stands for
	start, end int // of the text: where it is
}

// look undoes escapes of b[from:to] into the view. Bytes beyond are read where
// an escape goes on in them.
func (v *view) look(b []byte, from, to int, which kinds) {
	v.b, v.off, v.marks = v.b[:0], from, v.marks[:0]
	for i := from; i < to; {
		at := nextMark(b[:to], which, i)
		if at == to {
			v.b = append(v.b, b[i:to]...)
			return
		}
		t, l := lex(b, at, true)
		if l != whole {
			stop := min(to, max(at+1, endOfRun(b, at)))
			v.b = append(v.b, b[i:stop]...)
			i = stop
			continue
		}
		v.b = append(v.b, b[i:t.start]...)
		v.marks = append(v.marks, mark{len(v.b), t.size, t.start, t.end})
		v.b = append(v.b, t.text[:t.size]...)
		i = t.end
	}
}

// source is where in the text a byte of the view comes from.
func (v *view) source(i int) (from, to int) {
	n, _ := slices.BinarySearchFunc(v.marks, i+1, func(m mark, i int) int { return cmp.Compare(m.at, i) })
	if n == 0 {
		return v.off + i, v.off + i + 1
	}
	m := v.marks[n-1]
	if i < m.at+m.size {
		return m.start, m.end
	}
	from = m.end + i - m.at - m.size
	return from, from + 1
}

// nextMark is where the next escape of some kinds may begin.
func nextMark(b []byte, which kinds, i int) int {
	if i >= len(b) {
		return len(b)
	}
	at := len(b)
	find := func(mark byte) {
		if n := bytes.IndexByte(b[i:at], mark); n >= 0 {
			at = i + n
		}
	}
	if which&percent != 0 {
		find('%')
	}
	if which&backslash != 0 {
		find('\\')
	}
	if which&entity != 0 {
		find('&')
	}
	return at
}

// endOfRun is where backslashes at i end.
func endOfRun(b []byte, i int) int {
	for i < len(b) && b[i] == '\\' {
		i++
	}
	return i
}

// undo returns a whole text with escapes of all kinds undone.
func undo(b []byte) []byte {
	var v view
	v.look(b, 0, len(b), allKinds)
	return v.b
}

// rewrite has the escape in raw stand for another byte, if it can be written in
// as many bytes; stars are in its place otherwise.
func rewrite(raw []byte, c byte) {
	const lower, upper = "0123456789abcdef", "0123456789ABCDEF"
	n := len(raw)
	was := bytes.Clone(raw)
	try := func(text string) bool {
		copy(raw[n-len(text):], text)
		t, l := lex(raw, 0, true)
		return l == whole && t.start == 0 && t.end == n && t.size == 1 && t.text[0] == c
	}
	set := upper
	if bytes.ContainsAny(was, "abcdef") {
		set = lower
	}
	switch {
	case n == 1:
		raw[0] = c
		return
	case n >= 3 && try(string([]byte{set[c>>4], set[c&15]})):
		return
	}
	copy(raw, was)
	if i := bytes.LastIndexByte(was, '#'); i >= 0 && was[n-1] == ';' {
		number := strconv.Itoa(int(c))
		if i+1 < n && was[i+1]|0x20 == 'x' {
			number = "x" + strings.Repeat("0", max(0, n-i-5)) + strconv.FormatUint(uint64(c), 16)
		} else {
			number = strings.Repeat("0", max(0, n-i-2-len(number))) + number
		}
		if len(number) == n-i-2 && try(number+";") {
			return
		}
	}
	copy(raw, bytes.Repeat([]byte("*"), n))
}
