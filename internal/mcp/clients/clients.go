package clients

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bailey-dev/bailey"
)

// Name is what bailey is called in every configuration.
const Name = "bailey"

const (
	// toolTime is how long a tool may take: the longest task, and an hour of
	// waiting for its turn. The clients' own bound is minutes, or less.
	toolTime = 5 * time.Hour
	// startTime is how long the server may take to start.
	startTime = 30 * time.Second
)

// Server is bailey as a client is to find it: a program to start, or with URL
// the HTTP door.
type Server struct {
	Command string     // absolute path of the program
	Env     []Variable // that the program is to be started with, in their order
	URL     string
	Token   string // of the HTTP door
}

// Variable is one of an environment.
type Variable struct{ Name, Value string }

// Kept are the variables that say where bailey's folders are, and those of a
// keyring: clients start servers without them. Those that are set are for
// Server.Env.
func Kept() []string {
	return []string{"XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"}
}

// Host is what of the machine says where files are.
type Host struct {
	Home   string                 // absolute
	Env    func(string) string    // the environment
	Exists func(path string) bool // whether a file is there
}

// Client is an MCP client that is known.
type Client struct {
	Name  string
	Title string
	// path is where its user's configuration is.
	path func(h Host) string
	// merge puts the server into a configuration.
	merge func(old []byte, s Server) ([]byte, error)
}

func all() map[string]Client {
	return map[string]Client{
		"claude":   {"claude", "Claude Code", claudePath, jsonMerge("mcpServers", claudeEntry)},
		"codex":    {"codex", "Codex", codexPath, codexMerge},
		"gemini":   {"gemini", "Gemini CLI", geminiPath, jsonMerge("mcpServers", geminiEntry)},
		"opencode": {"opencode", "opencode", opencodePath, jsonMerge("mcp", opencodeEntry)},
	}
}

// Names lists the clients, sorted.
func Names() []string { return slices.Sorted(maps.Keys(all())) }

// Find returns a client. One that is not known is a *bailey.Error of kind
// Invalid.
func Find(name string) (Client, error) {
	c, ok := all()[name]
	if !ok {
		return Client{}, bailey.NewError(bailey.Invalid, fmt.Sprintf("%q is no MCP client that is known here", name), "known are: "+strings.Join(Names(), ", "))
	}
	return c, nil
}

// Path is where the configuration of the client's user is.
func (c Client) Path(h Host) string { return c.path(h) }

// Merge returns a configuration with the server in it; old is empty where there
// is no file. A configuration that has it already is returned as it is. One
// that cannot be read, or changed without changing more, is a *bailey.Error of
// kind Conflict with what to write by hand.
func (c Client) Merge(old []byte, s Server) ([]byte, error) { return c.merge(old, s) }

// Entry is what Merge adds, as it stands in an empty configuration.
func (c Client) Entry(s Server) (string, error) {
	b, err := c.merge(nil, s)
	return string(b), err
}

// under is a folder that a variable may move, or one below the home folder.
func under(h Host, variable string, fallback ...string) string {
	if v := h.Env(variable); filepath.IsAbs(v) {
		return v
	}
	return filepath.Join(append([]string{h.Home}, fallback...)...)
}

func claudePath(h Host) string { return filepath.Join(under(h, "CLAUDE_CONFIG_DIR"), ".claude.json") }

// claudeEntry is a server of the user's scope. Written by version 2.1.332,
// whose own bound is a hard one: progress does not move it.
func claudeEntry(s Server) member {
	ms := toolTime.Milliseconds()
	if s.URL != "" {
		return member{{"type", "http"}, {"url", s.URL}, {"headers", member{{"Authorization", "Bearer " + s.Token}}}, {"timeout", ms}}
	}
	return append(member{{"type", "stdio"}, {"command", s.Command}, {"args", []string{"mcp"}}}, append(s.env("env"), field{"timeout", ms})...)
}

func geminiPath(h Host) string {
	return filepath.Join(under(h, "GEMINI_CLI_HOME"), ".gemini", "settings.json")
}

func geminiEntry(s Server) member {
	ms := toolTime.Milliseconds()
	if s.URL != "" {
		return member{{"httpUrl", s.URL}, {"headers", member{{"Authorization", "Bearer " + s.Token}}}, {"timeout", ms}}
	}
	return append(member{{"command", s.Command}, {"args", []string{"mcp"}}}, append(s.env("env"), field{"timeout", ms})...)
}

// opencodePath is the file that is there, or the one that it makes.
func opencodePath(h Host) string {
	dir := filepath.Join(under(h, "XDG_CONFIG_HOME", ".config"), "opencode")
	if commented := filepath.Join(dir, "opencode.jsonc"); h.Exists(commented) {
		return commented
	}
	return filepath.Join(dir, "opencode.json")
}

func opencodeEntry(s Server) member {
	ms := toolTime.Milliseconds()
	if s.URL != "" {
		return member{{"type", "remote"}, {"url", s.URL}, {"headers", member{{"Authorization", "Bearer " + s.Token}}}, {"oauth", false}, {"enabled", true}, {"timeout", ms}}
	}
	return append(member{{"type", "local"}, {"command", []string{s.Command, "mcp"}}}, append(s.env("environment"), field{"enabled", true}, field{"timeout", ms})...)
}

func codexPath(h Host) string {
	return filepath.Join(under(h, "CODEX_HOME", ".codex"), "config.toml")
}

// env is the environment as a member of an entry; none if it is empty.
func (s Server) env(name string) member {
	if len(s.Env) == 0 {
		return nil
	}
	var m member
	for _, v := range s.Env {
		m = append(m, field{v.Name, v.Value})
	}
	return member{{name, m}}
}

// field is a name and its value.
type field struct {
	name  string
	value any
}

// member is an object whose fields have an order.
type member []field

// MarshalJSON writes the fields in their order.
func (m member) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, f := range m {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(f.name)
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", f.name, err)
		}
		value, err := json.Marshal(f.value)
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", f.name, err)
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// refuse is the error of a configuration that stays as it is.
func refuse(why string) error {
	return bailey.NewError(bailey.Conflict, "the configuration was not changed: "+why, "--print shows what to write into it by hand")
}
