package vault_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"filippo.io/age"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/seal"
	"github.com/bailey-dev/bailey/internal/vault"
)

// newIdentity makes an age identity and returns its file and its recipient.
func newIdentity(t *testing.T) (file, recipient string) {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "identity")
	write(t, file, []byte("# a comment\n"+id.String()+"\n"))
	return file, id.Recipient().String()
}

// fakeRing is a keyring in memory.
type fakeRing struct {
	mu    sync.Mutex
	texts map[string]string
	err   error
}

func newRing() *fakeRing { return &fakeRing{texts: map[string]string{}} }

func (r *fakeRing) Read(id string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	text, ok := r.texts[id]
	if !ok && r.err == nil {
		return "", fs.ErrNotExist
	}
	return text, r.err
}

func (r *fakeRing) Write(id, text string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.texts[id] = text
	return r.err
}

func (r *fakeRing) Remove(id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.texts, id)
	return r.err
}

// answering asks nobody and has the answer.
func answering(p vault.Place, answers ...string) (vault.Place, *int) {
	asked := 0
	p.Ask = func(string) (seal.Secret, error) {
		asked++
		return hidden(answers[min(asked, len(answers))-1]), nil
	}
	return p, &asked
}

// TestKey_IsWhereItIsSaid: the key elsewhere opens the vault, nothing lies in
// the usual place, and without it there is no vault.
func TestKey_IsWhereItIsSaid(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	elsewhere := filepath.Join(t.TempDir(), "stick", "my.key")
	q := with(p, vault.KeyVariable, elsewhere)
	mustAdd(t, q, "a")
	holds(t, q, "a")
	if exists(keyOf(p)) || !exists(elsewhere) {
		t.Error("the key is in the usual place")
	}
	if _, err := vault.Open(p); err == nil || !strings.Contains(err.Error(), "the key of the vault is gone") {
		t.Errorf("without the key: %v", err)
	}
	if err := add(p, "b"); err == nil || exists(keyOf(p)) {
		t.Errorf("a new key for a vault that has one: %v", err)
	}
	if _, err := vault.Open(with(p, vault.KeyVariable, "my.key")); bailey.KindOf(err) != bailey.Invalid {
		t.Errorf("a relative path: %v", err)
	}
	holds(t, q, "a")
}

// TestKey_OfAnother does not open, and both are named.
func TestKey_OfAnother(t *testing.T) {
	t.Parallel()
	p, o := newPlace(t), newPlace(t)
	mustAdd(t, p, "a")
	mustAdd(t, o, "b")
	write(t, keyOf(p), read(t, keyOf(o)))
	_, err := vault.Open(p)
	if err == nil || !strings.Contains(err.Error(), " is sealed with key_") || !strings.Contains(err.Error(), "holds key_") {
		t.Errorf("%v", err)
	}
}

// TestKey_OfAFileThatLies: a file that holds another key than it says, and one
// that cannot be read, which is not replaced though there is no vault yet.
func TestKey_OfAFileThatLies(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	mustAdd(t, p, "a")
	whole := string(read(t, keyOf(p)))
	lie := strings.Replace(whole, hex.EncodeToString(vault.KeyOf(mustOpen(t, p)).Reveal()), strings.Repeat("5a", seal.KeySize), 1)
	write(t, keyOf(p), []byte(lie))
	if _, err := vault.Open(p); err == nil || !strings.Contains(err.Error(), "does not hold key_") {
		t.Errorf("%v", err)
	}
	q := newPlace(t)
	if err := os.MkdirAll(q.ConfigDir, 0o700); err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{"a lie": lie, "no key": "{}", "nothing": ""} {
		write(t, keyOf(q), []byte(text))
		if err := add(q, "a"); err == nil || string(read(t, keyOf(q))) != text || exists(storeOf(q)) {
			t.Errorf("%s: %v", what, err)
		}
	}
	write(t, keyOf(q), []byte(whole))
	mustAdd(t, q, "a")
	holds(t, q, "a")
}

func TestKey_ByDescriptor(t *testing.T) {
	t.Parallel()
	key := seal.NewKey()
	text := hex.EncodeToString(key.Reveal())
	p := newPlace(t)
	for what, given := range map[string]string{
		"digits": text, "digits and a newline": text + "\n",
		"a key file": fmt.Sprintf(`{"bailey_vault_key":1,"id":%q,"kind":"plain","data":%q}`, key.ID(), text),
	} {
		q := with(p, vault.KeyVariable, fmt.Sprintf("fd:%d", handOver(t, given)))
		mustAdd(t, q, strings.ReplaceAll(what, " ", "-"))
		if exists(keyOf(p)) {
			t.Errorf("%s: the key is in a file", what)
		}
	}
	v := mustOpen(t, with(p, vault.KeyVariable, fmt.Sprintf("fd:%d", handOver(t, text))))
	if len(v.List()) != 3 {
		t.Errorf("%d secrets", len(v.List()))
	}
	if v, err := v.Reopen(); err != nil || len(v.List()) != 3 { // a pipe is read once
		t.Errorf("again: %v", err)
	}
	err := v.Update(now, func(e *vault.Edit) error { return e.Add(definition("z", "z.example.com"), hidden(valueOf("z"))) })
	if err != nil { // nor does a change read it again
		t.Error(err)
	}
	for what, given := range map[string]string{
		"another key": hex.EncodeToString(seal.NewKey().Reveal()), "nothing": "", "too short": text[2:], "no digits": strings.Repeat("z", 64),
		"an age key file": fmt.Sprintf(`{"bailey_vault_key":1,"id":%q,"kind":"age","data":"x"}`, key.ID()),
	} {
		_, err := vault.Open(with(p, vault.KeyVariable, fmt.Sprintf("fd:%d", handOver(t, given))))
		if err == nil || bailey.KindOf(err) == bailey.Internal || len(given) > 8 && strings.Contains(err.Error(), given[:8]) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, bad := range []string{"fd:", "fd:2", "fd:x", "fd:-1", "fd:03", "fd:99999", "fd:3 "} {
		if _, err := vault.Open(with(p, vault.KeyVariable, bad)); bailey.KindOf(err) != bailey.Invalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// handOver returns a descriptor from which a text is read.
func handOver(t *testing.T, text string) int {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	if _, err := w.WriteString(text); err != nil {
		t.Fatal(err)
	}
	w.Close()
	return int(r.Fd())
}

// TestRekey_EveryWayToEveryWay: the vault opens by the new key, and the old one
// opens nothing.
func TestRekey_EveryWayToEveryWay(t *testing.T) {
	t.Parallel()
	identity, recipient := newIdentity(t)
	other := hex.EncodeToString(seal.NewKey().Reveal())
	forms := map[string]vault.KeyForm{
		"plain":      {Kind: vault.PlainKey},
		"recipient":  {Kind: vault.RecipientKey, To: vault.Recipients{Names: []string{recipient}}},
		"passphrase": {Kind: vault.PassphraseKey, To: vault.ByPassphrase(hidden("a long passphrase"))},
		"keyring":    {Kind: vault.KeyringKey},
		"descriptor": {Kind: vault.DescriptorKey},
	}
	for from, first := range forms {
		for to, second := range forms {
			t.Run(from+" to "+to, func(t *testing.T) {
				t.Parallel()
				ring := newRing()
				p, _ := answering(with(newPlace(t), vault.IdentityVariable, identity), "a long passphrase")
				p.Keyring = ring
				mustAdd(t, p, "a", "b")
				p = rekeyed(t, p, first, hex.EncodeToString(seal.NewKey().Reveal()))
				before, copied := mustOpen(t, p), maps.Clone(ring.texts)
				keyFile, _ := os.ReadFile(keyOf(p))
				p = rekeyed(t, p, second, other)
				holds(t, p, "a", "b")
				v := mustOpen(t, p)
				if v.KeyID() == before.KeyID() {
					t.Error("the same key")
				}
				if d, _ := v.Find("a"); d.Revision != 1 {
					t.Errorf("revision %d", d.Revision)
				}
				if wantFile := to != "descriptor"; exists(keyOf(p)) != wantFile || exists(keyOf(p)+".next") {
					t.Errorf("a key file: %v", !wantFile)
				}
				if inRing := len(ring.texts); inRing != map[bool]int{true: 1}[to == "keyring"] {
					t.Errorf("%d keys in the keyring", inRing)
				}
				// The old key, put back, opens nothing.
				ring.texts = copied
				if keyFile != nil {
					write(t, keyOf(p), keyFile)
					if _, err := vault.Open(with(p, vault.KeyVariable, "")); err == nil {
						t.Error("the old key opens it")
					}
				}
				if strings.Contains(string(keyFile), hex.EncodeToString(vault.KeyOf(before).Reveal())) != (from == "plain") {
					t.Error("the key is in its file as it is, and should not be, or the other way round")
				}
			})
		}
	}
}

// rekeyed changes the key and returns the place with what it takes to open it.
func rekeyed(t *testing.T, p vault.Place, form vault.KeyForm, byDescriptor string) vault.Place {
	t.Helper()
	if form.Kind == vault.DescriptorKey {
		form.FD = handOver(t, byDescriptor)
	}
	if _, err := vault.Rekey(p, form); err != nil {
		t.Fatal(err)
	}
	if form.Kind != vault.DescriptorKey {
		return with(p, vault.KeyVariable, "")
	}
	again := p
	again.Env = func(name string) string { // a descriptor is good for one opening
		if name == vault.KeyVariable {
			return fmt.Sprintf("fd:%d", byFile(t, byDescriptor))
		}
		return p.Env(name)
	}
	return again
}

// byFile is handOver by a file's descriptor.
func byFile(t *testing.T, text string) int {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key")
	write(t, path, []byte(text))
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return int(f.Fd())
}

// TestRekey_KeepsTheWay: without a word the key is kept as it was.
func TestRekey_KeepsTheWay(t *testing.T) {
	t.Parallel()
	identity, recipient := newIdentity(t)
	p := with(newPlace(t), vault.IdentityVariable, identity)
	mustAdd(t, p, "a")
	for _, form := range []vault.KeyForm{{}, {Kind: vault.RecipientKey, To: vault.Recipients{Names: []string{recipient}}}, {}} {
		id, err := vault.Rekey(p, form)
		if err != nil || mustOpen(t, p).KeyID() != id {
			t.Fatalf("%v", err)
		}
	}
	if key := string(read(t, keyOf(p))); !strings.Contains(key, recipient) || !strings.Contains(key, "BEGIN AGE ENCRYPTED FILE") {
		t.Errorf("the key file: %s", key)
	}
	holds(t, p, "a")
}

func TestKey_Refusals(t *testing.T) {
	t.Parallel()
	identity, recipient := newIdentity(t)
	stranger, _ := newIdentity(t)
	p := newPlace(t)
	mustAdd(t, p, "a")
	ring := newRing()
	fails := func(what, says string, err error) {
		t.Helper()
		e, ok := errors.AsType[*bailey.Error](err)
		if !ok || e.Kind == bailey.Internal || !strings.Contains(e.Message, says) {
			t.Errorf("%s: %v", what, err)
		}
	}
	rekey := func(p vault.Place, form vault.KeyForm) error { _, err := vault.Rekey(p, form); return err }
	open := func(p vault.Place) error { _, err := vault.Open(p); return err }
	fails("no keyring", "no keyring can be reached", rekey(p, vault.KeyForm{Kind: vault.KeyringKey}))
	fails("no recipient", "recipient 1 is none of age's", rekey(p, vault.KeyForm{Kind: vault.RecipientKey, To: vault.Recipients{Names: []string{"ada"}}}))
	fails("nobody", "nobody is named", rekey(p, vault.KeyForm{Kind: vault.RecipientKey}))
	fails("nobody to ask for a new one", "nobody to ask", rekey(p, vault.KeyForm{Kind: vault.PassphraseKey}))
	fails("an unknown way", "unknown way", rekey(p, vault.KeyForm{Kind: "paper"}))
	holds(t, p, "a")

	if err := rekey(p, vault.KeyForm{Kind: vault.RecipientKey, To: vault.Recipients{Names: []string{recipient}}}); err != nil {
		t.Fatal(err)
	}
	fails("no identity", "is encrypted to an age identity", open(p))
	fails("a stranger's identity", "opens by none of the identities", open(with(p, vault.IdentityVariable, stranger)))
	fails("no file", "open the age identities", open(with(p, vault.IdentityVariable, stranger+"x")))
	fails("a key of its own", "holds no age identities", open(with(p, vault.IdentityVariable, keyOf(p))))
	if err := add(p, "b"); err == nil || !exists(keyOf(p)) {
		t.Errorf("another key was made: %v", err)
	}
	p = with(p, vault.IdentityVariable, identity)
	holds(t, p, "a")

	if err := rekey(p, vault.KeyForm{Kind: vault.PassphraseKey, To: vault.ByPassphrase(hidden("a long passphrase"))}); err != nil {
		t.Fatal(err)
	}
	fails("nobody to ask", "there is nobody to ask", open(p))
	wrong, tries := answering(p, "another passphrase")
	fails("a wrong passphrase", "does not open by that passphrase", open(wrong))
	if *tries != 1 {
		t.Errorf("asked %d times for one passphrase", *tries)
	}
	right, asked := answering(p, "a long passphrase")
	mustAdd(t, right, "b")
	if *asked != 1 {
		t.Errorf("asked %d times", *asked)
	}
	v := mustOpen(t, right)
	if _, err := v.Reopen(); err != nil || *asked != 2 {
		t.Errorf("asked %d times, %v", *asked, err)
	}

	right.Keyring = ring
	if err := rekey(right, vault.KeyForm{Kind: vault.KeyringKey}); err != nil {
		t.Fatal(err)
	}
	fails("no keyring to read", "no keyring can be reached", open(p))
	q := p
	q.Keyring = newRing()
	fails("another keyring", "the keyring has no key_", open(q))
	q.Keyring = &fakeRing{err: errors.New("locked")}
	fails("a locked keyring", "no keyring can be reached", open(q))
	q.Keyring = ring
	holds(t, q, "a", "b")
}
