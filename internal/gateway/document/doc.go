// Package document is JSON as the gateway takes it: parsed once, strictly, into
// a tree that is changed and written anew.
//
// Duplicate names, invalid UTF-8, lone surrogates, U+0000, a byte order mark,
// anything after the document and anything over the bounds are errors. Names
// are compared exactly (RFC 8259 §4 leaves all of this to the parser, and
// parsers differ). What was accepted is therefore read alike by every parser
// that comes after, and what is sent is the tree, never the bytes that came.
package document
