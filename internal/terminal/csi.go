package terminal

import "strings"

// endEscape handles the last byte of an escape sequence that is no
// introducer.
func (f *Filter) endEscape(dst []byte, final byte) []byte {
	f.state = ground
	class, ok := Other, false
	switch {
	case f.long:
	case len(f.seq) == 0:
		if final == 'c' { // some terminals keep a mode through RIS
			dst = append(dst, f.Reset()...)
		}
		class, ok = f.plainEscape(final)
	case len(f.seq) == 1:
		ok = f.midEscape(f.seq[0], final)
	}
	if !ok {
		if final != '\\' || len(f.seq) > 0 { // a lone ST ends nothing and does nothing
			f.counts[class]++
		}
		return dst
	}
	dst = append(dst, esc)
	dst = append(dst, f.seq...)
	return append(dst, final)
}

// plainEscape decides on ESC and one byte.
func (f *Filter) plainEscape(final byte) (Class, bool) {
	switch final {
	case 'c': // RIS: everything is as after power-up
		f.screen = screen{}
		return Other, true
	case '=', '>': // application and numeric keypad
		f.screen.keypad = final == '='
		return Other, true
	case '7', '8': // the cursor
		f.screen.saveOrRestore(final == '7')
		return Other, true
	case 'n', 'o': // LS2, LS3: SI undoes them
		f.screen.shifted = true
		return Other, true
	case 'H': // a tab stop
		f.screen.tabs = true
		return Other, true
	case '6', '9', 'D', 'E', 'M', 'N', 'O', '|', '}', '~':
		return Other, true
	case 'Z': // DECID: CSI c has the same answer
		return AnswerBack, false
	}
	return Other, false
}

// midEscape decides on ESC, one intermediate byte and a final one. ESC % is
// not among them: it leaves UTF-8, and the bytes of a character would be
// control characters then.
func (f *Filter) midEscape(mid, final byte) bool {
	switch mid {
	case '(', ')', '*', '+', '-', '.', '/':
		f.screen.designate(mid, final)
		return true
	case '#':
		return final >= '3' && final <= '8'
	}
	return false
}

// sequenceCSI is a control sequence taken apart: CSI prefix parameters
// intermediates final.
type sequenceCSI struct {
	prefix byte   // one of < = > ?, or 0
	params string // digits, semicolons and colons
	mid    string
	final  byte
}

// splitCSI takes a sequence apart. It reports false when its bytes are not in
// that order.
func splitCSI(seq []byte, final byte) (sequenceCSI, bool) {
	s := sequenceCSI{final: final}
	rest := string(seq)
	if rest != "" && rest[0] >= '<' && rest[0] <= '?' {
		s.prefix, rest = rest[0], rest[1:]
	}
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > ';' })
	if end < 0 {
		end = len(rest)
	}
	s.params, s.mid = rest[:end], rest[end:]
	for i := range len(s.mid) {
		if s.mid[i] >= 0x30 {
			return s, false
		}
	}
	return s, true
}

// endCSI handles the last byte of a control sequence.
func (f *Filter) endCSI(dst []byte, final byte) []byte {
	if final == 'm' && sgr(f.seq) {
		f.screen.sgr(f.seq)
		return appendCSI(dst, f.seq, final)
	}
	s, ok := splitCSI(f.seq, final)
	if !ok {
		f.counts[Other]++
		return dst
	}
	if (final == 'h' || final == 'l') && s.mid == "" {
		return f.setModes(dst, s)
	}
	if class, ok := s.judge(); !ok {
		f.counts[class]++
		return dst
	}
	f.screen.follow(s)
	return appendCSI(dst, f.seq, final)
}

func appendCSI(dst, seq []byte, final byte) []byte {
	dst = append(dst, esc, '[')
	dst = append(dst, seq...)
	return append(dst, final)
}

// sgr reports whether seq is nothing but parameters, of which SGR takes any.
func sgr(seq []byte) bool {
	for _, c := range seq {
		if c < '0' || c > ';' {
			return false
		}
	}
	return true
}

// judge decides on a control sequence that sets no modes: false and its class
// for one that is dropped. Colons are for SGR alone.
func (s sequenceCSI) judge() (Class, bool) {
	if strings.ContainsRune(s.params, ':') {
		return Other, false
	}
	switch {
	case s.mid != "":
		return s.judgeMid()
	case s.prefix == 0:
		return s.judgePlain()
	case s.prefix == '?':
		return s.judgePrivate()
	}
	return s.judgeSecondary()
}

// judgePlain is for sequences without prefix and intermediates.
func (s sequenceCSI) judgePlain() (Class, bool) {
	switch s.final {
	case '@', 'A', 'B', 'C', 'D', 'E', 'F', 'G', 'H', 'I', 'J', 'K', 'L', 'M', 'P',
		'S', 'X', 'Z', '`', 'a', 'b', 'd', 'e', 'f', 'g', 'r', 's', 'u':
		return Other, true
	case 'T': // with more parameters: highlight tracking, which waits for the program
		return Other, !strings.Contains(s.params, ";")
	case 'c':
		return AnswerBack, s.params == "" || s.params == "0"
	case 'n':
		return AnswerBack, s.params == "5" || s.params == "6"
	case 'i':
		return Print, false
	case 't':
		return s.judgeWindow()
	case 'x': // DECREQTPARM
		return AnswerBack, false
	}
	return Other, false
}

// judgeWindow passes the reports of sizes and nothing else.
func (s sequenceCSI) judgeWindow() (Class, bool) {
	first, _, _ := strings.Cut(s.params, ";")
	switch first {
	case "14", "15", "16", "18", "19":
		return Window, true
	case "20", "21", "22", "23":
		return Title, false
	}
	return Window, false
}

// judgePrivate is for sequences with the prefix "?".
func (s sequenceCSI) judgePrivate() (Class, bool) {
	switch s.final {
	case 'J', 'K': // selective erase
		return Other, true
	case 'c': // Linux console: cursor shape
		return Other, true
	case 'm': // which modifyOtherKeys?
		return Other, s.params == "4"
	case 'n': // where is the cursor, is the colour scheme dark?
		return AnswerBack, s.params == "6" || s.params == "996"
	case 'u': // which kitty keyboard flags?
		return Other, s.params == ""
	case 'W': // tab stops at every eighth column
		return Other, s.params == "5"
	case 'i':
		return Print, false
	}
	return Other, false
}

// judgeSecondary is for sequences with the prefixes "<", "=" and ">".
func (s sequenceCSI) judgeSecondary() (Class, bool) {
	short := s.params == "" || s.params == "0"
	switch string([]byte{s.prefix, s.final}) {
	case ">c", "=c", ">q": // device attributes, terminal version
		return AnswerBack, short
	case ">u", "=u", "<u": // kitty keyboard
		return Other, true
	case ">m": // modifyOtherKeys
		return Other, s.params == "" || s.params == "4" || strings.HasPrefix(s.params, "4;")
	case ">n":
		return Other, s.params == "4"
	case ">t", ">T": // how titles are reported
		return Title, false
	}
	return Other, false
}

// judgeMid is for sequences with intermediates.
func (s sequenceCSI) judgeMid() (Class, bool) {
	key := s.mid + string(rune(s.final))
	if s.prefix == '?' {
		return AnswerBack, key == "$p" // DECRQM: the answer is two numbers
	}
	if s.prefix != 0 {
		return Other, false
	}
	switch key {
	case " q", " @", " A", // cursor shape, scrolling sideways
		"!p", "\"q", // soft reset, protected characters
		"'}", "'~", // columns
		"#p", "#q", "#{", "#}", // the stack of SGR
		"$r", "$t", "$v", "$x", "$z", "${": // rectangles
		return Other, true
	case "$p":
		return AnswerBack, true
	case "*y", "$w", "'|", "#|", "&u", "+p", "#R", "#S", "\"v":
		return AnswerBack, false
	}
	return Other, false
}
