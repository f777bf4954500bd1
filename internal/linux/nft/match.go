package nft

import (
	"fmt"
	"net/netip"

	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Match is one condition of a Rule. Make it with the functions below; the zero
// Match matches everything.
type Match struct {
	text  string
	exprs []expr.Any
}

// reg is the register that every expression here works with.
const reg = 1

// Family is the layer 3 protocol of a packet.
type Family uint8

// The families.
const (
	IPv4 Family = unix.NFPROTO_IPV4
	IPv6 Family = unix.NFPROTO_IPV6
)

// Protocol is the layer 4 protocol of a packet, by its IANA number.
type Protocol uint8

// The protocols that rules name.
const (
	ICMP   Protocol = unix.IPPROTO_ICMP
	TCP    Protocol = unix.IPPROTO_TCP
	UDP    Protocol = unix.IPPROTO_UDP
	ICMPv6 Protocol = unix.IPPROTO_ICMPV6
)

func (f Family) String() string {
	if f == IPv6 {
		return "ipv6"
	}
	return "ipv4"
}

func (p Protocol) String() string {
	switch p {
	case ICMP:
		return "icmp"
	case TCP:
		return "tcp"
	case UDP:
		return "udp"
	case ICMPv6:
		return "ipv6-icmp"
	}
	return fmt.Sprintf("%d", uint8(p))
}

// InInterface matches packets that came in by the named interface.
func InInterface(name string) Match {
	return Match{
		text:  fmt.Sprintf("iifname %q", name),
		exprs: meta(expr.MetaKeyIIFNAME, expr.CmpOpEq, ifname(name)),
	}
}

// NotInInterface matches packets that came in by any other interface.
func NotInInterface(name string) Match {
	return Match{
		text:  fmt.Sprintf("iifname != %q", name),
		exprs: meta(expr.MetaKeyIIFNAME, expr.CmpOpNeq, ifname(name)),
	}
}

// OutInterface matches packets that leave by the named interface.
func OutInterface(name string) Match {
	return Match{
		text:  fmt.Sprintf("oifname %q", name),
		exprs: meta(expr.MetaKeyOIFNAME, expr.CmpOpEq, ifname(name)),
	}
}

// OfFamily matches packets of one layer 3 protocol.
func OfFamily(f Family) Match {
	return Match{
		text:  "meta nfproto " + f.String(),
		exprs: meta(expr.MetaKeyNFPROTO, expr.CmpOpEq, []byte{byte(f)}),
	}
}

// OfProtocol matches packets of one layer 4 protocol. IPv6 extension headers
// are skipped by the kernel.
func OfProtocol(p Protocol) Match {
	return Match{
		text:  "meta l4proto " + p.String(),
		exprs: meta(expr.MetaKeyL4PROTO, expr.CmpOpEq, []byte{byte(p)}),
	}
}

// SourceIsNot matches IPv4 packets from any other address. The rule must
// match family IPv4 before.
func SourceIsNot(a netip.Addr) Match {
	return Match{
		text:  "ip saddr != " + a.String(),
		exprs: payload(expr.PayloadBaseNetworkHeader, ipSource, expr.CmpOpNeq, a.AsSlice()),
	}
}

// DestinationIs matches IPv4 packets to one address. The rule must match
// family IPv4 before.
func DestinationIs(a netip.Addr) Match {
	return Match{
		text:  "ip daddr " + a.String(),
		exprs: payload(expr.PayloadBaseNetworkHeader, ipDestination, expr.CmpOpEq, a.AsSlice()),
	}
}

// DestinationIsLoopback matches IPv4 packets to 127.0.0.0/8. The rule must
// match family IPv4 before.
func DestinationIsLoopback() Match {
	// A prefix of whole bytes needs no mask: the first byte decides.
	return Match{
		text:  "ip daddr 127.0.0.0/8",
		exprs: payload(expr.PayloadBaseNetworkHeader, ipDestination, expr.CmpOpEq, []byte{127}),
	}
}

// DestinationPort matches packets to one port. The rule must match protocol
// TCP or UDP before.
func DestinationPort(port uint16) Match {
	return Match{
		text:  fmt.Sprintf("th dport %d", port),
		exprs: payload(expr.PayloadBaseTransportHeader, portDestination, expr.CmpOpEq, binaryutil.BigEndian.PutUint16(port)),
	}
}

// ICMPType matches packets by the type of the message. The rule must match
// protocol ICMP or ICMPv6 before.
func ICMPType(t uint8) Match {
	return Match{
		text:  fmt.Sprintf("@th,0,8 %d", t),
		exprs: payload(expr.PayloadBaseTransportHeader, icmpType, expr.CmpOpEq, []byte{t}),
	}
}

// ResetOfSYN matches the TCP segment that refuses a connection. The rule must
// match protocol TCP before.
func ResetOfSYN() Match {
	return Match{
		text:  "tcp flags == rst | ack",
		exprs: payload(expr.PayloadBaseTransportHeader, tcpFlags, expr.CmpOpEq, []byte{0x14}),
	}
}

// Established matches packets of a connection that the peer opened, and the
// errors that belong to it.
func Established() Match {
	bits := binaryutil.NativeEndian.PutUint32(expr.CtStateBitESTABLISHED | expr.CtStateBitRELATED)
	zero := binaryutil.NativeEndian.PutUint32(0)
	return Match{
		text: "ct state established,related",
		exprs: []expr.Any{
			&expr.Ct{Key: expr.CtKeySTATE, Register: reg},
			&expr.Bitwise{SourceRegister: reg, DestRegister: reg, Len: 4, Mask: bits, Xor: zero},
			&expr.Cmp{Op: expr.CmpOpNeq, Register: reg, Data: zero},
		},
	}
}

// Offsets in the IPv4 header (RFC 791), the TCP and UDP headers (RFC 9293,
// RFC 768) and the ICMP header (RFC 792).
const (
	ipSource        = 12
	ipDestination   = 16
	portDestination = 2
	tcpFlags        = 13
	icmpType        = 0
)

func meta(key expr.MetaKey, op expr.CmpOp, data []byte) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: key, Register: reg},
		&expr.Cmp{Op: op, Register: reg, Data: data},
	}
}

func payload(base expr.PayloadBase, offset uint32, op expr.CmpOp, data []byte) []expr.Any {
	return []expr.Any{
		&expr.Payload{DestRegister: reg, Base: base, Offset: offset, Len: uint32(len(data))},
		&expr.Cmp{Op: op, Register: reg, Data: data},
	}
}

// ifname pads a name to IFNAMSIZ, which compares it whole, with its end.
func ifname(name string) []byte {
	b := make([]byte, unix.IFNAMSIZ)
	copy(b[:unix.IFNAMSIZ-1], name)
	return b
}
