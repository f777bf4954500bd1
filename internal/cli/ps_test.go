package cli_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey/internal/cli"
)

// TestPs_AnswersAreNotTerminalControl lists a sandbox whose holder answers
// with escape sequences: root may look into another user's runtime folder.
func TestPs_AnswersAreNotTerminalControl(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", dir)
	if err := os.Mkdir(filepath.Join(dir, "bailey"), 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "bailey", "x.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		const bad = `\u001b]0;t\u0007`
		_, _ = c.Read(make([]byte, 256))
		_, _ = c.Write([]byte(`{"info":{"name":"n` + bad + `","status":"s` + bad + `","net":"none","workspace":"w` + bad + `","command":["c` + bad + `"]}}` + "\n"))
	}()
	out, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	if code := cli.Main(context.Background(), []string{"bailey", "ps"}, os.Stdin, out, os.Stderr); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	text, err := os.ReadFile(out.Name())
	if err != nil || !strings.Contains(string(text), "none") || strings.ContainsAny(string(text), "\x1b\x07") {
		t.Errorf("%q (%v)", text, err)
	}
}
