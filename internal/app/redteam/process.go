package redteam

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey/internal/config"
)

func processAttacks() []attack {
	return []attack{
		{"ISO-06", "root", "be root", "", beRoot, false},
		{"ISO-06", "owner", "leave files that belong to somebody else", "that takes root", leaveFile, false},
		{"ISO-10", "environments", "read the secret in another process's environment", "", readEnvironments, false},
		{"ISO-10", "memory", "read another process's memory", "", readMemory, false},
		{"ISO-14", "signal", "signal a process of the caller", "", func(_ context.Context, t *Target) took { return tell(unix.Kill(t.Process, unix.SIGUSR1)) }, false},
		{"ISO-14", "trace", "trace a process of the caller", "", trace, false},
		{"SEC-08", "variable", "find a variable that was not named", "", readOwn, false},
	}
}

// tell is an attack whose error says little: the judge knows by the bait.
func tell(err error) took {
	if err != nil {
		return failed(err)
	}
	return took{Said: "no error"}
}

func beRoot(context.Context, *Target) took {
	return took{Reached: os.Geteuid() == 0, Said: fmt.Sprintf("uid %d", os.Geteuid())}
}

// leaveFile leaves a file; the judge looks at its owner on the host.
func leaveFile(_ context.Context, t *Target) took {
	path := filepath.Join(t.Scratch, "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return failed(err)
	}
	return tell(os.Chown(path, 0, 0))
}

func readEnvironments(context.Context, *Target) took {
	var got took
	for _, pid := range processes() {
		for _, name := range []string{"environ", "cmdline"} {
			if pid == os.Getpid() {
				continue // what is its own is another attack
			}
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
			if err == nil {
				got.Data = append(append(got.Data, b...), '\n')
			}
		}
		if len(got.Data) > mostData {
			got.Data = onlyBait(got.Data)
		}
	}
	got.Data = onlyBait(got.Data)
	return got
}

// onlyBait keeps, of much data, what may be the bait's content.
func onlyBait(b []byte) []byte {
	at := strings.Index(string(b), canaryPrefix)
	if at < 0 {
		return nil
	}
	return b[at:min(len(b), at+canaryLength)]
}

// readMemory reads the memory of the caller's process, which keeps the secret
// in its environment, at the end of its stack.
func readMemory(_ context.Context, t *Target) took {
	stack := ""
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", t.Process))
	if err != nil {
		return failed(err)
	}
	for line := range strings.Lines(string(maps)) {
		if strings.Contains(line, "[stack]") {
			stack = line
		}
	}
	var from, to int64
	if _, err := fmt.Sscanf(stack, "%x-%x", &from, &to); err != nil {
		return failed(errors.New("its stack is not to be seen"))
	}
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", t.Process))
	if err != nil {
		return failed(err)
	}
	defer mem.Close()
	b := make([]byte, to-from)
	n, err := mem.ReadAt(b, from)
	if n == 0 {
		return failed(err)
	}
	return took{Data: onlyBait(b[:n]), Said: "read its stack"}
}

func trace(_ context.Context, t *Target) took {
	return by(onThread(func() error {
		if err := unix.PtraceSeize(t.Process); err != nil {
			return err
		}
		return nil // the end of the thread lets it go
	}))
}

func readOwn(_ context.Context, t *Target) took {
	if v, ok := config.Environment()(t.Variable); ok {
		return took{Reached: true, Data: []byte(v), Said: t.Variable + " is set"}
	}
	return took{Said: t.Variable + " is not set"}
}

// Hold is the caller's process of the bait: it says that it is there and when
// it was signalled, and ends with its input.
func Hold(in io.Reader, out io.Writer) error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGUSR1)
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("be like any process: %w", err)
	}
	if _, err := io.WriteString(out, "ready\n"); err != nil {
		return fmt.Errorf("say that it is there: %w", err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, in)
		ended <- err
	}()
	for {
		select {
		case <-signals:
			_, _ = io.WriteString(out, "signal\n")
		case err := <-ended:
			return err
		}
	}
}
