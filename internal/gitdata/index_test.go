package gitdata_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey/internal/gitdata"
)

const (
	plainFile = 0o100644
	linkFile  = 0o120000
	gitlink   = 0o160000
	sparse    = 0o040000
)

type indexEntry struct {
	path string
	mode uint32
}

// rawIndex writes an index as git does, without git's checks.
func rawIndex(version uint32, hash int, entries []indexEntry, extensions ...string) string {
	out := binary.BigEndian.AppendUint32([]byte("DIRC"), version)
	out = binary.BigEndian.AppendUint32(out, uint32(len(entries)))
	for _, e := range entries {
		out = append(out, rawEntry(version, hash, e)...)
	}
	for _, x := range extensions {
		out = append(out, x...)
	}
	return string(out) + strings.Repeat("\x00", hash)
}

func rawEntry(version uint32, hash int, e indexEntry) []byte {
	b := binary.BigEndian.AppendUint32(bytes.Repeat([]byte{0}, 24), e.mode)
	b = append(b, bytes.Repeat([]byte{0}, 12+hash)...)
	b = binary.BigEndian.AppendUint16(b, uint16(min(len(e.path), 0xfff)))
	if version == 4 {
		b = append(b, 0) // nothing is stripped: what the first name of a block says
		return append(append(b, e.path...), 0)
	}
	b = append(b, e.path...)
	return append(b, bytes.Repeat([]byte{0}, 8-len(b)%8)...)
}

func extension(name, body string) string {
	return name + string(binary.BigEndian.AppendUint32(nil, uint32(len(body)))) + body
}

func numbers(list ...uint32) string {
	var b []byte
	for _, n := range list {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	return string(b)
}

func TestParseIndex_TellsWhatGitNeverWrites(t *testing.T) {
	t.Parallel()
	bad := []indexEntry{
		{".git/evil", gitlink},
		{".git/hooks/post-checkout", plainFile},
		{"../outside", plainFile},
		{"/abs", plainFile},
		{"a//b", plainFile},
		{"a/./b", plainFile},
		{"a/..", plainFile},
		{".GiT/config", plainFile},
		{"a/git~1/x", plainFile},
		{".git. ./x", plainFile},
		{".git::$INDEX_ALLOCATION/x", plainFile},
		{`a\.git\x`, plainFile},
		{".g\u200cit/x", plainFile},
		{".gitmodules", linkFile},
		{"", plainFile},
		{"a/", plainFile},
	}
	good := []indexEntry{
		{"a", plainFile},
		{".gitignore", plainFile},
		{".gitmodules", plainFile},
		{"a/.gitkeep", plainFile},
		{"sub", gitlink},
		{"dir/", sparse},
		{"a..b/...", plainFile},
		{"git/x", plainFile},
		{"é/\u200c", plainFile},
		{strings.Repeat("x", 5000), plainFile},
		{"a.git/x", plainFile},
	}
	for _, version := range []uint32{2, 3} {
		for _, hash := range []int{20, 32} {
			for _, e := range bad {
				got, err := gitdata.ParseIndex([]byte(rawIndex(version, hash, []indexEntry{e})), hash)
				if err != nil || len(got.Bad) != 1 || got.Bad[0] != e.path {
					t.Errorf("%d %d %q: %+v %v", version, hash, e.path, got, err)
				}
			}
			got, err := gitdata.ParseIndex([]byte(rawIndex(version, hash, good)), hash)
			if diff := cmp.Diff(gitdata.Index{Gitlinks: []string{"sub"}}, got); diff != "" || err != nil {
				t.Errorf("%d %d: %s %v", version, hash, diff, err)
			}
		}
	}
	got, err := gitdata.ParseIndex([]byte(rawIndex(4, 20, []indexEntry{{".git/x", plainFile}})), 20)
	if err != nil || len(got.Bad) != 1 {
		t.Errorf("version 4: %+v %v", got, err)
	}
}

// TestParseIndex_OneReadingOnly: what two readers could take for two things is
// refused; the same without the contradiction is not.
func TestParseIndex_OneReadingOnly(t *testing.T) {
	t.Parallel()
	entries := []indexEntry{{"a", plainFile}, {"b", plainFile}}
	const first, second, end = 12, 12 + 64, 12 + 2*64
	eoie := func(at uint32) string { return extension("EOIE", numbers(at)+strings.Repeat("\x00", 20)) }
	for name, c := range map[string]struct {
		raw string
		ok  bool
	}{
		"plain":            {rawIndex(2, 20, entries), true},
		"optional":         {rawIndex(2, 20, entries, extension("TREE", "x")), true},
		"sparse":           {rawIndex(2, 20, entries, extension("sdir", "")), true},
		"unknown":          {rawIndex(2, 20, entries, extension("evil", "")), false},
		"cut off":          {rawIndex(2, 20, entries, "TREE\xff\xff\xff\xff"), false},
		"end":              {rawIndex(2, 20, entries, eoie(end)), true},
		"another end":      {rawIndex(2, 20, entries, eoie(end+8)), false},
		"blocks":           {rawIndex(2, 20, entries, extension("IEOT", numbers(1, first, 1, second, 1))), true},
		"other blocks":     {rawIndex(2, 20, entries, extension("IEOT", numbers(1, first, 1, second+8, 1))), false},
		"fewer blocks":     {rawIndex(2, 20, entries, extension("IEOT", numbers(1, first, 1))), false},
		"link":             {rawIndex(2, 20, append(entries, indexEntry{"", plainFile}), extension("link", strings.Repeat("\x01", 20))), true},
		"shorter name":     {strings.Replace(rawIndex(2, 20, []indexEntry{{"ab", plainFile}}), "\x02ab", "\x01ab", 1), false},
		"longer name":      {strings.Replace(rawIndex(2, 20, []indexEntry{{"ab", plainFile}}), "\x02ab", "\x04ab", 1), false},
		"version":          {rawIndex(5, 20, nil), false},
		"too many entries": {strings.Replace(rawIndex(2, 20, entries), "\x00\x00\x00\x02\x00\x00\x00\x02", "\x00\x00\x00\x02\x00\x00\xff\xff", 1), false},
	} {
		got, err := gitdata.ParseIndex([]byte(c.raw), 20)
		if c.ok != (err == nil) || err != nil && !errors.Is(err, gitdata.ErrIndex) || len(got.Bad) > 0 {
			t.Errorf("%s: %+v %v", name, got, err)
		}
		if want := "sharedindex." + strings.Repeat("01", 20); name == "link" && got.Shared != want {
			t.Errorf("shared index %q", got.Shared)
		}
	}
}

// TestParseIndex_ReadsWhatGitWrites is the positive twin, by the real git.
func TestParseIndex_ReadsWhatGitWrites(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"sha1", "sha256"} {
		for _, config := range []string{"index.version=2", "index.version=3", "index.version=4", "index.threads=2", "core.splitIndex=true", "core.untrackedCache=true"} {
			t.Run(format+" "+config, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				run := func(args ...string) {
					cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", config}, args...)...)
					if out, err := cmd.CombinedOutput(); err != nil {
						t.Fatalf("git %v: %v %s", args, err, out)
					}
				}
				run("init", "-q", "--object-format="+format)
				for i := range 40 {
					if err := os.MkdirAll(filepath.Join(dir, "d"), 0o755); err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(fmt.Sprintf("%s/d/file-%d", dir, i), nil, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				run("add", ".")
				run("add", "-N", ".")
				run("status")
				data, err := os.ReadFile(filepath.Join(dir, ".git/index"))
				if err != nil {
					t.Fatal(err)
				}
				hash := map[string]int{"sha1": 20, "sha256": 32}[format]
				if got, err := gitdata.ParseIndex(data, hash); err != nil || len(got.Bad) > 0 {
					t.Errorf("%+v %v", got, err)
				}
			})
		}
	}
}

func FuzzParseIndex(f *testing.F) {
	for _, version := range []uint32{2, 3, 4} {
		f.Add([]byte(rawIndex(version, 20, []indexEntry{{"a", plainFile}, {"b/c", gitlink}}, extension("IEOT", numbers(1, 12, 2)), extension("link", strings.Repeat("\x01", 20)))))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, hash := range []int{20, 32} {
			if got, err := gitdata.ParseIndex(data, hash); err != nil && !errors.Is(err, gitdata.ErrIndex) {
				t.Errorf("%+v %v", got, err)
			}
		}
	})
}
