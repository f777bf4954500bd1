package launcher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/bailey-dev/bailey/internal/launch"
	"github.com/bailey-dev/bailey/internal/launcher"
	"github.com/bailey-dev/bailey/internal/linux/fdpass"
	"github.com/bailey-dev/bailey/internal/role"
)

// Control that ends by itself is started again: at once, and then ever later,
// until it has lasted for steady.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 10 * time.Second
	steady     = time.Minute
	// controlGrace is for what control has to do when it is told to end: end
	// its tasks, and have their work handed back and delivered.
	controlGrace = 60 * time.Second
)

// control keeps the role alive that people and planners meet.
type control struct {
	home     *household
	host     launcher.Host
	settings launcher.ControlSettings
	state    string // its own folder
	clients  *os.File
	mcp      *os.File // nil: not served
	log      *slog.Logger
	now      func() time.Time
}

// keep starts it, and again when it has ended, until ctx ends; then it is asked
// to end.
func (c *control) keep(ctx context.Context) {
	pause := firstPause
	for {
		began := c.now()
		err := c.once(ctx)
		if ctx.Err() != nil {
			return
		}
		if c.now().Sub(began) > steady {
			pause = firstPause
		}
		c.settings.Restarted++
		c.log.LogAttrs(ctx, slog.LevelError, "control ended and is started again", slog.Duration("after", pause), slog.String("why", fmt.Sprint(err)))
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, lastPause)
	}
}

// once runs it to its end. The end of ctx asks it to end, in its grace.
func (c *control) once(ctx context.Context) error {
	ours, theirs, err := fdpass.PacketPair("engine")
	if err != nil {
		return err
	}
	defer func() { _ = ours.Close() }()
	child, err := c.start(theirs) //nolint:contextcheck // it outlives ctx by its grace
	if err := errors.Join(err, theirs.Close()); err != nil {
		return err
	}
	// What it asks for is done until it has ended, also when it was told to.
	asked, done := context.WithCancel(context.WithoutCancel(ctx))
	defer done()
	served := make(chan error, 1)
	go func() { served <- launcher.Serve(asked, ours, c.host) }()
	select {
	case <-child.done:
	case err = <-served: // it has closed its end, or does not keep to the protocol
		served <- nil
		child.end(time.Second)
	case <-ctx.Done():
		child.end(controlGrace)
	}
	done()
	late := <-served
	_ = late // it is in err, if it came first
	return errors.Join(err, fmt.Errorf("it ended: %v", child.cmd.ProcessState))
}

// start starts the process. Under root it has an id of its own.
func (c *control) start(engine *os.File) (*child, error) {
	settings, err := document(c.settings)
	if err != nil {
		return nil, err
	}
	defer func() { _ = settings.Close() }() // it has its own
	state, err := os.Open(c.state)
	if err != nil {
		return nil, fmt.Errorf("open the folder of control: %w", err)
	}
	defer func() { _ = state.Close() }()
	mcp := c.mcp
	if mcp == nil {
		if mcp, err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
			return nil, fmt.Errorf("open the null device: %w", err)
		}
		defer func() { _ = mcp.Close() }()
	}
	said, says, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe for control: %w", err)
	}
	defer func() { _ = says.Close() }()
	cmd := &exec.Cmd{
		Path: self, Args: []string{role.Control}, Env: []string{}, Stderr: says,
		ExtraFiles: []*os.File{settings, engine, c.clients, mcp, state},
	}
	if c.settings.UID == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: launch.ControlID, Gid: launch.ControlID}}
	}
	child, err := c.home.start(cmd)
	if err != nil {
		return nil, errors.Join(err, said.Close())
	}
	go func() {
		relay(context.Background(), said, "control", c.log) //nolint:forbidigo // it ends with the process that says it
		_ = said.Close()
	}()
	return child, nil
}

// controlFolder makes control's own folder. Under root it belongs to control's
// id.
func controlFolder(state string, uid int) (string, error) {
	path := filepath.Join(state, launcher.Control)
	if uid != 0 {
		return path, private(path, uid)
	}
	if err := os.MkdirAll(state, 0o700); err != nil {
		return "", fmt.Errorf("make the folder %s: %w", state, err)
	}
	if err := os.Mkdir(path, 0o700); err == nil {
		if err := os.Lchown(path, launch.ControlID, launch.ControlID); err != nil {
			return "", fmt.Errorf("give control its folder: %w", err)
		}
	}
	return path, private(path, launch.ControlID)
}
