package yamlfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/spell"
)

// MaxFile bounds a file, in bytes.
const MaxFile = 256 << 10

// Parser holds one file to a schema. It is for one file, and not safe for
// concurrent use.
type Parser struct {
	file     string
	problems []Problem
}

// NewParser reads a file that messages name so.
func NewParser(file string) *Parser { return &Parser{file: file} }

// mostProblems bounds what one file is told of, and longestProblem one of it, in
// bytes.
const (
	mostProblems   = 50
	longestProblem = 1000
)

// At notes a problem with a node.
func (p *Parser) At(n *yaml.Node, format string, args ...any) {
	p.Add(n.Line, n.Column, fmt.Sprintf(format, args...))
}

// SecretAt notes a problem with what stands where a secret is named: it may be
// the secret, so problem repeats nothing of it.
func (p *Parser) SecretAt(n *yaml.Node, s *Spec, where, problem string) {
	p.At(n, "%s: %s; %s", where, problem, s.Secret)
}

// Add notes a problem at a place; both count from 1.
func (p *Parser) Add(line, column int, message string) {
	if len(p.problems) < mostProblems {
		message = strings.Join(strings.Fields(message), " ")
		if len(message) > longestProblem {
			message = strings.ToValidUTF8(message[:longestProblem], "") + "…"
		}
		p.problems = append(p.problems, Problem{p.file, max(line, 1), max(column, 1), message})
	}
}

// Problems is how many were noted.
func (p *Parser) Problems() int { return len(p.problems) }

// From is where a node stands: FILE:LINE:COLUMN.
func (p *Parser) From(n *yaml.Node) string {
	return fmt.Sprintf("%s:%d:%d", p.file, n.Line, n.Column)
}

// Wrong notes an error about a node, with its hint, and reports whether there
// was one.
func (p *Parser) Wrong(n *yaml.Node, err error) bool {
	if err == nil {
		return false
	}
	message := err.Error()
	if e, ok := errors.AsType[*bailey.Error](err); ok && e.Hint != "" {
		message += "; " + e.Hint
	}
	p.At(n, "%s", message)
	return true
}

// Err is an *InvalidError with everything that was noted, in the order of the
// file; nil if that is nothing.
func (p *Parser) Err() error {
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

// Document reads a file into its one mapping, held to the spec. A file that
// says nothing is nil.
func (p *Parser) Document(data []byte, s *Spec) *yaml.Node {
	if len(data) > MaxFile {
		p.Add(1, 1, fmt.Sprintf("the file is longer than %d bytes", MaxFile))
		return nil
	}
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
			p.At(&more, "a second document: a file is one")
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
func (p *Parser) syntax(err error, data []byte) {
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
	if strings.HasPrefix(message, "unknown anchor") { // its name is not repeated: it may be a value
		message = "an alias of no anchor; neither is read, and a text that begins with * has to be in quotes"
	}
	if at, fix := slip(message, text); fix != "" {
		column, message = at, fix
	}
	p.Add(line, column, "not YAML: "+message)
}

// What the library says where a star or an ampersand begins no alias or anchor,
// and where a character can begin nothing.
const (
	noAlias = "did not find expected alphabetic or numeric character"
	noToken = "found character that cannot start any token"
)

// quotable is what begins a text that has to be in quotes.
var quotable = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("(?:^|[\\s\\[{,])([*&@`%])") })

// slip says in words what is most often meant by a fault of the library's, at
// which column, and what to write; "" where that is not known.
func slip(message string, text []byte) (column int, fix string) {
	indent := text[:len(text)-len(bytes.TrimLeft(text, " \t"))]
	tab := bytes.IndexByte(indent, '\t')
	m := quotable().FindSubmatchIndex(text)
	switch {
	case tab >= 0 && (message == noToken || strings.Contains(message, "tab character")):
		return tab + 1, "the line is indented with a tab; use spaces"
	case m != nil && (message == noAlias || message == noToken):
		return m[2] + 1, fmt.Sprintf("a text that begins with %s has to be in quotes, such as \"*.example.com\"", text[m[2]:m[3]])
	}
	return 0, ""
}

// check holds a node to a spec. path is where in the file it is, for messages.
func (p *Parser) check(n *yaml.Node, s *Spec, path string) {
	where := path
	if where == "" {
		where = "the file"
	}
	if s.Secret != "" {
		p.checkSecret(n, s, where)
		return
	}
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		p.At(n, "%s: anchors and aliases are not read; write it out", where)
	case n.Style&yaml.TaggedStyle != 0:
		p.At(n, "%s: tags such as %s are not read; leave it out", where, n.Tag)
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null" && n.Value != "" && s.Kind == Text:
		p.At(n, "%s: %s is YAML's word for nothing; for the text write \"%s\", in quotes", where, n.Value, n.Value)
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null" && s.Kind != Any:
		p.At(n, "%s has no value; give it one, or leave the key out", where)
	default:
		p.checkKind(n, s, where, path)
	}
}

// checkSecret holds a mapping that names a secret to its spec, and says one thing
// of whatever else stands there.
func (p *Parser) checkSecret(n *yaml.Node, s *Spec, where string) {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" && n.Value == "" {
		p.SecretAt(n, s, where, "it has no value")
		return
	}
	inner := &Parser{file: p.file}
	plain := *s
	plain.Secret = ""
	inner.check(n, &plain, where)
	if len(inner.problems) == 0 {
		return
	}
	problem := "that does not name a secret"
	if n.Kind != yaml.MappingNode {
		problem = describeKind(n) + " does not name a secret"
	}
	p.SecretAt(n, s, where, problem)
}

func (p *Parser) checkKind(n *yaml.Node, s *Spec, where, path string) {
	switch s.Kind {
	case Text:
		p.checkText(n, s, where)
	case Number:
		p.checkNumber(n, s, where)
	case Scalar:
		if n.Kind != yaml.ScalarNode {
			p.At(n, "%s: %s is neither text nor a number", where, describe(n))
		}
	case Flag:
		if !p.isScalar(n, "!!bool") {
			p.At(n, "%s: %s is not true or false", where, describe(n))
		}
	case List:
		p.checkList(n, s, where, path)
	case OneOrMore:
		if n.Kind == yaml.SequenceNode {
			p.checkList(n, s, where, path)
		} else {
			p.check(n, s.Item, path)
		}
	case Mapping:
		p.checkMapping(n, s, where, path)
	case Table:
		p.checkTable(n, s, where, path)
	case Entry:
		if n.Kind == yaml.MappingNode {
			p.checkMapping(n, s, where, path)
		} else {
			p.checkText(n, s, where)
		}
	case Any: // AsJSON says what is wrong with it
	}
}

func (p *Parser) checkNumber(n *yaml.Node, s *Spec, where string) {
	v, err := strconv.ParseInt(n.Value, 10, 64)
	fits := err == nil && v >= s.Min && v <= s.Max && strconv.FormatInt(v, 10) == n.Value
	switch {
	case fits && p.isScalar(n, "!!str"):
		p.At(n, "%s: %s is a text; write %s, without the quotes", where, describe(n), n.Value)
	case !fits || !p.isScalar(n, "!!int"):
		p.At(n, "%s: %s is not %s; write a number from %d to %d", where, describe(n), s.What, s.Min, s.Max)
	}
}

func (p *Parser) isScalar(n *yaml.Node, tag string) bool {
	return n.Kind == yaml.ScalarNode && n.Tag == tag
}

func (p *Parser) checkText(n *yaml.Node, s *Spec, where string) {
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag != "!!str" && len(s.Enum) > 0: // in quotes it would be no better
		p.At(n, "%s: unknown value %s; %s", where, describe(n), spell.DidYouMean(n.Value, s.Enum))
	case n.Kind == yaml.ScalarNode && n.Tag != "!!str" && s.Kind == Entry:
		p.At(n, "%s: %s is neither a text nor a mapping with %s", where, describe(n), strings.Join(s.OneOf, " or "))
	case n.Kind == yaml.ScalarNode && n.Tag != "!!str":
		p.At(n, "%s: %s is not text; write %q", where, describe(n), n.Value)
	case n.Kind != yaml.ScalarNode:
		p.At(n, "%s: %s is not text", where, describe(n))
	case len(s.Enum) > 0 && !slices.Contains(s.Enum, n.Value):
		p.At(n, "%s: unknown value %q; %s", where, n.Value, spell.DidYouMean(n.Value, s.Enum))
	case n.Value == "":
		p.At(n, "%s is empty; give it a value, or leave it out", where)
	}
}

func (p *Parser) checkList(n *yaml.Node, s *Spec, where, path string) {
	if n.Kind == yaml.MappingNode {
		p.At(n, "%s: a mapping is not a list; begin it with a hyphen, as an item of one", where)
		return
	}
	if n.Kind != yaml.SequenceNode {
		p.At(n, "%s: %s is not a list; write [%s]", where, describe(n), n.Value)
		return
	}
	if len(n.Content) < s.Least {
		p.At(n, "%s is empty; give it %s, or leave the key out", where, spell.Count(s.Least, "item"))
	}
	for i, item := range n.Content {
		p.check(item, s.Item, fmt.Sprintf("%s[%d]", path, i))
	}
}

func (p *Parser) checkMapping(n *yaml.Node, s *Spec, where, path string) {
	if n.Kind != yaml.MappingNode {
		p.At(n, "%s: %s is not a mapping; its keys are %s", where, describeKind(n), strings.Join(s.names(), ", "))
		return
	}
	seen := p.members(n, where, func(name, value *yaml.Node) {
		if inner := s.find(name.Value); inner != nil {
			p.check(value, inner, below(path, name.Value))
		} else {
			p.At(name, "unknown key %s in %s; %s", describe(name), where, s.unknown(name.Value))
		}
	})
	p.checkOneOf(n, s, where, seen)
	for _, name := range s.Required {
		if !seen[name] {
			p.At(n, "%s has no %s; it needs one", where, name)
		}
	}
}

// checkTable is for a mapping whose keys are the writer's own names.
func (p *Parser) checkTable(n *yaml.Node, s *Spec, where, path string) {
	if n.Kind != yaml.MappingNode {
		p.At(n, "%s: %s is not a mapping of names", where, describeKind(n))
		return
	}
	p.members(n, where, func(name, value *yaml.Node) {
		if s.Names != nil && !s.Names.MatchString(name.Value) {
			p.At(name, "%s cannot be a name in %s; use %s", describe(name), where, s.NamesHelp)
			return
		}
		p.check(value, s.Item, below(path, name.Value))
	})
}

// members calls f for each member whose key is a plain text that was not there
// before, and returns the keys.
func (p *Parser) members(n *yaml.Node, where string, f func(name, value *yaml.Node)) map[string]bool {
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		switch {
		case name.Kind == yaml.AliasNode || name.Anchor != "" || name.Style&yaml.TaggedStyle != 0:
			p.At(name, "%s: anchors, aliases and tags are not read, on a key neither; leave them out", where)
		case name.Kind != yaml.ScalarNode:
			p.At(name, "unknown key %s in %s; a key is a text", describe(name), where)
		case seen[name.Value]:
			p.At(name, "key %q is there twice in %s; leave one", name.Value, where)
		default:
			f(name, value)
		}
		seen[name.Value] = true
	}
	return seen
}

func below(path, name string) string { return strings.TrimPrefix(path+"."+name, ".") }

func (p *Parser) checkOneOf(n *yaml.Node, s *Spec, where string, seen map[string]bool) {
	if len(s.OneOf) == 0 {
		return
	}
	have := 0
	for _, name := range s.OneOf {
		if seen[name] {
			have++
		}
	}
	if have != 1 {
		p.At(n, "%s has to have exactly one of %s", where, strings.Join(s.OneOf, ", "))
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

// describeKind says what a node is without what it says: where a mapping is
// wanted, a text may be anything.
func describeKind(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
		return "a text"
	}
	if n.Kind == yaml.ScalarNode {
		return "a single value"
	}
	return describe(n)
}

// Node is a piece of a file.
type Node = yaml.Node

// IsList reports whether a node is a list.
func IsList(n *Node) bool { return n.Kind == yaml.SequenceNode }

// Get returns the value of a key of a mapping, or nil.
func Get(n *yaml.Node, name string) *yaml.Node {
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

// Items returns the nodes of a list, or none.
func Items(n *yaml.Node) []*yaml.Node {
	if n == nil {
		return nil
	}
	return n.Content
}

// Name is a key of a mapping, and where it stands; of one that is merged in, where
// its value does.
type Name struct {
	Name         string
	Line, Column int
}

// Names returns the keys of a mapping that no list says the form of, or what is
// wrong with it.
func Names(data []byte) ([]Name, *Problem) {
	p := NewParser("")
	var doc yaml.Node
	var keys map[string]yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		p.syntax(err, data)
	} else if len(doc.Content) > 0 {
		p.names(doc.Content[0], &keys)
	}
	if p.Problems() > 0 {
		return nil, &p.problems[0]
	}
	var list []Name
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		n := keys[name]
		at := &n
		if key := keyOf(doc.Content[0], name); key != nil {
			at = key
		}
		list = append(list, Name{name, at.Line, at.Column})
	}
	return list, nil
}

// keyOf is the node of a key of a mapping, or nil.
func keyOf(n *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i]
		}
	}
	return nil
}

// names reads the keys, those that are merged in too.
func (p *Parser) names(n *yaml.Node, keys *map[string]yaml.Node) {
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		return
	case n.Kind != yaml.MappingNode:
		p.At(n, "%s is not a list of keys with values (key: value)", describeKind(n))
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if key := n.Content[i]; seen[key.Value] && key.Kind == yaml.ScalarNode {
			p.At(key, "the key %s is there twice", describe(key))
			return
		}
		seen[n.Content[i].Value] = true
	}
	if err := n.Decode(keys); err != nil { // the library's words are about Go
		p.At(n, "a key is not plain text")
	}
}
