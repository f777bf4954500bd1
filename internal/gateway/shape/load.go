package shape

import (
	"fmt"
	"maps"
	"math/bits"
	"net/http"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey/internal/gateway/document"
)

// Load compiles a file. Checks are those that its expressions name, besides the
// ones that are known here (see Checks). An error is one of the file.
func Load(file []byte, checks map[string]Check) (*Shape, error) {
	root, err := document.Parse(file, document.Limits{})
	if err != nil {
		return nil, fmt.Errorf("read the list: %w", err)
	}
	l := loader{
		types:   root.Get("types"),
		weights: root.Get("weights"),
		snake:   root.Get("aliases").Str() == "snake_case",
		checks:  Checks(),
		named:   map[string]*spec{},
	}
	maps.Copy(l.checks, checks)
	if err := only(root, "source", "dated", "aliases", "weights", "types", "note"); err != nil {
		return nil, err
	}
	if l.types == nil {
		return nil, fmt.Errorf("the list has no types")
	}
	for _, m := range l.types.Members {
		if _, err := l.typ(m.Name); err != nil {
			return nil, err
		}
	}
	for name, sp := range l.named {
		if *sp == (spec{}) {
			return nil, fmt.Errorf("the type %q is defined by itself alone", name)
		}
	}
	return &Shape{Source: root.Get("source").Str(), Dated: root.Get("dated").Str(), types: l.named}, nil
}

type loader struct {
	types   *document.Value
	weights *document.Value
	snake   bool
	checks  map[string]Check
	named   map[string]*spec
}

// typ returns the spec of a named type, which may not be complete yet: types
// name each other in circles.
func (l *loader) typ(name string) (*spec, error) {
	if sp := l.named[name]; sp != nil {
		return sp, nil
	}
	def := l.types.Get(name)
	if def == nil {
		return nil, fmt.Errorf("there is no type %q", name)
	}
	return l.define(name, def)
}

// define compiles a definition and names it. The rule exists before its parts
// are looked at, so that parts may refer to it.
func (l *loader) define(name string, def *document.Value) (*spec, error) {
	if def.Kind == document.String {
		return l.alias(name, def.Text)
	}
	if l.named[name] != nil {
		return nil, fmt.Errorf("the type %q is there twice", name)
	}
	sp, r := &spec{}, &rule{status: http.StatusBadRequest}
	l.named[name] = sp
	compile := l.object
	switch {
	case def.Get("fields") != nil || def.Get("with") != nil && def.Get("by") == nil:
		r.what, sp.kinds[document.Object] = object, r
	case def.Get("by") != nil:
		r.what, r.code, sp.kinds[document.Object] = union, "unknown_block_type", r
		compile = l.union
	case def.Get("values") != nil:
		r.what, r.code, sp.kinds[document.String] = values, "value_not_allowed", r
		compile = l.values
	default:
		return nil, fmt.Errorf("the type %q is neither an object nor a union nor a set", name)
	}
	if code := def.Get("code").Str(); code != "" {
		r.code = code
	}
	if status, ok := def.Get("status").Int(); ok {
		r.status = int(status)
	}
	r.tokens, _ = def.Get("tokens").Int()
	if err := compile(name, def, r); err != nil {
		return nil, err
	}
	return sp, nil
}

func (l *loader) alias(name, expression string) (*spec, error) {
	l.named[name] = &spec{} // without kinds until it is known
	sp, err := l.expression(expression)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	*l.named[name] = *sp
	return l.named[name], nil
}

func (l *loader) object(name string, def *document.Value, r *rule) error {
	if err := only(def, "fields", "with", "one_of", "tokens", "note", "required"); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	fields, err := l.fields(name, def, 0)
	if err != nil {
		return err
	}
	r.fields = make(map[string]*entry, len(fields))
	for _, f := range fields {
		e, required, err := l.entry(f.owner+"."+f.Name, f.Value)
		if err != nil {
			return err
		}
		if required {
			e.bit = r.nextBit()
			r.required |= e.bit
		}
		if e.bit == 0 && required {
			return fmt.Errorf("%s has too many members that must be there", name)
		}
		e.name = f.Name
		r.fields[f.Name] = e
		if alias := snake(f.Name); l.snake && alias != f.Name {
			r.fields[alias], r.aliased = e, true
		}
	}
	return r.decides(name, def)
}

// nextBit is a bit that no member has; 0 when there is none left.
func (r *rule) nextBit() uint64 { return 1 << bits.Len64(r.required) }

// nameOf is the name of a member by one of the bits of missing.
func (r *rule) nameOf(missing uint64) string {
	for _, name := range slices.Sorted(maps.Keys(r.fields)) {
		if e := r.fields[name]; e.bit&missing != 0 {
			return e.name
		}
	}
	return ""
}

func (r *rule) decides(name string, def *document.Value) error {
	names := def.Get("one_of")
	if names == nil {
		return nil
	}
	r.oneOf = make(map[string]bool, len(names.Items))
	for _, n := range names.Items {
		if r.fields[n.Str()] == nil {
			return fmt.Errorf("%s: one_of names %q, which is no field", name, n.Str())
		}
		r.oneOf[n.Str()] = true
	}
	return nil
}

// field is a member of a definition, and the type that defines it.
type field struct {
	document.Member

	owner string
}

// fields gathers the fields of a type and of those it has as well; its own win.
func (l *loader) fields(name string, def *document.Value, depth int) ([]field, error) {
	if depth > 8 {
		return nil, fmt.Errorf("%s: types have each other's fields in a circle", name)
	}
	var all []field
	if with := def.Get("with"); with != nil {
		for _, other := range with.Items {
			d := l.types.Get(other.Str())
			if d == nil {
				return nil, fmt.Errorf("%s: there is no type %q", name, other.Str())
			}
			more, err := l.fields(other.Str(), d, depth+1)
			if err != nil {
				return nil, err
			}
			all = append(all, more...)
		}
	}
	own := def.Get("fields")
	if own == nil {
		return all, nil
	}
	all = slices.DeleteFunc(all, func(f field) bool { return own.Get(f.Name) != nil })
	for _, m := range own.Members {
		all = append(all, field{Member: m, owner: name})
	}
	return all, nil
}

func (l *loader) union(name string, def *document.Value, r *rule) error {
	if err := only(def, "by", "variants", "absent", "code", "status", "note", "required"); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	r.by = def.Get("by").Str()
	list := def.Get("variants")
	if r.by == "" || list == nil {
		return fmt.Errorf("%s: a union needs by and variants", name)
	}
	r.variants = make(map[string]*entry, len(list.Members))
	for _, m := range list.Members {
		e, err := l.variant(name+"."+m.Name, m.Value)
		if err != nil {
			return err
		}
		r.variants[m.Name] = e
	}
	if absent := def.Get("absent"); absent != nil {
		e, err := l.variant(name+".absent", absent)
		if err != nil {
			return err
		}
		r.absent = e
	}
	return nil
}

func (l *loader) variant(name string, def *document.Value) (*entry, error) {
	e, _, err := l.entry(name, def)
	if err != nil {
		return nil, err
	}
	if e.verdict == Keep && (e.spec == nil || e.spec.kinds[document.Object] == nil) {
		return nil, fmt.Errorf("%s: a variant must be an object", name)
	}
	return e, nil
}

func (l *loader) values(name string, def *document.Value, r *rule) error {
	if err := only(def, "values", "code", "status", "note", "required"); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	list := def.Get("values")
	r.values = make(map[string]*entry, len(list.Members))
	for _, m := range list.Members {
		e, ok, err := verdict(m.Value.Str())
		if err != nil || !ok {
			return fmt.Errorf("%s.%s: a value is kept, dropped or refused: %w", name, m.Name, err)
		}
		r.values[m.Name] = e
	}
	return nil
}

// entry compiles what is said of a member or a variant: a verdict, an expression
// or a type of its own.
func (l *loader) entry(name string, def *document.Value) (e *entry, required bool, err error) {
	if def.Kind == document.Object {
		sp := l.named[name] // by another type that has the field as well
		if sp == nil {
			sp, err = l.define(name, def)
		}
		return &entry{verdict: Keep, spec: sp}, def.Get("required").IsTrue(), err
	}
	if def.Kind != document.String {
		return nil, false, fmt.Errorf("%s: this is neither an expression nor a type", name)
	}
	e, ok, err := verdict(def.Text)
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", name, err)
	}
	if ok && e.verdict != Keep {
		return e, false, nil
	}
	expression, required := strings.CutSuffix(def.Text, "!")
	sp, err := l.expression(expression)
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", name, err)
	}
	return &entry{verdict: Keep, spec: sp}, required, nil
}

// only reports members that a definition cannot have: a word that is spelt wrong
// must not be a rule that is not there.
func only(def *document.Value, names ...string) error {
	for _, m := range def.Members {
		if !slices.Contains(names, m.Name) {
			return fmt.Errorf("%q means nothing here", m.Name)
		}
	}
	return nil
}
