package session

import (
	"bytes"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bailey-dev/bailey/internal/linux/pty"
)

// slowTerminal is a terminal that shows 2 KB a second, as a serial line or a
// bad connection does. so is how much it showed so far, all is what it showed
// when it was quick in the end.
func slowTerminal(t *testing.T) (tty *os.File, so *atomic.Int64, all func() string) {
	t.Helper()
	master, other, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	tty = os.NewFile(uintptr(other), "tty")
	so = new(atomic.Int64)
	ended := make(chan string)
	quit := make(chan struct{})
	go func() {
		var all bytes.Buffer
		buf := make([]byte, 200)
		for {
			_ = master.SetReadDeadline(time.Now().Add(time.Second))
			n, err := master.Read(buf)
			all.Write(buf[:n])
			so.Add(int64(n))
			if err != nil {
				break
			}
			select {
			case <-quit:
			case <-time.After(100 * time.Millisecond):
			}
		}
		ended <- all.String()
	}()
	t.Cleanup(func() { _ = tty.Close(); _ = master.Close() })
	return tty, so, func() string { close(quit); return <-ended }
}

// A terminal that is far behind gets the undoing soon, and without the rest of
// what the command wrote; one that is not gets all of it.
func TestRestore_OfATerminalThatIsBehind(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"behind": 1 << 20, "not behind": 100} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tty, so, shown := slowTerminal(t)
			s, err := newScreen(tty, tty, tty)
			if err != nil {
				t.Fatal(err)
			}
			r := &run{screen: s, shown: [2]*filtered{s.filtered, s.filtered}}
			if err := s.raw(); err != nil {
				t.Fatal(err)
			}
			text := "\x1b[?1049h" + strings.Repeat("x", size)
			wrote := make(chan struct{})
			go func() { defer close(wrote); _ = s.write([]byte(text)) }()
			select {
			case <-wrote:
			case <-time.After(300 * time.Millisecond):
			}
			began := time.Now()
			r.restore()
			before := int(so.Load())
			if took := time.Since(began); took > 10*stuckAfter {
				t.Errorf("restored after %v", took)
			}
			modes, err := pty.ReadModes(tty)
			if err != nil || !modes.Equal(s.found) {
				t.Errorf("the settings are not as they were: %v", err)
			}
			got := shown()
			if !strings.HasSuffix(got, "\x1b[?1049l") {
				t.Errorf("%d bytes shown, without the end of the other screen: %q", len(got), got[max(0, len(got)-80):])
			}
			// What the kernel's line discipline has is 4 KB, and cannot be
			// thrown away from here; behind it are 8 KB that can.
			if later := len(got) - before; later > 6<<10 {
				t.Errorf("%d bytes shown after the end", later)
			}
			if n := strings.Count(got, "x"); n < 100 || (n == size) != (size == 100) {
				t.Errorf("%d bytes of %d shown", n, size)
			}
		})
	}
}
