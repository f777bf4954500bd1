package origdst

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Of returns the address and port the peer of an accepted IPv4 connection had
// asked for (SO_ORIGINAL_DST, linux/netfilter_ipv4.h). For a connection that
// was made to the listener itself it is the listener's own address, or an
// error where conntrack does not know the connection.
func Of(c *net.TCPConn) (netip.AddrPort, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("read original destination: %w", err)
	}
	var dst netip.AddrPort
	var optErr error
	if err := raw.Control(func(fd uintptr) { dst, optErr = ofFD(int(fd)) }); err != nil {
		return netip.AddrPort{}, fmt.Errorf("read original destination: %w", err)
	}
	return dst, optErr
}

func ofFD(fd int) (netip.AddrPort, error) {
	// An IPv6Mreq is the smallest value of x/sys/unix with room for the struct
	// sockaddr_in that the kernel writes: family (2), port (2), address (4).
	m, err := unix.GetsockoptIPv6Mreq(fd, unix.SOL_IP, unix.SO_ORIGINAL_DST)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("read original destination: %w", err)
	}
	sa := m.Multiaddr
	if family := binary.NativeEndian.Uint16(sa[0:2]); family != unix.AF_INET {
		return netip.AddrPort{}, fmt.Errorf("read original destination: address family %d is not IPv4", family)
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte(sa[4:8])), binary.BigEndian.Uint16(sa[2:4])), nil
}
