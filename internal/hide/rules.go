package hide

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Rules say what is hidden. The zero value is of no use: New makes one.
type Rules struct {
	usual    list            // what hides in every run
	harmless list            // what it would hide and does not
	hide     list            // what a person hides beside it
	show     list            // what a person shows of all that
	kept     map[string]bool // paths, as they are, of what usual does not hide
	above    map[string]bool // the folders that these lie in
	hides    []string        // for Text
	shows    []string
}

// New makes rules of patterns: what is hidden beside the defaults, what of all
// that is shown, and the paths of single files that the defaults do not hide.
// An error is about a pattern.
func New(hides, shows, kept []string) (*Rules, error) {
	r := &Rules{kept: map[string]bool{}, above: map[string]bool{}, hides: hides, shows: shows}
	for _, l := range []struct {
		into  *list
		texts []string
		kind  kind
	}{
		{&r.usual, Defaults(), files},
		{&r.harmless, Harmless(), files},
		{&r.hide, hides, anything},
		{&r.show, shows, anything},
	} {
		var err error
		if *l.into, err = newList(l.texts, l.kind); err != nil {
			return nil, err
		}
	}
	for _, p := range kept {
		r.kept[p] = true
		for i := range len(p) {
			if p[i] == '/' {
				r.above[p[:i]] = true
			}
		}
	}
	return r, nil
}

// Hidden reports whether the file at a path is hidden, or a folder that it lies
// in. The path is relative to the workspace and clean, without dots.
func (r *Rules) Hidden(path string, dir bool) bool {
	name := fold(path[strings.LastIndexByte(path, '/')+1:])
	if path == "" || !r.hide.folders && !r.usual.couldBe(name) && !r.hide.couldBe(name) {
		return false
	}
	parts := split(path)
	if r.hide.folders {
		for i := 1; i < len(parts); i++ {
			if r.hide.has(parts[:i], true) && !r.show.has(parts[:i], true) {
				return true
			}
		}
	}
	switch {
	case r.show.has(parts, dir):
		return false
	case r.hide.has(parts, dir):
		return true
	}
	return r.usual.has(parts, dir) && !r.harmless.has(parts, dir) && !r.kept[path]
}

// Pinned reports whether a folder may not be moved from one path to the other:
// some rule names a file by the folders that it lies in, so what is hidden in
// this folder might not be at its new place.
func (r *Rules) Pinned(from, to string) bool {
	was, is := split(from), split(to)
	leads := func(l *list, parts []string) bool {
		return slices.ContainsFunc(l.paths, func(p pattern) bool { return p.leads(parts) })
	}
	return r.above[to] || leads(&r.usual, was) || leads(&r.hide, was) || leads(&r.show, is)
}

func split(path string) []string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		parts[i] = fold(p)
	}
	return parts
}

// Count is how many patterns hide something.
func (r *Rules) Count() int { return r.usual.patterns + r.hide.patterns }

// Kept are the paths of the files that the defaults do not hide, in order.
func (r *Rules) Kept() []string {
	kept := make([]string, 0, len(r.kept))
	for p := range r.kept {
		kept = append(kept, p)
	}
	slices.Sort(kept)
	return kept
}

// MaxText is the most bytes that rules have as text.
const MaxText = 256 << 10

// errText is returned for bytes that Text did not write.
var errText = errors.New("not rules of hidden files")

// Text is the rules in the form that Parse reads.
func (r *Rules) Text() ([]byte, error) {
	var b bytes.Buffer
	for verb, list := range map[byte][]string{'-': r.hides, '+': r.shows, '=': r.Kept()} {
		for _, s := range list {
			b.WriteByte(verb)
			b.WriteString(s)
			b.WriteByte(0)
		}
	}
	if b.Len() > MaxText {
		return nil, fmt.Errorf("rules of hidden files: %d bytes, at most %d", b.Len(), MaxText)
	}
	return b.Bytes(), nil
}

// Parse reads what Text wrote.
func Parse(text []byte) (*Rules, error) {
	if len(text) > MaxText {
		return nil, errText
	}
	lists := map[byte][]string{}
	for len(text) > 0 {
		line, rest, ok := bytes.Cut(text, []byte{0})
		if !ok || len(line) < 2 || !bytes.ContainsAny(line[:1], "-+=") {
			return nil, errText
		}
		lists[line[0]] = append(lists[line[0]], string(line[1:]))
		text = rest
	}
	return New(lists['-'], lists['+'], lists['='])
}
