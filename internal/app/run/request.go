package run

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/config"
	"github.com/bailey-dev/bailey/internal/engine/local"
	"github.com/bailey-dev/bailey/internal/policy"
)

// Request is one `bailey run`, as asked for.
type Request struct {
	Command  []string // at least one
	Preset   bool     // Command[0] may name an agent (there was no "--")
	Workdir  string   // --workdir; empty is the current directory
	Net      string   // --net; empty leaves it to the rules
	NetWeak  bool     // Net is of the environment: an --allow beats it
	Allow    []string
	Deny     []string
	Env      []string // --env
	EnvFiles []string // --env-file
	Limits   config.LimitFlags
	ReadOnly bool
	Name     string
	Tools    []string
	Quiet    bool
	JSON     bool
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
	DebugDir   string         // where gVisor's own logs go; empty for none
}

// Caller is the host's identity as the engine wants it.
func (h Host) Caller() local.Caller {
	return local.Caller{UID: h.UID, GID: h.GID, Home: h.Home}
}

// buildPolicy turns flags and the agent's own rules into a policy.
func buildPolicy(r *Request, extra []string) (policy.Policy, error) {
	var p policy.Policy
	for _, s := range append(append([]string{}, extra...), r.Allow...) {
		rule, err := policy.ParseRule(s)
		if err != nil {
			return p, prefixed("--allow", err)
		}
		p.Allow = append(p.Allow, rule)
	}
	for _, s := range r.Deny {
		rule, err := policy.ParseDenyRule(s)
		if err != nil {
			return p, prefixed("--deny", err)
		}
		p.Deny = append(p.Deny, rule)
	}
	mode, err := netMode(r, len(p.Allow) > 0)
	if err != nil {
		return p, err
	}
	p.Mode = mode
	return p, p.Validate()
}

func netMode(r *Request, rules bool) (bailey.NetMode, error) {
	if r.Net == "" {
		if rules {
			return bailey.NetAllow, nil
		}
		return bailey.NetNone, nil
	}
	mode, err := bailey.ParseNetMode(r.Net)
	if err != nil {
		return mode, prefixed("--net", err)
	}
	if r.NetWeak && len(r.Allow) > 0 { // who names hosts now means those, and no more than those
		return bailey.NetAllow, nil
	}
	if mode == bailey.NetNone && len(r.Allow) > 0 {
		return mode, bailey.NewError(bailey.Invalid, "--net none and --allow contradict each other", "leave one of them out")
	}
	return mode, nil
}

// prefixed puts the flag's name before an error's message and keeps its hint.
func prefixed(flag string, err error) error {
	if e, ok := err.(*bailey.Error); ok { //nolint:errorlint // the outermost error alone is rewritten
		return &bailey.Error{Kind: e.Kind, Message: flag + ": " + e.Message, Hint: e.Hint, Cause: e.Cause}
	}
	return fmt.Errorf("%s: %w", flag, err)
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
