package terminal

import (
	"strconv"
	"strings"
)

// mode is a private mode that passes.
type mode struct {
	number string
	on     bool // its state after power-up
}

// privateModes returns the private modes that pass, in the order in which
// Reset puts them back. The position of a mode is its bit in screen.modes.
func privateModes() [32]mode {
	return [...]mode{
		{"2026", false},                                 // synchronized output: first, or nothing of the rest shows
		{"1049", false}, {"1047", false}, {"47", false}, // alternate screen
		{"9", false}, {"1000", false}, {"1002", false}, {"1003", false}, // mouse
		{"1005", false}, {"1006", false}, {"1015", false}, {"1016", false}, // its encodings
		{"1007", false}, // wheel as arrow keys
		{"1004", false}, // focus
		{"2004", false}, // bracketed paste
		{"2031", false}, // colour scheme reports
		{"2048", false}, // in-band resize
		{"2027", false}, // grapheme clusters
		{"1", false},    // application cursor keys
		{"66", false},   // application keypad
		{"67", false},   // backspace key
		{"5", false},    // reverse video
		{"6", false},    // origin
		{"7", true},     // wrap
		{"45", false},   // reverse wrap
		{"69", false},   // left and right margins
		{"12", false},   // blinking cursor
		{"80", false},   // sixel scrolling
		{"1034", false}, // 8-bit meta
		{"1036", true},  // meta sends ESC
		{"1039", true},  // alt sends ESC
		{"25", true},    // cursor: last, so that it does not flicker
	}
}

// Bits of screen.modes that have a meaning of their own.
const (
	cursorAltBit = 1 << 1 // 1049 saves the cursor as well
	altBits      = cursorAltBit | 1<<2 | 1<<3
	cursorBits   = 1<<22 | 1<<23 // saved with the cursor
	marginsBit   = 1 << 25
)

// maxModes bounds how many modes one sequence sets.
const maxModes = 32

// setModes passes those modes of a CSI h or CSI l that are known.
func (f *Filter) setModes(dst []byte, s sequenceCSI) []byte {
	on := s.final == 'h'
	modes := strings.Split(s.params, ";")
	if (s.prefix != 0 && s.prefix != '?') || len(modes) > maxModes {
		f.counts[Mode]++
		return dst
	}
	var pass []string
	for _, m := range modes {
		if f.screen.setMode(s.prefix, m, on) {
			pass = append(pass, m)
			continue
		}
		f.counts[Mode]++
	}
	if len(pass) == 0 {
		return dst
	}
	dst = append(dst, esc, '[')
	if s.prefix != 0 {
		dst = append(dst, s.prefix)
	}
	dst = append(dst, strings.Join(pass, ";")...)
	return append(dst, s.final)
}

// screen is what the program left in another state than it was: what Reset
// has to undo.
type screen struct {
	modes     uint64 // bit i: privateModes()[i] is not as after power-up
	insert    bool   // IRM
	newline   bool   // LNM
	pen              // as it is now
	saved     pen    // all that was ever saved with the cursor
	scrolls   bool   // DECSTBM
	margins   bool   // DECSLRM
	shape     bool   // DECSCUSR
	keypad    bool   // DECKPAM
	protected bool   // DECSCA
	tabs      bool   // tab stops were set or cleared
	console   bool   // the Linux console's cursor shape
	otherKeys string // parameter of modifyOtherKeys, or empty
	linked    bool   // a hyperlink is open
	palette   bool   // OSC 4
	colors    [3]bool
	progress  bool        // OSC 9;4
	kitty     [2]keyboard // of the normal and the alternate screen
}

// pen is what a terminal saves and restores together with the cursor (DECSC).
type pen struct {
	styled   bool    // SGR
	charsets [4]bool // G0 to G3 are not ASCII
	shifted  bool    // SO, LS2 or LS3: another set than G0 is shown
	modes    uint64  // of the saved one alone: those of cursorBits
}

// add adds what another pen has on.
func (p *pen) add(other pen) {
	p.styled = p.styled || other.styled
	p.shifted = p.shifted || other.shifted
	for i, on := range other.charsets {
		p.charsets[i] = p.charsets[i] || on
	}
}

// save notes what the program saves. Each screen of a terminal has its own,
// and some have a stack; to remember all of them undoes too much at worst.
func (s *screen) save() {
	s.saved.add(s.pen)
	s.saved.modes |= s.modes & cursorBits
}

// restore notes that what was saved may be on again.
func (s *screen) restore() {
	s.add(s.saved)
	s.modes |= s.saved.modes
}

// keyboard is the state of the kitty keyboard protocol on one screen.
type keyboard struct {
	pushed []string // the flags of each push, oldest first
	set    string   // flags set without a push, or empty
}

// maxPushed bounds the stack, as terminals do; the oldest is forgotten.
const maxPushed = 16

func (s *screen) alternate() bool { return s.modes&altBits != 0 }

// setMode notes a mode and reports whether it may pass.
func (s *screen) setMode(prefix byte, number string, on bool) bool {
	if prefix == 0 {
		return s.setPublicMode(number, on)
	}
	number = strings.TrimLeft(number, "0")
	if number == "1048" || number == "1049" {
		s.saveOrRestore(on)
	}
	if number == "1048" {
		return true
	}
	for i, m := range privateModes() {
		if m.number != number {
			continue
		}
		if bit := uint64(1) << i; on == m.on {
			s.modes &^= bit
		} else {
			s.modes |= bit
		}
		if !on && (number == "47" || number == "1047" || number == "1049") {
			s.modes &^= altBits // any of them leaves the alternate screen
		}
		return true
	}
	return false
}

// setPublicMode is setMode for the modes of ECMA-48.
func (s *screen) setPublicMode(number string, on bool) bool {
	switch number {
	case "4":
		s.insert = on
	case "20":
		s.newline = on
	default:
		return false
	}
	return true
}

func (s *screen) saveOrRestore(save bool) {
	if save {
		s.save()
		return
	}
	s.restore()
}

// designate notes which set one of G0 to G3 is: ESC, its intermediate byte,
// and the set. The sets of 96 characters are never ASCII.
func (s *screen) designate(mid, final byte) {
	if i := strings.IndexByte("()*+", mid); i >= 0 {
		s.charsets[i] = final != 'B'
		return
	}
	if i := strings.IndexByte("-./", mid); i >= 0 {
		s.charsets[i+1] = true
	}
}

// sgr notes whether a style is left on.
func (s *screen) sgr(params []byte) {
	for _, c := range params {
		if c != '0' && c != ';' {
			s.styled = true
			return
		}
	}
	s.styled = false
}

// follow notes what a control sequence that passes leaves behind.
func (s *screen) follow(q sequenceCSI) {
	key := q.mid + string(rune(q.final))
	if q.prefix != 0 {
		key = string(rune(q.prefix)) + key
	}
	switch key {
	case "r":
		s.scrolls = q.params != ""
	case "s":
		if s.margins = s.modes&marginsBit != 0; !s.margins {
			s.save()
		}
	case "u":
		s.restore()
	case "#q", "#}":
		s.styled = true // whatever was pushed
	case "g":
		s.tabs = true
	case "?W":
		s.tabs = false
	case " q":
		s.shape = q.params != "" && q.params != "0"
	case "\"q":
		s.protected = q.params == "1"
	case "?c":
		s.console = q.params != "" && q.params != "0"
	case ">m":
		s.modifyKeys(q.params)
	case ">n":
		s.otherKeys = ""
	case ">u", "<u", "=u":
		s.keyboard().change(q)
	}
}

func (s *screen) modifyKeys(params string) {
	_, value, _ := strings.Cut(params, ";")
	s.otherKeys = strings.TrimLeft(value, "0")
}

func (s *screen) keyboard() *keyboard {
	if s.alternate() {
		return &s.kitty[1]
	}
	return &s.kitty[0]
}

func (k *keyboard) change(q sequenceCSI) {
	first, _, _ := strings.Cut(q.params, ";")
	switch q.prefix {
	case '>':
		if len(k.pushed) == maxPushed {
			k.pushed = append(k.pushed[:0], k.pushed[1:]...)
		}
		k.pushed = append(k.pushed, first)
	case '<':
		n, err := strconv.Atoi(first)
		if err != nil || n < 1 {
			n = 1
		}
		k.pushed = k.pushed[:max(0, len(k.pushed)-n)]
	case '=':
		if k.set = strings.TrimLeft(q.params, "0"); strings.HasPrefix(k.set, ";") {
			k.set = ""
		}
	}
}
