package netlab

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey/internal/linux/netns"
	"github.com/bailey-dev/bailey/internal/linux/thread"
)

// gateway4 and gateway6 are the world's end of the link: the way to every
// address that is not the host's own.
var (
	gateway4 = netip.MustParseAddr("11.0.0.254")
	gateway6 = netip.MustParseAddr("2600:11::fe")
)

// enter makes the two namespaces: the host, where commands run, and the world,
// where the servers are. Their descriptors keep them alive.
func (l *Lab) enter() error {
	var err error
	if l.world, err = l.newNamespace(); err != nil {
		return err
	}
	if l.ns, err = l.newNamespace(); err != nil {
		return err
	}
	l.onClose(l.endProcesses)
	if err := l.do(func() error { return configureHost(l.world) }); err != nil {
		return fmt.Errorf("configure host side: %w", err)
	}
	if err := onThread(l.world, configureWorld); err != nil {
		return fmt.Errorf("configure world side: %w", err)
	}
	if err := l.do(meet); err != nil {
		return fmt.Errorf("configure host side: %w", err)
	}
	return nil
}

// newNamespace makes a network namespace.
func (l *Lab) newNamespace() (f *os.File, err error) {
	if err := thread.Run(func() (err error) { f, err = netns.New(); return err }); err != nil {
		return nil, fmt.Errorf("%w (root is needed)", err)
	}
	l.onClose(func() { _ = f.Close() })
	return f, nil
}

// endProcesses ends what was started in the lab and left running, such as the
// background server of an agent. Nobody else's process is in the namespace.
func (l *Lab) endProcesses() {
	own, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", l.ns.Fd()))
	if err != nil {
		return
	}
	procs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return
	}
	for _, p := range procs {
		pid, err := strconv.Atoi(filepath.Base(p))
		if err != nil || pid == os.Getpid() {
			continue
		}
		if ns, err := os.Readlink(p + "/ns/net"); err == nil && ns == own {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

// do runs f on a thread that is on the host side.
func (l *Lab) do(f func() error) error { return onThread(l.ns, f) }

// doFor runs f on a thread that is where the address is: on the host side for
// the loopback and the host's own addresses, else in the world.
func (l *Lab) doFor(a netip.Addr, f func() error) error {
	if a.IsLoopback() || a == Own || a == Own6 {
		return onThread(l.ns, f)
	}
	return onThread(l.world, f)
}

// onThread runs f on a thread of its own in a namespace.
func onThread(ns *os.File, f func() error) error {
	return thread.Run(func() error {
		if err := netns.Enter(ns); err != nil {
			return err
		}
		return f()
	})
}

// configureHost makes the link, a veth since bailey needs those anyway, and
// sends one end to the world. What the host sends to any address goes over
// it: past the capture, and to a server of the world or to nobody.
func configureHost(world *os.File) error {
	c, err := netns.Dial()
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.AddVeth(netns.Veth{Name: "lab0", PeerName: "lab1", PeerNS: world, MTU: 1500}); err != nil {
		return err
	}
	return bringUp("lab0", Own, Own6)
}

func configureWorld() error {
	all := []netip.Addr{gateway4, gateway6, Allowed, Evil, Resolver, Private, Metadata, Allowed6, Evil6}
	if err := bringUp("lab1", all...); err != nil {
		return err
	}
	for _, a := range []netip.Addr{Own, Own6} {
		if err := addRoute("lab1", netip.PrefixFrom(a, a.BitLen()), netip.Addr{}); err != nil {
			return err
		}
	}
	return nil
}

// meet adds the routes to the world, once its end is up.
func meet() error {
	for _, gw := range []netip.Addr{gateway4, gateway6} {
		if err := addRoute("lab0", netip.PrefixFrom(gw, gw.BitLen()), netip.Addr{}); err != nil {
			return err
		}
		if err := addRoute("lab0", netip.PrefixFrom(unspecified(gw), 0), gw); err != nil {
			return err
		}
	}
	return nil
}

func unspecified(like netip.Addr) netip.Addr {
	if like.Is4() {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

// bringUp sets the loopback and a link up and gives the link its addresses.
func bringUp(name string, addrs ...netip.Addr) error {
	c, err := netns.Dial()
	if err != nil {
		return err
	}
	defer c.Close()
	own, err := c.Link(name)
	if err != nil {
		return err
	}
	if err := errors.Join(c.Up(netns.Loopback()), c.Up(own)); err != nil {
		return err
	}
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find %s: %w", name, err)
	}
	for _, a := range addrs {
		if err := addAddress(link, a); err != nil {
			return err
		}
	}
	return nil
}

func addAddress(link netlink.Link, a netip.Addr) error {
	ip := netlink.Addr{IPNet: ipNet(netip.PrefixFrom(a, a.BitLen()))}
	if a.Is6() {
		ip.Flags = unix.IFA_F_NODAD // usable at once, no duplicate address detection
	}
	err := netlink.AddrAdd(link, &ip)
	if a.Is6() && (errors.Is(err, unix.EACCES) || errors.Is(err, unix.EOPNOTSUPP)) {
		return fmt.Errorf("add address %s (IPv6 is switched off on this machine): %w", a, err)
	}
	if err != nil {
		return fmt.Errorf("add address %s: %w", a, err)
	}
	return nil
}

// addRoute sends a prefix over a link, through a gateway if one is given.
func addRoute(name string, dst netip.Prefix, via netip.Addr) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find %s: %w", name, err)
	}
	r := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(dst), Scope: netlink.SCOPE_LINK}
	if via.IsValid() {
		r.Gw, r.Scope = net.IP(via.AsSlice()), netlink.SCOPE_UNIVERSE
	}
	if dst.Addr().Is6() {
		r.Scope = netlink.SCOPE_UNIVERSE
	}
	if err := netlink.RouteAdd(r); err != nil {
		return fmt.Errorf("add route to %s: %w", dst, err)
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: net.IP(p.Addr().AsSlice()), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
