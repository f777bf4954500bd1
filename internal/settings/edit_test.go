package settings_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/settings"
)

// A rule is written into whatever layout the file has, and the rest stays to
// the byte.
func TestAddRule_KeepsTheFile(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ old, want string }{
		"none":                {"", "net:\n  allow:\n    - new.test:443 # c\n"},
		"comments alone":      {"# mine\n", "# mine\nnet:\n  allow:\n    - new.test:443 # c\n"},
		"no end of line":      {"net:\n  allow:\n  - a.test", "net:\n  allow:\n  - new.test:443 # c\n  - a.test"},
		"block":               {"net:\n  allow: # hosts\n    # the first\n    - a.test # why\n\n    - b.test\n", "net:\n  allow: # hosts\n    - new.test:443 # c\n    # the first\n    - a.test # why\n\n    - b.test\n"},
		"block, not indented": {"net:\n  deny: [x.test]\n  allow:\n  - host: a.test\n    why: >\n      long\n      text\n", "net:\n  deny: [x.test]\n  allow:\n  - new.test:443 # c\n  - host: a.test\n    why: >\n      long\n      text\n"},
		"no list":             {"net:\n    # mode\n    deny: [x.test] # d\n", "net:\n    allow:\n      - new.test:443 # c\n    # mode\n    deny: [x.test] # d\n"},
		"brackets":            {"net:\n  allow: [a.test, b.test] # two\n", "net:\n  # c\n  allow: [new.test:443, a.test, b.test] # two\n"},
		"brackets, lines":     {"net:\n  allow: [\n    a.test,\n  ]\n", "net:\n  # c\n  allow: [new.test:443, \n    a.test,\n  ]\n"},
		"empty brackets":      {"net:\n  allow: []\n", "net:\n  # c\n  allow: [new.test:443]\n"},
		"braces":              {"net: {allow: [a.test], mode: allow}\n", "# c\nnet: {allow: [new.test:443, a.test], mode: allow}\n"},
		"empty braces":        {"net: {}\n", "# c\nnet: {allow: [new.test:443]}\n"},
		"braces, no list":     {"# é\nnet: {deny: [a.test]}\n", "# é\n# c\nnet: {allow: [new.test:443], deny: [a.test]}\n"},
		"there already":       {"net:\n  allow: [new.test:443]\n", "net:\n  allow: [new.test:443]\n"},
	} {
		p := settings.Place{ConfigDir: t.TempDir(), DataDir: t.TempDir(), Dir: t.TempDir()}
		if name != "none" {
			if err := os.WriteFile(p.UserFile(), []byte(c.old), 0o640); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.AddRule(settings.AllowList, "new.test:443", "c"); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := os.ReadFile(p.UserFile())
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %v\n%s\nwant:\n%s", name, err, got, c.want)
		}
		mode := os.FileMode(0o640)
		if name == "none" {
			mode = 0o600
		}
		if fi, err := os.Stat(p.UserFile()); err != nil || fi.Mode().Perm() != mode {
			t.Errorf("%s: mode %v, %v", name, fi.Mode(), err)
		}
	}
}

// What it cannot write into stays as it is, and the error says what to do.
func TestAddRule_LeavesWhatItCannotWrite(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{net: {allow: [a.test]}}\n":   "yourself",
		"net:\n  alow: [a.test]\n":     "config.yaml:2:3: unknown key",
		"net:\n  allow: &x [a.test]\n": "",
	} {
		p := settings.Place{ConfigDir: t.TempDir(), DataDir: t.TempDir(), Dir: t.TempDir()}
		if err := os.WriteFile(p.UserFile(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := p.AddRule(settings.AllowList, "*.new.test", "c")
		if err == nil || !strings.Contains(err.Error()+hintOf(err), want) {
			t.Errorf("%q: %v", text, err)
		}
		if got, _ := os.ReadFile(p.UserFile()); string(got) != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// Edits at once are all there, also by way of a link.
func TestAddRule_AtOnce(t *testing.T) {
	t.Parallel()
	p := settings.Place{ConfigDir: t.TempDir(), DataDir: t.TempDir(), Dir: t.TempDir()}
	kept := filepath.Join(t.TempDir(), "dotfiles.yaml")
	if err := os.WriteFile(kept, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(kept, p.UserFile()); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for _, host := range []string{"a.test", "*.b.test", "c.test:22", "1.2.3.4", "[2606:4700::1111]:443"} {
		all.Go(func() {
			if err := p.AddRule(settings.DenyList, host, "x"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	f, err := settings.ReadFile(kept)
	if err != nil || len(f.Net.Deny) != 5 {
		t.Errorf("%+v, %v", f, err)
	}
}

func hintOf(err error) string {
	if e, ok := errors.AsType[*bailey.Error](err); ok {
		return e.Hint
	}
	return ""
}
