package carry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// git is the program, and how it is started: by its arguments, with nothing of
// the caller's environment, and with a git folder of bailey's own.
type git struct {
	program string
	dir     string   // GIT_DIR
	more    []string // of the environment
}

// of is git with a git folder.
func (g git) of(dir string, more ...string) git {
	return git{program: g.program, dir: dir, more: append(append([]string{}, g.more...), more...)}
}

// environment is all that a git has. Every variable that opens a door is set to
// nothing rather than left out, so that no default opens it (git(1)).
func (g git) environment() []string {
	return append([]string{
		"PATH=/dev/null", "HOME=/dev/null", "XDG_CONFIG_HOME=/dev/null", "LC_ALL=C", "TZ=UTC",
		"GIT_DIR=" + g.dir,
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1",
		"GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1", "GIT_OPTIONAL_LOCKS=0",
		"GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=/dev/null", "SSH_ASKPASS=/dev/null", "GIT_SSH_COMMAND=/dev/null", "GIT_PAGER=/dev/null",
		"GIT_EDITOR=/dev/null", "GIT_EXTERNAL_DIFF=", "GIT_ALLOW_PROTOCOL=", "GIT_PROTOCOL_FROM_USER=0", "GIT_ADVICE=0",
		// Where git finds itself, which it starts to write files with two hands.
		"GIT_EXEC_PATH=" + filepath.Dir(g.program),
	}, g.more...)
}

// maxComplaint bounds what is kept of what git says to its standard error.
const maxComplaint = 4 << 10

// outputTime is how long the last of what an ended git has said may take to
// come: on a machine that is busy, more than a moment.
const outputTime = 10 * time.Second

// command is a git that is not started yet. It dies with this process.
func (g git) command(ctx context.Context, complaint *tail, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, g.program, args...)
	cmd.Args[0] = "git"
	cmd.Dir = g.dir
	cmd.Env = g.environment()
	cmd.Stderr = complaint
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = outputTime
	return cmd
}

// run starts git, gives it stdin, and returns what it says, which is an error
// if it is more than limit.
func (g git) run(ctx context.Context, stdin io.Reader, limit int64, args ...string) ([]byte, error) {
	complaint := &tail{}
	cmd := g.command(ctx, complaint, args...)
	cmd.Stdin = stdin
	out := &bounded{left: limit}
	cmd.Stdout = out
	if err := cmd.Run(); err != nil {
		return nil, failed(ctx, args, err, complaint)
	}
	return out.Bytes(), nil
}

// line is run for an answer of one line.
func (g git) line(ctx context.Context, args ...string) (string, error) {
	const most = 64 << 10
	out, err := g.run(ctx, nil, most, args...)
	return strings.TrimSuffix(string(out), "\n"), err
}

func failed(ctx context.Context, args []string, err error, complaint *tail) error {
	if ctx.Err() != nil {
		return fmt.Errorf("git %s: %w", args[0], context.Cause(ctx))
	}
	if text := printable(complaint.String()); text != "" {
		return fmt.Errorf("git %s: %w: %s", args[0], err, text)
	}
	return fmt.Errorf("git %s: %w", args[0], err)
}

// errTooMuch is the cause of an answer that is longer than it may be.
var errTooMuch = errors.New("more than is read")

// bounded takes so many bytes, and then is an error. It has no ReadFrom, by
// which a copy would pass it by.
type bounded struct {
	buf  bytes.Buffer
	left int64
}

func (b *bounded) Bytes() []byte { return b.buf.Bytes() }

// Write takes bytes as long as there is room.
func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= int64(len(p)); b.left < 0 {
		return 0, errTooMuch
	}
	return b.buf.Write(p)
}

// tail keeps the last bytes that were written to it.
type tail struct{ kept []byte }

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if len(t.kept) > maxComplaint {
		t.kept = append(t.kept[:0], t.kept[len(t.kept)-maxComplaint:]...)
	}
	return len(p), nil
}

// String returns what was kept.
func (t *tail) String() string { return string(t.kept) }

// printable makes one line of text out of anything: control characters and
// those that change how a line is read become "?".
func printable(s string) string {
	const most = 512
	if len(s) > most {
		s = s[:most] + "…"
	}
	var b strings.Builder
	for _, r := range strings.TrimSpace(s) {
		switch {
		case r == '\n' || r == '\t':
			b.WriteByte(' ')
		case hidden(r) || r == '\uFFFD':
			b.WriteByte('?')
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// quoted is a name as it stands in a sentence of bailey's: one that is more than
// letters, digits and what paths are made of stands in quotes, so that none can
// look like a part of the sentence.
func quoted(name string) string {
	const most = 200
	if len(name) > most {
		name = name[:most] + "…"
	}
	if strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/@+-") == "" && name != "" {
		return name
	}
	return strconv.Quote(printable(name))
}

// hidden reports whether a character is not seen or changes how others are: the
// C0 and C1 controls, those that set the direction of text, and tags.
func hidden(r rune) bool {
	return r < ' ' || r >= 0x7f && r < 0xa0 || reorders(r) || isTag(r)
}

func reorders(r rune) bool {
	return r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0x200e || r == 0x200f || r == 0x061c
}

func isTag(r rune) bool { return r >= 0xe0000 && r <= 0xe007f }
