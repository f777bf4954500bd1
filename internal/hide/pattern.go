package hide

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// kind says what a pattern is about.
type kind uint8

const (
	anything kind = iota // files and folders
	files                // what is no folder
	folders
)

func (k kind) about(dir bool) bool { return k == anything || dir == (k == folders) }

// glob is one component of a pattern, with what can be compared at once.
type glob struct {
	text   string // as path.Match has it, folded
	prefix string // before the first special character
	suffix string // after the last one
	plain  bool   // there is none
}

const special = `*?[]\`

func newGlob(text string) glob {
	first, last := strings.IndexAny(text, special), strings.LastIndexAny(text, special)
	if first < 0 {
		return glob{text: text, prefix: text, suffix: "", plain: true}
	}
	return glob{text: text, prefix: text[:first], suffix: text[last+1:], plain: false}
}

func (g *glob) match(name string) bool {
	if g.plain {
		return name == g.text
	}
	if !strings.HasPrefix(name, g.prefix) || !strings.HasSuffix(name, g.suffix) {
		return false
	}
	ok, err := path.Match(g.text, name)
	return ok && err == nil
}

// pattern is one rule: globs for the last components of a path, or for all of
// them.
type pattern struct {
	parts    []glob // at least one
	anchored bool   // the first part is in the workspace's own folder
	kind     kind
}

// maxPattern bounds what a pattern may cost.
const maxPattern = 512

// parse reads NAME, DIR/NAME (anywhere) or /DIR/NAME (from the workspace's
// folder); a slash at the end means folders alone.
func parse(text string, k kind) (pattern, error) {
	p := pattern{kind: k, anchored: strings.HasPrefix(text, "/"), parts: nil}
	body := strings.TrimPrefix(strings.TrimPrefix(text, "./"), "/")
	if before, ok := strings.CutSuffix(body, "/"); ok {
		p.kind, body = folders, before
	}
	if body == "" || len(body) > maxPattern || strings.ContainsAny(body, "\x00\n") {
		return pattern{}, fmt.Errorf("%q names no file", text)
	}
	for part := range strings.SplitSeq(body, "/") {
		if part == "" || part == "." || part == ".." || part == "**" {
			return pattern{}, fmt.Errorf("%q: %q is not the name of a file or folder (a pattern without a slash holds in every folder)", text, part)
		}
		if _, err := path.Match(part, ""); err != nil {
			return pattern{}, fmt.Errorf("%q: malformed brackets", text)
		}
		p.parts = append(p.parts, newGlob(fold(part)))
	}
	return p, nil
}

// matches reports whether a path of folded components is what p names.
func (p *pattern) matches(parts []string) bool {
	return len(parts) >= len(p.parts) && (!p.anchored || len(parts) == len(p.parts)) &&
		matchAll(p.parts, parts[len(parts)-len(p.parts):])
}

// leads reports whether something below a folder could be what p names by
// components that the folder's own path ends with: to move that folder would be
// to change what p says about its content.
func (p *pattern) leads(parts []string) bool {
	if p.anchored {
		return len(parts) < len(p.parts) && matchAll(p.parts[:len(parts)], parts)
	}
	for n := 1; n < len(p.parts) && n <= len(parts); n++ {
		if matchAll(p.parts[:n], parts[len(parts)-n:]) {
			return true
		}
	}
	return false
}

func matchAll(globs []glob, names []string) bool {
	for i := range globs {
		if !globs[i].match(names[i]) {
			return false
		}
	}
	return true
}

// list is patterns. Those of one name are apart: nearly all are, and nearly no
// name is one of theirs.
type list struct {
	exact    map[string]kind // a name without a glob
	endings  map[string]kind // *.ending, with one dot
	globs    []pattern       // others of one part
	paths    []pattern       // of several parts, or anchored
	folders  bool            // some pattern is about folders
	patterns int
}

func newList(texts []string, k kind) (list, error) {
	l := list{exact: map[string]kind{}, endings: map[string]kind{}, globs: nil, paths: nil, folders: false, patterns: 0}
	for _, text := range texts {
		p, err := parse(text, k)
		if err != nil {
			return list{}, err
		}
		l.add(p)
	}
	return l, nil
}

func (l *list) add(p pattern) {
	l.patterns++
	l.folders = l.folders || p.kind != files
	name := p.parts[0].text
	ending, isEnding := strings.CutPrefix(name, "*.")
	switch {
	case p.anchored || len(p.parts) > 1:
		l.paths = append(l.paths, p)
	case p.parts[0].plain:
		join(l.exact, name, p.kind)
	case isEnding && !strings.ContainsAny(ending, special+"."):
		join(l.endings, ending, p.kind)
	default:
		l.globs = append(l.globs, p)
	}
}

// join adds k to what is there.
func join(m map[string]kind, key string, k kind) {
	if old, ok := m[key]; ok && old != k {
		k = anything
	}
	m[key] = k
}

// couldBe reports whether name is the last one of some pattern's, whatever that
// is about. It is what nearly every name is asked, and nearly none is.
func (l *list) couldBe(name string) bool {
	if _, ok := l.exact[name]; ok {
		return true
	}
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		if _, ok := l.endings[name[i+1:]]; ok {
			return true
		}
	}
	for i := range l.globs {
		if l.globs[i].parts[0].match(name) {
			return true
		}
	}
	for i := range l.paths {
		if parts := l.paths[i].parts; parts[len(parts)-1].match(name) {
			return true
		}
	}
	return false
}

// named reports whether some pattern of one part names it.
func (l *list) named(name string, dir bool) bool {
	if k, ok := l.exact[name]; ok && k.about(dir) {
		return true
	}
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		if k, ok := l.endings[name[i+1:]]; ok && k.about(dir) {
			return true
		}
	}
	return slices.ContainsFunc(l.globs, func(p pattern) bool { return p.kind.about(dir) && p.parts[0].match(name) })
}

// has reports whether some pattern names the path of folded components.
func (l *list) has(parts []string, dir bool) bool {
	return l.named(parts[len(parts)-1], dir) ||
		slices.ContainsFunc(l.paths, func(p pattern) bool { return p.kind.about(dir) && p.matches(parts) })
}
