package vault_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/vault"
)

func export(t *testing.T, p vault.Place, to vault.Recipients) []byte {
	t.Helper()
	out, err := mustOpen(t, p).Export(to)
	if err != nil {
		t.Fatal(err)
	}
	return []byte(out)
}

// TestExport_IsImported by whom it is for, and by nobody else.
func TestExport_IsImported(t *testing.T) {
	t.Parallel()
	identity, recipient := newIdentity(t)
	stranger, _ := newIdentity(t)
	p := newPlace(t)
	mustAdd(t, p, "a", "b")
	const passphrase = "a long passphrase"
	toMany := export(t, p, vault.Recipients{Names: []string{recipient}})
	toWord := export(t, p, vault.ByPassphrase(hidden(passphrase)))
	if vault.IsForPassphrase(toMany) || !vault.IsForPassphrase(toWord) || vault.IsForPassphrase([]byte("something")) {
		t.Error("what it opens by")
	}
	for what, c := range map[string]struct {
		data []byte
		by   vault.Decryption
		ok   bool
	}{
		"an identity":         {toMany, vault.Decryption{Identity: identity}, true},
		"a stranger":          {toMany, vault.Decryption{Identity: stranger}, false},
		"a passphrase":        {toWord, vault.Decryption{Passphrase: hidden(passphrase)}, true},
		"another passphrase":  {toWord, vault.Decryption{Passphrase: hidden(passphrase + "s")}, false},
		"the wrong way":       {toWord, vault.Decryption{Identity: identity}, false},
		"the other wrong way": {toMany, vault.Decryption{Passphrase: hidden(passphrase)}, false},
		"its first half":      {toMany[:len(toMany)/2], vault.Decryption{Identity: identity}, false},
		"no age file":         {[]byte("canary"), vault.Decryption{Identity: identity}, false},
		"empty":               {nil, vault.Decryption{Identity: identity}, false},
	} {
		if bytes.Contains(c.data, []byte("canary-value")) {
			t.Errorf("%s: a value is in clear", what)
		}
		entries, err := vault.Import(c.data, c.by)
		if c.ok != (err == nil) || err != nil && (bailey.KindOf(err) == bailey.Internal || len(entries) > 0) {
			t.Errorf("%s: %v", what, err)
		}
		for _, e := range entries {
			if string(e.Value.Reveal()) != valueOf(e.Name) || len(e.Rules) != 1 {
				t.Errorf("%s: %s", what, e.Name)
			}
		}
		if c.ok && len(entries) != 2 {
			t.Errorf("%s: %d entries", what, len(entries))
		}
	}
	if _, err := mustOpen(t, newPlace(t)).Export(vault.Recipients{Names: []string{recipient}}); bailey.KindOf(err) != bailey.NotFound {
		t.Errorf("an empty vault: %v", err)
	}
	if _, err := mustOpen(t, p).Export(vault.Recipients{}); bailey.KindOf(err) != bailey.Invalid {
		t.Errorf("for nobody: %v", err)
	}
	holds(t, p, "a", "b") // what was exported was copies
}

// TestImport_LooksAtEverything: what a file says is held to what set asks.
func TestImport_LooksAtEverything(t *testing.T) {
	t.Parallel()
	identity, recipient := newIdentity(t)
	good := `{"bailey_secrets":1,"secrets":[{"definition":{"id":"sec_0123456789abcdef","name":"a","owner":"uid:7","var":"A","rules":[{"hosts":["a.example.com"],"place":{"kind":"header","name":"X","format":"{}"}}],"created":"2026-11-30T12:00:00Z","updated":"2026-11-30T12:00:00Z","revision":4},"value":"Y2FuYXJ5LXZhbHVl"}]}`
	for what, c := range map[string]struct{ old, new string }{
		"good":          {"", ""},
		"a name":        {`"name":"a"`, `"name":"A b"`},
		"a variable":    {`"var":"A"`, `"var":"A-B"`},
		"a host":        {`a.example.com`, `*`},
		"an address":    {`a.example.com`, `192.0.2.1`},
		"plain HTTP":    {`a.example.com`, `a.example.com:80`},
		"no host":       {`["a.example.com"]`, `[]`},
		"a place":       {`"kind":"header"`, `"kind":"body"`},
		"a value":       {`Y2FuYXJ5LXZhbHVl`, `Y2FuYXJ5DQp4LXk6IHo=`},
		"a new field":   {`"revision":4`, `"revision":4,"pin":"x"`},
		"a new version": {`"bailey_secrets":1`, `"bailey_secrets":2`},
		"more":          {`"}]}`, `"}]} {}`},
		"no export":     {good, `[]`},
	} {
		out, err := vault.Encrypt(vault.Recipients{Names: []string{recipient}}, []byte(strings.Replace(good, c.old, c.new, 1)))
		if err != nil {
			t.Fatal(err)
		}
		entries, err := vault.Import([]byte(out), vault.Decryption{Identity: identity})
		if (what == "good") != (err == nil) || (what == "good") != (len(entries) == 1) {
			t.Errorf("%s: %d, %v", what, len(entries), err)
		}
		if e, ok := errors.AsType[*bailey.Error](err); err != nil && (!ok || e.Kind != bailey.Invalid || strings.Contains(err.Error(), "canary")) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
