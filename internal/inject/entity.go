package inject

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// lexEntity reads &, up to maxAgain times amp;, and the rest of an entity.
func lexEntity(b []byte, i int) (token, lexed) {
	best := token{start: i}
	found := literal
	for j, n := i+1, 0; n < maxAgain; n++ {
		t, l := entityAt(b[j:])
		if t.end > 0 {
			best, found = t, whole
			best.start, best.end = i, j+t.end
		}
		if l == cut {
			return best, cut
		}
		if l == literal || t.text[0] != '&' || b[j] == '#' {
			break
		}
		j += t.end
	}
	return best, found
}

// maxEntity is the longest entity without its ampersand.
const maxEntity = 24

// entityAt reads an entity behind its ampersand. Where more could follow it says
// what it is if nothing does.
func entityAt(b []byte) (token, lexed) {
	ends := len(b) < maxEntity
	b = b[:min(len(b), maxEntity)]
	if len(b) > 0 && b[0] == '#' {
		return numberAt(b, ends)
	}
	n := 0
	for n < len(b) && isAlphanumeric(b[n]) {
		n++
	}
	if n < len(b) && b[n] == ';' {
		if text := named(string(b[:n])); text != "" {
			return spelled(n+1, text), whole
		}
	}
	l := literal
	if ends && n == len(b) && strings.Contains(entityNames, " "+string(b)) {
		l = cut
	}
	if end := openName(b[:n]); end > 0 {
		return spelled(end, named(string(b[:end]))), max(l, whole)
	}
	return token{}, l
}

// openName is how long the name is that a text begins with and that HTML knows
// without a semicolon, or 0.
func openName(b []byte) int {
	if len(b) < 2 || b[1]|0x20 != 'm' && b[1]|0x20 != 't' && b[1]|0x20 != 'u' {
		return 0
	}
	for _, name := range [...]string{"amp", "lt", "gt", "quot", "AMP", "LT", "GT", "QUOT"} {
		if bytes.HasPrefix(b, []byte(name)) {
			return len(name)
		}
	}
	return 0
}

// spelled makes a token of a short text.
func spelled(end int, text string) token {
	t := token{end: end}
	t.size = copy(t.text[:], text)
	return t
}

// numberAt reads an entity of a number, whose semicolon may be left out (HTML
// §13.2.5.80).
func numberAt(b []byte, ends bool) (token, lexed) {
	i, base := 1, rune(10)
	if i < len(b) && b[i]|0x20 == 'x' {
		i, base = 2, 16
	}
	first, v := i, rune(0)
	for ; i < len(b) && (isHex(b[i]) && base == 16 || '0' <= b[i] && b[i] <= '9'); i++ {
		v = min(v*base+rune(b[i]&15+b[i]>>6*9), utf8.MaxRune+1)
	}
	l := whole
	if i == len(b) {
		if !ends {
			return token{}, literal
		}
		l = cut
	}
	if i == first || v == 0 || utf8.RuneLen(v) < 0 {
		if l == whole {
			l = literal
		}
		return token{}, l
	}
	if l == whole && b[i] == ';' {
		i++
	}
	return one(0, i, v), l
}

// entityNames are the names of what is in ASCII, each behind a blank.
const entityNames = " AMP DiacriticalGrave GT Hat LT NewLine QUOT Tab UnderBar VerticalLine amp apos ast bsol colon comma commat dollar equals excl fjlig grave gt lbrace lbrack lcub lowbar lpar lsqb lt midast num percnt period plus quest quot rbrace rbrack rcub rpar rsqb semi sol verbar vert "

// named is the character of a name, or two.
func named(s string) string {
	switch s {
	case "amp", "AMP":
		return "&"
	case "lt", "LT":
		return "<"
	case "gt", "GT":
		return ">"
	case "quot", "QUOT":
		return `"`
	case "grave", "DiacriticalGrave":
		return "`"
	case "lbrace", "lcub":
		return "{"
	case "rbrace", "rcub":
		return "}"
	case "lbrack", "lsqb":
		return "["
	case "rbrack", "rsqb":
		return "]"
	case "lowbar", "UnderBar":
		return "_"
	case "verbar", "vert", "VerticalLine":
		return "|"
	case "ast", "midast":
		return "*"
	case "Hat":
		return "^"
	case "NewLine":
		return "\n"
	case "Tab":
		return "\t"
	}
	return namedOnce(s)
}

// namedOnce is for what has one name.
func namedOnce(s string) string { //nolint:cyclop // it is a table
	switch s {
	case "apos":
		return "'"
	case "bsol":
		return `\`
	case "colon":
		return ":"
	case "comma":
		return ","
	case "commat":
		return "@"
	case "dollar":
		return "$"
	case "equals":
		return "="
	case "excl":
		return "!"
	case "fjlig":
		return "fj"
	case "lpar":
		return "("
	case "rpar":
		return ")"
	case "num":
		return "#"
	case "percnt":
		return "%"
	case "period":
		return "."
	case "plus":
		return "+"
	case "quest":
		return "?"
	case "semi":
		return ";"
	case "sol":
		return "/"
	}
	return ""
}
