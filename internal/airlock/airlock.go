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

	Address netip.Prefix // of eth0 in the sandbox
	Gateway netip.Addr   // the sandbox's default route and its name server
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
// limit of the machine was hit, Invalid for a wrong Config.
func Build(cfg Config) (*Lock, error) {
	b, err := newBuilder(cfg)
	if err != nil {
		return nil, err
	}
	if err := thread.Run(b.run); err != nil {
		_ = b.lock.Close() // the step's error says more
		return nil, err
	}
	return b.lock, nil
}

// Layer is the state of one layer that an airlock needs.
type Layer struct {
	Name string // "veth pair"
	Err  error  // nil if it could be put in place; a *bailey.Error as of Build
}

// Probe builds an airlock, takes it down and returns its layers in the order
// they were put in place. It ends with the first one that could not be: those
// after it were not tried.
func Probe() []Layer {
	b, err := newBuilder(Config{})
	if err == nil {
		err = thread.Run(b.run)
	}
	if b == nil {
		return []Layer{{Name: "configuration", Err: err}}
	}
	layers := b.done
	if cerr := b.lock.Close(); err == nil && cerr != nil {
		layers = append(layers, Layer{Name: "take-down", Err: cerr})
	}
	return layers
}

func newBuilder(cfg Config) (*builder, error) {
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	return &builder{
		cfg: cfg, rules: rules(cfg),
		lock: &Lock{Address: cfg.Sandbox, Gateway: cfg.Gateway},
	}, nil
}

// builder holds what the steps hand to each other.
type builder struct {
	cfg   Config
	rules nft.Ruleset
	lock  *Lock
	done  []Layer

	inS, inR *netns.Conn
	router   *os.File // the namespace R
	r0, eth0 netns.Link
}

// run takes the steps on a thread that is thrown away afterwards.
func (b *builder) run() error {
	defer b.closeSockets()
	for _, s := range steps() {
		err := s.do(b)
		if err != nil {
			err = s.explain(err)
		}
		b.done = append(b.done, Layer{Name: s.layer, Err: err})
		if err != nil {
			return err
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
