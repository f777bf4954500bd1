package airlock

import (
	"github.com/bailey-dev/bailey/internal/linux/netns"
	"github.com/bailey-dev/bailey/internal/linux/nft"
)

// icmpUnreachable is the type of "destination unreachable" (RFC 792, RFC 4443).
const (
	icmpUnreachable   = 3
	icmpv6Unreachable = 1
)

// dns is the port whose questions go to the DNS listeners.
const dns = 53

// rules is what R does with packets. A packet of the sandbox meets "guard",
// then "redirect", then "input"; an answer meets "output".
//
// What is not let through is rejected in guard, before routing, since a
// machine that forwards nothing drops what is not addressed to it in silence.
// There guard also comes before connection tracking, so that a flood of
// refused packets fills no table; fragments have been put together by then.
func rules() nft.Ruleset {
	return nft.Ruleset{Table: "airlock", Chains: []nft.Chain{
		guard(), redirect(), input(),
		{Name: "forward", Type: nft.Filter, Hook: nft.Forward, Priority: nft.PriorityFilter},
		output(),
	}}
}

func guard() nft.Chain {
	v4, tcp, udp := nft.OfFamily(nft.IPv4), nft.OfProtocol(nft.TCP), nft.OfProtocol(nft.UDP)
	return nft.Chain{
		Name: "guard", Type: nft.Filter, Hook: nft.Prerouting, Priority: nft.PriorityRaw,
		Rules: []nft.Rule{
			rule(nft.Drop(), nft.NotInInterface(RouterLink)),
			rule(nft.RejectReset(), nft.OfFamily(nft.IPv6), tcp),
			rule(nft.RejectProhibited(), nft.OfFamily(nft.IPv6)),
			rule(nft.Drop(), v4, nft.SourceIsNot(address().Addr())),
			rule(nft.Drop(), v4, nft.DestinationIsLoopback()),
			rule(nft.Accept(), v4, tcp),
			rule(nft.Accept(), v4, udp, nft.DestinationPort(dns)),
			rule(nft.RejectPort(), v4, udp),
			rule(nft.RejectProhibited(), v4),
		},
	}
}

func redirect() nft.Chain {
	v4, tcp, udp := nft.OfFamily(nft.IPv4), nft.OfProtocol(nft.TCP), nft.OfProtocol(nft.UDP)
	return nft.Chain{
		Name: "redirect", Type: nft.NAT, Hook: nft.Prerouting, Priority: nft.PriorityDNAT,
		Policy: nft.PolicyAccept, // input and forward decide
		Rules: []nft.Rule{
			rule(nft.Redirect(dnsPort), v4, tcp, nft.DestinationPort(dns)),
			rule(nft.Redirect(tcpPort), v4, tcp),
			rule(nft.Redirect(dnsPort), v4, udp, nft.DestinationPort(dns)),
		},
	}
}

func input() nft.Chain {
	in, v4, to := nft.InInterface(RouterLink), nft.OfFamily(nft.IPv4), nft.DestinationIs(Gateway())
	tcp, udp := nft.OfProtocol(nft.TCP), nft.OfProtocol(nft.UDP)
	return nft.Chain{
		Name: "input", Type: nft.Filter, Hook: nft.Input, Priority: nft.PriorityFilter,
		Rules: []nft.Rule{
			rule(nft.Accept(), in, v4, to, tcp, nft.DestinationPort(tcpPort)),
			rule(nft.Accept(), in, v4, to, tcp, nft.DestinationPort(dnsPort)),
			rule(nft.Accept(), in, v4, to, udp, nft.DestinationPort(dnsPort)),
		},
	}
}

// output lets answers pass and the errors that guard's rejections make; those
// belong to no tracked connection. A process that R's listeners were given to
// cannot open a connection to the sandbox through them.
func output() nft.Chain {
	out := nft.OutInterface(RouterLink)
	return nft.Chain{
		Name: "output", Type: nft.Filter, Hook: nft.Output, Priority: nft.PriorityFilter,
		Rules: []nft.Rule{
			rule(nft.Accept(), out, nft.Established()),
			rule(nft.Accept(), out, nft.OfFamily(nft.IPv4), nft.OfProtocol(nft.ICMP), nft.ICMPType(icmpUnreachable)),
			rule(nft.Accept(), out, nft.OfFamily(nft.IPv6), nft.OfProtocol(nft.TCP), nft.ResetOfSYN()),
			rule(nft.Accept(), out, nft.OfFamily(nft.IPv6), nft.OfProtocol(nft.ICMPv6), nft.ICMPType(icmpv6Unreachable)),
		},
	}
}

func rule(v nft.Verdict, m ...nft.Match) nft.Rule { return nft.Rule{Matches: m, Verdict: v} }

// A new namespace copies the host's IPv4 settings (net.core.
// devconf_inherit_init_net), so each one that matters is set. "default" is for
// the links to come; "all" counts beside it.

// sandboxSysctls: no IPv6 on eth0, so that a connection by IPv6 fails at once
// with ENETUNREACH; loopback keeps ::1.
func sandboxSysctls() []netns.Sysctl {
	return []netns.Sysctl{
		{Key: "ipv6/conf/default/disable_ipv6", Value: "1", Optional: true},
		{Key: "ipv4/conf/all/accept_redirects", Value: "0"},
		{Key: "ipv4/conf/default/accept_redirects", Value: "0"},
	}
}

// routerSysctls: nothing is forwarded, nothing of 127/8 is reached from
// outside, sources are checked, and rejections are never held back: by default
// the kernel sends one a second to a host, and a program would wait for the
// rest.
func routerSysctls() []netns.Sysctl {
	list := []netns.Sysctl{{Key: "ipv4/ip_forward", Value: "0"}, {Key: "ipv4/icmp_ratemask", Value: "0"}}
	for _, which := range []string{"all", "default"} {
		dir := "ipv4/conf/" + which + "/"
		list = append(list,
			netns.Sysctl{Key: dir + "accept_redirects", Value: "0"},
			netns.Sysctl{Key: dir + "send_redirects", Value: "0"},
			netns.Sysctl{Key: dir + "accept_source_route", Value: "0"},
			netns.Sysctl{Key: dir + "rp_filter", Value: "1"},
			netns.Sysctl{Key: dir + "route_localnet", Value: "0"},
			netns.Sysctl{Key: "ipv6/conf/" + which + "/disable_ipv6", Value: "1", Optional: true},
		)
	}
	return list
}
