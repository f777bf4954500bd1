package proxy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// routes asks the kernel for routes, one question at a time, by one socket. The
// zero value is ready.
type routes struct {
	mu   sync.Mutex
	open bool
	fd   int
	buf  [8 << 10]byte
}

// toSelf asks whether the kernel would deliver a connection to an address on
// this machine itself. That is more than the addresses of its links: 12.0.0.1/8
// on the loopback link answers for all of 12.0.0.0/8, and `ip route add local`
// for any range (ip-route(8), type local). The look-up is the one that
// connect(2) does, and needs no privilege.
func (r *routes) toSelf(a netip.Addr) (bool, error) {
	kind, err := r.kind(a.Unmap())
	switch {
	case isNoRoute(err):
		return false, nil // nor does a connection get anywhere
	case err != nil:
		return false, fmt.Errorf("look up route to %s: %w", a, err)
	}
	return kind == unix.RTN_LOCAL || kind == unix.RTN_ANYCAST, nil
}

// isNoRoute reports whether the kernel's answer is that there is no way there:
// no route, or one of the types unreachable and prohibit. (EINVAL, for the type
// blackhole, would hide a question of ours that is wrong.)
func isNoRoute(err error) bool {
	return errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EHOSTUNREACH) || errors.Is(err, unix.EACCES)
}

// kind returns the type of the route to an address (rtnetlink(7),
// RTM_GETROUTE), or the kernel's refusal as an errno. A socket with which
// something else went wrong is not asked again: an answer may be left in it.
func (r *routes) kind(a netip.Addr) (kind uint8, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.open {
		if r.fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE); err != nil {
			return 0, fmt.Errorf("open routing socket: %w", wrapped{err})
		}
		r.open = true
	}
	answer, err := r.ask(a)
	if err == nil {
		kind, err = readRoute(answer)
	}
	if _, told := errors.AsType[unix.Errno](err); err != nil && !told {
		r.open = false
		_ = unix.Close(r.fd)
	}
	return kind, err
}

// ask returns the kernel's answer, which is there when the system call that
// asks has returned.
func (r *routes) ask(a netip.Addr) ([]byte, error) {
	if err := unix.Sendto(r.fd, routeQuestion(a), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Pad: 0, Pid: 0, Groups: 0}); err != nil {
		return nil, fmt.Errorf("ask for route: %w", wrapped{err})
	}
	n, _, err := unix.Recvfrom(r.fd, r.buf[:], unix.MSG_DONTWAIT)
	if err != nil {
		return nil, fmt.Errorf("read route: %w", wrapped{err})
	}
	return r.buf[:n], nil
}

// wrapped keeps the errno of a system call apart from one that is the
// kernel's answer about a route.
type wrapped struct{ err error }

func (w wrapped) Error() string { return w.err.Error() }

func routeQuestion(a netip.Addr) []byte {
	family, raw := byte(unix.AF_INET), a.AsSlice()
	if a.Is6() {
		family = unix.AF_INET6
	}
	const fixed = unix.SizeofNlMsghdr + unix.SizeofRtMsg
	size := fixed + unix.SizeofRtAttr + len(raw)
	b := make([]byte, 0, size)
	b = binary.NativeEndian.AppendUint32(b, uint32(size))
	b = binary.NativeEndian.AppendUint16(b, unix.RTM_GETROUTE)
	b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST)
	b = append(b, make([]byte, 8)...) // sequence and port: one question at a time
	b = append(b, family, byte(a.BitLen()))
	b = append(b, make([]byte, unix.SizeofRtMsg-2)...)
	b = binary.NativeEndian.AppendUint16(b, uint16(unix.SizeofRtAttr+len(raw)))
	b = binary.NativeEndian.AppendUint16(b, unix.RTA_DST)
	return append(b, raw...)
}

func readRoute(b []byte) (kind uint8, err error) {
	messages, err := syscall.ParseNetlinkMessage(b)
	if err != nil || len(messages) != 1 {
		return 0, errors.New("the kernel's answer about a route cannot be read")
	}
	m := messages[0]
	switch {
	case m.Header.Type == unix.NLMSG_ERROR && len(m.Data) >= 4:
		return 0, unix.Errno(-int32(binary.NativeEndian.Uint32(m.Data)))
	case m.Header.Type == unix.RTM_NEWROUTE && len(m.Data) >= unix.SizeofRtMsg:
		return m.Data[7], nil // rtm_type
	}
	return 0, errors.New("the kernel's answer about a route is none")
}
