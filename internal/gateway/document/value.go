package document

import (
	"strconv"
)

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

// String names the kind as people do, for messages.
func (k Kind) String() string {
	switch k {
	case Null:
		return "null"
	case False, True:
		return "a boolean"
	case Number:
		return "a number"
	case String:
		return "a string"
	case Array:
		return "a list"
	case Object:
		return "an object"
	}
	return "unknown"
}

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

// NewString returns a string.
func NewString(s string) *Value { return &Value{Kind: String, Text: s} }

// NewInt returns a number.
func NewInt(n int64) *Value { return &Value{Kind: Number, Text: strconv.FormatInt(n, 10)} }

// NewBool returns true or false.
func NewBool(b bool) *Value {
	if b {
		return &Value{Kind: True}
	}
	return &Value{Kind: False}
}

// NewArray returns a list of items, which it keeps.
func NewArray(items ...*Value) *Value { return &Value{Kind: Array, Items: items} }

// NewObject returns an object of members, which it keeps. Their names must be
// unique.
func NewObject(members ...Member) *Value { return &Value{Kind: Object, Members: members} }

// Get returns the member of that very name, or nil if there is none or v is no
// object. A nil v has no members, so that calls can be chained.
func (v *Value) Get(name string) *Value {
	if v == nil {
		return nil
	}
	for i := range v.Members {
		if v.Members[i].Name == name {
			return v.Members[i].Value
		}
	}
	return nil
}

// Set gives an object a member, in the place of one of that name or at the end.
// It does nothing to a value of another kind.
func (v *Value) Set(name string, value *Value) {
	if v.Kind != Object {
		return
	}
	for i := range v.Members {
		if v.Members[i].Name == name {
			v.Members[i].Value = value
			return
		}
	}
	v.Members = append(v.Members, Member{Name: name, Value: value})
}

// Delete takes the member of that name away and returns its value, or nil if
// there was none.
func (v *Value) Delete(name string) *Value {
	for i := range v.Members {
		if v.Members[i].Name == name {
			old := v.Members[i].Value
			v.Members = append(v.Members[:i], v.Members[i+1:]...)
			return old
		}
	}
	return nil
}

// Rename gives a member another name, and takes away what had that name before.
// It reports whether there was one to rename.
func (v *Value) Rename(from, to string) bool {
	if from == to {
		return v.Get(from) != nil
	}
	value := v.Delete(from)
	if value == nil {
		return false
	}
	v.Set(to, value)
	return true
}

// Str returns the text of a string, and "" of all else. A nil v has none.
func (v *Value) Str() string {
	if v == nil || v.Kind != String {
		return ""
	}
	return v.Text
}

// Int returns a number that is written as a whole one, without fraction or
// exponent, and fits.
func (v *Value) Int() (n int64, ok bool) {
	if v == nil || v.Kind != Number {
		return 0, false
	}
	n, err := strconv.ParseInt(v.Text, 10, 64)
	return n, err == nil
}

// IsTrue reports whether v is the literal true. A nil v is not.
func (v *Value) IsTrue() bool { return v != nil && v.Kind == True }

// AppendTo appends v as compact JSON. Strings are escaped as little as the
// grammar allows.
func (v *Value) AppendTo(b []byte) []byte {
	switch v.Kind {
	case Null:
		return append(b, "null"...)
	case False:
		return append(b, "false"...)
	case True:
		return append(b, "true"...)
	case Number:
		return append(b, v.Text...)
	case String:
		return appendString(b, v.Text)
	case Array:
		return v.appendItems(b)
	case Object:
		return v.appendMembers(b)
	}
	return append(b, "null"...)
}

func (v *Value) appendItems(b []byte) []byte {
	b = append(b, '[')
	for i, item := range v.Items {
		if i > 0 {
			b = append(b, ',')
		}
		b = item.AppendTo(b)
	}
	return append(b, ']')
}

func (v *Value) appendMembers(b []byte) []byte {
	b = append(b, '{')
	for i := range v.Members {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, v.Members[i].Name)
		b = append(b, ':')
		b = v.Members[i].Value.AppendTo(b)
	}
	return append(b, '}')
}
