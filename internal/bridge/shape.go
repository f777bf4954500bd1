package bridge

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey/internal/leak"
	"github.com/bailey-dev/bailey/internal/preferences"
)

// shape says what of a value is carried. The zero value carries a plain value
// alone: a number, a switch, a short text that looks like no secret, or a list
// of them.
type shape struct {
	keys map[string]shape // an object of these
	any  *shape           // an object of any keys, each of this shape
	list *shape           // a list of such
}

// plain are keys with plain values.
func plain(names ...string) map[string]shape {
	out := map[string]shape{}
	for _, n := range names {
		out[n] = shape{}
	}
	return out
}

// with adds to a list of keys.
func with(keys map[string]shape, name string, s shape) map[string]shape {
	keys[name] = s
	return keys
}

// longest bounds a text that is carried, in bytes: a name, not a document.
const longest = 300

// carry returns what of a value is carried. left is called with the path of
// each part that is not.
func (s shape) carry(v any, path []string, left func(path []string)) (any, bool) {
	switch {
	case s.list != nil:
		items, ok := v.([]any)
		if !ok {
			left(path)
			return nil, false
		}
		out := make([]any, 0, len(items))
		for _, item := range items {
			if kept, ok := s.list.carry(item, path, left); ok {
				out = append(out, kept)
			}
		}
		return out, true
	case s.keys != nil || s.any != nil:
		t, ok := v.(preferences.Tree)
		if !ok {
			left(path)
			return nil, false
		}
		return s.object(t, path, left), true
	case isPlain(v):
		return v, true
	}
	left(path)
	return nil, false
}

func (s shape) object(t preferences.Tree, path []string, left func(path []string)) preferences.Tree {
	out := preferences.Tree{}
	for _, k := range slices.Sorted(maps.Keys(t)) {
		at := append(slices.Clone(path), k)
		sub, ok := s.keys[k]
		if !ok && s.any != nil {
			sub, ok = *s.any, isName(k)
		}
		if !ok {
			left(at)
			continue
		}
		if kept, ok := sub.carry(t[k], at, left); ok {
			out[k] = kept
		}
	}
	return out
}

// tree is carry for a whole file.
func (s shape) tree(f *finder, t preferences.Tree, prefix ...string) preferences.Tree {
	return s.object(t, prefix, func(path []string) { f.out.Left = append(f.out.Left, strings.Join(path, ".")) })
}

func isPlain(v any) bool {
	switch v := v.(type) {
	case string:
		return isName(v)
	case nil, bool, int64, float64, json.Number:
		return true
	case []any:
		return !slices.ContainsFunc(v, func(item any) bool {
			_, nested := item.([]any)
			return nested || !isPlain(item)
		})
	}
	return false
}

// isName reports whether a text may be carried: short, of one line, and like no
// secret.
func isName(s string) bool {
	if len(s) > longest || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return false
	}
	_, secret := leak.LooksLike(s)
	return !secret
}

// text is a member that is a text, or "".
func text(t preferences.Tree, key string) string {
	s, _ := t[key].(string)
	return s
}

// sub is a member that is an object, or nil.
func sub(t preferences.Tree, key string) preferences.Tree {
	s, _ := t[key].(preferences.Tree)
	return s
}
