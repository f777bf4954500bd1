package redteam

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// wouldFill is why a limit is not tried without a sandbox.
const wouldFill = "it would fill this machine"

func limitAttacks() []attack {
	return []attack{
		{"ISO-08", "files", "open more files than a process may", wouldFill, openMany, true},
	}
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
	Name  string // processes, memory, disk or deadline
	Claim string
	About string
	Exit  int // the exit code of a run that held
}

// What the bombs' sandboxes may use, in processes and bytes, and how long. A
// process takes gVisor a twentieth of a second, and much more on a busy machine:
// so there are few.
const (
	BombProcesses = 64
	BombMemory    = 256 << 20
	BombDisk      = 32 << 20
	BombDeadline  = 3 * time.Second
	BombTime      = time.Minute // but for the deadline's
)

// Bombs lists them.
func Bombs() []Bomb {
	return []Bomb{
		{"processes", "ISO-08", "start more processes than the sandbox may have", refused},
		{"memory", "ISO-08", "use up the machine's memory", killed},
		{"disk", "ISO-08", "fill the machine's disk", killed},
		{"deadline", "ISO-09", "live on after the deadline, deaf to signals", late},
	}
}

// Exit codes of bombs.
const (
	worked  = 0
	refused = 3   // the bomb says so itself
	late    = 124 // bailey.ExitDeadline
	killed  = 137
)

// ID is the attack's.
func (b Bomb) ID() string { return b.Claim + "/" + b.Name }

// Explode is a bomb's inside. It returns an exit code when nothing stopped it,
// or when what did was a refusal.
func Explode(ctx context.Context, name, scratch string) (int, error) {
	switch name {
	case "processes":
		ctx, cancel := context.WithTimeout(ctx, BombTime-bombEnd)
		defer cancel()
		return fork(ctx, BombProcesses)
	case "memory":
		return worked, fillMemory()
	case "disk":
		return worked, fillDisk(scratch)
	case "deadline":
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		time.Sleep(10 * BombDeadline)
		return worked, nil
	}
	return 0, fmt.Errorf("no bomb %q", name)
}

// bombEnd is how long before the end of its sandbox a bomb gives up.
const bombEnd = 10 * time.Second

// forkScript makes processes that wait. A shell is small and they are nothing
// else, so they are made quickly. It ends when one is refused to it.
const forkScript = `exec 3<&0; i=0; while [ $i -lt "$0" ]; do read -r x <&3 >&- 2>&- & i=$((i+1)); echo $i; done`

// fork starts more processes than a limit.
func fork(ctx context.Context, limit int) (int, error) {
	most := limit + limit/2
	c := exec.CommandContext(ctx, "/bin/sh", "-c", forkScript, strconv.Itoa(most))
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.WaitDelay = time.Second
	wait, held, err := os.Pipe()
	if err != nil {
		return 0, fmt.Errorf("make a pipe: %w", err)
	}
	defer held.Close()
	c.Stdin = wait
	out, err := c.Output()
	_ = wait.Close()
	if c.Process != nil {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
	}
	made := bytes.Count(out, []byte("\n"))
	switch {
	case made >= most:
		return worked, nil
	case ctx.Err() != nil:
		return late, nil
	case made < limit/4: // that was no limit
		return 0, fmt.Errorf("the shell ended after %d processes: %w", made, errors.Join(err, io.ErrUnexpectedEOF))
	}
	return refused, nil
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
