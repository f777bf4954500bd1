package policy

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey"
)

// Covers reports whether a policy lets through already all that an allow rule
// would, so that adding the rule fenced widens nothing. In doubt it says no.
func (p Policy) Covers(r Rule) bool {
	if slices.ContainsFunc(p.Allow, func(b Rule) bool { return p.Mode != bailey.NetNone && b.covers(r) }) {
		return true
	}
	if p.Mode.ByList() || r.Service {
		return false
	}
	// Where a rule says which addresses a name may have, the mode alone does
	// not say that the name may have others.
	if slices.ContainsFunc(p.Allow, func(b Rule) bool { return b.Narrow != nil && len(b.Narrow.Addresses) > 0 && overlap(b, r) }) {
		return false
	}
	private := func(a netip.Prefix) bool { return Classify(a.Addr()) == ClassPrivate }
	if r.isSSH() {
		return false // no mode lends the user's key
	}
	if r.Narrow != nil && len(r.Narrow.Records) > 0 {
		return false // no mode answers those
	}
	if r.Narrow != nil && len(r.Narrow.Addresses) > 0 {
		return p.Mode == bailey.NetFull && !slices.ContainsFunc(r.Narrow.Addresses, func(a netip.Prefix) bool { return !private(a) })
	}
	return true
}

// overlap reports whether two rules can be about the same host.
func overlap(a, b Rule) bool {
	return a.names(b) || b.names(a) ||
		a.Wildcard && b.Wildcard && (strings.HasSuffix(a.Host, "."+b.Host) || strings.HasSuffix(b.Host, "."+a.Host))
}

// names reports whether a rule is about every host that another is about.
func (r Rule) names(o Rule) bool {
	switch {
	case r.Addr.IsValid() || o.Addr.IsValid():
		return r.Addr == o.Addr && r.Addr.IsValid()
	case !o.Wildcard:
		return r.matchesHost(o.Host)
	}
	return r.Wildcard && (r.Host == o.Host || strings.HasSuffix(o.Host, "."+r.Host))
}

// covers reports whether an allow rule lets through all that another does.
func (r Rule) covers(o Rule) bool {
	port := r.Port == o.Port || r.Port == 0 && (o.Port == 80 || o.Port == 443)
	if !r.names(o) || !port || r.Service != o.Service {
		return false
	}
	var a, b Narrow
	if r.Narrow != nil {
		a = *r.Narrow
	}
	if o.Narrow != nil {
		b = *o.Narrow
	}
	return a.SSH.covers(b.SSH) && a.coversRequests(b) && a.coversAddresses(b) && (b.Inspect || !a.Inspect)
}

// coversRequests is covers for requests of HTTP and git.
func (n Narrow) coversRequests(o Narrow) bool {
	return coversAll(n.Methods, o.Methods, equal) &&
		coversAll(n.Paths, o.Paths, coversPattern) &&
		coversAll(n.Repositories, o.Repositories, equal) &&
		(len(n.Repositories) == 0 || n.Push || !o.Push)
}

// coversAddresses is covers for what a name stands for: addresses, of which
// none named are the public ones, and records, of which none named are none.
func (n Narrow) coversAddresses(o Narrow) bool {
	wider := func(x, y netip.Prefix) bool { return x.Bits() <= y.Bits() && x.Contains(y.Addr()) }
	return (len(n.Addresses) > 0 || len(o.Addresses) == 0) && coversAll(n.Addresses, o.Addresses, wider) &&
		(len(o.Records) == 0 || len(n.Records) > 0 && coversAll(n.Records, o.Records, equal))
}

func equal(a, b string) bool { return a == b }

// coversAll reports whether each of b is within one of a. No a at all is any;
// no b at all is more than any a.
func coversAll[T any](a, b []T, within func(a, b T) bool) bool {
	if len(a) == 0 {
		return true
	}
	return len(b) > 0 && !slices.ContainsFunc(b, func(y T) bool {
		return !slices.ContainsFunc(a, func(x T) bool { return within(x, y) })
	})
}
