package netns

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// backlog of pending connections; the kernel lowers it to net.core.somaxconn,
// whose default is the same.
const backlog = 4096

// ListenTCP makes a TCP listener in the calling thread's namespace. The file
// is non-blocking and close-on-exec: net.FileListener takes it, in this or,
// once passed on, in any other process.
func ListenTCP(addr netip.AddrPort) (*os.File, error) {
	fd, err := bound(unix.SOCK_STREAM, addr)
	if err != nil {
		return nil, fmt.Errorf("listen on tcp %s: %w", addr, err)
	}
	if err := unix.Listen(fd, backlog); err != nil {
		return nil, fmt.Errorf("listen on tcp %s: %w", addr, errors.Join(err, unix.Close(fd)))
	}
	return os.NewFile(uintptr(fd), "tcp "+addr.String()), nil
}

// ListenUDP makes a UDP socket in the calling thread's namespace, for
// net.FilePacketConn.
func ListenUDP(addr netip.AddrPort) (*os.File, error) {
	fd, err := bound(unix.SOCK_DGRAM, addr)
	if err != nil {
		return nil, fmt.Errorf("listen on udp %s: %w", addr, err)
	}
	return os.NewFile(uintptr(fd), "udp "+addr.String()), nil
}

func bound(kind int, addr netip.AddrPort) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	sa := &unix.SockaddrInet4{Port: int(addr.Port()), Addr: addr.Addr().As4()}
	if err := unix.Bind(fd, sa); err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}
