package vault_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bailey-dev/bailey/internal/seal"
	"github.com/bailey-dev/bailey/internal/secret"
	"github.com/bailey-dev/bailey/internal/vault"
)

// victim is the variable by which the test's program becomes one that kills
// itself while it changes a vault: FOLDER, what it does, and at which step.
const victim = "BAILEY_TEST_VICTIM"

func TestMain(m *testing.M) {
	if job := os.Getenv(victim); job != "" {
		os.Exit(beVictim(job))
	}
	os.Exit(m.Run())
}

// beVictim changes a vault and kills itself before a step, as nothing can be
// tidied up then.
func beVictim(job string) int {
	parts := strings.Split(job, "|")
	last, _ := strconv.Atoi(parts[2])
	n := 0
	p := vault.StopAt(placeIn(parts[0]), func(string) error {
		if n == last {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		n++
		return nil
	})
	if err := changes[parts[1]](p); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// now is the time of the tests.
var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func placeIn(dir string) vault.Place {
	return vault.Place{
		DataDir: filepath.Join(dir, "data"), StateDir: filepath.Join(dir, "state"), ConfigDir: filepath.Join(dir, "config"),
		Env: func(string) string { return "" },
	}
}

func newPlace(t *testing.T) vault.Place {
	t.Helper()
	return placeIn(t.TempDir())
}

// with has the environment of a place say something.
func with(p vault.Place, name, value string) vault.Place {
	before := p.Env
	p.Env = func(n string) string {
		if n == name {
			return value
		}
		return before(n)
	}
	return p
}

// definition is a secret for a host, in the usual place.
func definition(name, host string) secret.Definition {
	return secret.Definition{
		Name: name, Var: secret.Variable(name),
		Rules: []secret.Rule{{
			Hosts: []secret.Host{{Name: host, Port: 443}},
			Place: secret.Place{Kind: secret.Header, Name: "Authorization", Format: "Bearer {}"},
		}},
	}
}

func valueOf(name string) string { return "canary-value-of-" + name }

func hidden(s string) seal.Secret { return seal.NewSecret([]byte(s)) }

// add keeps secrets with the values that valueOf says.
func add(p vault.Place, names ...string) error {
	return vault.Update(p, now, func(e *vault.Edit) error {
		for _, name := range names {
			if err := e.Add(definition(name, name+".example.com"), hidden(valueOf(name))); err != nil {
				return err
			}
		}
		return nil
	})
}

func mustAdd(t *testing.T, p vault.Place, names ...string) {
	t.Helper()
	if err := add(p, names...); err != nil {
		t.Fatal(err)
	}
}

func mustOpen(t *testing.T, p vault.Place) *vault.Vault {
	t.Helper()
	v, err := vault.Open(p)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// holds fails the test unless a vault has these secrets and no other.
func holds(t *testing.T, p vault.Place, names ...string) {
	t.Helper()
	v := mustOpen(t, p)
	var found []string
	for _, d := range v.List() {
		found = append(found, d.Name)
		if _, value, err := v.Get(d.Name); err != nil || string(value.Reveal()) != valueOf(d.Name) {
			t.Errorf("%s: %v", d.Name, err)
		}
	}
	if strings.Join(found, " ") != strings.Join(names, " ") {
		t.Errorf("it holds %q, want %q", found, names)
	}
}

func storeOf(p vault.Place) string { return filepath.Join(p.DataDir, "vault", "store") }
func markOf(p vault.Place) string  { return filepath.Join(p.StateDir, "vault", "mark") }
func keyOf(p vault.Place) string   { return filepath.Join(p.ConfigDir, "vault.key") }

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
