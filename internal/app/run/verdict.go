package run

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/session"
	"github.com/bailey-dev/bailey/internal/watch"
)

// stopGrace is how long a sandbox that was told to stop has before it is
// killed: its processes have two seconds of it.
const stopGrace = 2500 * time.Millisecond

// Reasons of an ending, beside the limits of package watch.
const (
	reasonStop     = "stop"
	reasonProxy    = "proxy"
	reasonWatchdog = "watchdog"
	reasonGit      = "git"
)

// ending is why a run is ended from outside of its command.
type ending struct {
	reason  string // reasonStop, or one of package watch's limits
	message string
	at      time.Time // when; zero for when it is told
}

// Error says why.
func (e *ending) Error() string { return e.message }

// verdict turns the end of the command into the exit code of `bailey run`,
// and says what a person has to know. That is so too where bailey failed: what
// the sandbox did is no other for that.
func (u *running) verdict(r session.Result, err error) (int, error) {
	u.last = &bailey.Event{Type: bailey.EventSandboxExited, Name: u.plan.name}
	code, err := u.judge(r, err)
	if r.Signal != 0 && u.limit == "" && err == nil {
		u.last.Signal = unix.SignalName(r.Signal)
	}
	u.footer(r)
	return code, err
}

func (u *running) judge(r session.Result, err error) (int, error) {
	var e *ending
	switch {
	case errors.As(err, &e):
		return u.endedFor(e), nil
	case u.limits.outOfMemory() && (err != nil || r.Signal == syscall.SIGKILL || r.Code == bailey.ExitOutOfMemory):
		return u.outOfMemory(), nil //nolint:nilerr // the reason is told in its own way
	case err == nil && u.atEnd != nil && u.atEnd.reason != reasonStop:
		// It was told to end, and did so in its own way.
		return u.endedFor(u.atEnd), nil
	case err == nil:
		u.tellKilled()
		return r.Status(), nil
	case errors.Is(err, session.ErrLost):
		return u.lost()
	case bailey.KindOf(err) == bailey.NotFound || r.Code == bailey.ExitNotFound || r.Code == bailey.ExitCannotRun:
		u.out.must("%s", err.Error())
		u.out.event(bailey.Event{Type: bailey.EventError, Message: err.Error(), ExitCode: &r.Code})
		return r.Code, nil
	}
	return 0, err
}

func (u *running) endedFor(e *ending) int {
	if e.reason != reasonStop && e.reason != reasonProxy && e.reason != reasonWatchdog && e.reason != reasonGit {
		u.limit = e.reason
		u.out.event(bailey.Event{Type: bailey.EventLimitReached, Time: e.at, Limit: e.reason, Message: e.message})
	}
	switch e.reason {
	case watch.Timeout:
		u.out.must("stopped: %s", e.message)
		return bailey.ExitDeadline
	case watch.Memory:
		u.out.must("out of memory: %s", e.message)
		return bailey.ExitOutOfMemory
	case reasonStop:
		u.out.say("stopped")
		return bailey.ExitSignalBase + int(syscall.SIGTERM)
	case reasonProxy, reasonWatchdog:
		code := bailey.ExitBailey
		u.out.event(bailey.Event{Type: bailey.EventError, Message: e.message, ExitCode: &code})
		u.out.must("stopped: %s", e.message)
		return code
	case reasonGit:
		u.out.event(bailey.Event{Type: bailey.EventFileTripped, Time: e.at, Message: e.message})
	}
	u.out.must("stopped: %s", e.message)
	return bailey.ExitSignalBase + int(syscall.SIGKILL)
}

// tellKilled says that the kernel has killed processes of a sandbox for its
// memory, and its command has gone on: without gVisor each is a process of the
// kernel's, and the largest goes first.
func (u *running) tellKilled() {
	if u.plan.spec.Runtime != bailey.RuntimeNative || !u.limits.outOfMemory() {
		return
	}
	message := fmt.Sprintf("processes were killed at the sandbox's limit of %d MiB; --memory raises it", u.plan.spec.Limits.MemoryBytes>>20)
	u.out.event(bailey.Event{Type: bailey.EventLimitReached, Limit: watch.Memory, Message: message})
	u.out.must("out of memory: %s", message)
}

func (u *running) outOfMemory() int {
	u.limit = watch.Memory
	limit := u.plan.spec.Limits.MemoryBytes
	message := fmt.Sprintf("the sandbox reached its limit of %d MiB; --memory raises it", limit>>20)
	u.out.event(bailey.Event{Type: bailey.EventLimitReached, Limit: watch.Memory, Message: message})
	u.out.must("out of memory: %s", message)
	return bailey.ExitOutOfMemory
}

// lost explains a sandbox that went away under its command. A limit may have
// been reached a moment before its report arrives.
func (u *running) lost() (int, error) {
	if u.limits.outOfMemory() {
		return u.outOfMemory(), nil
	}
	if e := u.whyEnded(300 * time.Millisecond); e != nil {
		return u.endedFor(e), nil
	}
	message, hint := session.ErrLost.Error(), "if nothing in the sandbox killed its process 1, please report this"
	if !u.ran.Load() {
		message = u.plan.spec.Runtime.String() + " did not start the sandbox"
		hint = "something may have changed the workspace meanwhile: try again"
	}
	if u.plan.spec.Runtime == bailey.RuntimeGvisor {
		hint += "; BAILEY_DEBUG=DIR keeps gVisor's logs"
	}
	exit := u.sandbox.Exit()
	if exit.Message != "" {
		message += ": " + exit.Message
	}
	if exit.Hint != "" {
		hint = exit.Hint
	}
	if log := strings.TrimSpace(exit.Log); log != "" {
		message += ": " + u.plan.spec.Runtime.String() + " said: " + lastLine(log)
	}
	return 0, bailey.NewError(bailey.Internal, message, hint)
}

// whyEnded returns why the run was ended from outside, or nil; a report may be
// on its way.
func (u *running) whyEnded(patience time.Duration) *ending {
	select {
	case e := <-u.stop:
		return &e
	case <-time.After(patience):
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.ended
}

func lastLine(s string) string {
	return s[strings.LastIndexByte(s, '\n')+1:]
}
