package nonblock_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/bailey-dev/bailey/internal/linux/nonblock"
)

// pair is a connection over the loopback, of which the first end is a Conn.
func pair(t *testing.T) (*nonblock.Conn, *net.TCPConn, *net.TCPConn) {
	t.Helper()
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	far, err := net.DialTCP("tcp4", nil, l.Addr().(*net.TCPAddr))
	if err != nil {
		t.Fatal(err)
	}
	near, err := l.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	c, err := nonblock.New(near)
	if err != nil {
		t.Fatal(err)
	}
	return c, near, far
}

// TestConn_PassesWhatIsMoreThanASocketHolds: both directions at once, each of
// which waits many times.
func TestConn_PassesWhatIsMoreThanASocketHolds(t *testing.T) {
	t.Parallel()
	c, near, far := pair(t)
	text := bytes.Repeat([]byte("0123456789abcdef"), 1<<19) // 8 MiB
	sent := make(chan error, 2)
	send := func(w io.Writer, end func() error) {
		n, err := w.Write(text)
		if n != len(text) {
			err = errors.Join(err, io.ErrShortWrite)
		}
		sent <- errors.Join(err, end())
	}
	go send(c, near.CloseWrite)
	go send(far, far.CloseWrite)
	got := make(chan []byte, 1)
	go func() {
		b, _ := io.ReadAll(far)
		got <- b
	}()
	if b, err := io.ReadAll(c); err != nil || !bytes.Equal(b, text) {
		t.Errorf("read %d bytes, %v", len(b), err)
	}
	if b := <-got; !bytes.Equal(b, text) {
		t.Errorf("%d bytes arrived", len(b))
	}
	if err := errors.Join(<-sent, <-sent); err != nil {
		t.Error(err)
	}
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %d, %v", n, err)
	}
	if err := c.Wait(); !errors.Is(err, io.EOF) {
		t.Error("waited after the end:", err)
	}
}

// TestConn_WaitsWithoutABuffer: a buffer is held while something is in it.
func TestConn_WaitsWithoutABuffer(t *testing.T) {
	t.Parallel()
	c, _, far := pair(t)
	held, tries := 0, make(chan struct{}, 100)
	buf := make([]byte, 10)
	read := make(chan string, 1)
	go func() {
		n, err := c.ReadInto(func() []byte { held++; return buf }, func() { held--; tries <- struct{}{} })
		if err != nil || held != 1 {
			t.Errorf("%v, %d buffers are held", err, held)
		}
		read <- string(buf[:n])
	}()
	<-tries // it has waited
	if _, err := far.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if got := <-read; got != "hello" {
		t.Errorf("read %q", got)
	}

	_, _ = far.Write([]byte("x"))
	for range 2 { // what is waited for stays
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
	}
	if n, err := c.Read(buf); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

// TestConn_Ends: by its own end, a deadline of the socket's, and the other end's.
func TestConn_Ends(t *testing.T) {
	t.Parallel()
	c, near, far := pair(t)
	_ = near.SetReadDeadline(time.Unix(1, 0))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("beyond its deadline:", err)
	}
	_ = near.SetReadDeadline(time.Time{})

	_ = far.SetLinger(0) // a reset
	_ = far.Close()
	if err := c.Wait(); err == nil {
		t.Error("a reset was not seen")
	}
	if _, err := c.Write([]byte("x")); err == nil {
		t.Error("what nobody takes was written")
	}

	c, _, _ = pair(t)
	ended := make(chan error, 1)
	go func() {
		_, err := c.Read(make([]byte, 1))
		ended <- err
	}()
	_ = c.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Error("when it was closed:", err)
	}
	if _, err := nonblock.New(&net.TCPConn{}); err == nil {
		t.Error("what is no socket was taken")
	}
}
