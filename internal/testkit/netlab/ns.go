package netlab

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// enter makes the namespace, on a thread that ends with it: the descriptor
// keeps it alive.
func (l *Lab) enter() error {
	return onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make network namespace (root is needed): %w", err)
		}
		f, err := os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
		if err != nil {
			return fmt.Errorf("open network namespace: %w", err)
		}
		l.ns = f
		l.onClose(func() {
			l.endProcesses()
			_ = f.Close()
		})
		return nil
	})
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

// do runs f on a thread that is in the lab.
func (l *Lab) do(f func() error) error {
	return onThread(func() error {
		if err := unix.Setns(int(l.ns.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter network namespace: %w", err)
		}
		return f()
	})
}

// onThread runs f on a thread of its own that is never unlocked, so that the
// runtime ends it and no other goroutine can land in the lab by accident.
func onThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		done <- f()
	}()
	return <-done
}

// configureLinks brings up the loopback and an interface that holds the
// public-looking addresses and the default routes: what is sent to any other
// address passes the capture and reaches nobody. It is a veth without address
// resolution, since a dummy interface is not in every kernel and bailey needs
// veth anyway; its peer takes no packet that is not for its hardware address.
func configureLinks() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find lo: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("set lo up: %w", err)
	}
	out := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "lab0"}, PeerName: "lab1"}
	if err := netlink.LinkAdd(out); err != nil {
		return fmt.Errorf("add interface: %w", err)
	}
	peer, err := netlink.LinkByName("lab1")
	if err != nil {
		return fmt.Errorf("find peer interface: %w", err)
	}
	for _, link := range []netlink.Link{out, peer} {
		if err := netlink.LinkSetARPOff(link); err != nil {
			return fmt.Errorf("switch off address resolution: %w", err)
		}
		if err := netlink.LinkSetUp(link); err != nil {
			return fmt.Errorf("set interface up: %w", err)
		}
	}
	for _, a := range []netip.Addr{Own, Allowed, Evil, Resolver, Private, Metadata, Allowed6, Evil6} {
		if err := addAddress(out, a); err != nil {
			return err
		}
	}
	for _, dst := range []string{"0.0.0.0/0", "::/0"} {
		_, all, err := net.ParseCIDR(dst)
		if err != nil {
			return fmt.Errorf("parse %s: %w", dst, err)
		}
		r := &netlink.Route{LinkIndex: out.Attrs().Index, Dst: all, Scope: netlink.SCOPE_UNIVERSE}
		if all.IP.To4() != nil {
			r.Src = net.IP(Own.AsSlice())
			r.Scope = netlink.SCOPE_LINK
		}
		if err := netlink.RouteAdd(r); err != nil {
			return fmt.Errorf("add default route %s: %w", dst, err)
		}
	}
	return nil
}

func addAddress(link netlink.Link, a netip.Addr) error {
	bits := 32
	if a.Is6() {
		bits = 128
	}
	ip := netlink.Addr{IPNet: &net.IPNet{IP: net.IP(a.AsSlice()), Mask: net.CIDRMask(bits, bits)}}
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
