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
	percent   kinds = 1 << iota // %41, and %2541 for twice: RFC 3986 §2.1; %u0041
	backslash                   // \u0041 \x41 \u{41} \U00000041 \101 \/, after any number of backslashes: JSON, programming languages
	entity                      // &#65; &#x41; &amp;: HTML, XML
	quoted                      // =41, and nothing for = at the end of a line: quoted-printable, RFC 2045 §6.7

	// Those that stand in one text. A sign of equality stands before many a word
	// that is in no mail, and so would take its beginning for an escape.
	allKinds = percent | backslash | entity
)

// mark reports whether an escape of some kinds begins with a byte.
func (k kinds) mark(c byte) bool {
	switch c {
	case '%':
		return k&percent != 0
	case '\\':
		return k&backslash != 0
	case '&':
		return k&entity != 0
	case '=':
		return k&quoted != 0
	}
	return false
}

const (
	maxAgain = 3  // how often %25 and &amp; are taken for the same escape, escaped again
	maxRun   = 8  // backslashes that are taken for one escape
	maxToken = 40 // bytes of the longest escape
)

// openings are the bytes that stand behind the signs of escapes.
func openings() (o [256]kinds) {
	for c := range o {
		if isHex(byte(c)) {
			o[c] |= percent | quoted
		}
		if isAlphanumeric(byte(c)) && strings.Contains(entityNames, " "+string(rune(c))) {
			o[c] |= entity
		}
	}
	for _, c := range []byte(`\"'/bfnrtuxU01234567`) {
		o[c] |= backslash
	}
	o['u'] |= percent
	o['#'] |= entity
	o['\r'] |= quoted
	o['\n'] |= quoted
	return o
}

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
// backslash of some, an ampersand, or a sign of equality. A final text does not go on. The escapes
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
	case '=':
		t, l = lexQuoted(b, i)
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
		c := b[i]
		if !isHex(c) {
			return 0, literal
		}
		v = v<<4 | rune(c&15+c>>6*9)
	}
	return v, whole
}

// codeAt reads the digits of a code point. Half of a surrogate pair is none.
func codeAt(b []byte, n int) (v rune, l lexed) {
	v, l = hexAt(b, n)
	if l == whole && utf8.RuneLen(v) < 0 {
		return 0, literal
	}
	return v, l
}

// lexPercent reads %, up to maxAgain times 25, and two digits, or u and four.
func lexPercent(b []byte, i int) (token, lexed) {
	best := token{start: i}
	found := literal
	for j, n := i+1, 0; n <= maxAgain; j, n = j+2, n+1 {
		t, l := percentAt(b, i, j)
		if l == cut {
			return best, cut
		}
		if l == literal {
			break
		}
		best, found = t, whole
		if t.text[0] != '%' || t.end != j+2 {
			break
		}
	}
	return best, found
}

// percentAt reads the digits at j behind a percent sign at i.
func percentAt(b []byte, i, j int) (token, lexed) {
	if j < len(b) && b[j] == 'u' {
		v, l := codeAt(b[j+1:], 4)
		return one(i, j+5, v), l
	}
	v, l := hexAt(b[j:], 2)
	return octet(i, j+2, byte(v&0xff)), l
}

// lexQuoted reads =, and two digits or the end of a line.
func lexQuoted(b []byte, i int) (token, lexed) {
	rest := b[i+1:]
	switch {
	case bytes.HasPrefix(rest, []byte("\n")):
		return token{start: i, end: i + 2}, whole
	case bytes.HasPrefix(rest, []byte("\r\n")):
		return token{start: i, end: i + 3}, whole
	case string(rest) == "\r":
		return token{start: i, end: i}, cut
	}
	v, l := hexAt(rest, 2)
	if l != whole {
		return token{start: i, end: i}, l
	}
	return octet(i, i+3, byte(v&0xff)), whole
}

// lexBackslash reads the last of some backslashes and what it escapes.
func lexBackslash(b []byte, i int) (token, lexed) {
	e := endOfRun(b, i)
	start := max(i, e-maxRun)
	if e == len(b) {
		return token{start: start}, cut
	}
	t, l := escapeAt(b, start, e)
	if l == whole || l == cut && t.end > t.start {
		return t, l
	}
	if e-start > 1 { // one that is escaped itself, before what only looks like one
		return octet(start, e, '\\'), max(l, whole)
	}
	return token{start: start, end: start}, l
}

// escapeAt reads what is behind the last backslash.
func escapeAt(b []byte, start, e int) (token, lexed) {
	switch c := b[e]; c {
	case '"', '/', '\'':
		return octet(start, e+1, c), whole
	case 'b', 'f', 'n', 'r', 't':
		return octet(start, e+1, "\b..\x00\f.......\n...\r.\t"[c-'b']), whole
	case 'u', 'x':
		if e+1 < len(b) && b[e+1] == '{' {
			return braced(b, start, e+2)
		}
		if c == 'x' {
			return hexed(b, start, e+1)
		}
		return coded(b, start, e+1, 4)
	case 'U':
		return coded(b, start, e+1, 8)
	case '0', '1', '2', '3', '4', '5', '6', '7':
		return octal(b, start, e)
	}
	return token{start: start}, literal
}

// hexed reads the digits behind \x.
func hexed(b []byte, start, at int) (token, lexed) {
	v, l := hexAt(b[at:], 2)
	if l != whole {
		return token{start: start}, l
	}
	return octet(start, at+2, byte(v&0xff)), whole
}

// coded reads the digits behind \u or \U.
func coded(b []byte, start, at, n int) (token, lexed) {
	v, l := codeAt(b[at:], n)
	if l != whole {
		return token{start: start}, l
	}
	return one(start, at+n, v), whole
}

// braced reads the digits behind \u{ or \x{, and the other brace.
func braced(b []byte, start, at int) (token, lexed) {
	n := 0
	for n < maxBraced && at+n < len(b) && isHex(b[at+n]) {
		n++
	}
	switch {
	case at+n == len(b):
		return token{start: start}, cut
	case n == 0 || b[at+n] != '}':
		return token{start: start}, literal
	}
	t, l := coded(b, start, at, n)
	if l == whole {
		t.end++
	}
	return t, l
}

const maxBraced = 8 // digits

// octal reads up to three digits, which make a byte.
func octal(b []byte, start, at int) (token, lexed) {
	longest := 3
	if b[at] > '3' {
		longest = 2
	}
	v, n := 0, 0
	for n < longest && at+n < len(b) && '0' <= b[at+n] && b[at+n] <= '7' {
		v = v<<3 | int(b[at+n]&7)
		n++
	}
	l := whole
	if n < longest && at+n == len(b) {
		l = cut
	}
	return octet(start, at+n, byte(v&0xff)), l
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
	signs := newMarks(b[:to], which)
	for i := from; i < to; {
		at := signs.next(i)
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

// marks finds where escapes of some kinds may begin. Each byte that begins some
// is looked for by itself, and no part of a text twice.
type marks struct {
	b     []byte
	signs [4]byte
	at    [4]int // where the next one of each is
	n     int    // of signs
}

func newMarks(b []byte, which kinds) marks {
	m := marks{b: b}
	for _, c := range [...]byte{'%', '\\', '&', '='} {
		if which.mark(c) {
			m.signs[m.n], m.at[m.n] = c, -1
			m.n++
		}
	}
	return m
}

// next is where the next escape from i on may begin, or the length of the text.
// It is asked for ever later places.
func (m *marks) next(i int) int {
	first := len(m.b)
	if i >= first {
		return first
	}
	for k := range m.n {
		if m.at[k] < i {
			n := bytes.IndexByte(m.b[i:], m.signs[k])
			if n < 0 {
				n = len(m.b) - i
			}
			m.at[k] = i + n
		}
		first = min(first, m.at[k])
	}
	return first
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
	n := len(raw)
	if n == 1 {
		raw[0] = c
		return
	}
	was := bytes.Clone(raw)
	for _, end := range ends(was, c) {
		if len(end) >= n {
			continue
		}
		copy(raw, was)
		copy(raw[n-len(end):], end)
		if t, l := lex(raw, 0, true); l == whole && t.start == 0 && t.end == n && t.size == 1 && t.text[0] == c {
			return
		}
	}
	copy(raw, bytes.Repeat([]byte("*"), n))
}

// ends are how an escape that is written as another one is could end.
func ends(was []byte, c byte) []string {
	var out []string
	last := len(was) - 1
	tail := ""
	if !isHex(was[last]) {
		tail = string(was[last:])
	}
	number, slash := bytes.LastIndexByte(was, '#')+1, bytes.LastIndexByte(was, '\\')+1
	capitals := bytes.ContainsAny(was, "ABCDEF") || number == 0 && tail == "" && !bytes.ContainsAny(was, "abcdef")
	// in puts digits into the place of those from i on, if there are so many.
	in := func(i, base int, tail string) {
		digits := strconv.FormatUint(uint64(c), base)
		if capitals {
			digits = strings.ToUpper(digits)
		}
		if width := len(was) - i - len(tail); width >= len(digits) {
			out = append(out, strings.Repeat("0", width-len(digits))+digits+tail)
		}
	}
	switch {
	case tail == "}":
		in(bytes.LastIndexByte(was, '{')+1, 16, tail)
	case number > 0 && was[number]|0x20 == 'x':
		in(number+1, 16, tail)
	case number > 0:
		in(number, 10, tail)
	case slash > 0 && '0' <= was[slash] && was[slash] <= '7':
		in(slash, 8, "")
	case tail == "":
		in(last-1, 16, "")
	}
	return out
}
