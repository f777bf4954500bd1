package session_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey/internal/session"
	"github.com/bailey-dev/bailey/internal/wire"
)

// pair returns two ends of a socket.
func pair(t *testing.T) (one, other net.Conn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		if ends[i], err = net.FileConn(f); err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
		t.Cleanup(func() { _ = ends[i].Close() })
	}
	return ends[0], ends[1]
}

// guest is one that is attached.
type guest struct {
	t    *testing.T
	got  atomic.Int64 // bytes of output
	conn net.Conn
	w    *wire.Writer
	r    *wire.Reader
}

func attach(t *testing.T, h *session.Hub, rows, cols uint16) *guest {
	t.Helper()
	ours, theirs := pair(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = h.Serve(theirs)
	}()
	t.Cleanup(func() {
		_ = ours.Close()
		<-done
	})
	before := h.Attached()
	hello := wire.Header{Op: wire.OpExec, Exec: wire.Exec{Argv: []string{"attach"}, TTY: rows > 0, Rows: rows, Cols: cols}}
	if err := wire.WriteHeader(ours, &hello); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); h.Attached() == before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it is not attached")
		}
	}
	return &guest{t: t, conn: ours, w: wire.NewWriter(ours), r: wire.NewReader(ours, wire.FromSandbox)}
}

// until reads frames up to one of the type, and returns it and the output before.
func (g *guest) until(want wire.Type) (out, errs string, f wire.Frame) {
	g.t.Helper()
	_ = g.conn.SetReadDeadline(time.Now().Add(patience))
	var o, e bytes.Buffer
	for {
		f, err := g.r.Next()
		if err != nil {
			g.t.Fatalf("%v after %q", err, o.String())
		}
		switch f.Type {
		case want:
			return o.String(), e.String(), f
		case wire.Stdout:
			o.Write(f.Payload)
			g.got.Add(int64(len(f.Payload)))
		case wire.Stderr:
			e.Write(f.Payload)
		default:
		}
	}
}

func TestHub_CountsWhatASlowReaderMisses(t *testing.T) {
	h := session.NewHub(false, 0, 0)
	h.Started(7)
	slow, quick := attach(t, h, 0, 0), attach(t, h, 0, 0)
	if _, _, f := quick.until(wire.Started); f.Number() != 7 {
		t.Error(f.Number())
	}
	const pieces, size = 4000, 1000
	got := make(chan string)
	go func() {
		out, _, _ := quick.until(wire.Exited)
		got <- out
	}()
	for i := range pieces {
		if _, err := h.Output(1).Write(bytes.Repeat([]byte{byte('a' + i%26)}, size)); err != nil {
			t.Fatal(err)
		}
		// The quick one is never behind by more than is kept for it.
		for end := time.Now().Add(patience); i%100 == 99 && quick.got.Load() < int64(i+1)*size; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("the quick one has %d bytes of %d", quick.got.Load(), (i+1)*size)
			}
		}
	}
	began := time.Now()
	ended := make(chan struct{})
	go func() {
		h.Ended(wire.Exit{Code: 3})
		close(ended)
	}()
	out, errs, f := slow.until(wire.Exited)
	<-ended
	var missed int
	_, text, _ := strings.Cut(errs, "[bailey: ")
	if _, err := fmt.Sscanf(text, "%d bytes of output are left out here", &missed); err != nil || missed+len(out) != pieces*size {
		t.Errorf("%d bytes came, and %q is said", len(out), errs)
	}
	if exit, err := f.Exit(); err != nil || exit.Code != 3 {
		t.Error(exit, err)
	}
	if whole := <-got; len(whole) != pieces*size {
		t.Errorf("the quick one got %d bytes", len(whole))
	}
	if time.Since(began) > patience/2 {
		t.Error("it was waited for")
	}
}

func TestHub_EndDoesNotWaitForOneThatNeverReads(t *testing.T) {
	h := session.NewHub(false, 0, 0)
	h.Started(7)
	stuck := attach(t, h, 0, 0)
	for range 3000 {
		_, _ = h.Output(2).Write(make([]byte, 1000))
	}
	began := time.Now()
	h.Ended(wire.Exit{})
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the end took %v", took)
	}
	_ = stuck.conn.Close()
}

func TestHub_SizeInputAndWhoComesLater(t *testing.T) {
	h := session.NewHub(true, 24, 80)
	h.Started(7)
	seat := h.Seat()
	size := func(rows, cols uint16) {
		t.Helper()
		if r, c := seat.Size(); r != rows || c != cols {
			t.Errorf("the size is %d %d, not %d %d", r, c, rows, cols)
		}
	}
	_, _ = h.Output(1).Write([]byte("\x1b[?2004hfirst\r\n\x1b]52;c;eA==\aprompt "))
	one := attach(t, h, 40, 120)
	size(40, 120)
	two := attach(t, h, 30, 200)
	size(30, 120)
	buf := make([]byte, 4)
	for i, g := range []*guest{one, two} {
		if err := g.w.Send(wire.Stdin, fmt.Appendf(nil, "from%d", i)); err != nil {
			t.Fatal(err)
		}
		got := ""
		for len(got) < 5 {
			n, err := seat.Read(buf)
			if err != nil {
				t.Fatal(err)
			}
			got += string(buf[:n])
		}
		if got != fmt.Sprintf("from%d", i) {
			t.Errorf("typed %q", got)
		}
		out, _, f := g.until(wire.Credit)
		if out != "\x1b[?2004hfirst\r\nprompt \x1b[?2004h" || f.Number() == 0 {
			t.Errorf("it sees %q; credit %d", out, f.Number())
		}
	}
	_ = two.conn.Close()
	for end := time.Now().Add(patience); h.Attached() > 1 && time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
	size(40, 120)
	_ = seat.Close()
	if _, err := seat.Read(buf); err == nil {
		t.Error("it reads on")
	}
	for range 15 {
		attach(t, h, 50, 150)
	}
	ours, theirs := pair(t)
	hello := wire.Header{Op: wire.OpExec, Exec: wire.Exec{Argv: []string{"attach"}}}
	if err := wire.WriteHeader(ours, &hello); err != nil {
		t.Fatal(err)
	}
	if err := h.Serve(theirs); err == nil {
		t.Error("a seventeenth is let in")
	}
}

func TestParseKeys(t *testing.T) {
	for text, want := range map[string]string{"ctrl-p,ctrl-q": "\x10\x11", "ctrl-P": "\x10", "a,ctrl-\\": "a\x1c", "none": "", "ctrl-@": "\x00"} {
		if got, err := session.ParseKeys(text); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "ctrl-", "ctrl-1", "ab", "ctrl-p,,q", "ctrl-p, q", "a,b,c,d,e,f,g,h,i", "\x01"} {
		if got, err := session.ParseKeys(text); err == nil {
			t.Errorf("%q: %q", text, got)
		}
	}
}
