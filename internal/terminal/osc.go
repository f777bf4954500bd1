package terminal

import "strings"

// maxLink bounds a hyperlink's target.
const maxLink = 2 << 10

// endOSC handles the end of an OSC that holds printable ASCII only. The end
// is passed as it came, because a terminal ends its answer in the same way.
func (f *Filter) endOSC(dst []byte, end string) []byte {
	number, rest, _ := strings.Cut(string(f.seq), ";")
	if !f.screen.command(number, rest) {
		f.counts[oscClass(f.seq)]++
		return dst
	}
	dst = append(dst, esc, ']')
	dst = append(dst, f.seq...)
	return append(dst, end...)
}

// command decides on an OSC and notes what it leaves behind.
func (s *screen) command(number, rest string) bool {
	switch number {
	case "8":
		return s.link(rest)
	case "4":
		return s.setPalette(rest)
	case "10", "11", "12":
		return s.setColor(number, rest)
	case "104":
		s.palette = s.palette && rest != "" // one colour's reset is not all of them
		return isDigits(rest, ";")
	case "110", "111", "112":
		if rest != "" {
			return false
		}
		s.colors[number[2]-'0'] = false
		return true
	case "133":
		return isMark(rest)
	case "9": // progress, which is two numbers
		state, ok := strings.CutPrefix(rest, "4;")
		if !ok || !isDigits(state, ";") {
			return false
		}
		s.progress = state != "0" && !strings.HasPrefix(state, "0;")
		return true
	}
	return false
}

// link passes a hyperlink to the web or to an address, and the end of one.
func (s *screen) link(rest string) bool {
	params, target, ok := strings.Cut(rest, ";")
	if !ok || len(target) > maxLink || !isMark(params) || strings.Contains(target, " ") {
		return false
	}
	scheme, _, _ := strings.Cut(target, ":")
	switch strings.ToLower(scheme) {
	case "http", "https", "mailto":
		s.linked = true
		return true
	}
	if target != "" {
		return false
	}
	s.linked = false
	return true
}

// setPalette passes queries and settings of colours by number.
func (s *screen) setPalette(rest string) bool {
	pairs := strings.Split(rest, ";")
	if len(pairs)%2 != 0 {
		return false
	}
	sets := false
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i] == "" || !isDigits(pairs[i], "") || !isColor(pairs[i+1]) {
			return false
		}
		sets = sets || pairs[i+1] != "?"
	}
	s.palette = s.palette || sets
	return true
}

// setColor passes a query or setting of the foreground, background or cursor
// colour. More values would set the following ones.
func (s *screen) setColor(number, value string) bool {
	if !isColor(value) {
		return false
	}
	if value != "?" {
		s.colors[number[1]-'0'] = true
	}
	return true
}

// isColor holds of "?", of XParseColor's numeric forms and of names.
func isColor(v string) bool {
	return v == "?" || (v != "" && len(v) <= 64 && only(v, "#:/. "))
}

// isMark holds of a short list of words and settings.
func isMark(v string) bool { return len(v) <= 256 && only(v, "=;:_-.%") }

func isDigits(v, extra string) bool {
	for i := range len(v) {
		if (v[i] < '0' || v[i] > '9') && strings.IndexByte(extra, v[i]) < 0 {
			return false
		}
	}
	return true
}

// only reports whether v is ASCII letters, digits and the given others.
func only(v, extra string) bool {
	for i := range len(v) {
		c := v[i]
		letter := (c|0x20) >= 'a' && (c|0x20) <= 'z'
		digit := c >= '0' && c <= '9'
		if !letter && !digit && strings.IndexByte(extra, c) < 0 {
			return false
		}
	}
	return true
}

// oscClass names the class that a dropped OSC is counted in.
func oscClass(seq []byte) Class {
	number, _, _ := strings.Cut(string(seq[:min(len(seq), 16)]), ";")
	switch number {
	case "52", "5522":
		return Clipboard
	case "0", "1", "2", "30", "31", "l", "L", "I":
		return Title
	case "1337", "5113":
		return Transfer
	case "8":
		return Link
	case "9", "99", "777":
		return Notification
	case "4", "10", "11", "12", "60", "61", "50", "51":
		return AnswerBack
	}
	return Other
}
