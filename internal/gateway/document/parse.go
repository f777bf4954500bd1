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
	lim = lim.orDefault()
	if root := quickly(b, lim); root != nil {
		return root, nil
	}
	if _, err := thoroughly(b, tree{lim: lim, barren: true}); err != nil { // which takes no memory but for b
		return nil, err
	}
	return thoroughly(b, tree{lim: lim})
}

// thoroughly is what holds for every document: its errors say what is wrong with
// one, and where.
func thoroughly(b []byte, empty tree) (*Value, error) {
	// One copy serves all strings that need no decoding: the tree of a body
	// that is mostly text costs about the body once more.
	p := parser{
		tree: empty,
		raw:  string(b),
		dec:  jsontext.NewDecoder(bytes.NewBuffer(b)),
	}
	root, err := p.document()
	if err == nil {
		return root, nil
	}
	return nil, p.explain(err)
}

type parser struct {
	tree

	raw     string
	dec     *jsontext.Decoder
	scratch []byte
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
		if len(p.open) > 0 {
			if err := p.add(v); err != nil {
				return nil, err
			}
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
	return p.enter(kind)
}

func (p *parser) end() (*Value, error) {
	if _, err := p.dec.ReadToken(); err != nil {
		return nil, err
	}
	return p.leave(), nil
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
	if n := len(p.open); n > 0 && p.open[n-1].kind == Object && !p.open[n-1].named {
		p.open[n-1].name, p.open[n-1].named = s, true
		return nil, nil //nolint:nilnil // a name completes no value
	}
	v, err := p.make(String)
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
	if bytes.IndexByte(literal, '\\') >= 0 {
		return p.unescape(literal)
	}
	end := int(p.dec.InputOffset())
	s := p.raw[end-len(literal)+1 : end-1]
	if len(s) > p.lim.String {
		return "", p.tooLong()
	}
	return s, nil
}

func (p *parser) unescape(literal jsontext.Value) (_ string, err error) {
	if p.scratch, err = appendUnquoted(p.scratch[:0], literal); err != nil {
		return "", err
	}
	switch {
	case bytes.IndexByte(p.scratch, 0) >= 0:
		return "", boundError("a string holds U+0000")
	case len(p.scratch) > p.lim.String:
		return "", p.tooLong()
	case p.barren:
		return "", nil
	}
	return string(p.scratch), nil
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
	v, err := p.make(kind)
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
