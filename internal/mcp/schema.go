package mcp

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bailey-dev/bailey/internal/task"
)

// budgets is one budget or a list of them.
type budgets []string

// UnmarshalJSON takes a string or a list of strings.
func (b *budgets) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*b = nil
		if one != "" {
			*b = budgets{one}
		}
		return nil
	}
	var list []string
	if err := json.Unmarshal(data, &list); err != nil {
		return fmt.Errorf("a budget is a text such as 2M or 5usd, or a list of them: %w", err)
	}
	*b = list
	return nil
}

// schemaOf is the schema of a type, with changes of some of its properties.
func schemaOf[T any](changes ...func(properties map[string]*jsonschema.Schema)) (*jsonschema.Schema, error) {
	list := &jsonschema.Schema{Type: "array", Items: &jsonschema.Schema{Type: "string"}, MaxItems: new(8)}
	s, err := jsonschema.For[T](&jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[budgets](): {AnyOf: []*jsonschema.Schema{{Type: "string"}, list}},
	}})
	if err != nil {
		return nil, fmt.Errorf("make schema: %w", err)
	}
	for _, change := range changes {
		change(s.Properties)
	}
	single(s)
	return s, nil
}

// single gives every value one type, or a choice of schemas that have one:
// not every client's model takes a list of types.
func single(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	for _, p := range s.Properties {
		single(p)
	}
	single(s.Items)
	if len(s.Types) == 0 {
		return
	}
	choice := &jsonschema.Schema{Description: s.Description}
	for _, t := range s.Types {
		one := &jsonschema.Schema{Type: t}
		if t != "null" {
			one = s.CloneSchemas()
			one.Type, one.Types, one.Description = t, nil, ""
		}
		choice.AnyOf = append(choice.AnyOf, one)
	}
	*s = *choice
}

// upTo bounds a number; 0 stands for the default.
func upTo(name string, most float64) func(map[string]*jsonschema.Schema) {
	return func(p map[string]*jsonschema.Schema) { p[name].Minimum, p[name].Maximum = new(0.0), &most }
}

// longest bounds a text, which must not be empty.
func longest(name string, most int) func(map[string]*jsonschema.Schema) {
	return func(p map[string]*jsonschema.Schema) { p[name].MinLength, p[name].MaxLength = new(1), &most }
}

// oneOf lists the values that a text may have.
func oneOf[T ~string](name string, values ...T) func(map[string]*jsonschema.Schema) {
	return func(p map[string]*jsonschema.Schema) {
		for _, v := range values {
			p[name].Enum = append(p[name].Enum, string(v))
		}
	}
}

// isID bounds a text to the form of ids.
func isID(p map[string]*jsonschema.Schema) { p["id"].Pattern = "^[0-9a-z][0-9a-z-]{0,63}$" }

// delegated is the schema of both answers to delegate_task: a result, or what
// there is before there is one.
func delegated() (*jsonschema.Schema, error) {
	s, err := schemaOf[task.Result](statuses)
	if err != nil {
		return nil, err
	}
	first, err := schemaOf[started](states)
	if err != nil {
		return nil, err
	}
	for name, property := range first.Properties {
		if _, ok := s.Properties[name]; !ok {
			s.Properties[name] = property
			s.PropertyOrder = append(s.PropertyOrder, name)
		}
	}
	s.AnyOf = []*jsonschema.Schema{{Required: s.Required}, {Required: first.Required}}
	s.Required = []string{"id"}
	return s, nil
}

func statuses(p map[string]*jsonschema.Schema) {
	oneOf("status", task.Success, task.MaxTurns, task.Timeout, task.Budget, task.Cancelled, task.OutOfMemory, task.DiskFull, task.HarnessError)(p)
}

func states(p map[string]*jsonschema.Schema) {
	oneOf("state", task.Queued, task.Preparing, task.Running, task.Collecting, task.Done)(p)
}

// hints are what a tool does to the world, for clients that ask a person.
type hints struct {
	reads    bool // changes nothing
	destroys bool
	again    bool // twice is as once
	world    bool // speaks with somebody that nobody here controls: a model
}

func (h hints) annotations() *sdk.ToolAnnotations {
	a := &sdk.ToolAnnotations{ReadOnlyHint: h.reads, IdempotentHint: h.again || h.reads, OpenWorldHint: &h.world}
	if !h.reads {
		a.DestructiveHint = &h.destroys
	}
	return a
}

// tool is one tool: what it is called and does.
type tool[In any] struct {
	name, title, about string
	hints              hints
	handle             sdk.ToolHandlerFor[In, any]
}

// add adds a tool with its schemas. Those are made of Go types and of
// constants, so an error is a fault of this package.
func add[In any](s *Server, t tool[In], in, out *jsonschema.Schema, errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return fmt.Errorf("tool %s: %w", t.name, err)
		}
	}
	sdk.AddTool(s.sdk, &sdk.Tool{
		Name: t.name, Title: t.title, Description: t.about, Annotations: t.hints.annotations(),
		InputSchema: in, OutputSchema: out,
	}, t.handle)
	return nil
}
