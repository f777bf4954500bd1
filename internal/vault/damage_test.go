package vault_test

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/secret"
	"github.com/bailey-dev/bailey/internal/vault"
)

// refused fails the test unless a vault does not open, with an error for
// people, and check finds a fault.
func refused(t *testing.T, p vault.Place, what string) {
	t.Helper()
	v, err := vault.Open(p)
	if err == nil {
		t.Fatalf("%s: opened, with %d secrets", what, len(v.List()))
	}
	if kind := bailey.KindOf(err); kind == bailey.Internal {
		t.Errorf("%s: %v is no error for people", what, err)
	}
	if strings.Contains(err.Error(), "canary") {
		t.Errorf("%s: the error says a value: %v", what, err)
	}
	if r, err := vault.Check(p); err == nil && len(r.Faults) == 0 {
		t.Errorf("%s: check finds nothing", what)
	}
}

// TestOpen_FindsEveryBitAndEveryEnd: a store with any one bit turned, or of
// which any part from the end is missing, does not open, and the whole one
// does.
func TestOpen_FindsEveryBitAndEveryEnd(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	mustAdd(t, p, "a", "b")
	whole := read(t, storeOf(p))
	for i := range whole {
		for bit := range 8 {
			other := bytes.Clone(whole)
			other[i] ^= 1 << bit
			write(t, storeOf(p), other)
			if _, err := vault.Open(p); bailey.KindOf(err) != bailey.Unavailable {
				t.Fatalf("bit %d of byte %d: %v", bit, i, err)
			}
		}
		write(t, storeOf(p), whole[:i])
		refused(t, p, "a store that ends early")
	}
	write(t, storeOf(p), append(bytes.Clone(whole), '\n'))
	refused(t, p, "a line more")
	write(t, storeOf(p), append(bytes.Clone(whole), whole...))
	refused(t, p, "twice")
	write(t, storeOf(p), whole)
	holds(t, p, "a", "b")
}

// TestOpen_FindsEveryBitOfTheKey, and of the mark either finds it or holds what
// it held.
func TestOpen_FindsEveryBitOfTheKey(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	mustAdd(t, p, "a")
	whole := read(t, keyOf(p))
	for i := range whole {
		for bit := range 8 {
			other := bytes.Clone(whole)
			other[i] ^= 1 << bit
			write(t, keyOf(p), other)
			v, err := vault.Open(p)
			if err == nil { // a blank became another, or a digit a capital
				if _, value, err := v.Get("a"); err != nil || string(value.Reveal()) != valueOf("a") {
					t.Fatalf("bit %d of byte %d: %v", bit, i, err)
				}
			} else if bailey.KindOf(err) == bailey.Internal {
				t.Fatalf("bit %d of byte %d: %v", bit, i, err)
			}
		}
	}
	write(t, keyOf(p), whole)
	holds(t, p, "a")
}

// TestOpen_FindsWhatTheHolderOfTheKeyForged: rows whose values were exchanged,
// or are of an older revision, or for other rules do not open, though the whole
// is signed.
func TestOpen_FindsWhatTheHolderOfTheKeyForged(t *testing.T) {
	t.Parallel()
	var old vault.Row
	for what, change := range map[string]func(rows []vault.Row) []vault.Row{
		"values exchanged": func(rows []vault.Row) []vault.Row {
			first := rows[0]
			rows[0].Take(rows[1])
			rows[1].Take(first)
			return rows
		},
		"an older value": func(rows []vault.Row) []vault.Row {
			rows[0].Take(old)
			return rows
		},
		"another revision": func(rows []vault.Row) []vault.Row {
			rows[0].Definition.Revision--
			return rows
		},
		"another host": func(rows []vault.Row) []vault.Row {
			rows[0].Definition.Rules[0].Hosts[0].Name = "evil.example.com"
			return rows
		},
		"another path": func(rows []vault.Row) []vault.Row {
			rows[0].Definition.Rules[0].Paths = []string{"/echo"}
			return rows
		},
		"another place": func(rows []vault.Row) []vault.Row {
			rows[0].Definition.Rules[0].Place = secret.Place{Kind: secret.Query, Name: "q"}
			return rows
		},
		"another id": func(rows []vault.Row) []vault.Row {
			rows[0].Definition.ID = secret.NewID()
			return rows
		},
		"more of it shown": func(rows []vault.Row) []vault.Row {
			rows[0].Definition.Keep = 8
			return rows
		},
	} {
		p := newPlace(t)
		mustAdd(t, p, "a", "b")
		if err := vault.Forge(p, func(rows []vault.Row) []vault.Row { old = rows[0]; return rows }); err != nil {
			t.Fatal(err)
		}
		err := vault.Update(p, now, func(e *vault.Edit) error {
			d, _ := e.Find("a")
			return e.Replace(d, hidden(valueOf("a")))
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := vault.Forge(p, change); err != nil {
			t.Fatal(err)
		}
		if _, value, err := mustOpen(t, p).Get("a"); err == nil || value.Len() > 0 {
			t.Errorf("%s: it opens", what)
		}
		if r, err := vault.Check(p); err != nil || len(r.Faults) == 0 || r.Faults[0].Name != "a" || r.Faults[0].Line != 2 {
			t.Errorf("%s: %v, %v", what, r.Faults, err)
		}
		if _, err := vault.Rekey(p, vault.KeyForm{}); err == nil {
			t.Errorf("%s: sealed anew", what)
		}
	}
}

// TestOpen_SaysWhere: the fault is named by its line and its secret.
func TestOpen_SaysWhere(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct{ change, says string }{
		"a value":     {`s/("name":"b".*"box":")A/${1}B/`, `store:3: b: it does not open`},
		"a host":      {`s/b\.example\.com/d.example.com/`, `store:3: b: it does not open`},
		"a date":      {`s/("name":"b".*)2026/${1}2027/`, `store:1: it was altered outside of the values`},
		"a name":      {`s/"name":"b"/"name":"x"/`, `store:1: it was altered outside of the values`},
		"no JSON":     {`s/"name":"b"/"name":"b/`, `store:3: the row cannot be read`},
		"a new field": {`s/"name":"b"/"name":"b","pin":1/`, `store:3: b: the row cannot be read (a newer bailey`},
		"two names":   {`s/"name":"b"/"name":"a"/`, `store:3: a: another row has the same name`},
		"owner":       {`s/("name":"b","owner":"uid:)/${1}7/`, `store:3: b: it is another user's`},
		"no vault":    {`s/^\{"bailey/{"other/`, `store:1: it does not begin as a vault`},
		"version":     {`s/"bailey_vault":1/"bailey_vault":9/`, `store:1: it is a vault of version 9`},
		"another key": {`s/"key":"key_.*?"/"key":"key_0000000000000000"/`, `store:1: it names another key`},
		"the code":    {`s/"mac":"../"mac":"zz/`, `store:1: it was altered outside of the values`},
	} {
		p := newPlace(t)
		mustAdd(t, p, "a", "b", "c")
		write(t, storeOf(p), []byte(edited(t, string(read(t, storeOf(p))), c.change)))
		_, err := vault.Open(p)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %s", what, err, c.says)
		}
	}
	p := newPlace(t)
	mustAdd(t, p, "a", "b", "c")
	lines := bytes.SplitAfter(read(t, storeOf(p)), []byte("\n"))
	write(t, storeOf(p), bytes.Join(append(lines[:2:2], lines[3:]...), nil))
	if _, err := vault.Open(p); err == nil || !strings.Contains(err.Error(), "store:1: it has 2 rows, and says that it had 3") {
		t.Errorf("a row that is missing: %v", err)
	}
}

// edited applies s/regular expression/replacement/.
func edited(t *testing.T, text, command string) string {
	t.Helper()
	parts := strings.Split(command, "/")
	out := regexp.MustCompile("(?m)"+parts[1]).ReplaceAllString(text, parts[2])
	if out == text {
		t.Fatalf("%s changes nothing", command)
	}
	return out
}

// TestOpen_FindsAnOlderStore: an older copy of the file, one of another
// history, another vault's, none, and one without what says how new it is. What
// is accepted opens.
func TestOpen_FindsAnOlderStore(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		do   func(t *testing.T, p vault.Place, older []byte)
		says string
		left []string
	}{
		"rolled back": {func(t *testing.T, p vault.Place, older []byte) {
			t.Helper()
			write(t, storeOf(p), older)
		}, "it was rolled back: it is of generation 1, the newest had 2", []string{"a"}},
		"another history": {func(t *testing.T, p vault.Place, older []byte) {
			t.Helper()
			newest := read(t, markOf(p))
			write(t, storeOf(p), older)
			if _, err := vault.Accept(p); err != nil {
				t.Fatal(err)
			}
			mustAdd(t, p, "c")
			write(t, markOf(p), newest)
		}, "it is another of generation 2", []string{"a", "c"}},
		"no mark": {func(t *testing.T, p vault.Place, _ []byte) {
			t.Helper()
			if err := os.Remove(markOf(p)); err != nil {
				t.Fatal(err)
			}
		}, "nothing says how new it has to be", []string{"a", "b"}},
		"no folder of the mark": {func(t *testing.T, p vault.Place, _ []byte) {
			t.Helper()
			if err := os.RemoveAll(p.StateDir); err != nil {
				t.Fatal(err)
			}
		}, "nothing says how new it has to be", []string{"a", "b"}},
		"gone": {func(t *testing.T, p vault.Place, _ []byte) {
			t.Helper()
			if err := os.Remove(storeOf(p)); err != nil {
				t.Fatal(err)
			}
		}, "store is gone: there was a vault of generation 2", nil},
	} {
		p := newPlace(t)
		mustAdd(t, p, "a")
		older := read(t, storeOf(p))
		mustAdd(t, p, "b")
		c.do(t, p, older)
		refused(t, p, what)
		_, err := vault.Open(p)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", what, err)
		}
		if err := add(p, "z"); err == nil {
			t.Errorf("%s: changed", what)
		}
		if r, err := vault.Accept(p); err != nil || r.Kept != "" {
			t.Errorf("%s: accept: %+v, %v", what, r, err)
		}
		holds(t, p, c.left...)
		mustAdd(t, p, "z")
		holds(t, p, append(slices.Clip(c.left), "z")...)
	}
}

// TestOpen_OfAnotherVault: what one user has in two places is not exchanged.
func TestOpen_OfAnotherVault(t *testing.T) {
	t.Parallel()
	p, o := newPlace(t), newPlace(t)
	mustAdd(t, p, "a")
	o = with(o, vault.KeyVariable, keyOf(p)) // the same key for both
	mustAdd(t, o, "b")
	mustAdd(t, o, "c")
	write(t, storeOf(p), read(t, storeOf(o)))
	if _, err := vault.Open(p); err == nil || !strings.Contains(err.Error(), "it is another vault than the one that was here") {
		t.Errorf("%v", err)
	}
}

// TestAccept_LosesNothing: of a damaged vault the secrets stay that open, the
// file is kept as it was, and what was accepted is newer than what was before.
func TestAccept_LosesNothing(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		change string
		left   []string
	}{
		"a value":     {`s/("name":"b".*"box":")A/${1}B/`, []string{"a", "c"}},
		"a row":       {`s/"name":"b"/"name":"b/`, []string{"a", "c"}},
		"the head":    {`s/^\{"bailey/{"other/`, []string{"a", "b", "c"}},
		"another key": {`s/"key":"key_.*?"/"key":"key_0000000000000000"/`, []string{"a", "b", "c"}},
		"the code":    {`s/"mac":"../"mac":"zz/`, []string{"a", "b", "c"}},
	} {
		p := newPlace(t)
		mustAdd(t, p, "a", "b", "c")
		whole := read(t, storeOf(p))
		damaged := []byte(edited(t, string(whole), c.change))
		write(t, storeOf(p), damaged)
		r, err := vault.Accept(p)
		if err != nil || len(r.Faults) > 0 || !bytes.Equal(read(t, r.Kept), damaged) {
			t.Errorf("%s: %+v, %v", what, r, err)
			continue
		}
		holds(t, p, c.left...)
		write(t, storeOf(p), whole)
		refused(t, p, what+": the one before")
	}
	p := newPlace(t)
	mustAdd(t, p, "a")
	whole := read(t, storeOf(p))
	if r, err := vault.Accept(p); err != nil || r.Kept != "" || r.Secrets != 1 || !bytes.Equal(whole, read(t, storeOf(p))) {
		t.Errorf("a good vault: %+v, %v", r, err)
	}
}

// FuzzOpen: no store but the one that was written opens, and none does anything
// but be refused.
func FuzzOpen(f *testing.F) {
	p := placeIn(f.TempDir())
	if err := add(p, "a", "b"); err != nil {
		f.Fatal(err)
	}
	whole, err := os.ReadFile(storeOf(p))
	if err != nil {
		f.Fatal(err)
	}
	lines := bytes.SplitAfter(whole, []byte("\n"))
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add(bytes.Join([][]byte{lines[0], lines[2], lines[1], lines[3]}, nil))
	f.Add([]byte("{}\n{}\n"))
	f.Add([]byte(`{"bailey_vault":1,"key":""}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		write(t, storeOf(p), data)
		_, err := vault.Open(p)
		if (err == nil) != bytes.Equal(data, whole) {
			t.Fatalf("%v", err)
		}
		if err != nil && bailey.KindOf(err) != bailey.Unavailable {
			t.Fatalf("%v", err)
		}
		_ = p.Names()
	})
}
