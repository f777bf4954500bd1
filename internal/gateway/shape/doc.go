// Package shape judges a document by a list of what is known: one dated file of
// data for each provider says which members an object may have and what each may
// be, and what is to be done about it.
//
// What the file does not name is refused by its name, at any depth. A file says
// of each member, variant and value one of three things: it is kept, it is
// dropped and told, or it is refused with a reason. Nothing here knows a
// provider: the words below are all there is to a file.
//
//	{
//	  "source": "anthropic-sdk-go v2.15.0", "dated": "2026-11-24",
//	  "aliases": "snake_case",
//	  "weights": {"image": {"per": 100, "min": 1600, "max": 5000}},
//	  "types": {
//	    "request": {"fields": {
//	      "model":    "string!",
//	      "messages": "list message!",
//	      "stream":   "bool",
//	      "service_tier": "drop: it changes the price"
//	    }},
//	    "message": {"tokens": 5, "fields": {"role": "one of user|assistant!", "content": "text or list block!"}},
//	    "block":   {"by": "type", "variants": {"text": {"fields": {"text": "text!"}}, "image": "image"}},
//	    "caller":  {"values": {"direct": "keep", "code_execution": "drop"}}
//	  }
//	}
//
// # Types
//
// A type is an object ("fields", and "with": types whose fields it has as well),
// a union told apart by a member ("by", "variants", and "absent" for the variant
// where that member is missing), a set of strings ("values"), or an expression.
// In the place of a name, a type may stand itself; it is then known as
// "outer.member", and "required" says that the member must be there. A member
// "note" is for readers.
//
// An object of which one member decides what it is, by which of them is there,
// names those in "one_of": two of them are refused, and the object goes with the
// one it had. "code" and "status" say how a union refuses what it does not know.
// "tokens" is what an object costs besides its parts.
//
// # Expressions
//
//	text          a string that counts as tokens
//	string        a string of up to 4096 bytes of which the first 64 do not, such as an id
//	opaque        a string of any length that does not, such as a signature
//	blob(weight)  a string of encoded bytes, which cost what "weights" says
//	bool, int, number, null     int: whole and not negative
//	              with "aliases", Google's JSON: as text too, and one object for a list
//	any           JSON of the client's own, which counts as text
//	one of a|b    a string that is one of those
//	list T, map T; T or U       U of another kind of JSON than T
//	T!            the member must be there
//	keep; drop: why; refuse code: what the reader is told
//
// string, text and blob take the name of a check: string(data_uri),
// blob(image,data_uri). A member that is null counts as absent, unless its type
// takes null.
//
// # What dropping does
//
// A list or an object that is emptied by drops is dropped, and so is an object
// that loses a member it must have, so that what is left is whole; where that
// reaches the root, the document is refused.
package shape
