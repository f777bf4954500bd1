package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/alecthomas/kong"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/app/redteam"
	"github.com/bailey-dev/bailey/internal/app/run"
	"github.com/bailey-dev/bailey/internal/config"
	"github.com/bailey-dev/bailey/internal/linux/pty"
	"github.com/bailey-dev/bailey/internal/policy"
	"github.com/bailey-dev/bailey/internal/settings"
	"github.com/bailey-dev/bailey/internal/terminal"
	"github.com/bailey-dev/bailey/internal/version"
)

type redteamCommand struct {
	runFlags

	Only []string `placeholder:"ID" sep:"none" help:"Try this attack alone, or those on this claim (ISO-02). Repeatable." group:"Output"`
	List bool     `help:"List the attacks and try none." group:"Output"`
	HTML text     `name:"html" placeholder:"FILE" help:"Write the report as a page to this file, too." group:"Output"`
	JSON bool     `name:"json" help:"Print the report as JSON." group:"Output"`
}

// Help is what `bailey redteam --help` says beyond the flags.
func (redteamCommand) Help() string {
	return `Attacks a sandbox that is made as bailey run would make it here: by this folder's policy, yours, and the flags of bailey run. Bait is laid on this machine (a file, services on the loopback, sockets, a process with a secret in its environment), and nothing else is gone for; the attacks write to a folder of the workspace that is removed at the end. Each is tried without a sandbox too, with your own rights: only what works there says something by failing inside. What would change this machine is tried inside alone. Of each attack is said: held, it failed; broke, it worked, or left its mark on the bait; idle, it fails without a sandbox too, so it says nothing here; lost, nobody knows what came of it.

Examples:
  bailey redteam                      by what holds here
  bailey redteam --allow example.com  by that and a rule
  bailey redteam --only EGR-10        the attacks on one claim
  bailey redteam --html report.html

Exit codes: 0 when none worked; 1 when one did; 125 when bailey failed.`
}

// Run tries the attacks.
func (c *redteamCommand) Run(a *app, line *kong.Context) error {
	for _, pick := range c.Only {
		if !redteam.Known(pick) {
			return bailey.NewError(bailey.NotFound, fmt.Sprintf("--only: no attack or claim %q", pick), "bailey redteam --list")
		}
	}
	if c.List {
		return c.list(a)
	}
	page, err := openPage(asBytes(string(c.HTML)), a.host.Dir)
	if err != nil {
		return err
	}
	defer page.discard()
	report, err := c.attack(a, c.request(line))
	if err != nil {
		return err
	}
	// What the attacks found out is printed whatever becomes of the page.
	if err := errors.Join(c.print(a, report), page.write(report)); err != nil {
		return err
	}
	if !report.OK() {
		return exitError(1)
	}
	return nil
}

// attack tries them, and leaves nothing of theirs behind, also when a signal
// ends it.
func (c *redteamCommand) attack(a *app, r run.Request) (*redteam.Report, error) {
	ctx, stop := untilTold(a.ctx)
	defer stop()
	folder, err := baitFolder(a.host.Dirs)
	if err != nil {
		return nil, err
	}
	b := *a
	b.ctx = ctx
	t := &team{app: &b, command: c, folder: folder, request: r}
	report, err := t.attack()
	if err != nil {
		// Ctrl-C ends those whom this process started too, and what came of that
		// may be here before its own signal is.
		select {
		case <-ctx.Done():
		case <-time.After(signalDelay):
		}
	}
	left := errors.Join(t.left, os.RemoveAll(folder))
	if told := exitTold(ctx); told != nil {
		// What else went wrong went so for that.
		if left != nil {
			return nil, left
		}
		_, _ = fmt.Fprintln(a.stderr, "bailey: interrupted")
		return nil, told
	}
	return report, errors.Join(err, left)
}

// signalDelay is how much later than others a process may get a signal that was
// sent to all of them.
const signalDelay = 200 * time.Millisecond

func baitFolder(d config.Dirs) (string, error) {
	if err := os.MkdirAll(d.State, 0o700); err != nil {
		return "", bailey.WrapError(bailey.Unavailable, "make a folder for bait", err, "check the rights of "+d.State)
	}
	folder, err := redteam.Folder(d.State)
	if err != nil {
		return "", bailey.WrapError(bailey.Unavailable, "make a folder for bait", err, "check the rights of "+d.State)
	}
	return folder, nil
}

func (c *redteamCommand) list(a *app) error {
	rows := slices.DeleteFunc(redteam.All(), func(r redteam.Row) bool {
		return len(c.Only) > 0 && !slices.ContainsFunc(c.Only, func(p string) bool { return strings.EqualFold(p, r.ID) || strings.EqualFold(p, r.Claim) })
	})
	if c.JSON {
		return printJSON(a.stdout, rows)
	}
	for _, r := range rows {
		_, _ = fmt.Fprintf(a.stdout, "%-26s %s\n", r.ID, r.Attack)
	}
	return nil
}

func (c *redteamCommand) print(a *app, r *redteam.Report) error {
	if c.JSON {
		return printJSON(a.stdout, r)
	}
	_, _ = fmt.Fprintf(a.stdout, "attacks on a sandbox of %s: runtime %s, network %s\n", terminal.Sanitize(r.Workspace), r.Runtime, r.Net)
	for _, row := range r.Attacks {
		line := fmt.Sprintf("  %-5s  %-26s %s", row.Outcome, row.ID, row.Attack)
		if said := row.Said(); said != "" {
			line += ": " + said
		}
		_, _ = fmt.Fprintln(a.stdout, terminal.Sanitize(line))
	}
	_, _ = fmt.Fprintf(a.stdout, "%d attacks: %d held, %d broke, %d say nothing here, %d without an answer\n", len(r.Attacks), r.Counts[redteam.Held], r.Counts[redteam.Broke], r.Counts[redteam.Idle], r.Counts[redteam.Lost])
	return nil
}

// team tries attacks on one configuration.
type team struct {
	app     *app
	command *redteamCommand
	folder  string // of the bait, the caller's alone
	request run.Request
	left    error // why some of the bait could not be taken up
}

// takeUp takes bait up.
func (t *team) takeUp(b *redteam.Bait) { t.left = errors.Join(t.left, b.Close()) }

// inside is where the binary is shown in the sandbox.
const inside = "/opt/bailey-redteam/bailey"

func (t *team) attack() (*redteam.Report, error) {
	started := t.app.now()
	look, err := t.look()
	if err != nil {
		return nil, err
	}
	r := &redteam.Report{Started: started, Version: version.Number, Runtime: look.Runtime.String(), Net: look.Policy.Mode.String(), Workspace: look.Workspace}
	without, err := t.without(look)
	if err != nil {
		return nil, err
	}
	rows, err := t.within(look, without)
	if err != nil {
		return nil, err
	}
	r.Add(rows...)
	for _, b := range redteam.Bombs() {
		if !b.Picked(t.command.Only) {
			continue
		}
		row, err := t.explode(look, b)
		if err != nil {
			return nil, err
		}
		r.Add(row)
	}
	r.Seconds = t.app.now().Sub(started).Seconds()
	return r, nil
}

func (t *team) look() (run.Outlook, error) {
	r := t.request
	r.Command = []string{"true"}
	return run.Look(t.app.host, r)
}

// progress says what is being done, to a person.
func (t *team) progress(what string) {
	if pty.IsTerminal(t.app.host.Stderr) {
		_, _ = fmt.Fprintln(t.app.stderr, "bailey:", what)
	}
}

// lay lays bait for one round.
func (t *team) lay(look run.Outlook, name, workspace string, control bool) (*redteam.Bait, error) {
	folder := filepath.Join(t.folder, name)
	if err := os.Mkdir(folder, 0o700); err != nil {
		return nil, fmt.Errorf("make a folder for bait: %w", err)
	}
	h := t.app.host
	b, err := redteam.Lay(t.app.ctx, redteam.Ground{
		Folder: folder, Workspace: workspace, Hold: []string{h.Executable, "redteam-hold"}, Home: h.Home,
		Agent: h.Env.Get("SSH_AUTH_SOCK"), Runtime: h.Env.Get("XDG_RUNTIME_DIR"), Control: control,
	})
	if err != nil {
		return nil, err
	}
	b.Target.Unlisted = unlisted(look.Policy)
	if look.Policy.DNS != bailey.DNSOpen {
		b.Target.Unnamed = b.Target.Unlisted
	}
	b.Target.Files = look.Limits.OpenFiles
	if boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil && look.Runtime == bailey.RuntimeGvisor {
		b.Target.Boot = strings.TrimSpace(string(boot))
	}
	if !control {
		b.Target.Skills = look.Skills
	}
	if path := filepath.Join(look.Workspace, settings.ProjectFile); !control && !exists(path) {
		b.Target.Policy = path
	}
	return b, nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// unlisted is a well-known host that the policy does not let through, or empty.
func unlisted(p policy.Policy) string {
	for _, host := range []string{"example.com", "example.org", "iana.org", "kernel.org", "debian.org"} {
		d := policy.Decide(p, policy.Request{Protocol: policy.ProtocolHTTP, Host: host, Port: 80, Method: "GET", Path: "/"})
		if d.Verdict == bailey.Deny {
			return host
		}
	}
	return ""
}

// without tries the attacks without a sandbox, on bait of their own.
func (t *team) without(look run.Outlook) (redteam.Verdicts, error) {
	t.progress("trying the attacks without a sandbox")
	workspace := filepath.Join(t.folder, "workspace")
	if err := os.Mkdir(workspace, 0o700); err != nil {
		return nil, fmt.Errorf("make a folder for attacks: %w", err)
	}
	b, err := t.lay(look, "without", workspace, true)
	if err != nil {
		return nil, err
	}
	defer t.takeUp(b)
	if err := b.OpenDescriptor(); err != nil {
		return nil, err
	}
	in, err := json.Marshal(b.Target)
	if err != nil {
		return nil, fmt.Errorf("tell what to attack: %w", err)
	}
	c := exec.CommandContext(t.app.ctx, t.app.host.Executable, attackArgs(t.command.Only)...)
	c.Dir, c.Stdin = workspace, bytes.NewReader(in)
	c.Env = append(os.Environ(), b.Variable()) //nolint:forbidigo // a program without a sandbox has all of it
	c.WaitDelay = attackerEnd
	out, err := c.Output()
	if err != nil {
		return nil, bailey.WrapError(bailey.Internal, "try the attacks without a sandbox", err, "")
	}
	return b.Judge(bytes.NewReader(out)), nil
}

// attackerEnd is how long the output of an attacker that was ended is read for
// those whom it started.
const attackerEnd = 2 * time.Second

func attackArgs(only []string) []string {
	args := []string{"redteam-attack"}
	for _, o := range only {
		args = append(args, "--only", o)
	}
	return args
}

// within tries them in the sandbox.
func (t *team) within(look run.Outlook, without redteam.Verdicts) ([]redteam.Row, error) {
	t.progress("trying them in a sandbox")
	b, err := t.lay(look, "within", look.Workspace, false)
	if err != nil {
		return nil, err
	}
	defer t.takeUp(b)
	if err := b.OpenDescriptor(); err != nil {
		return nil, err
	}
	name, value, _ := strings.Cut(b.Variable(), "=")
	if err := os.Setenv(name, value); err != nil {
		return nil, fmt.Errorf("set a variable: %w", err)
	}
	defer func() { _ = os.Unsetenv(name) }()
	r := t.request
	r.Command = append([]string{inside}, attackArgs(t.command.Only)...)
	code, out, said, err := t.run(r, b)
	if err != nil {
		return nil, err
	}
	if code != 0 {
		return nil, bailey.NewError(bailey.Internal, fmt.Sprintf("the attacker in the sandbox ended with code %d: %s", code, lastLine(said)), "look at what it says with bailey run")
	}
	return redteam.Compare(b.Judge(bytes.NewReader(out)), without, t.command.Only), nil
}

// explode has a bomb end a sandbox of its own.
func (t *team) explode(look run.Outlook, bomb redteam.Bomb) (row redteam.Row, err error) {
	t.progress("and one to end it: " + bomb.About)
	b, err := t.lay(look, bomb.Name, look.Workspace, false)
	if err != nil {
		return row, err
	}
	defer t.takeUp(b)
	r := t.request
	r.Command = []string{inside, "redteam-attack", "--bomb", bomb.Name}
	r.Limits.PIDs, r.Limits.Memory, r.Limits.Disk, r.Limits.Timeout = redteam.BombProcesses, redteam.BombMemory, redteam.BombDisk, config.Duration(redteam.BombTime)
	if bomb.Name == "deadline" {
		r.Limits.Timeout = config.Duration(redteam.BombDeadline)
	}
	code, _, said, err := t.run(r, b)
	if err != nil {
		return row, err
	}
	row = bomb.Judge(code)
	if row.Outcome == redteam.Broke && code != 0 {
		row.Inside += ": " + lastLine(said)
	}
	return row, nil
}

// run runs a command of the attacker's in a sandbox.
func (t *team) run(r run.Request, b *redteam.Bait) (code int, out, said []byte, err error) {
	in, err := json.Marshal(b.Target)
	if err != nil {
		return 0, nil, nil, fmt.Errorf("tell what to attack: %w", err)
	}
	r.Own = []bailey.Mount{{Source: t.app.host.Executable, Target: inside}}
	h := t.app.host
	h.Helper = nil
	p, err := openPipes(&h)
	if err != nil {
		return 0, nil, nil, err
	}
	var outBuf bytes.Buffer
	var read sync.WaitGroup
	read.Go(func() {
		_, _ = io.Copy(&outBuf, io.LimitReader(p.stdout, mostOutput))
		_, _ = io.Copy(io.Discard, p.stdout)
	})
	go func() {
		_, _ = p.stdin.Write(in) // who is ended before it reads says so by its exit code
		_ = p.stdin.Close()
	}()
	code, err = run.Run(t.app.ctx, h, r)
	p.closeTheirs()
	read.Wait()
	return code, outBuf.Bytes(), p.stderr.Bytes(), errors.Join(err, p.stdout.Close())
}

// mostOutput bounds what is kept of an attacker's output.
const mostOutput = 32 << 20

func lastLine(b []byte) string {
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return terminal.Sanitize(cmp.Or(lines[len(lines)-1], "it said nothing"))
}

// redteamAttackCommand is the attacker, inside or without a sandbox.
type redteamAttackCommand struct {
	Only []string `sep:"none"`
	Bomb string
}

// Run attacks what standard input names.
func (c *redteamAttackCommand) Run(a *app) error {
	if c.Bomb != "" {
		var t redteam.Target
		if err := json.NewDecoder(a.host.Stdin).Decode(&t); err != nil {
			return fmt.Errorf("read what to attack: %w", err)
		}
		code, err := redteam.Explode(a.ctx, c.Bomb, t.Scratch)
		if err == nil && code != 0 {
			err = exitError(code)
		}
		return err
	}
	return redteam.Attack(a.ctx, a.host.Stdin, a.stdout, c.Only)
}

// redteamHoldCommand is a process of the caller to attack.
type redteamHoldCommand struct{}

// Run waits for the end of standard input.
func (*redteamHoldCommand) Run(a *app) error { return redteam.Hold(a.host.Stdin, a.stdout) }
