package secret

import (
	"slices"
	"strings"
)

// Within reports whether a value that may go where d says goes nowhere that o
// does not let it: d is the same or narrower. It may say no of what would take
// two rules of o to see.
func (d Definition) Within(o Definition) bool {
	if d.Gateway != o.Gateway || d.Keep > o.Keep {
		return false
	}
	return !slices.ContainsFunc(d.Rules, func(r Rule) bool {
		return !slices.ContainsFunc(o.Rules, r.within)
	})
}

func (r Rule) within(o Rule) bool {
	return r.Place == o.Place && all(r.Hosts, o.Hosts, Host.within) &&
		narrows(r.Methods, o.Methods, func(m, of string) bool { return m == of }) && narrows(r.Paths, o.Paths, isBelow)
}

// narrows is all for lists of which an empty one stands for anything.
func narrows(list, of []string, in func(a, b string) bool) bool {
	return len(of) == 0 || len(list) > 0 && all(list, of, in)
}

// all reports whether each of a list is in one of the others.
func all[T any](list, of []T, in func(a, b T) bool) bool {
	return !slices.ContainsFunc(list, func(a T) bool {
		return !slices.ContainsFunc(of, func(b T) bool { return in(a, b) })
	})
}

func (h Host) within(o Host) bool {
	if h == o {
		return true
	}
	below, ok := strings.CutSuffix(h.Name, "."+o.Name)
	return o.Wildcard && h.Port == o.Port && ok && below != ""
}

// isBelow reports whether a prefix of whole segments is another or below it.
func isBelow(path, of string) bool {
	below, ok := strings.CutPrefix(path, strings.TrimSuffix(of, "/"))
	return ok && (below == "" || below[0] == '/')
}
