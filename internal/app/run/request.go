package run

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/config"
	"github.com/bailey-dev/bailey/internal/engine/local"
	"github.com/bailey-dev/bailey/internal/mirror"
	"github.com/bailey-dev/bailey/internal/settings"
	"github.com/bailey-dev/bailey/internal/vault"
)

// Request is one `bailey run`, as asked for.
type Request struct {
	Command     []string // at least one
	Preset      bool     // Command[0] may name an agent (there was no "--")
	Workdir     string   // --workdir; empty is the current directory
	Net         string   // --net; empty leaves it to the rules
	DNS         string   // --dns; empty leaves it to the files
	NetWeak     bool     // Net is of the environment: an --allow beats it
	Allow       []string
	Deny        []string
	Presets     []string // --preset
	Services    []string // --host-service
	Ask         bool     // --ask
	Bare        bool     // no policy file is read
	Secrets     []string // --secret
	lent        []settings.SecretHost
	Models      []string // --model; none, or one
	Budget      []string // --budget
	Record      string   // --record
	Env         []string // --env
	EnvFiles    []string // --env-file
	Limits      config.LimitFlags
	Hiding      Hiding
	Publish     []string // --publish
	OpenBrowser bool     // --open-browser
	ReadOnly    bool
	Name        string
	Tools       []string
	Quiet       bool
	JSON        bool
	Task        *Task // it is the sandbox of a task or a check (Delegate)
	Unit        *Unit // nobody sits before it (Attend)

	Homes      Homes
	Background Background
	Open       Openings
	Loose      Loosened
	Kernel
	Environment string         // --environment: a name or path of the store
	Work        *Work          // of bailey's own runs; no flag sets it
	Own         []bailey.Mount // read-only, of bailey's own runs; no flag sets it
	Reach
}

// Host is the process that asks: its identity, its descriptors, its machine.
type Host struct {
	UID, GID   int
	Home       string
	Env        config.Lookup
	Dirs       config.Dirs
	Dir        string // current directory
	Executable string // path of this binary
	Stdin      *os.File
	Stdout     *os.File
	Stderr     *os.File
	CPUs       int
	Memory     int64          // bytes of RAM
	Helper     *local.Pending // launched already; nil to launch one
	Watchdog   *Watchdog      // likewise
	Holds      bool           // it was started by Detach
	DebugDir   string         // where gVisor's own logs go; empty for none
}

// Caller is the host's identity as the engine wants it.
func (h Host) Caller() local.Caller {
	return local.Caller{UID: h.UID, GID: h.GID, Home: h.Home}
}

// buildPolicy turns files, flags and the agent's own rules into a policy, and
// returns what it was made of.
func buildPolicy(h Host, r *Request, workspace string, agent []string) (settings.Sources, settings.Effective, error) {
	place := h.Place(workspace)
	sources := settings.Sources{Flags: r.flags(), Agent: agent}
	if !r.Bare {
		files, err := settings.Load(place)
		if err != nil {
			return sources, settings.Effective{}, short(err)
		}
		sources.Files = files
	}
	e, err := settings.Resolve(sources, place.Mirror)
	if err == nil {
		err = e.Refusal()
	}
	if err == nil {
		err = e.Policy().Validate()
	}
	return sources, e, short(err)
}

// short is an error about a policy file with its first fault alone.
func short(err error) error {
	if e, ok := errors.AsType[*settings.InvalidError](err); ok {
		return e.Short(settings.CheckCommand)
	}
	return err
}

func (r *Request) flags() settings.Flags {
	return settings.Flags{Net: r.Net, Weak: r.NetWeak, DNS: r.DNS, Allow: r.Allow, Deny: r.Deny, Presets: r.Presets, Services: r.Services, Ask: r.Ask, Secrets: r.lent, Git: r.Git, Learn: r.Learn}
}

// Place is where the policy files for a folder are.
func (h Host) Place(dir string) settings.Place {
	return settings.Place{
		ConfigDir: h.Dirs.Config, DataDir: h.Dirs.Data, Dir: dir,
		Mirror: mirror.Host{Home: h.Home, Workspace: dir, Env: h.Env.Get},
	}
}

// merge joins lists of NAME=VALUE; of each name the last one stays.
func merge(lists ...[]string) []string {
	at := map[string]int{}
	var out []string
	for _, list := range lists {
		for _, pair := range list {
			name, _, _ := strings.Cut(pair, "=")
			if i, ok := at[name]; ok {
				out[i] = pair
				continue
			}
			at[name] = len(out)
			out = append(out, pair)
		}
	}
	return out
}

// sandboxName checks a name that was given or makes one from the workspace.
func sandboxName(given, workspace string, id bailey.SandboxID) (string, error) {
	if given != "" {
		if !bailey.ValidSandboxName(given) {
			return "", bailey.NewError(bailey.Invalid, fmt.Sprintf("--name: %q is not a name", given),
				"use 1 to 32 lower-case letters, digits and inner hyphens")
		}
		return given, nil
	}
	base := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, filepath.Base(workspace))
	base = strings.Trim(base, "-")
	const most = 32 - 1 - 8 // of a name, less what follows
	if len(base) > most {
		base = strings.TrimRight(base[:most], "-")
	}
	if base == "" {
		base = "sandbox"
	}
	return base + "-" + string(id[len(id)-8:]), nil
}

// Vault is where the caller's secrets are.
func (h Host) Vault() vault.Place {
	return vault.Place{ConfigDir: h.Dirs.Config, DataDir: h.Dirs.Data, StateDir: h.Dirs.State, Env: h.Env.Get, Ask: vault.AskTerminal}
}
