package document

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits bounds a document. What is zero has the default.
type Limits struct {
	Depth  int // of containers in each other; 64
	Nodes  int // values in all; 250,000, which is some tens of MB as a tree
	Width  int // items or members of one container; 100,000
	String int // bytes of one string or name, decoded; 16 MiB
	Number int // bytes of one number; 128
}

func (l Limits) orDefault() Limits {
	for _, d := range []struct {
		field *int
		value int
	}{
		{&l.Depth, 64},
		{&l.Nodes, 250_000},
		{&l.Width, 100_000},
		{&l.String, 16 << 20},
		{&l.Number, 128},
	} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	return l
}

// Error is why something is no document.
type Error struct {
	Offset int64  // of the byte at or after which it went wrong
	Path   string // as "messages[2].content"; empty for the whole
	Reason string // one clause, without the place
}

// Error says what and where.
func (e *Error) Error() string {
	where := fmt.Sprintf("at byte %d", e.Offset)
	if e.Path != "" {
		where = e.Path + ", " + where
	}
	return e.Reason + " (" + where + ")"
}

// Parse reads one document. Its error is an *Error. The tree holds no part of b.
func Parse(b []byte, lim Limits) (*Value, error) {
	// One copy serves all strings that need no decoding: the tree of a body
	// that is mostly text costs about the body once more.
	p := parser{
		lim: lim.orDefault(),
		raw: string(b),
		dec: jsontext.NewDecoder(bytes.NewBuffer(b)),
	}
	root, err := p.document()
	if err == nil {
		return root, nil
	}
	return nil, p.explain(err)
}

type parser struct {
	lim   Limits
	raw   string
	dec   *jsontext.Decoder
	nodes int

	open    []container
	items   []*Value // of all open lists, the innermost last
	members []Member // of all open objects
	slab    []Value
	scratch []byte
}

// container is one that is not closed yet.
type container struct {
	value *Value
	first int    // where its items or members begin
	name  string // of the member whose value comes next
	named bool
}

// boundError is a document that the grammar allows and the bounds do not.
type boundError string

func (e boundError) Error() string { return string(e) }

func (p *parser) document() (*Value, error) {
	for {
		v, err := p.next()
		if err != nil {
			return nil, err
		}
		if v == nil {
			continue
		}
		root, err := p.add(v)
		if err != nil {
			return nil, err
		}
		if !root {
			continue
		}
		if _, err := p.dec.ReadToken(); !errors.Is(err, io.EOF) {
			return nil, boundError("there is more after the end of the document")
		}
		return v, nil
	}
}

// next reads one token, and returns the value that it completes, if it does.
func (p *parser) next() (*Value, error) {
	switch p.dec.PeekKind() {
	case '{':
		return nil, p.begin(Object)
	case '[':
		return nil, p.begin(Array)
	case '}', ']':
		return p.end()
	case '"':
		return p.text()
	default:
		return p.plain()
	}
}

func (p *parser) begin(kind Kind) error {
	if _, err := p.dec.ReadToken(); err != nil {
		return err
	}
	if len(p.open) >= p.lim.Depth {
		return boundError(fmt.Sprintf("the document is nested deeper than %d", p.lim.Depth))
	}
	v, err := p.value(kind)
	if err != nil {
		return err
	}
	c := container{value: v, first: len(p.items)}
	if kind == Object {
		c.first = len(p.members)
	}
	p.open = append(p.open, c)
	return nil
}

// end closes the innermost container. Its parts are copied out of the common
// stack, so that they take the room they need and no more.
func (p *parser) end() (*Value, error) {
	if _, err := p.dec.ReadToken(); err != nil {
		return nil, err
	}
	c := p.open[len(p.open)-1]
	p.open = p.open[:len(p.open)-1]
	if c.value.Kind == Object {
		c.value.Members = append([]Member(nil), p.members[c.first:]...)
		p.members = p.members[:c.first]
	} else {
		c.value.Items = append([]*Value(nil), p.items[c.first:]...)
		p.items = p.items[:c.first]
	}
	return c.value, nil
}

// text reads a string: a value, or the name of a member, which is kept for the
// value that follows.
func (p *parser) text() (*Value, error) {
	literal, err := p.dec.ReadValue()
	if err != nil {
		return nil, err
	}
	s, err := p.decode(literal)
	if err != nil {
		return nil, err
	}
	if n := len(p.open); n > 0 && p.open[n-1].value.Kind == Object && !p.open[n-1].named {
		p.open[n-1].name, p.open[n-1].named = s, true
		return nil, nil //nolint:nilnil // a name completes no value
	}
	v, err := p.value(String)
	if err != nil {
		return nil, err
	}
	v.Text = s
	return v, nil
}

func (p *parser) decode(literal jsontext.Value) (string, error) {
	if len(literal) > p.lim.String && len(literal)/6 > p.lim.String {
		return "", p.tooLong()
	}
	var s string
	if bytes.IndexByte(literal, '\\') < 0 {
		end := int(p.dec.InputOffset())
		s = p.raw[end-len(literal)+1 : end-1]
	} else {
		var err error
		if p.scratch, err = appendUnquoted(p.scratch[:0], literal); err != nil {
			return "", err
		}
		if bytes.IndexByte(p.scratch, 0) >= 0 {
			return "", boundError("a string holds U+0000")
		}
		s = string(p.scratch)
	}
	if len(s) > p.lim.String {
		return "", p.tooLong()
	}
	return s, nil
}

func (p *parser) tooLong() error {
	return boundError(fmt.Sprintf("a string is longer than %d bytes", p.lim.String))
}

// plain reads a number or a literal. PeekKind knows nothing else that is valid,
// so that ReadValue has the error where it is neither.
func (p *parser) plain() (*Value, error) {
	literal, err := p.dec.ReadValue()
	if err != nil {
		return nil, err
	}
	kind := Number
	switch literal.Kind() {
	case 'n':
		kind = Null
	case 't':
		kind = True
	case 'f':
		kind = False
	default:
	}
	v, err := p.value(kind)
	if err != nil || kind != Number {
		return v, err
	}
	if len(literal) > p.lim.Number {
		return nil, boundError(fmt.Sprintf("a number is longer than %d characters", p.lim.Number))
	}
	end := int(p.dec.InputOffset())
	v.Text = p.raw[end-len(literal) : end]
	return v, nil
}

// value makes a value, or says that there are too many already: the tree never
// grows beyond the bound, however small its parts are.
func (p *parser) value(kind Kind) (*Value, error) {
	p.nodes++
	if p.nodes > p.lim.Nodes {
		return nil, boundError(fmt.Sprintf("the document has more than %d values", p.lim.Nodes))
	}
	if len(p.slab) == cap(p.slab) {
		p.slab = make([]Value, 0, min(max(16, p.nodes), 1024))
	}
	p.slab = append(p.slab, Value{Kind: kind})
	return &p.slab[len(p.slab)-1], nil
}

// add puts a value where it belongs, and reports whether it is the root.
func (p *parser) add(v *Value) (root bool, err error) {
	if len(p.open) == 0 {
		return true, nil
	}
	c := &p.open[len(p.open)-1]
	var count int
	if c.value.Kind == Object {
		p.members = append(p.members, Member{Name: c.name, Value: v})
		c.name, c.named = "", false
		count = len(p.members) - c.first
	} else {
		p.items = append(p.items, v)
		count = len(p.items) - c.first
	}
	if count > p.lim.Width {
		return false, boundError(fmt.Sprintf("a list or object has more than %d parts", p.lim.Width))
	}
	return false, nil
}

// explain puts an error in our words and gives it its place.
func (p *parser) explain(err error) *Error {
	if bound, ok := errors.AsType[boundError](err); ok {
		return &Error{Offset: p.dec.InputOffset(), Path: path(p.dec.StackPointer()), Reason: string(bound)}
	}
	e := &Error{Offset: p.dec.InputOffset(), Reason: "the document is not JSON"}
	syntax, ok := errors.AsType[*jsontext.SyntacticError](err)
	if ok {
		e.Offset, e.Path = syntax.ByteOffset, path(syntax.JSONPointer)
	}
	switch {
	case errors.Is(err, io.EOF) && strings.TrimSpace(p.raw) == "":
		e.Reason = "the document is empty"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		e.Reason = "the document ends too early"
	case errors.Is(err, jsontext.ErrDuplicateName):
		e.Reason = "a name stands twice in one object"
	case ok && syntax.Err != nil:
		e.Reason = "the document is not JSON: " + syntax.Err.Error()
	}
	return e
}

// path writes a JSON pointer as people write places, shortened: names come from
// strangers.
func path(pointer jsontext.Pointer) string {
	var b strings.Builder
	for token := range pointer.Tokens() {
		b.WriteString(Step(token))
		if b.Len() > 512 {
			b.WriteString("…")
			break
		}
	}
	return strings.TrimPrefix(b.String(), ".")
}
