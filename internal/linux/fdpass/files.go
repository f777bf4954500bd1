package fdpass

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// MaxFiles bounds the files that go with one packet of SendFiles.
const MaxFiles = 8

// PacketPair is a pair of connected sockets for packets with files
// (SOCK_SEQPACKET): close-on-exec, waited for by the runtime's poller.
func PacketPair(name string) (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make socket for packets: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), name), os.NewFile(uintptr(fds[1]), name), nil
}

// SendFiles passes a packet with a payload, which is not empty, and up to
// MaxFiles files over a socket for packets. The caller keeps its own
// descriptors and closes them.
func SendFiles(sock *os.File, payload []byte, files []*os.File) error {
	if len(payload) == 0 || len(files) > MaxFiles {
		return fmt.Errorf("send packet: a payload of %d bytes with %d files", len(payload), len(files))
	}
	fds := make([]int, len(files))
	var err error
	for i, f := range files {
		if fds[i], err = number(f); err != nil {
			return fmt.Errorf("send packet: %w", err)
		}
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	err = onFD(sock, syscall.RawConn.Write, func(fd int) error {
		return unix.Sendmsg(fd, payload, rights, nil, unix.MSG_NOSIGNAL)
	})
	if err != nil {
		return fmt.Errorf("send packet: %w", err)
	}
	return nil
}

// number is a file's descriptor, whose blocking mode stays as it is.
func number(f *os.File) (int, error) {
	n := -1
	err := onFD(f, nil, func(fd int) error { n = fd; return nil })
	return n, err
}

// ReceiveFiles waits for the next packet, of at most limit bytes and MaxFiles
// files, which close on exec. On an error nothing is left open; os.ErrClosed
// is that of a socket whose other end is closed.
func ReceiveFiles(sock *os.File, limit int) (payload []byte, files []*os.File, err error) {
	buf := make([]byte, limit)
	oob := make([]byte, unix.CmsgSpace(4*MaxFiles))
	var n, oobn, flags int
	err = onFD(sock, syscall.RawConn.Read, func(fd int) error {
		var err error
		n, oobn, flags, _, err = unix.Recvmsg(fd, buf, oob, unix.MSG_CMSG_CLOEXEC)
		return err
	})
	if errors.Is(err, unix.ECONNRESET) {
		err = os.ErrClosed // it was closed with something of ours unread
	}
	if err != nil {
		return nil, nil, fmt.Errorf("receive packet: %w", err)
	}
	if oobn > 0 {
		files, err = parseRights(oob[:oobn])
	}
	switch {
	case err != nil:
	case n == 0:
		err = os.ErrClosed
	case flags&(unix.MSG_CTRUNC|unix.MSG_TRUNC) != 0:
		err = errors.New("the packet holds too much")
	default:
		return buf[:n], files, nil
	}
	for _, f := range files {
		err = errors.Join(err, f.Close())
	}
	return nil, nil, fmt.Errorf("receive packet: %w", err)
}
