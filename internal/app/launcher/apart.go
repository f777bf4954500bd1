package launcher

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/bailey-dev/bailey/internal/launcher"
	"github.com/bailey-dev/bailey/internal/linux/proc"
	"github.com/bailey-dev/bailey/internal/role"
)

// crowded reports whether this process has children that it did not start, or
// will have: those of a program that became bailey, as the last command of a
// script does, and as the first process of a container all whose parents end.
// Another service may be among them.
func crowded() bool { return os.Getpid() == 1 || len(proc.Children()) > 0 }

// apart has the launcher be a child of this process, hands signals on to it,
// and returns its exit code. A household ends what it did not start and is its
// child all the same: that has to come from its own sandboxes alone. What comes
// to this process is nobody's here, and is only taken note of when it ends.
func apart() (int, error) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	cmd := &exec.Cmd{
		Path: self, Args: []string{role.Launcher, tiedArg}, Env: []string{}, Dir: "/",
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		ExtraFiles:  []*os.File{os.NewFile(launcher.FDSettings, "settings")},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	}
	runtime.LockOSThread() // to which the death signal is tied
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("start the launcher: %w", err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			_ = cmd.Process.Signal(s)
		case <-ended:
			reapBut(cmd.Process.Pid)
		case err := <-done:
			return codeOf(err)
		}
	}
}

// reapBut takes note of the end of every child but one.
func reapBut(known int) {
	for _, pid := range proc.Children() {
		if pid != known {
			proc.Reap(pid)
		}
	}
}

// codeOf is the exit code of a process that was waited for.
func codeOf(err error) (int, error) {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Exited() {
		return exit.ExitCode(), nil
	}
	if err != nil {
		return 0, fmt.Errorf("the launcher ended: %w", err)
	}
	return 0, nil
}
