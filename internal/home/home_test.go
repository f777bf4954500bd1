package home_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/home"
)

func open(t *testing.T, s home.Store, name string) *home.Home {
	t.Helper()
	h, err := s.Open(name, &home.Meta{Agent: "pi"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return h
}

func files(data, name string) string { return filepath.Join(data, "homes", name, "files") }

// TestHome_WritesThroughNoLink: what a run has planted in a home leads no write
// of this side anywhere, and what is in the way is kept beside.
func TestHome_WritesThroughNoLink(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string]func(t *testing.T, in, out string) error{
		"the file is a link": func(_ *testing.T, in, out string) error {
			return errors.Join(os.MkdirAll(in+"/.a", 0o700), os.Symlink(out+"/victim", in+"/.a/settings.json"))
		},
		"its folder is a link": func(_ *testing.T, in, out string) error { return os.Symlink(out, in+"/.a") },
		"its folder is a file": func(_ *testing.T, in, _ string) error { return os.WriteFile(in+"/.a", nil, 0o600) },
		"the file is a folder": func(_ *testing.T, in, _ string) error { return os.MkdirAll(in+"/.a/settings.json/x", 0o700) },
		"the name beside is a link": func(_ *testing.T, in, out string) error {
			return errors.Join(os.MkdirAll(in+"/.a", 0o700), os.Symlink(out+"/victim", in+"/.a/.settings.json.new"))
		},
		"the name beside is a folder": func(_ *testing.T, in, _ string) error { return os.MkdirAll(in+"/.a/.settings.json.new/x", 0o700) },
		"a hard link": func(_ *testing.T, in, out string) error {
			return errors.Join(os.MkdirAll(in+"/.a", 0o700), os.Link(out+"/victim", in+"/.a/settings.json"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data, out := t.TempDir(), t.TempDir()
			if err := os.WriteFile(out+"/victim", []byte("as it was"), 0o600); err != nil {
				t.Fatal(err)
			}
			h := open(t, home.In(data), "one")
			in := files(data, "one")
			if err := plant(t, in, out); err != nil {
				t.Fatal(err)
			}
			if err := h.Write(home.File{Path: ".a/settings.json", Mode: 0o600, Data: []byte("new"), Record: []byte("new")}); err != nil {
				t.Fatal(err)
			}
			if b, err := os.ReadFile(out + "/victim"); err != nil || string(b) != "as it was" {
				t.Errorf("outside: %q %v", b, err)
			}
			if list, _ := os.ReadDir(out); len(list) != 1 {
				t.Errorf("outside: %v", list)
			}
			fi, err := os.Lstat(in + "/.a/settings.json")
			if err != nil || !fi.Mode().IsRegular() {
				t.Fatalf("%v %v", fi, err)
			}
			if got := h.Read(".a/settings.json", 100); string(got) != "new" {
				t.Errorf("%q", got)
			}
			if got := h.Written(".a/settings.json"); string(got) != "new" {
				t.Errorf("%q", got)
			}
		})
	}
}

func TestStore_HoldsWhatIsInUse(t *testing.T) {
	t.Parallel()
	s := home.In(t.TempDir())
	if _, err := s.Open("none", nil); bailey.KindOf(err) != bailey.NotFound {
		t.Error(err)
	}
	one := open(t, s, "one")
	other := open(t, s, "one")
	if one.Shared || !other.Shared {
		t.Errorf("shared: %v, %v", one.Shared, other.Shared)
	}
	if err := s.Remove("one"); bailey.KindOf(err) != bailey.Conflict {
		t.Errorf("removed while in use: %v", err)
	}
	if err := errors.Join(one.Close(), other.Close(), s.Remove("one")); err != nil {
		t.Error(err)
	}
	if got := s.Names(); len(got) != 0 {
		t.Errorf("%v", got)
	}
	if err := s.Remove("one"); bailey.KindOf(err) != bailey.NotFound {
		t.Error(err)
	}
	for _, bad := range []string{"", "..", "a/b", ".x", "-x", "A", strings.Repeat("a", 65)} {
		if _, err := s.Open(bad, &home.Meta{}); bailey.KindOf(err) != bailey.Invalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestHome_Logins(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	h := open(t, home.In(data), "one")
	in := files(data, "one")
	put := func(rel, text string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(in, rel)), 0o700), os.WriteFile(filepath.Join(in, rel), []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	put(".pi/agent/auth.json", "{}")
	put(".npmrc", "fund=false\n")
	put(".docker/config.json", `{"auths": {}}`)
	put(".codex/auth.json", `{"OPENAI_API_KEY": null}`)
	if got := h.Logins(); len(got) != 0 {
		t.Errorf("%v", got)
	}
	put(".codex/auth.json", `{"tokens": {"access_token": "canary"}}`)
	put(".claude/.credentials.json", `{"claudeAiOauth": {}}`)
	if err := errors.Join(os.MkdirAll(in+"/.gemini", 0o700), os.Symlink(in+"/.codex/auth.json", in+"/.gemini/oauth_creds.json")); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range h.Logins() {
		got = append(got, l.Of)
	}
	if !slices.Equal(got, []string{"claude", "codex"}) {
		t.Errorf("%v", got)
	}
	put("work.txt", "mine")
	if err := errors.Join(os.Link(in+"/.codex/auth.json", in+"/harmless.txt"), os.Symlink(".codex/auth.json", in+"/pointer")); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	x, err := h.Export(&b, false, 1<<30)
	if err != nil || strings.Contains(b.String(), "canary") || !strings.Contains(b.String(), "mine") || len(x.LeftOut) != 3 {
		t.Errorf("%+v %v", x, err)
	}
	b.Reset()
	if _, err := h.Export(&b, true, 1<<30); err != nil || !strings.Contains(b.String(), "canary") {
		t.Errorf("asked for, and left out: %v", err)
	}
	if n, size, err := home.In(data).Import("two", &b, home.Bounds{Bytes: 1 << 20, Files: 100}, time.Now()); err != nil || n == 0 || size == 0 {
		t.Fatal(n, size, err)
	}
	two := open(t, home.In(data), "two")
	if len(two.Logins()) != 2 || string(two.Read("work.txt", 10)) != "mine" {
		t.Errorf("%v", two.Logins())
	}
}

func TestStore_ImportRefuses(t *testing.T) {
	t.Parallel()
	type entry struct {
		name, link, text string
		kind             byte
	}
	for name, c := range map[string][]entry{
		"dots":             {{name: "files/../../../evil", kind: tar.TypeReg, text: "x"}},
		"an absolute name": {{name: "/evil", kind: tar.TypeReg, text: "x"}},
		"beside":           {{name: "home.json", kind: tar.TypeReg, text: "{}"}},
		"through a link":   {{name: "files/a", kind: tar.TypeSymlink, link: "OUT"}, {name: "files/a/evil", kind: tar.TypeReg, text: "x"}},
		"over a link":      {{name: "files/a", kind: tar.TypeSymlink, link: "OUT/victim"}, {name: "files/a", kind: tar.TypeReg, text: "x"}},
		"a hard link":      {{name: "files/a", kind: tar.TypeLink, link: "OUT/victim"}},
		"a device":         {{name: "files/a", kind: tar.TypeChar}},
		"a pipe":           {{name: "files/a", kind: tar.TypeFifo}},
		"too large":        {{name: "files/a", kind: tar.TypeReg, text: strings.Repeat("x", 2000)}},
		"too many":         {{name: "files/1", kind: tar.TypeDir}, {name: "files/2", kind: tar.TypeDir}, {name: "files/3", kind: tar.TypeDir}, {name: "files/4", kind: tar.TypeDir}},
		"folders unnamed":  {{name: "files/1/2/3/4", kind: tar.TypeReg, text: "x"}},
		"the home a link":  {{name: "files", kind: tar.TypeSymlink, link: "OUT"}},
		"twice":            {{name: "files/a", kind: tar.TypeReg, text: "x"}, {name: "files/a", kind: tar.TypeReg, text: "y"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data, out := t.TempDir(), t.TempDir()
			if err := os.WriteFile(out+"/victim", []byte("as it was"), 0o600); err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			w := tar.NewWriter(&b)
			for _, e := range c {
				if err := w.WriteHeader(&tar.Header{Name: e.name, Typeflag: e.kind, Linkname: strings.ReplaceAll(e.link, "OUT", out), Size: int64(len(e.text)), Mode: 0o4755}); err != nil {
					t.Fatal(err)
				}
				if _, err := io.WriteString(w, e.text); err != nil {
					t.Fatal(err)
				}
			}
			_ = w.Close()
			s := home.In(data)
			if _, _, err := s.Import("one", &b, home.Bounds{Bytes: 1000, Files: 3}, time.Now()); err == nil {
				t.Error("it was taken")
			}
			if got, _ := os.ReadDir(filepath.Join(data, "homes")); len(got) != 0 {
				t.Errorf("left behind: %v", got)
			}
			if list, _ := os.ReadDir(out); len(list) != 1 {
				t.Errorf("outside: %v", list)
			}
			if text, _ := os.ReadFile(out + "/victim"); string(text) != "as it was" {
				t.Errorf("outside: %q", text)
			}
		})
	}
}

// TestHome_RunsStartAtOnce: each of many runs that start in one home writes all
// that it wants there.
func TestHome_RunsStartAtOnce(t *testing.T) {
	t.Parallel()
	store := home.In(t.TempDir())
	var all errgroup.Group
	for range 20 {
		all.Go(func() error {
			h, err := store.Open("one", &home.Meta{Agent: "pi"})
			if err != nil {
				return err
			}
			done, err := h.Begin(time.Now())
			if err != nil {
				return errors.Join(err, h.Close())
			}
			err = h.Write(home.File{Path: ".pi/settings.json", Mode: 0o600, Data: []byte("{}"), Record: []byte("{}")})
			done()
			return errors.Join(err, h.Close())
		})
	}
	if err := all.Wait(); err != nil {
		t.Error(err)
	}
}

// TestHome_Aside: a file is moved out of an agent's way however it is reached:
// an agent follows a link to it.
func TestHome_Aside(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		make func(files string) error
		gone string // what is not there any more, by its own name
	}{
		"a file": {func(dir string) error {
			return errors.Join(os.MkdirAll(dir+"/a/b", 0o700), os.WriteFile(dir+"/a/b/c", []byte("x"), 0o600))
		}, "a/b/c"},
		"a link": {func(dir string) error {
			return errors.Join(os.MkdirAll(dir+"/a/b", 0o700), os.Symlink("/x", dir+"/a/b/c"))
		}, "a/b/c"},
		"behind a link": {func(dir string) error {
			return errors.Join(os.MkdirAll(dir+"/x/b", 0o700), os.WriteFile(dir+"/x/b/c", []byte("x"), 0o600), os.Symlink("x", dir+"/a"))
		}, "a"},
		"behind another": {func(dir string) error {
			return errors.Join(os.MkdirAll(dir+"/a", 0o700), os.Symlink("/home/agent/y", dir+"/a/b"))
		}, "a/b"},
	} {
		data := t.TempDir()
		h := open(t, home.In(data), "one")
		files := filepath.Join(data, "homes", "one", "files")
		if h.Has("a/b/c") || h.Aside("a/b/c") != nil {
			t.Errorf("%s: it is there before it is", name)
		}
		if err := c.make(files); err != nil {
			t.Fatal(err)
		}
		if !h.Has("a/b/c") {
			t.Errorf("%s: it is not seen", name)
		}
		if err := h.Aside("a/b/c"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Lstat(filepath.Join(files, c.gone)); !errors.Is(err, fs.ErrNotExist) || h.Has("a/b/c") {
			t.Errorf("%s: it is still there", name)
		}
		if kept, _ := filepath.Glob(filepath.Join(files, c.gone+".moved-by-bailey-*")); len(kept) != 1 {
			t.Errorf("%s: it is kept as %v", name, kept)
		}
	}
}

// TestHome_IsPassable: an agent that takes its own rights to its home, or to a
// folder there that bailey writes to, keeps no later run out.
func TestHome_IsPassable(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s := home.In(data)
	h := open(t, s, "h")
	if err := h.Folder("a/b"); err != nil {
		t.Fatal(err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	at := files(data, "h")
	for _, dir := range []string{filepath.Join(at, "a"), at} {
		if err := os.Chmod(dir, 0); err != nil {
			t.Fatal(err)
		}
	}
	h = open(t, s, "h")
	if err := h.Write(home.File{Path: "a/b/c", Mode: 0o600, Data: []byte("new")}); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{at, filepath.Join(at, "a")} {
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", dir, info.Mode(), err)
		}
	}
}

// TestStore_ImportSweeps: what an import that was killed has left goes with
// the next one, and what one is working on does not.
func TestStore_ImportSweeps(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s := home.In(data)
	_ = open(t, s, "there")
	drafts := filepath.Join(data, "homes")
	for name, age := range map[string]time.Duration{".draft-old": 25 * time.Hour, ".draft-new": 23 * time.Hour} {
		at := filepath.Join(drafts, name)
		if err := os.MkdirAll(filepath.Join(at, "files/a/b"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(at, time.Time{}, time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	_ = tar.NewWriter(&b).Close()
	if _, _, err := s.Import("one", &b, home.Bounds{Bytes: 1000, Files: 3}, time.Now()); err != nil {
		t.Fatal(err)
	}
	var names []string
	list, err := os.ReadDir(drafts)
	for _, e := range list {
		names = append(names, e.Name())
	}
	if want := []string{".draft-new", "one", "there"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("%q, %v", names, err)
	}
}
