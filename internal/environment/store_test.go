package environment_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/environment"
)

// store is an empty one, in a folder without links.
func store(t *testing.T) (environment.Store, string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return environment.In(dir, os.Getuid()), dir
}

func manifest(t *testing.T, name string) environment.Manifest {
	t.Helper()
	m, err := environment.ParseManifest([]byte(strings.Replace(whole, `"name": "web"`, `"name": "`+name+`"`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// put makes an environment with one file.
func put(t *testing.T, s environment.Store, name, text string) {
	t.Helper()
	d, err := s.Begin(t.Context(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(d.Dir+"/root/python", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(d.Dir+"/root/python/file", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := d.Commit(t.Context(), manifest(t, name)); err != nil {
		t.Fatal(err)
	}
	if err := d.Discard(); err != nil { // as a deferred one
		t.Fatal(err)
	}
}

func text(t *testing.T, e *environment.Environment) string {
	t.Helper()
	data, err := os.ReadFile(e.Tree() + "/python/file")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestStore_FindTakesNamesAndPathsOfItsOwnAlone(t *testing.T) {
	t.Parallel()
	s, dir := store(t)
	put(t, s, "web", "x")
	linked := filepath.Join(t.TempDir(), "linked")
	if err := os.Symlink(dir, linked); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(dir, "other", "web")
	if err := os.MkdirAll(other, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(other, s.Dir()+"/out"); err != nil {
		t.Fatal(err)
	}
	folder := s.Dir() + "/web"
	for asked, kind := range map[string]bailey.Kind{
		other: bailey.Forbidden, "/": bailey.Forbidden, "/etc": bailey.Forbidden, folder + "/": bailey.Forbidden, folder + "/root": bailey.Forbidden,
		s.Dir() + "/../envs/web": bailey.Forbidden, "./web": bailey.Forbidden, s.Dir(): bailey.Forbidden,
		"": bailey.Invalid, "..": bailey.Invalid, ".": bailey.Invalid, "Web": bailey.Invalid,
		"none": bailey.NotFound, s.Dir() + "/none": bailey.NotFound, "out": bailey.NotFound,
	} {
		if got, err := s.Find(asked); err == nil || bailey.KindOf(err) != kind {
			t.Errorf("%q: %q, %v, want %v", asked, got, err, kind)
		}
	}
	for _, asked := range []string{"web", folder} {
		if got, err := s.Find(asked); err != nil || got != folder {
			t.Errorf("%q: %q, %v", asked, got, err)
		}
	}
	// The user's own folder may be reached by a link.
	if got, err := environment.In(linked, os.Getuid()).Find("web"); err != nil || got != folder {
		t.Errorf("through a link: %q, %v", got, err)
	}
}

func TestStore_WhatIsInUseStays(t *testing.T) {
	t.Parallel()
	s, _ := store(t)
	put(t, s, "web", "one")
	used, err := s.Open("web")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(t.Context(), "web"); bailey.KindOf(err) != bailey.Conflict {
		t.Errorf("one in use is removed: %v", err)
	}
	tree, err := os.OpenRoot(used.Tree()) // as a mount has it
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	put(t, s, "web", "two")
	if data, err := tree.ReadFile("python/file"); err != nil || string(data) != "one" {
		t.Errorf("the one in use has %q, %v", data, err)
	}
	next, err := s.Open("web")
	if err != nil || text(t, next) != "two" {
		t.Fatalf("the new one: %v", err)
	}
	if err := errors.Join(next.Close(), used.Close(), used.Close()); err != nil {
		t.Fatal(err)
	}
	// What was kept for its user goes with the next build.
	put(t, s, "other", "three")
	if _, err := tree.ReadFile("python/file"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what nobody uses is still there: %v", err)
	}
	if err := s.Remove(t.Context(), "web"); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"other"}, s.Names()); diff != "" {
		t.Error(diff)
	}
}

func TestStore_ADraftThatNobodyHoldsIsSwept(t *testing.T) {
	t.Parallel()
	s, _ := store(t)
	put(t, s, "web", "x")
	left := s.Dir() + "/.draft-1-1"
	if err := os.MkdirAll(left+"/root/a/b", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(left+"/root/a", 0); err != nil {
		t.Fatal(err)
	}
	mine, err := s.Begin(t.Context(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what a killed build left is there: %v", err)
	}
	other, err := s.Begin(t.Context(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(mine.Dir); err != nil {
		t.Errorf("the draft of a build that goes on is gone: %v", err)
	}
	if err := errors.Join(mine.Discard(), other.Discard()); err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadDir(s.Dir())
	if err != nil || len(list) != 1 {
		t.Errorf("left in the store: %v, %v", list, err)
	}
}

func TestOpen_RefusesWhatIsNotBaileys(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(t *testing.T, folder string){
		"no manifest": func(t *testing.T, folder string) { remove(t, folder+"/env.json") },
		"a link for manifest": func(t *testing.T, folder string) {
			move(t, folder+"/env.json", folder+"/x")
			link(t, "x", folder+"/env.json")
		},
		"a link for tree":   func(t *testing.T, folder string) { move(t, folder+"/root", folder+"/x"); link(t, "x", folder+"/root") },
		"a file for tree":   func(t *testing.T, folder string) { move(t, folder+"/root", folder+"/x"); write(t, folder+"/root", "") },
		"a broken manifest": func(t *testing.T, folder string) { write(t, folder+"/env.json", "{") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := store(t)
			put(t, s, "web", "x")
			if e, err := s.Open("web"); err != nil { // the twin
				t.Fatal(err)
			} else if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			spoil(t, s.Dir()+"/web")
			if _, err := s.Open("web"); bailey.KindOf(err) != bailey.Invalid {
				t.Errorf("opened: %v", err)
			}
			if list := s.List(); len(list) != 1 || list[0].Err == nil {
				t.Errorf("listed as %+v", list)
			}
			if err := s.Remove(t.Context(), "web"); err != nil {
				t.Errorf("it cannot be removed: %v", err)
			}
		})
	}
	s, dir := store(t)
	put(t, s, "web", "x")
	if _, err := environment.In(dir, os.Getuid()+1).Open("web"); bailey.KindOf(err) != bailey.Invalid {
		t.Errorf("another user's: %v", err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func move(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestEnvironment_In(t *testing.T) {
	t.Parallel()
	s, _ := store(t)
	put(t, s, "web", "x")
	e, err := s.Open("web")
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	e.Manifest.Folder = "sub"
	for _, c := range []struct {
		exists bool
		want   string
	}{{true, "/src/repo/sub"}, {false, "/src/repo"}} {
		u := e.In("/src/repo", func(path string) bool { return c.exists && path == "/src/repo/sub" })
		if diff := cmp.Diff([]bailey.Link{{Path: environment.RepoPath, Target: c.want}}, u.Links); diff != "" {
			t.Error(diff)
		}
		if got := u.Env[len(u.Env)-1]; got != "PYTHONPATH="+c.want+"/src" {
			t.Errorf("PYTHONPATH: %s", got)
		}
		if len(u.Mounts) != 1 || u.Mounts[0].Writable || u.Mounts[0].Target != environment.MountPath || u.Mounts[0].Is == (bailey.FileID{}) {
			t.Errorf("mounts: %+v", u.Mounts)
		}
	}
}
