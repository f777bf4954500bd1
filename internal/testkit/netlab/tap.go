package netlab

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Connection is one attempt seen on the lab's wire, whether or not anything
// listened: for TCP the first packet of the handshake, for anything else the
// first packet of that kind between the two ends.
type Connection struct {
	Proto string         // tcp, udp, icmp, icmp6, or the protocol's number
	From  netip.AddrPort // port 0 where the protocol has none
	To    netip.AddrPort
}

// Question is one DNS question seen on the wire or over TCP, to any server.
type Question struct {
	To   netip.AddrPort // the server that was asked
	Name string         // lower case, with the final dot
	Type string         // A, AAAA, TXT …
}

// tap records what is sent in the namespace, by a packet socket: nothing
// that leaves a program under test can pass without being seen, whatever
// address or port it tries.
type tap struct {
	file *os.File
	done chan struct{}

	mu        sync.Mutex
	seen      map[Connection]struct{}
	conns     []Connection
	lost      uint32 // packets that the capture had no room for
	questions []Question
	marks     map[uint16]chan struct{}
}

const (
	markPort   = 9 // discard; a packet to the resolver's address there is ours
	ipProtoTCP = 6
	ipProtoUDP = 17
)

func (l *Lab) startTap() (*tap, error) {
	var fd int
	err := l.do(func() error {
		var err error
		// Bound to protocol 0 until the filter is on, so that nothing slips
		// in unfiltered (packet(7)).
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open packet socket: %w", err)
		}
		return armTap(fd)
	})
	if err != nil {
		return nil, err
	}
	t := &tap{
		file:  os.NewFile(uintptr(fd), "tap"),
		done:  make(chan struct{}),
		seen:  map[Connection]struct{}{},
		marks: map[uint16]chan struct{}{},
	}
	go t.run()
	l.onClose(func() {
		_ = t.file.Close()
		<-t.done
	})
	return t, nil
}

func armTap(fd int) error {
	prog, err := bpf.Assemble(tapFilter())
	if err != nil {
		return fmt.Errorf("assemble capture filter: %w", err)
	}
	raw := make([]unix.SockFilter, len(prog))
	for i, p := range prog {
		raw[i] = unix.SockFilter{Code: p.Op, Jt: p.Jt, Jf: p.Jf, K: p.K}
	}
	f := unix.SockFprog{Len: uint16(len(raw)), Filter: &raw[0]}
	if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &f); err != nil {
		return fmt.Errorf("attach capture filter: %w", err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20); err != nil {
		return fmt.Errorf("size capture buffer: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ALL)}); err != nil {
		return fmt.Errorf("bind packet socket: %w", err)
	}
	return nil
}

func htons(v uint16) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], v)
	return binary.NativeEndian.Uint16(b[:])
}

// tapFilter passes all IP packets but those of TCP that are not a first SYN:
// a transfer of gigabytes costs the capture nothing. TCP behind an extension
// header of IPv6 passes whole.
func tapFilter() []bpf.Instruction {
	const synAck, syn = 0x12, 0x02
	const v6, drop, keep = 9, 15, 16 // positions in the list
	to := func(target, from int) uint8 { return uint8(target - from - 1) }
	return []bpf.Instruction{
		0:    bpf.LoadAbsolute{Off: 0, Size: 1},
		1:    bpf.ALUOpConstant{Op: bpf.ALUOpShiftRight, Val: 4},
		2:    bpf.JumpIf{Cond: bpf.JumpEqual, Val: 4, SkipFalse: to(v6, 2)},
		3:    bpf.LoadAbsolute{Off: 9, Size: 1},
		4:    bpf.JumpIf{Cond: bpf.JumpEqual, Val: ipProtoTCP, SkipFalse: to(keep, 4)},
		5:    bpf.LoadMemShift{Off: 0},
		6:    bpf.LoadIndirect{Off: 13, Size: 1},
		7:    bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: synAck},
		8:    bpf.JumpIf{Cond: bpf.JumpEqual, Val: syn, SkipTrue: to(keep, 8), SkipFalse: to(drop, 8)},
		v6:   bpf.JumpIf{Cond: bpf.JumpEqual, Val: 6, SkipFalse: to(drop, v6)},
		10:   bpf.LoadAbsolute{Off: 6, Size: 1},
		11:   bpf.JumpIf{Cond: bpf.JumpEqual, Val: ipProtoTCP, SkipFalse: to(keep, 11)},
		12:   bpf.LoadAbsolute{Off: 40 + 13, Size: 1},
		13:   bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: synAck},
		14:   bpf.JumpIf{Cond: bpf.JumpEqual, Val: syn, SkipTrue: to(keep, 14), SkipFalse: to(drop, 14)},
		drop: bpf.RetConstant{Val: 0},
		keep: bpf.RetConstant{Val: 1 << 16},
	}
}

// run reads until the socket is closed.
func (t *tap) run() {
	defer close(t.done)
	buf := make([]byte, 1<<16)
	for {
		n, err := t.file.Read(buf)
		if err != nil {
			return
		}
		t.packet(buf[:n])
	}
}

// packet notes one packet, which starts with its IP header.
func (t *tap) packet(p []byte) {
	c, payload, ok := parsePacket(p)
	if !ok {
		return
	}
	if c.Proto == "udp" && c.To.Port() == markPort && c.To.Addr() == Resolver {
		t.mark(c.From.Port())
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, dup := t.seen[c]; dup && c.Proto != "udp" {
		return // the second sight on the loopback, or a retransmission
	}
	if _, dup := t.seen[c]; !dup {
		t.seen[c] = struct{}{}
		t.conns = append(t.conns, c)
	}
	if c.Proto == "udp" && c.To.Port() == 53 {
		t.noteQuestion(c.To, payload)
	}
}

// noteQuestion must be called with mu held. The same packet is seen twice on
// the loopback, so a question that repeats the last one is the same.
func (t *tap) noteQuestion(to netip.AddrPort, payload []byte) {
	var m dns.Msg
	if m.Unpack(payload) != nil || m.Response || len(m.Question) == 0 {
		return
	}
	q := question(to, m.Question[0])
	if !slices.Contains(t.questions, q) {
		t.questions = append(t.questions, q)
	}
}

func question(to netip.AddrPort, q dns.Question) Question {
	return Question{To: to, Name: dns.CanonicalName(q.Name), Type: dns.TypeToString[q.Qtype]}
}

func (t *tap) mark(port uint16) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ch := t.marks[port]; ch != nil {
		close(ch)
		delete(t.marks, port)
	}
}

// settle waits until everything sent before now has been read: it sends a
// packet of its own and waits to see it.
func (l *Lab) settle() {
	l.tb.Helper()
	pc, err := l.listenMark()
	if err != nil {
		l.tb.Fatalf("netlab: %v", err)
	}
	defer func() { _ = pc.Close() }()
	local, ok := pc.LocalAddr().(*net.UDPAddr)
	if !ok {
		l.tb.Fatalf("netlab: mark socket has no UDP address")
	}
	seen := make(chan struct{})
	l.tap.mu.Lock()
	l.tap.marks[uint16(local.Port)] = seen
	l.tap.mu.Unlock()
	to := net.UDPAddrFromAddrPort(netip.AddrPortFrom(Resolver, markPort))
	if _, err := pc.WriteTo([]byte{0}, to); err != nil {
		l.tb.Fatalf("netlab: send mark: %v", err)
	}
	select {
	case <-seen:
	case <-time.After(10 * time.Second):
		l.tb.Fatal("netlab: the capture did not see its own mark in 10 s")
	}
	if lost, err := l.tap.countLost(); err != nil || lost > 0 {
		l.tb.Fatalf("netlab: the capture lost %d packets, so it proves nothing (%v)", lost, err)
	}
}

// countLost returns how many packets were dropped since the lab began.
func (t *tap) countLost() (uint32, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	raw, err := t.file.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("count lost packets: %w", err)
	}
	var stats *unix.TpacketStats
	var optErr error
	err = raw.Control(func(fd uintptr) {
		stats, optErr = unix.GetsockoptTpacketStats(int(fd), unix.SOL_PACKET, unix.PACKET_STATISTICS)
	})
	if err := errors.Join(err, optErr); err != nil {
		return 0, fmt.Errorf("count lost packets: %w", err)
	}
	t.lost += stats.Drops // reading it sets it back
	return t.lost, nil
}

func (l *Lab) listenMark() (net.PacketConn, error) {
	var pc net.PacketConn
	err := l.do(func() error {
		var err error
		pc, err = net.ListenPacket("udp", netip.AddrPortFrom(Own, 0).String())
		return err
	})
	return pc, err
}

// Connections returns every connection attempt since the lab began, in order,
// to any address and port. Answers (of the lab's DNS server, ICMP errors, echo
// replies) and neighbour discovery are left out.
func (l *Lab) Connections() []Connection {
	l.tb.Helper()
	l.settle()
	l.tap.mu.Lock()
	defer l.tap.mu.Unlock()
	return slices.Clone(l.tap.conns)
}

// ConnectionsTo returns the attempts to one address, any port.
func (l *Lab) ConnectionsTo(a netip.Addr) []Connection {
	l.tb.Helper()
	var out []Connection
	for _, c := range l.Connections() {
		if c.To.Addr() == a {
			out = append(out, c)
		}
	}
	return out
}

// Questions returns the distinct DNS questions since the lab began, to
// whatever server, in order of first sight.
func (l *Lab) Questions() []Question {
	l.tb.Helper()
	l.settle()
	l.tap.mu.Lock()
	defer l.tap.mu.Unlock()
	return slices.Clone(l.tap.questions)
}

// Asked reports whether a name was ever asked for, at any server.
func (l *Lab) Asked(name string) bool {
	l.tb.Helper()
	name = dns.CanonicalName(name)
	return slices.ContainsFunc(l.Questions(), func(q Question) bool { return q.Name == name })
}

// parsePacket reads the addresses and ports of an IP packet and returns its
// UDP payload. It is false for what no test asks about.
func parsePacket(p []byte) (Connection, []byte, bool) {
	if len(p) == 0 {
		return Connection{}, nil, false
	}
	switch p[0] >> 4 {
	case 4:
		hl := int(p[0]&0x0f) * 4
		if len(p) < 20 || len(p) < hl {
			return Connection{}, nil, false
		}
		from, to := netip.AddrFrom4([4]byte(p[12:16])), netip.AddrFrom4([4]byte(p[16:20]))
		return parseTransport(p[9], from, to, p[hl:])
	case 6:
		if len(p) < 40 {
			return Connection{}, nil, false
		}
		from, to := netip.AddrFrom16([16]byte(p[8:24])), netip.AddrFrom16([16]byte(p[24:40]))
		proto, rest := skipExtensions(p[6], p[40:])
		return parseTransport(proto, from, to, rest)
	}
	return Connection{}, nil, false
}

// skipExtensions finds what an IPv6 packet carries behind its extension
// headers (RFC 8200 §4), which anyone can put before TCP.
func skipExtensions(proto byte, p []byte) (byte, []byte) {
	const hopByHop, routing, fragment, destination = 0, 43, 44, 60
	for len(p) >= 8 {
		size := 8 + int(p[1])*8
		switch proto {
		case fragment:
			size = 8
		case hopByHop, routing, destination:
		default:
			return proto, p
		}
		if size > len(p) {
			return proto, p
		}
		proto, p = p[0], p[size:]
	}
	return proto, p
}

func parseTransport(proto byte, from, to netip.Addr, p []byte) (Connection, []byte, bool) {
	const icmp, icmp6 = 1, 58
	c := Connection{From: netip.AddrPortFrom(from, 0), To: netip.AddrPortFrom(to, 0)}
	switch proto {
	case ipProtoTCP, ipProtoUDP:
		if len(p) < 8 {
			return c, nil, false
		}
		sp, dp := binary.BigEndian.Uint16(p[0:]), binary.BigEndian.Uint16(p[2:])
		c.From, c.To = netip.AddrPortFrom(from, sp), netip.AddrPortFrom(to, dp)
		if proto == ipProtoTCP {
			c.Proto = "tcp"
			return c, nil, true
		}
		c.Proto = "udp"
		reply := sp == 53 && from == Resolver
		return c, p[8:], !reply
	case icmp:
		c.Proto = "icmp"
		// 0, 3 and 11 answer what somebody else sent (RFC 792).
		return c, nil, len(p) > 0 && p[0] != 0 && p[0] != 3 && p[0] != 11
	case icmp6:
		c.Proto = "icmp6"
		// Below 128 are errors and 129 is the echo's reply, both answers; 130 to
		// 143 are listener reports and neighbour discovery, which the kernel
		// sends by itself (RFC 4443, RFC 4861, RFC 3810).
		return c, nil, len(p) > 0 && (p[0] == 128 || p[0] > 143)
	}
	c.Proto = fmt.Sprintf("%d", proto)
	return c, nil, true
}
