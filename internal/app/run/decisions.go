package run

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/control"
	"github.com/bailey-dev/bailey/internal/netlog"
	"github.com/bailey-dev/bailey/internal/policy"
)

// decisions keeps what the network decides, and hands it to those who listen.
type decisions struct {
	log  *netlog.Writer
	feed netlog.Feed
}

// keepDecisions begins the record of a run.
func (u *running) keepDecisions() {
	if u.decisions.log != nil {
		return
	}
	u.decisions.log = netlog.NewWriter(u.host.Dirs.State, u.host.UID, u.plan.spec.ID, time.Now, func(err error) {
		mend := "the run goes on; the folder is " + netlog.Dir(u.host.Dirs.State)
		if e, ok := errors.AsType[*bailey.Error](err); ok && e.Hint != "" {
			mend = "the run goes on; " + e.Hint
		}
		u.warn(fmt.Sprintf("decisions of the network are not recorded: %v (%s)", err, mend))
	})
}

// keep records a network event, before anything waits for somebody to read
// what is said of it.
func (u *running) keep(e bailey.Event) {
	r, ok := netlog.Of(e, u.plan.name, u.plan.spec.ID)
	if !ok {
		return
	}
	u.decisions.feed.Publish(r)
	if u.decisions.log != nil {
		u.decisions.log.Write(r)
	}
}

// tell hands on how far a connection is, to those who listen and to no record.
func (u *running) tell(e bailey.Event) {
	if r, ok := netlog.Of(e, u.plan.name, u.plan.spec.ID); ok {
		u.decisions.feed.Publish(r)
	}
}

// closeDecisions ends the record: the proxy has said everything.
func (u *running) closeDecisions() error {
	u.decisions.feed.Close()
	if u.decisions.log == nil {
		return nil
	}
	return u.decisions.log.Close()
}

// Events answers who follows this sandbox: records, one a line.
func (u *running) Events(conn net.Conn) { u.decisions.feed.Serve(conn) }

// Why answers `bailey net why --sandbox`: what would be decided now.
func (u *running) Why(q control.Question) control.Answer {
	p := u.rules.current()
	d := policy.Decide(p, policy.Request{Protocol: q.Protocol, Host: q.Host, Addr: q.Addr, Port: q.Port, Method: q.Method, Path: q.Path})
	return control.Answer{Verdict: d.Verdict.String(), Rule: d.Rule, Reason: d.Reason, Detail: d.Detail, Mode: p.Mode}
}

// smallPipe is what the kernel holds of events that the proxy has said and we
// have not read (F_SETPIPE_SZ, fcntl(2)): what a kill of this process takes
// away with it.
const smallPipe = 4096
