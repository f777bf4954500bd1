package gateway

import (
	"bytes"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestParcel: a body is there until it was sent and answered, whichever comes
// first, and may be sent twice until then.
func TestParcel(t *testing.T) {
	t.Parallel()
	text := bytes.Repeat([]byte("body "), 1000)
	whole := func(p *parcel) {
		t.Helper()
		if got, err := io.ReadAll(p.open()); err != nil || !bytes.Equal(got, text) {
			t.Errorf("read %d bytes, %v", len(got), err)
		}
	}
	p := &parcel{b: text, size: int64(len(text))}
	whole(p)
	whole(p)
	if p.answered(); p.b != nil {
		t.Error("it is kept after all is over")
	}
	if n, err := p.open().Read(make([]byte, 10)); n != 0 || err == nil {
		t.Errorf("afterwards %d bytes are read, %v", n, err)
	}

	// An answer may come before the request was sent to its end.
	p = &parcel{b: text, size: int64(len(text))}
	if p.answered(); p.b == nil {
		t.Fatal("what is still being sent is gone")
	}
	whole(p)
	if p.b != nil {
		t.Error("it is kept after all is over")
	}

	p = &parcel{}
	if got, err := io.ReadAll(p.open()); err != nil || len(got) != 0 {
		t.Errorf("of nothing %d bytes are read, %v", len(got), err)
	}
}

// TestLull: requests put it off, and the heap is measured at all.
func TestLull(t *testing.T) {
	t.Parallel()
	if heapHeld() == 0 {
		t.Error("the heap has nothing")
	}
	synctest.Test(t, func(t *testing.T) {
		var done atomic.Int64
		l := lull{free: func() { done.Add(1) }}
		for range 5 {
			l.busy()
			time.Sleep(lullWait - 1)
			synctest.Wait()
		}
		if n := done.Load(); n != 0 {
			t.Errorf("memory was given back %d times amid requests", n)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := done.Load(); n != 1 {
			t.Errorf("memory was given back %d times, want once", n)
		}
	})
}
