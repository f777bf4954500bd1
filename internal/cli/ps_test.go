package cli_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey/internal/terminal"
)

// TestPs_AnswersAreNotTerminalControl lists a sandbox whose holder answers
// with escape sequences: root may look into another user's runtime folder.
func TestPs_AnswersAreNotTerminalControl(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", dir)
	if err := os.Mkdir(filepath.Join(dir, "bailey"), 0o700); err != nil {
		t.Fatal(err)
	}
	const bad = `\u001b]0\u0007\u009b\u202e`
	for file, name := range map[string]string{"x": "plain", "y": "n" + bad} {
		answer(t, filepath.Join(dir, "bailey", file+".sock"),
			`{"info":{"name":"`+name+`","status":"s`+bad+`","net":"none","workspace":"w`+bad+`","command":["c`+bad+`"]}}`+"\n")
	}
	for _, args := range [][]string{{"ps"}, {"ps", "--json"}, {"__complete", "zsh", "--", "stop", ""}} {
		out, _, code := bailey(t, args...)
		if code != 0 || out == "" {
			t.Errorf("%q: exit code %d, %q", args, code, out)
		}
		for line := range strings.Lines(out) {
			if text := strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "\t", " "); terminal.Sanitize(text) != text {
				t.Errorf("%q prints %q", args, line)
			}
		}
		if !strings.Contains(out, "plain") {
			t.Errorf("%q lists nothing: %q", args, out)
		}
	}
}

// answer says the same to all that connect to a socket.
func answer(t *testing.T, socket, text string) {
	t.Helper()
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 256))
			_, _ = c.Write([]byte(text))
			_ = c.Close()
		}
	}()
}
