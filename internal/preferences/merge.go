package preferences

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Merge is a file as it was written before a run, as it was found after it, and
// as it is to be written before the next.
type Merge struct {
	Written Tree // by bailey, the last time; nil: never
	Found   Tree // in the home; nil: there was none
	Next    Tree // what bailey would write by itself
	// Forced holds the part of Next that holds whatever was found.
	Forced Tree
	// Pinned are dotted paths of keys of which Next's value holds, or that
	// there is none.
	Pinned []string
}

// Merged is what comes of it.
type Merged struct {
	Tree Tree
	// Kept are the dotted paths of what was changed inside, added or removed,
	// and holds; Overruled of what was and does not. Both are sorted.
	Kept, Overruled []string
}

// Do merges. A value that was found, and that is not the one that was written,
// was set inside: it wins, but over what is forced or pinned.
func (m Merge) Do() Merged {
	var out Merged
	out.Tree = out.join(m, nil)
	slices.Sort(out.Kept)
	slices.Sort(out.Overruled)
	return out
}

func (o *Merged) join(m Merge, at []string) Tree {
	t := Tree{}
	keys := slices.Sorted(maps.Keys(Over(m.Found, m.Next)))
	for _, k := range keys {
		path := append(slices.Clone(at), k)
		if v, ok := o.value(m, k, path); ok {
			t[k] = v
		}
	}
	return t
}

// value decides one key; false: it is not to be there.
func (o *Merged) value(m Merge, key string, path []string) (any, bool) { //nolint:gocognit // one kind of value after the other
	next, isNext := m.Next[key]
	found, isFound := m.Found[key]
	written, isWritten := m.Written[key]
	changed := isFound != isWritten || isFound && !reflect.DeepEqual(found, written)
	if m.holds(key, path) {
		if differs := isFound != isNext || !reflect.DeepEqual(found, next); differs && changed && (isFound || isWritten) {
			o.Overruled = append(o.Overruled, strings.Join(path, "."))
		}
		return next, isNext
	}
	below, isTree := next.(Tree)
	inside, isInside := found.(Tree)
	if isTree || isInside && !isNext || isInside && m.forcedBelow(key) {
		before, _ := written.(Tree)
		forced, _ := m.Forced[key].(Tree)
		sub := o.join(Merge{before, inside, below, forced, m.Pinned}, path)
		return sub, len(sub) > 0 || isTree || isInside && changed
	}
	switch {
	case !changed && (isFound || isNext):
		return next, isNext
	case isFound && isNext && reflect.DeepEqual(found, next):
		return next, true
	case !isFound && !isWritten:
		return next, isNext
	}
	o.Kept = append(o.Kept, strings.Join(path, "."))
	return found, isFound
}

// holds reports whether a key is forced, or pinned by its path or one above.
func (m Merge) holds(key string, path []string) bool {
	if v, ok := m.Forced[key]; ok {
		sub, isTree := v.(Tree)
		if !isTree || len(sub) == 0 {
			return true
		}
	}
	return slices.Contains(m.Pinned, strings.Join(path, "."))
}

func (m Merge) forcedBelow(key string) bool {
	sub, ok := m.Forced[key].(Tree)
	return ok && len(sub) > 0
}

func walk(t Tree, at []string, leaf func(path []string)) {
	for _, k := range slices.Sorted(maps.Keys(t)) {
		path := append(slices.Clone(at), k)
		if sub, ok := t[k].(Tree); ok && len(sub) > 0 {
			walk(sub, path, leaf)
			continue
		}
		leaf(path)
	}
}
