package cli

import (
	"fmt"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/environment"
	"github.com/bailey-dev/bailey/internal/terminal"
)

// envCommand is the group of commands about prepared environments.
type envCommand struct {
	Build envBuildCommand `cmd:"" help:"Install what a project's tests need, once, for use without a network."`
	Ls    envLsCommand    `cmd:"" aliases:"list" help:"List the environments that were built."`
	Show  envShowCommand  `cmd:"" help:"Say what an environment is and holds."`
	Rm    envRmCommand    `cmd:"" help:"Remove environments."`
	Path  envPathCommand  `cmd:"" help:"Print the folder of an environment."`
}

// environments is the caller's store.
func (a *app) environments() environment.Store {
	return environment.In(a.host.Dirs.Data, a.host.UID)
}

// environmentNames lists them, for completion.
func (a *app) environmentNames() (out []candidate) {
	for _, name := range a.environments().Names() {
		out = append(out, candidate{name, ""})
	}
	return out
}

// envRow is the published form of an environment.
type envRow struct {
	Name     string             `json:"name"`
	Path     string             `json:"path"`
	Kinds    []environment.Kind `json:"kinds"`
	Key      string             `json:"key,omitempty"`
	Created  time.Time          `json:"created,omitzero"`
	Repo     string             `json:"repo,omitempty"`
	Folder   string             `json:"folder,omitempty"`
	Commit   string             `json:"commit,omitempty"`
	Packages []string           `json:"packages"`
	Tools    []string           `json:"tools"`
	Bytes    int64              `json:"bytes"`
	Files    int64              `json:"files"`
	Notes    []string           `json:"notes"`
	Reused   bool               `json:"reused,omitempty"`
	Error    string             `json:"error,omitempty"`
}

func rowOf(path string, m environment.Manifest) envRow {
	return envRow{
		Name: m.Name, Path: path, Kinds: m.Kinds, Key: m.Key, Created: m.Created, Repo: m.Repo, Folder: m.Folder, Commit: m.Commit,
		Packages: m.Packages, Tools: m.Tools, Bytes: m.Bytes, Files: m.Files, Notes: m.Notes,
	}
}

func kindsText(kinds []environment.Kind) string {
	words := make([]string, len(kinds))
	for i, k := range kinds {
		words[i] = string(k)
	}
	return strings.Join(words, ", ")
}

// sizeText is a number of bytes for people.
func sizeText(n int64) string {
	const kib, mib, gib = 1 << 10, 1 << 20, 1 << 30
	switch {
	case n >= gib:
		return fmt.Sprintf("%.1f GiB", float64(n)/gib)
	case n >= mib:
		return fmt.Sprintf("%.1f MiB", float64(n)/mib)
	case n >= kib:
		return fmt.Sprintf("%.1f KiB", float64(n)/kib)
	}
	return fmt.Sprintf("%d bytes", n)
}

type envLsCommand struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// Help is what `bailey env ls --help` says beyond the flags.
func (envLsCommand) Help() string {
	return `With --json: an array of objects with name, path, kinds, key, created, repo, folder, commit, packages, tools, bytes, files and notes. One that cannot be used has its name, path and error, and the rest is empty or absent.`
}

// Run lists them.
func (c *envLsCommand) Run(a *app) error {
	store := a.environments()
	rows := []envRow{}
	for _, l := range store.List() {
		if l.Err != nil {
			rows = append(rows, envRow{Name: l.Name, Path: filepath.Join(store.Dir(), l.Name), Error: l.Err.Error()})
			continue
		}
		rows = append(rows, rowOf(filepath.Join(store.Dir(), l.Name), l.Manifest))
	}
	if c.JSON {
		return printJSON(a.stdout, rows)
	}
	if len(rows) == 0 {
		_, err := fmt.Fprintln(a.stdout, "There are no environments yet; in a repository bailey env build makes one.")
		return err
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "NAME\tKINDS\tSIZE\tBUILT\tREPOSITORY")
	for _, r := range rows {
		if r.Error != "" {
			_, _ = fmt.Fprintf(w, "%s\t-\t-\t-\t%s\n", r.Name, terminal.Sanitize(r.Error))
			continue
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.Name, kindsText(r.Kinds), sizeText(r.Bytes), r.Created.Local().Format(time.DateTime), terminal.Sanitize(r.Repo))
	}
	return w.Flush()
}

type envShowCommand struct {
	Name text `arg:"" help:"Its name."`
	JSON bool `name:"json" help:"Print JSON."`
}

// Run shows one.
func (c *envShowCommand) Run(a *app) error {
	e, err := a.environments().Open(asBytes(string(c.Name)))
	if err != nil {
		return err
	}
	defer func() { _ = e.Close() }() // read only
	if c.JSON {
		return printJSON(a.stdout, rowOf(e.Folder, e.Manifest))
	}
	m := &e.Manifest
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	line := func(name, value string) {
		if value != "" {
			_, _ = fmt.Fprintf(w, "%s\t%s\n", name, terminal.Sanitize(value))
		}
	}
	line("name", m.Name)
	line("kinds", kindsText(m.Kinds))
	line("built", m.Created.Local().Format(time.DateTime))
	line("for", m.Repo)
	line("from commit", m.Commit)
	line("packages", strings.Join(m.Packages, " "))
	for _, t := range m.Tools {
		line("by", t)
	}
	line("size", fmt.Sprintf("%s in %d files", sizeText(m.Bytes), m.Files))
	line("PATH", strings.Join(m.Path, ":"))
	for _, v := range m.Variables {
		line(v.Name, v.Value)
	}
	line("key", m.Key)
	line("folder", e.Folder)
	for _, n := range m.Notes {
		line("note", n)
	}
	return w.Flush()
}

type envRmCommand struct {
	Name []string `arg:"" help:"Their names."`
}

// Run removes them, each; the first that cannot be is the error.
func (c *envRmCommand) Run(a *app) error {
	for _, name := range c.Name {
		if err := a.environments().Remove(a.ctx, asBytes(name)); err != nil {
			return err
		}
	}
	return nil
}

type envPathCommand struct {
	Name text `arg:"" help:"Its name."`
}

// Help is what `bailey env path --help` says beyond the flags.
func (envPathCommand) Help() string {
	return `Prints the folder of an environment that is there. --environment takes it in place of the name. What is in it was written by install scripts: look at it, and run none of it outside of a sandbox.`
}

// Run prints it.
func (c *envPathCommand) Run(a *app) error {
	e, err := a.environments().Open(asBytes(string(c.Name)))
	if err != nil {
		return err
	}
	defer func() { _ = e.Close() }() // read only
	_, err = fmt.Fprintln(a.stdout, terminal.Sanitize(e.Folder))
	return err
}

// kindOf reads --kind.
func kindOf(name string) (environment.Kind, error) {
	if k := environment.Kind(name); k.Valid() {
		return k, nil
	}
	return "", bailey.NewError(bailey.Invalid, fmt.Sprintf("--kind: %q is unknown", name), "known: "+kindsText(environment.Kinds()))
}
