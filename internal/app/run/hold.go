package run

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/journal"
	"github.com/bailey-dev/bailey/internal/terminal"
)

// frontFD is the holder's descriptor of the socket to who started it.
const frontFD = 3

// Bounds of what the two say to each other.
const (
	helloWithin = 5 * time.Second
	tellWithin  = time.Second
	mostNote    = 1 << 20
)

// hello is what a holder is told: what the person's terminal is.
type hello struct {
	TTY    bool   `json:"tty"`
	Rows   uint16 `json:"rows"`
	Cols   uint16 `json:"cols"`
	Attach bool   `json:"attach"` // the command waits for them
}

// note is what a holder tells. Exactly one of its parts is set.
type note struct {
	Said    string   `json:"said,omitempty"`    // by bailey, for standard error
	Name    string   `json:"name,omitempty"`    // of the sandbox, which can be attached to
	Started bool     `json:"started,omitempty"` // the command runs; nothing comes behind it
	Exit    *int     `json:"exit,omitempty"`    // the run is over before that
	Failed  *failure `json:"failed,omitempty"`  // likewise, by an error of bailey's
}

// failure is an error on its way.
type failure struct {
	Kind    bailey.Kind `json:"kind"`
	Message string      `json:"message"`
	Hint    string      `json:"hint"`
}

func failureOf(err error) *failure {
	f := &failure{Kind: bailey.KindOf(err), Message: err.Error()}
	if e, ok := errors.AsType[*bailey.Error](err); ok {
		f.Hint = e.Hint
	}
	return f
}

func (f *failure) err() error { return bailey.NewError(f.Kind, f.Message, f.Hint) }

// front is who started the run, as its holder knows them.
type front struct {
	conn   net.Conn
	before []byte // what was said before there was a place to keep it

	mu   sync.Mutex
	done atomic.Bool // the command runs: they may go
}

// tell tells it, if it is there. It waits for nobody.
func (f *front) tell(n note) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.done.Load() {
		return
	}
	b, err := json.Marshal(n)
	if err != nil {
		return
	}
	f.done.Store(n.Started)
	_ = f.conn.SetWriteDeadline(time.Now().Add(tellWithin))
	_, _ = f.conn.Write(append(b, '\n')) // who is gone is noticed by begun
}

// begun has stop called when they go before the command runs.
func (f *front) begun(stop func()) {
	go func() {
		_, _ = f.conn.Read(make([]byte, 1)) // they say nothing more
		if !f.done.Load() {
			stop()
		}
	}()
}

// Hold is Run in a process that Detach has started for it.
func Hold(ctx context.Context, h Host, r Request) (int, error) {
	conn, err := net.FileConn(os.NewFile(frontFD, "front"))
	if err != nil {
		return 0, bailey.WrapError(bailey.Invalid, "hold a sandbox", err, "use bailey run --detach")
	}
	d := &held{front: &front{conn: conn}}
	_ = conn.SetReadDeadline(time.Now().Add(helloWithin))
	if err := json.NewDecoder(bufio.NewReader(conn)).Decode(&d.hello); err != nil {
		return 0, err
	}
	_ = conn.SetReadDeadline(time.Time{})
	r.Background.held = d
	code, err := Run(ctx, h, r)
	if err != nil {
		code = bailey.ExitBailey
	}
	kept := d.finish(code, err) // before it is told: who hears that nothing began finds nothing of it
	switch {
	case err != nil:
		d.front.tell(note{Failed: failureOf(err)})
	case !d.front.done.Load():
		d.front.tell(note{Exit: &code})
	}
	return code, kept
}

// finish keeps how the run ended. Of one that never began nothing is kept.
func (d *held) finish(code int, err error) error {
	if d.kept == nil {
		return nil
	}
	if !d.front.done.Load() {
		return d.kept.Discard()
	}
	if err != nil {
		_ = d.kept.Write(journal.Said, []byte("bailey: "+terminal.Sanitize(err.Error())+"\n"))
	}
	return d.kept.End(journal.End{Code: code, At: time.Now()})
}
