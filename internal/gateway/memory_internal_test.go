package gateway

import (
	"bytes"
	"errors"
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

	// Its bytes go back once, and only when nobody reads them any more.
	freed := 0
	p = &parcel{b: text, size: int64(len(text)), free: func(b []byte) {
		if freed++; !bytes.Equal(b, text) {
			t.Error("other bytes go back")
		}
	}}
	whole(p)
	if freed > 0 {
		t.Error("what may be sent again went back")
	}
	p.answered()
	p.answered()
	if freed != 1 {
		t.Errorf("it went back %d times", freed)
	}

	p = &parcel{}
	if got, err := io.ReadAll(p.open()); err != nil || len(got) != 0 {
		t.Errorf("of nothing %d bytes are read, %v", len(got), err)
	}
}

// writerFunc is a writer.
type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// TestParcel_InOnePiece: what a write still reads does not go back, whatever has
// ended meanwhile.
func TestParcel_InOnePiece(t *testing.T) {
	t.Parallel()
	text := bytes.Repeat([]byte("body "), 1000)
	freed := 0
	p := &parcel{b: bytes.Clone(text), size: int64(len(text)), free: func([]byte) { freed++ }}
	s := &sending{p: p}
	var got []byte
	write := func(most int64) {
		t.Helper()
		n, err := s.writeTo(writerFunc(func(b []byte) (int, error) {
			p.answered()
			if freed > 0 {
				t.Error("it went back while it was written")
			}
			got = append(got, b...)
			return len(b), nil
		}), most)
		if err != nil || n > most {
			t.Errorf("%d bytes of %d, %v", n, most, err)
		}
	}
	_, _ = io.ReadFull(s, make([]byte, 5)) // with the head
	write(1000)
	write(1 << 20)
	if !bytes.Equal(got, text[5:]) || freed != 1 || p.b != nil {
		t.Errorf("%d bytes were written, %d times they went back", len(got), freed)
	}
	write(1 << 20) // there is no more
	if n, err := s.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) || freed != 1 {
		t.Errorf("afterwards: %d, %v, %d", n, err, freed)
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
