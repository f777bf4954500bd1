package autophase

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/config"
	"github.com/bailey-dev/bailey/internal/phase"
	"github.com/bailey-dev/bailey/internal/policy"
	"github.com/bailey-dev/bailey/internal/role"
)

// heard is what a sandbox said of itself.
type heard struct {
	End
	header string
	used   phase.Work     // tokens and money of the model calls
	runs   []bailey.Event // files that the host would run, or git would
	notes  []string
	output string // the last of what its command printed
	unfit  string // why its command could not be started; empty: it was
}

// killPatience is how long a sandbox that was told to end may take.
const killPatience = 20 * time.Second

// sandbox has an order done by a process of its own. Its command's output goes
// to the files. When ctx ends, so does the sandbox, in order.
func (d *Driver) sandbox(ctx context.Context, o Order, stdout, stderr *os.File) (*heard, error) {
	order, err := document(o)
	if err != nil {
		return nil, err
	}
	defer func() { _ = order.Close() }() // read only: nothing to lose
	eventsOut, events, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make event pipe: %w", err)
	}
	endOut, end, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make pipe: %w", errors.Join(err, events.Close(), eventsOut.Close()))
	}
	cmd := &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{role.Unit}, Dir: d.Workspace, Env: config.Pairs(),
		Stdout: stdout, Stderr: stderr, ExtraFiles: []*os.File{order, events, end},
		SysProcAttr: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true},
	}
	h := &heard{}
	var said sync.WaitGroup
	said.Go(func() { h.listen(eventsOut) })
	var ended []byte
	said.Go(func() { ended, _ = io.ReadAll(io.LimitReader(endOut, MaxOrder)) })
	err = runTied(ctx, cmd, func() { _, _ = events.Close(), end.Close() })
	said.Wait()
	_, _ = eventsOut.Close(), endOut.Close()
	if json.Unmarshal(ended, &h.End) != nil {
		return nil, bailey.WrapError(bailey.Internal, "the process of the sandbox ended without a word", errors.Join(err, context.Cause(ctx)), "")
	}
	if h.Error != "" {
		return h, bailey.NewError(bailey.Unavailable, h.Error, h.Hint)
	}
	return h, nil
}

// document is a file in memory that holds a value.
func document(v any) (*os.File, error) {
	fd, err := unix.MemfdCreate("order", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make order: %w", err)
	}
	f := os.NewFile(uintptr(fd), "order")
	if err = json.NewEncoder(f).Encode(v); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, fmt.Errorf("make order: %w", errors.Join(err, f.Close()))
	}
	return f, nil
}

// runTied starts a child that the kernel kills when this process dies, and waits
// for it: the death signal is tied to the thread that forks. When ctx ends it is
// told to end, and killed when it does not.
func runTied(ctx context.Context, cmd *exec.Cmd, started func()) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := cmd.Start()
	started()
	if err != nil {
		return err
	}
	done := make(chan struct{})
	go func() {
		select {
		case <-done:
			return
		case <-ctx.Done():
			_ = cmd.Process.Signal(syscall.SIGTERM)
		}
		select {
		case <-done:
		case <-time.After(killPatience):
			_ = cmd.Process.Kill()
		}
	}()
	err = cmd.Wait()
	close(done)
	return err
}

// Bounds of what is heard.
const (
	mostEvent = 1 << 20
	mostSaid  = 200
)

// listen takes events. They come from bailey, and hold names that strangers gave.
func (h *heard) listen(from io.Reader) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, mostEvent)
	for lines.Scan() {
		var e bailey.Event
		if json.Unmarshal(lines.Bytes(), &e) == nil {
			h.take(e)
		}
	}
	_, _ = io.Copy(io.Discard, from) // or the sandbox would wait
}

func (h *heard) take(e bailey.Event) {
	switch e.Type { //nolint:exhaustive // the others are for those who watch a run
	case bailey.EventSandboxStarting:
		h.header = e.Message
	case bailey.EventModelCall: // and not their sum, which comes last and is lost with a gateway that is killed
		if u := e.Use; u != nil {
			h.used.Add(u.Input+u.Output+u.CacheRead+u.CacheWrite, u.CostUSD)
		}
	case bailey.EventFileRuns, bailey.EventFileGit, bailey.EventFileOpen:
		if len(h.runs) < mostSaid {
			h.runs = append(h.runs, e)
		}
	case bailey.EventFileShadowed, bailey.EventFileReverted, bailey.EventFileTripped:
		h.note(e.Path + ": " + e.Message)
	case bailey.EventError:
		if c := e.ExitCode; c != nil && (*c == bailey.ExitCannotRun || *c == bailey.ExitNotFound) {
			h.unfit = e.Message
		}
		h.note(e.Message)
	case bailey.EventLimitReached, bailey.EventWarning:
		h.note(e.Message)
	case bailey.EventNetDecision:
		if e.Verdict == "deny" {
			what := "the network refused "
			if e.Host != "" && policy.Unreached(e.Reason) != "" {
				what = "the network could not reach "
			}
			h.note(what + e.Host + " (" + e.Reason + ")")
		}
	}
}

func (h *heard) note(s string) {
	if slices.Contains(h.notes, s) {
		return
	}
	if len(h.notes) < mostSaid {
		h.notes = append(h.notes, s)
	}
}
