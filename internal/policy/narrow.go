package policy

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"github.com/bailey-dev/bailey"
)

// ServiceRule lets a sandbox reach the service that listens at a port of this
// machine's loopback.
func ServiceRule(port uint16) (Rule, error) {
	if port == 0 {
		return Rule{}, bailey.NewError(bailey.Invalid, "host-service: port 0 is none", "write the port that the service listens on")
	}
	return Rule{Host: ServiceHost, Port: port, Service: true}, nil
}

// ParseTarget reads the host of an allow rule that may name addresses: as a deny
// rule's, but a private address is fine only where the addresses name it.
func ParseTarget(s string, addresses []netip.Prefix) (Rule, error) {
	if len(addresses) == 0 {
		return parseTarget(s, false)
	}
	host, port := s, uint16(0)
	if a, err := netip.ParseAddrPort(s); err == nil {
		host, port = a.Addr().String(), a.Port()
	}
	a, err := netip.ParseAddr(host)
	if err != nil || !Classify(a).Special() {
		return parseTarget(s, false)
	}
	if !within(a, addresses) || !Classify(a).nameable() {
		return parseTarget(s, false) // which says why not
	}
	return Rule{Addr: a, Port: port}, nil
}

// With returns the rule made narrower, or what is wrong with how.
func (r Rule) With(n Narrow) (Rule, error) {
	if err := cmp.Or(
		first(n.Addresses, CheckAddresses), first(n.Methods, CheckMethod),
		first(n.Paths, CheckPattern), first(n.Repositories, CheckRepository),
	); err != nil {
		return Rule{}, err
	}
	if len(n.Repositories) > 0 && len(n.Methods)+len(n.Paths) > 0 {
		return Rule{}, bailey.NewError(bailey.Invalid, "git says which methods and paths a rule is about, and so do methods and paths", "write two entries for the host")
	}
	if err := r.checkRecords(n.Records); err != nil {
		return Rule{}, err
	}
	if err := r.checkSSH(n); err != nil {
		return Rule{}, err
	}
	if len(n.Addresses)+len(n.Methods)+len(n.Paths)+len(n.Repositories)+len(n.Records) > 0 || n.Inspect || n.SSH != nil {
		r.Narrow = &n
	}
	return r, nil
}

// first returns what is wrong with the first of a list that is wrong.
func first[T any](list []T, check func(T) error) error {
	for _, v := range list {
		if err := check(v); err != nil {
			return err
		}
	}
	return nil
}

// CheckMethod refuses what is no method of HTTP that passes here.
func CheckMethod(m string) error {
	if m == "CONNECT" || m == "TRACE" {
		return bailey.NewError(bailey.Invalid, fmt.Sprintf("method %s is never passed on", m), "leave it out")
	}
	ok := m != "" && len(m) <= 32
	for i := range len(m) {
		ok = ok && ('A' <= m[i] && m[i] <= 'Z' || m[i] == '-')
	}
	if !ok {
		return bailey.NewError(bailey.Invalid, fmt.Sprintf("method %q is not one", m), "write it in capitals, such as GET")
	}
	return nil
}

// CheckAddresses refuses a range that holds addresses no sandbox reaches. A
// range may be public, private or shared (RFC 6598); what clouds keep for
// themselves in those stays out of reach.
func CheckAddresses(p netip.Prefix) error {
	const hint = "write a private range such as 10.1.0.0/16, or one address such as 10.1.2.3/32"
	if !p.IsValid() || p.Addr().Is4In6() {
		return bailey.NewError(bailey.Invalid, fmt.Sprintf("%q is not a range of addresses", p), hint)
	}
	if p != p.Masked() {
		return bailey.NewError(bailey.Invalid, fmt.Sprintf("%s is one address with the length of a range", p), "write "+p.Masked().String())
	}
	for _, row := range ranges() {
		inside := row.prefix.Bits() > p.Bits() && row.class == ClassCloud
		if row.prefix.Overlaps(p) && !row.class.nameable() && !inside {
			return bailey.NewError(bailey.Invalid, fmt.Sprintf("%s holds %s, and no sandbox reaches those", p, row.class), hint)
		}
	}
	if p.Addr().Is6() && (p.Bits() < 3 || !globalUnicast(p.Addr()) && Classify(p.Addr()) != ClassPrivate) {
		return bailey.NewError(bailey.Invalid, fmt.Sprintf("%s holds a reserved address, and no sandbox reaches those", p), hint)
	}
	return nil
}

// ParseAddresses reads a range of addresses, or one address.
func ParseAddresses(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if a, aerr := netip.ParseAddr(s); aerr == nil && a.Zone() == "" {
		p, err = netip.PrefixFrom(a, a.BitLen()), nil
	}
	if err != nil {
		return netip.Prefix{}, bailey.NewError(bailey.Invalid, fmt.Sprintf("%q is not a range of addresses", s), "write one as 10.1.0.0/16 or 10.1.2.3")
	}
	return p, CheckAddresses(p)
}

func within(a netip.Addr, list []netip.Prefix) bool {
	return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(a) })
}

// allowsAddr reports whether an allow rule lets its host be at an address.
func (r Rule) allowsAddr(a netip.Addr, mode bailey.NetMode) bool {
	c := Classify(a)
	if r.Narrow == nil || len(r.Narrow.Addresses) == 0 {
		return c == ClassPublic || c == ClassPrivate && mode == bailey.NetFull
	}
	return c.nameable() && within(a, r.Narrow.Addresses)
}

// opensMachine reports whether a rule opens an address of the machine itself:
// it names that very address, or a name that the machine itself, and not the
// DNS, gives to it.
func (r Rule) opensMachine(a netip.Addr, defines bool) bool {
	if r.Wildcard || r.Fenced {
		return false
	}
	return r.Addr == a || defines ||
		r.Narrow != nil && slices.ContainsFunc(r.Narrow.Addresses, func(p netip.Prefix) bool { return p.IsSingleIP() && p.Contains(a) })
}

// CheckPort reads a port as a person writes it.
func CheckPort(s string) (uint16, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 || s[0] < '1' || s[0] > '9' {
		return 0, bailey.NewError(bailey.Invalid, fmt.Sprintf("port %q is not a number from 1 to 65535", s), "write one of those, such as 8080")
	}
	return uint16(n), nil
}
