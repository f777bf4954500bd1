package gitdata_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey/internal/gitdata"
)

// gitIgnores asks the real git about files of an empty repository.
func gitIgnores(tb testing.TB, rules string, paths []string) map[string]bool {
	tb.Helper()
	dir := tb.TempDir()
	run := func(stdin string, args ...string) string {
		tb.Helper()
		cmd := exec.CommandContext(tb.Context(), "git", args...)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		out, _ := cmd.Output() // 1: none is ignored
		return string(out)
	}
	run("", "init", "-q")
	if err := os.WriteFile(filepath.Join(dir, ".gitignore"), []byte(rules), 0o600); err != nil {
		tb.Fatal(err)
	}
	for _, p := range paths {
		_ = os.MkdirAll(filepath.Join(dir, filepath.Dir(p)), 0o700)
		_ = os.WriteFile(filepath.Join(dir, p), nil, 0o600)
	}
	got := map[string]bool{}
	for p := range strings.SplitSeq(run(strings.Join(paths, "\x00")+"\x00", "check-ignore", "--no-index", "-z", "--stdin"), "\x00") {
		got[p] = true
	}
	return got
}

// ignores is what a walk makes of the rules: a folder that is ignored ends it.
func ignores(rules gitdata.Ignore, path string) bool {
	for i := 0; i < len(path); i++ {
		if path[i] == '/' {
			if ignored, _ := rules.Match(path[:i], true); ignored {
				return true
			}
		}
	}
	ignored, _ := rules.Match(path, false)
	return ignored
}

func ignorePaths() []string {
	return []string{
		"a", "b", "a.o", "x/a.o", "foo/bar", "foo/bar/baz", "foo/x/bar", "foo/x/y/bar", "x/foo/bar", "build/out", "x/build/out",
		"build2/f", "a b", "a]b", "-", "A", "é", "*x", "foo*", "deep/1/2/3/4/a.txt", "node_modules/m/i.js", "[x]", "a\\b",
		"doc/frotz/f", "x/doc/frotz/f", "foobar", "fooXbar", "!important", "#hash", "trailing ", "x/y/z", "y.tmp.o", "log.1",
	}
}

func TestIgnore_SaysWhatGitSays(t *testing.T) {
	t.Parallel()
	for _, rules := range []string{
		"*.o\n", "/a\n", "foo/bar\n", "foo/**/bar\n", "**/bar\n", "foo/**\n", "build/\n", "/build/\n", "a\\ b\n", "trailing\\ \n", "a   \n",
		"[a-c]\n", "[!a-c]\n", "[^a]\n", "[]x]\n", "a[]]b\n", "[[:upper:]]\n", "[[:nope:]]\n", "[a\n", "\\*x\n", "foo\\*\n", "*\n!a\n!foo/\n",
		"!a\na\n", "a\n!a\n", "\\!important\n", "\\#hash\n", "#a\nb\n", "x/\n!x/a.o\n", "a\r\nb\r\n", "**\n", "***\n", "foo**bar\n", "**foo\n",
		"foo**/bar\n", "**/\n", "/**\n", "/\n", "!\n", "a\\\n", "doc/frotz/\n", "doc/frotz\n", "/*\n!/foo\n/foo/*\n!/foo/bar\n", "[\\]x]\n",
		"a/**/b/**/c\n", "*.tmp.*\n", "log.[0-9]\n", "log.[0-9-]\n", "[--0]\n", "?\n", "f?o/bar\n", "foo?bar\n", "\xef\xbb\xbfa\n", "é\n", "x/*/z\n",
		"[[:alpha:]\n", "[[:a]\n", "[a-]\n", "[\\a-\\c]\n", "deep/**/a.txt\n", "deep/*/a.txt\n", "**/**/a.txt\n", "\\[x\\]\n", "a\\\\b\n",
	} {
		t.Run(rules, func(t *testing.T) {
			t.Parallel()
			want := gitIgnores(t, rules, ignorePaths())
			list := gitdata.ParseIgnore([]byte(rules))
			for _, p := range ignorePaths() {
				if got := ignores(list, p); got != want[p] {
					t.Errorf("%q: %v, git says %v", p, got, want[p])
				}
			}
		})
	}
}

func FuzzParseIgnore(f *testing.F) {
	f.Add([]byte("*.o\n!a/**/b\n[a-z]\n"), "a/x/b")
	f.Add([]byte("*a*a*a*a*a*a*a*a*b\n"), "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")
	f.Add([]byte("[[:alpha:]-\\]\n"), "]")
	f.Fuzz(func(_ *testing.T, data []byte, path string) {
		list := gitdata.ParseIgnore(data)
		list.Match(path, true)
		list.Match(path, false)
	})
}
