package terminal

import (
	"unicode/utf8"
)

// Control characters that the parser knows.
const (
	enq = 0x05
	bel = 0x07
	lf  = 0x0a
	so  = 0x0e
	si  = 0x0f
	can = 0x18
	sub = 0x1a
	esc = 0x1b
	del = 0x7f
)

// Bounds of what one sequence may hold. A longer CSI or OSC is dropped; the
// end of a longer string is assumed, so that a lone opening does not swallow
// the rest of a session.
const (
	maxCSI    = 256
	maxOSC    = 4 << 10
	maxString = 8 << 20
)

// replacement is U+FFFD, for bytes that are no text.
const replacement = "\xef\xbf\xbd"

// state is where the parser is.
type state uint8

const (
	ground    state = iota
	escape          // after ESC
	escapeMid       // after ESC and intermediate bytes
	csi             // after ESC [
	osc             // after ESC ], collecting
	oscEnd          // in osc, after an ESC
	str             // in a string that is dropped
	strEnd          // in str, after an ESC
)

// Filter passes what a program writes to a terminal, less what could act
// outside the terminal's own area. The zero value is ready. It is for one
// goroutine.
//
// Its output depends on the bytes alone and not on how they were cut into
// calls; it is valid UTF-8, and holds only complete sequences once Flush was
// called.
type Filter struct {
	state   state
	seq     []byte // the sequence so far, without its introducer
	long    bool   // seq is not all of it
	skipped int    // bytes of the dropped string so far
	oneLine bool   // the dropped string is an OSC, in which no line ends
	partial [utf8.UTFMax]byte
	have    int // bytes in partial
	screen  screen
	counts  Counts
}

// Filter appends to dst what may pass of src and returns the result.
func (f *Filter) Filter(dst, src []byte) []byte {
	for len(src) > 0 {
		n := 0
		switch {
		case f.state == ground && f.have == 0:
			n = plain(src)
			n += f.styles(src[n:])
			dst = append(dst, src[:n]...)
		case f.state == str:
			n = f.skip(src)
		}
		if src = src[n:]; len(src) == 0 {
			break
		}
		dst = f.step(dst, src[0])
		src = src[1:]
	}
	return dst
}

// Flush appends the rest of an unfinished character and forgets an unfinished
// sequence. It is for the end of the program.
func (f *Filter) Flush(dst []byte) []byte {
	if f.have > 0 {
		f.have = 0
		dst = append(dst, replacement...)
	}
	f.state = ground
	return dst
}

// Dropped returns how many sequences were dropped so far.
func (f *Filter) Dropped() Counts { return f.counts }

// plain returns how many bytes at the front of src are text and harmless
// control characters, whole characters only.
func plain(src []byte) int {
	i := 0
	for i < len(src) {
		c := src[i]
		if c < utf8.RuneSelf {
			if !harmless(c) {
				return i
			}
			i++
			continue
		}
		r, size := utf8.DecodeRune(src[i:])
		if size == 1 || isC1(r) {
			return i
		}
		i += size
	}
	return i
}

// styles returns the length of the SGR sequence at the front of src, or 0
// when there is none that is complete. It is what step would do, at once:
// coloured text is mostly these.
func (f *Filter) styles(src []byte) int {
	if len(src) < 3 || src[0] != esc || src[1] != '[' {
		return 0
	}
	for i, c := range src[2:min(len(src), maxCSI)] {
		if c >= '0' && c <= ';' {
			continue
		}
		if c != 'm' {
			return 0
		}
		f.screen.sgr(src[2 : 2+i])
		return 2 + i + 1
	}
	return 0
}

// harmless holds of printable ASCII and of the control characters that move
// the cursor or ring.
func harmless(c byte) bool {
	const controls = 1<<bel | 1<<'\b' | 1<<'\t' | 1<<lf | 1<<'\v' | 1<<'\f' | 1<<'\r'
	return (c >= 0x20 && c < del) || (c < 0x20 && controls&(1<<c) != 0)
}

func isC1(r rune) bool { return r >= 0x80 && r <= 0x9f }

// step handles one byte.
func (f *Filter) step(dst []byte, c byte) []byte {
	switch f.state {
	case ground:
		return f.text(dst, c)
	case escape, escapeMid, csi:
		return f.sequence(dst, c)
	case osc:
		return f.command(dst, c)
	case oscEnd, strEnd:
		return f.afterEscape(dst, c)
	case str:
		return f.dropping(dst, c)
	}
	return dst
}

// text handles a byte outside of any sequence.
func (f *Filter) text(dst []byte, c byte) []byte {
	if f.have == 0 && c < utf8.RuneSelf {
		return f.control(dst, c)
	}
	if f.have > 0 && c < utf8.RuneSelf {
		f.have = 0
		return f.text(append(dst, replacement...), c)
	}
	f.partial[f.have] = c
	f.have++
	p := f.partial[:f.have]
	if !utf8.FullRune(p) {
		return dst
	}
	r, size := utf8.DecodeRune(p)
	if size == f.have && size > 1 {
		f.have = 0
		if isC1(r) {
			f.counts[C1]++
			return append(dst, replacement...)
		}
		return append(dst, p...)
	}
	alone := f.have == 1
	f.have = 0
	dst = append(dst, replacement...)
	if alone {
		if c <= 0x9f {
			f.counts[C1]++
		}
		return dst
	}
	return f.text(dst, c) // the byte that broke the character begins another
}

// control handles an ASCII byte wherever the terminal would act on it at
// once. CAN and SUB are never passed: no sequence that they could end is, and
// CAN opens ZMODEM.
func (f *Filter) control(dst []byte, c byte) []byte {
	switch {
	case c == esc:
		f.state, f.seq, f.long = escape, f.seq[:0], false
		return dst
	case c == so || c == si:
		f.screen.shifted = c == so
		return append(dst, c)
	case harmless(c):
		return append(dst, c)
	case c == enq:
		f.counts[AnswerBack]++
	case c == can:
		f.counts[Transfer]++
	}
	return dst
}

// sequence handles a byte after ESC or ESC [. Control characters inside are
// acted upon at once, so they go before the sequence.
func (f *Filter) sequence(dst []byte, c byte) []byte {
	switch {
	case c == can || c == sub:
		f.state = ground
		return dst
	case c < 0x20:
		return f.control(dst, c)
	case c == del:
		return dst
	case c >= utf8.RuneSelf:
		f.counts[Other]++
		f.state = ground
		return f.text(dst, c)
	}
	if f.state == csi {
		return f.collectCSI(dst, c)
	}
	if c < 0x30 {
		f.state = escapeMid
		f.collect(c, maxCSI)
		return dst
	}
	if f.state == escapeMid {
		return f.endEscape(dst, c)
	}
	return f.introduce(dst, c)
}

func (f *Filter) collect(c byte, most int) {
	if len(f.seq) >= most {
		f.long = true
		return
	}
	f.seq = append(f.seq, c)
}

func (f *Filter) collectCSI(dst []byte, c byte) []byte {
	if c < 0x40 {
		f.collect(c, maxCSI)
		return dst
	}
	f.state = ground
	if f.long {
		f.counts[Other]++
		return dst
	}
	return f.endCSI(dst, c)
}

// introduce handles the byte right after ESC.
func (f *Filter) introduce(dst []byte, c byte) []byte {
	switch c {
	case '[':
		f.state = csi
	case ']':
		f.state = osc
	case 'P', 'X', '^': // DCS, SOS, PM
		f.drop(String, false)
	case '_': // APC
		f.drop(Transfer, false)
	case 'k': // screen's window name
		f.drop(Title, false)
	default:
		return f.endEscape(dst, c)
	}
	return dst
}

// drop begins to swallow a string and counts it.
func (f *Filter) drop(class Class, oneLine bool) {
	f.counts[class]++
	f.state, f.skipped, f.oneLine = str, 0, oneLine
}

// skip returns how many bytes at the front of src a dropped string has
// without a byte that could end it.
func (f *Filter) skip(src []byte) int {
	n := min(len(src), maxString-f.skipped)
	for i, c := range src[:n] {
		if c < 0x20 && (c == esc || c == bel || c == can || c == sub || c == lf) {
			n = i
			break
		}
	}
	f.skipped += n
	return n
}

// dropping handles a byte that may end a dropped string.
func (f *Filter) dropping(dst []byte, c byte) []byte {
	f.skipped++
	switch {
	case c == esc:
		f.state = strEnd
	case c == can, c == sub, c == bel && f.oneLine, c == lf && f.oneLine:
		f.state = ground
	case f.skipped > maxString:
		f.state = ground
		return f.text(dst, c)
	}
	return dst
}

// afterEscape handles the byte after an ESC in a string: a backslash ends the
// string, anything else begins a sequence of its own and the string is
// dropped.
func (f *Filter) afterEscape(dst []byte, c byte) []byte {
	was := f.state
	if c == '\\' {
		f.state = ground
		if was == oscEnd {
			return f.endOSC(dst, "\x1b\\")
		}
		return dst
	}
	if was == oscEnd {
		f.counts[oscClass(f.seq)]++
	}
	f.state, f.seq, f.long = escape, f.seq[:0], false
	return f.sequence(dst, c)
}

// command handles a byte of an OSC. Those that may pass hold printable ASCII
// only; at another byte the rest is dropped.
func (f *Filter) command(dst []byte, c byte) []byte {
	switch {
	case c == bel:
		f.state = ground
		return f.endOSC(dst, "\a")
	case c == esc:
		f.state = oscEnd
	case c == can || c == sub || c == lf:
		f.state = ground
		f.counts[oscClass(f.seq)]++
	case c < 0x20 || c >= del || len(f.seq) >= maxOSC:
		f.drop(oscClass(f.seq), true)
	default:
		f.seq = append(f.seq, c)
	}
	return dst
}
