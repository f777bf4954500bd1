// Package peer tells who is at the other end of a Unix socket (SO_PEERCRED,
// unix(7)): the kernel's word, not the peer's.
package peer

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// UID returns the user id that the peer had when it connected or listened.
func UID(c *net.UnixConn) (int, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return -1, fmt.Errorf("look at peer: %w", err)
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err != nil {
		return -1, fmt.Errorf("look at peer: %w", err)
	}
	if credErr != nil {
		return -1, fmt.Errorf("look at peer: %w", credErr)
	}
	return int(cred.Uid), nil
}
