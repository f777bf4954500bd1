package spec_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// example is one command of a console block in the documentation.
type example struct {
	file   string
	line   int
	shell  string
	output string // as printed on the page
	status int
}

// TestDocumentation runs every console block of README.md and docs/: lines
// that begin with "$ " are commands, the lines below are their output, on
// standard output and error together. In the output "..." stands for any
// text, alone on a line for any lines; a last line "[exit 125]" says with
// which status the command ends, where it is not 0. The commands of one block
// share a fresh folder, which is a git repository with one commit.
func TestDocumentation(t *testing.T) {
	t.Parallel()
	bin := yard.Binary(t)
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, "../README.md") {
		text, err := os.ReadFile(page)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range consoleBlocks(page, string(text)) {
			t.Run(fmt.Sprintf("%s:%d", filepath.Base(page), block[0].line), func(t *testing.T) {
				t.Parallel()
				runBlock(t, bin, block)
			})
		}
	}
}

func runBlock(t *testing.T, bin string, block []example) {
	t.Helper()
	work, env := freshFolder(t, bin)
	for _, e := range block {
		out, status := shell(t, work, env, e.shell)
		if status != e.status {
			t.Errorf("%s:%d: %s\nexit %d, the page says %d; output:\n%s", e.file, e.line, e.shell, status, e.status, out)
		}
		if e.output != "" && !matchOutput(e.output, out) {
			t.Errorf("%s:%d: %s\ngot:\n%s\nthe page says:\n%s", e.file, e.line, e.shell, out, e.output)
		}
	}
}

// freshFolder makes a git repository with one commit, and an environment in
// which bailey is the program under test and no sandbox but the test's own is
// in sight.
func freshFolder(t *testing.T, bin string) (work string, env []string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "docs-") //nolint:usetesting // a socket's path has to be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	home, path, runtime := filepath.Join(dir, "home"), filepath.Join(dir, "bin"), filepath.Join(dir, "run")
	work = filepath.Join(dir, "work")
	for _, d := range []string{filepath.Join(home, ".local/share/bash-completion/completions"), filepath.Join(home, ".config/fish/completions"), work, path, runtime} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	checkout, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(bin, filepath.Join(path, "bailey")); err != nil { // whatever it is called
		t.Fatal(err)
	}
	env = append(os.Environ(),
		"HOME="+home, "XDG_RUNTIME_DIR="+runtime, "CHECKOUT="+checkout,
		"PATH="+path+":"+os.Getenv("PATH"),
		"TERM=dumb", "LC_ALL=C.UTF-8",
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com",
	)
	if out, status := shell(t, work, env, "git init -q -b main . && git commit -q --allow-empty -m start"); status != 0 {
		t.Fatalf("prepare the folder: exit %d: %s", status, out)
	}
	return work, env
}

func shell(t *testing.T, dir string, env []string, script string) (output string, status int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.Dir, cmd.Env = dir, env
	out, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return string(out), exit.ExitCode()
	}
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	return string(out), 0
}

var exitLine = regexp.MustCompile(`^\[exit ([0-9]+)\]$`)

// consoleBlocks returns the examples of each console block of a page that has
// at least one command.
func consoleBlocks(name, text string) [][]example {
	var blocks [][]example
	var block []example
	inside := false
	for i, line := range strings.Split(text, "\n") {
		switch {
		case !inside:
			inside = strings.TrimSpace(line) == "```console"
			block = nil
		case strings.TrimSpace(line) == "```":
			inside = false
			if len(block) > 0 {
				blocks = append(blocks, block)
			}
		case strings.HasPrefix(line, "$ "):
			block = append(block, example{file: name, line: i + 1, shell: line[2:]})
		case len(block) > 0:
			addLine(&block[len(block)-1], line)
		}
	}
	return blocks
}

func addLine(e *example, line string) {
	switch m := exitLine.FindStringSubmatch(line); {
	case m != nil:
		_, _ = fmt.Sscan(m[1], &e.status)
	case strings.HasSuffix(e.shell, `\`): // the command goes on
		e.shell += "\n" + line
	default:
		e.output += line + "\n"
	}
}

// matchOutput reports whether got is what the page shows.
func matchOutput(page, got string) bool {
	var re strings.Builder
	re.WriteString(`^`)
	for line := range strings.SplitSeq(strings.TrimSpace(page), "\n") {
		line = strings.TrimRight(line, " ")
		if line == "..." {
			re.WriteString(`(?:[^\n]*\n)*`)
			continue
		}
		parts := strings.Split(line, "...")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		re.WriteString(strings.Join(parts, `[^\n]*`) + ` *\n`)
	}
	re.WriteString(`$`)
	got = strings.ReplaceAll(strings.TrimSpace(got), "\r\n", "\n") + "\n"
	return regexp.MustCompile(re.String()).MatchString(got)
}

// TestDocumentationHarness holds the reading of blocks and the matching, in
// both directions: a wrong page has to be found.
func TestDocumentationHarness(t *testing.T) {
	t.Parallel()
	page := "text\n```console\n$ echo a; \\\n  echo b\na\nb\n$ false\n[exit 1]\n```\n```sh\n$ not run\n```\n```console\nno command\n```\n"
	blocks := consoleBlocks("p", page)
	if len(blocks) != 1 || len(blocks[0]) != 2 {
		t.Fatalf("blocks: %+v", blocks)
	}
	if e := blocks[0][0]; e.shell != "echo a; \\\n  echo b" || e.output != "a\nb\n" || e.status != 0 {
		t.Errorf("first example: %+v", e)
	}
	if e := blocks[0][1]; e.shell != "false" || e.output != "" || e.status != 1 {
		t.Errorf("second example: %+v", e)
	}
	for _, tc := range []struct {
		page, got string
		want      bool
	}{
		{"a\nb", "a\nb\n", true},
		{"a\nb", "a\nc\n", false},
		{"a\nb", "a\nb\nc\n", false},
		{"a ... z", "a 12 z\n", true},
		{"a ... z", "a 12\nz\n", false},
		{"a\n...\nz", "a\n1\n2\nz\n", true},
		{"a\n...\nz", "a\nz\n", true},
		{"a\n...", "a\n1\n2\n", true},
		{"...\nz", "b\nz\ny\n", false},
		{"a.c", "abc\n", false},
	} {
		if got := matchOutput(tc.page, tc.got); got != tc.want {
			t.Errorf("matchOutput(%q, %q) = %v, want %v", tc.page, tc.got, got, tc.want)
		}
	}
}
