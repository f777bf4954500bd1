package run

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/control"
	"github.com/bailey-dev/bailey/internal/journal"
	"github.com/bailey-dev/bailey/internal/session"
	"github.com/bailey-dev/bailey/internal/wire"
)

// AttachRequest is one `bailey attach`.
type AttachRequest struct {
	Name    string
	Keys    string // --detach-keys
	NoInput bool   // only look
}

// Attach shows the command of a sandbox in the background, and gives it what is
// typed, until it ends, whose exit code is returned, or is left.
func Attach(ctx context.Context, h Host, r AttachRequest) (int, error) {
	keys, err := Background{Keys: r.Keys}.keys()
	if err != nil {
		return 0, err
	}
	a, err := dialAttach(ctx, h, r.Name)
	if err != nil {
		return 0, err
	}
	return a.run(ctx, keys, r.NoInput)
}

// attached is one that attaches.
type attached struct {
	host    Host
	info    control.Info
	conn    net.Conn
	kept    *journal.Reader
	began   time.Time
	started bool
}

func dialAttach(ctx context.Context, h Host, name string) (*attached, error) {
	info, conn, err := control.AskAttach(ctx, h.Dirs.Runtime, name)
	if err != nil {
		return nil, Over(h, name, err)
	}
	kept, err := journal.Open(h.Dirs.State, h.UID, name)
	if err == nil && kept.Run.ID != info.ID {
		err = bailey.NewError(bailey.NotFound, "its output is kept elsewhere", "was it started with another HOME or XDG_STATE_HOME?")
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &attached{host: h, info: info, conn: conn, kept: kept, began: time.Now()}, nil
}

func (a *attached) run(ctx context.Context, keys []byte, noInput bool) (int, error) {
	defer a.kept.Close() //nolint:errcheck // it is read only
	o := session.Options{
		Command: wire.Exec{Argv: []string{"attach"}},
		Stdout:  a.host.Stdout, Stderr: a.host.Stderr,
		Attached: true, DetachKeys: keys,
		Started: func(int) { a.started = true },
	}
	if a.info.TTY && !noInput {
		o.Stdin = a.host.Stdin
	}
	result, err := session.Run(ctx, session.Dial(a.conn), o)
	if errors.Is(err, session.ErrDetached) {
		_, _ = fmt.Fprintf(a.host.Stderr, "bailey: sandbox %s goes on; bailey attach %s comes back to it\n", a.info.Name, a.info.Name)
		return 0, nil
	}
	if err != nil && !errors.Is(err, session.ErrLost) {
		return 0, err
	}
	return a.farewell(result, err)
}

// endWithin is how long a sandbox may take to be taken down after its command.
const endWithin = 15 * time.Second

// farewell waits for the run to end, says what it says then, and returns its
// exit code.
func (a *attached) farewell(r session.Result, err error) (int, error) {
	late := time.After(endWithin)
	for a.kept.Lasts() {
		select {
		case <-late:
			return r.Status(), bailey.NewError(bailey.Unavailable, fmt.Sprintf("sandbox %s did not end within %v of its command", a.info.Name, endWithin), "bailey stop "+a.info.Name)
		case <-time.After(10 * time.Millisecond):
		}
	}
	end, ok := a.kept.End()
	if !ok && !a.started {
		return 0, err
	}
	if !ok {
		return 0, bailey.NewError(bailey.Unavailable, fmt.Sprintf("the process that held sandbox %s was killed, and everything in it with it", a.info.Name), "bailey logs "+a.info.Name+" prints what it wrote")
	}
	a.sayLast()
	return end.Code, nil
}

// sayLast prints what bailey said since this one is attached.
func (a *attached) sayLast() {
	for {
		rec, err := a.kept.Next()
		if err != nil {
			return
		}
		if rec.Stream == journal.Said && !rec.Time.Before(a.began) {
			_, _ = a.host.Stderr.Write(rec.Data) // sanitised where it was said
		}
	}
}
