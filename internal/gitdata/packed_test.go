package gitdata_test

import (
	"bytes"
	"testing"

	"github.com/bailey-dev/bailey/internal/gitdata"
)

const packedText = "# pack-refs with: peeled fully-peeled sorted \n" +
	"1111111111111111111111111111111111111111 refs/heads/a\n" +
	"2222222222222222222222222222222222222222 refs/heads/ab\n" +
	"3333333333333333333333333333333333333333 refs/tags/v1\n" +
	"^4444444444444444444444444444444444444444\n" +
	"5555555555555555555555555555555555555555 refs/tags/v2"

func TestFindPackedRef(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ id, rest string }{
		"refs/heads/a":  {"1", "ab v1 ^ v2"},
		"refs/heads/ab": {"2", "a v1 ^ v2"},
		"refs/tags/v1":  {"3", "a ab v2"},
		"refs/tags/v2":  {"5", "a ab v1 ^"},
		"heads/a":       {"", "a ab v1 ^ v2"},
		"refs/heads":    {"", "a ab v1 ^ v2"},
		"sorted ":       {"", "a ab v1 ^ v2"},
	} {
		got := gitdata.FindPackedRef([]byte(packedText), name)
		if got.ID != string(bytes.Repeat([]byte(c.id), 40)) {
			t.Errorf("%s: %+v", name, got)
		}
		var rest []string
		left := gitdata.WithoutPackedRef([]byte(packedText), name)
		for _, other := range []string{"refs/heads/a\n", "refs/heads/ab\n", "refs/tags/v1\n", "^4444", "refs/tags/v2"} {
			if bytes.Contains(left, []byte(other)) {
				rest = append(rest, other)
			}
		}
		if want := len(bytes.Fields([]byte(c.rest))); len(rest) != want {
			t.Errorf("without %s: %q", name, left)
		}
	}
}

func FuzzFindPackedRef(f *testing.F) {
	f.Add([]byte(packedText), "refs/tags/v1")
	f.Fuzz(func(t *testing.T, data []byte, name string) {
		p := gitdata.FindPackedRef(data, name)
		if p.ID != "" && (p.Start >= p.End || p.End > len(data)) {
			t.Errorf("%+v", p)
		}
		gitdata.WithoutPackedRef(data, name)
	})
}
