package airlock_test

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey/internal/airlock"
	"github.com/bailey-dev/bailey/internal/linux/netns"
)

// IPv6 is off on both ends. These tests put it on, as a sandbox with a network
// stack of its own or a kernel that forgets the setting might, and show that
// the rules are a second layer.

var (
	sixS = netip.MustParsePrefix("fd00::2/64")
	sixR = netip.MustParsePrefix("fd00::1/64")
)

// sixOn gives both ends IPv6 addresses and tells each the other's, so that
// nothing is left to neighbour discovery, which the rules refuse.
func sixOn(t *testing.T, l *airlock.Lock) {
	t.Helper()
	var s, r net.HardwareAddr
	in := func(where func(*testing.T, *airlock.Lock, func() error), fn func() error) {
		t.Helper()
		where(t, l, fn)
	}
	atS := func(t *testing.T, l *airlock.Lock, fn func() error) { t.Helper(); inside(t, l, fn) }
	in(atS, func() (err error) { s, err = sixAddress(airlock.SandboxLink, sixS); return err })
	in(inRouter, func() (err error) { r, err = sixAddress(airlock.RouterLink, sixR); return err })
	in(atS, func() error { return sixNeighbour(airlock.SandboxLink, sixR.Addr(), r) })
	in(inRouter, func() error { return sixNeighbour(airlock.RouterLink, sixS.Addr(), s) })
}

func sixAddress(name string, addr netip.Prefix) (net.HardwareAddr, error) {
	dir := "ipv6/conf/" + name + "/"
	err := netns.SetSysctls([]netns.Sysctl{{Key: dir + "accept_dad", Value: "0"}, {Key: dir + "disable_ipv6", Value: "0"}})
	if err != nil {
		return nil, err
	}
	link, err := netlink.LinkByName(name)
	if err != nil {
		return nil, err
	}
	c, err := netns.Dial()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := c.AddAddress(netns.Link{Name: name, Index: link.Attrs().Index}, addr); err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(5 * time.Second); ; { // until the address is in use
		list, err := netlink.AddrList(link, netlink.FAMILY_V6)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(list, func(a netlink.Addr) bool { return a.Flags&unix.IFA_F_TENTATIVE != 0 }) {
			return link.Attrs().HardwareAddr, nil
		}
		if time.Now().After(deadline) {
			return nil, errors.New("address stays tentative")
		}
	}
}

func sixNeighbour(name string, addr netip.Addr, mac net.HardwareAddr) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	return netlink.NeighAdd(&netlink.Neigh{
		LinkIndex: link.Attrs().Index, IP: addr.AsSlice(), HardwareAddr: mac, State: netlink.NUD_PERMANENT,
	})
}

// sixTry connects by TCP and by UDP, where it also waits for an answer.
func sixTry(l *airlock.Lock, network, to string) error {
	return tryInside(l, func() error {
		c, err := net.DialTimeout(network, to, 2*atOnce)
		if err != nil {
			return err
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(2 * atOnce)); err != nil {
			return err
		}
		if _, err := c.Write([]byte("x")); err != nil {
			return err
		}
		_, err = c.Read(make([]byte, 1))
		return err
	})
}

func TestIPv6_PutOnAgain_IsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	l := build(t)
	p := serve(t, l)
	sixOn(t, l)
	for network, want := range map[string]syscall.Errno{"tcp6": syscall.ECONNREFUSED, "udp6": syscall.EACCES} {
		for _, port := range []string{"53", "443", "15001"} {
			start := time.Now()
			err := sixTry(l, network, net.JoinHostPort(sixR.Addr().String(), port))
			if took := time.Since(start); !errors.Is(err, want) || took > atOnce {
				t.Errorf("%s port %s: %v after %s, want %v at once", network, port, err, took, want)
			}
		}
	}
	p.nothing(t)
}

func TestTwin_WithoutIPv6Rule_ItIsSilent(t *testing.T) {
	t.Parallel()
	l := without(t, "guard", "meta nfproto ipv6 reject with icmpx admin-prohibited")
	sixOn(t, l)
	err := sixTry(l, "udp6", net.JoinHostPort(sixR.Addr().String(), "443"))
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v, want a time-out", err)
	}
}
