package dns

import (
	"encoding/binary"

	"github.com/miekg/dns"
)

const (
	headerSize = 12   // RFC 1035 §4.1.1
	maxQuery   = 1232 // bytes; what EDNS sets as the safe size, far above any question
	plainUDP   = 512  // bytes of an answer by UDP without EDNS (RFC 1035 §2.3.4)
	maxReply   = 8 << 10
	answerTTL  = 30 // seconds; between the 5 and 300 that any answer of ours keeps to
	maxAnswers = 8  // addresses; with the longest name the message stays within plainUDP
)

// query is a question that could be read.
type query struct {
	msg  *dns.Msg
	name string // as sent, in miekg's presentation form: foreign bytes are escaped
	kind uint16
	edns bool // the client speaks EDNS: so does the answer
	most int  // bytes of an answer
}

// readQuery reads a packet. It returns either a query, or the bytes to answer
// with (nil: nothing) when the packet is none. The header's counts are judged
// before anything is unpacked: a packet of 40 bytes can claim 65535 records
// (CVE-2026-82399).
func readQuery(packet []byte, stream bool) (q query, refusal []byte) {
	if len(packet) < headerSize || len(packet) > maxQuery || packet[2]&0x80 != 0 {
		return query{}, nil // too short to answer, too long to be honest, or itself an answer
	}
	if opcode := packet[2] >> 3 & 0xf; opcode != dns.OpcodeQuery {
		return query{}, refuse(packet, dns.RcodeNotImplemented)
	}
	count := func(at int) uint16 { return binary.BigEndian.Uint16(packet[at:]) }
	if count(4) != 1 || count(6) != 0 || count(8) != 0 || count(10) > 1 {
		return query{}, refuse(packet, dns.RcodeFormatError)
	}
	msg := new(dns.Msg)
	if err := msg.Unpack(packet); err != nil || len(msg.Question) != 1 {
		return query{}, refuse(packet, dns.RcodeFormatError)
	}
	if msg.Question[0].Qclass != dns.ClassINET {
		return query{}, refuse(packet, dns.RcodeRefused)
	}
	q = query{msg: msg, name: msg.Question[0].Name, kind: msg.Question[0].Qtype, most: plainUDP}
	if opt := msg.IsEdns0(); opt != nil {
		q.edns, q.most = true, min(max(int(opt.UDPSize()), plainUDP), maxQuery)
		if opt.Version() != 0 {
			return query{}, q.reply(dns.RcodeBadVers) // RFC 6891 §6.1.3
		}
	}
	if stream {
		q.most = maxReply
	}
	return q, nil
}

// refuse makes an answer of a header alone, for packets whose rest cannot be
// trusted.
func refuse(packet []byte, rcode byte) []byte {
	out := make([]byte, headerSize)
	copy(out, packet[:2])
	out[2] = 0x80 | packet[2]&0x79 // an answer; opcode and RD as asked
	out[3] = 0x80 | rcode          // recursion available
	return out
}

// reply packs the answer to a query. It echoes the question as it was asked,
// letter case included (draft-vixie-dnsext-dns0x20), and none of the EDNS
// options: one that came with EDNS gets ours, which is empty. What does not fit
// is left out, and the answer says so (TC).
func (q query) reply(rcode int, records ...dns.RR) []byte {
	m := new(dns.Msg).SetReply(q.msg)
	m.Rcode = rcode
	m.RecursionAvailable = true
	m.Compress = true
	m.Answer = records
	if q.edns {
		m.SetEdns0(maxQuery, false)
	}
	m.Truncate(q.most)
	b, err := m.Pack()
	if err != nil {
		return nil // unreachable for what we put in; the client then asks again
	}
	return b
}
