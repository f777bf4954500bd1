// Package summon finds the service of tasks, and starts it where there is none:
// bailey itself, as `serve --local`, in a session of its own, with no terminal
// and no descriptor of who started it. It waits until the service answers, and
// says why it does not.
package summon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/launcher"
	"github.com/bailey-dev/bailey/internal/taskapi"
	"github.com/bailey-dev/bailey/internal/terminal"
)

// Config says where the service is, and how it is started.
type Config struct {
	Executable string          // bailey's own binary
	Runtime    string          // bailey's runtime folder: the socket is there
	Folders    taskapi.Folders // the others, which the service has to work on; what it says at its start is kept in that of state
	Idle       time.Duration   // the service that is started ends after so long without client and task
}

const (
	answerTime = 20 * time.Second      // the service that is started has to answer by then
	poll       = 20 * time.Millisecond // between looks
	mostStarts = 3                     // while others that are about to end are in the way
	mostSaid   = 8 << 10
	saidName   = "serve-start.log"
)

// Service connects to the service, which it starts if there is none; started
// reports that it did.
func Service(ctx context.Context, cfg Config) (c *taskapi.Client, started bool, err error) {
	if c, err = Running(ctx, cfg); c != nil || err != nil {
		return c, false, err
	}
	for range mostStarts {
		if c, started, err = launch(ctx, cfg); !errors.Is(err, errFree) {
			break
		}
	}
	return c, started, err
}

// launch starts the service and connects to it.
func launch(ctx context.Context, cfg Config) (c *taskapi.Client, started bool, err error) {
	said, err := os.OpenFile(filepath.Join(cfg.Folders.State, saidName), os.O_RDWR|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
	if errors.Is(err, os.ErrNotExist) {
		if err = os.MkdirAll(cfg.Folders.State, 0o700); err == nil {
			said, err = os.OpenFile(filepath.Join(cfg.Folders.State, saidName), os.O_RDWR|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
		}
	}
	if err != nil {
		return nil, false, bailey.WrapError(bailey.Unavailable, "start the service of tasks", err, "set XDG_STATE_HOME to a folder of yours")
	}
	defer func() { _ = said.Close() }() // the service has its own
	ended, err := start(cfg, said)
	if err != nil {
		return nil, false, bailey.WrapError(bailey.Unavailable, "start the service of tasks", err, "")
	}
	return await(ctx, cfg, ended, said)
}

// Running connects to the service that runs: the one of this runtime folder, or
// the one that has these tasks and its socket elsewhere. Nil is none. One that
// works on other folders is an error.
func Running(ctx context.Context, cfg Config) (*taskapi.Client, error) {
	c, err := connect(ctx, cfg.Runtime)
	if c == nil && err == nil {
		found, ferr := launcher.Find(cfg.Runtime, cfg.Folders.Data)
		if ferr != nil || found == nil || found.Runtime == cfg.Runtime {
			return nil, ferr
		}
		c, err = connect(ctx, found.Runtime)
	}
	if c == nil || err != nil {
		return nil, err
	}
	if err := other(cfg, c); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// connect connects to the socket of a runtime folder; nil if nobody listens.
func connect(ctx context.Context, runtime string) (*taskapi.Client, error) {
	c, err := taskapi.Connect(ctx, filepath.Join(runtime, launcher.SocketName))
	if err != nil && taskapi.Absent(err) {
		return nil, nil //nolint:nilnil // there is none, and that is no error
	}
	return c, err
}

// other says which folder of a service is another than the caller's: its tasks,
// settings and models would be others than those that are meant.
func other(cfg Config, c *taskapi.Client) error {
	ours, theirs := cfg.Folders, c.Folders()
	for _, f := range []struct{ what, variable, ours, theirs string }{
		{"the settings", "XDG_CONFIG_HOME", ours.Config, theirs.Config},
		{"the tasks", "XDG_DATA_HOME", ours.Data, theirs.Data},
		{"the state", "XDG_STATE_HOME", ours.State, theirs.State},
	} {
		if f.ours == f.theirs {
			continue
		}
		return bailey.NewError(bailey.Conflict,
			fmt.Sprintf("the service that runs at %s works with %s in %s, and this command with those in %s: it was started with another HOME or %s", c.Socket(), f.what, f.theirs, f.ours, f.variable),
			"bailey serve stop ends it, and the next command starts one of its own; with XDG_RUNTIME_DIR set to another folder both can run")
	}
	return nil
}

// start starts it. The channel is closed when it has ended.
func start(cfg Config, said *os.File) (<-chan struct{}, error) {
	cmd := &exec.Cmd{
		Path: cfg.Executable, Args: []string{"bailey", "serve", "--local", "--idle", cfg.Idle.String()},
		Dir: "/", Stderr: said, SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // what it said is the reason
		close(ended)
	}()
	return ended, nil
}

// await waits until the service answers: the one that was started or, where that
// has ended since there was another, the other. Where there is no other, nothing
// is waited for.
func await(ctx context.Context, cfg Config, ended <-chan struct{}, said *os.File) (c *taskapi.Client, started bool, err error) {
	limit := time.NewTimer(answerTime)
	defer limit.Stop()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	look := connectOwn
	for held := false; ; {
		if c, err := look(ctx, cfg); c != nil || err != nil {
			return c, ended != nil, err
		}
		if ended == nil {
			found, err := launcher.Find(cfg.Runtime, cfg.Folders.Data)
			switch {
			case err == nil && found != nil:
				held = true
			case err == nil && held: // it was about to end
				return nil, false, fmt.Errorf("%w: %w", errFree, failed(said, errEnded))
			default:
				return nil, false, failed(said, cmp.Or(err, errEnded))
			}
		}
		select {
		case <-ended:
			ended, look = nil, Running
		case <-tick.C:
		case <-limit.C:
			return nil, false, failed(said, errSilent)
		case <-ctx.Done():
			return nil, false, ctx.Err()
		}
	}
}

// connectOwn is Running without a look at the locks, which a service that just
// starts wants to take.
func connectOwn(ctx context.Context, cfg Config) (*taskapi.Client, error) {
	c, err := connect(ctx, cfg.Runtime)
	if c != nil {
		if err = other(cfg, c); err != nil {
			c.Close()
			return nil, err
		}
	}
	return c, err
}

// The reasons where a service gives none; and that of one that has ended for
// another which has ended since.
var (
	errSilent = errors.New("nobody listens at its socket")
	errEnded  = errors.New("it ended")
	errFree   = errors.New("there is no service any more")
)

// failed says why the service does not answer, in its own words where it has
// some.
func failed(said *os.File, last error) error {
	b, _ := io.ReadAll(io.NewSectionReader(said, 0, mostSaid))
	message, hint := "", ""
	for l := range strings.Lines(string(b)) {
		l = strings.TrimSpace(terminal.Sanitize(strings.TrimRight(l, "\r\n")))
		if h, ok := strings.CutPrefix(l, "hint: "); ok {
			hint = h
		} else if m, ok := strings.CutPrefix(l, "bailey: "); ok {
			message = m
		}
	}
	if message == "" {
		return bailey.WrapError(bailey.Unavailable, "the service of tasks was started and does not answer", last, fmt.Sprintf("bailey serve --local says more; so may %s", said.Name()))
	}
	return bailey.NewError(bailey.Unavailable, "the service of tasks could not be started: "+message, hint)
}
