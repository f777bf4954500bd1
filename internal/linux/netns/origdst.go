package netns

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// OriginalDst returns the address that the peer of a redirected TCP connection
// had asked for (SO_ORIGINAL_DST, linux/netfilter_ipv4.h). fd is the accepted
// socket.
func OriginalDst(fd uintptr) (netip.AddrPort, error) {
	// An IPv6Mreq is the smallest value of x/sys/unix that is large enough to
	// hold the struct sockaddr_in which the kernel writes.
	m, err := unix.GetsockoptIPv6Mreq(int(fd), unix.SOL_IP, unix.SO_ORIGINAL_DST)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("read original destination: %w", err)
	}
	sa := m.Multiaddr // sin_family (2), sin_port (2), sin_addr (4)
	port := binary.BigEndian.Uint16(sa[2:4])
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte(sa[4:8])), port), nil
}
