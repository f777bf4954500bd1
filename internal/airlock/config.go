package airlock

import (
	"fmt"
	"net/netip"

	"github.com/bailey-dev/bailey"
)

// Names of the two ends of the cable.
const (
	SandboxLink = "eth0" // in the sandbox's namespace
	RouterLink  = "r0"   // in the router's namespace
)

// The defaults of Config.
const (
	defaultMTU     = 65000 // fewer, larger packets: there is no wire
	defaultTCPPort = 15001
	defaultDNSPort = 15053
)

// Config says what to build. The zero value is the usual airlock; a field that
// is set replaces one default.
type Config struct {
	Sandbox netip.Prefix // IPv4 address of eth0 and the link's prefix
	Gateway netip.Addr   // IPv4 address of r0, in the same prefix
	MTU     int          // of both ends, in bytes
	TCPPort uint16       // where R listens for redirected TCP
	DNSPort uint16       // where R listens for redirected port 53, UDP and TCP
}

// DefaultGateway is the address that answers for names in the usual airlock.
func DefaultGateway() netip.Addr { return Config{}.withDefaults().Gateway }

func (c Config) withDefaults() Config {
	if c.Sandbox == (netip.Prefix{}) && c.Gateway == (netip.Addr{}) {
		c.Sandbox = netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 0, 2}), 30)
		c.Gateway = netip.AddrFrom4([4]byte{192, 0, 0, 1})
	}
	if c.MTU == 0 {
		c.MTU = defaultMTU
	}
	if c.TCPPort == 0 {
		c.TCPPort = defaultTCPPort
	}
	if c.DNSPort == 0 {
		c.DNSPort = defaultDNSPort
	}
	return c
}

func (c Config) check() error {
	sandbox := c.Sandbox.Addr()
	problem := ""
	switch {
	case !sandbox.Is4() || !c.Gateway.Is4():
		problem = fmt.Sprintf("addresses %s and %s are not both IPv4", c.Sandbox, c.Gateway)
	case !c.Sandbox.Contains(c.Gateway) || sandbox == c.Gateway:
		problem = fmt.Sprintf("gateway %s is not another address of %s", c.Gateway, c.Sandbox.Masked())
	case sandbox.IsLoopback() || sandbox.IsMulticast() || sandbox.IsUnspecified():
		problem = fmt.Sprintf("address %s cannot be a host's", sandbox)
	case c.MTU < 576 || c.MTU > 65535:
		problem = fmt.Sprintf("MTU %d is not between 576 and 65535", c.MTU)
	case c.TCPPort == c.DNSPort:
		problem = fmt.Sprintf("port %d is given twice", c.TCPPort)
	}
	if problem == "" {
		return nil
	}
	return bailey.NewError(bailey.Invalid, "airlock: "+problem, "give two IPv4 addresses of one small prefix")
}
