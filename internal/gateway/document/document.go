// Package document is JSON as the gateway takes it: parsed once, strictly, into
// a tree that is changed and written anew.
//
// Duplicate names, invalid UTF-8, lone surrogates, U+0000, a byte order mark,
// anything after the document and anything over the bounds are errors. Names
// are compared exactly (RFC 8259 §4 leaves all of this to the parser, and
// parsers differ).
package document

// Kind is a kind of JSON value.
type Kind uint8

// The kinds.
const (
	Null Kind = iota
	False
	True
	Number
	String
	Array
	Object
)

// Value is a JSON value.
type Value struct {
	Kind    Kind
	Text    string // of a string, decoded; of a number, as it was written
	Items   []*Value
	Members []Member // in order; names are unique
}

// Member is a member of an object.
type Member struct {
	Name  string
	Value *Value
}
