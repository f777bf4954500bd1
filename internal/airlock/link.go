package airlock

import "net/netip"

// Names of the two ends of the cable.
const (
	SandboxLink = "eth0" // in the sandbox's namespace
	RouterLink  = "r0"   // in the router's namespace
)

const (
	mtu     = 65000 // bytes; fewer, larger packets: there is no wire
	tcpPort = 15001 // where R listens for redirected TCP
	dnsPort = 15053 // where R listens for redirected port 53, UDP and TCP
)

// Gateway is the sandbox's default route, and the address that answers for
// names.
func Gateway() netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 0, 1}) }

// address is that of eth0, with the link's prefix.
func address() netip.Prefix { return netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 0, 2}), 30) }
