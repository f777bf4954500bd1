package settings

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"go.yaml.in/yaml/v3"

	"github.com/bailey-dev/bailey"
)

// List is a list of rules in a policy file.
type List string

// The lists.
const (
	AllowList List = "allow"
	DenyList  List = "deny"
)

// AddRule writes a rule into the user's own file, with a comment of one line,
// and makes the file, private, if there is none. What stands there stays as it
// is, to the byte; the file is there whole before and after. A rule that the
// list has already is not written again.
func (p Place) AddRule(list List, rule, comment string) error {
	if err := p.keptOut(); err != nil {
		return err
	}
	path := p.UserFile()
	err := p.editUser(path, func(old []byte) ([]byte, error) { return addRule(path, old, list, rule, comment) })
	if _, ours := errors.AsType[*bailey.Error](err); err == nil || ours {
		return err
	}
	return bailey.WrapError(bailey.Unavailable, "write "+path, err, fmt.Sprintf("add %s to net.%s there yourself", rule, list))
}

// editUser replaces the file under a lock of its folder, so that two edits at
// once are both there. A link is followed: the file is wherever they keep it.
func (p Place) editUser(path string, edit func([]byte) ([]byte, error)) error {
	if err := os.MkdirAll(p.ConfigDir, 0o700); err != nil {
		return err
	}
	dir, err := os.Open(p.ConfigDir)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }() // and with it the lock
	if err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", p.ConfigDir, err)
	}
	mode := fs.FileMode(0o600)
	real, err := filepath.EvalSymlinks(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Lstat(path); err == nil {
			return errors.New("it is a link to nothing")
		}
		real = path
	case err != nil:
		return err
	}
	old, err := os.ReadFile(real)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if fi, err := os.Stat(real); err == nil {
		mode = fi.Mode().Perm()
	}
	now, err := edit(old)
	if err != nil || bytes.Equal(now, old) {
		return err
	}
	return writeWholeAs(real, now, mode)
}

// addRule returns the text with the rule in it. Whatever it made is read again:
// only a text that says what was said before, and the rule, is returned.
func addRule(path string, old []byte, list List, rule, comment string) ([]byte, error) {
	before, err := Parse(path, old)
	if e, ok := errors.AsType[*InvalidError](err); ok {
		return nil, e.Short(CheckCommand)
	}
	if err != nil {
		return nil, err
	}
	text := inYAML(rule)
	if slices.ContainsFunc(before.Net.list(list), func(h Held) bool { return h.Text() == rule }) {
		return old, nil
	}
	now, err := insertRule(old, list, text, "# "+strings.Join(strings.Fields(comment), " "))
	if err != nil {
		return nil, err
	}
	after, err := Parse(path, now)
	if err != nil || !isWith(before.Net, after.Net, list, rule) {
		return nil, bailey.NewError(bailey.Unsupported, fmt.Sprintf("%s is laid out in a way that bailey does not write into", path), fmt.Sprintf("add %s to net.%s there yourself", text, list))
	}
	return now, nil
}

func (n Net) list(l List) []Held {
	if l == DenyList {
		return n.Deny
	}
	return n.Allow
}

// isWith reports whether two readings differ by one rule of a list alone.
func isWith(before, after Net, list List, rule string) bool {
	texts := func(n Net) []string {
		out := n.texts()
		slices.Sort(out)
		return out
	}
	want := append(texts(before), string(list)+" "+rule)
	slices.Sort(want)
	return slices.Equal(want, texts(after))
}

// texts says what a source says, a line for each.
func (n Net) texts() []string {
	var out []string
	for _, h := range n.Allow {
		out = append(out, "allow "+h.Text())
	}
	for _, h := range n.Deny {
		out = append(out, "deny "+h.Text())
	}
	for _, p := range n.Presets {
		out = append(out, "preset "+p.Value)
	}
	if n.Mode != nil {
		out = append(out, "mode "+n.Mode.Value.String())
	}
	if n.DNS != nil {
		out = append(out, "dns "+n.DNS.Value.String())
	}
	if n.Ask != nil {
		out = append(out, fmt.Sprint("ask ", n.Ask.Value))
	}
	return out
}

// inYAML writes a rule as a scalar that is a string in every layout.
func inYAML(rule string) string {
	if regexp.MustCompile(`^[a-z][a-z0-9-]*(\.[a-z0-9-]+)+(:[0-9]+)?$`).MatchString(rule) {
		return rule
	}
	return "'" + strings.ReplaceAll(rule, "'", "''") + "'"
}

// insertRule puts a rule first into its list, by where YAML's reader says that
// things stand.
func insertRule(text []byte, list List, rule, comment string) ([]byte, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	t := lined(text)
	if len(doc.Content) == 0 || doc.Content[0].Tag == "!!null" {
		return t.end(fmt.Sprintf("net:\n  %s:\n    - %s %s\n", list, rule, comment)), nil
	}
	top := doc.Content[0]
	key, net := pair(top, "net")
	switch {
	case top.Style&yaml.FlowStyle != 0:
		return nil, errors.New("it is one flow mapping")
	case key == nil:
		return t.end(fmt.Sprintf("net:\n  %s:\n    - %s %s\n", list, rule, comment)), nil
	case net.Style&yaml.FlowStyle != 0:
		return t.intoFlowNet(key, net, list, rule, comment), nil
	}
	indent := net.Content[0].Column - 1 // a section or list without anything is refused
	at, held := pair(net, string(list))
	switch {
	case at == nil:
		return t.after(key.Line, fmt.Sprintf("%s%s:\n%s- %s %s\n", spaces(indent), list, spaces(indent+2), rule, comment)), nil
	case held.Style&yaml.FlowStyle != 0:
		return t.intoFlow(at.Line, indent, held, rule, comment), nil
	}
	return t.after(at.Line, fmt.Sprintf("%s- %s %s\n", spaces(held.Column-1), rule, comment)), nil
}

// pair returns the key and the value of a name in a mapping, or nil.
func pair(m *yaml.Node, name string) (key, value *yaml.Node) {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == name {
			return m.Content[i], m.Content[i+1]
		}
	}
	return nil, nil
}

func spaces(n int) string { return strings.Repeat(" ", n) }

// lined is a text by its lines, each with its end.
type lined []byte

func (t lined) lines() [][]byte { return bytes.SplitAfter(t, []byte("\n")) }

// end returns the text with something behind it.
func (t lined) end(s string) []byte {
	out := slices.Clone([]byte(t))
	if len(out) > 0 && out[len(out)-1] != '\n' {
		out = append(out, '\n')
	}
	return append(out, s...)
}

// after returns the text with something behind a line, counted from 1.
func (t lined) after(line int, s string) []byte {
	lines := t.lines()
	head := bytes.Join(lines[:line], nil)
	return slices.Concat(lined(head).end(s), bytes.Join(lines[line:], nil))
}

// intoFlow writes into a list in brackets, and the comment above its line.
func (t lined) intoFlow(line, indent int, held *yaml.Node, rule, comment string) []byte {
	if len(held.Content) > 0 {
		rule += ", "
	}
	return lined(t.at(held, rule)).after(line-1, spaces(indent)+comment+"\n")
}

// intoFlowNet writes into a section in braces.
func (t lined) intoFlowNet(key, net *yaml.Node, list List, rule, comment string) []byte {
	if _, held := pair(net, string(list)); held != nil {
		return t.intoFlow(key.Line, key.Column-1, held, rule, comment)
	}
	rule = fmt.Sprintf("%s: [%s]", list, rule)
	if len(net.Content) > 0 {
		rule += ", "
	}
	return lined(t.at(net, rule)).after(key.Line-1, spaces(key.Column-1)+comment+"\n")
}

// at returns the text with something behind the bracket that begins a node.
// A column counts runes.
func (t lined) at(n *yaml.Node, s string) []byte {
	lines := t.lines()
	if n.Line > len(lines) {
		return t
	}
	row := []rune(string(lines[n.Line-1]))
	if n.Column > len(row) {
		return t
	}
	lines[n.Line-1] = []byte(string(row[:n.Column]) + s + string(row[n.Column:]))
	return bytes.Join(lines, nil)
}
