// Package summon finds the service of tasks, and starts it where there is none:
// bailey itself, as `serve --local`, in a session of its own, with no terminal
// and no descriptor of who started it. It waits until the service answers, and
// says why it does not.
package summon

import (
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
	"github.com/bailey-dev/bailey/internal/taskapi"
	"github.com/bailey-dev/bailey/internal/terminal"
)

// Config says where the service is, and how it is started.
type Config struct {
	Executable string        // bailey's own binary
	Socket     string        // of the service
	State      string        // bailey's state folder: what the service says at its start is kept there
	Idle       time.Duration // the service that is started ends after so long without client and task
}

const (
	answerTime = 20 * time.Second      // the service that is started has to answer by then
	poll       = 20 * time.Millisecond // between looks
	again      = 3 * time.Second       // after it ended: another that started at the same time may answer
	mostSaid   = 8 << 10
	saidName   = "serve-start.log"
)

// Service connects to the service, which it starts if nobody listens.
func Service(ctx context.Context, cfg Config) (*taskapi.Client, error) {
	c, err := taskapi.Connect(ctx, cfg.Socket)
	if err == nil || !taskapi.Absent(err) {
		return c, err
	}
	said, err := os.OpenFile(filepath.Join(cfg.State, saidName), os.O_RDWR|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
	if errors.Is(err, os.ErrNotExist) {
		if err = os.MkdirAll(cfg.State, 0o700); err == nil {
			said, err = os.OpenFile(filepath.Join(cfg.State, saidName), os.O_RDWR|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
		}
	}
	if err != nil {
		return nil, bailey.WrapError(bailey.Unavailable, "start the service of tasks", err, "set XDG_STATE_HOME to a folder of yours")
	}
	defer func() { _ = said.Close() }() // the service has its own
	ended, err := start(cfg, said)
	if err != nil {
		return nil, bailey.WrapError(bailey.Unavailable, "start the service of tasks", err, "")
	}
	return await(ctx, cfg, ended, said)
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

// await waits until the service answers.
func await(ctx context.Context, cfg Config, ended <-chan struct{}, said *os.File) (*taskapi.Client, error) {
	limit := time.NewTimer(answerTime)
	defer limit.Stop()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	var last error
	for {
		c, err := taskapi.Connect(ctx, cfg.Socket)
		if err == nil || !taskapi.Absent(err) {
			return c, err
		}
		last = err
		select {
		case <-ended:
			ended = nil
			limit.Reset(again)
		case <-tick.C:
		case <-limit.C:
			return nil, failed(said, last)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

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
