package fdpass

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// MaxPayload bounds what goes with a file, in bytes.
const MaxPayload = 4 << 10

// SendFile passes a packet with a payload, which is not empty, and a file that
// may be nil, over a socket for packets (SOCK_SEQPACKET). The caller keeps its
// own descriptor and closes it.
func SendFile(sock *os.File, payload []byte, f *os.File) error {
	if len(payload) == 0 || len(payload) > MaxPayload {
		return fmt.Errorf("send file: a payload of %d bytes", len(payload))
	}
	var rights []byte
	if f != nil {
		rights = unix.UnixRights(int(f.Fd()))
	}
	err := onFD(sock, syscall.RawConn.Write, func(fd int) error {
		return unix.Sendmsg(fd, payload, rights, nil, unix.MSG_NOSIGNAL)
	})
	if err != nil {
		return fmt.Errorf("send file: %w", err)
	}
	return nil
}

// ReceiveFile waits for the next packet of SendFile. The file, close-on-exec, is
// nil if none came. On an error nothing is left open; os.ErrClosed is one whose
// other end is closed.
func ReceiveFile(sock *os.File) (payload []byte, f *os.File, err error) {
	buf := make([]byte, MaxPayload)
	oob := make([]byte, unix.CmsgSpace(4*4))
	var n, oobn, flags int
	err = onFD(sock, syscall.RawConn.Read, func(fd int) error {
		var err error
		n, oobn, flags, _, err = unix.Recvmsg(fd, buf, oob, unix.MSG_CMSG_CLOEXEC)
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("receive file: %w", err)
	}
	var files []*os.File
	if oobn > 0 {
		files, err = parseRights(oob[:oobn])
	}
	switch {
	case err != nil:
	case n == 0:
		err = os.ErrClosed
	case flags&(unix.MSG_CTRUNC|unix.MSG_TRUNC) != 0 || len(files) > 1:
		err = errors.New("the packet holds too much")
	case len(files) == 1:
		return buf[:n], files[0], nil
	default:
		return buf[:n], nil, nil
	}
	for _, f := range files {
		err = errors.Join(err, f.Close())
	}
	return nil, nil, fmt.Errorf("receive file: %w", err)
}
