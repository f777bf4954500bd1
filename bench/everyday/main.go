package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/creack/pty"

	"github.com/bailey-dev/bailey/bench/figures"
)

// units is how many a plan has.
const units = 4

// report is what is printed; all times are milliseconds.
type report struct {
	Machine string            `json:"machine"`
	Rounds  int               `json:"rounds"`
	Rows    []row             `json:"rows"`
	Missing map[string]string `json:"missing"`
	Goals   []figures.Goal    `json:"goals"`
}

type row struct {
	What   string  `json:"what"`
	Median float64 `json:"median_ms"`
	P95    float64 `json:"p95_ms"`
}

// contender is one thing that is done over and over. It returns how long that
// took.
type contender struct {
	name string
	do   func(context.Context) (time.Duration, error)
	ms   []float64
}

const (
	caseVersion = "bailey version, which is its start"
	caseAttach  = "attach, until the screen is painted"
	caseShell   = "shell, until it answers"
	casePhase   = "a unit of a phase"
	caseAgent   = "the unit's agent by itself: one sandbox"
	caseByHand  = "the same by hand: two sandboxes, git commit"
)

func main() {
	n := flag.Int("n", 10, "rounds")
	asJSON := flag.Bool("json", false, "print one JSON object")
	bailey := flag.String("bailey", "bin/bailey", "the program to measure")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *bailey, *n, *asJSON)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/everyday:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, bailey string, n int, asJSON bool) error {
	l, err := newLab(ctx, bailey)
	if err != nil {
		return err
	}
	defer l.close() //nolint:contextcheck // also after an interrupt
	r := report{Machine: figures.Line(fmt.Sprintf("uid %d", os.Geteuid())), Rounds: n, Missing: map[string]string{}}
	contenders := []*contender{
		{name: caseVersion, do: func(ctx context.Context) (time.Duration, error) { return l.timed(ctx, l.dir, l.bailey, "version") }},
		{name: caseAttach, do: l.attach},
		{name: caseShell, do: l.shell},
		{name: casePhase, do: l.phase},
		{name: caseAgent, do: l.agent},
		{name: caseByHand, do: l.byHand},
	}
	for round := -1; round < n; round++ {
		for _, i := range rand.Perm(len(contenders)) {
			c := contenders[i]
			took, err := c.do(ctx)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			switch {
			case err != nil:
				r.Missing[c.name] = err.Error()
			case round >= 0:
				c.ms = append(c.ms, took.Seconds()*1000)
			}
		}
	}
	median := map[string]float64{}
	for _, c := range contenders {
		median[c.name] = figures.Median(c.ms)
		r.Rows = append(r.Rows, row{c.name, median[c.name], figures.Percentile(c.ms, 95)})
	}
	r.Goals = []figures.Goal{
		figures.AtMost("attach, until the screen is painted, ms", median[caseAttach], 50),
		figures.AtMost("a unit of a phase beside its agent by itself, ms", median[casePhase]-median[caseAgent], 1000),
		figures.AtMost("a unit of a phase over the same by hand", median[casePhase]/median[caseByHand], 1.5),
	}
	return figures.Tell(os.Stdout, r, asJSON, r.print, r.Missing)
}

func (r report) print(out io.Writer) {
	_, _ = fmt.Fprintf(out, "%s\n%d rounds, ms\n\n%-60s %8s %8s\n", r.Machine, r.Rounds, "", "median", "p95")
	for _, x := range r.Rows {
		_, _ = fmt.Fprintf(out, "%-60s %8.1f %8.1f\n", x.What, x.Median, x.P95)
	}
	figures.PrintEnd(out, r.Goals, r.Missing)
}

// lab is a repository with a plan, and a sandbox in the background.
type lab struct {
	dir, repo, bailey string
	env               []string
	round             int
}

// ready is what the sandbox in the background has on its screen.
const ready = "ready-for-you"

func newLab(ctx context.Context, bailey string) (*lab, error) {
	bailey, err := figures.Program(bailey)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("/var/tmp", "bailey-bench-")
	if err != nil {
		return nil, err
	}
	l := &lab{dir: dir, repo: filepath.Join(dir, "repo"), bailey: bailey}
	home := filepath.Join(dir, "home")
	l.env = append(os.Environ(), "HOME="+home, "XDG_RUNTIME_DIR=", "XDG_CONFIG_HOME=", "XDG_STATE_HOME=", "XDG_DATA_HOME=", "TERM=xterm-256color",
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.com")
	if err := l.prepare(ctx, home); err != nil {
		l.close() //nolint:contextcheck // likewise
		return nil, err
	}
	return l, nil
}

func (l *lab) prepare(ctx context.Context, home string) error {
	for _, d := range []string{home, filepath.Join(l.repo, ".agents"), filepath.Join(l.dir, "work")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{"README": "hello\n", ".agents/validate.sh": "test -s made.txt\n", ".agents/agent.sh": "echo line >> made.txt\n"} {
		if err := os.WriteFile(filepath.Join(l.repo, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	for _, argv := range [][]string{
		{"git", "config", "--global", "user.name", "A"},
		{"git", "config", "--global", "user.email", "a@example.com"},
		{"git", "init", "-q", "-b", "main"},
		{"git", "add", "."},
		{"git", "commit", "-q", "-m", "first"},
	} {
		if _, err := l.timed(ctx, l.repo, argv...); err != nil {
			return err
		}
	}
	// What is started in a terminal has one, and cat does not end.
	_, err := l.seen(ctx, "bench", "", "", "run", "--detach", "--quiet", "--name", "bench", "--", "sh", "-c", "echo "+ready+"; exec cat")
	return err
}

func (l *lab) close() {
	_, _ = l.timed(context.Background(), l.dir, l.bailey, "stop", "bench") // what is not there need not end
	if err := os.RemoveAll(l.dir); err != nil {
		fmt.Fprintln(os.Stderr, "bench/everyday:", err)
	}
}

func (l *lab) command(ctx context.Context, dir string, argv ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = dir, l.env
	return cmd
}

// timed runs a command and returns how long it took.
func (l *lab) timed(ctx context.Context, dir string, argv ...string) (time.Duration, error) {
	began := time.Now()
	if out, err := l.command(ctx, dir, argv...).CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, strings.TrimSpace(string(out)))
	}
	return time.Since(began), nil
}

// attach is from the start of the command to the first sight of what the
// sandbox has on its screen.
func (l *lab) attach(ctx context.Context) (time.Duration, error) {
	return l.seen(ctx, ready, "", "\x10\x11", "attach", "bench")
}

func (l *lab) shell(ctx context.Context) (time.Duration, error) {
	return l.seen(ctx, "42\r\n", "expr 6 '*' 7\n", "exit\n", "shell", "bench")
}

// seen runs bailey in a terminal, types, and returns when it has shown a text.
// Then it types what ends it.
func (l *lab) seen(ctx context.Context, want, typed, end string, args ...string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	began := time.Now()
	cmd := l.command(ctx, filepath.Join(l.dir, "work"), append([]string{l.bailey}, args...)...)
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 40, Cols: 120, X: 0, Y: 0})
	if err != nil {
		return 0, err
	}
	defer terminal.Close()
	if _, err := terminal.WriteString(typed); err != nil {
		return 0, err
	}
	shown, took := "", time.Duration(0)
	b := make([]byte, 4096)
	for {
		n, err := terminal.Read(b)
		shown += string(b[:n])
		if took == 0 && strings.Contains(shown, want) {
			took = time.Since(began)
			if _, err := terminal.WriteString(end); err != nil {
				return 0, err
			}
		}
		if err != nil {
			break
		}
	}
	_ = cmd.Wait() // a shell's exit is that of its last command
	if took == 0 {
		return 0, errors.Join(fmt.Errorf("%s showed no %q: %q", args[0], want, shown), ctx.Err())
	}
	return took, nil
}

// phase is the time of one unit of a plan.
func (l *lab) phase(ctx context.Context) (time.Duration, error) {
	l.round++
	var text strings.Builder
	text.WriteString("# Plan\n")
	for i := range units {
		fmt.Fprintf(&text, "- [ ] Unit %d of round %d\n", i, l.round)
	}
	plan := filepath.Join(l.dir, fmt.Sprintf("plan-%d.md", l.round))
	if err := os.WriteFile(plan, []byte(text.String()), 0o600); err != nil {
		return 0, err
	}
	took, err := l.timed(ctx, l.repo, l.bailey, "phase", "run", plan, "--", "--", "sh", ".agents/agent.sh")
	return took / units, err
}

// agent is what a unit's agent takes that nobody validates and commits. Its work
// is not kept.
func (l *lab) agent(ctx context.Context) (time.Duration, error) {
	took, err := l.timed(ctx, l.repo, l.bailey, "run", "--quiet", "--", "sh", ".agents/agent.sh")
	for _, argv := range [][]string{{"git", "reset", "-q", "--hard"}, {"git", "clean", "-qf"}} {
		_, undo := l.timed(ctx, l.repo, argv...)
		err = errors.Join(err, undo)
	}
	return took, err
}

// byHand is what somebody does who has no phases.
func (l *lab) byHand(ctx context.Context) (time.Duration, error) {
	var all time.Duration
	for _, argv := range [][]string{
		{l.bailey, "run", "--quiet", "--", "sh", ".agents/agent.sh"},
		{l.bailey, "run", "--quiet", "--", "sh", ".agents/validate.sh"},
		{"git", "add", "-A"},
		{"git", "commit", "-q", "-m", "by hand"},
	} {
		took, err := l.timed(ctx, l.repo, argv...)
		if err != nil {
			return 0, err
		}
		all += took
	}
	return all, nil
}
