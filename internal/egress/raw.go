package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/bailey-dev/bailey/internal/policy"
)

// serveRaw passes a connection on whose protocol we do not read. Its identity
// is a name that our DNS gave the address, or the address.
func (f *flow) serveRaw(ctx context.Context) {
	if f.identify(!f.webPort()) {
		if f.sealed {
			f.refuse(policy.ReasonSealed, fmt.Sprintf("the rules want to see inside what goes to port %d there, and the connection speaks neither TLS nor HTTP", f.dest.Port()))
			return
		}
		s := &requestScreen{}
		if bad := refused(s.judge(f.head)); bad != nil {
			f.refuse(bad.reason, bad.detail)
			return
		}
		f.splice(ctx, s)
		return
	}
	if f.webPort() && f.decision.Reason != policy.ReasonSpecialAddress {
		f.refuse(policy.ReasonUnknown, fmt.Sprintf("the connection to port %d speaks neither TLS nor HTTP, so it names no host: %s", f.dest.Port(), f.decision.Detail))
	}
}

// serveSilent is for protocols in which the server speaks first. It dials
// where the connection may go as it stands and waits for either side. A client
// that speaks first after all has only been slow: then true is returned and
// what it said is judged like any other, so that waiting is no way around the
// check of names.
func (f *flow) serveSilent(ctx context.Context) (again bool) {
	if f.webPort() {
		f.refuseUnread(kindSilent)
		return false
	}
	if !f.identify(true) {
		return false
	}
	if f.sealed {
		f.refuse(policy.ReasonSilent, fmt.Sprintf("nothing was said on port %d for %s, and rules want to see what is", f.dest.Port(), sniffTimeout))
		return false
	}
	up := f.dial(ctx)
	if up == nil {
		return false
	}
	stop := context.AfterFunc(ctx, func() { reset(up) })
	defer stop()
	greeting, clientFirst := f.awaitEither(up)
	if clientFirst {
		reset(up)
		return true
	}
	var s screen = &requestScreen{} // the client may still be the first to speak
	if len(greeting) > 0 {
		g := newGreetedScreen()
		if bad := refused(errors.Join(g.judgeServer(greeting), g.judge(f.head))); bad != nil {
			reset(up)
			f.refuse(bad.reason, bad.detail)
			return false
		}
		s = g
		n, err := f.down.Write(greeting)
		f.in.Add(int64(n))
		if err != nil {
			reset(up)
			return false
		}
	}
	f.relay(up, s)
	return false
}

// awaitEither waits until one side has spoken or ended. It returns what the
// server said; what the client said is in f.head.
func (f *flow) awaitEither(up *net.TCPConn) (greeting []byte, clientFirst bool) {
	until := f.p.cfg.Now().Add(idleTimeout)
	_ = up.SetReadDeadline(until)
	_ = f.down.SetReadDeadline(until) // before the server's word can end it
	server := make(chan []byte, 1)
	go func() {
		buf := make([]byte, 4096)
		n, _ := up.Read(buf)               // an end or an error comes again in relay
		_ = f.down.SetReadDeadline(past()) // first: whoever takes the bytes lifts the deadline
		server <- buf[:n]
	}()
	_ = f.readSome()
	_ = up.SetReadDeadline(past())
	greeting = <-server
	_ = up.SetReadDeadline(time.Time{})
	_ = f.down.SetReadDeadline(time.Time{})
	return greeting, len(f.head) > 0 && len(greeting) == 0
}

// past is a deadline that ends a read at once.
func past() time.Time { return time.Unix(1, 0) }
