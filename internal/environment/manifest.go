package environment

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Kind is what an environment is for. The set is closed.
type Kind string

// The kinds, in the order in which they are built.
const (
	Python Kind = "python"
	Node   Kind = "node"
	Go     Kind = "go"
)

// Kinds lists them.
func Kinds() []Kind { return []Kind{Python, Node, Go} }

// Valid reports whether k is one of them.
func (k Kind) Valid() bool { return slices.Contains(Kinds(), k) }

// Where an environment is inside a sandbox. What is installed knows its path, so
// it is built where it is used.
const (
	MountPath = "/opt/env"
	// RepoPath is a link to the project's folder in the sandbox: installed
	// packages that are folders of the repository lead there.
	RepoPath = "/opt/env.repo"
	// modulesPath is a link to the packages of Node, where Node, npm and npx
	// look last, wherever the project is: they ask each folder above a file.
	modulesPath = "/node_modules"
)

// Variable is one of the environment that programs inside get.
type Variable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// part is what a kind puts into a sandbox: the closed set that a manifest may
// name.
type part struct {
	programs  []string // of the machine, that it does not work without
	path      []string
	variables []Variable
}

func (k Kind) part() part {
	at := MountPath + "/" + string(k)
	switch k {
	case Python:
		return part{
			programs: []string{"python3"}, path: []string{at + "/bin"},
			variables: []Variable{
				{"VIRTUAL_ENV", at},
				{"PYTHONDONTWRITEBYTECODE", "1"}, // or a run leaves its compiled files in the work
				{"PIP_NO_INDEX", "1"},
				{"PIP_DISABLE_PIP_VERSION_CHECK", "1"},
			},
		}
	case Node:
		return part{
			programs: []string{"node", "npm"}, path: []string{at + "/node_modules/.bin"},
			variables: []Variable{{"NODE_PATH", at + "/node_modules"}, {"npm_config_offline", "true"}, {"npm_config_update_notifier", "false"}},
		}
	case Go:
		return part{
			programs: []string{"go"}, path: []string{at + "/bin"},
			// go.sum is still compared; what is off is the database that is
			// asked for modules which stand in no go.sum.
			variables: []Variable{{"GOMODCACHE", at + "/mod"}, {"GOPROXY", "off"}, {"GOSUMDB", "off"}},
		}
	}
	return part{programs: nil, path: nil, variables: nil}
}

// FormatVersion is that of the manifest. Another one is not read.
const FormatVersion = 1

// Manifest says what an environment is. Bailey writes it when the tree is whole.
type Manifest struct {
	Version int       `json:"version"`
	Name    string    `json:"name"`
	Kinds   []Kind    `json:"kinds"`
	Key     string    `json:"key"` // of all that it was built from, in hexadecimal
	Created time.Time `json:"created"`

	Repo     string   `json:"repo"`             // absolute: the folder that it was built for
	Folder   string   `json:"folder"`           // of that below the root of the work tree, slash-separated; empty for the root
	Commit   string   `json:"commit"`           // object id that it was built from
	Packages []string `json:"packages"`         // that were asked for beyond the repository's
	Tools    []string `json:"tools"`            // versions, a line each
	Source   string   `json:"source,omitempty"` // folder of Python's modules below Repo; "." for itself, empty for no Python

	Programs  []string   `json:"programs"`  // of the machine, that it does not work without
	Path      []string   `json:"path"`      // for the front of PATH
	Variables []Variable `json:"variables"` // names and values from a closed set

	Bytes int64    `json:"bytes"` // of the tree
	Files int64    `json:"files"`
	Notes []string `json:"notes"` // what was taken out of the tree
}

// apply fills in what follows from the kinds.
func (m *Manifest) apply() {
	m.Programs, m.Path, m.Variables = []string{}, []string{}, []Variable{}
	for _, k := range m.Kinds {
		p := k.part()
		m.Programs, m.Path, m.Variables = append(m.Programs, p.programs...), append(m.Path, p.path...), append(m.Variables, p.variables...)
	}
}

// maxManifest bounds the file.
const maxManifest = 64 << 10

// ParseManifest reads env.json. Anything but one whole document of this
// version, with nothing in it that bailey would not have written, is an error.
func ParseManifest(data []byte) (Manifest, error) {
	var m Manifest
	if len(data) > maxManifest {
		return m, fmt.Errorf("read manifest: longer than %d bytes", maxManifest)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return m, fmt.Errorf("read manifest: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return m, errors.New("read manifest: something follows it")
	}
	if err := m.validate(); err != nil {
		return m, fmt.Errorf("read manifest: %w", err)
	}
	return m, nil
}

func (m *Manifest) encode() ([]byte, error) {
	if err := m.validate(); err != nil {
		return nil, fmt.Errorf("write manifest: %w", err)
	}
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write manifest: %w", err)
	}
	return append(data, '\n'), nil
}

func (m *Manifest) validate() error {
	switch {
	case m.Version != FormatVersion:
		return fmt.Errorf("version %d is not %d", m.Version, FormatVersion)
	case !ValidName(m.Name):
		return fmt.Errorf("%q is not a name", m.Name)
	case len(m.Key) != keyDigits || !isHex(m.Key):
		return errors.New("the key is not one")
	case m.Commit != "" && (len(m.Commit) < 40 || len(m.Commit) > 64 || !isHex(m.Commit)):
		return errors.New("the commit is not one")
	case !filepath.IsAbs(m.Repo) || filepath.Clean(m.Repo) != m.Repo || !isText(m.Repo):
		return fmt.Errorf("the folder %q is not absolute and clean", m.Repo)
	case m.Folder != "" && !isBelow(m.Folder):
		return fmt.Errorf("the folder %q is not one below a repository", m.Folder)
	case m.Source != "" && m.Source != "." && !isBelow(m.Source):
		return fmt.Errorf("the folder %q is not one below a project", m.Source)
	case m.Bytes < 0 || m.Files < 0:
		return errors.New("a size is negative")
	}
	for _, s := range slices.Concat(m.Packages, m.Tools, m.Notes) {
		if !isText(s) {
			return fmt.Errorf("%q is not one line of text", s)
		}
	}
	return m.validKinds()
}

// validKinds holds what a sandbox would get to what the kinds stand for.
func (m *Manifest) validKinds() error {
	if len(m.Kinds) == 0 {
		return errors.New("it is of no kind")
	}
	for i, k := range m.Kinds {
		if !k.Valid() || slices.Contains(m.Kinds[:i], k) {
			return fmt.Errorf("the kind %q is unknown, or named twice", k)
		}
	}
	var want Manifest
	want.Kinds = m.Kinds
	want.apply()
	if !slices.Equal(m.Programs, want.Programs) || !slices.Equal(m.Path, want.Path) || !slices.Equal(m.Variables, want.Variables) {
		return errors.New("programs, path or variables are not those of its kinds")
	}
	if (m.Source != "") != slices.Contains(m.Kinds, Python) {
		return errors.New("only a Python environment has a folder of modules")
	}
	return nil
}

// ValidName reports whether a name has the one form that is let through:
// 1 to 64 small letters, digits, and hyphens that are not the first.
func ValidName(name string) bool {
	if name == "" || len(name) > 64 || name[0] == '-' {
		return false
	}
	return strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

func isHex(s string) bool { return s != "" && strings.Trim(s, "0123456789abcdef") == "" }

// isBelow reports whether a slash-separated path leads below where it begins.
func isBelow(p string) bool {
	return path.Clean(p) == p && !path.IsAbs(p) && p != "." && p != ".." && !strings.HasPrefix(p, "../") && isText(p)
}

// isText reports whether a line survives JSON and a terminal unchanged.
func isText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r >= 0x7f && r <= 0x9f })
}
