package phase

import (
	"regexp"
	"strings"

	"github.com/bailey-dev/bailey/internal/yamlfile"
)

var (
	boxLine     = regexp.MustCompile(`^( {0,3})(?:[-*+]|[0-9]{1,9}[.)]) {1,4}\[([ xX])\][ \t]+(.*)$`)
	nearBox     = regexp.MustCompile(`^( {0,3})(?:[-*+]|[0-9]{1,9}[.)]) {1,4}\[(?: *[xX]? *)\](?:[^(\[:]|$)`) // of somebody who meant one
	headingLine = regexp.MustCompile(`^ {0,3}(#{1,6})[ \t]+(.*?)[ \t]*#*$`)
	fenceLine   = regexp.MustCompile("^ *(```+|~~~+)")
)

// markdown reads a checklist: a unit is an item with a box at the left, numbered
// or not, and what follows it, as far as the next or a heading, is its text. What stands under a
// heading before the first unit is for all units of that heading.
func (p *parser) markdown(text string) *Plan {
	m := &reader{parser: p, plan: &Plan{}}
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	for i := m.frontMatter(lines); i < len(lines); i++ {
		m.line(i+1, lines[i])
	}
	m.close()
	return m.plan
}

type reader struct {
	*parser
	plan    *Plan
	fence   string // that has not ended
	section string
	intro   []string // of the section
	unit    *Unit
	at      int // the unit's line
	text    []string
}

// frontMatter reads the settings between two lines "---" at the top, and returns
// the number of the first line behind them.
func (m *reader) frontMatter(lines []string) int {
	if strings.TrimRight(lines[0], " ") != "---" {
		return 0
	}
	for i := 1; i < len(lines); i++ {
		if strings.TrimRight(lines[i], " ") != "---" {
			continue
		}
		text := "\n" + strings.Join(lines[1:i], "\n") + "\n" // on the lines where it stands
		if top := m.Document([]byte(text), frontSpec()); top != nil {
			m.plan.Settings, m.plan.Title = m.settings(top), value(yamlfile.Get(top, "title"))
		}
		return i + 1
	}
	m.Add(1, 1, "the settings between \"---\" and \"---\" do not end")
	return len(lines)
}

func (m *reader) line(n int, line string) {
	if mark := fenceLine.FindStringSubmatch(line); mark != nil {
		switch {
		case m.fence == "":
			m.fence = mark[1]
		case strings.HasPrefix(mark[1], m.fence):
			m.fence = ""
		}
		m.add(line)
		return
	}
	if m.fence != "" {
		m.add(line)
		return
	}
	if h := headingLine.FindStringSubmatch(line); h != nil {
		m.close()
		m.section, m.intro = h[2], nil
		if m.plan.Title == "" && len(h[1]) == 1 {
			m.plan.Title, m.section = h[2], ""
		}
		return
	}
	if box := boxLine.FindStringSubmatch(line); box != nil && (m.unit == nil || len(box[1]) < 2) {
		m.close()
		m.unit, m.at = &Unit{Title: strings.TrimSpace(box[3]), Section: m.section, Done: box[2] != " "}, n
		return
	}
	if near := nearBox.FindStringSubmatch(line); near != nil && (m.unit == nil || len(near[1]) < 2) {
		m.Add(n, len(near[1])+1, "a unit's box is written [ ], or [x] where it is done, with a blank behind it")
	}
	m.add(line)
}

func (m *reader) add(line string) {
	if m.unit == nil {
		m.intro = append(m.intro, line)
		return
	}
	m.text = append(m.text, line)
}

// close ends a unit.
func (m *reader) close() {
	if m.unit == nil {
		return
	}
	parts := []string{strings.TrimSpace(strings.Join(m.intro, "\n")), strings.TrimRight(strings.Join(dedent(m.text), "\n"), "\n ")}
	m.unit.Text = strings.Trim(strings.Join(parts, "\n\n"), "\n")
	m.parser.unit(m.plan, *m.unit, m.at)
	m.unit, m.text = nil, nil
}

// dedent takes away the spaces that all lines begin with.
func dedent(lines []string) []string {
	least := -1
	for _, l := range lines {
		if n := len(l) - len(strings.TrimLeft(l, " ")); strings.TrimSpace(l) != "" && (least < 0 || n < least) {
			least = n
		}
	}
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = l[min(len(l), max(least, 0)):]
	}
	return out
}

// Tick returns a Markdown plan with the box of the unit ticked, or false.
func Tick(file string, data []byte, id string) ([]byte, bool) {
	plan, err := Parse(file, data)
	if err != nil || strings.HasSuffix(file, ".yaml") || strings.HasSuffix(file, ".yml") {
		return nil, false
	}
	p := &parser{Parser: yamlfile.NewParser(file)}
	m := &reader{parser: p, plan: &Plan{}}
	lines := strings.Split(string(data), "\n")
	for i := m.frontMatter(lines); i < len(lines); i++ {
		before := len(m.plan.Units)
		at := m.at
		m.line(i+1, strings.TrimSuffix(lines[i], "\r"))
		if len(m.plan.Units) > before && plan.Units[before].ID == id {
			return ticked(lines, at)
		}
	}
	before := len(m.plan.Units)
	if m.close(); len(m.plan.Units) > before && plan.Units[before].ID == id {
		return ticked(lines, m.at)
	}
	return nil, false
}

func ticked(lines []string, at int) ([]byte, bool) {
	lines[at-1] = strings.Replace(lines[at-1], "[ ]", "[x]", 1)
	return []byte(strings.Join(lines, "\n")), true
}
