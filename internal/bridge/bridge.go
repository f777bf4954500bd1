package bridge

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
	"github.com/bailey-dev/bailey/internal/preferences"
	"github.com/bailey-dev/bailey/internal/sandbox"
)

// Host is what Find may know of the machine and of the run.
type Host struct {
	Home      string                   // of the caller
	Workspace string                   // absolute
	Env       func(name string) string // of the caller
	Passed    func(name string) string // the value of a variable that enters the sandbox, or ""
}

// Carried is what enters, and what does not.
type Carried struct {
	Files     []File
	Sources   []string   // the host's files that were read
	Keys      []string   // the dotted paths of what is carried, sorted; of keys see Providers
	Left      []string   // what they say besides, which stays outside: dotted paths, sorted
	Providers []Provider // those that the agent may use
	Variables []string   // that hold the providers' keys, sorted
	Notes     []string   // sentences for the header
}

// File is what is laid over a settings file of the agent.
type File struct {
	Path   string // inside
	Tree   preferences.Tree
	Forced preferences.Tree // the part of it that holds whatever is changed inside
}

// Provider is a provider of models that the host's settings name.
type Provider struct {
	Name     string
	URL      string // as the agent inside finds it; empty: the agent's own
	Variable string // that holds its key; empty: it wants none
	Literal  bool   // the host's file holds the key itself, which does not enter
	Active   bool   // the agent begins with it
	Rule     string // that lets the sandbox reach it, as --allow takes it; empty: see Flag
	Flag     string // what would let the sandbox reach it, where the bridge does not; empty: nothing is needed
}

// Allow lists the rules of the provider that the agent begins with.
func (c *Carried) Allow() []string {
	var out []string
	for _, p := range c.Providers {
		if p.Active && p.Rule != "" {
			out = append(out, p.Rule)
		}
	}
	return out
}

// Agents lists the agents that there is a bridge for, sorted.
func Agents() []string { return []string{"claude", "codex", "gemini", "opencode", "pi"} }

// Find reads the host's settings for an agent. An agent without a bridge, or
// without settings on the host, has nothing carried. An error is a *bailey.Error:
// the provider that the agent begins with could not work.
func Find(agent string, h Host) (*Carried, error) {
	f := &finder{host: h, agent: agent, out: &Carried{}}
	var err error
	switch agent {
	case "claude":
		f.claude()
	case "codex":
		err = f.codex()
	case "gemini":
		f.gemini()
	case "opencode":
		err = f.opencode()
	case "pi":
		err = f.pi()
	}
	for _, list := range []*[]string{&f.out.Keys, &f.out.Left, &f.out.Variables} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return f.out, err
}

// finder gathers what is carried for one agent.
type finder struct {
	host  Host
	agent string
	out   *Carried
	refs  []string // the keys whose values enter as references to variables
}

// folder is where an agent keeps its settings on the host: by a variable, or
// below the home.
func (f *finder) folder(variable, below string) string {
	if v := f.host.Env(variable); variable != "" && filepath.IsAbs(v) {
		return filepath.Clean(v)
	}
	return filepath.Join(f.host.Home, below)
}

// read returns what a file of the host holds, or nil.
func (f *finder) read(path string) preferences.Tree {
	if f.host.Home == "" {
		return nil
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil // there is none
	}
	if sandbox.Within(real, f.host.Workspace) {
		f.note("%s is not carried: it lies in the workspace, where a sandbox can write it", path)
		return nil
	}
	data, _, err := beneath.Head(real, preferences.MaxFile+1)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			f.note("%s is not carried: it cannot be read", path)
		}
		return nil
	}
	t, err := preferences.FormatOf(path).Parse(data)
	if err != nil { // which may show what stands there
		f.note("%s is not carried: it is not the JSON or TOML that %s reads", path, f.agent)
		return nil
	}
	f.out.Sources = append(f.out.Sources, path)
	return t
}

func (f *finder) note(format string, args ...any) {
	f.out.Notes = append(f.out.Notes, fmt.Sprintf(format, args...))
}

// add lays a tree over a file inside.
func (f *finder) add(path string, t, forced preferences.Tree) {
	if len(t) == 0 {
		return
	}
	f.out.Files = append(f.out.Files, File{Path: path, Tree: t, Forced: forced})
	for _, key := range preferences.Leaves(t) {
		if !slices.Contains(f.refs, key) {
			f.out.Keys = append(f.out.Keys, key)
		}
	}
}

// use decides about a provider: whether its definition enters. Of the one that
// the agent begins with an error says why it could not work.
func (f *finder) use(p Provider, source string) (bool, error) {
	if p.Variable == "" || f.host.Passed(p.Variable) != "" {
		f.out.Providers = append(f.out.Providers, p)
		if p.Variable != "" {
			f.out.Variables = append(f.out.Variables, p.Variable)
		}
		return true, nil
	}
	if !p.Active {
		f.out.Left = append(f.out.Left, fmt.Sprintf("provider %s ($%s is not passed)", p.Name, p.Variable))
		return false, nil
	}
	what := "takes its key from $" + p.Variable
	if p.Literal {
		what = "has its key written in it, which does not enter; inside it is $" + p.Variable
	}
	return false, bailey.NewError(bailey.Invalid,
		fmt.Sprintf("%s begins with the provider %s of %s, which %s, and that is not passed, or empty", f.agent, p.Name, source, what),
		fmt.Sprintf("pass it: --env %[1]s, or lend a secret in it: --secret NAME=%[1]s; or leave the host's settings out: --no-bridge", p.Variable))
}

// refer notes that a reference to the provider's variable stands for the key at
// a dotted path. It is not named among what is carried: that would read as if the
// key entered.
func (f *finder) refer(p Provider, path string) {
	f.refs = append(f.refs, path)
	if p.Literal {
		f.out.Left = append(f.out.Left, path)
	}
}

// variableOf is the variable for the key of a provider that does not name one.
func variableOf(provider string) string {
	known := map[string]string{
		"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY", "google": "GEMINI_API_KEY", "openrouter": "OPENROUTER_API_KEY",
		"groq": "GROQ_API_KEY", "mistral": "MISTRAL_API_KEY", "xai": "XAI_API_KEY", "deepseek": "DEEPSEEK_API_KEY", "opencode": "OPENCODE_API_KEY",
	}
	if v, ok := known[provider]; ok {
		return v
	}
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, provider)
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		name = "_" + name
	}
	return name + "_API_KEY"
}

// validVariable reports whether a text may be a variable's name.
func validVariable(s string) bool {
	for i, r := range s {
		if r != '_' && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return s != ""
}
