package pty_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bailey-dev/bailey/internal/linux/pty"
)

// open makes a terminal and returns both ends.
func open(t *testing.T) (master, other *os.File) {
	t.Helper()
	master, fd, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	other = os.NewFile(uintptr(fd), "tty")
	t.Cleanup(func() {
		_ = master.Close()
		_ = other.Close()
	})
	return master, other
}

func TestOpen_MakesATerminal(t *testing.T) {
	t.Parallel()
	master, other := open(t)
	if !pty.IsTerminal(other) || !pty.IsTerminal(master) {
		t.Error("no terminal")
	}
	want := pty.Size{Rows: 40, Cols: 120}
	if err := pty.SetSize(master, want); err != nil {
		t.Fatal(err)
	}
	if got, err := pty.GetSize(other); err != nil || got != want {
		t.Errorf("size %v, %v", got, err)
	}
	if _, err := master.WriteString("x\n"); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 9)
	if n, err := other.Read(buf); err != nil || string(buf[:n]) != "x\n" {
		t.Errorf("read %q, %v", buf[:n], err)
	}
	// The master waits in the poller: a deadline ends its read.
	if _, err := master.Read(buf); err != nil { // the echo
		t.Fatal(err)
	}
	if err := master.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := master.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read with a deadline: %v", err)
	}
}

func TestIsTerminal_SaysNo(t *testing.T) {
	t.Parallel()
	null, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if pty.IsTerminal(null) || pty.IsTerminal(nil) {
		t.Error("a terminal")
	}
	if _, err := pty.GetSize(null); err == nil {
		t.Error("it has a size")
	}
	if _, err := pty.ReadModes(null); err == nil {
		t.Error("it has settings")
	}
}

func TestModes_RawAndBack(t *testing.T) {
	t.Parallel()
	master, other := open(t)
	found, err := pty.ReadModes(other)
	if err != nil {
		t.Fatal(err)
	}
	if err := found.Raw().Apply(other); err != nil {
		t.Fatal(err)
	}
	if _, err := master.WriteString("\x03\r\x1a"); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 9)
	if n, err := other.Read(buf); err != nil || string(buf[:n]) != "\x03\r\x1a" {
		t.Errorf("raw read %q, %v", buf[:n], err)
	}
	if _, err := master.WriteString("ahead\n"); err != nil {
		t.Fatal(err)
	}
	if err := found.Apply(other); err != nil {
		t.Fatal(err)
	}
	now, err := pty.ReadModes(other)
	if err != nil || !now.Equal(found) {
		t.Errorf("settings are not as before, %v", err)
	}
	if n, err := other.Read(buf); err != nil || string(buf[:n]) != "ahead\n" {
		t.Errorf("typed ahead: %q, %v", buf[:n], err)
	}
}

func TestSignalChar(t *testing.T) {
	t.Parallel()
	master, other := open(t)
	for in, want := range map[string]int{
		"": -1, "abc\r\n\x1b[A": -1, "\x03": 0, "ab\x1a": 2, "a\x1c\x03": 1,
	} {
		if got := pty.SignalChar(master, []byte(in)); got != want {
			t.Errorf("SignalChar(%q) = %d, want %d", in, got, want)
		}
	}
	m, err := pty.ReadModes(other)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Raw().Apply(other); err != nil {
		t.Fatal(err)
	}
	if got := pty.SignalChar(master, []byte("\x03")); got != -1 {
		t.Errorf("raw: %d", got)
	}
}

func TestDiscardTyped_LeavesWhatComesLater(t *testing.T) {
	t.Parallel()
	master, other := open(t)
	if _, err := master.WriteString("earlier\n"); err != nil {
		t.Fatal(err)
	}
	if err := pty.DiscardTyped(master); err != nil {
		t.Fatal(err)
	}
	if _, err := master.WriteString("later\n"); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 20)
	n, err := other.Read(buf)
	if string(buf[:n]) == "earlier\n" { // Linux may have taken it already
		n, err = other.Read(buf)
	}
	if err != nil || string(buf[:n]) != "later\n" {
		t.Errorf("read %q, %v", buf[:n], err)
	}
}

func TestForeground(t *testing.T) {
	t.Parallel()
	master, other := open(t)
	cmd := exec.Command("sleep", "100")
	cmd.Stdin = other
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	if got, err := pty.Foreground(master); err != nil || got != cmd.Process.Pid {
		t.Errorf("foreground group %d, %v; want %d", got, err, cmd.Process.Pid)
	}
	null, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if _, err := pty.Foreground(null); err == nil {
		t.Error("/dev/null has a foreground group")
	}
}

func TestInput_ReadsAndEnds(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	in, err := pty.NewInput(r)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if _, err := w.WriteString("hello"); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 3)
	for _, want := range []string{"hel", "lo"} {
		if n, err := in.Read(buf); err != nil || string(buf[:n]) != want {
			t.Errorf("read %q, %v, want %q", buf[:n], err, want)
		}
	}
	_ = w.Close()
	if _, err := in.Read(buf); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

func TestInput_ReadsAFile(t *testing.T) {
	t.Parallel()
	name := t.TempDir() + "/f"
	if err := os.WriteFile(name, []byte(strings.Repeat("x", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in, err := pty.NewInput(f)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(in); err != nil || len(b) != 100 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

func TestInput_TakesNothingAfterClose(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	in, err := pty.NewInput(r)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := in.Read(make([]byte, 10))
		ended <- err
	}()
	if err := in.Close(); err != nil { // while it waits, or just before
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, io.EOF) {
		t.Errorf("read ended with %v", err)
	}
	if _, err := w.WriteString("later"); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Read(make([]byte, 10)); !errors.Is(err, io.EOF) {
		t.Errorf("read after Close: %v", err)
	}
	buf := make([]byte, 10)
	if n, err := r.Read(buf); err != nil || string(buf[:n]) != "later" {
		t.Errorf("left for others: %q, %v", buf[:n], err)
	}
	if err := in.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

func TestInput_EndsWithItsTerminal(t *testing.T) {
	t.Parallel()
	master, other := open(t)
	in, err := pty.NewInput(other)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := master.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Read(make([]byte, 10)); !errors.Is(err, io.EOF) {
		t.Errorf("read ended with %v", err)
	}
}
