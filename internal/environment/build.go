package environment

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
)

// Where a step has things, inside. The environment's own place is MountPath.
const (
	copyPath   = "/opt/env.copy" // of the first step: what it writes to
	sourcePath = "/opt/env.src"  // of the others: the copy, read-only
)

// Step is one sandbox of a build.
type Step struct {
	Name    string   // copy, or a kind
	Command []string // argv
	Env     []string // NAME=VALUE

	// Preset names the rules of the network; empty for no network at all.
	Preset string

	// Repository says that the project is shown, read-only, and where the
	// command starts. Without it the sandbox sees nothing of the project.
	Repository bool

	Output   bailey.Mount   // the one thing that it may write to
	Mounts   []bailey.Mount // read-only
	Programs []string       // of the machine, to be shown as if the command were one of them
}

// FailedError is the error of a step whose command ended with another code than 0.
type FailedError struct {
	Step string
	Code int
}

// Error says which step it was.
func (f *FailedError) Error() string {
	return fmt.Sprintf("%s ended with exit code %d", f.Step, f.Code)
}

// Runner runs one step in a sandbox, to its end, and returns the exit code.
type Runner interface {
	Step(ctx context.Context, s Step) (int, error)
}

// Project is a folder that an environment is built for.
type Project struct {
	Dir    string // absolute, without links
	Folder string // of it below the root of the work tree; empty for the root
}

// FindProject finds the project that a path means, and the repository that it
// lies in. Links are followed: a person named it.
func FindProject(path string) (Project, error) {
	dir, err := filepath.EvalSymlinks(path)
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil || !Exists(dir) {
		return Project{}, bailey.NewError(bailey.NotFound, fmt.Sprintf("there is no folder %s", path), "check the path")
	}
	for root := dir; ; root = filepath.Dir(root) {
		if _, err := os.Lstat(filepath.Join(root, ".git")); err == nil {
			rel, err := filepath.Rel(root, dir)
			if err != nil || !isText(dir) {
				return Project{}, bailey.NewError(bailey.Invalid, fmt.Sprintf("the folder %q is not usable", dir), "use a path in UTF-8 without control characters")
			}
			if rel == "." {
				rel = ""
			}
			return Project{Dir: dir, Folder: filepath.ToSlash(rel)}, nil
		}
		if root == filepath.Dir(root) {
			return Project{}, bailey.NewError(bailey.NotFound, dir+" is in no git repository, and what is built is what is committed", "git init && git add . && git commit -m start")
		}
	}
}

// Root is the root of its work tree.
func (p Project) Root() string {
	return strings.TrimSuffix(strings.TrimSuffix(p.Dir, filepath.FromSlash(p.Folder)), "/")
}

// Request says what to build.
type Request struct {
	Project  Project
	Kinds    []Kind // empty: those that the project is of
	Name     string // empty: the folder's
	Packages []string
	Rebuild  bool // though there is one by the same key
	Arch     string
	NPMRC    string            // settings of npm inside
	Env      map[Kind][]string // what a kind's programs inside get
	Say      func(string)      // one sentence for a person
	Now      func() time.Time  //
}

// Built is what a build came to.
type Built struct {
	Folder   string
	Manifest Manifest
	Reused   bool // it was there already
}

// Build builds an environment, or finds that it is there already. Until it is
// whole nothing of it has a name; a build that fails leaves nothing. Errors are
// of type *bailey.Error, or *FailedError.
func (s Store) Build(ctx context.Context, r Request, run Runner) (built Built, err error) {
	if err := r.check(); err != nil {
		return Built{}, err
	}
	draft, err := s.Begin(ctx, r.Now())
	if err != nil {
		return Built{}, err
	}
	defer func() { err = errors.Join(err, draft.Discard()) }()
	b := &build{Request: r, store: s, draft: draft, run: run, manifest: Manifest{}}
	if err := b.copy(ctx); err != nil {
		return Built{}, err
	}
	if !r.Rebuild {
		if found, ok := b.present(); ok {
			return found, nil
		}
	}
	for _, k := range b.manifest.Kinds {
		if err := b.kind(ctx, k); err != nil {
			return Built{}, err
		}
	}
	return b.finish(ctx)
}

// check looks at what can be looked at before anything is made.
func (r *Request) check() error {
	dir, err := beneath.Dir(r.Project.Dir)
	if err != nil {
		return bailey.WrapError(bailey.NotFound, "look at the project", err, "")
	}
	defer func() { _ = dir.Close() }() // a place, no contents
	if len(r.Kinds) == 0 {
		if r.Kinds, err = Detect(dir); err != nil {
			return bailey.WrapError(bailey.Invalid, "look at the project", err, "")
		}
	}
	switch {
	case len(r.Kinds) == 0:
		return bailey.NewError(bailey.NotFound, fmt.Sprintf("%s has neither a Python, nor a Node, nor a Go project", r.Project.Dir), "it needs pyproject.toml, setup.py or requirements.txt; package.json; or go.mod")
	case len(r.Kinds) > 1 && len(r.Packages) > 0:
		return bailey.NewError(bailey.Invalid, "packages are named and the project is of several kinds", "say of which they are: --kind python, node or go")
	}
	for _, p := range r.Packages {
		if p == "" || p[0] == '-' || !isText(p) || len(p) > 512 {
			return bailey.NewError(bailey.Invalid, fmt.Sprintf("%q is not the name of a package", p), "name packages as pip, npm or go install take them, without options")
		}
	}
	if r.Name == "" {
		r.Name = nameOf(r.Project.Dir)
	}
	if !ValidName(r.Name) {
		return bailey.NewError(bailey.Invalid, fmt.Sprintf("--name: %q is not a name", r.Name), "use 1 to 64 small letters, digits and hyphens, the first of them no hyphen")
	}
	return nil
}

// nameOf makes a name of a folder's.
func nameOf(dir string) string {
	name := strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
			return c
		case c >= 'A' && c <= 'Z':
			return c + 'a' - 'A'
		}
		return '-'
	}, filepath.Base(dir))
	name = strings.Trim(name, "-")
	name = strings.TrimRight(name[:min(len(name), 64)], "-")
	if name == "" {
		return "env"
	}
	return name
}

// build is one that is under way. Its draft has the folders copy, which the
// first step fills, and root.
type build struct {
	Request
	store    Store
	draft    *Draft
	run      Runner
	manifest Manifest
}

func (b *build) path(names ...string) string {
	return filepath.Join(append([]string{b.draft.Dir}, names...)...)
}

// step runs one sandbox.
func (b *build) step(ctx context.Context, s Step, packages ...string) error {
	s.Command = append([]string{"/bin/sh", "-c", script(s.Name), s.Name}, packages...)
	code, err := b.run.Step(ctx, s)
	if err == nil && code != 0 {
		err = &FailedError{Step: s.Name, Code: code}
	}
	return err
}

// copy takes the committed state, and finds out what will be built.
func (b *build) copy(ctx context.Context) error {
	for _, dir := range []string{"copy", treeName} {
		if err := os.Mkdir(b.path(dir), 0o755); err != nil {
			return fmt.Errorf("make a folder for the environment: %w", err)
		}
	}
	var tools []string
	for _, k := range b.Kinds {
		tools = append(tools, k.part().programs...)
	}
	b.Say("copies what is committed in " + b.Project.Dir)
	err := b.step(ctx, Step{
		Name: stepCopy, Command: nil, Preset: "", Repository: true, Mounts: nil, Programs: tools,
		Env:    []string{"BAILEY_OUT=" + copyPath, "BAILEY_TOOLS=" + strings.Join(tools, " ")},
		Output: bailey.Mount{Source: b.path("copy"), Target: copyPath, Writable: true, Owned: true},
	})
	if err != nil {
		return err
	}
	return b.plan()
}

// plan reads what the first step left: by descriptors, since that is hostile.
func (b *build) plan() error {
	dir, err := beneath.Dir(b.path("copy"))
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }() // a place, no contents
	project, err := beneath.Sub(dir, "src")
	if err != nil {
		return err
	}
	defer func() { _ = project.Close() }() // a place, no contents
	m := Manifest{
		Version: FormatVersion, Name: b.Name, Kinds: b.Kinds, Created: b.Now().UTC(), Repo: b.Project.Dir, Folder: b.Project.Folder,
		Packages: append([]string{}, b.Packages...), Notes: []string{},
	}
	committed, err := Detect(project)
	if err != nil {
		return bailey.WrapError(bailey.Invalid, "look at what is committed", err, "")
	}
	for _, k := range b.Kinds {
		if !slices.Contains(committed, k) {
			return bailey.NewError(bailey.NotFound, fmt.Sprintf("what is committed has no %s project", k), "git add and git commit its files, since what is built is what is committed")
		}
	}
	if m.Tools, err = lines(dir, "tools"); err != nil {
		return err
	}
	commit, err := lines(dir, "commit")
	if err != nil {
		return err
	}
	m.Commit = strings.Join(commit, "")
	if slices.Contains(b.Kinds, Python) {
		m.Source = modulesOf(project)
	}
	if m.Key, err = Key(project, Ingredients{Kinds: b.Kinds, Tools: m.Tools, Packages: b.Packages, Arch: b.Arch}); err != nil {
		return bailey.WrapError(bailey.Invalid, "look at what is committed", err, "")
	}
	m.apply()
	b.manifest = m
	return nil
}

// lines reads one of the small files that the first step left.
func lines(dir *os.File, name string) ([]string, error) {
	const most = 4 << 10
	data, _, err := beneath.ReadFile(dir, name, most)
	if err != nil {
		return nil, fmt.Errorf("read what the copy left: %w", err)
	}
	var out []string
	for line := range bytes.Lines(data) {
		text := strings.TrimSpace(string(line))
		if !isText(text) {
			return nil, fmt.Errorf("read what the copy left: %q is not text", text)
		}
		out = append(out, text)
	}
	return out, nil
}

// modulesOf is where a project has its modules: in src, where that is no
// package itself, or beside its settings.
func modulesOf(project *os.File) string {
	info, err := beneath.Lstat(project, "src")
	if err != nil || !info.Mode.IsDir() {
		return "."
	}
	if _, err := beneath.Lstat(project, "src/__init__.py"); err == nil {
		return "."
	}
	list, _ := beneath.ReadDir(project, "src", maxPerDir)
	for _, e := range list {
		if e.Type.IsRegular() && strings.HasSuffix(e.Name, ".py") {
			return "src"
		}
		if _, err := beneath.Lstat(project, "src/"+e.Name+"/__init__.py"); err == nil {
			return "src"
		}
	}
	return "."
}

// present finds an environment of the same name and key.
func (b *build) present() (Built, bool) {
	e, err := b.store.Open(b.Name)
	if err != nil {
		return Built{}, false
	}
	defer func() { _ = e.Close() }() // read only
	if e.Manifest.Key != b.manifest.Key || e.Manifest.Repo != b.Project.Dir || e.Manifest.Folder != b.Project.Folder {
		return Built{}, false
	}
	return Built{Folder: e.Folder, Manifest: e.Manifest, Reused: true}, true
}

// kind builds one part of the tree.
func (b *build) kind(ctx context.Context, k Kind) error {
	out := MountPath + "/" + string(k)
	if err := os.Mkdir(b.path(treeName, string(k)), 0o755); err != nil {
		return fmt.Errorf("make a folder for the environment: %w", err)
	}
	env := append([]string{"BAILEY_OUT=" + out, "BAILEY_SRC=" + sourcePath, "BAILEY_REPO=" + RepoPath}, b.Env[k]...)
	preset := string(k)
	switch k {
	case Python:
		env, preset = append(env, "BAILEY_COLLECT="+collector()), "pip"
	case Node:
		env, preset = append(env, "BAILEY_NPMRC="+b.NPMRC), "npm"
	case Go:
	}
	b.Say("installs the packages of " + string(k))
	err := b.step(ctx, Step{
		Name: string(k), Command: nil, Env: env, Preset: preset, Repository: false, Programs: k.part().programs,
		Output: bailey.Mount{Source: b.path(treeName, string(k)), Target: out, Writable: true, Owned: true},
		Mounts: []bailey.Mount{{Source: b.path("copy", "src"), Target: sourcePath, Owned: true}},
	}, b.Packages...)
	if err != nil {
		return err
	}
	return b.tidy(k)
}

// tidy removes a step's temporary files.
func (b *build) tidy(k Kind) error {
	dir, err := beneath.Dir(b.path(treeName, string(k)))
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }() // a place, no contents
	if err := beneath.Remove(dir, ".tmp", maxRemoved); err != nil && !gone(err) {
		return err
	}
	return nil
}

// finish looks at the whole and gives it its name.
func (b *build) finish(ctx context.Context) (Built, error) {
	b.Say("looks at what was installed")
	a, err := inspect(b.path(treeName), b.store.uid)
	if err != nil {
		return Built{}, err
	}
	dir, err := beneath.Dir(b.draft.Dir)
	if err != nil {
		return Built{}, err
	}
	defer func() { _ = dir.Close() }() // a place, no contents
	if err := beneath.Remove(dir, "copy", maxRemoved); err != nil {
		return Built{}, err
	}
	m := &b.manifest
	m.Bytes, m.Files, m.Notes = a.bytes, a.files, a.notes()
	if err := b.draft.Commit(ctx, *m); err != nil {
		return Built{}, err
	}
	return Built{Folder: filepath.Join(filepath.Dir(b.draft.Dir), m.Name), Manifest: *m, Reused: false}, nil
}
