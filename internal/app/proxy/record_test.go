package proxy_test

import (
	"io"
	"testing"
	"time"

	"github.com/bailey-dev/bailey"
)

// A connection that goes on is on record within a second, and its end after
// it under the same number; one that is over before is so once.
func TestRecord_OpenConnections(t *testing.T) {
	t.Parallel()
	l := newLab(t, allow(t, allowed+":7", "allow.test"))
	if got, err := l.say(allowed+":80", "GET /x?secret HTTP/1.1\r\nHost: allow.test\r\nUser-Agent: curl/8.5.0 (secret)\r\nConnection: close\r\n\r\n"); err != nil || got == "" {
		t.Fatalf("%q, %v", got, err)
	}
	short := l.event("short", func(ev bailey.Event) bool { return ev.Protocol == "http" })
	if short.Program != "curl/8.5.0" || short.Connection == 0 || short.Path != "" {
		t.Errorf("short: %+v", short)
	}
	began := time.Now()
	c := l.dial("tcp4", allowed+":7")
	_, _ = io.WriteString(c, "hello\n")
	if _, err := io.ReadFull(c, make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	l.await("an open connection", func() bool { return len(l.opened) > 0 })
	if took := time.Since(began); took > 5*time.Second { // a second, on a machine that is not busy
		t.Errorf("on record after %v", took)
	}
	_ = c.Close()
	end := l.event("the end", func(ev bailey.Event) bool { return ev.Port == 7 })
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, open := range l.opened {
		if i > 0 && open.Connection == end.Connection || open.Port != 7 || open.Verdict != "allow" ||
			open.Address != allowed || open.DurationMS < 500 || open.Connection == short.Connection {
			t.Errorf("open: %+v", open)
		}
	}
	if end.Connection != l.opened[0].Connection || end.DurationMS < l.opened[0].DurationMS {
		t.Errorf("end %+v of %+v", end, l.opened[0])
	}
}
