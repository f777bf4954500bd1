package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/policy"
	"github.com/bailey-dev/bailey/internal/upstream"
)

// Resolver finds the addresses of a normalised name: at least one, or an error,
// which wraps policy.ErrNoAddress where the name has none.
type Resolver interface {
	Lookup(ctx context.Context, name string) ([]netip.Addr, error)
}

// Pins says which names this sandbox was given an address for, latest first.
type Pins interface {
	Names(a netip.Addr, now time.Time) []string
}

// Recorder takes an event. It is called from many goroutines and may block.
type Recorder interface {
	Record(ev bailey.Event)
}

// Config is what a Proxy needs: every field but Open and Lender.
type Config struct {
	Sandbox  bailey.SandboxID
	Rules    *policy.Live // changed by Adopt alone, which looks at what is open too
	Resolver Resolver
	Pins     Pins
	Recorder Recorder
	Now      func() time.Time

	// Explicit are ports of the listener's address, other than its own, at
	// which the proxy is spoken to as one: by CONNECT, absolute form or SOCKS5,
	// each at each of them.
	Explicit []uint16
	// OriginalDst returns where a redirected connection was going.
	OriginalDst func(*net.TCPConn) (netip.AddrPort, error)
	// HostAddress reports whether an address belongs to this machine.
	HostAddress func(netip.Addr) bool
	// HostDefines reports whether this machine itself, and not the DNS, gives
	// a name an address.
	HostDefines func(name string, a netip.Addr) bool

	// Open is for TLS that rules want opened. Without it that is refused.
	Open *Open
	// Lender holds the sandbox's secrets. Nil: it has none.
	Lender Lender
	// Upstream is the proxy by way of which hosts are reached. Nil: directly.
	Upstream *upstream.Way
	// Git is for git over SSH. Without it that is refused.
	Git *Git
}

// Bounds of a sandbox and times of a connection: what a silent or slow peer
// can hold.
const (
	sniffTimeout  = 5 * time.Second        // to say which host is meant
	silenceWait   = 260 * time.Millisecond // before a server is given the first word, and
	lateWait      = 40 * time.Millisecond  // more: on a busy machine the time is seen to be over before the bytes that came in it
	dialTimeout   = 10 * time.Second       // an address
	idleTimeout   = 30 * time.Minute       // without a byte in either direction
	maxConns      = 512                    // at once
	maxUps        = 2 * maxConns           // to hosts whose TLS is opened, at once
	maxAsked      = maxConns               // requests at once of all connections of HTTP/2, each of which holds its head
	maxTickets    = 64                     // TLS sessions of such hosts that are kept
	maxDials      = 4                      // addresses of one name
	maxDenied     = 256                    // denied names that are resolved for a connection without one
	keepAliveIdle = time.Minute
)

// Proxy serves the connections of one sandbox.
type Proxy struct {
	cfg   Config
	rules *policy.Live
	slots chan struct{}

	numbers atomic.Uint64 // of connections

	buffers buffers
	ups     chan struct{}          // connections to hosts whose TLS is opened
	asked   chan struct{}          // requests of HTTP/2
	tickets tls.ClientSessionCache // of such hosts
	asks    asks

	mu    sync.Mutex
	flows map[*flow]struct{} // at most maxConns
}

// New makes a Proxy; nothing runs until Run.
func New(cfg Config) *Proxy {
	return &Proxy{
		cfg: cfg, rules: cfg.Rules, slots: make(chan struct{}, maxConns), flows: map[*flow]struct{}{},
		ups: make(chan struct{}, maxUps), asked: make(chan struct{}, maxAsked), tickets: tls.NewLRUClientSessionCache(maxTickets),
	}
}

// Run serves a listener until ctx ends, then resets every connection, waits
// for their events and returns nil. It returns an error only when the
// listener breaks.
func (p *Proxy) Run(ctx context.Context, ln *net.TCPListener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = ln.Close() })
	defer stop()
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel() // before the wait: what is open ends now
	for {
		c, err := ln.AcceptTCP()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				reset(c)
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("accept connection: %w", err)
		case err != nil: // the peer was gone before, or no descriptor is left
			pause(ctx)
			continue
		}
		select {
		case p.slots <- struct{}{}:
			running.Go(func() {
				defer func() { <-p.slots }()
				p.serve(ctx, c)
			})
		default:
			p.turnAway(c)
		}
	}
}

// serve takes one connection from its first byte to its event.
func (p *Proxy) serve(ctx context.Context, c *net.TCPConn) {
	f := &flow{p: p, down: c}
	p.begin(f)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f.cancel, f.done = cancel, ctx.Done()
	p.enter(f)
	defer p.leave(f)
	stop := context.AfterFunc(ctx, func() { reset(c) })
	defer stop()
	defer f.finish()
	f.run(ctx)
}

// turnAway refuses a connection beyond the cap.
func (p *Proxy) turnAway(c *net.TCPConn) {
	f := &flow{p: p, down: c, protocol: policy.ProtocolTCP}
	p.begin(f)
	if dest, err := p.cfg.OriginalDst(c); err == nil {
		f.dest = dest
	}
	f.refuse(policy.ReasonTooMany, fmt.Sprintf("the sandbox has %d connections already; close some first", cap(p.slots)))
	f.finish()
}

// pause keeps a loop whose socket fails from eating a CPU.
func pause(ctx context.Context) {
	t := time.NewTimer(20 * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// reset closes a connection so that its peer sees a reset and not an end of
// data (SO_LINGER 0, socket(7)).
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}
