package shape

import (
	"maps"

	"github.com/bailey-dev/bailey/internal/gateway"
	"github.com/bailey-dev/bailey/internal/gateway/document"
)

// Verdict is what is done about a member, a variant or a value.
type Verdict uint8

// The verdicts. What nothing was said about is unknown, and refused.
const (
	Unknown Verdict = iota
	Refuse
	Drop
	Keep
)

// String returns the word that files use.
func (v Verdict) String() string {
	switch v {
	case Unknown:
		return "unknown"
	case Refuse:
		return "refuse"
	case Drop:
		return "drop"
	case Keep:
		return "keep"
	}
	return "unknown"
}

// Check is a rule for a string that needs more than a type. It returns nil for
// what may pass; the path of what it returns is filled in.
type Check func(text string) *gateway.Refusal

// Shape is a compiled file. It is safe for concurrent use.
type Shape struct {
	Source string // where the list comes from, such as an SDK and its version
	Dated  string // when that was, as 2026-11-24

	types map[string]*spec
}

// Result is what a walk found.
type Result struct {
	Tokens  int64    // the estimate of what the document costs as input
	Bound   int64    // what it costs at most: no byte of the request is more than a token, and no image or document more than its weight's most
	Removed []string // what was taken out, each as "tools[3]: web_search_20250305"; the first hundred
}

// Walk judges v as the named type and takes out of it what is dropped. It
// renames members that were written under an alias. The error is a
// *gateway.Refusal; v is then half changed and of no use.
func (s *Shape) Walk(typ string, v *document.Value) (Result, error) {
	sp := s.types[typ]
	if sp == nil || v == nil {
		return Result{}, &gateway.Refusal{Status: 400, Code: "unknown_type", Detail: "there is no list for this"}
	}
	w := walker{}
	gone, refusal := w.walk(v, sp)
	if refusal == nil && gone {
		refusal = w.refuse(400, "nothing_left", "nothing is left of the request without what bailey takes out")
	}
	if refusal != nil {
		return Result{}, refusal
	}
	return w.result(v), nil
}

// Judge tells what the named type says about a string: of the values of a set,
// the variants of a union or the members of an object.
func (s *Shape) Judge(typ, name string) Verdict {
	return s.Verdicts(typ)[name]
}

// Verdicts lists what the named type says, by the names of its members, variants
// or values. It is nil if there is no such type. Tests hold it to the lists of a
// provider's own SDK.
func (s *Shape) Verdicts(typ string) map[string]Verdict {
	sp := s.types[typ]
	if sp == nil {
		return nil
	}
	all := map[string]Verdict{}
	for _, r := range sp.kinds {
		if r == nil {
			continue
		}
		maps.Copy(all, verdicts(r.values))
		maps.Copy(all, verdicts(r.fields))
		maps.Copy(all, verdicts(r.variants))
	}
	return all
}

func verdicts(entries map[string]*entry) map[string]Verdict {
	all := make(map[string]Verdict, len(entries))
	for name, e := range entries {
		all[name] = e.verdict
	}
	return all
}

// spec is what a value may be: at most one rule for each kind of JSON.
type spec struct {
	kinds [document.Object + 1]*rule
}

// rule is for values of one kind.
type rule struct {
	what what

	check  Check             // of a string
	blob   weight            // of encoded bytes
	values map[string]*entry // of a set of strings

	elem *spec // of a list's items or a map's members
	lone bool  // one object may stand for a list of it, as in Google's own examples
	text bool  // a number may stand as text, as Google's JSON has long ones

	fields   map[string]*entry // of an object
	aliased  bool              // some of them have two names
	required uint64            // the bits of members that must be there
	oneOf    map[string]bool   // members of which one decides
	tokens   int64

	by       string // of a union
	variants map[string]*entry
	absent   *entry
	status   int // of what a union or set does not know
	code     string
}

// what a rule does.
type what uint8

const (
	pass what = iota // of this kind, and that is all
	text
	short
	opaque
	blob
	whole
	free
	schema
	values
	list
	dict
	object
	union
)

// entry is what is said of a member, a variant or a value.
type entry struct {
	verdict Verdict
	code    string // of a refusal
	detail  string
	name    string // as it is sent
	bit     uint64 // of a member that must be there
	spec    *spec
}

// weight estimates the tokens of encoded bytes: one for each "per" of them,
// within bounds. What may be text is bounded by its bytes as well, of which there
// are three for each four that encode them; and so is what stands in the place of
// a picture and is none: a text, a recording or a document, of which some servers
// take any wherever they take one.
type weight struct {
	per, least, most int64

	text, picture bool
}

// pictureMost is the most that a picture costs, of which none costs more than
// most; or what is none.
func pictureMost(s string, most int64) int64 {
	const (
		least    = 4000      // of one that is small, with any service
		token    = 28 * 28   // pixels of a large one
		document = 1_000_000 // tokens of one of many pages
	)
	area, ok := pictureArea(s)
	if !ok {
		return max(most, document)
	}
	return min(most, max(least, area/token))
}

// tokens are the estimate of what encoded bytes cost, and the most that it is.
func (w weight) tokens(s string) (n, most int64) {
	most = w.most
	size := int64(len(s))
	if w.picture {
		most = pictureMost(s, most)
	}
	if w.text || most > w.most {
		most = max(most, (3*size+3)/4)
	}
	if w.per <= 0 {
		return most, most
	}
	return min(max(size/w.per, w.least), most), most
}
