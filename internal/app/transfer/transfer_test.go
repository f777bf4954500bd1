package transfer_test

import (
	"archive/tar"
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/app/transfer"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
)

// item is an entry of a hostile archive.
type item struct {
	kind byte
	name string
	text string // contents, or where it leads
	mode int64
}

func file(name string) item         { return item{tar.TypeReg, name, "text of " + name, 0o644} }
func dir(name string) item          { return item{tar.TypeDir, name + "/", "", 0o755} }
func link(name, target string) item { return item{tar.TypeSymlink, name, target, 0o777} }
func hard(name, target string) item { return item{tar.TypeLink, name, target, 0o644} }

func archive(t *testing.T, items ...item) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, i := range items {
		h := &tar.Header{Typeflag: i.kind, Name: i.name, Mode: i.mode, Format: tar.FormatPAX}
		switch i.kind {
		case tar.TypeReg:
			h.Size = int64(len(i.text))
		default:
			h.Linkname = i.text
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if i.kind == tar.TypeReg {
			if _, err := w.Write([]byte(i.text)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func limits() transfer.Limits { return transfer.Limits{Bytes: 1 << 20, Files: 1000} }

// world is a folder to copy into, and beside it what nobody may touch.
type world struct {
	base, into string
	dir        *os.File
}

func newWorld(t *testing.T) *world {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{base: base, into: filepath.Join(base, "into")}
	if err := os.Mkdir(w.into, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(base, "secret"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if w.dir, err = beneath.Dir(w.into); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.dir.Close() })
	return w
}

// untouched fails the test if something is not as newWorld made it, or a
// staging folder is left.
func (w *world) untouched(t *testing.T) {
	t.Helper()
	entries, err := os.ReadDir(w.base)
	if err != nil || len(entries) != 2 {
		t.Errorf("beside the place there are %v, %v", entries, err)
	}
	if b, err := os.ReadFile(filepath.Join(w.base, "secret")); err != nil || string(b) != "mine" {
		t.Errorf("what is beside the place is %q, %v", b, err)
	}
	left, _ := filepath.Glob(filepath.Join(w.into, ".bailey-cp-*"))
	if len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func (w *world) names(t *testing.T) string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(w.into, func(path string, _ fs.DirEntry, err error) error {
		if path != w.into && err == nil {
			names = append(names, strings.TrimPrefix(path, w.into+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(names, " ")
}

// TestISO12_HostileArchives: nothing that a sandbox sends leads out of the place.
func TestISO12_HostileArchives(t *testing.T) {
	many := []item{dir("o")}
	for range 1001 {
		many = append(many, dir("o/d"))
	}
	deep := "o" + strings.Repeat("/d", 300)
	for name, items := range map[string][]item{
		"dots":                     {dir("o"), file("o/../../secret")},
		"dots at the end":          {dir("o"), dir("o/..")},
		"absolute":                 {file("/tmp/evil")},
		"another root":             {dir("o"), file("elsewhere/f")},
		"a root that begins alike": {dir("o"), file("other")},
		"no name":                  {dir("o"), file("")},
		"through a link":           {dir("o"), dir("o/d"), link("o/l", "d"), file("o/l/f")},
		"over a link":              {dir("o"), link("o/l", "f"), file("o/l")},
		"folder over a link":       {dir("o"), dir("o/d"), link("o/l", "d"), dir("o/l")},
		"a name twice":             {dir("o"), file("o/f"), file("o/f")},
		"a name twice, hard link":  {dir("o"), file("o/f"), hard("o/f", "o/f")},
		"hard link out":            {dir("o"), hard("o/h", "../secret")},
		"hard link, absolute":      {dir("o"), hard("o/h", "/etc/passwd")},
		"hard link to a link":      {dir("o"), file("o/f"), link("o/l", "f"), hard("o/h", "o/l")},
		"hard link through a link": {dir("o"), dir("o/d"), file("o/d/f"), link("o/l", "d"), hard("o/h", "o/l/f")},
		"hard link to what is not": {dir("o"), hard("o/h", "o/none")},
		"many entries":             many,
		"too deep":                 {dir(deep)},
		"too much":                 {dir("o"), {tar.TypeReg, "o/f", strings.Repeat("x", 1<<20+1), 0o644}},
		"file is a folder as well": {dir("o"), file("o/f"), file("o/f/g")},
		"a long name":              {dir("o"), file("o/" + strings.Repeat("n", 5000))},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			_, err := transfer.Take(w.dir, bytes.NewReader(archive(t, items...)), "o", "o", limits())
			if err == nil {
				t.Errorf("it was taken: %s", w.names(t))
			}
			if got := w.names(t); got != "" {
				t.Errorf("something is there: %s", got)
			}
			w.untouched(t)
		})
	}
	t.Run("a size that is a lie", func(t *testing.T) {
		w := newWorld(t)
		b := archive(t, dir("o"), item{tar.TypeReg, "o/f", strings.Repeat("x", 4096), 0o644})
		if _, err := transfer.Take(w.dir, bytes.NewReader(b[:len(b)-3000]), "o", "o", limits()); err == nil {
			t.Error("it was taken")
		}
		w.untouched(t)
	})
}

// TestISO12_WhatIsLeftOut: links that lead out, devices and the like are not
// made, and are told; the rest is copied. It is the positive twin as well.
func TestISO12_WhatIsLeftOut(t *testing.T) {
	w := newWorld(t)
	items := []item{
		dir("o"), file("o/f"), dir("o/d"), link("o/d/up", "../f"), link("o/in", "./d/up"),
		link("o/out", "../secret"), link("o/abs", "/etc/passwd"), link("o/zig", "d/../../secret"), link("o/far", "../../../etc"),
		{tar.TypeFifo, "o/p", "", 0o644},
		{tar.TypeChar, "o/c", "", 0o644},
		{tar.TypeBlock, "o/b", "", 0o644},
		hard("o/h", "o/f"),
		{tar.TypeReg, "o/su", "x", 0o6755},
		{tar.TypeDir, "o/st/", "", 0o1777},
		file("o/F"), file("o/.envrc"), file("o/src/Makefile"),
	}
	report, err := transfer.Take(w.dir, bytes.NewReader(archive(t, items...)), "o", "named", limits())
	if err != nil {
		t.Fatal(err)
	}
	const want = "named named/.envrc named/F named/d named/d/up named/f named/h named/in named/src named/src/Makefile named/st named/su"
	if got := w.names(t); got != want {
		t.Errorf("there are %s", got)
	}
	if len(report.Skipped) != 7 {
		t.Errorf("left out: %q", report.Skipped)
	}
	var planted []string
	for _, p := range report.Planted {
		planted = append(planted, p.Path+" "+p.Kind)
	}
	if got := strings.Join(planted, ", "); got != ".envrc direnv, src/Makefile build" {
		t.Errorf("pointed out: %s", got)
	}
	for name, mode := range map[string]fs.FileMode{"su": 0o755, "st": fs.ModeDir | 0o777} {
		fi, err := os.Lstat(filepath.Join(w.into, "named", name))
		if err != nil || fi.Mode()&^0o022 != mode&^0o022 {
			t.Errorf("%s: %v, %v", name, fi.Mode(), err)
		}
	}
	w.untouched(t)

	t.Run("behind a link that was left out", func(t *testing.T) {
		w := newWorld(t)
		_, err := transfer.Take(w.dir, bytes.NewReader(archive(t, dir("o"), link("o/l", "../.."), file("o/l/secret"))), "o", "o", limits())
		if got := w.names(t); err != nil || got != "o o/l o/l/secret" { // a folder of the copy's own
			t.Errorf("%s, %v", got, err)
		}
		w.untouched(t)
	})
}

// TestISO12_Place: what is there is merged with and replaced, and its links are
// not followed.
func TestISO12_Place(t *testing.T) {
	w := newWorld(t)
	for _, d := range []string{"o/keep", "o/same"} {
		if err := os.MkdirAll(filepath.Join(w.into, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"o/f": "../../secret", "o/l": ".."} { // planted by the sandbox
		if err := os.Symlink(target, filepath.Join(w.into, name)); err != nil {
			t.Fatal(err)
		}
	}
	take := func(items ...item) error {
		_, err := transfer.Take(w.dir, bytes.NewReader(archive(t, items...)), "o", "o", limits())
		return err
	}
	if err := take(dir("o"), file("o/f"), dir("o/same"), file("o/same/g")); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(w.into, "o/f")); err != nil || string(b) != "text of o/f" {
		t.Errorf("%q, %v", b, err)
	}
	if err := take(dir("o"), dir("o/l"), file("o/l/secret")); bailey.KindOf(err) != bailey.Conflict {
		t.Errorf("a folder into a link: %v", err)
	}
	if err := take(dir("o"), file("o/keep")); bailey.KindOf(err) != bailey.Conflict {
		t.Errorf("a file over a folder: %v", err)
	}
	if got := w.names(t); got != "o o/f o/keep o/l o/same o/same/g" {
		t.Errorf("there are %s", got)
	}
	w.untouched(t)
}

func TestStaysInside(t *testing.T) {
	for _, c := range []struct {
		name, target string
		want         bool
	}{
		{"a", "b", true},
		{"a", "./b/c", true},
		{"d/a", "../b", true},
		{"d/e/a", "../../b", true},
		{"a", "..", false},
		{"d/a", "../..", false},
		{"a", "b/..", false},
		{"a", "/b", false},
		{"", "b", false},
		{"a", "", false},
		{"d/a", "../b/../../c", false},
		{"d/a", ".//../b", true},
	} {
		if got := transfer.StaysInside(c.name, c.target); got != c.want {
			t.Errorf("%s -> %s: %v", c.name, c.target, got)
		}
	}
}
