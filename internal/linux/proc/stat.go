package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Stat is what /proc/PID/stat tells; it is readable by everybody.
type Stat struct {
	PPID  int    // parent, 0 if it is in no namespace of the reader
	State byte   // as ps(1) shows it: R, S, D, T, Z, X …
	Start uint64 // clock ticks from boot to the start of the process
}

// ErrGone means that the process has ended and its parent has taken note.
var ErrGone = errors.New("process is gone")

// ReadStat reads the state of the process pid, or ErrGone.
func ReadStat(pid int) (Stat, error) {
	b, err := readFile(pid, "stat")
	if err != nil {
		return Stat{}, err
	}
	s, err := parseStat(b)
	if err != nil {
		return Stat{}, fmt.Errorf("parse stat of process %d: %w", pid, err)
	}
	return s, nil
}

// parseStat reads the fields of proc_pid_stat(5). The second is the command's
// name in parentheses, which may itself hold spaces and parentheses: the last
// one ends it.
func parseStat(b []byte) (Stat, error) {
	end := bytes.LastIndexByte(b, ')')
	if end < 0 {
		return Stat{}, errors.New("no command name")
	}
	const state, ppid, start = 0, 1, 19 // counted from the third field
	f := strings.Fields(string(b[end+1:]))
	if len(f) <= start || len(f[state]) != 1 {
		return Stat{}, fmt.Errorf("%d fields after the name", len(f))
	}
	p, perr := strconv.Atoi(f[ppid])
	s, serr := strconv.ParseUint(f[start], 10, 64)
	if err := errors.Join(perr, serr); err != nil {
		return Stat{}, err
	}
	return Stat{PPID: p, State: f[state][0], Start: s}, nil
}

// PIDNamespace returns the number of the pid namespace that the process is in.
// It needs the right to look into the process (ptrace(2)).
func PIDNamespace(pid int) (uint64, error) {
	link, err := os.Readlink(path(pid, "ns/pid"))
	if err != nil {
		return 0, gone(err)
	}
	n, ok := strings.CutPrefix(link, "pid:[")
	n, ok2 := strings.CutSuffix(n, "]")
	if !ok || !ok2 {
		return 0, fmt.Errorf("pid namespace of process %d reads %q", pid, link)
	}
	return strconv.ParseUint(n, 10, 64)
}

func path(pid int, name string) string { return "/proc/" + strconv.Itoa(pid) + "/" + name }

// readFile reads a small file of /proc in one call, without the stat and the
// second read of os.ReadFile: it is done for many processes many times.
func readFile(pid int, name string) ([]byte, error) {
	f, err := os.Open(path(pid, name))
	if err != nil {
		return nil, gone(err)
	}
	defer func() { _ = f.Close() }() // read only
	buf := make([]byte, 4096)
	n, err := f.Read(buf)
	if err != nil && n == 0 {
		return nil, gone(err)
	}
	return buf[:n], nil
}

// gone makes ErrGone of the errors that a vanished process gives.
func gone(err error) error {
	if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ESRCH) {
		return ErrGone
	}
	return err
}
