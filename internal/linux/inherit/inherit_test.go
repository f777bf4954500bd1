package inherit_test

import (
	"os"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey/internal/linux/inherit"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	if err := inherit.Check(0, 2); err != nil {
		t.Error(err)
	}
	f, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const never = 1 << 19
	if err := inherit.Check(int(f.Fd()), int(f.Fd())); err != nil {
		t.Error(err)
	}
	if err := inherit.Check(never, never); err == nil || !strings.Contains(err.Error(), "524288") {
		t.Errorf("a descriptor that is not there: %v", err)
	}
}

// TestDocument: one document, whole, with known fields.
func TestDocument(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		`{"a":1}`: true, " {\"a\":1}\n": true, `{"a":1} {}`: false, `{"b":1}`: false, `{"a":1`: false, ``: false, `{"a":"` + strings.Repeat("x", 100) + `"}`: false,
	} {
		var v struct {
			A any `json:"a"`
		}
		if err := inherit.Document(strings.NewReader(text), 64, &v); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}
