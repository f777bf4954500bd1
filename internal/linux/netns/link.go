package netns

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Conn is a routing socket. It stays with the namespace that its thread was in
// when it was dialled, wherever the thread goes after that. Not for use by
// several goroutines at once.
type Conn struct {
	h *netlink.Handle
}

// Dial opens a routing socket in the calling thread's namespace.
func Dial() (*Conn, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open routing socket: %w", err)
	}
	return &Conn{h: h}, nil
}

// Close closes the socket.
func (c *Conn) Close() { c.h.Close() }

// Link is a network interface of a Conn's namespace.
type Link struct {
	Name  string
	Index int
}

func (l Link) netlink() netlink.Link {
	return &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: l.Name, Index: l.Index}}
}

// Loopback is the link "lo"; its index is 1 in every namespace (the kernel's
// LOOPBACK_IFINDEX).
func Loopback() Link { return Link{Name: "lo", Index: 1} }

// Veth describes a pair of virtual interfaces: what enters one leaves the other.
type Veth struct {
	Name     string   // in the Conn's namespace
	PeerName string   // in the other one
	PeerNS   *os.File // the other namespace
	MTU      int      // of both, in bytes
}

// AddVeth makes the pair, both ends down, and returns the Conn's end.
func (c *Conn) AddVeth(v Veth) (Link, error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = v.Name, v.MTU
	veth := netlink.NewVeth(attrs)
	veth.PeerName = v.PeerName
	veth.PeerNamespace = netlink.NsFd(int(v.PeerNS.Fd()))
	if err := c.h.LinkAdd(veth); err != nil {
		return Link{}, fmt.Errorf("add veth %s: %w", v.Name, err)
	}
	if veth.Attrs().Index == 0 {
		return Link{}, fmt.Errorf("add veth %s: the kernel shows no such link", v.Name)
	}
	return Link{Name: v.Name, Index: veth.Attrs().Index}, nil
}

// Link finds an interface by its name.
func (c *Conn) Link(name string) (Link, error) {
	l, err := c.h.LinkByName(name)
	if err != nil {
		return Link{}, fmt.Errorf("find link %s: %w", name, err)
	}
	return Link{Name: name, Index: l.Attrs().Index}, nil
}

// Up switches the link on.
func (c *Conn) Up(l Link) error {
	if err := c.h.LinkSetUp(l.netlink()); err != nil {
		return fmt.Errorf("set link %s up: %w", l.Name, err)
	}
	return nil
}

// WaitUp returns when the link, which is up on both ends, can send. The kernel
// gives the end that came up first its queue only when it gets round to it
// (linkwatch); until then what it sends is lost without an error, and a SYN
// or an answer is a second late. Since Linux 6.8 the question itself settles
// it; before, it takes some milliseconds.
func (c *Conn) WaitUp(l Link) error {
	for range upTries {
		got, err := c.h.LinkByIndex(l.Index)
		if err != nil {
			return fmt.Errorf("find link %s: %w", l.Name, err)
		}
		if got.Attrs().OperState == netlink.OperUp {
			return nil
		}
		<-time.After(upPause)
	}
	return fmt.Errorf("link %s is still down after %s", l.Name, upTries*upPause)
}

const (
	upPause = time.Millisecond
	upTries = 2000
)

// AddAddress gives the link an address and the on-link route of its prefix.
func (c *Conn) AddAddress(l Link, addr netip.Prefix) error {
	a := &netlink.Addr{IPNet: ipNet(addr)}
	if err := c.h.AddrAdd(l.netlink(), a); err != nil {
		return fmt.Errorf("add address %s to link %s: %w", addr, l.Name, err)
	}
	return nil
}

// AddDefaultRoute sends everything without a better route to gateway, through
// the link, which must be up.
func (c *Conn) AddDefaultRoute(l Link, gateway netip.Addr) error {
	r := &netlink.Route{LinkIndex: l.Index, Gw: gateway.AsSlice()}
	if err := c.h.RouteAdd(r); err != nil {
		return fmt.Errorf("add default route by %s: %w", gateway, err)
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// LoopbackUp brings up the loopback link of the calling thread's namespace.
func LoopbackUp() error {
	c, err := Dial()
	if err != nil {
		return err
	}
	defer c.Close()
	return c.Up(Loopback())
}
