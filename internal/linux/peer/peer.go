// Package peer tells who is at the other end of a Unix socket (SO_PEERCRED,
// unix(7)): the kernel's word, not the peer's.
package peer

import (
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// UID returns the user id that the peer had when it connected or listened.
func UID(c *net.UnixConn) (int, error) {
	cred, err := credentials(c)
	if err != nil {
		return -1, err
	}
	return int(cred.Uid), nil
}

// PID returns the process id that the peer had when it connected or listened.
// It is 0 for a process that cannot be seen from here.
func PID(c *net.UnixConn) (int, error) {
	cred, err := credentials(c)
	if err != nil {
		return 0, err
	}
	return int(cred.Pid), nil
}

func credentials(c *net.UnixConn) (*unix.Ucred, error) {
	var cred *unix.Ucred
	err := look(c, func(fd int) (err error) {
		cred, err = unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		return err
	})
	return cred, err
}

// Gone reports whether the peer has closed its end and all that it sent was
// read.
func Gone(c *net.UnixConn) bool {
	n, one := 0, make([]byte, 1)
	err := look(c, func(fd int) (err error) {
		n, _, err = unix.Recvfrom(fd, one, unix.MSG_PEEK|unix.MSG_DONTWAIT)
		return err
	})
	if errors.Is(err, unix.EAGAIN) {
		return false
	}
	return err != nil || n == 0
}

// look has f look at the socket.
func look(c *net.UnixConn, f func(fd int) error) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return fmt.Errorf("look at peer: %w", err)
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = f(int(fd)) }); err != nil {
		return fmt.Errorf("look at peer: %w", err)
	}
	if failed != nil {
		return fmt.Errorf("look at peer: %w", failed)
	}
	return nil
}
