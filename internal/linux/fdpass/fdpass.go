package fdpass

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// SendListeners sends the three listeners of an airlock in one message: TCP,
// DNS over UDP, DNS over TCP. The caller keeps and closes its own copies.
func SendListeners(sock, tcp, dnsUDP, dnsTCP *os.File) error {
	rights := unix.UnixRights(int(tcp.Fd()), int(dnsUDP.Fd()), int(dnsTCP.Fd()))
	if err := unix.Sendmsg(int(sock.Fd()), []byte{listeners}, rights, nil, unix.MSG_NOSIGNAL); err != nil {
		return fmt.Errorf("send listeners: %w", err)
	}
	return nil
}

// listeners is the one byte that accompanies the descriptors.
const listeners = 'L'

// ReceiveListeners waits for what SendListeners sends. sock must be in
// blocking mode. Descriptors arrive close-on-exec.
func ReceiveListeners(sock *os.File) (tcp, dnsUDP, dnsTCP *os.File, err error) {
	buf := make([]byte, 1)
	oob := make([]byte, unix.CmsgSpace(3*4))
	n, oobn, err := recvmsg(int(sock.Fd()), buf, oob)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("receive listeners: %w", err)
	}
	if n == 0 {
		return nil, nil, nil, errors.New("receive listeners: the other side has gone")
	}
	fds, err := rights(oob[:oobn])
	if err != nil {
		return nil, nil, nil, err
	}
	if len(fds) != 3 || buf[0] != listeners {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
		return nil, nil, nil, fmt.Errorf("receive listeners: %d descriptors, want 3", len(fds))
	}
	return os.NewFile(uintptr(fds[0]), "tcp"), os.NewFile(uintptr(fds[1]), "dns-udp"), os.NewFile(uintptr(fds[2]), "dns-tcp"), nil
}

func recvmsg(fd int, buf, oob []byte) (n, oobn int, err error) {
	for {
		n, oobn, _, _, err = unix.Recvmsg(fd, buf, oob, unix.MSG_CMSG_CLOEXEC)
		if !errors.Is(err, unix.EINTR) {
			return n, oobn, err
		}
	}
}

func rights(oob []byte) ([]int, error) {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("receive descriptors: %w", err)
	}
	var fds []int
	for i := range msgs {
		got, err := unix.ParseUnixRights(&msgs[i])
		if err != nil {
			return nil, fmt.Errorf("receive descriptors: %w", err)
		}
		fds = append(fds, got...)
	}
	return fds, nil
}
