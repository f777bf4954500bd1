package policy

import (
	"net/netip"
	"sync"
)

// Class says what an address is for. The zero value is ClassInvalid, which
// like everything but ClassPublic is special: a sandbox never reaches it.
type Class uint8

// The classes. Each special one names a part of the IANA special-purpose
// address registries (RFC 6890 and successors) or of the IPv6 space.
const (
	ClassInvalid       Class = iota // no address, or one with a zone
	ClassPublic                     // an ordinary address of the internet
	ClassThisNetwork                // 0.0.0.0/8, ::
	ClassLoopback                   // 127/8, ::1
	ClassPrivate                    // RFC 1918, unique local (RFC 4193)
	ClassShared                     // carrier-grade NAT (RFC 6598)
	ClassLinkLocal                  // 169.254/16 with cloud metadata, fe80::/10
	ClassSiteLocal                  // fec0::/10 (RFC 3879)
	ClassMulticast                  // 224/4, ff00::/8
	ClassBroadcast                  // 255.255.255.255
	ClassReserved                   // 240/4 and IPv6 space that is not handed out
	ClassProtocol                   // IETF protocol assignments, AS112, AMT, SRv6, discard
	ClassBenchmarking               // 198.18/15, 2001:2::/48
	ClassDocumentation              // TEST-NET-1..3, 2001:db8::/32, 3fff::/20
	ClassTranslated                 // embeds an IPv4 address: mapped, compatible, NAT64, 6to4, Teredo
	ClassCloud                      // looks public or private, and is a cloud's own service to its machines
)

// String names the class for a sentence: "a private address".
func (c Class) String() string {
	names := [...]string{
		"an invalid", "a public", "a this-network", "a loopback", "a private",
		"a carrier-grade NAT", "a link-local", "a site-local", "a multicast",
		"a broadcast", "a reserved", "a protocol", "a benchmarking",
		"a documentation", "a translated", "a cloud platform's own",
	}
	if int(c) >= len(names) {
		return names[ClassInvalid] + " address"
	}
	return names[c] + " address"
}

// Special reports whether an address of this class is not reached unless a
// rule or mode full names it.
func (c Class) Special() bool { return c != ClassPublic }

// nameable reports whether a rule may name addresses of this class.
func (c Class) nameable() bool { return c == ClassPublic || c == ClassPrivate || c == ClassShared }

type addressRange struct {
	prefix netip.Prefix
	class  Class
}

// ranges is built at first use: a process that decides nothing pays nothing.
// The order matters: the first prefix that contains the address names it.
var ranges = sync.OnceValue(func() []addressRange {
	table := [...]struct {
		prefix string
		class  Class
	}{
		// Clouds' services to each of their machines (keys, agents' endpoints,
		// DNS), on no network but theirs, in space that looks public, shared or
		// private. Those of the others lie in 169.254/16 and 192.0.0/24.
		{"168.63.129.16/32", ClassCloud},   // Azure's wire server
		{"100.100.100.200/32", ClassCloud}, // Alibaba Cloud
		{"fd00:ec2::/32", ClassCloud},      // AWS
		{"fd20:ce::254/128", ClassCloud},   // Google Cloud
		// IANA IPv4 special-purpose registry, all rows.
		{"0.0.0.0/8", ClassThisNetwork},
		{"10.0.0.0/8", ClassPrivate},
		{"100.64.0.0/10", ClassShared},
		{"127.0.0.0/8", ClassLoopback},
		{"169.254.0.0/16", ClassLinkLocal},
		{"172.16.0.0/12", ClassPrivate},
		{"192.0.2.0/24", ClassDocumentation},
		{"192.0.0.0/24", ClassProtocol}, // with .8 dummy, .9 PCP, .10 TURN, .170/.171 NAT64 discovery
		{"192.31.196.0/24", ClassProtocol},
		{"192.52.193.0/24", ClassProtocol},
		{"192.88.99.0/24", ClassProtocol},
		{"192.168.0.0/16", ClassPrivate},
		{"192.175.48.0/24", ClassProtocol},
		{"198.18.0.0/15", ClassBenchmarking},
		{"198.51.100.0/24", ClassDocumentation},
		{"203.0.113.0/24", ClassDocumentation},
		{"224.0.0.0/4", ClassMulticast},
		{"255.255.255.255/32", ClassBroadcast},
		{"240.0.0.0/4", ClassReserved},
		// IANA IPv6 special-purpose registry, all rows, and the whole space
		// outside 2000::/3, of which nothing is handed out to hosts.
		{"::/128", ClassThisNetwork},
		{"::1/128", ClassLoopback},
		{"::/96", ClassTranslated},           // IPv4-compatible, RFC 4291 §2.5.5.1
		{"::ffff:0:0:0/96", ClassTranslated}, // IPv4-translated, RFC 2765
		{"64:ff9b::/96", ClassTranslated},    // NAT64, RFC 6052
		{"64:ff9b:1::/48", ClassTranslated},  // local NAT64, RFC 8215
		{"100::/64", ClassProtocol},          // discard-only, RFC 6666
		{"100:0:0:1::/64", ClassProtocol},    // dummy prefix, RFC 9780
		{"2001::/32", ClassTranslated},       // Teredo, RFC 4380
		{"2001:2::/48", ClassBenchmarking},
		{"2001::/23", ClassProtocol}, // with PCP, TURN, AMT, AS112, ORCHID, drone ids
		{"2001:db8::/32", ClassDocumentation},
		{"2002::/16", ClassTranslated}, // 6to4, RFC 3056
		{"2620:4f:8000::/48", ClassProtocol},
		{"3fff::/20", ClassDocumentation},
		{"5f00::/16", ClassProtocol}, // SRv6 SIDs, RFC 9602
		{"fc00::/7", ClassPrivate},
		{"fe80::/10", ClassLinkLocal},
		{"fec0::/10", ClassSiteLocal},
		{"ff00::/8", ClassMulticast},
	}
	out := make([]addressRange, 0, len(table))
	for _, row := range table {
		out = append(out, addressRange{netip.MustParsePrefix(row.prefix), row.class})
	}
	return out
})

// Classify says what an address is for. An address with a zone and the zero
// address are ClassInvalid. An IPv4 address written in IPv6 form is
// ClassTranslated, unless what it holds can be named by no rule, in which case
// it has that class: nobody sends such an address over the network in good
// faith.
func Classify(a netip.Addr) Class {
	if !a.IsValid() || a.Zone() != "" {
		return ClassInvalid
	}
	if a.Is4In6() {
		if c := Classify(a.Unmap()); !c.nameable() {
			return c
		}
		return ClassTranslated
	}
	for _, r := range ranges() {
		if r.prefix.Contains(a) {
			return r.class
		}
	}
	if a.Is6() && !globalUnicast(a) {
		return ClassReserved
	}
	return ClassPublic
}

// globalUnicast reports whether an IPv6 address is in 2000::/3, the only
// part of the space that is handed out (RFC 4291 §2.4, IANA).
func globalUnicast(a netip.Addr) bool { return a.As16()[0]>>5 == 1 }
