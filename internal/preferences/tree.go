package preferences

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/tailscale/hujson"
)

// Tree is the contents of a settings file: objects are Trees, or maps of the
// same type; anything else is a leaf.
type Tree = map[string]any

// Format is how a settings file is written.
type Format uint8

// The formats. The zero value is none.
const (
	None Format = iota
	JSON        // with comments and trailing commas, which are read and not written
	TOML
)

// MaxFile bounds a settings file, in bytes. Claude Code keeps its state in one,
// with a history of prompts.
const MaxFile = 8 << 20

// An agent writes these files, and bailey reads them on the host, outside of
// every limit of the sandbox: what they cost there is bounded by more than their
// length.
const (
	// maxDepth bounds how deeply a file nests: what parses, merges and writes it
	// recurses.
	maxDepth = 64
	// mostJSON and mostTOML bound how many keys and values a file has, by the
	// characters between them. A TOML parser takes some 4 KB for each part of a
	// dotted key.
	mostJSON = 250_000
	mostTOML = 25_000
)

// FormatOf tells the format by a file's name.
func FormatOf(name string) Format {
	switch path.Ext(name) {
	case ".json", ".jsonc":
		return JSON
	case ".toml":
		return TOML
	}
	return None
}

// Parse reads a file. An empty one is an empty tree.
func (f Format) Parse(data []byte) (Tree, error) {
	if len(data) > MaxFile {
		return nil, fmt.Errorf("settings of %d bytes: at most %d", len(data), MaxFile)
	}
	if err := f.shallow(data); err != nil {
		return nil, err
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return Tree{}, nil
	}
	switch f {
	case JSON:
		return parseJSON(data)
	case TOML:
		var t Tree
		if err := toml.Unmarshal(data, &t); err != nil {
			return nil, fmt.Errorf("parse TOML: %w", err)
		}
		return t, nil
	case None:
	}
	return nil, errors.New("parse settings: unknown format")
}

// shallow refuses what nests too deeply or has too many parts, by a count that
// sees brackets and commas in texts as well: it may refuse too much, never too
// little.
func (f Format) shallow(data []byte) error {
	if err := f.few(data); err != nil {
		return err
	}
	depth, dots := 0, 0
	for _, c := range data {
		switch c {
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		case '.':
			dots++
		case '\n':
			dots = 0
			if f == TOML {
				depth = max(depth, 0)
			}
		}
		if depth > maxDepth || f == TOML && dots > maxDepth {
			return fmt.Errorf("settings nest more than %d deep", maxDepth)
		}
	}
	return nil
}

// few refuses what has too many keys and values.
func (f Format) few(data []byte) error {
	between, most := ",:[{", mostJSON
	if f == TOML {
		between, most = ",:[{.=", mostTOML
	}
	parts := 0
	for i := range len(between) {
		parts += bytes.Count(data, []byte{between[i]})
	}
	if parts > most {
		return fmt.Errorf("settings of more than %d keys and values", most)
	}
	return nil
}

func parseJSON(data []byte) (Tree, error) {
	plain, err := hujson.Standardize(bytes.Clone(data))
	if err != nil {
		return nil, fmt.Errorf("parse JSON: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(plain))
	dec.UseNumber() // large ones stay what they are
	var t Tree
	if err := dec.Decode(&t); err != nil {
		return nil, fmt.Errorf("parse JSON: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("parse JSON: something follows the object")
	}
	if t == nil { // null
		t = Tree{}
	}
	return t, nil
}

// limited is a buffer that takes no more than MaxFile bytes: a file of TOML
// names the whole path of each table, and can become far longer than it was.
type limited struct{ bytes.Buffer }

var errTooLong = fmt.Errorf("settings of more than %d bytes", MaxFile)

// Write takes p whole, or not at all.
func (b *limited) Write(p []byte) (int, error) {
	if b.Len()+len(p) > MaxFile {
		return 0, errTooLong
	}
	return b.Buffer.Write(p)
}

// Encode writes a tree: MaxFile bytes at most, as Parse reads it.
func (f Format) Encode(t Tree) ([]byte, error) {
	var b limited
	switch f {
	case JSON:
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		if err := enc.Encode(t); err != nil {
			return nil, fmt.Errorf("encode JSON: %w", err)
		}
	case TOML:
		enc := toml.NewEncoder(&b)
		enc.Indent = ""
		if err := enc.Encode(t); err != nil {
			return nil, fmt.Errorf("encode TOML: %w", err)
		}
	case None:
		return nil, errors.New("encode settings: unknown format")
	}
	return b.Bytes(), nil
}

// Over lays one tree over another: objects are joined, of anything else the
// upper one's stays. Neither is changed.
func Over(lower, upper Tree) Tree {
	out := make(Tree, len(lower)+len(upper))
	maps.Copy(out, lower)
	for k, v := range upper {
		below, ok := out[k].(Tree)
		above, ok2 := v.(Tree)
		if ok && ok2 {
			v = Over(below, above)
		}
		out[k] = v
	}
	return out
}

// Without is a tree less what dotted paths name. It is not changed.
func Without(t Tree, paths ...string) Tree {
	out := Over(t, nil)
	for _, p := range paths {
		first, rest, deeper := strings.Cut(p, ".")
		if !deeper {
			delete(out, first)
			continue
		}
		if sub, ok := out[first].(Tree); ok {
			out[first] = Without(sub, rest)
		}
	}
	return out
}

// Leaves lists the dotted paths of a tree's leaves, sorted.
func Leaves(t Tree) []string {
	var out []string
	walk(t, nil, func(path []string) { out = append(out, strings.Join(path, ".")) })
	return out
}
