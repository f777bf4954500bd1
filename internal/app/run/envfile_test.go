package run_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/app/run"
)

// TestEnvFile_OfTheWorkspaceIsNotTheCallersWord: base holds the caller's own
// files, base/ws is the workspace.
func TestEnvFile_OfTheWorkspaceIsNotTheCallersWord(t *testing.T) {
	t.Parallel()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"own": "SET\nA=own\n", "ws/values": "A=1\n", "ws/names": "A=1\nSET\n", "ws/sub/values": "A=2\n", "own.d/values": "A=own\n", "ws2/names": "SET\n",
	} {
		path := filepath.Join(base, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{
		"ws/out": base + "/own", "ws/up": "../own", "ws/dir": "../own.d", "ws/in": "values", "ws/loop": "loop",
		"to-file": "ws/values", "to-names": "ws/names", "to-ws": base + "/ws", "to-out": "ws/out", "to-own": "own", "round": "ws/../own", "loop": "loop",
	} {
		if err := os.Symlink(to, filepath.Join(base, link)); err != nil {
			t.Fatal(err)
		}
	}
	ws := filepath.Join(base, "ws")
	for _, c := range []struct {
		dir, path string
		want      string // of the first pair, or of the error
	}{
		{ws, "values", "A=1"},
		{ws, "sub/values", "A=2"},
		{ws, "./sub/../values", "A=1"},
		{ws, ws + "/values", "A=1"},
		{base, "to-file", "A=1"},
		{base, "to-ws/values", "A=1"},
		{base + "/to-ws", "values", "A=1"},
		{ws + "/sub", "../../own", "SET=host"},
		{base + "/to-ws", "../own", "SET=host"},
		{base, "own", "SET=host"},
		{base, "to-own", "SET=host"},
		{base, "round", "SET=host"},
		{base, "ws/../own", "SET=host"},
		{base, "ws2/names", "SET=host"},
		{ws, "names", "--env SET"},
		{base, "to-names", "--env SET"},
		{base, "to-ws/names", "--env SET"},
		{ws, "out", "symbolic link"},
		{ws, "up", "symbolic link"},
		{ws, "in", "symbolic link"},
		{ws, "loop", "symbolic link"},
		{ws, "dir/values", "symbolic link"},
		{base, "to-ws/out", "symbolic link"},
		{base, "to-out", "symbolic link"},
		{ws, "dir/../values", "A=1"},
		{ws, "absent", "no such file"},
		{ws, "sub", "not a regular file"},
		{base, "loop", "too many levels"},
		{base, "own.d", "not a regular file"},
	} {
		got, err := run.ReadEnvFile(c.dir, c.path, []string{ws}, func(name string) (string, bool) { return "host", name == "SET" })
		if strings.Contains(c.want, "=") {
			if err != nil || !slices.Contains(got[:1], c.want) {
				t.Errorf("%s in %s: %q, %v; want %s", c.path, c.dir, got, err, c.want)
			}
			continue
		}
		text := ""
		if err != nil {
			text = err.Error()
		}
		if e, ok := err.(*bailey.Error); ok { //nolint:errorlint // the outermost holds the hint
			text += e.Hint
		}
		if got != nil || bailey.KindOf(err) != bailey.Invalid || !strings.Contains(text, c.want) {
			t.Errorf("%s in %s: %q, %v; want an error with %q", c.path, c.dir, got, err, c.want)
		}
	}
}
