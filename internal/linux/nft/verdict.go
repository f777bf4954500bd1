package nft

import (
	"fmt"

	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Verdict is what a Rule does with a packet. The zero Verdict does nothing and
// Apply refuses it.
type Verdict struct {
	text  string
	exprs []expr.Any
}

// Drop throws the packet away without a word.
func Drop() Verdict {
	return Verdict{text: "drop", exprs: []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}}}
}

// Accept ends this chain for the packet; later chains still see it.
func Accept() Verdict {
	return Verdict{text: "accept", exprs: []expr.Any{&expr.Verdict{Kind: expr.VerdictAccept}}}
}

// RejectPort throws the packet away and sends "port unreachable", which a
// connected UDP socket reports as ECONNREFUSED.
func RejectPort() Verdict {
	return reject("port-unreachable", unix.NFT_REJECT_ICMPX_PORT_UNREACH)
}

// RejectProhibited throws the packet away and sends "administratively
// prohibited" (EHOSTUNREACH by IPv4, EACCES by IPv6).
func RejectProhibited() Verdict {
	return reject("admin-prohibited", unix.NFT_REJECT_ICMPX_ADMIN_PROHIBITED)
}

// RejectReset throws a TCP segment away and answers with a reset, which the
// sender's connect reports as ECONNREFUSED. An ICMP error would be lost on it
// where it comes back before connect has let go of the socket, as it does over
// a virtual cable. The rule must match protocol TCP before.
func RejectReset() Verdict {
	return Verdict{text: "reject with tcp reset", exprs: []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_TCP_RST}}}
}

func reject(name string, code uint8) Verdict {
	return Verdict{
		text:  "reject with icmpx " + name,
		exprs: []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_ICMPX_UNREACH, Code: code}},
	}
}

// Redirect changes the destination to the incoming interface's own address and
// the given port. It belongs in a NAT chain; the rule must match protocol TCP
// or UDP before.
func Redirect(port uint16) Verdict {
	return Verdict{
		text: fmt.Sprintf("redirect to :%d", port),
		exprs: []expr.Any{
			&expr.Immediate{Register: reg, Data: binaryutil.BigEndian.PutUint16(port)},
			// The kernel fills in the last two fields if they are missing;
			// written out, they read back as they were set.
			&expr.Redir{RegisterProtoMin: reg, RegisterProtoMax: reg, Flags: unix.NF_NAT_RANGE_PROTO_SPECIFIED},
		},
	}
}
