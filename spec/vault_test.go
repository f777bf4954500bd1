package spec_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"filippo.io/age/armor"

	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// keeper is a user with a vault of two secrets.
type keeper struct {
	y      *yard.Yard
	values map[string]string // by name
	age    *age.X25519Identity
}

func newKeeper(t *testing.T, y *yard.Yard) *keeper {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	k := &keeper{y: y, values: map[string]string{"one": "canary-" + newValue(), "two": "canary-" + newValue()}, age: id}
	for _, name := range []string{"one", "two"} {
		k.bailey(t, k.values[name], "secret", "set", name, "--host", name+".example.com", "--path", "/api").OK(t)
	}
	return k
}

// bailey runs a command with something on its input.
func (k *keeper) bailey(t *testing.T, input string, args ...string) yard.Result {
	t.Helper()
	return k.y.RunWith(t, func(c *exec.Cmd) { c.Stdin = strings.NewReader(input) }, args...)
}

func (k *keeper) store() string { return filepath.Join(k.y.Home, ".local/share/bailey/vault/store") }
func (k *keeper) mark() string  { return filepath.Join(k.y.Home, ".local/state/bailey/vault/mark") }
func (k *keeper) key() string   { return filepath.Join(k.y.Home, ".config/bailey/vault.key") }

// file returns what a file of the vault holds.
func file(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// put writes a file of the vault as its user has it.
func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil { // mode and owner stay
		t.Fatal(err)
	}
}

// exported returns the values of the vault by the one way out that there is:
// encrypted, to an identity that the test has.
func (k *keeper) exported(t *testing.T) string {
	t.Helper()
	r := k.bailey(t, "", "secret", "export", "-", "--recipient", k.age.Recipient().String()).OK(t)
	if strings.Contains(r.Stdout, "canary") {
		t.Error("the export is in clear")
	}
	in, err := age.Decrypt(armor.NewReader(strings.NewReader(r.Stdout)), k.age)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	return string(plain)
}

// whole fails the test unless both values come out of the vault.
func (k *keeper) whole(t *testing.T) {
	t.Helper()
	k.bailey(t, "", "secret", "check").OK(t)
	plain := k.exported(t)
	for name, value := range k.values {
		if !strings.Contains(plain, base64.StdEncoding.EncodeToString([]byte(value))) {
			t.Errorf("the value of %s is not what it was", name)
		}
	}
}

// refused fails the test unless nothing that uses the vault starts, and what is
// said names the fault and no value.
func (k *keeper) refused(t *testing.T, says string) {
	t.Helper()
	for _, args := range [][]string{
		{"run", "--secret", "one", "--", "true"},
		{"secret", "ls"},
		{"secret", "rm", "two"},
		{"secret", "rekey"},
		{"secret", "export", "-", "--recipient", k.age.Recipient().String()},
	} {
		r := k.bailey(t, "", args...).Exit(t, 125)
		if !strings.Contains(r.Stderr, says) || !strings.Contains(r.Stderr, "hint: ") || strings.Contains(r.Stdout+r.Stderr, "canary") {
			t.Errorf("%s: want %q:\n%s%s", args, says, r.Stdout, r.Stderr)
		}
	}
	if r := k.bailey(t, "", "secret", "check").Exit(t, 1); !strings.Contains(r.Stderr, says) {
		t.Errorf("check: want %q:\n%s", says, r.Stderr)
	}
}

// TestSEC05_ValuesRestEncrypted: no file that bailey made holds a value, in any
// usual form; the vault gives it back to the one it is exported to.
func TestSEC05_ValuesRestEncrypted(t *testing.T) {
	t.Attr("claim", "SEC-05")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		k := newKeeper(t, y)
		k.bailey(t, "canary-"+newValue(), "secret", "rotate", "two").OK(t)
		k.bailey(t, "", "secret", "edit", "one", "--path", "/api/v1").OK(t)
		k.bailey(t, "", "secret", "rekey").OK(t)
		k.bailey(t, "", "secret", "ls", "--json").OK(t)
		value := k.values["one"]
		forms := []string{"canary", value, base64.StdEncoding.EncodeToString([]byte(value)), base64.RawURLEncoding.EncodeToString([]byte(value)), hex.EncodeToString([]byte(value)), strings.ToUpper(hex.EncodeToString([]byte(value)))}
		found := 0
		err := filepath.WalkDir(filepath.Dir(y.Home), func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() {
				return err
			}
			found++
			data, err := os.ReadFile(path)
			for _, form := range forms {
				if bytes.Contains(data, []byte(form)) {
					t.Errorf("%s holds the value as %.12s…", path, form)
				}
			}
			return err
		})
		if err != nil || found < 3 {
			t.Fatalf("%d files, %v", found, err)
		}
		for _, path := range []string{k.store(), k.mark(), k.key()} {
			if fi, err := os.Stat(path); err != nil || fi.Mode() != 0o600 {
				t.Errorf("%s: %v, %v", path, fi.Mode(), err)
			}
		}
		if !strings.Contains(k.exported(t), base64.StdEncoding.EncodeToString([]byte(value))) {
			t.Error("the twin: the vault does not give the value back")
		}
	})
}

var boxes = regexp.MustCompile(`"box":"[^"]*"`)

// TestSEC05_WhatWasExchangedDoesNotOpen: a value in another row, one from
// before a change, a rule that was altered, a row that is missing, an older
// file, another one; each is refused before a sandbox starts, with its place,
// and nothing is lost.
func TestSEC05_WhatWasExchangedDoesNotOpen(t *testing.T) {
	t.Attr("claim", "SEC-05")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		k := newKeeper(t, y)
		older := file(t, k.store())
		k.bailey(t, "", "secret", "edit", "one", "--path", "/api/v1").OK(t)
		now := file(t, k.store())
		was, is := boxes.FindAllString(older, -1), boxes.FindAllString(now, -1)
		lines, olderLines := strings.SplitAfter(now, "\n"), strings.SplitAfter(older, "\n")
		for name, c := range map[string]struct{ text, says string }{
			"two values exchanged": {strings.NewReplacer(is[0], is[1], is[1], is[0]).Replace(now), "store:2: one: it does not open"},
			"a value from before":  {strings.Replace(now, is[0], was[0], 1), "store:2: one: it does not open"},
			"a row from before":    {strings.Replace(now, lines[1], olderLines[1], 1), "store:1: it was altered outside of the values"},
			"another host":         {strings.Replace(now, "one.example.com", "evil.example.com", 1), "store:2: one: it does not open"},
			"a wider path":         {strings.Replace(now, `"/api/v1"`, `"/"`, 1), "store:2: one: it does not open"},
			"another place":        {strings.Replace(now, `"Authorization"`, `"X-Echo"`, 1), "store:2: one: it does not open"},
			"another owner":        {strings.Replace(now, `"owner":"uid:`, `"owner":"uid:9`, 1), "store:2: one: it is another user's"},
			"two names exchanged":  {strings.NewReplacer(`"name":"one"`, `"name":"two"`, `"name":"two"`, `"name":"one"`).Replace(now), "store:1: it was altered"},
			"a row is missing":     {strings.Replace(now, lines[2], "", 1), "store:1: it has 1 rows, and says that it had 2"},
			"half of it":           {now[:len(now)/2], "store:"},
			"an older file":        {older, "it was rolled back: it is of generation 2, the newest had 3"},
		} {
			put(t, k.store(), c.text)
			if t.Run(name, func(t *testing.T) { k.refused(t, c.says) }); file(t, k.store()) != c.text {
				t.Errorf("%s: the file was changed", name)
			}
		}
		put(t, k.store(), now)
		k.whole(t)
		// The control is the comparison with the mark: where the owner accepts it,
		// the older file is the vault.
		put(t, k.store(), older)
		k.bailey(t, "", "secret", "check", "--accept").OK(t)
		k.whole(t)
	})
}

// TestSEC05_TheKeyLiesElsewhere: a copy of the vault does not open without its
// key, nor by another; another user of the machine comes to neither.
func TestSEC05_TheKeyLiesElsewhere(t *testing.T) {
	t.Attr("claim", "SEC-05")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		k := newKeeper(t, y)
		key := file(t, k.key())
		data := regexp.MustCompile(`"data": "([0-9a-f]{64})"`).FindStringSubmatch(key)
		if data == nil || strings.Contains(file(t, k.store())+file(t, k.mark()), data[1]) {
			t.Fatal("the key is not in its file alone")
		}
		if err := os.Rename(k.key(), k.key()+".away"); err != nil {
			t.Fatal(err)
		}
		r := k.bailey(t, "", "secret", "check").Exit(t, 125)
		if !strings.Contains(r.Stderr, "the key of the vault is gone") {
			t.Errorf("without its key: %s", r.Stderr)
		}
		k.bailey(t, "canary-"+newValue(), "secret", "set", "three", "--host", "three.example.com").Exit(t, 125)
		if _, err := os.Stat(k.key()); err == nil {
			t.Error("a new key was made for a vault that has one")
		}
		other := newKeeper(t, y2(t, y))
		y.WriteHome(t, ".config/bailey/vault.key", file(t, other.key()))
		if r := k.bailey(t, "", "secret", "check").Exit(t, 125); !strings.Contains(r.Stderr, "is sealed with key_") {
			t.Errorf("by another key: %s", r.Stderr)
		}
		r = y.RunWith(t, func(c *exec.Cmd) { c.Env = append(c.Env, "BAILEY_VAULT_KEY="+k.key()+".away") }, "secret", "check").OK(t)
		if !strings.Contains(r.Stdout, "ok: 2 secrets") {
			t.Errorf("the twin: %s", r.Stdout)
		}
		if err := os.Rename(k.key()+".away", k.key()); err != nil {
			t.Fatal(err)
		}
		k.whole(t)
		// A sandbox that could read the key starts nowhere.
		inside := y.Write(t, "keys/vault.key", file(t, k.key()))
		for name, path := range map[string]string{"BAILEY_VAULT_KEY": inside, "BAILEY_VAULT_IDENTITY": inside} {
			with := func(value string) yard.Result {
				return y.RunWith(t, func(c *exec.Cmd) { c.Env = append(c.Env, name+"="+value) }, "run", "--quiet", "--", "true")
			}
			if r := with(path).Exit(t, 125); !strings.Contains(r.Stderr, path) {
				t.Errorf("%s in the workspace: %s", name, r.Stderr)
			}
			with(k.key()).OK(t)
		}
		for path, fix := range map[string]string{k.store(): "chmod 600", k.key(): "chmod 600", filepath.Dir(k.store()): "chmod 700"} {
			fi, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, fi.Mode().Perm()|0o044); err != nil {
				t.Fatal(err)
			}
			if r := k.bailey(t, "", "secret", "ls").Exit(t, 125); !strings.Contains(r.Stderr, "is open to other users") || !strings.Contains(r.Stderr, fix) {
				t.Errorf("%s, open to others: %s", path, r.Stderr)
			}
			if err := os.Chmod(path, fi.Mode().Perm()); err != nil {
				t.Fatal(err)
			}
		}
		k.whole(t)
	})
}

// y2 is another home of the same user.
func y2(t *testing.T, y *yard.Yard) *yard.Yard {
	t.Helper()
	if y.UID == 0 {
		return yard.Root(t)
	}
	return yard.Unprivileged(t)
}

// TestSecret_AskedForAtATerminal: what is typed is not shown, and is kept as it
// was typed; whatever ends the asking, the terminal is as it was, and nothing
// of a paste is left for the shell.
func TestSecret_AskedForAtATerminal(t *testing.T) {
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		value := "canary-" + newValue()
		set := func(t *testing.T, name string) *person {
			t.Helper()
			p := sit(t, y, "secret", "set", name, "--host", "example.com")
			return p.sees("value of " + name + ": ")
		}
		t.Run("typed", func(t *testing.T) {
			p := set(t, "typed").types(value[:10] + "xy\x7f\x7f" + value[10:] + "\r").sees("typed: kept")
			if code := p.leaves(); code != 0 || strings.Contains(p.screen(), "canary") {
				t.Errorf("exit %d, the terminal shows %q", code, p.screen())
			}
			r := y.RunWith(t, func(c *exec.Cmd) { c.Stdin = strings.NewReader(value) }, "secret", "rotate", "typed").Exit(t, 125)
			if !strings.Contains(r.Stderr, "that is the value that it has") {
				t.Errorf("another value was kept: %s", r.Stderr)
			}
		})
		for name, keys := range map[string]string{"interrupted": value + "\x03", "ended": "\x04", "pasted": value + "\n" + value + "\n", "escape": value + "\x1b[A\r", "suspended": value + "\x1a\r"} {
			t.Run(name, func(t *testing.T) {
				p := set(t, name)
				before := p.modes()
				p.types(keys)
				code := p.leaves()
				if code != 125 || strings.Contains(p.screen(), "canary") {
					t.Errorf("exit %d, the terminal shows %q", code, p.screen())
				}
				if p.modes() == before {
					t.Error("the terminal is still as it was while asking")
				}
				if got := p.types("left\r").shellReads(); got != "left\n" {
					t.Errorf("the shell reads %q", got)
				}
				if r := y.Run(t, "secret", "show", name); r.Code != 125 {
					t.Errorf("something was kept: %s", r.Stdout)
				}
			})
		}
	})
}

// TestSecret_PassphrasesAtATerminal: a key and an export that have one are
// opened by it, and by no other.
func TestSecret_PassphrasesAtATerminal(t *testing.T) {
	t.Parallel()
	y := yard.Unprivileged(t)
	k := newKeeper(t, y)
	const passphrase = "canary and other words"
	ends := func(p *person, code int, says string) {
		t.Helper()
		if got := p.leaves(); got != code || strings.Contains(p.sees(says).screen(), "canary") {
			t.Errorf("exit %d, the terminal shows %q", got, p.screen())
		}
	}
	ends(sit(t, y, "secret", "export", "../home/out.age", "--passphrase").sees("for the file: ").types(passphrase+"\r").sees("once more: ").types(passphrase+"\r"), 0, "2 secrets")
	ends(sit(t, y, "secret", "export", "../home/out2.age", "--passphrase").sees("for the file: ").types(passphrase+"\r").sees("once more: ").types("other words\r"), 125, "not the same")
	ends(sit(t, y, "secret", "import", "../home/out.age", "--replace").sees("of the file: ").types("other words\r"), 125, "does not decrypt")
	ends(sit(t, y, "secret", "import", "../home/out.age", "--replace").sees("of the file: ").types(passphrase+"\r"), 0, "two: replaced")
	k.whole(t)

	ends(sit(t, y, "secret", "rekey", "--passphrase").sees("for the new key: ").types("short\r"), 125, "is shorter than 8")
	ends(sit(t, y, "secret", "rekey", "--passphrase").sees("for the new key: ").types(passphrase+"\r").sees("once more: ").types(passphrase+"\r"), 0, "is sealed with key_")
	for _, args := range [][]string{{"check"}, {"rm", "one"}, {"rekey"}} {
		r := k.bailey(t, "", append([]string{"secret"}, args...)...).Exit(t, 125)
		if !strings.Contains(r.Stderr, "there is no terminal to ask at") || !strings.Contains(r.Stderr, "BAILEY_VAULT_KEY=fd:N") {
			t.Errorf("%s without a terminal: %s", args, r.Stderr)
		}
	}
	for _, args := range [][]string{{"ls"}, {"show", "one"}} { // what is in the clear takes no passphrase
		r := k.bailey(t, "", append([]string{"secret"}, args...)...).OK(t)
		if !strings.Contains(r.Stdout, "one.example.com") || !strings.Contains(r.Stderr, "unchecked") {
			t.Errorf("%s: %s%s", args, r.Stdout, r.Stderr)
		}
	}
	if r := k.bailey(t, "", "secret", "rm", "one", "nosuch").Exit(t, 125); !strings.Contains(r.Stderr, "there is no secret nosuch") {
		t.Errorf("a name that there is not: %s", r.Stderr)
	}
	if r := k.bailey(t, "", "run", "--secret", "nosuch", "--", "true").Exit(t, 125); !strings.Contains(r.Stderr, "there is no secret nosuch") {
		t.Errorf("a name that there is not: %s", r.Stderr)
	}
	ends(sit(t, y, "secret", "check").sees("of the vault's key: ").types("other words\r"), 125, "does not open by that passphrase")
	ends(sit(t, y, "secret", "check").sees("of the vault's key: ").types(passphrase+"\r"), 0, "ok: 2 secrets")
	ends(sit(t, y, "secret", "rekey", "--plain").sees("of the vault's key: ").types(passphrase+"\r"), 0, "is sealed with key_")
	k.whole(t)
}

// TestSEC05_RekeySealsEverythingAnew: afterwards every value is another box,
// and the key from before opens nothing; a rekey that is killed at any moment
// leaves a vault that opens.
func TestSEC05_RekeySealsEverythingAnew(t *testing.T) {
	t.Attr("claim", "SEC-05")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		k := newKeeper(t, y)
		key, before := file(t, k.key()), boxes.FindAllString(file(t, k.store()), -1)
		k.bailey(t, "", "secret", "rekey").OK(t)
		after := file(t, k.store())
		for _, box := range before {
			if strings.Contains(after, box) {
				t.Error("a value is sealed as before")
			}
		}
		fresh := file(t, k.key())
		put(t, k.key(), key)
		k.bailey(t, "", "secret", "check").Exit(t, 125)
		put(t, k.key(), fresh)
		k.whole(t)

		took := k.bailey(t, "", "secret", "rekey").OK(t).Took
		const tries = 12
		for i := range tries {
			r := y.Start(t, "secret", "rekey")
			timer := time.AfterFunc(took*time.Duration(i)/tries, func() { _ = r.Cmd.Process.Kill() })
			r.Wait(t, yard.Timeout)
			timer.Stop()
			k.whole(t)
		}
		k.bailey(t, fmt.Sprintf("canary-%s", newValue()), "secret", "set", "three", "--host", "three.example.com").OK(t)
	})
}
