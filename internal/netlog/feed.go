package netlog

import (
	"encoding/json"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/bailey-dev/bailey/internal/policy"
)

// Bounds of those who listen to one sandbox.
const (
	mostListeners = 16
	mostWaiting   = 1024             // records for a listener that is slow
	listenerWait  = 30 * time.Second // for one that reads nothing
)

// Feed hands records to those who listen. A listener that is slow misses some,
// which it is told; it holds up nobody. The zero Feed is ready.
type Feed struct {
	mu        sync.Mutex
	listeners map[*listener]bool
	closed    bool
}

type listener struct {
	records chan Record
	missed  int // guarded by the feed's mu
}

// Publish hands a record to all who listen.
func (f *Feed) Publish(r Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for l := range f.listeners {
		l.offer(r)
	}
}

// offer hands a record on, and before it how many were missed.
func (l *listener) offer(r Record) {
	if l.missed > 0 {
		gap := Record{
			Time: r.Time, Sandbox: r.Sandbox, ID: r.ID, Reason: policy.ReasonNotRecorded,
			Message: fmt.Sprintf("%d records were left out here: they were not read in time", l.missed),
		}
		select {
		case l.records <- gap:
			l.missed = 0
		default:
		}
	}
	select {
	case l.records <- r:
	default:
		l.missed++
	}
}

// Close ends the listening.
func (f *Feed) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for l := range f.listeners {
		close(l.records)
	}
	f.listeners = nil
}

// Serve writes records to conn as JSON lines, from now until the feed or the
// connection ends. One listener too many is told nothing.
func (f *Feed) Serve(conn net.Conn) {
	l := &listener{records: make(chan Record, mostWaiting)}
	if !f.add(l) {
		return
	}
	defer f.drop(l)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = conn.Read(make([]byte, 1)) // nothing is said on it but its end
	}()
	out := json.NewEncoder(conn)
	for {
		select {
		case <-gone:
			return
		case r, ok := <-l.records:
			if !ok {
				return
			}
			until := time.Now().Add(listenerWait) //nolint:forbidigo // of the kernel's
			if conn.SetWriteDeadline(until) != nil || out.Encode(r) != nil {
				return
			}
		}
	}
}

func (f *Feed) add(l *listener) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || len(f.listeners) == mostListeners {
		return false
	}
	if f.listeners == nil {
		f.listeners = map[*listener]bool{}
	}
	f.listeners[l] = true
	return true
}

func (f *Feed) drop(l *listener) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.listeners, l)
}
