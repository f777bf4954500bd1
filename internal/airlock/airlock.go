package airlock

import (
	"errors"
	"net/netip"
	"os"

	"github.com/bailey-dev/bailey/internal/linux/netns"
	"github.com/bailey-dev/bailey/internal/linux/nft"
	"github.com/bailey-dev/bailey/internal/linux/thread"
)

// Lock is a built airlock. The files are its whole life: when all of them, in
// every process they were passed to, are closed and no process is left in the
// sandbox's namespace, the kernel takes everything down.
type Lock struct {
	Sandbox *os.File // the network namespace S, for setns or /proc/PID/fd/N
	TCP     *os.File // TCP listener: every connection but those to port 53
	DNSUDP  *os.File // UDP socket: every datagram to port 53
	DNSTCP  *os.File // TCP listener: connections to port 53
}

// Close closes the files.
func (l *Lock) Close() error {
	var errs []error
	for _, f := range []*os.File{l.Sandbox, l.TCP, l.DNSUDP, l.DNSTCP} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// Build makes both namespaces, the cable, the rules and the listeners. The
// rules are read back and compared before either end of the cable is up. It
// takes a few milliseconds and leaves nothing behind when it fails.
//
// The error is a *bailey.Error that names the layer and, where there is one,
// the fix: Unsupported when the machine lacks the layer, Exhausted when a
// limit of the machine was hit.
func Build() (*Lock, error) {
	b := &builder{address: address(), rules: rules(), lock: &Lock{}}
	return b.build()
}

func (b *builder) build() (*Lock, error) {
	if err := thread.Run(b.run); err != nil {
		_ = b.lock.Close() // the step's error says more
		return nil, err
	}
	return b.lock, nil
}

// builder holds what the steps hand to each other.
type builder struct {
	address netip.Prefix
	rules   nft.Ruleset
	lock    *Lock

	inS, inR *netns.Conn
	router   *os.File // the namespace R
	r0, eth0 netns.Link
}

// run takes the steps on a thread that is thrown away afterwards.
func (b *builder) run() error {
	defer b.closeSockets()
	for _, s := range steps() {
		if err := s.do(b); err != nil {
			return s.explain(err)
		}
	}
	return nil
}

func (b *builder) closeSockets() {
	for _, c := range []*netns.Conn{b.inS, b.inR} {
		if c != nil {
			c.Close()
		}
	}
	if b.router != nil {
		_ = b.router.Close() // read-only descriptor; the listeners hold R
	}
}
