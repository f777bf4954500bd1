package yamlfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// AsJSON is what a node of the kind Any says, as JSON. Numbers stay as they were
// written. What JSON does not have is an error: anchors, tags, other numbers,
// keys that are no text or there twice, depths above 32.
func AsJSON(n *yaml.Node) (json.RawMessage, error) {
	var out bytes.Buffer
	if err := writeJSON(&out, n, 0); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// deepest is how deep a value may be nested.
const deepest = 32

func writeJSON(out *bytes.Buffer, n *yaml.Node, depth int) error {
	switch {
	case depth > deepest:
		return fmt.Errorf("it is nested more than %d deep", deepest)
	case n.Kind == yaml.AliasNode || n.Anchor != "" || n.Style&yaml.TaggedStyle != 0:
		return errors.New("anchors, aliases and tags are not read; write it out")
	case n.Kind == yaml.MappingNode:
		return writeObject(out, n, depth)
	case n.Kind == yaml.SequenceNode:
		out.WriteByte('[')
		for i, item := range n.Content {
			if i > 0 {
				out.WriteByte(',')
			}
			if err := writeJSON(out, item, depth+1); err != nil {
				return err
			}
		}
		out.WriteByte(']')
		return nil
	}
	return writeScalar(out, n)
}

func writeObject(out *bytes.Buffer, n *yaml.Node, depth int) error {
	seen := map[string]bool{}
	out.WriteByte('{')
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i]
		if name.Kind != yaml.ScalarNode || name.Tag == "!!merge" || name.Anchor != "" || name.Style&yaml.TaggedStyle != 0 || seen[name.Value] {
			return errors.New("a key is no plain text, or there twice")
		}
		seen[name.Value] = true
		if i > 0 {
			out.WriteByte(',')
		}
		if err := writeText(out, name.Value); err != nil {
			return err
		}
		out.WriteByte(':')
		if err := writeJSON(out, n.Content[i+1], depth+1); err != nil {
			return err
		}
	}
	out.WriteByte('}')
	return nil
}

func writeScalar(out *bytes.Buffer, n *yaml.Node) error {
	switch n.Tag {
	case "!!null":
		out.WriteString("null")
	case "!!bool":
		var v bool
		if err := n.Decode(&v); err != nil {
			return errors.New("it is neither true nor false")
		}
		_, _ = fmt.Fprint(out, v)
	case "!!int", "!!float":
		if !json.Valid([]byte(n.Value)) {
			return errors.New("that is no number of JSON; write it in decimal, or in quotes")
		}
		out.WriteString(n.Value)
	default:
		return writeText(out, n.Value)
	}
	return nil
}

func writeText(out *bytes.Buffer, s string) error {
	if !utf8.ValidString(s) {
		return errors.New("it is not UTF-8")
	}
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return err
	}
	out.Truncate(out.Len() - 1) // the line end
	return nil
}
