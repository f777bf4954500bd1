package vault_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/secret"
	"github.com/bailey-dev/bailey/internal/vault"
)

func TestOpen_OfNothingMakesNothing(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	v := mustOpen(t, p)
	if len(v.List()) != 0 || v.KeyID() != "" || v.Mark() != (vault.Mark{}) {
		t.Error("it is not empty")
	}
	if _, _, err := v.Get("demo"); bailey.KindOf(err) != bailey.NotFound {
		t.Errorf("get: %v", err)
	}
	for _, dir := range []string{p.DataDir, p.StateDir, p.ConfigDir} {
		if exists(dir) {
			t.Errorf("%s was made", dir)
		}
	}
}

func TestVault_GivesWhatItWasGiven(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	mustAdd(t, p, "b", "a")
	holds(t, p, "a", "b")
	v := mustOpen(t, p)
	d, err := v.Find("a")
	if err != nil || !d.ID.Valid() || d.Revision != 1 || d.Owner != fmt.Sprintf("uid:%d", os.Getuid()) || !d.Created.Equal(now) || d.Var != "A" {
		t.Errorf("%+v, %v", d, err)
	}
	want := definition("a", "a.example.com").Rules
	if diff := cmp.Diff(want, d.Rules); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"a", "b"}, p.Names()); diff != "" {
		t.Error(diff)
	}
	for path, mode := range map[string]fs.FileMode{
		storeOf(p): 0o600, markOf(p): 0o600, keyOf(p): 0o600,
		filepath.Dir(storeOf(p)): 0o700, filepath.Dir(markOf(p)): 0o700,
	} {
		if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", path, fi.Mode(), err)
		}
	}
}

func TestEdit_AddReplaceRemove(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	mustAdd(t, p, "a", "b")
	before := mustOpen(t, p)
	was, _ := before.Find("a")
	if err := add(p, "c", "a"); bailey.KindOf(err) != bailey.Conflict {
		t.Errorf("a name that is taken: %v", err)
	}
	holds(t, p, "a", "b") // and c was not kept by half
	err := vault.Update(p, now.AddDate(0, 0, 1), func(e *vault.Edit) error {
		d, _ := e.Find("a")
		d.ID, d.Created, d.Revision = secret.NewID(), now.AddDate(1, 0, 0), 99 // not theirs to say
		return errors.Join(e.Replace(d, hidden("another-value")), e.Remove("b"))
	})
	if err != nil {
		t.Fatal(err)
	}
	v := mustOpen(t, p)
	d, value, err := v.Get("a")
	if err != nil || string(value.Reveal()) != "another-value" || d.ID != was.ID || d.Revision != 2 || !d.Created.Equal(was.Created) || d.Updated.Equal(was.Updated) {
		t.Errorf("%+v, %v", d, err)
	}
	if len(v.List()) != 1 {
		t.Errorf("%d secrets", len(v.List()))
	}
	if _, value, err := before.Get("a"); err != nil || string(value.Reveal()) != valueOf("a") {
		t.Errorf("a vault that was opened before changed: %v", err)
	}
	for name, f := range map[string]func(*vault.Edit) error{
		"replace": func(e *vault.Edit) error { return e.Replace(definition("z", "z.example.com"), hidden("another-value")) },
		"remove":  func(e *vault.Edit) error { return e.Remove("z") },
	} {
		if err := vault.Update(p, now, f); bailey.KindOf(err) != bailey.NotFound {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEdit_RefusesWhatCannotBeKept(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for name, change := range map[string]func(*secret.Definition){
		"no name":             func(d *secret.Definition) { d.Name = "" },
		"no variable":         func(d *secret.Definition) { d.Var = "" },
		"no rule":             func(d *secret.Definition) { d.Rules = nil },
		"a rule and gateway":  func(d *secret.Definition) { d.Gateway = true },
		"a rule without host": func(d *secret.Definition) { d.Rules[0].Hosts = nil },
		"no place":            func(d *secret.Definition) { d.Rules[0].Place = secret.Place{} },
	} {
		d := definition("a", "a.example.com")
		change(&d)
		if err := vault.Update(p, now, func(e *vault.Edit) error { return e.Add(d, hidden(valueOf("a"))) }); bailey.KindOf(err) != bailey.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if exists(storeOf(p)) {
		t.Error("something was kept")
	}
	mustAdd(t, p, "a")
	holds(t, p, "a")
}

// TestUpdate_ManyAtOnce: none of them is lost.
func TestUpdate_ManyAtOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	var wait sync.WaitGroup
	var names []string
	for i := range 12 {
		name := fmt.Sprintf("s%02d", i)
		names = append(names, name)
		wait.Go(func() {
			if err := add(p, name); err != nil {
				t.Error(err)
			}
			if _, err := vault.Open(p); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	holds(t, p, names...)
}

func TestMark_ChangesWithEveryChange(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	if p.Mark() != (vault.Mark{}) {
		t.Error("a mark of nothing")
	}
	seen := map[vault.Mark]bool{{}: true}
	for i := range 20 {
		mustAdd(t, p, fmt.Sprintf("s%d", i))
		m := p.Mark()
		if seen[m] || m != p.Mark() || m != mustOpen(t, p).Mark() {
			t.Errorf("%d: %v", i, m)
		}
		seen[m] = true
	}
}

func TestReopen_SeesWhatIsNew(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	mustAdd(t, p, "a")
	v := mustOpen(t, p)
	mustAdd(t, p, "b")
	if _, err := vault.Rekey(p, vault.KeyForm{}); err != nil {
		t.Fatal(err)
	}
	v, err := v.Reopen()
	if err != nil {
		t.Fatal(err)
	}
	if _, value, err := v.Get("b"); err != nil || string(value.Reveal()) != valueOf("b") {
		t.Errorf("%v", err)
	}
	v.Close()
	if _, _, err := v.Get("b"); err == nil {
		t.Error("a closed vault opens a value")
	}
}

// TestStore_HoldsNoValue: neither as it is nor encoded.
func TestStore_HoldsNoValue(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	mustAdd(t, p, "a")
	root := filepath.Dir(p.DataDir)
	files := 0
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		files++
		if data := read(t, path); bytes.Contains(data, []byte("canary")) {
			t.Errorf("%s holds the value", path)
		}
		return nil
	})
	if err != nil || files != 3 {
		t.Errorf("%d files, %v", files, err)
	}
}

// TestOpen_RefusesWhatOthersCanTouch, each with the way to mend it; the twin is
// the mended place.
func TestOpen_RefusesWhatOthersCanTouch(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		harm, mend func(p vault.Place) error
		hint       string
	}{
		"a folder that others enter": {
			func(p vault.Place) error { return os.Chmod(filepath.Dir(storeOf(p)), 0o750) },
			func(p vault.Place) error { return os.Chmod(filepath.Dir(storeOf(p)), 0o700) }, "chmod 700 ",
		},
		"a store that others read": {
			func(p vault.Place) error { return os.Chmod(storeOf(p), 0o640) },
			func(p vault.Place) error { return os.Chmod(storeOf(p), 0o600) }, "chmod 600 ",
		},
		"a key that others read": {
			func(p vault.Place) error { return os.Chmod(keyOf(p), 0o604) },
			func(p vault.Place) error { return os.Chmod(keyOf(p), 0o600) }, "chmod 600 ",
		},
		"a mark that others write": {
			func(p vault.Place) error { return os.Chmod(markOf(p), 0o620) },
			func(p vault.Place) error { return os.Chmod(markOf(p), 0o600) }, "chmod 600 ",
		},
		"a key's folder that others write to": {
			func(p vault.Place) error { return os.Chmod(p.ConfigDir, 0o777) },
			func(p vault.Place) error { return os.Chmod(p.ConfigDir, 0o755) }, "chmod 700 ",
		},
		"a linked store": {
			func(p vault.Place) error {
				return errors.Join(os.Rename(storeOf(p), storeOf(p)+"2"), os.Symlink("store2", storeOf(p)))
			},
			func(p vault.Place) error { return os.Rename(storeOf(p)+"2", storeOf(p)) }, "put the file itself there",
		},
		"a linked folder": {
			func(p vault.Place) error {
				dir := filepath.Dir(storeOf(p))
				return errors.Join(os.Rename(dir, dir+"2"), os.Symlink("vault2", dir))
			},
			func(p vault.Place) error {
				dir := filepath.Dir(storeOf(p))
				return errors.Join(os.Remove(dir), os.Rename(dir+"2", dir))
			}, "put the folder itself there",
		},
		"a linked key": {
			func(p vault.Place) error {
				return errors.Join(os.Rename(keyOf(p), keyOf(p)+"2"), os.Symlink("vault.key2", keyOf(p)))
			},
			func(p vault.Place) error { return os.Rename(keyOf(p)+"2", keyOf(p)) }, "put the file itself there",
		},
	} {
		p := newPlace(t)
		mustAdd(t, p, "a")
		if err := c.harm(p); err != nil {
			t.Fatal(err)
		}
		for what, f := range map[string]func() error{
			"open":   func() error { _, err := vault.Open(p); return err },
			"update": func() error { return add(p, "b") },
		} {
			err := f()
			e, ok := errors.AsType[*bailey.Error](err)
			if !ok || e.Kind != bailey.Forbidden || !strings.Contains(e.Hint, c.hint) {
				t.Errorf("%s, %s: %v (hint %v)", name, what, err, e)
			}
		}
		if err := c.mend(p); err != nil {
			t.Fatal(err)
		}
		holds(t, p, "a")
	}
}

// TestOpen_RefusesOthersFiles needs somebody else.
func TestOpen_RefusesOthersFiles(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		return // spec has the case of an ordinary user
	}
	for _, path := range []func(vault.Place) string{storeOf, markOf, keyOf, func(p vault.Place) string { return filepath.Dir(storeOf(p)) }} {
		p := newPlace(t)
		mustAdd(t, p, "a")
		if err := os.Chown(path(p), 4242, 4242); err != nil {
			t.Fatal(err)
		}
		if _, err := vault.Open(p); bailey.KindOf(err) != bailey.Forbidden || !strings.Contains(err.Error(), "does not belong to user 0") {
			t.Errorf("%s: %v", path(p), err)
		}
		if err := os.Chown(path(p), 0, 0); err != nil {
			t.Fatal(err)
		}
		holds(t, p, "a")
	}
}

func TestReadValue(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat("x", vault.MaxValue)
	for _, good := range []string{"12345678", "with inner blank", "umlaut-\u00e4\u00f6", "latin1-\xe4\xf6", longest, `!"#$%&'()*+,/:;<=>?@[\]^{|}~`} {
		for _, end := range []string{"", "\n"} {
			if got, err := vault.ReadValue([]byte(good + end)); err != nil || string(got.Reveal()) != good {
				t.Errorf("%.20q with %q: %v", good, end, err)
			}
		}
	}
	for what, bad := range map[string]string{
		"empty": "", "a newline alone": "\n", "two newlines": "canary-1\n\n", "lines": "canary-1\ncanary-2", "CR": "canary-1\r", "CRLF": "canary-1\r\n",
		"inner CR": "can\rary-1", "NUL": "canary\x00-1", "escape": "canary\x1b[0m", "tab": "canary\t-1", "delete": "canary-\x7f1",
		"leading blank": " canary-1", "trailing blank": "canary-1 ", "trailing blank and newline": "canary-1 \n", "short": "canary1", "long": longest + "x",
	} {
		got, err := vault.ReadValue([]byte(bad))
		e, ok := errors.AsType[*bailey.Error](err)
		if !ok || e.Kind != bailey.Invalid || got.Len() != 0 || strings.Contains(e.Message+e.Hint, "canary") || strings.Contains(e.Message+e.Hint, "xxx") {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := vault.Checked(hidden(bad)); err == nil {
			t.Errorf("%s, hidden: taken", what)
		}
	}
}

// BenchmarkOpen is on the path of a start that is lent a secret.
func BenchmarkOpen(b *testing.B) {
	p := placeIn(b.TempDir())
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprintf("s%d", i))
	}
	if err := add(p, names...); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		v, err := vault.Open(p)
		if err != nil {
			b.Fatal(err)
		}
		if _, _, err := v.Get("s7"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkMark is done four times a second while a sandbox runs.
func BenchmarkMark(b *testing.B) {
	p := placeIn(b.TempDir())
	if err := add(p, "a"); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if p.Mark() == (vault.Mark{}) {
			b.Fatal("none")
		}
	}
}
