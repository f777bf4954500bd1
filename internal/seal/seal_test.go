package seal_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey/internal/seal"
)

const canary = "canary-7f3a9c-value"

var bound = seal.Bound{ID: "sec_0123456789abcdef", Owner: "uid:1000", Rules: [32]byte{1, 2, 3}, Revision: 7}

func sealed(t *testing.T, k seal.Key, value string, to seal.Bound) []byte {
	t.Helper()
	box, err := k.Seal(seal.NewSecret([]byte(value)), to)
	if err != nil {
		t.Fatal(err)
	}
	return box
}

// TestHidden_CannotBePrinted prints a secret and a key in every way there is,
// alone and inside of other values.
func TestHidden_CannotBePrinted(t *testing.T) {
	t.Parallel()
	raw := bytes.Repeat([]byte("K3y!"), seal.KeySize/4)
	key, err := seal.ParseKey(raw)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		hidden any
		value  string
	}{
		"secret": {seal.NewSecret([]byte(canary)), canary},
		"key":    {key, string(raw)},
	} {
		type around struct {
			Public, private any
			Map             map[string]any
			Pointer         *any
		}
		held := around{c.hidden, c.hidden, map[string]any{"x": c.hidden}, &c.hidden}
		var out bytes.Buffer
		for _, v := range []any{c.hidden, held, &held, []any{c.hidden}, fmt.Errorf("x: %v", c.hidden)} {
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T", "%p"} {
				_, _ = fmt.Fprintf(&out, verb+"\n", v)
			}
			_, _ = fmt.Fprintln(&out, v)
			if b, err := json.Marshal(v); err == nil {
				out.Write(b)
			}
			slog.New(slog.NewTextHandler(&out, nil)).InfoContext(t.Context(), "x", slog.Any("v", v))
			slog.New(slog.NewJSONHandler(&out, nil)).InfoContext(t.Context(), "x", slog.Any("v", v))
		}
		text := strings.ToLower(out.String())
		for _, form := range []string{"%s", "%x", "%q", "%d"} {
			if found := strings.Trim(strings.ToLower(fmt.Sprintf(form, c.value)), `"[]`); strings.Contains(text, found) {
				t.Errorf("%s: printed as %s", name, found)
			}
		}
		if list := strings.Trim(fmt.Sprintf("%d", []byte(c.value)), "[]"); strings.Contains(text, list) {
			t.Errorf("%s: its bytes are printed", name)
		}
	}
	// The twin: what is revealed is the value, and is found.
	if got := string(key.Reveal()); got != string(raw) {
		t.Errorf("revealed %q", got)
	}
}

func TestSecret_IsNotReadFromText(t *testing.T) {
	t.Parallel()
	var s seal.Secret
	if err := json.Unmarshal([]byte(`"[secret]"`), &s); err == nil {
		t.Error("what was printed is taken for a value")
	}
}

func TestSecret_EqualAndWipe(t *testing.T) {
	t.Parallel()
	a, b := seal.NewSecret([]byte("same")), seal.NewSecret([]byte("same"))
	copied := a
	if !a.Equal(b) || a.Equal(seal.NewSecret([]byte("sama"))) || a.Equal(seal.Secret{}) || !(seal.Secret{}).Equal(seal.NewSecret(nil)) {
		t.Error("equality")
	}
	a.Wipe()
	if copied.Len() != 0 || b.Len() != 4 {
		t.Error("a copy outlives the wiping, or another value does not")
	}
}

// TestKey_OpensWhatItSealed for values of every length up to some.
func TestKey_OpensWhatItSealed(t *testing.T) {
	t.Parallel()
	k := seal.NewKey()
	again, err := seal.ParseKey(k.Reveal())
	if err != nil || again.ID() != k.ID() {
		t.Fatalf("%v, %s", err, again.ID())
	}
	for n := range 300 {
		value := make([]byte, n)
		_, _ = rand.Read(value)
		got, err := again.Open(sealed(t, k, string(value), bound), bound)
		if err != nil || !bytes.Equal(got.Reveal(), value) {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
	if bytes.Equal(sealed(t, k, canary, bound), sealed(t, k, canary, bound)) {
		t.Error("the same box twice")
	}
}

// TestKey_OpensNothingElse: a box of which any bit, its end or its beginning is
// another, one that is bound to something else, and one of another key.
func TestKey_OpensNothingElse(t *testing.T) {
	t.Parallel()
	k := seal.NewKey()
	box := sealed(t, k, canary, bound)
	refuses := func(what string, k seal.Key, box []byte, to seal.Bound) {
		t.Helper()
		got, err := k.Open(box, to)
		if !errors.Is(err, seal.ErrBox) || got.Len() != 0 {
			t.Errorf("%s: %v", what, err)
		}
	}
	for i := range box {
		for bit := range 8 {
			other := bytes.Clone(box)
			other[i] ^= 1 << bit
			refuses(fmt.Sprintf("bit %d of byte %d", bit, i), k, other, bound)
		}
		refuses(fmt.Sprintf("the first %d bytes", i), k, box[:i], bound)
		refuses(fmt.Sprintf("without the first %d bytes", i+1), k, box[i+1:], bound)
	}
	refuses("more at the end", k, append(bytes.Clone(box), 0), bound)
	refuses("another key", seal.NewKey(), box, bound)
	for what, change := range map[string]func(*seal.Bound){
		"another id":           func(b *seal.Bound) { b.ID = "sec_0123456789abcdee" },
		"another owner":        func(b *seal.Bound) { b.Owner = "uid:1001" },
		"no owner":             func(b *seal.Bound) { b.Owner = "" },
		"other rules":          func(b *seal.Bound) { b.Rules[31] ^= 1 },
		"an older revision":    func(b *seal.Bound) { b.Revision-- },
		"a newer revision":     func(b *seal.Bound) { b.Revision++ },
		"owner moved into id":  func(b *seal.Bound) { b.ID, b.Owner = b.ID+b.Owner[:1], b.Owner[1:] },
		"id moved into owner":  func(b *seal.Bound) { b.ID, b.Owner = b.ID[:len(b.ID)-1], b.ID[len(b.ID)-1:]+b.Owner },
		"id and owner swapped": func(b *seal.Bound) { b.ID, b.Owner = b.Owner, b.ID },
	} {
		to := bound
		change(&to)
		refuses(what, k, box, to)
	}
	if got, err := k.Open(box, bound); err != nil || string(got.Reveal()) != canary {
		t.Errorf("the twin: %v", err)
	}
}

func TestKey_MAC(t *testing.T) {
	t.Parallel()
	k := seal.NewKey()
	data := []byte("a line\n")
	mac := k.MAC("store", data)
	if len(mac) != 32 || !k.Verify("store", data, mac) {
		t.Fatal("it does not verify")
	}
	if k.Verify("mark", data, mac) || seal.NewKey().Verify("store", data, mac) || k.Verify("store", data[1:], mac) || k.Verify("store", data, mac[:31]) || k.Verify("store", data, nil) {
		t.Error("another label, key, data or code verifies")
	}
	for i := range data {
		for bit := range 8 {
			other := bytes.Clone(data)
			other[i] ^= 1 << bit
			if k.Verify("store", other, mac) {
				t.Errorf("bit %d of byte %d", bit, i)
			}
		}
	}
}

// TestKey_ZeroDoesNothing: a key that nobody set neither seals nor verifies.
func TestKey_ZeroDoesNothing(t *testing.T) {
	t.Parallel()
	var none seal.Key
	if box, err := none.Seal(seal.NewSecret([]byte(canary)), bound); err == nil || box != nil {
		t.Error("it seals")
	}
	if _, err := none.Open(sealed(t, seal.NewKey(), canary, bound), bound); err == nil {
		t.Error("it opens")
	}
	if none.MAC("x", nil) != nil || none.Verify("x", nil, nil) || none.ID() != "" || none.Reveal() != nil {
		t.Error("it has a code, an id or bytes")
	}
	if _, err := seal.NewKey().Seal(seal.NewSecret([]byte(canary)), seal.Bound{}); err == nil {
		t.Error("a value is sealed for nobody")
	}
	for _, n := range []int{0, seal.KeySize - 1, seal.KeySize + 1} {
		if _, err := seal.ParseKey(make([]byte, n)); err == nil {
			t.Errorf("a key of %d bytes", n)
		}
	}
}

func TestKey_Wipe(t *testing.T) {
	t.Parallel()
	k := seal.NewKey()
	box, copied := sealed(t, k, canary, bound), k
	k.Wipe()
	if _, err := copied.Open(box, bound); err == nil {
		t.Error("a copy of a wiped key opens")
	}
}

func FuzzOpen(f *testing.F) {
	k := seal.NewKey()
	box, err := k.Seal(seal.NewSecret([]byte(canary)), bound)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(box, "sec_0123456789abcdef", "uid:1000", uint64(7))
	f.Add([]byte{1}, "", "", uint64(0))
	f.Fuzz(func(t *testing.T, b []byte, id, owner string, revision uint64) {
		got, err := k.Open(b, seal.Bound{ID: id, Owner: owner, Revision: revision})
		if err == nil || got.Len() != 0 {
			t.Fatalf("opened: the rules of the one box that there is were not named")
		}
	})
}
