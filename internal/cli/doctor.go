package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/app/run"
	"github.com/bailey-dev/bailey/internal/config"
	"github.com/bailey-dev/bailey/internal/control"
	"github.com/bailey-dev/bailey/internal/doctor"
	"github.com/bailey-dev/bailey/internal/home"
	"github.com/bailey-dev/bailey/internal/linux/pty"
	"github.com/bailey-dev/bailey/internal/posture"
	"github.com/bailey-dev/bailey/internal/rootfs"
	"github.com/bailey-dev/bailey/internal/sandbox"
	"github.com/bailey-dev/bailey/internal/terminal"
	"github.com/bailey-dev/bailey/internal/workspace"
)

type doctorCommand struct {
	Live string `placeholder:"NAME" xor:"what" help:"Compare every process of this running sandbox with what it must be, instead of examining the machine."`
	Task bool   `xor:"what" help:"Start the sandbox of a task, with a probe in the agent's place, and show what it is: network, root file system, capabilities, ids, mounts, descriptors, masked programs."`
	JSON bool   `name:"json" help:"Print JSON."`
}

// Help is what `bailey doctor --help` says beyond the flags.
func (doctorCommand) Help() string {
	return `Says which layers of a sandbox this machine has, by trying them: it makes a user namespace and a cgroup, starts a sandbox with a network, and compares what every process of it may do with what it must be. For what is missing it names the command that mends it. It also looks whether this folder may be a workspace, and, inside a sandbox, whether it has uncommitted changes.

Examples:
  bailey doctor
  bailey doctor --live api-3f2a91c0
  bailey doctor --task
  bailey doctor --json

Exit codes: 0 when bailey run would work in this folder; 1 when a layer is missing, or the folder may not be a workspace, or a running sandbox or that of a task is not what it must be; 125 when bailey failed.`
}

// doctorReport is the published form of an examination.
type doctorReport struct {
	OK     bool         `json:"ok"`
	Layers []doctor.Row `json:"layers"`
}

// liveReport is the published form of a comparison.
type liveReport struct {
	OK         bool                `json:"ok"`
	Name       string              `json:"name"`
	Processes  []posture.Posture   `json:"processes"`
	Deviations []posture.Deviation `json:"deviations"`
}

// errUnfit says that the examination went well and its outcome did not.
const errUnfit = exitError(1)

// Run examines the machine, or one running sandbox.
func (c *doctorCommand) Run(a *app) error {
	switch {
	case c.Live != "":
		return c.live(a)
	case c.Task:
		return c.task(a)
	}
	if a.host.Dir == "" {
		return bailey.NewError(bailey.Invalid, "find the current folder: it is gone", "change to a folder that exists")
	}
	p := a.doctorPrinter(c.JSON)
	rows, err := doctor.New(doctor.Config{
		UID: a.host.UID, GID: a.host.GID, PID: os.Getpid(), Dir: a.host.Dir,
		TTY:   pty.IsTerminal(a.host.Stdin) && pty.IsTerminal(a.host.Stdout),
		Start: a.startSandbox, Temp: tempWorkspace, Begin: p.begin, Done: p.row,
	}).Examine(a.ctx)
	p.clear()
	if err != nil {
		return err
	}
	return a.reportLayers(rows, c.JSON)
}

// reportLayers is the last word of an examination: the rows have been printed
// as they came, but for JSON.
func (a *app) reportLayers(rows []doctor.Row, asJSON bool) error {
	fit := doctor.Fit(rows)
	if asJSON {
		if err := printJSON(a.stdout, doctorReport{OK: fit, Layers: rows}); err != nil {
			return err
		}
	}
	if !fit {
		return errUnfit
	}
	return nil
}

func (c *doctorCommand) live(a *app) error {
	info, _, err := control.Ask(a.ctx, a.host.Dirs.Runtime, c.Live, control.Status)
	if err != nil {
		return run.Over(a.host, c.Live, err)
	}
	if info.Status != "running" {
		return bailey.NewError(bailey.Unavailable, fmt.Sprintf("sandbox %s is %s", c.Live, info.Status), "try again while it is running")
	}
	inside, err := a.tellPosture(c.Live)
	if err != nil {
		return err
	}
	e := doctor.Expectation{UID: a.host.UID, GID: a.host.GID, ID: info.ID, Net: info.Net != bailey.NetNone, Workspace: info.Workspace, Debug: a.host.DebugDir != "", Native: info.Runtime == bailey.RuntimeNative.String(), KeptRoot: slices.Contains(info.Loosened, run.KeepRootFlag)}
	ws, err := workspace.Open(workspace.Request{Dir: info.Workspace, UID: a.host.UID, Home: a.host.Home, Own: slices.Concat(a.host.Dirs.All(), a.host.Vault().Files()), ReadOnly: true})
	if err != nil {
		return err
	}
	for _, m := range ws.Mounts {
		e.Writable = append(e.Writable, m.Source)
	}
	for _, m := range info.Mounts {
		if m.Writable {
			e.Beside = append(e.Beside, doctor.Beside{Source: m.Source, Target: m.Target})
		}
	}
	if info.Home != "" {
		e.Beside = append(e.Beside, doctor.Beside{Source: home.In(a.host.Dirs.Data).Files(info.Home), Target: rootfs.HomeDir})
	}
	list, found, err := doctor.Live(info.PID, inside, e)
	if err != nil {
		return err
	}
	if c.JSON {
		err = printJSON(a.stdout, liveReport{OK: len(found) == 0, Name: c.Live, Processes: list, Deviations: append([]posture.Deviation{}, found...)})
	} else {
		a.printLive(list, found)
	}
	if err == nil && len(found) > 0 {
		return errUnfit
	}
	return err
}

// printLive prints one line a process: what was compared, and what was not.
func (a *app) printLive(list []posture.Posture, found []posture.Deviation) {
	p := a.doctorPrinter(false)
	many := map[posture.Role]int{} //nolint:exhaustive // the others have no line
	for _, one := range list {
		if ofMany(one.Role) {
			many[one.Role]++
			continue
		}
		p.row(liveRow(one, found))
	}
	for _, role := range []posture.Role{posture.Stub, posture.Shared} {
		if many[role] > 0 {
			p.row(liveRow(posture.Posture{Role: role, Threads: many[role]}, found))
		}
	}
}

// ofMany reports whether a sandbox has any number of processes of a role.
func ofMany(r posture.Role) bool { return r == posture.Stub || r == posture.Shared }

func liveRow(one posture.Posture, found []posture.Deviation) doctor.Row {
	r := doctor.Row{Layer: string(one.Role), Status: doctor.OK, Detail: fmt.Sprintf("pid %d is what it must be", one.PID)}
	if ofMany(one.Role) {
		r.Detail = fmt.Sprintf("%d processes are what they must be", one.Threads)
	}
	if len(one.Hidden) > 0 {
		r.Detail += "; this user may not see its " + strings.Join(one.Hidden, ", ")
	}
	var wrong []string
	for _, d := range found {
		if d.Role == one.Role && (d.PID == one.PID || ofMany(one.Role)) {
			wrong = append(wrong, d.String())
		}
	}
	if len(wrong) > 0 {
		r.Status, r.Detail = doctor.Missing, strings.Join(wrong, "; ")
	}
	return r
}

// tellPosture runs the posture command in a running sandbox.
func (a *app) tellPosture(name string) ([]byte, error) {
	h := a.host
	pipes, err := openPipes(&h)
	if err != nil {
		return nil, err
	}
	_ = pipes.stdin.Close()
	told := make(chan []byte, 1)
	go func() { // at the same time: a pipe holds less than a sandbox may say
		out, _ := io.ReadAll(io.LimitReader(pipes.stdout, doctor.MaxReport)) // half a report is none
		_, _ = io.Copy(io.Discard, pipes.stdout)
		told <- out
	}()
	_, err = run.Exec(a.ctx, h, run.ExecRequest{Name: name, Command: []string{sandbox.FirstPath, posture.Arg}})
	pipes.closeTheirs()
	out := <-told
	return out, errors.Join(err, pipes.stdout.Close())
}

func tempWorkspace() (string, func() error, error) {
	dir, err := os.MkdirTemp(config.TempDir(config.Environment()), "bailey-doctor-")
	if err != nil {
		return "", nil, err
	}
	real, err := filepath.EvalSymlinks(dir)
	return real, func() error { return os.RemoveAll(dir) }, err
}

// pipes stand for the terminal of a command that nobody looks at.
type pipes struct {
	stdin, stdout *os.File
	stderr        *bytes.Buffer
	read          sync.WaitGroup
	theirs        []*os.File
}

func openPipes(h *run.Host) (*pipes, error) {
	var (
		p    = &pipes{stderr: new(bytes.Buffer)}
		err  [3]error
		errR *os.File
	)
	h.Stdin, p.stdin, err[0] = os.Pipe()
	p.stdout, h.Stdout, err[1] = os.Pipe()
	errR, h.Stderr, err[2] = os.Pipe()
	if err := errors.Join(err[:]...); err != nil {
		return nil, fmt.Errorf("make pipes: %w", err)
	}
	p.theirs = []*os.File{h.Stdin, h.Stdout, h.Stderr}
	p.read.Go(func() {
		_, _ = io.Copy(p.stderr, io.LimitReader(errR, 64<<10))
		_, _ = io.Copy(io.Discard, errR)
		_ = errR.Close()
	})
	return p, nil
}

func (p *pipes) closeTheirs() {
	for _, f := range p.theirs {
		_ = f.Close()
	}
	p.read.Wait()
}

// started is a sandbox of the doctor's.
type started struct {
	pipes *pipes
	done  chan struct{}
	code  int
	err   error
}

// startSandbox starts a sandbox as bailey run does, in this process.
func (a *app) startSandbox(ctx context.Context, r doctor.Request) (doctor.Sandbox, error) {
	h := a.host
	pipes, err := openPipes(&h)
	if err != nil {
		return nil, err
	}
	s := &started{pipes: pipes, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		s.code, s.err = run.Run(ctx, h, run.Request{Command: r.Command, Workdir: r.Dir, Allow: r.Allow, ReadOnly: r.ReadOnly, Kernel: run.Kernel{Runtime: r.Runtime.String()}, Quiet: true, Bare: true})
		pipes.closeTheirs()
	}()
	return s, nil
}

// Read reads the command's output.
func (s *started) Read(b []byte) (int, error) { return s.pipes.stdout.Read(b) }

// Finish ends the command's input and waits for its end.
func (s *started) Finish() (code int, stderr string, err error) {
	_ = s.pipes.stdin.Close()
	<-s.done
	_ = s.pipes.stdout.Close()
	return s.code, s.pipes.stderr.String(), s.err
}

// doctorPrinter prints rows for a person as they come, and what is being
// looked at where somebody waits.
type doctorPrinter struct {
	out, progress io.Writer // nil: not wanted
	colour        bool
}

func (a *app) doctorPrinter(json bool) *doctorPrinter {
	p := &doctorPrinter{out: a.stdout}
	if json {
		p.out = nil
	}
	if pty.IsTerminal(a.host.Stderr) {
		p.progress = a.stderr
	}
	_, plain := a.host.Env("NO_COLOR")
	p.colour = pty.IsTerminal(a.host.Stdout) && !plain
	return p
}

// clearLine goes back to the line's start and erases it (ECMA-48: EL).
const clearLine = "\r\x1b[K"

func (p *doctorPrinter) begin(layer string) {
	if p.progress != nil {
		_, _ = fmt.Fprintf(p.progress, "%slooking at %s …", clearLine, layer)
	}
}

func (p *doctorPrinter) clear() {
	if p.progress != nil {
		_, _ = fmt.Fprint(p.progress, clearLine)
	}
}

func (p *doctorPrinter) row(r doctor.Row) {
	p.clear()
	if p.out == nil {
		return
	}
	status := fmt.Sprintf("%-7s", r.Status)
	if p.colour {
		status = map[doctor.Status]string{doctor.OK: "\x1b[32m", doctor.Warn: "\x1b[33m", doctor.Missing: "\x1b[31m"}[r.Status] + status + "\x1b[0m"
	}
	_, _ = fmt.Fprintf(p.out, "%-15s  %s  %s\n", r.Layer, status, terminal.Sanitize(r.Detail))
	if r.Fix != "" {
		_, _ = fmt.Fprintf(p.out, "%-15s  %-7s  fix: %s\n", "", "", terminal.Sanitize(r.Fix))
	}
}
