package dns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/bailey-dev/bailey/internal/policy"
)

// Bounds of a HostResolver.
const (
	lookupTimeout = 8 * time.Second
	maxLookups    = 32   // at once
	maxCached     = 1024 // names
	keepFound     = 10 * time.Second
	keepNotFound  = 5 * time.Second
	keepFailure   = time.Second
)

// HostResolver resolves names as this machine does, by /etc/hosts and the
// servers of /etc/resolv.conf, with Go's own resolver: the C library's reads
// 0177.0.0.1 and its kin as addresses. It asks for IPv4 alone, and keeps what
// it found for ten seconds, so that a look-up and the connection after it
// see the same addresses. It is safe for concurrent use.
type HostResolver struct {
	now   func() time.Time
	begin func() (context.Context, context.CancelFunc) // of a question to the servers
	slots chan struct{}

	mu    sync.Mutex
	names map[string]*lookup
}

// lookup is a question that is under way or was answered; the fields after
// done may be read once done is closed.
type lookup struct {
	done  chan struct{}
	addrs []netip.Addr
	err   error
	until time.Time
}

// NewHostResolver makes a resolver with its own cache. What it is asking when
// ctx ends, ends too.
func NewHostResolver(ctx context.Context, now func() time.Time) *HostResolver {
	return &HostResolver{
		now:   now,
		begin: func() (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, lookupTimeout) },
		slots: make(chan struct{}, maxLookups),
		names: map[string]*lookup{},
	}
}

// Lookup returns the IPv4 addresses of a normalised name: at least one, in
// the order they should be tried, for reading only. It classifies nothing:
// the addresses have to pass policy.DecideAddr. The error wraps policy.ErrNoAddress
// where the name has none.
func (r *HostResolver) Lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	l, mine := r.join(name)
	if mine {
		r.ask(name, l) //nolint:contextcheck // it ends with the resolver, not with who asks first
	}
	select {
	case <-l.done:
		return l.addrs, l.err
	case <-ctx.Done():
		return nil, fmt.Errorf("look up %s: %w", name, ctx.Err())
	}
}

// join returns the question for a name and whether the caller has to ask it.
func (r *HostResolver) join(name string) (l *lookup, mine bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l, ok := r.names[name]; ok && !r.stale(l) {
		return l, false
	}
	if len(r.names) >= maxCached {
		r.evict()
	}
	l = &lookup{done: make(chan struct{})}
	r.names[name] = l
	return l, true
}

func (r *HostResolver) stale(l *lookup) bool {
	select {
	case <-l.done:
		return r.now().After(l.until)
	default:
		return false
	}
}

func (r *HostResolver) evict() {
	for name, l := range r.names {
		if r.stale(l) {
			delete(r.names, name)
		}
	}
	for name := range r.names {
		if len(r.names) < maxCached {
			return
		}
		delete(r.names, name) // whoever waits for it holds it
	}
}

// ask puts the question for everybody who waits, so it does not end with the
// caller who happened to be first, but with the resolver.
func (r *HostResolver) ask(name string, l *lookup) {
	defer close(l.done)
	ctx, cancel := r.begin()
	defer cancel()
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
		l.addrs, l.err = lookupHost(ctx, name)
	case <-ctx.Done():
		l.err = fmt.Errorf("look up %s: %w", name, ctx.Err())
	}
	keep := keepFound
	switch {
	case errors.Is(l.err, policy.ErrNoAddress):
		keep = keepNotFound
	case l.err != nil:
		keep = keepFailure
	}
	l.until = r.now().Add(keep)
}

func lookupHost(ctx context.Context, name string) ([]netip.Addr, error) {
	resolver := net.Resolver{PreferGo: true, StrictErrors: true}
	// The final dot keeps the search list of resolv.conf out: allow.test must
	// never become allow.test.corp.example.
	addrs, err := resolver.LookupNetIP(ctx, "ip4", name+".")
	if err != nil {
		if e, ok := errors.AsType[*net.DNSError](err); ok && e.IsNotFound {
			return nil, fmt.Errorf("look up %s: %w", name, policy.ErrNoAddress)
		}
		return nil, fmt.Errorf("look up %s: %w", name, err)
	}
	if len(addrs) == 0 {
		return nil, fmt.Errorf("look up %s: %w", name, policy.ErrNoAddress)
	}
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	return addrs, nil
}
