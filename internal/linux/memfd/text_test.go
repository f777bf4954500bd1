package memfd_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/bailey-dev/bailey/internal/linux/memfd"
)

// TestReadText reads what Text made, and nothing that its maker could still
// change, or that reading could wait for.
func TestReadText(t *testing.T) {
	t.Parallel()
	f, err := memfd.Text("text", []byte("words"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if got, err := memfd.ReadText(f, 5); err != nil || string(got) != "words" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := memfd.ReadText(f, 4); err == nil {
		t.Error("a longer text was read")
	}
	if _, err := f.WriteAt([]byte("x"), 0); err == nil {
		t.Error("it was changed")
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close(); _ = w.Close() }()
	plain, err := os.Create(filepath.Join(t.TempDir(), "plain"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = plain.Close() }()
	for _, f := range []*os.File{r, plain} {
		if _, err := memfd.ReadText(f, 5); !errors.Is(err, memfd.ErrNotSealed) {
			t.Errorf("%s was read: %v", f.Name(), err)
		}
	}
}
