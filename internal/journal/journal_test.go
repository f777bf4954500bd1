package journal_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/journal"
)

const box = bailey.SandboxID("sbx_0123456789abcdef")

func create(t *testing.T, state, name string, limit int64) *journal.Writer {
	t.Helper()
	w, err := journal.Create(state, os.Getuid(), journal.Run{Name: name, ID: box, Started: time.Now(), Limit: limit})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func open(t *testing.T, state, name string) *journal.Reader {
	t.Helper()
	r, err := journal.Open(state, os.Getuid(), name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// all returns what there is to read, and how much is missing.
func all(t *testing.T, r *journal.Reader) (out []byte, skipped int64) {
	t.Helper()
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out, skipped
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, rec.Data...)
		skipped += rec.Skipped
	}
}

// TestWriter_KeepsToTheLimit is row A9: what is kept and what is missing are
// known to the byte, at the limit and one byte above it.
func TestWriter_KeepsToTheLimit(t *testing.T) {
	const limit = 80 << 10
	text := make([]byte, limit)
	for i := range text {
		text[i] = byte('a' + i/7%26)
	}
	for name, c := range map[string]struct {
		more    string
		missing bool
	}{"at": {"", false}, "one above": {"!", true}, "twice": {string(text), true}} {
		t.Run(name, func(t *testing.T) {
			state := t.TempDir()
			w := create(t, state, "a", limit)
			whole := append(bytes.Clone(text), c.more...)
			for piece := range slices.Chunk(whole, 1000) {
				if err := w.Write(journal.Stdout, piece); err != nil {
					t.Fatal(err)
				}
			}
			got, skipped := all(t, open(t, state, "a"))
			if skipped > 0 != c.missing {
				t.Errorf("missing %d bytes", skipped)
			}
			if int(skipped)+len(got) != len(whole) || len(got) > limit || len(got) < limit*3/4 {
				t.Errorf("kept %d and missing %d of %d", len(got), skipped, len(whole))
			}
			if !bytes.HasSuffix(whole, got) {
				t.Error("what is kept is not the end of what was written")
			}
		})
	}
}

func TestWriter_IsBoundedInTinyPieces(t *testing.T) {
	state := t.TempDir()
	w := create(t, state, "a", journal.LeastLimit)
	for range 40_000 {
		if err := w.Write(journal.Stdout, []byte{'x'}); err != nil {
			t.Fatal(err)
		}
	}
	size := int64(0)
	err := filepath.Walk(state, func(_ string, fi os.FileInfo, err error) error {
		if err == nil && fi.Mode().IsRegular() {
			size += fi.Size()
			if fi.Mode().Perm() != 0o600 {
				t.Errorf("%s has mode %v", fi.Name(), fi.Mode())
			}
		}
		return err
	})
	if err != nil || size > 5*journal.LeastLimit/2 {
		t.Errorf("%d bytes on disk: %v", size, err)
	}
	if got, skipped := all(t, open(t, state, "a")); len(got)+int(skipped) != 40_000 || skipped == 0 {
		t.Errorf("kept %d, missing %d", len(got), skipped)
	}
}

func TestReader_FollowsAcrossFiles(t *testing.T) {
	state := t.TempDir()
	w := create(t, state, "a", journal.LeastLimit)
	r := open(t, state, "a")
	var got, want []byte
	for i := range 300 {
		p := bytes.Repeat([]byte{byte('a' + i%26)}, 700)
		want = append(want, p...)
		if err := w.Write(journal.Stdout, p); err != nil {
			t.Fatal(err)
		}
		out, skipped := all(t, r)
		if got = append(got, out...); skipped != 0 {
			t.Fatalf("missing %d", skipped)
		}
	}
	if !bytes.Equal(got, want) {
		t.Errorf("read %d of %d bytes", len(got), len(want))
	}
	if !r.Lasts() {
		t.Error("it is said to be over")
	}
	if err := w.End(journal.End{Code: 7}); err != nil {
		t.Fatal(err)
	}
	if e, ok := r.End(); !ok || e.Code != 7 || r.Lasts() {
		t.Error(e, ok, r.Lasts())
	}
}

func TestCreate_PrunesWhatHasEnded(t *testing.T) {
	state := t.TempDir()
	lasting := create(t, state, "lasting", 0)
	for i := range 25 {
		w := create(t, state, "n"+strings.Repeat("x", i), 0)
		if err := w.End(journal.End{}); err != nil {
			t.Fatal(err)
		}
	}
	old := time.Now().Add(-30 * 24 * time.Hour)
	for _, name := range []string{"lasting", "nxxxxxxxxxxxxxxxxxxxxxxxx"} {
		if err := os.Chtimes(filepath.Join(journal.Dir(state), name+"."+string(box)), old, old); err != nil {
			t.Fatal(err)
		}
	}
	last := create(t, state, "last", 0)
	names := journal.Names(state, os.Getuid())
	if len(names) != 22 || !slices.Contains(names, "lasting") || slices.Contains(names, "nxxxxxxxxxxxxxxxxxxxxxxxx") {
		t.Error(len(names), names)
	}
	if err := errors.Join(last.Discard(), lasting.End(journal.End{})); err != nil {
		t.Fatal(err)
	}
	if slices.Contains(journal.Names(state, os.Getuid()), "last") {
		t.Error("it was not discarded")
	}
}

func TestOpen_FollowsNoLink(t *testing.T) {
	state := t.TempDir()
	w := create(t, state, "a", 0)
	dir := filepath.Join(journal.Dir(state), "a."+string(box))
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("bailey-log 1 0\n1 o 6\nsecret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(dir, "000002.log")); err != nil {
		t.Fatal(err)
	}
	r := open(t, state, "a")
	for range 3 {
		if rec, err := r.Next(); err == nil && strings.Contains(string(rec.Data), "secret") {
			t.Error("it followed a link")
		}
	}
	_ = w.End(journal.End{})
}

func TestText_IsHarmless(t *testing.T) {
	for in, want := range map[string]string{
		"plain\n":                              "plain\n",
		"\x1b[31mred\x1b[m\r\n":                "red\n",
		"10%\r50%\r100%\n":                     "100%\n",
		"\x1b]0;evil\aA\x1b]52;c;eA==\aZ\n":    "AZ\n",
		"\x1b[2J\x1b[Hx\x1b(B\ty\n":            "x\ty\n",
		"\x1b]8;;https://example.com\x1b\\l\n": "l\n",
		"ab\bc\n":                              "ac\n",
		"\x1b[?1049h\x1b[>1u\x05\x18no end":    "no end",
		"\u202eevil\n":                         "\\u202eevil\n",
		"\xc2\x9b31mC1\n":                      "\ufffd31mC1\n",
	} {
		for size := range 4 {
			var text journal.Text
			var got strings.Builder
			for piece := range slices.Chunk([]byte(in), size*size+1) {
				text.Lines(piece, func(l string) { got.WriteString(l + "\n") })
			}
			got.WriteString(text.Rest())
			if got.String() != want {
				t.Errorf("%q, in pieces of %d: %q, want %q", in, size*size+1, got.String(), want)
			}
		}
	}
}
