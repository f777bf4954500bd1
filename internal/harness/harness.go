package harness

import (
	"fmt"
	"io/fs"
	"net/url"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/gateway"
)

// Home is the home folder inside every sandbox.
const Home = "/home/agent"

// Files is how Find looks at the host's disk. OS is the real one.
type Files interface {
	// Stat follows symbolic links.
	Stat(path string) (fs.FileInfo, error)
	// EvalSymlinks returns the path without any symbolic link in it.
	EvalSymlinks(path string) (string, error)
	// ReadDir lists a folder by name.
	ReadDir(path string) ([]fs.DirEntry, error)
	// Head returns up to n first bytes of a file.
	Head(path string, n int) ([]byte, error)
}

// Host is what Find may know of the machine and of the run.
type Host struct {
	Arch      string            // as runtime.GOARCH
	Home      string            // of the caller; absolute, or empty if there is none
	Path      []string          // the folders of the caller's PATH, in order
	Workspace string            // absolute; where the agent will work
	Env       map[string]string // what was passed with --env and --env-file, names to values
	Files     Files
	Model     *Model // the run is for it alone; nil: the agent goes to its own API
}

// Preset is everything that an agent needs in a sandbox.
type Preset struct {
	Name    string         // as asked for
	Argv    []string       // the program and what precedes the user's own arguments
	Behind  [2]string      // where those begin with the first, the second goes behind it; empty for nothing
	Mounts  []bailey.Mount // read-only; empty if the agent lies under /usr or in the workspace
	Env     []string       // NAME=VALUE, nothing secret; the user's own --env is stronger
	Files   []bailey.File  // under Home, which is a tmpfs of the sandbox
	Allow   []string       // rules as --allow takes them: the agent's own API hosts
	Quiet   []string       // hosts it tries by itself and does without: a denial of one needs no word
	Notes   []string       // sentences for the header of the run
	PathDir string         // the folder inside that holds the agent's program, for PATH
}

// Command is the whole command for the user's own arguments.
func (p Preset) Command(args []string) []string {
	out := slices.Clone(p.Argv)
	if len(args) > 0 && p.Behind[0] != "" && args[0] == p.Behind[0] && !slices.Contains(args, p.Behind[1]) {
		out, args = append(out, p.Behind[0], p.Behind[1]), args[1:]
	}
	return append(out, args...)
}

// Names lists the agents known by name, sorted.
func Names() []string {
	var names []string
	for _, a := range agents() {
		names = append(names, a.name)
	}
	return names
}

// agents are the presets, by name.
func agents() []agent {
	return []agent{claude(), codex(), copilot(), gemini(), opencode(), pi(), qwen()}
}

// Known reports whether a preset has that name.
func Known(name string) bool { return slices.Contains(Names(), name) }

// Install is the command that installs an agent, or "" for a name that is
// unknown.
func Install(name string) string {
	for _, a := range agents() {
		if a.name == name {
			return a.install
		}
	}
	return ""
}

// Find looks for an installed agent and says what it needs. An agent that is
// not installed is a *bailey.Error of kind NotFound whose hint installs it; an
// unknown name, and a model whose dialect the agent does not speak, is one of
// kind Invalid.
func Find(name string, h Host) (Preset, error) {
	i := slices.IndexFunc(agents(), func(a agent) bool { return a.name == name })
	if i < 0 {
		return Preset{}, bailey.NewError(bailey.Invalid, fmt.Sprintf("unknown agent %q", name),
			"known agents: "+strings.Join(Names(), ", "))
	}
	a := agents()[i]
	if h.Model != nil {
		if err := checkModel(a, *h.Model); err != nil {
			return Preset{}, err
		}
	}
	inst, ok := locate(a, h)
	if !ok {
		return Preset{}, bailey.NewError(bailey.NotFound,
			fmt.Sprintf("%s (%s) is not installed for this user", a.name, a.title),
			"install it with: "+a.install)
	}
	p := Preset{Name: a.name, Argv: inst.argv, Behind: a.behind, Mounts: inst.mounts, PathDir: inst.dir}
	if h.Model != nil {
		a.pinned(h, *h.Model, &p)
		return p, nil
	}
	a.settings(h, &p)
	p.Notes = append(p.Notes, baseURLNotes(a, h)...)
	if len(a.keys) > 0 && !slices.ContainsFunc(a.keys, h.has) {
		p.Notes = append(p.Notes, fmt.Sprintf("no key for %s was passed: add --env %s", a.title, a.keys[0]))
	}
	return p, nil
}

// has reports whether a variable was passed with a value.
func (h Host) has(name string) bool { return h.Env[name] != "" }

// baseURLNotes tells of each base URL that was passed and whose host is not
// the agent's own: naming a URL does not allow its host.
func baseURLNotes(a agent, h Host) []string {
	var notes []string
	for _, name := range a.baseURLs {
		if !h.has(name) {
			continue
		}
		u, err := url.Parse(h.Env[name])
		if err != nil || u.Host == "" {
			notes = append(notes, fmt.Sprintf("%s is not a URL with a host", name))
			continue
		}
		notes = append(notes, fmt.Sprintf("%s points to %s: it is reached only if --allow names it", name, u.Host))
	}
	return notes
}

// agent is the data of one preset.
type agent struct {
	name     string // of the preset and of its command
	title    string // for people
	install  string // the command that installs it
	wrapper  string // its npm package
	bins     []string
	native   []string // paths below the home folder where its own installer puts it
	keys     []string // variables it takes a key from, the usual first
	baseURLs []string // variables that move its API elsewhere
	// platform lists the npm packages that may hold its program, best first,
	// each with the path of the program in it.
	platform func(arch string, musl bool) []program
	// root is the folder that must be seen for a program to work; empty means
	// the program alone.
	root func(f Files, program string) string
	// behind is a subcommand that wants a flag in a sandbox, and that flag.
	behind [2]string
	// script is the entry in the package of an agent that node runs, and node
	// are node's own flags.
	script string
	node   []string
	// dialects are those that it works with, its own first.
	dialects []gateway.Dialect
	// settings adds env, files, rules and notes.
	settings func(h Host, p *Preset)
	// pinned does the same for a run with a model, which has no rules.
	pinned func(h Host, m Model, p *Preset)
}

// program is a file in an npm package.
type program struct {
	pkg  string
	file string
}
