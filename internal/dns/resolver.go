package dns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/miekg/dns"

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

	// Of names that no rule spells out: what a package manager or a browser
	// opens stays below it, and a sandbox cannot make its own alphabet of them.
	freshRate = 5 // a second
	freshPeak = 300
)

// HostResolver resolves names as this machine does, by /etc/hosts and the
// servers of /etc/resolv.conf, with Go's own resolver: the C library's reads
// 0177.0.0.1 and its kin as addresses. What servers answer is screened. It asks
// for IPv4 alone, and keeps what it found for ten seconds, so that a look-up
// and the connection after it see the same addresses. It is safe for
// concurrent use.
type HostResolver struct {
	now   func() time.Time
	begin func() (context.Context, context.CancelFunc) // of a question to the servers
	slots chan struct{}
	named func(string) bool
	fresh bucket // of names that are not named

	mu    sync.Mutex
	asked map[inquiry]*lookup
}

// inquiry is what is asked of the servers.
type inquiry struct {
	kind uint16 // dns.TypeA, TypeTXT or TypeSRV
	name string
}

// lookup is a question that is under way or was answered; the fields after
// done may be read once done is closed.
type lookup struct {
	done     chan struct{}
	addrs    []netip.Addr
	texts    []string
	services []*net.SRV
	err      error
	until    time.Time
}

// NewHostResolver makes a resolver with its own cache. What it is asking when
// ctx ends, ends too. Of names for which named is false only so many are looked
// up in a time; beyond, the error wraps policy.ErrManyNames.
func NewHostResolver(ctx context.Context, now func() time.Time, named func(name string) bool) *HostResolver {
	return &HostResolver{
		now:   now,
		begin: func() (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, lookupTimeout) },
		slots: make(chan struct{}, maxLookups),
		named: named,
		fresh: bucket{perSecond: freshRate, burst: freshPeak},
		asked: map[inquiry]*lookup{},
	}
}

// Lookup returns the IPv4 addresses of a normalised name: at least one, in
// the order they should be tried, for reading only. It classifies nothing:
// the addresses have to pass policy.DecideAddr. The error wraps policy.ErrNoAddress
// where the name has none.
func (r *HostResolver) Lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	l, err := r.look(ctx, inquiry{dns.TypeA, name})
	if err != nil {
		return nil, err
	}
	return l.addrs, nil
}

// look returns what a question found, or its error.
func (r *HostResolver) look(ctx context.Context, q inquiry) (*lookup, error) {
	l, mine := r.join(q)
	if l == nil {
		return nil, fmt.Errorf("look up %s: %w", q.name, policy.ErrManyNames)
	}
	if mine {
		r.ask(q, l) //nolint:contextcheck // it ends with the resolver, not with who asks first
	}
	select {
	case <-l.done:
		return l, l.err
	case <-ctx.Done():
		return nil, fmt.Errorf("look up %s: %w", q.name, ctx.Err())
	}
}

// join returns what is or was asked and whether the caller has to ask it; nil
// if the question is one too many.
func (r *HostResolver) join(q inquiry) (l *lookup, mine bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l, ok := r.asked[q]; ok && !r.stale(l) {
		return l, false
	}
	if !r.named(q.name) && !r.fresh.take(r.now()) {
		return nil, false
	}
	if len(r.asked) >= maxCached {
		r.evict()
	}
	l = &lookup{done: make(chan struct{})}
	r.asked[q] = l
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
	for q, l := range r.asked {
		if r.stale(l) {
			delete(r.asked, q)
		}
	}
	for q := range r.asked {
		if len(r.asked) < maxCached {
			return
		}
		delete(r.asked, q) // whoever waits for it holds it
	}
}

// ask puts the question for everybody who waits, so it does not end with the
// caller who happened to be first, but with the resolver.
func (r *HostResolver) ask(q inquiry, l *lookup) {
	defer close(l.done)
	ctx, cancel := r.begin()
	defer cancel()
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
		l.find(ctx, q)
	case <-ctx.Done():
		l.err = fmt.Errorf("look up %s: %w", q.name, ctx.Err())
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

// find asks the machine's servers.
func (l *lookup) find(ctx context.Context, q inquiry) {
	switch q.kind {
	case dns.TypeTXT:
		l.texts, l.err = lookupTXT(ctx, q.name)
	case dns.TypeSRV:
		l.services, l.err = lookupSRV(ctx, q.name)
	default:
		l.addrs, l.err = lookupHost(ctx, q.name)
	}
}

func resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, StrictErrors: true, Dial: dialScreened}
}

func lookupHost(ctx context.Context, name string) ([]netip.Addr, error) {
	// The final dot keeps the search list of resolv.conf out: allow.test must
	// never become allow.test.corp.example.
	addrs, err := resolver().LookupNetIP(ctx, "ip4", name+".")
	if err != nil {
		return nil, foundNothing(name, 0, err)
	}
	if len(addrs) == 0 {
		return nil, foundNothing(name, 0, nil)
	}
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	return addrs, nil
}
