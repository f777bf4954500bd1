package environment_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/environment"
)

const commit = "0123456789abcdef0123456789abcdef01234567"

// fakeRunner does what a step's sandbox would leave.
type fakeRunner struct {
	steps   []environment.Step
	project map[string]string // what is committed
	install func(step, out string) error
	fail    string // the step that ends badly
}

// Step is Runner's.
func (f *fakeRunner) Step(_ context.Context, s environment.Step) (int, error) {
	f.steps = append(f.steps, s)
	if s.Name == f.fail {
		return 3, nil
	}
	if s.Name != "copy" {
		return 0, f.install(s.Name, s.Output.Source)
	}
	files := map[string]string{"commit": commit + "\n", "tools": "python3 Python 3.11.2\n"}
	for name, text := range f.project {
		files["src/"+name] = text
	}
	for name, text := range files {
		path := filepath.Join(s.Output.Source, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return 0, err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// project makes a repository with these files in its work tree.
func project(t *testing.T, files map[string]string) environment.Project {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir+"/.git/HEAD", "")
	for name, text := range files {
		write(t, filepath.Join(dir, name), text)
	}
	p, err := environment.FindProject(dir)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func request(p environment.Project) environment.Request {
	return environment.Request{Project: p, Name: "web", Arch: "amd64", Say: func(string) {}, Now: time.Now}
}

func TestStore_Build(t *testing.T) {
	t.Parallel()
	s, _ := store(t)
	files := map[string]string{"pyproject.toml": "[project]", "go.mod": "module x", "src/mine/__init__.py": "", "other": "1"}
	p := project(t, files)
	f := &fakeRunner{project: files, install: func(step, out string) error {
		return errors.Join(os.Mkdir(out+"/.tmp", 0o700), os.WriteFile(out+"/"+step, []byte("installed"), 0o600))
	}}
	built, err := s.Build(t.Context(), request(p), f)
	if err != nil {
		t.Fatal(err)
	}
	m := built.Manifest
	if built.Reused || m.Commit != commit || m.Source != "src" || m.Bytes != 18 || m.Files != 4 || m.Repo != p.Dir {
		t.Errorf("built %+v", m)
	}
	var steps []string
	for _, step := range f.steps {
		steps = append(steps, fmt.Sprintf("%s %q %t %s", step.Name, step.Preset, step.Repository, step.Output.Target))
		if !step.Output.Writable || slices.ContainsFunc(step.Mounts, func(m bailey.Mount) bool { return m.Writable }) {
			t.Errorf("%s writes to more than its output: %+v", step.Name, step)
		}
	}
	// Only the step without a network sees the repository.
	want := []string{`copy "" true /opt/env.copy`, `python "pip" false /opt/env/python`, `go "go" false /opt/env/go`}
	if diff := cmp.Diff(want, steps); diff != "" {
		t.Error(diff)
	}
	for path, there := range map[string]bool{"root/python/python": true, "root/go/go": true, "root/python/.tmp": false, "copy": false, "env.json": true} {
		info, err := os.Lstat(filepath.Join(built.Folder, path))
		if (err == nil) != there {
			t.Errorf("%s: %v", path, err)
		}
		if err == nil && path == "root/go/go" && info.Mode().Perm() != 0o644 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
	}
}

func TestStore_BuildOnlyWhenSomethingChanged(t *testing.T) {
	t.Parallel()
	s, _ := store(t)
	files := map[string]string{"package.json": "{}", "sub/package-lock.json": "{}", "index.js": "1"}
	p := project(t, files)
	f := &fakeRunner{project: files, install: func(string, string) error { return nil }}
	for _, c := range []struct {
		what   string
		change func(r *environment.Request)
		reused bool
	}{
		{"first", func(*environment.Request) {}, false},
		{"the same", func(*environment.Request) {}, true},
		{"a source", func(*environment.Request) { files["index.js"] = "2" }, true},
		{"a lock file", func(*environment.Request) { files["sub/package-lock.json"] = "{ }" }, false},
		{"the same again", func(*environment.Request) {}, true},
		{"a package", func(r *environment.Request) { r.Packages = []string{"left-pad"} }, false},
		{"another machine", func(r *environment.Request) { r.Packages, r.Arch = []string{"left-pad"}, "arm64" }, false},
		{"asked for", func(r *environment.Request) { r.Packages, r.Arch, r.Rebuild = []string{"left-pad"}, "arm64", true }, false},
	} {
		r := request(p)
		c.change(&r)
		built, err := s.Build(t.Context(), r, f)
		if err != nil || built.Reused != c.reused {
			t.Errorf("%s: reused %t, %v", c.what, built.Reused, err)
		}
	}
}

func TestStore_ABuildThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	nothing := func(string, string) error { return nil }
	committed := map[string]string{"go.mod": "module x"}
	for name, c := range map[string]struct {
		runner fakeRunner
		change func(r *environment.Request)
		want   string
	}{
		"the copy":            {fakeRunner{project: committed, install: nothing, fail: "copy"}, nil, "copy ended with exit code 3"},
		"the package manager": {fakeRunner{project: committed, install: nothing, fail: "go"}, nil, "go ended with exit code 3"},
		"bailey":              {fakeRunner{project: committed, install: func(string, string) error { return errors.New("no sandbox") }}, nil, "no sandbox"},
		"not committed":       {fakeRunner{project: map[string]string{"x": ""}, install: nothing}, nil, "no go project"},
		"a link for a source": {fakeRunner{project: committed, install: nothing}, func(r *environment.Request) { r.Kinds = []environment.Kind{"node"} }, "no node project"},
		"too deep": {fakeRunner{project: committed, install: func(_, out string) error {
			return os.MkdirAll(out+strings.Repeat("/d", 300), 0o755)
		}}, nil, "nested"},
		"a bad name":    {fakeRunner{}, func(r *environment.Request) { r.Name = "../x" }, "is not a name"},
		"an option":     {fakeRunner{}, func(r *environment.Request) { r.Packages = []string{"--index-url=https://evil.test"} }, "not the name of a package"},
		"no words":      {fakeRunner{}, func(r *environment.Request) { r.Packages = []string{""} }, "not the name of a package"},
		"no project":    {fakeRunner{}, func(r *environment.Request) { r.Project = project(t, nil) }, "neither a Python"},
		"several kinds": {fakeRunner{}, func(r *environment.Request) { r.Kinds, r.Packages = environment.Kinds(), []string{"x"} }, "several kinds"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := store(t)
			r := request(project(t, committed))
			if c.change != nil {
				c.change(&r)
			}
			if _, err := s.Build(t.Context(), r, &c.runner); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if list, err := os.ReadDir(s.Dir()); err == nil && len(list) > 0 {
				t.Errorf("left: %v", list)
			}
		})
	}
}

// TestStore_WhatScriptsPlant: each row is something in a tree, and whether it
// stays there.
func TestStore_WhatScriptsPlant(t *testing.T) {
	t.Parallel()
	links := map[string]bool{ // target, of a link in a/b
		"file": true, "../file": true, "../../file": true, "../../../file": true, "./file": true, "/usr/bin/python3": true, "/opt/env/go/x": true, "/opt/env.repo/x": true, "/bin/sh": true,
		"../../../../file": false, "../../../../../etc/passwd": false, "x/../file": false, "./../../../../..": false, "/etc/passwd": false, "/": false,
		"/usr/../etc/passwd": false, "/opt/env.repo2": false, "/opt/env/../../etc": false, "/home/me/.ssh": false, "a\x1b[2Jb": false, "/usr/\n": false,
	}
	s, _ := store(t)
	files := map[string]string{"go.mod": "module x"}
	f := &fakeRunner{project: files, install: func(_, out string) error {
		if err := os.MkdirAll(out+"/a/b", 0o755); err != nil {
			return err
		}
		i := 0
		for target := range links {
			if err := os.Symlink(target, fmt.Sprintf("%s/a/b/%d", out, i)); err != nil {
				return err
			}
			i++
		}
		return errors.Join(
			syscall.Mkfifo(out+"/pipe", 0o600),
			os.WriteFile(out+"/suid", nil, 0o755), os.Chmod(out+"/suid", 0o755|os.ModeSetuid|os.ModeSetgid),
			os.WriteFile(out+"/shut", nil, 0), os.Mkdir(out+"/shut.d", 0o755), os.WriteFile(out+"/shut.d/x", nil, 0o666), os.Chmod(out+"/shut.d", 0),
			os.WriteFile(out+"/odd\x1b[2J", nil, 0o644), os.WriteFile(out+"/odd\xff", nil, 0o644), os.Mkdir(out+"/odd\n.d", 0o755),
		)
	}}
	built, err := s.Build(t.Context(), request(project(t, files)), f)
	if err != nil {
		t.Fatal(err)
	}
	root := built.Folder + "/root/go/"
	var kept []string
	list, err := os.ReadDir(root + "a/b")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		target, err := os.Readlink(root + "a/b/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, target)
	}
	for target, stays := range links {
		if slices.Contains(kept, target) != stays {
			t.Errorf("a link to %q: stays %t", target, !stays)
		}
	}
	for name, want := range map[string]os.FileMode{"suid": 0o755, "shut": 0o644, "shut.d": os.ModeDir | 0o755, "shut.d/x": 0o644} {
		if info, err := os.Lstat(root + name); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	top, err := os.ReadDir(root)
	if err != nil || len(top) != 4 {
		t.Errorf("left: %v, %v", top, err)
	}
	if notes := strings.Join(built.Manifest.Notes, "\n"); len(built.Manifest.Notes) != 3 || !utf8.ValidString(notes) || strings.Contains(notes, "\x1b") {
		t.Errorf("notes: %q", notes)
	}
}

// TestStore_ACopyIsHostile: the first step runs the repository's git, so what it
// leaves is as hostile as the repository.
func TestStore_ACopyIsHostile(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string]func(copied string) error{
		"a link for the sources": func(c string) error { return errors.Join(os.RemoveAll(c+"/src"), os.Symlink("/etc", c+"/src")) },
		"a link for the tools":   func(c string) error { return errors.Join(os.Remove(c+"/tools"), os.Symlink("/etc/passwd", c+"/tools")) },
		"a pipe for the commit":  func(c string) error { return errors.Join(os.Remove(c+"/commit"), syscall.Mkfifo(c+"/commit", 0o600)) },
		"a commit that is none":  func(c string) error { return os.WriteFile(c+"/commit", []byte("x\n"), 0o600) },
		"tools without end":      func(c string) error { return os.WriteFile(c+"/tools", make([]byte, 1<<20), 0o600) },
		"escapes for tools":      func(c string) error { return os.WriteFile(c+"/tools", []byte("go\x1b[2J\n"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := store(t)
			files := map[string]string{"go.mod": "module x"}
			f := &fakeRunner{project: files, install: func(string, string) error { return nil }}
			if _, err := s.Build(t.Context(), request(project(t, files)), f); err != nil { // the twin
				t.Fatal(err)
			}
			r := request(project(t, files))
			r.Name = "other"
			if built, err := s.Build(t.Context(), r, &plantingRunner{f, plant}); err == nil {
				t.Errorf("built %+v", built.Manifest)
			}
			if names := s.Names(); len(names) != 1 {
				t.Errorf("left: %q", names)
			}
		})
	}
}

type plantingRunner struct {
	*fakeRunner
	plant func(copied string) error
}

// Step is Runner's.
func (p *plantingRunner) Step(ctx context.Context, s environment.Step) (int, error) {
	code, err := p.fakeRunner.Step(ctx, s)
	if err == nil && s.Name == "copy" {
		err = p.plant(s.Output.Source)
	}
	return code, err
}

func TestFindProject(t *testing.T) {
	t.Parallel()
	p := project(t, map[string]string{"a/b/go.mod": ""})
	sub, err := environment.FindProject(p.Dir + "/a/b")
	if err != nil || sub.Folder != "a/b" || sub.Root() != p.Dir {
		t.Errorf("%+v, root %s, %v", sub, sub.Root(), err)
	}
	if p.Folder != "" || p.Root() != p.Dir {
		t.Errorf("%+v, root %s", p, p.Root())
	}
	for _, path := range []string{p.Dir + "/none", p.Dir + "/a/b/go.mod", t.TempDir()} {
		if got, err := environment.FindProject(path); bailey.KindOf(err) != bailey.NotFound {
			t.Errorf("%s: %+v, %v", path, got, err)
		}
	}
}
