package shape

import "github.com/bailey-dev/bailey/internal/gateway/document"

// Node is a place in a list, for tests that go through a provider's own types
// and hold the list to them. The zero Node knows nothing.
type Node struct {
	sp *spec
	by string // the member that told which variant this is
}

// Type is the place of a named type.
func (s *Shape) Type(name string) Node { return Node{sp: s.types[name]} }

// Takes reports whether a value of that kind of JSON can stand here.
func (n Node) Takes(kind document.Kind) bool { return n.rule(kind) != nil }

// Free reports whether any JSON can stand here, unjudged.
func (n Node) Free() bool { return n.is(free) || n.is(schema) }

// Any reports whether any string can stand here, but for its length and checks.
func (n Node) Any() bool {
	r := n.rule(document.String)
	return r != nil && r.what != values
}

// Field is the member of an object, or of the objects of a map.
func (n Node) Field(name string) (Verdict, Node) {
	r := n.rule(document.Object)
	switch {
	case r == nil:
	case r.what == dict:
		return Keep, Node{sp: r.elem}
	case name != "" && name == n.by:
		return Keep, Node{}
	case r.fields[name] != nil:
		return r.fields[name].verdict, Node{sp: r.fields[name].spec}
	}
	return Unknown, Node{}
}

// By is the member that tells the variants of a union apart; it is empty where
// there is none.
func (n Node) By() string {
	if !n.is(union) {
		return ""
	}
	return n.rule(document.Object).by
}

// Variant is one of a union.
func (n Node) Variant(name string) (Verdict, Node) {
	if !n.is(union) {
		return Unknown, Node{}
	}
	r := n.rule(document.Object)
	e := r.variants[name]
	if e == nil {
		return Unknown, Node{}
	}
	return e.verdict, Node{sp: e.spec, by: r.by}
}

// Item is what a list holds.
func (n Node) Item() Node {
	r := n.rule(document.Array)
	if r == nil || r.what != list {
		return Node{}
	}
	return Node{sp: r.elem}
}

// Value tells what is said of one string, where not any is taken.
func (n Node) Value(s string) Verdict {
	r := n.rule(document.String)
	if r == nil || r.what != values || r.values[s] == nil {
		return Unknown
	}
	return r.values[s].verdict
}

func (n Node) rule(kind document.Kind) *rule {
	if n.sp == nil {
		return nil
	}
	return n.sp.kinds[kind]
}

// is reports what is done with an object here.
func (n Node) is(w what) bool {
	r := n.rule(document.Object)
	return r != nil && r.what == w
}
