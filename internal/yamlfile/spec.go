package yamlfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey/internal/spell"
)

// Kind is what a value of a file is.
type Kind uint8

// The kinds.
const (
	Text      Kind = iota
	Number         // whole, from Min to Max
	Scalar         // text or a number, read as it was written
	Flag           // true or false
	List           // of Item
	OneOrMore      // Item, or a list of it
	Mapping        // with Keys
	Table          // a mapping whose keys are the writer's own names
	Entry          // text, or a mapping with Keys
	Any            // whatever JSON has
)

// Spec says what a value may be. The parser and the published schema are both
// drawn from it.
type Spec struct {
	Kind     Kind
	Help     string
	Enum     []string // of Text
	Min, Max int64    // of Number
	What     string   // of Number, for messages: "a port"
	Form     string   // of Scalar: a regular expression, for the published schema alone
	Item     *Spec    // of List, OneOrMore and Table
	Keys     []Key    // of Mapping and Entry
	Required []string // keys that have to be there
	Least    int      // of List: how many items it has
	OneOf    []string // keys of which a mapping has exactly one

	// Meant is what people write in place of a key of Mapping or Entry, in lower
	// case, and the key that it is.
	Meant map[string]string
	// Secret is for a Mapping that names a secret: nothing that stands there is
	// repeated, since it may be the secret itself. It is the hint of what is wrong.
	Secret string

	Names     *regexp.Regexp // of Table: what its keys are
	NamesHelp string         // and in words
}

// Key is a key of a mapping.
type Key struct {
	Name string
	Spec *Spec
}

func (s *Spec) find(name string) *Spec {
	if i := slices.IndexFunc(s.Keys, func(k Key) bool { return k.Name == name }); i >= 0 {
		return s.Keys[i].Spec
	}
	return nil
}

// unknown is the hint for a key that is not known.
func (s *Spec) unknown(name string) string {
	key, habit := s.Meant[strings.ToLower(name)]
	if !habit {
		return spell.DidYouMean(name, s.names())
	}
	hint := fmt.Sprintf("did you mean %q?", key)
	if of := s.find(key); of != nil && of.Secret != "" {
		return hint + " " + of.Secret
	}
	return hint + " known: " + strings.Join(s.names(), ", ")
}

func (s *Spec) names() []string {
	out := make([]string, len(s.Keys))
	for i, k := range s.Keys {
		out[i] = k.Name
	}
	return out
}

// Schema returns the JSON Schema of a file that is held to s.
func Schema(title string, s *Spec) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	top := s.schema()
	top["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	top["title"] = title
	err := enc.Encode(top)
	return out.Bytes(), err
}

func (s *Spec) schema() map[string]any {
	out := map[string]any{}
	if s.Help != "" {
		out["description"] = s.Help
	}
	switch s.Kind {
	case Text:
		out["type"] = "string"
		if len(s.Enum) > 0 {
			out["enum"] = s.Enum
		} else {
			out["minLength"] = 1
		}
	case Number:
		out["type"], out["minimum"], out["maximum"] = "integer", s.Min, s.Max
	case Scalar:
		out["type"] = []string{"string", "number"}
		if s.Form != "" {
			out["pattern"] = s.Form
		}
	case Flag:
		out["type"] = "boolean"
	case List:
		s.array(out)
	case OneOrMore:
		many := map[string]any{}
		s.array(many)
		out["oneOf"] = []any{s.Item.schema(), many}
	case Mapping:
		s.object(out)
	case Table:
		s.table(out)
	case Entry:
		inner := map[string]any{}
		s.object(inner)
		out["oneOf"] = []any{map[string]any{"type": "string", "minLength": 1}, inner}
	case Any: // no word about it is all that there is to say
	}
	return out
}

func (s *Spec) array(out map[string]any) {
	out["type"], out["items"] = "array", s.Item.schema()
	if s.Least > 0 {
		out["minItems"] = s.Least
	}
}

func (s *Spec) table(out map[string]any) {
	out["type"], out["additionalProperties"] = "object", s.Item.schema()
	if s.Names != nil {
		out["propertyNames"] = map[string]any{"pattern": s.Names.String()}
	}
}

func (s *Spec) object(out map[string]any) {
	properties := map[string]any{}
	for _, k := range s.Keys {
		properties[k.Name] = k.Spec.schema()
	}
	out["type"], out["properties"], out["additionalProperties"] = "object", properties, false
	if len(s.Required) > 0 {
		out["required"] = s.Required
	}
	if len(s.OneOf) > 0 {
		var choices []any
		for _, name := range s.OneOf {
			choices = append(choices, map[string]any{"required": []string{name}})
		}
		out["oneOf"] = choices
	}
}
