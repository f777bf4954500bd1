package gitdata

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// MaxConfigBytes is the largest configuration file that is read.
const MaxConfigBytes = 1 << 20

// maxConfigEntries bounds what one file may hold; the largest real ones have
// a few hundred.
const maxConfigEntries = 20_000

// errSyntax is the cause of every parse error of a configuration file.
var errSyntax = errors.New("not git configuration")

// Entry is one variable of a configuration file, in file order. Section and
// Key are lower case; Subsection is as written (git compares it exactly).
type Entry struct {
	Section    string
	Subsection string
	Key        string
	Value      string // unquoted; "true" for a key without "="
}

// Name returns the variable's full name, as `git config --list` prints it.
func (e Entry) Name() string {
	if e.Subsection == "" {
		return e.Section + "." + e.Key
	}
	return e.Section + "." + e.Subsection + "." + e.Key
}

// Config is a parsed configuration file, in file order.
type Config []Entry

// Get returns the last value of section.key without a subsection, and whether
// there is one. Both names are given in lower case.
func (c Config) Get(section, key string) (string, bool) {
	for _, e := range slices.Backward(c) {
		if e.Section == section && e.Subsection == "" && e.Key == key {
			return e.Value, true
		}
	}
	return "", false
}

// ParseConfig reads the syntax of git-config(1), "CONFIGURATION FILE".
// Includes are entries like any other and are not followed. On a syntax error
// it returns the entries before it together with the error, whose text has
// the line.
func ParseConfig(data []byte) (Config, error) {
	p := configParser{data: strings.TrimPrefix(string(data), "\ufeff"), line: 1, pos: 0, entries: nil, section: "", sub: ""}
	for p.skipBlank(); p.pos < len(p.data); p.skipBlank() {
		if err := p.item(); err != nil {
			return p.entries, fmt.Errorf("parse line %d: %w", p.line, err)
		}
		if len(p.entries) > maxConfigEntries {
			return p.entries, fmt.Errorf("parse line %d: more than %d variables: %w", p.line, maxConfigEntries, errSyntax)
		}
	}
	return p.entries, nil
}

type configParser struct {
	data         string
	pos, line    int
	section, sub string
	entries      Config
}

// peek returns the next byte, or 0 at the end. A carriage return before a
// line feed is skipped, as git does.
func (p *configParser) peek() byte {
	if p.pos+1 < len(p.data) && p.data[p.pos] == '\r' && p.data[p.pos+1] == '\n' {
		p.pos++
	}
	if p.pos >= len(p.data) {
		return 0
	}
	return p.data[p.pos]
}

func (p *configParser) next() byte {
	c := p.peek()
	if p.pos < len(p.data) {
		p.pos++
	}
	if c == '\n' {
		p.line++
	}
	return c
}

// skipBlank passes white space, empty lines and comments.
func (p *configParser) skipBlank() {
	for p.pos < len(p.data) {
		switch c := p.peek(); {
		case c == '#' || c == ';':
			p.skipLine()
		case isSpace(c) || c == '\n':
			p.next()
		default:
			return
		}
	}
}

func (p *configParser) skipLine() {
	for p.pos < len(p.data) && p.peek() != '\n' {
		p.next()
	}
}

// item reads one section header or one variable.
func (p *configParser) item() error {
	if p.peek() == '[' {
		p.next()
		return p.header()
	}
	if p.section == "" {
		return errSyntax
	}
	key := p.word()
	if key == "" {
		return errSyntax
	}
	p.skipInline()
	value := "true"
	switch c := p.peek(); {
	case c == '=':
		p.next()
		v, err := p.value()
		if err != nil {
			return err
		}
		value = v
	case c != '\n' && c != '#' && c != ';' && p.pos < len(p.data):
		return errSyntax
	}
	p.entries = append(p.entries, Entry{Section: p.section, Subsection: p.sub, Key: key, Value: value})
	return nil
}

// header reads what follows "[": a name, and perhaps a quoted subsection.
func (p *configParser) header() error {
	start := p.pos
	for isNameByte(p.peek()) || p.peek() == '.' {
		p.next()
	}
	p.section, p.sub = strings.ToLower(p.data[start:p.pos]), ""
	if name, sub, ok := strings.Cut(p.section, "."); ok { // deprecated [section.subsection]
		p.section, p.sub = name, sub
	}
	if p.section == "" {
		return errSyntax
	}
	p.skipInline()
	if p.peek() == '"' {
		p.next()
		if err := p.subsection(); err != nil {
			return err
		}
	}
	if p.next() != ']' {
		return errSyntax
	}
	return nil
}

func (p *configParser) subsection() error {
	var b strings.Builder
	for {
		c := p.next()
		if c == '\\' {
			if c = p.next(); c == '"' {
				b.WriteByte(c)
				continue
			}
		}
		switch c {
		case 0, '\n':
			return errSyntax
		case '"':
			p.sub = b.String()
			return nil
		}
		b.WriteByte(c)
	}
}

func (p *configParser) word() string {
	start := p.pos
	for isNameByte(p.peek()) {
		p.next()
	}
	return strings.ToLower(p.data[start:p.pos])
}

func (p *configParser) skipInline() {
	for p.pos < len(p.data) && isSpace(p.peek()) {
		p.next()
	}
}

// value reads up to the end of the line: quotes, escapes, comments and
// continuation lines. Trailing blanks outside quotes are dropped.
func (p *configParser) value() (string, error) {
	p.skipInline()
	var v valueText
	for p.peek() != '\n' && p.pos < len(p.data) {
		switch c := p.next(); {
		case c == '"':
			v.quoted = !v.quoted
			v.keep = v.text.Len()
		case c == '\\':
			e, err := p.escape()
			if err != nil {
				return "", err
			}
			v.add(e)
		case !v.quoted && (c == '#' || c == ';'):
			p.skipLine()
		default:
			v.add(string([]byte{c}))
		}
	}
	if v.quoted {
		return "", errSyntax
	}
	return v.text.String()[:v.keep], nil
}

// valueText is a value as far as it is read; what follows keep is blank.
type valueText struct {
	text   strings.Builder
	quoted bool
	keep   int
}

func (v *valueText) add(s string) {
	v.text.WriteString(s)
	if v.quoted || len(s) != 1 || !isSpace(s[0]) {
		v.keep = v.text.Len()
	}
}

func (p *configParser) escape() (string, error) {
	switch c := p.next(); c {
	case '\n':
		return "", nil
	case '"', '\\':
		return string(c), nil
	case 'n':
		return "\n", nil
	case 't':
		return "\t", nil
	case 'b':
		return "\b", nil
	}
	return "", errSyntax
}

// QuoteConfigValue returns s in double quotes, so that git reads back s.
func QuoteConfigValue(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`, "\b", `\b`).Replace(s) + `"`
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f' }

func isNameByte(c byte) bool {
	return c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
