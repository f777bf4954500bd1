package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// limit bounds each single run: a start that hangs is an error.
const limit = time.Minute

func (l *lab) time(ctx context.Context, c contender) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := l.command(ctx, c)
	begin := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(begin)
	if err != nil {
		return 0, fmt.Errorf("%s: %w: %s", c.name, err, strings.TrimSpace(string(out)))
	}
	return float64(took.Microseconds()) / 1000, nil
}

// atOnce starts n sandboxes at the same moment.
func (l *lab) atOnce(ctx context.Context, n int) atOnce {
	c := contender{name: caseNone, argv: []string{l.bailey, "run", "--quiet", "--net", "none", "--", "true"}, dir: l.work}
	var mu sync.Mutex
	var ms []float64
	result := atOnce{Started: n}
	begin := time.Now()
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			took, err := l.time(ctx, c)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				result.Failed++
				result.Error = err.Error()
				return
			}
			ms = append(ms, took)
		})
	}
	wg.Wait()
	result.WallMS = float64(time.Since(begin).Milliseconds())
	result.Each = summarize("each", ms)
	return result
}

// running is a sandbox that stays, to be entered and weighed.
type running struct {
	name string
	cmd  *exec.Cmd
	in   io.Closer
	once sync.Once
}

// startRunning starts a sandbox and waits until its command has said a word.
// The command ends at the end of its input.
func (l *lab) startRunning(ctx context.Context, flags ...string) (*running, error) {
	r := &running{name: fmt.Sprintf("bench-%d", os.Getpid())}
	argv := append([]string{l.bailey, "run", "--quiet", "--name", r.name}, flags...)
	r.cmd = l.command(ctx, contender{argv: append(argv, "--", "sh", "-c", "echo ready; cat"), dir: l.work})
	in, err := r.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	var problems bytes.Buffer
	r.cmd.Stderr, r.in = &problems, in
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	buf := make([]byte, len("ready\n"))
	if _, err := io.ReadFull(out, buf); err != nil {
		r.stop()
		return nil, fmt.Errorf("start a sandbox that stays: %w: %s", err, problems.String())
	}
	return r, nil
}

func (r *running) stop() {
	r.once.Do(func() {
		_ = r.in.Close()
		timer := time.AfterFunc(10*time.Second, func() { _ = r.cmd.Process.Kill() })
		defer timer.Stop()
		_ = r.cmd.Wait()
	})
}

func buildRunsc(ctx context.Context, path, dir string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "./bench/runsc")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build gVisor's own command line: %w: %s", err, out)
	}
	return copyProgram(path, dir)
}

// copyProgram copies an executable to where every user may run it.
func copyProgram(from, dir string) (string, error) {
	data, err := os.ReadFile(from)
	if err != nil {
		return "", err
	}
	to := filepath.Join(dir, filepath.Base(from))
	return to, os.WriteFile(to, data, 0o755)
}

func credential(name string) (*syscall.Credential, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}
