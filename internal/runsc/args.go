package runsc

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// mostArgs bounds the arguments in bytes, mostJoins the descriptors with them.
const (
	mostArgs  = 64 << 10
	mostJoins = 16
)

// ArgsPair returns the two ends of what becomes ArgsFD: packets on a socket.
func ArgsPair() (theirs, ours *os.File, err error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make socket for arguments: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "arguments"), os.NewFile(uintptr(fds[1]), "arguments"), nil
}

// SendArgs hands a waiting runtime its arguments, and the descriptors of the
// cgroup that it is to join.
func SendArgs(to *os.File, args []string, joins []int) error {
	text := strings.Join(args, "\x00")
	if len(text) > mostArgs || len(joins) > mostJoins {
		return errors.New("too many arguments")
	}
	if err := syscall.Sendmsg(int(to.Fd()), []byte(text), syscall.UnixRights(joins...), nil, 0); err != nil {
		return fmt.Errorf("hand over arguments: %w", err)
	}
	return nil
}

// ReceiveArgs waits for SendArgs at ArgsFD.
func ReceiveArgs() (args []string, joins []int, err error) {
	text, oob := make([]byte, mostArgs), make([]byte, syscall.CmsgSpace(mostJoins*4))
	var n, oobn int
	for {
		n, oobn, _, _, err = syscall.Recvmsg(ArgsFD, text, oob, syscall.MSG_CMSG_CLOEXEC)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err = errors.Join(err, syscall.Close(ArgsFD)); err != nil || n == 0 {
		return nil, nil, fmt.Errorf("wait for arguments: %w", errors.Join(err, os.ErrClosed))
	}
	if oobn > 0 {
		messages, err := syscall.ParseSocketControlMessage(oob[:oobn])
		if err != nil {
			return nil, nil, fmt.Errorf("read descriptors: %w", err)
		}
		for i := range messages {
			fds, err := syscall.ParseUnixRights(&messages[i])
			if err != nil {
				return nil, nil, fmt.Errorf("read descriptors: %w", err)
			}
			joins = append(joins, fds...)
		}
	}
	return strings.Split(string(text[:n]), "\x00"), joins, nil
}
