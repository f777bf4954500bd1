package vault

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/seal"
	"github.com/bailey-dev/bailey/internal/secret"
)

// A store is lines of JSON: a head, a row for each secret, and the code of all
// bytes before the last line. Lines, so that a fault has a place and the other
// rows can still be read.

const storeVersion = 1

// head is the first line.
type head struct {
	Version    int    `json:"bailey_vault"`
	Vault      string `json:"vault"` // tells vaults apart: random, kept as long as there is one
	Key        string `json:"key"`   // the id of the key that all of it is sealed with
	Generation uint64 `json:"generation"`
	Rows       int    `json:"rows"`
}

// row is a line for a secret.
type row struct {
	Definition secret.Definition `json:"definition"`
	Box        []byte            `json:"box"`

	line int // of the file it was read from
}

// store is what a file holds.
type store struct {
	head
	rows []row
	mac  string // the code of the file it was read from or written as
}

const macLabel = "vault store"

func boundOf(d secret.Definition) seal.Bound {
	return seal.Bound{ID: string(d.ID), Owner: d.Owner, Rules: d.Hash(), Revision: d.Revision}
}

// encode writes a store, and notes its code.
func (s *store) encode(key seal.Key) ([]byte, error) {
	s.Version, s.Key, s.Rows = storeVersion, key.ID(), len(s.rows)
	var out bytes.Buffer
	lines := json.NewEncoder(&out)
	err := lines.Encode(s.head)
	for _, r := range s.rows {
		err = errors.Join(err, lines.Encode(r))
	}
	if err != nil {
		return nil, fmt.Errorf("bug: a vault cannot be written: %w", err)
	}
	if out.Len() > maxStore-len(macLine("")) {
		return nil, bailey.NewError(bailey.Exhausted, fmt.Sprintf("the vault would be larger than %d MiB", maxStore>>20), "remove secrets: bailey secret rm NAME")
	}
	s.mac = hex.EncodeToString(key.MAC(macLabel, out.Bytes()))
	out.WriteString(macLine(s.mac))
	return out.Bytes(), nil
}

func macLine(mac string) string { return fmt.Sprintf("{\"mac\":\"%64s\"}\n", mac) }

// line is one line of a file, with its number.
type line struct {
	text   []byte // without its end
	number int
}

// cut takes a file apart: the bytes that the code is of, the last line, and
// the lines before it. body is nil where the file does not end as one.
func cut(data []byte) (body []byte, last string, lines []line) {
	if at := len(data) - len(macLine("")); at > 0 && data[at-1] == '\n' {
		body, last = data[:at], string(data[at:])
	}
	rest := data
	if body != nil {
		rest = body
	}
	for n := 1; len(rest) > 0; n++ {
		text, after, _ := bytes.Cut(rest, []byte("\n"))
		lines = append(lines, line{text, n})
		rest = after
	}
	return body, last, lines
}

// strictly reads one value and nothing else. A field that this bailey does not
// know may narrow what a secret is for: it is an error.
func strictly(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more behind it")
	}
	return nil
}

// readHead reads the first line.
func readHead(data []byte) (head, error) {
	var h head
	first, _, _ := bytes.Cut(data, []byte("\n"))
	if err := strictly(first, &h); err != nil {
		return h, errors.New("it does not begin as a vault")
	}
	if h.Version != storeVersion {
		return h, fmt.Errorf("it is a vault of version %d, this bailey knows version %d", h.Version, storeVersion)
	}
	return h, nil
}

// intact reports whether a file is what was written with the key, to the byte.
func intact(data []byte, key seal.Key) bool {
	body, last, _ := cut(data)
	if body == nil {
		return false
	}
	mac, err := hex.DecodeString(strings.TrimSuffix(strings.TrimPrefix(last, `{"mac":"`), "\"}\n"))
	return err == nil && last == macLine(hex.EncodeToString(mac)) && key.Verify(macLabel, body, mac)
}

// readRow reads a row and says what is wrong with it, without opening it.
func readRow(text []byte, owner string) (row, error) {
	var r row
	if err := strictly(text, &r); err != nil {
		return r, fmt.Errorf("the row cannot be read (%s)", plain(err))
	}
	d := r.Definition
	switch {
	case secret.CheckName(d.Name) != nil || !d.ID.Valid() || d.Revision == 0 || secret.CheckVariable(d.Var) != nil:
		return r, errors.New("its name, id, variable or revision is none")
	case d.Owner != owner:
		return r, errors.New("it is another user's")
	case d.Gateway != (len(d.Rules) == 0):
		return r, errors.New("it has no rule that says where the value may go")
	}
	for _, rule := range d.Rules {
		if err := rule.Check(); err != nil {
			return r, err
		}
	}
	return r, nil
}

// plain is an error without what a damaged line holds, which may be anything.
func plain(err error) string {
	if e, ok := errors.AsType[*bailey.Error](err); ok {
		return e.Message
	}
	if _, ok := errors.AsType[*json.SyntaxError](err); ok {
		return "it is no JSON"
	}
	if strings.Contains(err.Error(), "unknown field") {
		return "a newer bailey may have written it"
	}
	return "its form is another"
}

// readStore reads what can be read of a file, and says what cannot.
func readStore(data []byte, owner string) (*store, []Fault) {
	h, err := readHead(data)
	s := &store{head: h}
	var faults []Fault
	if err != nil {
		faults = append(faults, Fault{Line: 1, Problem: err.Error()})
	}
	body, last, lines := cut(data)
	if body != nil {
		s.mac = strings.TrimSuffix(strings.TrimPrefix(last, `{"mac":"`), "\"}\n")
	}
	if len(lines) == 0 {
		return s, faults
	}
	for _, l := range lines[1:] {
		r, err := readRow(l.text, owner)
		if err == nil && s.find(r.Definition.Name) >= 0 {
			err = errors.New("another row has the same name")
		}
		if err != nil {
			faults = append(faults, Fault{Line: l.number, Name: nameOf(r), Problem: err.Error()})
			continue
		}
		r.line = l.number
		s.rows = append(s.rows, r)
	}
	if found := len(lines) - 1; found != h.Rows && err == nil {
		faults = append(faults, Fault{Line: 1, Problem: fmt.Sprintf("it has %d rows, and says that it had %d", found, h.Rows)})
	}
	return s, faults
}

// nameOf is the name of a row that may be damaged.
func nameOf(r row) string {
	if secret.CheckName(r.Definition.Name) != nil {
		return ""
	}
	return r.Definition.Name
}

// find returns the index of a name, or -1.
func (s *store) find(name string) int {
	return slices.IndexFunc(s.rows, func(r row) bool { return r.Definition.Name == name })
}
