package shape

import (
	"errors"
	"fmt"
	"strings"

	"github.com/bailey-dev/bailey/internal/gateway/document"
)

// verdict reads "keep", "drop", "drop: why" and "refuse code: what to tell". It
// reports whether it was one of these.
func verdict(s string) (e *entry, ok bool, err error) {
	head, rest, _ := strings.Cut(s, ":")
	rest = strings.TrimSpace(rest)
	switch word, code, _ := strings.Cut(head, " "); word {
	case "keep":
		return &entry{verdict: Keep}, true, nil
	case "drop":
		return &entry{verdict: Drop, detail: rest}, true, nil
	case "refuse":
		if code == "" || rest == "" {
			return nil, false, errors.New("a refusal needs a code and a reason, as in \"refuse code: reason\"")
		}
		return &entry{verdict: Refuse, code: code, detail: rest}, true, nil
	}
	return nil, false, nil
}

// expression compiles "T or U".
func (l *loader) expression(s string) (*spec, error) {
	alternatives := strings.Split(s, " or ")
	if len(alternatives) == 1 {
		return l.term(s)
	}
	sum := &spec{}
	for _, a := range alternatives {
		sp, err := l.term(a)
		if err != nil {
			return nil, err
		}
		if err := sum.add(sp); err != nil {
			return nil, fmt.Errorf("%q: %w", s, err)
		}
	}
	return sum, nil
}

// add takes the rules of another spec in. They must be for other kinds.
func (sp *spec) add(other *spec) error {
	known := false
	for kind, r := range other.kinds {
		if r == nil {
			continue
		}
		if sp.kinds[kind] != nil {
			return fmt.Errorf("two of its types are %s", document.Kind(kind))
		}
		sp.kinds[kind], known = r, true
	}
	if !known {
		return errors.New("one of its types is defined by this one")
	}
	return nil
}

func (l *loader) term(s string) (*spec, error) {
	s = strings.TrimSpace(s)
	if rest, ok := strings.CutPrefix(s, "one of "); ok {
		return oneOf(rest), nil
	}
	if rest, ok := strings.CutPrefix(s, "list "); ok {
		return l.many(list, document.Array, rest)
	}
	if rest, ok := strings.CutPrefix(s, "map "); ok {
		return l.many(dict, document.Object, rest)
	}
	name, rest, ok := strings.Cut(s, "(")
	if !ok {
		return l.word(s)
	}
	return l.call(name, strings.Split(strings.TrimSuffix(rest, ")"), ","))
}

func (l *loader) many(w what, kind document.Kind, of string) (*spec, error) {
	elem, err := l.term(of)
	if err != nil {
		return nil, err
	}
	sp := &spec{}
	sp.kinds[kind] = &rule{what: w, elem: elem, lone: w == list && l.snake}
	return sp, nil
}

func oneOf(s string) *spec {
	r := &rule{what: values, values: map[string]*entry{}, status: 400, code: "value_not_allowed"}
	for v := range strings.SplitSeq(s, "|") {
		r.values[v] = &entry{verdict: Keep}
	}
	sp := &spec{}
	sp.kinds[document.String] = r
	return sp
}

// word compiles a name without arguments: one of ours, or a type of the file.
func (l *loader) word(name string) (*spec, error) {
	sp := &spec{}
	switch name {
	case "text":
		sp.kinds[document.String] = &rule{what: text}
	case "string":
		sp.kinds[document.String] = &rule{what: short}
	case "opaque":
		sp.kinds[document.String] = &rule{what: opaque}
	case "int":
		sp.kinds[document.Number] = &rule{what: whole, text: l.snake}
	case "number":
		sp.kinds[document.Number] = &rule{what: pass, text: l.snake}
	case "null":
		sp.kinds[document.Null] = &rule{what: pass}
	case "bool":
		sp.kinds[document.True] = &rule{what: pass}
		sp.kinds[document.False] = sp.kinds[document.True]
	case "any", "schema":
		r := &rule{what: free}
		if name == "schema" {
			r.what = schema
		}
		for kind := range sp.kinds {
			sp.kinds[kind] = r
		}
	default:
		return l.typ(name)
	}
	return sp, nil
}

// call compiles string(check), text(check), opaque(check), blob(weight) and
// blob(weight,check).
func (l *loader) call(name string, arguments []string) (*spec, error) {
	r := &rule{}
	switch name {
	case "text":
		r.what = text
	case "string":
		r.what = short
	case "opaque":
		r.what = opaque
	case "blob":
		w, err := l.weight(arguments[0])
		if err != nil {
			return nil, err
		}
		r.what, r.blob = blob, w
		arguments = arguments[1:]
	default:
		return nil, fmt.Errorf("%q takes no arguments", name)
	}
	if len(arguments) > 1 {
		return nil, fmt.Errorf("%s has too many arguments", name)
	}
	for _, a := range arguments {
		if r.check = l.checks[a]; r.check == nil {
			return nil, fmt.Errorf("there is no check %q", a)
		}
	}
	sp := &spec{}
	sp.kinds[document.String] = r
	return sp, nil
}

func (l *loader) weight(name string) (weight, error) {
	def := l.weights.Get(name)
	if def == nil {
		return weight{}, fmt.Errorf("there is no weight %q", name)
	}
	if err := only(def, "per", "min", "max", "text", "picture", "note"); err != nil {
		return weight{}, fmt.Errorf("the weight %q: %w", name, err)
	}
	per, perOK := def.Get("per").Int()
	least, leastOK := def.Get("min").Int()
	most, mostOK := def.Get("max").Int()
	if !perOK || !leastOK || !mostOK || per < 1 || least < 0 || most < least {
		return weight{}, fmt.Errorf("the weight %q needs per, min and max", name)
	}
	return weight{per: per, least: least, most: most, text: def.Get("text").IsTrue(), picture: def.Get("picture").IsTrue()}, nil
}

// snake writes a name in snake_case.
func snake(camel string) string {
	var b strings.Builder
	for i := range len(camel) {
		c := camel[i]
		if c >= 'A' && c <= 'Z' {
			if i > 0 {
				b.WriteByte('_')
			}
			c += 'a' - 'A'
		}
		b.WriteByte(c)
	}
	return b.String()
}
