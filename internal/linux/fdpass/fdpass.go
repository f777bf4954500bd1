package fdpass

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Listeners are the sockets of one airlock.
type Listeners struct {
	TCP    *os.File // listening; everything TCP but port 53 ends here
	DNSUDP *os.File // bound
	DNSTCP *os.File // listening
}

// Close closes what is open.
func (l Listeners) Close() error {
	var errs []error
	for _, f := range []*os.File{l.TCP, l.DNSUDP, l.DNSTCP} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// SendListeners passes the three sockets over sock in one message with a
// payload of one byte. The caller keeps its own descriptors and closes them.
func SendListeners(sock, tcp, dnsUDP, dnsTCP *os.File) error {
	var fds []int
	for _, f := range []*os.File{tcp, dnsUDP, dnsTCP} {
		fds = append(fds, int(f.Fd()))
	}
	rights := unix.UnixRights(fds...)
	err := onFD(sock, syscall.RawConn.Write, func(fd int) error {
		return unix.Sendmsg(fd, []byte{0}, rights, nil, unix.MSG_NOSIGNAL)
	})
	if err != nil {
		return fmt.Errorf("send listeners: %w", err)
	}
	return nil
}

// ReceiveListeners waits for the message of SendListeners and takes the three
// sockets out of it, close-on-exec. It checks that each is what its place
// says. On an error nothing is left open. A peer that closed without sending
// is io.EOF's equivalent: an error that says so.
func ReceiveListeners(sock *os.File) (Listeners, error) {
	files, err := receive(sock)
	if err != nil {
		return Listeners{}, fmt.Errorf("receive listeners: %w", err)
	}
	l := Listeners{TCP: files[0], DNSUDP: files[1], DNSTCP: files[2]}
	for i, want := range []socketKind{{unix.SOCK_STREAM, true}, {unix.SOCK_DGRAM, false}, {unix.SOCK_STREAM, true}} {
		if err := want.check(files[i]); err != nil {
			return Listeners{}, fmt.Errorf("receive listeners: descriptor %d: %w", i, errors.Join(err, l.Close()))
		}
	}
	return l, nil
}

func receive(sock *os.File) ([]*os.File, error) {
	const count = 3
	var payload [1]byte
	// Room for more than is wanted: a message with too many is then seen as
	// such and its descriptors are closed, not silently cut off.
	oob := make([]byte, unix.CmsgSpace(4*16))
	var n, oobn, flags int
	err := onFD(sock, syscall.RawConn.Read, func(fd int) error {
		var err error
		n, oobn, flags, _, err = unix.Recvmsg(fd, payload[:], oob, unix.MSG_CMSG_CLOEXEC)
		return err
	})
	if err != nil {
		return nil, err
	}
	files, err := parseRights(oob[:oobn])
	switch {
	case err != nil:
	case n == 0:
		err = errors.New("the peer closed the socket first")
	case flags&unix.MSG_CTRUNC != 0:
		err = errors.New("the message holds too much")
	case len(files) != count:
		err = fmt.Errorf("the message holds %d descriptors, not %d", len(files), count)
	default:
		return files, nil
	}
	for _, f := range files {
		err = errors.Join(err, f.Close())
	}
	return nil, err
}

func parseRights(oob []byte) ([]*os.File, error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	var files []*os.File
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			continue // another kind of message holds no descriptor to close
		}
		for _, fd := range fds {
			// Non-blocking before os.NewFile looks, so that the runtime's
			// poller takes it.
			if err := unix.SetNonblock(fd, true); err != nil {
				return files, errors.Join(err, unix.Close(fd))
			}
			files = append(files, os.NewFile(uintptr(fd), "listener"))
		}
	}
	return files, nil
}

type socketKind struct {
	kind      int
	listening bool
}

func (k socketKind) check(f *os.File) error {
	return onFD(f, nil, func(fd int) error {
		kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
		if err != nil {
			return err
		}
		listening, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
		if err != nil {
			return err
		}
		if kind != k.kind || (listening == 1) != k.listening {
			return fmt.Errorf("socket type %d, listening %d: not the socket that belongs here", kind, listening)
		}
		return nil
	})
}

// onFD runs f on the descriptor, waiting for readiness by wait where the file
// is in the poller, without changing its blocking mode as File.Fd would. A nil
// wait is for calls that never block.
func onFD(file *os.File, wait func(syscall.RawConn, func(uintptr) bool) error, f func(fd int) error) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if wait == nil {
		if err := raw.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
			return err
		}
		return inner
	}
	err = wait(raw, func(fd uintptr) bool {
		inner = f(int(fd))
		return !errors.Is(inner, unix.EAGAIN) && !errors.Is(inner, unix.EINTR)
	})
	if err != nil {
		return err
	}
	return inner
}
