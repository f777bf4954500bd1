package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/dns"
	"github.com/bailey-dev/bailey/internal/egress"
	"github.com/bailey-dev/bailey/internal/gate"
	"github.com/bailey-dev/bailey/internal/linux/fdpass"
	"github.com/bailey-dev/bailey/internal/linux/harden"
	"github.com/bailey-dev/bailey/internal/linux/inherit"
	"github.com/bailey-dev/bailey/internal/linux/landlock"
	"github.com/bailey-dev/bailey/internal/linux/origdst"
	"github.com/bailey-dev/bailey/internal/linux/seccomp"
	"github.com/bailey-dev/bailey/internal/pki"
	"github.com/bailey-dev/bailey/internal/policy"
	"github.com/bailey-dev/bailey/internal/upstream"
)

// Main is the process: it serves until the peer socket ends, then resets what is open, writes its events and returns the
// exit code: 0 for that end, bailey.ExitBailey if it could not serve. The
// reason is the last event and is said on standard error too.
func Main(args []string) int {
	if len(args) > 0 {
		fmt.Fprintln(os.Stderr, "bailey proxy: it takes no arguments; bailey starts it")
		return bailey.ExitBailey
	}
	if err := inherit.Check(gate.FDSettings, gate.FDControl); err != nil {
		fmt.Fprintf(os.Stderr, "bailey proxy: %v\n", err)
		return bailey.ExitBailey
	}
	// net/http tells the standard logger what a host sends that nobody asked for:
	// a stranger's words, as many as it likes, on the caller's terminal.
	log.SetOutput(io.Discard)
	now := time.Now // the clock of the process
	//nolint:forbidigo // a process begins here
	err := serve(context.Background(), now, files{
		settings: inherit.Polled(gate.FDSettings, "settings"),
		peer:     inherit.Polled(gate.FDPeer, "peer"),
		events:   os.NewFile(gate.FDEvents, "events"),
		control:  inherit.Polled(gate.FDControl, "control"),
	})
	if err != nil {
		fmt.Fprintf(os.Stderr, "bailey proxy: %v\n", err)
		return bailey.ExitBailey
	}
	return 0
}

// files are the descriptors of the role.
type files struct{ settings, peer, events, control *os.File }

// serve is Main with its descriptors named. Someone who stops reading our
// events must not be a signal's death (SIGPIPE kills on descriptors 1 and 2
// only, os/signal), and the role passes nothing on to a child.
func serve(ctx context.Context, now func() time.Time, fds files) error {
	j := &journal{now: now, out: fds.events}
	defer j.flush()
	err := confineAndServe(ctx, j, fds)
	if err != nil {
		j.say(bailey.EventError, err.Error())
	}
	return err
}

func confineAndServe(ctx context.Context, j *journal, fds files) error {
	if err := errors.Join(boundMemory(), harden.Process()); err != nil {
		return err
	}
	settings, err := readSettings(fds.settings)
	if err := errors.Join(err, fds.settings.Close()); err != nil {
		return err
	}
	j.sandbox = settings.Sandbox
	open, err := opener(settings.Root, settings.Extra)
	if err != nil {
		return err
	}
	if err := confine(j); err != nil {
		return err
	}
	listeners, err := fdpass.ReceiveListeners(fds.peer)
	if err != nil {
		return err
	}
	settings.Root = nil // of the two copies of the key one is enough
	lends, err := newLender(settings.Secrets)
	if err != nil {
		return err
	}
	settings.Secrets = nil
	return serveListeners(ctx, task{settings, open, lends}, j, listeners, fds)
}

// task is what the role was told to do, and with what.
type task struct {
	gate.Settings
	open  *egress.Open
	lends *lender
}

// opener returns what TLS is opened with, or nil. The roots of the machine are
// read as long as files can be.
func opener(sealed *pki.Sealed, extra [][]byte) (*egress.Open, error) {
	if sealed == nil {
		return nil, nil //nolint:nilnil // nothing is to be opened
	}
	root, err := sealed.Open()
	if err != nil {
		return nil, err
	}
	leaves, err := pki.NewLeaves(root)
	if err != nil {
		return nil, err
	}
	roots, err := upstream.Roots(extra)
	if err != nil {
		return nil, err
	}
	return &egress.Open{Leaves: leaves, Roots: roots}, nil
}

// hostsFile is the machine's own word about names (hosts(5)).
const hostsFile = "/etc/hosts"

// confine takes away what the role does not need, before the first hostile
// byte. Reading is left for what the resolver reads again and again, and making
// sockets for dialling out and for asking whether an address is this machine's.
func confine(j *journal) error {
	if landlock.Level() == 0 {
		j.say(bailey.EventWarning, "this kernel has no Landlock: the proxy runs without that layer (enable it with lsm=landlock,… at boot)")
	} else if err := landlock.ConfineToNames(); err != nil {
		return err
	}
	return seccomp.Confine(seccomp.Needs{Dial: true, Routes: true})
}

// serveListeners joins responder, egress and their state, and ends with the
// first of: ctx, the peer, an error.
func serveListeners(ctx context.Context, s task, j *journal, from fdpass.Listeners, fds files) error {
	l, err := take(from)
	if err != nil {
		return err
	}
	defer l.close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	rules := policy.NewLive(s.Policy) // one for all: a name is answered, looked up and let through by the same
	resolver := dns.NewHostResolver(ctx, j.now, func(name string) bool { return rules.Now().Names(name) })
	pins := &dns.Pins{}
	own := &hostAddresses{now: j.now}
	responder := dns.New(dns.Config{
		Sandbox: s.Sandbox, Rules: rules, Resolver: resolver, Recorder: j, Pins: pins, Now: j.now,
	})
	ease := newEase()
	cfg := egress.Config{
		Sandbox: s.Sandbox, Rules: rules, Resolver: resolver, Pins: pins, Recorder: working{j, ease}, Now: j.now,
		Explicit: []uint16{gate.ProxyPort, gate.SOCKSPort},
		OriginalDst: func(c *net.TCPConn) (netip.AddrPort, error) {
			ease.work()
			return origdst.Of(c)
		},
		HostAddress: own.has, HostDefines: dns.HostsFile(hostsFile).Defines,
		Open: s.open,
	}
	if s.lends != nil {
		cfg.Lender = s.lends
	}
	cfg.Upstream = upstream.New(s.Upstream)
	if cfg.Git, err = newGit(s.Git); err != nil {
		return err
	}
	way := egress.New(cfg)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return responder.Run(ctx, l.dnsUDP, l.dnsTCP) })
	group.Go(func() error { return way.Run(ctx, l.tcp) })
	go func() {
		for one := make([]byte, 1); ; { // nothing more is said on it; its end is what counts
			if _, err := fds.peer.Read(one); err != nil {
				break
			}
		}
		cancel()
	}()
	steer := &steering{way: way, lends: s.lends, out: fds.control}
	go steer.follow(ctx, fds.control) // it ends with the process
	return group.Wait()
}

// listeners are the airlock's sockets as Go knows them.
type listeners struct {
	tcp    *net.TCPListener
	dnsUDP net.PacketConn
	dnsTCP net.Listener
}

// take takes the sockets over; the files are closed either way.
func take(from fdpass.Listeners) (listeners, error) {
	ln, err := net.FileListener(from.TCP)
	pc, err2 := net.FilePacketConn(from.DNSUDP)
	dnsLn, err3 := net.FileListener(from.DNSTCP)
	tcp, ok := ln.(*net.TCPListener)
	l := listeners{tcp, pc, dnsLn}
	if err := errors.Join(err, err2, err3, from.Close()); err != nil {
		l.close()
		return listeners{}, fmt.Errorf("open listeners: %w", err)
	}
	if !ok {
		l.close()
		return listeners{}, errors.New("open listeners: the first is not a TCP socket")
	}
	return l, nil
}

func (l listeners) close() {
	if l.tcp != nil {
		_ = l.tcp.Close()
	}
	if l.dnsUDP != nil {
		_ = l.dnsUDP.Close()
	}
	if l.dnsTCP != nil {
		_ = l.dnsTCP.Close()
	}
}
