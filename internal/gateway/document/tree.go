package document

import "fmt"

// tree is one that is being read, held to its bounds at every step: it never
// grows beyond them, however small its parts are.
type tree struct {
	lim    Limits
	barren bool // nothing is kept: it is only looked whether all is well
	nodes  int

	open    []container
	items   []*Value // of all open lists, the innermost last
	members []Member // of all open objects
	slab    []Value
}

// container is one that is not closed yet.
type container struct {
	kind  Kind
	value *Value
	first int    // where its items or members begin
	count int    // of them
	name  string // of the member whose value comes next
	named bool
}

// enter begins a list or an object.
func (t *tree) enter(kind Kind) error {
	if len(t.open) >= t.lim.Depth {
		return boundError(fmt.Sprintf("the document is nested deeper than %d", t.lim.Depth))
	}
	v, err := t.make(kind)
	if err != nil {
		return err
	}
	c := container{kind: kind, value: v, first: len(t.items)}
	if kind == Object {
		c.first = len(t.members)
	}
	t.open = append(t.open, c)
	return nil
}

// leave closes the innermost container. Its parts are copied out of the common
// stack, so that they take the room they need and no more.
func (t *tree) leave() *Value {
	c := t.open[len(t.open)-1]
	t.open = t.open[:len(t.open)-1]
	switch {
	case t.barren:
	case c.kind == Object:
		c.value.Members = append([]Member(nil), t.members[c.first:]...)
		t.members = t.members[:c.first]
	default:
		c.value.Items = append([]*Value(nil), t.items[c.first:]...)
		t.items = t.items[:c.first]
	}
	return c.value
}

// make makes a value, or says that there are too many already.
func (t *tree) make(kind Kind) (*Value, error) {
	t.nodes++
	if t.nodes > t.lim.Nodes {
		return nil, boundError(fmt.Sprintf("the document has more than %d values", t.lim.Nodes))
	}
	if t.barren {
		t.slab = t.slab[:0]
	}
	if len(t.slab) == cap(t.slab) {
		t.slab = make([]Value, 0, min(max(16, t.nodes), 1024))
	}
	t.slab = append(t.slab, Value{Kind: kind})
	return &t.slab[len(t.slab)-1], nil
}

// add puts a value into the innermost container.
func (t *tree) add(v *Value) error {
	c := &t.open[len(t.open)-1]
	switch {
	case t.barren:
	case c.kind == Object:
		t.members = append(t.members, Member{Name: c.name, Value: v})
	default:
		t.items = append(t.items, v)
	}
	c.name, c.named = "", false
	if c.count++; c.count > t.lim.Width {
		return boundError(fmt.Sprintf("a list or object has more than %d parts", t.lim.Width))
	}
	return nil
}
