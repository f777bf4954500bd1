package vault_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/seal"
	"github.com/bailey-dev/bailey/internal/vault"
)

// behindPassphrase is a place with one secret, whose key has a passphrase, and
// how often that was asked for.
func behindPassphrase(t *testing.T) (p vault.Place, asked *int) {
	t.Helper()
	p = newPlace(t)
	mustAdd(t, p, "demo")
	if _, err := vault.Rekey(p, vault.KeyForm{Kind: vault.PassphraseKey, To: vault.ByPassphrase(hidden("a long passphrase"))}); err != nil {
		t.Fatal(err)
	}
	return answering(p, "a long passphrase")
}

// TestLook_AsksNobody: what is in the clear is read without the passphrase, and
// it is said that it was not held to the key; what needs a value asks.
func TestLook_AsksNobody(t *testing.T) {
	t.Parallel()
	p, asked := behindPassphrase(t)
	l, err := vault.Look(p)
	if err != nil || len(l.Secrets) != 1 || !strings.HasSuffix(l.Unchecked, "vault.key has a passphrase") || *asked != 0 {
		t.Fatalf("%+v, %v, asked %d times", l, err, *asked)
	}
	if d, err := l.Find("demo"); err != nil || d.Var != "DEMO" {
		t.Error(d, err)
	}
	if _, err := l.Find("nosuch"); bailey.KindOf(err) != bailey.NotFound {
		t.Error(err)
	}
	if err := p.Expect("demo", "nosuch"); bailey.KindOf(err) != bailey.NotFound || *asked != 0 {
		t.Errorf("%v, asked %d times", err, *asked)
	}
	if err := p.Expect("demo"); err != nil || *asked != 0 {
		t.Errorf("%v, asked %d times", err, *asked)
	}
	v, err := vault.Open(p)
	if err != nil || *asked != 1 {
		t.Fatalf("the twin: %v, asked %d times", err, *asked)
	}
	v.Close()
}

// TestRelist_LeavesTheKeys: who has the vault open is told what is there under
// another key, and can open by the old one as before.
func TestRelist_LeavesTheKeys(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	mustAdd(t, p, "demo")
	v := mustOpen(t, p)
	if l, err := v.Relist(); err != nil || l.Unchecked != "" || len(l.Secrets) != 1 {
		t.Errorf("%+v, %v", l, err)
	}
	if _, err := vault.Rekey(p, vault.KeyForm{Kind: vault.PassphraseKey, To: vault.ByPassphrase(hidden("a long passphrase"))}); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Reopen(); err == nil {
		t.Error("it opens without the passphrase")
	}
	if l, err := v.Relist(); err != nil || l.Unchecked == "" || len(l.Secrets) != 1 {
		t.Errorf("%+v, %v", l, err)
	}
	if _, value, err := v.Get("demo"); err != nil || string(value.Reveal()) != valueOf("demo") {
		t.Error(err)
	}
}

// TestLook_HoldsWhatItCan: with the key at hand nothing that was altered is
// listed; without it, an older file and one that is cut off are not.
func TestLook_HoldsWhatItCan(t *testing.T) {
	t.Parallel()
	plain := newPlace(t)
	mustAdd(t, plain, "demo")
	if l, err := vault.Look(plain); err != nil || l.Unchecked != "" || len(l.Secrets) != 1 {
		t.Fatalf("the twin: %+v, %v", l, err)
	}
	alter := func(p vault.Place, f func(string) string) {
		t.Helper()
		write(t, storeOf(p), []byte(f(string(read(t, storeOf(p))))))
	}
	alter(plain, func(s string) string { return strings.Replace(s, "example.com", "example.net", 1) })
	if _, err := vault.Look(plain); err == nil {
		t.Error("a rule that was altered is listed")
	}

	p, _ := behindPassphrase(t)
	older := read(t, storeOf(p))
	mustAdd(t, p, "second")
	newer := read(t, storeOf(p))
	if l, err := vault.Look(p); err != nil || len(l.Secrets) != 2 {
		t.Fatalf("the twin: %+v, %v", l, err)
	}
	for name, text := range map[string]string{"older": string(older), "cut off": string(newer[:len(newer)/2]), "nothing": "\n"} {
		alter(p, func(string) string { return text })
		if l, err := vault.Look(p); err == nil {
			t.Errorf("%s: %+v", name, l)
		}
	}
}

// TestOpen_SaysWhatDoesWithoutATerminal: who has a passphrase and nobody to ask
// is told of the other ways.
func TestOpen_SaysWhatDoesWithoutATerminal(t *testing.T) {
	t.Parallel()
	p, _ := behindPassphrase(t)
	for name, ask := range map[string]func(string) (seal.Secret, error){
		"nobody": nil,
		"no terminal": func(string) (seal.Secret, error) {
			return seal.Secret{}, bailey.NewError(bailey.Unavailable, "there is no terminal to ask at", "start bailey in one")
		},
	} {
		p.Ask = ask
		_, err := vault.Open(p)
		hint := ""
		if e, ok := errors.AsType[*bailey.Error](err); ok {
			hint = e.Hint
		}
		for _, part := range []string{"BAILEY_VAULT_KEY=fd:N", "BAILEY_VAULT_IDENTITY=FILE", "--recipient"} {
			if !strings.Contains(hint, part) {
				t.Errorf("%s: %v, hint %q", name, err, hint)
			}
		}
	}
}

func TestCheckExport(t *testing.T) {
	t.Parallel()
	_, recipient := newIdentity(t)
	whole, err := vault.Encrypt(vault.Recipients{Names: []string{recipient}}, []byte("canary"))
	if err != nil {
		t.Fatal(err)
	}
	const head = "-----BEGIN AGE ENCRYPTED FILE-----\n"
	for text, says := range map[string]string{
		whole: "", "\r\n\n" + whole: "", strings.ReplaceAll(whole, "\n", "\r\n"): "",
		"": "it is empty", "canary": "it is no age file", "-----BEGIN AGE": "it is no age file", "-----BEGIN PGP MESSAGE-----\n": "it is no age file", "canary" + whole: "it is no age file",
		head: "whose head cannot be read", "age-encryption.org/v1\n": "whose head cannot be read", whole[:len(head)+40]: "whose head cannot be read",
	} {
		err := vault.CheckExport([]byte(text))
		if (err == nil) != (says == "") || err != nil && (!strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "canary")) {
			t.Errorf("%.40q: %v", text, err)
		}
	}
}

// TestImport_SaysWhatIsWrong tells a file for somebody else from one that is
// damaged, and identities that are encrypted from none.
func TestImport_SaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	mustAdd(t, p, "demo")
	mine, recipient := newIdentity(t)
	other, _ := newIdentity(t)
	whole, err := mustOpen(t, p).Export(vault.Recipients{Names: []string{recipient}})
	if err != nil {
		t.Fatal(err)
	}
	closed, err := vault.Encrypt(vault.Recipients{Names: []string{recipient}}, read(t, mine))
	if err != nil {
		t.Fatal(err)
	}
	encrypted := other + ".age"
	write(t, encrypted, []byte(closed))
	lines := strings.SplitAfter(whole, "\n")
	cut := strings.Join(append(slices.Clone(lines[:len(lines)-4]), lines[len(lines)-2:]...), "")
	for name, c := range map[string]struct{ data, identity, says string }{
		"the twin":                      {whole, mine, ""},
		"blank lines before":            {"\n\r\n" + whole, mine, ""},
		"for somebody else":             {whole, other, "the file does not decrypt by an identity in " + other},
		"damaged":                       {cut, mine, "the file does not decrypt, although the identity is one that it was encrypted to"},
		"identities that are encrypted": {whole, encrypted, encrypted + " is encrypted itself"},
		"a file that is no identity":    {whole, storeOf(p), storeOf(p) + " holds no age identities"},
	} {
		entries, err := vault.Import([]byte(c.data), vault.Decryption{Identity: c.identity})
		if (err == nil) != (c.says == "") || err != nil && !strings.HasPrefix(err.Error(), c.says) || err == nil && len(entries) != 1 {
			t.Errorf("%s: %d, %v", name, len(entries), err)
		}
	}
}
