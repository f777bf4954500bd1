package rootfs

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/sandbox"
)

// Tool is a program of the caller's that a sandbox is to find, and what it
// takes to be found and to run.
type Tool struct {
	Name   string         // as asked for
	File   string         // where it is, links on the way not followed; empty when the host has none
	From   string         // the folder of the caller's PATH it was found by; empty for a path
	Path   []string       // folders of the sandbox's PATH that stand for From
	Mounts []bailey.Mount // read-only, each at its own path
	Links  []bailey.Link  // links on the way that no mount shows
	Hidden []string       // folders inside a mount that are covered by nothing
	Env    []string       // NAME=VALUE
	Notes  []string       // sentences for the header
}

// Resolver finds programs as the caller's shell would, and decides what little
// of the caller's folders a sandbox must see for them.
//
// Version managers are followed without running them (pyenv and its kin, nvm,
// fnm, volta, asdf, mise, rustup). Never yielded are a home folder, a folder
// that many programs share, or one that holds credentials. A path that comes
// from a file or link in the workspace (which an agent may have written) opens
// known toolchain folders only.
type Resolver struct {
	Dir       string                   // where the host's root folder is; "" or "/" in use, a folder in tests
	Home      string                   // of the caller
	Cwd       string                   // the folder the command starts in
	Workspace string                   // what the sandbox sees anyway; may be empty
	Env       func(name string) string // the caller's environment; nil is an empty one
}

// maxChain bounds how many programs one command leads to (interpreters of
// interpreters).
const maxChain = 6

// Command finds argv[0] and the interpreters it leads to. No tools means that
// the host does not have it; inside it may still exist. A snap is an error of
// kind Unsupported.
func (r Resolver) Command(argv0 string) ([]Tool, error) {
	s := newSearch(r)
	if err := s.program(argv0, found{file: "", from: "", path: nil, why: "the command", untrusted: false, asked: false}); err != nil {
		return nil, err
	}
	return s.tools, nil
}

// Named finds a program that was named with --tool. One that the host does not
// have is an error of kind NotFound.
func (r Resolver) Named(name string) ([]Tool, error) {
	s := newSearch(r)
	if err := s.program(name, found{file: "", from: "", path: nil, why: "--tool " + name, untrusted: false, asked: true}); err != nil {
		return nil, err
	}
	if len(s.tools) == 0 {
		return nil, s.missing(name)
	}
	s.goModules("--tool " + name)
	return s.tools, nil
}

// missing says why --tool found no program of that name.
func (s *search) missing(name string) error {
	if !strings.Contains(name, "/") {
		return bailey.NewError(bailey.NotFound, fmt.Sprintf("--tool %s: no such program on your PATH", name), "give its path, or install it")
	}
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(s.Cwd, path)
	}
	why := "there is no such file"
	if real, _, err := s.tree.resolve(filepath.Clean(path)); err == nil {
		why = "nobody may execute that file"
		if !s.tree.isFile(real) {
			why = "that is no file"
		}
	}
	return bailey.NewError(bailey.NotFound, fmt.Sprintf("--tool %s: %s", name, why), "name a program, by its path or by its name on your PATH")
}

// search is one look for a program and what it leads to.
type search struct {
	Resolver
	tree  tree
	tools []Tool
	seen  map[string]bool
}

func newSearch(r Resolver) *search {
	if r.Env == nil {
		r.Env = func(string) string { return "" }
	}
	s := &search{Resolver: r, tree: newTree(r.Dir), tools: nil, seen: make(map[string]bool)}
	if r.Home != "" { // it may be named through a link, and what is found never is
		s.Home = s.real(r.Home)
	}
	return s
}

// visible returns the folder that stands for one of PATH inside: where it
// really is, since a link to it may lie where the sandbox has a folder of its
// own. What the system has linked is linked inside too.
func (s *search) visible(dir string) string {
	if isSystem(dir) || s.inWorkspace(dir) {
		return dir
	}
	return s.real(dir)
}

// real returns a path without links, as far as it exists.
func (s *search) real(path string) string {
	path = filepath.Clean(path)
	if real, _, err := s.tree.resolve(path); err == nil {
		return real
	}
	if path == "/" || path == "." {
		return path
	}
	return filepath.Join(s.real(filepath.Dir(path)), filepath.Base(path))
}

// program finds a program by name or path and adds it, with the reason and the
// trust that f has.
func (s *search) program(name string, f found) error {
	if name == "" || hasControl(name) {
		return nil
	}
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(s.Cwd, name)
		}
		f.file = filepath.Clean(name)
		return s.add(f)
	}
	for _, dir := range filepath.SplitList(s.Env("PATH")) {
		if filepath.IsAbs(dir) && s.findIn(filepath.Clean(dir), name, &f) {
			return s.add(f)
		}
	}
	return nil
}

// findIn looks for a program in one folder of PATH, and behind the shim that
// may stand for it there.
func (s *search) findIn(dir, name string, f *found) bool {
	f.file, f.from, f.path = filepath.Join(dir, name), dir, []string{s.visible(dir)}
	if !s.executable(f.file) {
		return false
	}
	behind, isShim := s.shim(dir, name)
	if !isShim {
		return true
	}
	if behind.file == "" {
		return false // the version manager would say that it has none: look on
	}
	f.file, f.path = behind.file, []string{s.visible(filepath.Dir(behind.file))}
	for _, dir := range behind.also {
		f.path = append(f.path, s.visible(dir))
	}
	return true
}

// executable reports whether path ends at a file that somebody may execute.
func (s *search) executable(path string) bool {
	real, _, err := s.tree.resolve(path)
	if err != nil {
		return false
	}
	info, err := s.tree.lstat(real)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// found is a program's file and how it was come by.
type found struct {
	file      string
	from      string
	path      []string
	why       string
	untrusted bool // it was a file of the workspace that named it
	asked     bool // a person named it with --tool: without it nothing is to run
}

// add takes one program up, with what it needs to run.
func (s *search) add(f found) error {
	if s.seen[f.file] || len(s.tools) >= maxChain {
		return nil
	}
	s.seen[f.file] = true
	real, links, err := s.tree.resolve(f.file)
	if err != nil || !s.executable(real) {
		return nil //nolint:nilerr // what is not there is the sandbox's to report, with exit code 127 or 126
	}
	if sandbox.Within(f.file, "/snap") || real == "/usr/bin/snap" {
		return bailey.NewError(bailey.Unsupported, f.file+" is a snap, and snaps do not run in a sandbox", "install it another way, for example from the project's own archive")
	}
	f.untrusted = f.untrusted || s.fromWorkspace(f.file, links)
	tool := Tool{Name: filepath.Base(f.file), File: f.file, From: f.from, Path: f.path, Mounts: nil, Links: nil, Hidden: nil, Env: nil, Notes: nil}
	if deny := s.show(&tool, f, real, links); deny != "" {
		mend := "use --tool " + real + " to show it"
		if s.inSecrets(real) {
			mend = "install it elsewhere"
		}
		if f.asked {
			return bailey.NewError(bailey.Invalid, fmt.Sprintf("%s is not shown: %s", f.why, deny), mend)
		}
		note := fmt.Sprintf("%s (%s) is not there inside: %s; %s", tool.Name, f.why, deny, mend)
		s.tools = append(s.tools, Tool{Name: tool.Name, File: f.file, From: "", Path: nil, Mounts: nil, Links: nil, Hidden: nil, Env: nil, Notes: []string{note}})
		return nil
	}
	s.tools = append(s.tools, tool)
	return s.interpreter(f, real)
}

// show adds the mounts and links that make a resolved path exist inside. It
// says why, if that would show what may not be shown.
func (s *search) show(tool *Tool, f found, real string, links []bailey.Link) (deny string) {
	see := s.root(real, f)
	if see.deny != "" {
		return see.deny
	}
	if see.whole != "" {
		tool.Notes = append(tool.Notes, fmt.Sprintf("of %s only %s is there inside: it is a project, not an installation", see.whole, real))
	}
	for _, l := range links {
		if venv := s.venv(l.Path); !f.untrusted && s.apart(venv) {
			s.mount(tool, venv, f.why)
		}
	}
	if see.root != "" {
		s.mount(tool, see.root, f.why)
	}
	s.cargos(tool, f)
	for _, l := range links {
		if !isSystem(l.Path) && !s.inWorkspace(l.Path) && !coveredBy(tool.Mounts, l.Path) {
			tool.Links = append(tool.Links, l)
		}
	}
	return ""
}

// cargos shows cargo's own commands, where the program was found among them.
func (s *search) cargos(tool *Tool, f found) {
	for _, dir := range f.path {
		if filepath.Base(filepath.Dir(dir)) == ".cargo" || s.Home != "" && dir == s.real(filepath.Join(s.Home, ".cargo/bin")) {
			s.cargo(tool, f, dir) // its own commands; its credentials lie beside bin
		}
	}
}

// apart reports whether there is a Python environment that may be shown as a
// whole.
func (s *search) apart(venv string) bool {
	return venv != "" && !s.inWorkspace(venv) && s.harmless(venv) && s.project(venv) == ""
}

// cargo shows a folder of cargo's commands, unless a link of the workspace led
// there.
func (s *search) cargo(tool *Tool, f found, bin string) {
	if !f.untrusted && !isSystem(bin) && !s.inWorkspace(bin) && s.harmless(bin) {
		s.mount(tool, bin, f.why)
	}
}

func (s *search) mount(tool *Tool, path, why string) {
	if coveredBy(tool.Mounts, path) || !s.tree.exists(path) {
		return
	}
	tool.Mounts = append(tool.Mounts, bailey.Mount{Source: s.tree.host(path), Target: path, Writable: false, Dcache: 0, Why: why})
	if etc := filepath.Join(path, "etc"); s.tree.isFile(filepath.Join(path, "bin/node")) && s.tree.isDir(etc) {
		tool.Hidden = append(tool.Hidden, etc) // npm's global configuration may hold tokens
	}
}

func (s *search) inWorkspace(path string) bool {
	return s.Workspace != "" && sandbox.Within(path, s.Workspace)
}

// fromWorkspace reports whether a file, or a link on the way to it, lies in
// the workspace.
func (s *search) fromWorkspace(file string, links []bailey.Link) bool {
	return s.inWorkspace(file) || slices.ContainsFunc(links, func(l bailey.Link) bool { return s.inWorkspace(l.Path) })
}

// interpreter follows the #! line of a script, and the wrappers that pnpm
// writes around scripts for node. What a file of the workspace names is not
// trusted.
func (s *search) interpreter(f found, real string) error {
	const maxWrapper = 16 << 10
	head := string(s.tree.head(real, maxWrapper))
	line, ok := strings.CutPrefix(head, "#!")
	if !ok {
		return nil
	}
	line, _, _ = strings.Cut(line, "\n")
	words := strings.Fields(line)
	if len(words) == 0 || !filepath.IsAbs(words[0]) {
		return nil
	}
	next := found{file: "", from: "", path: nil, why: "interpreter of " + filepath.Base(f.file), untrusted: f.untrusted, asked: false}
	switch base := filepath.Base(words[0]); {
	case base == "env":
		return s.program(envCommand(words[1:]), next)
	case (base == "sh" || base == "bash") && strings.Contains(head, "\n  exec node "):
		return s.program("node", next)
	}
	return s.program(words[0], next)
}

// envCommand returns the program that env(1) would run: after options and
// assignments.
func envCommand(words []string) string {
	for _, w := range words {
		if w, ok := strings.CutPrefix(w, "-S"); ok && w != "" {
			return w
		}
		if !strings.HasPrefix(w, "-") && !strings.Contains(w, "=") {
			return w
		}
	}
	return ""
}
