package proxy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// routesToSelf asks the kernel whether it would deliver a connection to an
// address on this machine itself. That is more than the addresses of its
// links: 12.0.0.1/8 on the loopback link answers for all of 12.0.0.0/8, and
// `ip route add local` for any range (ip-route(8), type local). The look-up is
// the one that connect(2) does, and needs no privilege.
func routesToSelf(a netip.Addr) (bool, error) {
	kind, err := routeType(a.Unmap())
	switch {
	case isNoRoute(err):
		return false, nil // nor does a connection get anywhere
	case err != nil:
		return false, fmt.Errorf("look up route to %s: %w", a, err)
	}
	return kind == unix.RTN_LOCAL || kind == unix.RTN_ANYCAST, nil
}

// isNoRoute reports whether the kernel's answer is that there is no way there:
// no route, or one of the types unreachable and prohibit. (EINVAL, for the type
// blackhole, would hide a question of ours that is wrong.)
func isNoRoute(err error) bool {
	return errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EHOSTUNREACH) || errors.Is(err, unix.EACCES)
}

// routeType returns the type of the route to an address (rtnetlink(7),
// RTM_GETROUTE), or the kernel's refusal as an errno.
func routeType(a netip.Addr) (kind uint8, err error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return 0, fmt.Errorf("open routing socket: %w", wrapped{err})
	}
	defer func() { _ = unix.Close(fd) }()
	// The kernel answers within the system call that asks.
	if err := unix.Sendto(fd, routeQuestion(a), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Pad: 0, Pid: 0, Groups: 0}); err != nil {
		return 0, fmt.Errorf("ask for route: %w", wrapped{err})
	}
	buf := make([]byte, 8<<10)
	n, _, err := unix.Recvfrom(fd, buf, unix.MSG_DONTWAIT)
	if err != nil {
		return 0, fmt.Errorf("read route: %w", wrapped{err})
	}
	return readRoute(buf[:n])
}

// wrapped keeps the errno of a system call apart from one that is the
// kernel's answer about a route.
type wrapped struct{ err error }

func (w wrapped) Error() string { return w.err.Error() }

func routeQuestion(a netip.Addr) []byte {
	family, raw := byte(unix.AF_INET), a.AsSlice()
	if a.Is6() {
		family = unix.AF_INET6
	}
	const fixed = unix.SizeofNlMsghdr + unix.SizeofRtMsg
	size := fixed + unix.SizeofRtAttr + len(raw)
	b := make([]byte, 0, size)
	b = binary.NativeEndian.AppendUint32(b, uint32(size))
	b = binary.NativeEndian.AppendUint16(b, unix.RTM_GETROUTE)
	b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST)
	b = append(b, make([]byte, 8)...) // sequence and port: one question a socket
	b = append(b, family, byte(a.BitLen()))
	b = append(b, make([]byte, unix.SizeofRtMsg-2)...)
	b = binary.NativeEndian.AppendUint16(b, uint16(unix.SizeofRtAttr+len(raw)))
	b = binary.NativeEndian.AppendUint16(b, unix.RTA_DST)
	return append(b, raw...)
}

func readRoute(b []byte) (kind uint8, err error) {
	messages, err := syscall.ParseNetlinkMessage(b)
	if err != nil || len(messages) != 1 {
		return 0, errors.New("the kernel's answer about a route cannot be read")
	}
	m := messages[0]
	switch {
	case m.Header.Type == unix.NLMSG_ERROR && len(m.Data) >= 4:
		return 0, unix.Errno(-int32(binary.NativeEndian.Uint32(m.Data)))
	case m.Header.Type == unix.RTM_NEWROUTE && len(m.Data) >= unix.SizeofRtMsg:
		return m.Data[7], nil // rtm_type
	}
	return 0, errors.New("the kernel's answer about a route is none")
}
