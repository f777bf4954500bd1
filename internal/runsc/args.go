package runsc

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
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

// SendArgs hands a waiting runtime its arguments, the descriptors of the
// cgroup that it is to join, and what is to be its ModelFD; -1 for nothing.
func SendArgs(to *os.File, args []string, joins []int, model int) error {
	text := strings.Join(append([]string{strconv.Itoa(len(joins))}, args...), "\x00")
	if len(text) > mostArgs || len(joins) > mostJoins {
		return errors.New("too many arguments")
	}
	fds := joins
	if model >= 0 {
		fds = append(slices.Clone(joins), model)
	}
	if err := syscall.Sendmsg(int(to.Fd()), []byte(text), syscall.UnixRights(fds...), nil, 0); err != nil {
		return fmt.Errorf("hand over arguments: %w", err)
	}
	return nil
}

// ReceiveArgs waits for SendArgs at ArgsFD, and puts the wire to the model
// gateway at ModelFD if one came.
func ReceiveArgs() (args []string, joins []int, err error) {
	text, oob := make([]byte, mostArgs), make([]byte, syscall.CmsgSpace((mostJoins+1)*4))
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
	fds, err := descriptors(oob[:oobn])
	if err != nil {
		return nil, nil, err
	}
	args = strings.Split(string(text[:n]), "\x00")
	count, err := strconv.Atoi(args[0])
	if err != nil || count < 0 || count > len(fds) {
		return nil, nil, fmt.Errorf("%q of %d descriptors", args[0], len(fds))
	}
	for _, fd := range fds[count:] {
		if err := errors.Join(syscall.Dup3(fd, ModelFD, 0), syscall.Close(fd)); err != nil {
			return nil, nil, fmt.Errorf("place descriptor: %w", err)
		}
	}
	return args[1:], fds[:count], nil
}

func descriptors(oob []byte) ([]int, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	messages, err := syscall.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("read descriptors: %w", err)
	}
	var out []int
	for i := range messages {
		fds, err := syscall.ParseUnixRights(&messages[i])
		if err != nil {
			return nil, fmt.Errorf("read descriptors: %w", err)
		}
		out = append(out, fds...)
	}
	return out, nil
}
