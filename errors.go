package bailey

import (
	"errors"
	"strings"
)

// Kind says what sort of failure an Error is. The set is closed.
type Kind uint8

// The kinds of failure. Internal is the zero value on purpose: a failure
// nobody classified is ours.
const (
	Internal    Kind = iota // a broken promise of bailey itself
	Invalid                 // the caller's input is wrong
	NotFound                // what was named does not exist
	Forbidden               // what was asked is not allowed
	Conflict                // what was asked clashes with what exists
	Exhausted               // a limit was reached
	Unavailable             // something needed is not there now
	Unsupported             // this machine cannot do it
)

// String returns the kind's name in lower case.
func (k Kind) String() string {
	switch k {
	case Internal:
		return "internal"
	case Invalid:
		return "invalid"
	case NotFound:
		return "not found"
	case Forbidden:
		return "forbidden"
	case Conflict:
		return "conflict"
	case Exhausted:
		return "exhausted"
	case Unavailable:
		return "unavailable"
	case Unsupported:
		return "unsupported"
	}
	return "internal"
}

// Error is a failure that a person will read: what failed, and what to try.
type Error struct {
	Kind    Kind
	Message string // what failed, naming the thing; one line, no trailing stop
	Hint    string // what to try; may be empty
	Cause   error  // for logs and errors.Is; printed after the message
}

// Error returns the message and the cause on one line.
func (e *Error) Error() string {
	if e.Cause == nil {
		return e.Message
	}
	return e.Message + ": " + e.Cause.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// NewError makes an Error without a cause. The hint may be empty.
func NewError(kind Kind, message, hint string) *Error {
	return &Error{Kind: kind, Message: oneLine(message), Hint: oneLine(hint), Cause: nil}
}

// WrapError makes an Error around a cause. Without a hint of its own it has
// that of the cause.
func WrapError(kind Kind, message string, cause error, hint string) *Error {
	if e, ok := errors.AsType[*Error](cause); ok && hint == "" {
		hint = e.Hint
	}
	return &Error{Kind: kind, Message: oneLine(message), Hint: oneLine(hint), Cause: cause}
}

// KindOf returns the kind of the first Error in err's chain, else Internal.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Internal
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
