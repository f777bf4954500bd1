package redteam

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// wouldFill is why a limit is not tried without a sandbox.
const wouldFill = "it would fill this machine"

func limitAttacks() []attack {
	return []attack{
		{"ISO-08", "processes", "start more processes than the sandbox may have", wouldFill, fork, true},
		{"ISO-08", "files", "open more files than a process may", wouldFill, openMany, true},
	}
}

// mostTried bounds what is tried against a limit that is very wide.
const mostTried = 4096

func fork(ctx context.Context, t *Target) took {
	if t.Processes == 0 || t.Processes > mostTried {
		return moot(fmt.Sprintf("a limit of %d is not tried", t.Processes))
	}
	// A shell is small, so its children are made quickly. It ends when one is
	// refused to it.
	c := exec.CommandContext(ctx, "/bin/sh", "-c", `i=0; while [ $i -lt "$0" ]; do sleep 300 >/dev/null 2>&1 & i=$((i+1)); done; echo all`, strconv.FormatInt(t.Processes+32, 10))
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := c.Output()
	if c.Process != nil {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
	}
	switch {
	case ctx.Err() != nil:
		return took{Late: true, Said: "it did not come back"}
	case err != nil:
		return failed(err)
	}
	return took{Reached: strings.TrimSpace(string(out)) == "all", Said: fmt.Sprintf("%d processes at once", t.Processes+32)}
}

func openMany(_ context.Context, t *Target) took {
	const most = 1 << 16
	if t.Files == 0 || t.Files > most {
		return moot(fmt.Sprintf("a limit of %d is not tried", t.Files))
	}
	var open []*os.File
	defer func() {
		for _, f := range open {
			_ = f.Close()
		}
	}()
	for range t.Files + 8 {
		f, err := os.Open(os.DevNull)
		if err != nil {
			return failed(fmt.Errorf("after %d: %w", len(open), err))
		}
		open = append(open, f)
	}
	return took{Reached: true, Said: fmt.Sprintf("%d files at once", len(open))}
}

// Bomb is an attack that ends a sandbox of its own.
type Bomb struct {
	Name  string // memory, disk or deadline
	Claim string
	About string
	Exit  int // the exit code of a run that held
}

// What the bombs' sandboxes may use, in bytes, and how long.
const (
	BombMemory   = 256 << 20
	BombDisk     = 32 << 20
	BombDeadline = 3 * time.Second
)

// Bombs lists them.
func Bombs() []Bomb {
	const killed, late = 137, 124
	return []Bomb{
		{"memory", "ISO-08", "use up the machine's memory", killed},
		{"disk", "ISO-08", "fill the machine's disk", killed},
		{"deadline", "ISO-09", "live on after the deadline, deaf to signals", late},
	}
}

// ID is the attack's.
func (b Bomb) ID() string { return b.Claim + "/" + b.Name }

// Explode is a bomb's inside. It returns when nothing stopped it.
func Explode(name, scratch string) error {
	switch name {
	case "memory":
		return fillMemory()
	case "disk":
		return fillDisk(scratch)
	case "deadline":
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		time.Sleep(10 * BombDeadline)
		return nil
	}
	return fmt.Errorf("no bomb %q", name)
}

func fillMemory() error {
	const chunk = 8 << 20
	var all [][]byte
	for range 4 * BombMemory / chunk {
		b := make([]byte, chunk)
		for i := 0; i < len(b); i += 4096 {
			b[i] = byte(i>>12) | 1
		}
		all = append(all, b)
	}
	if len(all) == 0 {
		return errors.New("nothing was filled")
	}
	return nil
}

func fillDisk(scratch string) error {
	b := make([]byte, 1<<20)
	var err error
	for i := range 8 * BombDisk / len(b) {
		err = errors.Join(err, os.WriteFile(filepath.Join(scratch, fmt.Sprintf("fill-%d", i)), b, 0o600))
		time.Sleep(5 * time.Millisecond) // what watches is to see it
	}
	return err
}
