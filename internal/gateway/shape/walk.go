package shape

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/bailey-dev/bailey/internal/gateway"
	"github.com/bailey-dev/bailey/internal/gateway/document"
)

const (
	mostShort   = 4096
	usualShort  = 64 // an id or a name: what is longer is text, whatever it is called
	mostRemoved = 100
)

// walker goes through one document.
type walker struct {
	path    []step
	removed []string
	more    int // removals beyond those that are listed

	counts
}

// counts are of what is kept.
type counts struct {
	bytes  int64 // of text
	tokens int64 // of all else
	unsure int64 // by how much that may be more
	blobs  int64 // bytes of what costs by its weight
}

// step is one of a path: a name, or an index where there is none.
type step struct {
	name  string
	index int
}

// result counts every byte of what is sent for the bound, names and braces too:
// a provider writes more or less around each item, and there can be any number of
// items that say nothing.
func (w *walker) result(v *document.Value) Result {
	removed := w.removed
	if w.more > 0 {
		removed = append(removed, fmt.Sprintf("and %d more", w.more))
	}
	return Result{Tokens: w.tokens + (w.bytes+2)/3, Bound: w.tokens + w.unsure + size(v) - w.blobs, Removed: removed}
}

// walk judges a value. gone says that it is to be taken out, and was told.
func (w *walker) walk(v *document.Value, sp *spec) (gone bool, refusal *gateway.Refusal) {
	r := sp.kinds[v.Kind]
	if r == nil {
		r = loose(v, sp)
	}
	if r == nil {
		return false, w.refuse(400, "wrong_type", "this is "+v.Kind.String()+", and must be "+sp.expected())
	}
	before := w.counts
	if gone, refusal = w.apply(v, r, ""); gone {
		w.counts = before
	}
	return gone, refusal
}

// loose writes a value as it should have been, where Google's JSON takes it in
// another form: a lone object for a list, and a number as text. It returns the
// rule for that; nil: it is neither.
func loose(v *document.Value, sp *spec) *rule {
	if many := sp.kinds[document.Array]; v.Kind == document.Object && many != nil && many.lone {
		one := *v
		*v = document.Value{Kind: document.Array, Items: []*document.Value{&one}}
		return many
	}
	if number := sp.kinds[document.Number]; v.Kind == document.String && number != nil && number.text {
		if n, err := document.Parse([]byte(v.Text), document.Limits{}); err == nil && n.Kind == document.Number {
			*v = *n
			return number
		}
	}
	return nil
}

func (w *walker) apply(v *document.Value, r *rule, by string) (gone bool, refusal *gateway.Refusal) {
	switch r.what {
	case pass:
		return false, nil
	case text, short, opaque, blob:
		return false, w.str(v.Text, r)
	case whole:
		return false, w.whole(v)
	case schema:
		w.local(v)
		w.free(v)
		return false, nil
	case free:
		w.free(v)
		return false, nil
	case values:
		return w.value(v, r)
	case list:
		return w.list(v, r)
	case dict:
		return w.dict(v, r)
	case object:
		return w.object(v, r, by)
	case union:
		return w.union(v, r)
	}
	return false, w.refuse(400, "wrong_type", "there is no rule for this")
}

// free counts what is any JSON.
func (w *walker) free(v *document.Value) {
	w.bytes += size(v)
	w.unsure += rendered(v)
}

func (w *walker) str(s string, r *rule) *gateway.Refusal {
	if r.check != nil {
		if refusal := r.check(s); refusal != nil {
			refusal.Path = w.where()
			return refusal
		}
	}
	if r.what != blob && w.inJSON() {
		w.unsure += escaped(s)
	}
	switch r.what {
	case text:
		w.bytes += int64(len(s))
	case short:
		if len(s) > mostShort {
			return w.refuse(400, "too_long", fmt.Sprintf("this is longer than %d bytes", mostShort))
		}
		w.bytes += int64(max(0, len(s)-usualShort))
	case blob:
		n, most := r.blob.tokens(s)
		w.tokens += n
		w.unsure += most - n
		w.blobs += int64(len(s))
	default:
	}
	return nil
}

func (w *walker) whole(v *document.Value) *gateway.Refusal {
	if n, ok := v.Int(); !ok || n < 0 || n > 1<<53 {
		return w.refuse(400, "wrong_type", "this must be a whole number that is not negative, without fraction or exponent")
	}
	return nil
}

func (w *walker) value(v *document.Value, r *rule) (gone bool, refusal *gateway.Refusal) {
	e := r.values[v.Text]
	if e == nil {
		return false, w.refuse(r.status, r.code, document.Quote(v.Text)+" is not a value that bailey knows for this")
	}
	return w.judge(e, v.Text)
}

// judge does what an entry says; keeping is left to the caller.
func (w *walker) judge(e *entry, name string) (gone bool, refusal *gateway.Refusal) {
	switch e.verdict {
	case Keep:
		return false, nil
	case Drop:
		w.tell(name)
		return true, nil
	case Refuse:
		return false, w.refuse(403, e.code, e.detail)
	case Unknown:
	}
	return false, w.refuse(400, "unknown_field", "bailey does not know this")
}

func (w *walker) list(v *document.Value, r *rule) (gone bool, refusal *gateway.Refusal) {
	kept := v.Items[:0]
	dropped := false
	w.path = append(w.path, step{})
	for i, item := range v.Items {
		w.path[len(w.path)-1].index = i
		gone, refusal := w.walk(item, r.elem)
		if refusal != nil {
			return false, refusal
		}
		if gone {
			dropped = true
			continue
		}
		kept = append(kept, item)
	}
	w.path = w.path[:len(w.path)-1]
	v.Items = kept
	return dropped && len(kept) == 0, nil
}

func (w *walker) dict(v *document.Value, r *rule) (gone bool, refusal *gateway.Refusal) {
	kept := v.Members[:0]
	dropped := false
	for _, m := range v.Members {
		w.bytes += int64(len(m.Name))
		gone, refusal := w.member(m, r.elem)
		if refusal != nil {
			return false, refusal
		}
		if gone {
			dropped = true
			continue
		}
		kept = append(kept, m)
	}
	v.Members = kept
	return dropped && len(kept) == 0, nil
}

func (w *walker) member(m document.Member, sp *spec) (gone bool, refusal *gateway.Refusal) {
	w.path = append(w.path, step{name: m.Name, index: -1})
	gone, refusal = w.walk(m.Value, sp)
	if refusal == nil {
		w.path = w.path[:len(w.path)-1]
	}
	return gone, refusal
}

func (w *walker) union(v *document.Value, r *rule) (gone bool, refusal *gateway.Refusal) {
	kind := v.Get(r.by)
	e, name := r.absent, ""
	switch {
	case kind == nil && e == nil:
		return false, w.refuse(400, "missing_field", document.Quote(r.by)+" is missing")
	case kind == nil:
	case kind.Kind != document.String:
		return false, w.at(r.by, r.status, r.code, "this must be a string, and is "+kind.Kind.String())
	default:
		name = kind.Text
		e = r.variants[name]
	}
	if e == nil {
		return false, w.at(r.by, r.status, r.code, document.Quote(name)+" is not one that bailey knows, so it is not sent")
	}
	if gone, refusal := w.judge(e, name); gone || refusal != nil {
		return gone, refusal
	}
	return w.apply(v, e.spec.kinds[document.Object], r.by)
}

// object judges members. by is the member that told the variant, if one did: it
// needs no mention among the fields.
func (w *walker) object(v *document.Value, r *rule, by string) (gone bool, refusal *gateway.Refusal) {
	o := objectWalk{walker: w, rule: r, by: by, kept: v.Members[:0]}
	w.tokens += r.tokens
	for _, m := range v.Members {
		if refusal := o.take(m); refusal != nil {
			return false, refusal
		}
	}
	v.Members = o.kept
	if missing := r.required &^ o.seen; missing != 0 {
		return false, w.refuse(400, "missing_field", document.Quote(r.nameOf(missing))+" is missing")
	}
	if r.required&o.lost != 0 || o.lostOne || (o.dropped && len(o.kept) == 0) {
		w.tell("nothing is left of it")
		return true, nil
	}
	return false, nil
}

// objectWalk is the walk through the members of one object.
type objectWalk struct {
	*walker

	rule    *rule
	by      string
	kept    []document.Member
	seen    uint64 // of the members that must be there
	lost    uint64
	dropped bool
	one     string // the deciding member
	lostOne bool
}

func (o *objectWalk) take(m document.Member) *gateway.Refusal {
	e := o.rule.fields[m.Name]
	if e == nil {
		if (o.by == "" || m.Name != o.by) && m.Value.Kind == document.Null {
			o.path = append(o.path, step{name: m.Name, index: -1})
			o.tell("null") // as if it were not there: what SDKs keep of an answer has such
			o.path = o.path[:len(o.path)-1]
			return nil
		}
		if o.by == "" || m.Name != o.by {
			return o.at(m.Name, 400, "unknown_field", "bailey does not know this field, so it is not sent")
		}
		o.kept = append(o.kept, m)
		return nil
	}
	if m.Value.Kind == document.Null && (e.spec == nil || e.spec.kinds[document.Null] == nil) {
		return nil // as if it were not there
	}
	if refusal := o.unambiguous(m.Name, e); refusal != nil {
		return refusal
	}
	o.seen |= e.bit
	gone, refusal := o.entry(m, e)
	if refusal != nil {
		return refusal
	}
	if gone {
		o.dropped = true
		o.lost |= e.bit
		o.lostOne = o.lostOne || o.rule.oneOf[e.name]
		return nil
	}
	o.kept = append(o.kept, document.Member{Name: e.name, Value: m.Value})
	return nil
}

// unambiguous refuses a member that is there under two names, and two where one
// decides.
func (o *objectWalk) unambiguous(name string, e *entry) *gateway.Refusal {
	if e.name != name || o.rule.aliased {
		for _, k := range o.kept {
			if k.Name == e.name {
				return o.at(name, 400, "duplicate_field", "this is there under two names")
			}
		}
	}
	if !o.rule.oneOf[e.name] {
		return nil
	}
	if o.one != "" {
		return o.at(name, 400, "ambiguous", document.Quote(o.one)+" is there as well, and only one of them can be")
	}
	o.one = e.name
	return nil
}

func (o *objectWalk) entry(m document.Member, e *entry) (gone bool, refusal *gateway.Refusal) {
	if e.verdict == Keep {
		return o.member(m, e.spec)
	}
	o.path = append(o.path, step{name: m.Name, index: -1})
	gone, refusal = o.judge(e, "")
	if refusal == nil {
		o.path = o.path[:len(o.path)-1]
	}
	return gone, refusal
}

// tell notes what is taken out, and what it was.
func (w *walker) tell(name string) {
	if len(w.removed) >= mostRemoved {
		w.more++
		return
	}
	told := w.where()
	if name != "" {
		if strconv.QuoteToASCII(name) != `"`+name+`"` || len(name) > 64 {
			name = document.Quote(name)
		}
		told += ": " + name
	}
	w.removed = append(w.removed, told)
}

func (w *walker) refuse(status int, code, detail string) *gateway.Refusal {
	return &gateway.Refusal{Status: status, Code: code, Path: w.where(), Detail: detail}
}

// at refuses a member of the value where the walk is.
func (w *walker) at(name string, status int, code, detail string) *gateway.Refusal {
	w.path = append(w.path, step{name: name, index: -1})
	return w.refuse(status, code, detail)
}

func (w *walker) where() string {
	var b strings.Builder
	for _, s := range w.path {
		if s.index >= 0 {
			b.WriteString("[" + strconv.Itoa(s.index) + "]")
			continue
		}
		b.WriteString(document.Step(s.name))
	}
	return strings.TrimPrefix(b.String(), ".")
}

// expected lists the kinds that a value may have.
func (sp *spec) expected() string {
	var kinds []string
	for kind := range sp.kinds {
		k := document.Kind(kind)
		if sp.kinds[k] != nil && k != document.False {
			kinds = append(kinds, k.String())
		}
	}
	return strings.Join(kinds, " or ")
}

// local takes out of a JSON Schema what refers to anything but a part of the
// schema itself (JSON Schema 2020-12, section 8.2.3), and the address of a dialect
// that is not one of its authors': some servers fetch them.
func (w *walker) local(v *document.Value) {
	for i, item := range v.Items {
		w.path = append(w.path, step{index: i})
		w.local(item)
		w.path = w.path[:len(w.path)-1]
	}
	kept := v.Members[:0]
	for _, m := range v.Members {
		w.path = append(w.path, step{name: m.Name, index: -1})
		if leads(m) {
			w.tell("of what is elsewhere")
		} else {
			w.local(m.Value)
			kept = append(kept, m)
		}
		w.path = w.path[:len(w.path)-1]
	}
	v.Members = kept
}

// leads reports whether a member of a schema refers to what is elsewhere. One of
// such a name that is no text is a property.
func leads(m document.Member) bool {
	if m.Value.Kind != document.String {
		return false
	}
	switch m.Name {
	case "$ref", "$dynamicRef", "$recursiveRef":
		return !strings.HasPrefix(m.Value.Text, "#")
	case "$schema":
		_, rest, _ := strings.Cut(m.Value.Text, "://")
		return !strings.HasPrefix(rest, "json-schema.org/")
	}
	return false
}

// inJSON reports whether a text stands where servers show the model JSON: in a
// tool, or as the arguments of a call.
func (w *walker) inJSON() bool {
	return slices.ContainsFunc(w.path, func(s step) bool {
		return s.name == "tools" || s.name == "tool" || s.name == "arguments"
	})
}

// rendered is by how much a value is longer where it is written as JSON by who
// escapes more than has to be, as templates of chats do with tools, calls and
// their results.
func rendered(v *document.Value) int64 {
	n := escaped(v.Text)
	for _, item := range v.Items {
		n += rendered(item)
	}
	for _, m := range v.Members {
		n += escaped(m.Name) + rendered(m.Value)
	}
	return min(n, math.MaxInt32)
}

// escaped is by how much a text is longer if what is not ASCII, and what means
// something in HTML, is written as \u and four digits for each unit of UTF-16, as
// Python's json and Go's encoding/json do.
func escaped(s string) int64 {
	const digits = len(`\u0000`)
	n := 0
	for _, c := range []string{"<", ">", "&", "'"} {
		n += (digits - 1) * strings.Count(s, c)
	}
	for i := document.Usual(s, 0); i < len(s); i = document.Usual(s, i+1) {
		switch c := s[i]; {
		case c < utf8.RuneSelf:
		case c >= 0xf0: // four bytes: two units
			n += 2*digits - 4
			i += 3
		case c >= 0xe0:
			n += digits - 3
			i += 2
		default:
			n += digits - 2
			i++
		}
	}
	return int64(n)
}

// size is about the number of bytes of a value as JSON, and at least that of its
// text.
func size(v *document.Value) int64 {
	n := quoted(v.Text) + 2
	const longest = 24 // of a number that is written anew, as 1e15 may be with all of its zeros
	if v.Kind == document.Number && strings.ContainsAny(v.Text, ".eE") {
		n = max(n, longest)
	}
	for _, item := range v.Items {
		n += size(item) + 1
	}
	for _, m := range v.Members {
		n += quoted(m.Name) + 4 + size(m.Value)
	}
	return min(n, math.MaxInt32)
}

// quoted is the most bytes that a text has for a tokenizer: as JSON, where a
// control character has six, and where it is normalised before (Unicode Standard
// Annex 15), by which some characters become many.
func quoted(s string) int64 {
	n := int64(len(s))
	for i := document.Usual(s, 0); i < len(s); i = document.Usual(s, i+1) {
		switch c := s[i]; {
		case c == '"' || c == '\\' || c >= '\b' && c <= '\r' && c != '\v':
			n++
		case c < ' ':
			n += 5
		case c >= utf8.RuneSelf:
			p := norm.NFKC.PropertiesString(s[i:])
			n += int64(max(0, len(p.Decomposition())-p.Size()))
			i += max(p.Size(), 1) - 1
		}
	}
	return n
}
