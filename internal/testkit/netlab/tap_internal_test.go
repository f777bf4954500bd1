package netlab

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// failing is a test that notes why it ended.
type failing struct {
	testing.TB
	why string
}

func (f *failing) Helper() {}

func (f *failing) Fatalf(format string, args ...any) {
	f.why = fmt.Sprintf(format, args...)
	panic(f)
}

// room sets the size of the capture's buffer.
func room(t *testing.T, lab *Lab, bytes int) {
	t.Helper()
	raw, err := lab.tap.file.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var optErr error
	err = raw.Control(func(fd uintptr) {
		optErr = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, bytes)
	})
	if err := errors.Join(err, optErr); err != nil {
		t.Fatal(err)
	}
}

// A capture that lost something says so, whenever it is asked: what it did not
// see may have been what the test is about.
func TestTap_LossFailsTheTest(t *testing.T) {
	t.Parallel()
	lab := New(t)
	lab.settle() // twin
	room(t, lab, 1)
	pc, err := lab.listenMark()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pc.Close() }()
	lab.tap.mu.Lock() // the reader waits
	for range 500 {
		if _, err := pc.WriteTo([]byte("x"), &net.UDPAddr{IP: Evil.AsSlice(), Port: 4242}); err != nil {
			t.Error(err)
		}
	}
	room(t, lab, 1<<20) // for the mark
	lab.tap.mu.Unlock()
	for range 2 {
		tb := &failing{TB: t}
		lab.tb = tb
		func() {
			defer func() { _ = recover() }()
			lab.Connections()
		}()
		lab.tb = t
		if !strings.Contains(tb.why, "lost") {
			t.Errorf("ended with %q", tb.why)
		}
	}
}
