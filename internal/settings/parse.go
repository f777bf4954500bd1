package settings

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bailey-dev/bailey/internal/spell"
)

// MaxFile bounds a policy file, in bytes.
const MaxFile = 256 << 10

// parser holds one file to the schema.
type parser struct {
	file     string
	problems []Problem

	rules    int  // read so far
	ruleText int  // their length, in bytes
	full     bool // they are too many, and the rest is not read
}

// mostProblems bounds what one file is told of, and longestProblem one of it, in
// bytes.
const (
	mostProblems   = 50
	longestProblem = 1000
)

func (p *parser) at(n *yaml.Node, format string, args ...any) {
	p.add(n.Line, n.Column, fmt.Sprintf(format, args...))
}

func (p *parser) add(line, column int, message string) {
	if len(p.problems) < mostProblems {
		message = strings.Join(strings.Fields(message), " ")
		if len(message) > longestProblem {
			message = strings.ToValidUTF8(message[:longestProblem], "") + "…"
		}
		p.problems = append(p.problems, Problem{p.file, max(line, 1), max(column, 1), message})
	}
}

func (p *parser) err() error {
	if len(p.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(p.problems, func(a, b Problem) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return &InvalidError{p.problems}
}

// document reads a file into its one mapping, held to the spec. A file that
// says nothing is nil.
func (p *parser) document(data []byte, s *spec) *yaml.Node {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		p.syntax(err, data)
		return nil
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		if err != nil {
			p.syntax(err, data)
		} else {
			p.at(&more, "a second document: a file is one")
		}
		return nil
	}
	top := doc.Content[0]
	if top.Kind == yaml.ScalarNode && top.Tag == "!!null" && top.Value == "" {
		return nil
	}
	p.check(top, s, "")
	return top
}

// line finds where the library says a fault is; it knows no column.
func (p *parser) syntax(err error, data []byte) {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	line, column := 1, 1
	if m := regexp.MustCompile(`^(?:[a-z ]*)line (\d+): `).FindStringSubmatch(message); m != nil {
		line, _ = strconv.Atoi(m[1])
		message = message[len(m[0]):]
		if strings.HasPrefix(message, "did not find expected") && message != noAlias {
			line++ // the library's parser counts from 0, its scanner from 1
		}
	}
	lines := bytes.Split(bytes.TrimRight(data, "\n"), []byte("\n"))
	line = min(line, len(lines))
	text := lines[line-1]
	column += len(text) - len(bytes.TrimLeft(text, " \t"))
	if at, fix := slip(message, text); fix != "" {
		column, message = at, fix
	}
	p.add(line, column, "not YAML: "+message)
}

// What the library says where a star or an ampersand begins no alias or anchor,
// and where a character can begin nothing.
const (
	noAlias = "did not find expected alphabetic or numeric character"
	noToken = "found character that cannot start any token"
)

// quotable is what begins a text that has to be in quotes.
var quotable = regexp.MustCompile("(?:^|[\\s\\[{,])([*&@`%])")

// slip says in words what is most often meant by a fault of the library's, at
// which column, and what to write; "" where that is not known.
func slip(message string, text []byte) (column int, fix string) {
	indent := text[:len(text)-len(bytes.TrimLeft(text, " \t"))]
	tab := bytes.IndexByte(indent, '\t')
	m := quotable.FindSubmatchIndex(text)
	switch {
	case tab >= 0 && (message == noToken || strings.Contains(message, "tab character")):
		return tab + 1, "the line is indented with a tab; use spaces"
	case m != nil && (message == noAlias || message == noToken):
		return m[2] + 1, fmt.Sprintf("a text that begins with %s has to be in quotes, such as \"*.example.com\"", text[m[2]:m[3]])
	}
	return 0, ""
}

// check holds a node to a spec. path is where in the file it is, for messages.
func (p *parser) check(n *yaml.Node, s *spec, path string) {
	where := path
	if where == "" {
		where = "the file"
	}
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		p.at(n, "%s: anchors and aliases are not read; write it out", where)
	case n.Style&yaml.TaggedStyle != 0:
		p.at(n, "%s: tags such as %s are not read; leave it out", where, n.Tag)
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		p.at(n, "%s has no value; give it one, or leave the key out", where)
	default:
		p.checkKind(n, s, where, path)
	}
}

func (p *parser) checkKind(n *yaml.Node, s *spec, where, path string) {
	switch s.kind {
	case text:
		p.checkText(n, s, where)
	case number:
		if v, err := strconv.ParseUint(n.Value, 10, 16); !p.isScalar(n, "!!int") || err != nil || v == 0 || strconv.FormatUint(v, 10) != n.Value {
			p.at(n, "%s: %s is not a port; write a number from 1 to 65535", where, describe(n))
		}
	case flag:
		if !p.isScalar(n, "!!bool") {
			p.at(n, "%s: %s is not true or false", where, describe(n))
		}
	case list:
		p.checkList(n, s, where, path)
	case mapping:
		p.checkMapping(n, s, where, path)
	case entry:
		if n.Kind == yaml.MappingNode {
			p.checkMapping(n, s, where, path)
		} else {
			p.checkText(n, s, where)
		}
	}
}

func (p *parser) isScalar(n *yaml.Node, tag string) bool {
	return n.Kind == yaml.ScalarNode && n.Tag == tag
}

func (p *parser) checkText(n *yaml.Node, s *spec, where string) {
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag != "!!str":
		p.at(n, "%s: %s is not text; write %q", where, describe(n), n.Value)
	case n.Kind != yaml.ScalarNode:
		p.at(n, "%s: %s is not text", where, describe(n))
	case len(s.enum) > 0 && !slices.Contains(s.enum, n.Value):
		p.at(n, "%s: unknown value %q; %s", where, n.Value, spell.DidYouMean(n.Value, s.enum))
	case n.Value == "":
		p.at(n, "%s is empty; give it a value, or leave it out", where)
	}
}

func (p *parser) checkList(n *yaml.Node, s *spec, where, path string) {
	if n.Kind != yaml.SequenceNode {
		p.at(n, "%s: %s is not a list; write [%s]", where, describe(n), n.Value)
		return
	}
	if len(n.Content) < s.least {
		p.at(n, "%s is empty and would match nothing; name something, or leave the key out for any", where)
	}
	for i, item := range n.Content {
		p.check(item, s.item, fmt.Sprintf("%s[%d]", path, i))
	}
}

func (p *parser) checkMapping(n *yaml.Node, s *spec, where, path string) {
	if n.Kind != yaml.MappingNode {
		p.at(n, "%s: %s is not a mapping; its keys are %s", where, describe(n), strings.Join(s.names(), ", "))
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		inner := s.find(name.Value)
		switch {
		case name.Kind == yaml.AliasNode || name.Anchor != "" || name.Style&yaml.TaggedStyle != 0:
			p.at(name, "%s: anchors, aliases and tags are not read, on a key neither; leave them out", where)
		case name.Kind != yaml.ScalarNode || inner == nil:
			p.at(name, "unknown key %s in %s; %s", describe(name), where, spell.DidYouMean(name.Value, s.names()))
		case seen[name.Value]:
			p.at(name, "key %q is there twice in %s; leave one", name.Value, where)
		default:
			p.check(value, inner, strings.TrimPrefix(path+"."+name.Value, "."))
		}
		seen[name.Value] = true
	}
	p.checkOneOf(n, s, where, seen)
}

func (p *parser) checkOneOf(n *yaml.Node, s *spec, where string, seen map[string]bool) {
	if len(s.oneOf) == 0 {
		return
	}
	have := 0
	for _, name := range s.oneOf {
		if seen[name] {
			have++
		}
	}
	if have != 1 {
		p.at(n, "%s has to have exactly one of %s", where, strings.Join(s.oneOf, ", "))
	}
}

// describe says what a node is, for messages.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	default:
		return strconv.QuoteToASCII(n.Value)
	}
}

// get returns the value of a key of a mapping, or nil.
func get(n *yaml.Node, name string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}

// items returns the nodes of a list, or none.
func items(n *yaml.Node) []*yaml.Node {
	if n == nil {
		return nil
	}
	return n.Content
}
