package yamlfile_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/yamlfile"
)

type spec = yamlfile.Spec

// every has each kind.
func every() *spec {
	return &spec{Kind: yamlfile.Mapping, Required: []string{"name"}, Help: "All of it.", Keys: []yamlfile.Key{
		{Name: "name", Spec: &spec{Kind: yamlfile.Text}},
		{Name: "count", Spec: &spec{Kind: yamlfile.Number, Min: 1, Max: 9, What: "a count"}},
		{Name: "amount", Spec: &spec{Kind: yamlfile.OneOrMore, Least: 1, Item: &spec{Kind: yamlfile.Scalar, Form: "^x$"}}},
		{Name: "on", Spec: &spec{Kind: yamlfile.Flag}},
		{Name: "table", Spec: &spec{Kind: yamlfile.Table, Names: regexp.MustCompile("^[a-z]+$"), NamesHelp: "letters", Item: &spec{Kind: yamlfile.Text, Enum: []string{"one", "two"}}}},
		{Name: "entry", Spec: &spec{Kind: yamlfile.Entry, OneOf: []string{"a", "b"}, Keys: []yamlfile.Key{{Name: "a", Spec: &spec{Kind: yamlfile.Text}}, {Name: "b", Spec: &spec{Kind: yamlfile.Text}}}}},
		{Name: "any", Spec: &spec{Kind: yamlfile.Any}},
	}}
}

func TestDocument_HoldsEachKindToItsSpec(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"name: x": "", "name: x\ncount: 9": "", "name: x\namount: 5": "", "name: x\namount: [5, y]": "", "name: x\non: true": "",
		"name: x\ntable: {a: one, b: two}": "", "name: x\nentry: y": "", "name: x\nentry: {a: y}": "", "name: x\nany: [1, {a: null}]": "", "name: x\nany: null": "",
		"count: 1":                         "f:1:1: the file has no name; it needs one",
		"name: x\ncount: 10":               `f:2:8: count: "10" is not a count; write a number from 1 to 9`,
		"name: x\ncount: 01":               `f:2:8: count: "01" is not a count`,
		"name: x\ncount: '1'":              `f:2:8: count: "1" is a text; write 1, without the quotes`,
		"name: x\namount: []":              "f:2:9: amount is empty",
		"name: x\namount: {a: b}":          "f:2:9: amount: a mapping is neither text nor a number",
		"name: x\namount: [[5]]":           "f:2:10: amount[0]: a list is neither text nor a number",
		"name: x\non: yes please":          "f:2:5: on: ",
		"name: x\ntable: {A: one}":         `f:2:9: "A" cannot be a name in table; use letters`,
		"name: x\ntable: {a: tow}":         `f:2:12: table.a: unknown value "tow"; did you mean "two"?`,
		"name: x\ntable: [a]":              "f:2:8: table: a list is not a mapping of names",
		"name: x\ntable: {a: one, a: two}": "there twice in table",
		"name: x\nentry: {a: y, b: z}":     "f:2:8: entry has to have exactly one of a, b",
		"name: x\nnaem: y":                 `f:2:1: unknown key "naem" in the file; did you mean "name"?`,
		"name: x\nname: y":                 "there twice in the file",
		"name:":                            "name has no value",
		"name: &a x":                       "anchors and aliases are not read",
		"name: !!str x":                    "tags such as !!str are not read",
		"[a]: x":                           "a key is a text",
		"name: x\n---\nname: y":            "a second document",
		"name: [":                          "not YAML",
		"\tname: x":                        "indented with a tab",
		"x":                                "f:1:1: the file: a text is not a mapping",
	} {
		p := yamlfile.NewParser("f")
		p.Document([]byte(text), every())
		err := p.Err()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestSchema_SaysEachKind(t *testing.T) {
	t.Parallel()
	b, err := yamlfile.Schema("f", every())
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	text := map[string]any{"type": "string", "minLength": 1.0}
	scalar := map[string]any{"type": []any{"string", "number"}, "pattern": "^x$"}
	want := map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "f", "description": "All of it.",
		"type": "object", "additionalProperties": false, "required": []any{"name"},
		"properties": map[string]any{
			"name":   text,
			"count":  map[string]any{"type": "integer", "minimum": 1.0, "maximum": 9.0},
			"amount": map[string]any{"oneOf": []any{scalar, map[string]any{"type": "array", "items": scalar, "minItems": 1.0}}},
			"on":     map[string]any{"type": "boolean"},
			"table":  map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "string", "enum": []any{"one", "two"}}, "propertyNames": map[string]any{"pattern": "^[a-z]+$"}},
			"entry": map[string]any{"oneOf": []any{text, map[string]any{
				"type": "object", "additionalProperties": false, "properties": map[string]any{"a": text, "b": text},
				"oneOf": []any{map[string]any{"required": []any{"a"}}, map[string]any{"required": []any{"b"}}},
			}}},
			"any": map[string]any{},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestReadOwn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if b, err := yamlfile.ReadOwn(path, "file"); b != nil || err != nil {
		t.Errorf("none: %q, %v", b, err)
	}
	if _, err := yamlfile.Read(path, "file"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("none that was named: %v", err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err := yamlfile.ReadOwn(path, "file"); b == nil || len(b) > 0 || err != nil {
		t.Errorf("an empty one: %q, %v", b, err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := yamlfile.ReadOwn(path, "file"); bailey.KindOf(err) != bailey.Forbidden || !strings.Contains(err.Error(), "what the file there says would hold") {
		t.Errorf("in a folder of everybody's: %v", err)
	}
}

func TestThrough_FindsTheWayByALink(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inside, outside := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	if err := errors.Join(os.Mkdir(inside, 0o700), os.Mkdir(outside, 0o700), os.Symlink("../in/f", filepath.Join(outside, "f")), os.Symlink("loop", filepath.Join(outside, "loop"))); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(outside, "f"): inside, filepath.Join(outside, "g"): "", filepath.Join(outside, "loop"): "", filepath.Join(inside, "x"): "",
	} {
		if got := yamlfile.Through(path, inside); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

func FuzzAsJSON(f *testing.F) {
	for _, s := range []string{"a: [1, 2.50, {b: null, c: 'x'}]", "a: .inf", "a: 0x10", "a: 2001-01-01", "a: {<<: {b: 1}}", "a: \"\\0\"", "a: " + strings.Repeat("[", 100)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p := yamlfile.NewParser("f")
		top := p.Document([]byte(text), &spec{Kind: yamlfile.Mapping, Keys: []yamlfile.Key{{Name: "a", Spec: &spec{Kind: yamlfile.Any}}}})
		n := yamlfile.Get(top, "a")
		if p.Err() != nil || n == nil {
			return
		}
		if b, err := yamlfile.AsJSON(n); err == nil && !json.Valid(b) {
			t.Fatalf("%q is %s", text, b)
		}
	})
}

// TestDocument_RepeatsNothingOfASecret: of whatever stands where one is named,
// or under a key that is not known.
func TestDocument_RepeatsNothingOfASecret(t *testing.T) {
	t.Parallel()
	text := &yamlfile.Spec{Kind: yamlfile.Text}
	key := &yamlfile.Spec{Kind: yamlfile.Mapping, Secret: "HINT", Required: []string{"secret"}, Keys: []yamlfile.Key{{Name: "secret", Spec: text}}}
	root := &yamlfile.Spec{
		Kind: yamlfile.Mapping, Meant: map[string]string{"api_key": "key", "title": "name"},
		Keys: []yamlfile.Key{{Name: "name", Spec: text}, {Name: "key", Spec: key}, {Name: "list", Spec: &yamlfile.Spec{Kind: yamlfile.Table, Item: text}}},
	}
	for in, want := range map[string]string{
		"key: canary":                     "f:1:6: key: a text does not name a secret; HINT",
		"key: 'canary'":                   "f:1:6: key: a text does not name a secret; HINT",
		"key: {env: canary}":              "f:1:6: key: that does not name a secret; HINT",
		"key: {canary}":                   "key: that does not name a secret; HINT",
		"key: {canary: canary}":           "key: that does not name a secret; HINT",
		"key: {secret: {canary: canary}}": "key: that does not name a secret; HINT",
		"key: {secret: [canary]}":         "key: that does not name a secret; HINT",
		"key: [canary]":                   "key: a list does not name a secret; HINT",
		"key: !canary x":                  "key: a single value does not name a secret; HINT",
		"key: &canary x":                  "key: a text does not name a secret; HINT",
		"key: *canary":                    "not YAML: an alias of no anchor",
		"key: 0xcafe # canary":            "key: a single value does not name a secret; HINT",
		"key:":                            "key: it has no value; HINT",
		"api_key: canary":                 `f:1:1: unknown key "api_key" in the file; did you mean "key"? HINT`,
		"headers: {x: canary}":            `unknown key "headers" in the file; known: name, key, list`,
		"title: canary":                   `unknown key "title" in the file; did you mean "name"? known: name, key, list`,
		"list: canary":                    "list: a text is not a mapping of names",
		"canary":                          "the file: a text is not a mapping",
	} {
		p := yamlfile.NewParser("f")
		p.Document([]byte(in+"\n"), root)
		if err := p.Err(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v, want %s", in, err, want)
		}
	}
	p := yamlfile.NewParser("f")
	if top := p.Document([]byte("key: {secret: x}\n"), root); p.Err() != nil || yamlfile.Get(yamlfile.Get(top, "key"), "secret").Value != "x" {
		t.Errorf("twin: %v", p.Err())
	}
}
