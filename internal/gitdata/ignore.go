package gitdata

import (
	"bytes"
	"strings"
)

// MaxIgnoreBytes is the largest file of ignore rules that is read.
const MaxIgnoreBytes = 1 << 20

// maxIgnoreRules bounds what one file may hold: each is tried on each name.
const maxIgnoreRules = 2000

// Ignore is a file of ignore rules (gitignore(5)), in file order.
type Ignore []ignoreRule

type ignoreRule struct {
	glob   glob
	keep   bool // it began with "!"
	folder bool // it ended in "/"
	base   bool // it has no other slash, and so is of the last part of a path
}

// ParseIgnore reads rules as git's dir.c does. What cannot match anything is
// left out.
func ParseIgnore(data []byte) Ignore {
	var list Ignore
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	for line := range bytes.Lines(data) {
		text, ended := strings.CutSuffix(string(line), "\n")
		if ended {
			text = strings.TrimSuffix(text, "\r")
		}
		if i := strings.IndexByte(text, 0); i >= 0 {
			text = text[:i]
		}
		if strings.HasPrefix(text, "#") || len(list) >= maxIgnoreRules {
			continue
		}
		if r, ok := parseIgnoreRule(trimSpaces(text)); ok {
			list = append(list, r)
		}
	}
	return list
}

func parseIgnoreRule(text string) (ignoreRule, bool) {
	var r ignoreRule
	text, r.keep = strings.CutPrefix(text, "!")
	text, r.folder = strings.CutSuffix(text, "/")
	r.base = !strings.Contains(text, "/")
	text = strings.TrimPrefix(text, "/")
	if text == "" {
		return r, false
	}
	var ok bool
	r.glob, ok = parseGlob(text)
	return r, ok
}

// trimSpaces drops blanks at the end that no backslash keeps.
func trimSpaces(s string) string {
	last := -1
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case ' ':
			if last < 0 {
				last = i
			}
			continue
		case '\\':
			if i++; i >= len(s) {
				return s
			}
		}
		last = -1
	}
	if last >= 0 {
		return s[:last]
	}
	return s
}

// Match looks for the last rule that matches a path, which is relative to the
// folder of the file. Decided is false if none does.
func (l Ignore) Match(path string, folder bool) (ignored, decided bool) {
	base := path[strings.LastIndexByte(path, '/')+1:]
	for i := len(l) - 1; i >= 0; i-- {
		r := &l[i]
		if r.folder && !folder {
			continue
		}
		text := path
		if r.base {
			text = base
		}
		if r.glob.match(text) {
			return !r.keep, true
		}
	}
	return false, false
}

// glob is a pattern of git's wildmatch.c with WM_PATHNAME. It is matched by
// following all its positions at once, so that no pattern takes longer than
// its length times that of the path.
type glob []globPart

type globPart struct {
	kind globKind
	byte byte
	set  *[256]bool
}

type globKind uint8

const (
	globByte    globKind = iota // exactly this one
	globSet                     // one of these
	globStar                    // any number of bytes but "/"
	globAll                     // any number of bytes
	globFolders                 // nothing, or any number of bytes and a "/" behind them
)

func parseGlob(text string) (glob, bool) {
	var g glob
	for i := 0; i < len(text); {
		switch c := text[i]; c {
		case '\\':
			if i++; i >= len(text) {
				return nil, false
			}
			g = append(g, globPart{kind: globByte, byte: text[i]})
			i++
		case '?':
			g = append(g, globPart{kind: globSet, set: notSlash()})
			i++
		case '*':
			part, n := parseStars(text, i)
			g = append(g, part)
			i += n
		case '[':
			set, n, ok := parseSet(text[i:])
			if !ok {
				return nil, false
			}
			g = append(g, globPart{kind: globSet, set: set})
			i += n
		default:
			g = append(g, globPart{kind: globByte, byte: c})
			i++
		}
	}
	return g, true
}

// parseStars reads the stars at i, and the slash behind "**/": between slashes,
// or an end and a slash, two stars are for folders.
func parseStars(text string, i int) (globPart, int) {
	n := 0
	for i+n < len(text) && text[i+n] == '*' {
		n++
	}
	// git compares what stands before the first wildcard by itself, and takes
	// what follows for the beginning.
	starts := i == 0 || text[i-1] == '/' || !strings.ContainsAny(text[:i], `*?[\`)
	switch rest := text[i+n:]; {
	case n < 2 || !starts:
	case rest == "":
		return globPart{kind: globAll}, n
	case rest[0] == '/':
		return globPart{kind: globFolders}, n + 1
	case strings.HasPrefix(rest, `\/`):
		return globPart{kind: globFolders}, n + 2
	}
	return globPart{kind: globStar}, n
}

func notSlash() *[256]bool {
	var set [256]bool
	for c := range set {
		set[c] = c != '/'
	}
	return &set
}

// setParser reads what stands between "[" and "]".
type setParser struct {
	text string
	pos  int
	set  [256]bool
	prev int // the byte before, from which a range may begin; 0 for none
}

// parseSet reads "[...]" and returns its length.
func parseSet(text string) (*[256]bool, int, bool) {
	p := setParser{text: text, pos: 1}
	negated := p.at("!") || p.at("^")
	if negated {
		p.pos++
	}
	for first := true; ; first = false {
		if p.pos >= len(p.text) {
			return nil, 0, false
		}
		if p.at("]") && !first {
			break
		}
		if !p.item() {
			return nil, 0, false
		}
	}
	for b := range p.set {
		p.set[b] = p.set[b] != negated && b != '/'
	}
	return &p.set, p.pos + 1, true
}

func (p *setParser) at(word string) bool { return strings.HasPrefix(p.text[p.pos:], word) }

// item reads a byte, a range or a class.
func (p *setParser) item() bool {
	switch {
	case p.at("-") && p.prev != 0 && p.pos+1 < len(p.text) && p.text[p.pos+1] != ']':
		p.pos++
		return p.rangeTo()
	case p.at("[:"):
		return p.class()
	}
	c, ok := p.byte()
	p.set[c] = true
	p.prev = int(c)
	return ok
}

// byte reads one, perhaps behind a backslash.
func (p *setParser) byte() (byte, bool) {
	c := p.text[p.pos]
	p.pos++
	if c != '\\' {
		return c, true
	}
	if p.pos >= len(p.text) {
		return 0, false
	}
	c = p.text[p.pos]
	p.pos++
	return c, true
}

// rangeTo adds the bytes from the one before to the next.
func (p *setParser) rangeTo() bool {
	high, ok := p.byte()
	for b := p.prev; b <= int(high); b++ {
		p.set[b] = true
	}
	p.prev = 0
	return ok
}

// class adds a class such as [:alpha:]. Without its end, "[" is itself.
func (p *setParser) class() bool {
	rest := p.text[p.pos+2:]
	end := strings.IndexByte(rest, ']')
	if end < 0 {
		return false
	}
	name, closed := strings.CutSuffix(rest[:end], ":")
	if !closed {
		p.set['['] = true
		p.prev = '['
		p.pos++
		return true
	}
	in := classes()[name]
	if in == nil {
		return false
	}
	const ascii = 128
	for b := range ascii {
		p.set[b] = p.set[b] || in(byte(b))
	}
	p.pos += 2 + end + 1
	p.prev = 0
	return true
}

func isLower(c byte) bool { return c >= 'a' && c <= 'z' }
func isUpper(c byte) bool { return c >= 'A' && c <= 'Z' }
func isDigit(c byte) bool { return c >= '0' && c <= '9' }
func isAlnum(c byte) bool { return isLower(c) || isUpper(c) || isDigit(c) }
func isGraph(c byte) bool { return c > ' ' && c < 0x7f }

func classes() map[string]func(byte) bool {
	return map[string]func(byte) bool{
		"alnum": isAlnum, "digit": isDigit, "graph": isGraph, "lower": isLower, "upper": isUpper,
		"alpha":  func(c byte) bool { return isLower(c) || isUpper(c) },
		"blank":  func(c byte) bool { return c == ' ' || c == '\t' },
		"cntrl":  func(c byte) bool { return c < ' ' || c == 0x7f },
		"print":  func(c byte) bool { return c >= ' ' && c < 0x7f },
		"punct":  func(c byte) bool { return isGraph(c) && !isAlnum(c) },
		"space":  func(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' },
		"xdigit": func(c byte) bool { return isDigit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' },
	}
}

// match follows all positions of the pattern at once. Of globFolders there are
// two: at its beginning nothing of it has been read, and inside it something.
func (g glob) match(text string) bool {
	if g.plain() {
		return g.equals(text)
	}
	now, next := make([]bool, 2*len(g)+2), make([]bool, 2*len(g)+2)
	g.enter(now, 0)
	for i := range len(text) {
		clear(next)
		alive := false
		for at := range g {
			alive = g.step(now, next, at, text[i]) || alive
		}
		if !alive {
			return false
		}
		now, next = next, now
	}
	return now[2*len(g)]
}

// step reads one byte at a position, if the pattern may be there.
func (g glob) step(now, next []bool, at int, c byte) bool {
	outside, inside := now[2*at], now[2*at+1]
	if !outside && !inside {
		return false
	}
	switch p := g[at]; p.kind {
	case globByte:
		if c != p.byte {
			return false
		}
		g.enter(next, at+1)
	case globSet:
		if !p.set[c] {
			return false
		}
		g.enter(next, at+1)
	case globStar:
		if c == '/' {
			return false
		}
		g.enter(next, at)
	case globAll:
		g.enter(next, at)
	case globFolders:
		next[2*at+1] = true
		if c == '/' {
			g.enter(next, at+1)
		}
	}
	return true
}

// enter marks a position, and those behind parts that may be empty.
func (g glob) enter(states []bool, at int) {
	for ; ; at++ {
		if states[2*at] {
			return
		}
		states[2*at] = true
		if at == len(g) || g[at].kind == globByte || g[at].kind == globSet {
			return
		}
	}
}

func (g glob) plain() bool {
	for _, p := range g {
		if p.kind != globByte {
			return false
		}
	}
	return true
}

func (g glob) equals(text string) bool {
	if len(g) != len(text) {
		return false
	}
	for i, p := range g {
		if p.byte != text[i] {
			return false
		}
	}
	return true
}
