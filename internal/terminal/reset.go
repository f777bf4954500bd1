package terminal

import (
	"strconv"
)

// Reset returns the sequences that undo what the program left on, in an order
// that leaves the cursor where it is. It is empty for a program that left
// nothing. The state is kept, so that Reapply can put it back.
func (f *Filter) Reset() []byte {
	left := f.screen
	if left.modes&cursorAltBit != 0 {
		left.restore() // by the end of the alternate screen
	}
	s := &left
	var b []byte
	if s.modes&1 != 0 {
		b = append(b, "\x1b[?2026l"...)
	}
	if s.alternate() {
		b = s.kitty[1].reset(b)
	}
	b = s.resetModes(b)
	b = s.kitty[0].reset(b)
	b = s.resetKeys(b)
	b = s.resetDrawing(b)
	return s.resetColors(b)
}

// resetModes puts every mode but synchronized output back.
func (s *screen) resetModes(b []byte) []byte {
	for i, m := range privateModes() {
		if i > 0 && s.modes&(1<<i) != 0 {
			b = appendMode(b, m.number, m.on)
		}
	}
	if s.insert {
		b = append(b, "\x1b[4l"...)
	}
	if s.newline {
		b = append(b, "\x1b[20l"...)
	}
	return b
}

func appendMode(b []byte, number string, on bool) []byte {
	b = append(b, "\x1b[?"...)
	b = append(b, number...)
	if on {
		return append(b, 'h')
	}
	return append(b, 'l')
}

func (s *screen) resetKeys(b []byte) []byte {
	if s.otherKeys != "" {
		b = append(b, "\x1b[>4m"...)
	}
	if s.keypad {
		b = append(b, "\x1b>"...)
	}
	return b
}

func (s *screen) resetDrawing(b []byte) []byte {
	if s.linked {
		b = append(b, "\x1b]8;;\x1b\\"...)
	}
	if s.shifted {
		b = append(b, si)
	}
	for i, other := range s.charsets {
		if other {
			b = append(b, esc, "()*+"[i], 'B')
		}
	}
	if s.scrolls || s.margins {
		b = append(b, "\x1b7\x1b[r"...) // DECSTBM moves the cursor home
		if s.margins {
			b = append(b, "\x1b[?69h\x1b[s\x1b[?69l"...)
		}
		b = append(b, "\x1b8"...)
	}
	if s.styled {
		b = append(b, "\x1b[m"...)
	}
	if s.protected {
		b = append(b, "\x1b[0\"q"...)
	}
	if s.shape {
		b = append(b, "\x1b[0 q"...)
	}
	if s.console {
		b = append(b, "\x1b[?0c"...)
	}
	if s.tabs {
		b = append(b, "\x1b[?5W"...)
	}
	return b
}

func (s *screen) resetColors(b []byte) []byte {
	if s.progress {
		b = append(b, "\x1b]9;4;0\x1b\\"...)
	}
	if s.palette {
		b = append(b, "\x1b]104\x1b\\"...)
	}
	for i, set := range s.colors {
		if set {
			b = append(b, "\x1b]11"...)
			b = strconv.AppendInt(b, int64(i), 10)
			b = append(b, "\x1b\\"...)
		}
	}
	return b
}

func (k *keyboard) reset(b []byte) []byte {
	if n := len(k.pushed); n > 0 {
		b = append(b, "\x1b[<"...)
		b = strconv.AppendInt(b, int64(n), 10)
		b = append(b, 'u')
	}
	if k.set != "" {
		b = append(b, "\x1b[=0u"...)
	}
	return b
}

// Reapply returns the sequences that turn on again what Reset turned off: the
// modes and the keyboard, not the drawing, which the program repaints.
func (f *Filter) Reapply() []byte {
	s := &f.screen
	b := s.kitty[0].reapply(nil)
	for i, m := range privateModes() {
		if i > 0 && s.modes&(1<<i) != 0 {
			b = appendMode(b, m.number, !m.on)
		}
	}
	if s.alternate() {
		b = s.kitty[1].reapply(b)
	}
	if s.otherKeys != "" {
		b = append(b, "\x1b[>4;"...)
		b = append(b, s.otherKeys...)
		b = append(b, 'm')
	}
	if s.keypad {
		b = append(b, "\x1b="...)
	}
	return b
}

func (k *keyboard) reapply(b []byte) []byte {
	if k.set != "" {
		b = append(b, "\x1b[="...)
		b = append(b, k.set...)
		b = append(b, 'u')
	}
	for _, flags := range k.pushed {
		b = append(b, "\x1b[>"...)
		b = append(b, flags...)
		b = append(b, 'u')
	}
	return b
}
