package egress

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/bailey-dev/bailey/internal/policy"
)

// Words of SOCKS5 (RFC 1928 §3 to §6) and of its name and password (RFC 1929).
const (
	socksVersion = 5

	socksNoAuth   = 0x00
	socksPassword = 0x02
	socksNoMethod = 0xff

	socksConnect = 1

	socksIPv4 = 1
	socksName = 3
	socksIPv6 = 4

	socksGranted     = 0x00
	socksFailed      = 0x01
	socksNotAllowed  = 0x02
	socksUnreachable = 0x04
	socksBadCommand  = 0x07
	socksBadAddress  = 0x08
)

// enterSOCKS answers a client of SOCKS5.
func (f *flow) enterSOCKS(ctx context.Context, deadline time.Time) bool {
	if !f.greetSOCKS(deadline) {
		return false
	}
	r, err := take(f, deadline, parseSOCKSRequest)
	switch {
	case err != nil:
		f.refuseSOCKS(socksFailed, "the SOCKS request does not end, or is none")
		return false
	case r.command != socksConnect:
		f.refuseSOCKS(socksBadCommand, fmt.Sprintf("the SOCKS command %d is refused: only CONNECT (1) is passed on", r.command))
		return false
	case r.host == "":
		f.refuseSOCKS(socksBadAddress, fmt.Sprintf("the SOCKS request has an address of the type %d, which is none, or an empty one", r.kind))
		return false
	}
	if !f.aim(r.host, r.port) || !f.mayEnter(ctx) {
		f.farewell(socksReply(f.socksCode()))
		return false
	}
	return f.answer(socksReply(socksGranted))
}

// greetSOCKS settles how the client proves who it is: not at all. Whoever
// insists on a name and password is asked for them, and they are thrown away,
// since nothing is decided by what a sandbox says of itself.
func (f *flow) greetSOCKS(deadline time.Time) bool {
	methods, err := take(f, deadline, parseSOCKSMethods)
	switch {
	case err != nil:
		f.refuse(policy.ReasonBadRequest, "the SOCKS greeting does not end, or is none")
		return false
	case slices.Contains(methods, socksNoAuth):
		return f.answer([]byte{socksVersion, socksNoAuth})
	case !slices.Contains(methods, socksPassword):
		f.refuse(policy.ReasonBadRequest, "the SOCKS client offers no way to prove who it is that bailey's proxy takes: none, or name and password")
		f.farewell([]byte{socksVersion, socksNoMethod})
		return false
	}
	if !f.answer([]byte{socksVersion, socksPassword}) {
		return false
	}
	if _, err := take(f, deadline, parseSOCKSPassword); err != nil {
		f.refuse(policy.ReasonBadRequest, "the SOCKS name and password do not end, or are none")
		return false
	}
	return f.answer([]byte{1, 0}) // version of RFC 1929, success
}

func (f *flow) refuseSOCKS(code byte, detail string) {
	f.refuse(policy.ReasonBadRequest, detail)
	f.farewell(socksReply(code))
}

// socksCode is the reply for the flow's refusal (RFC 1928 §6).
func (f *flow) socksCode() byte {
	switch {
	case f.dest.Addr().Is6():
		return socksBadAddress
	case f.decision.Reason == policy.ReasonUnresolved:
		return socksUnreachable
	}
	return socksNotAllowed
}

// socksReply says nothing of the address that the proxy connects from.
func socksReply(code byte) []byte { return []byte{socksVersion, code, 0, socksIPv4, 0, 0, 0, 0, 0, 0} }

// parseSOCKSMethods reads a greeting: VER, NMETHODS, METHODS.
func parseSOCKSMethods(b []byte) (methods []byte, size int, err error) {
	switch {
	case len(b) > 0 && b[0] != socksVersion, len(b) > 1 && b[1] == 0:
		return nil, 0, malformed("not a SOCKS greeting")
	case len(b) < 2 || len(b) < 2+int(b[1]):
		return nil, 0, errShort
	}
	size = 2 + int(b[1])
	return b[2:size], size, nil
}

// parseSOCKSPassword reads VER, ULEN, UNAME, PLEN, PASSWD and keeps nothing.
func parseSOCKSPassword(b []byte) (none struct{}, size int, err error) {
	if len(b) > 0 && b[0] != 1 {
		return none, 0, malformed("not a SOCKS name and password")
	}
	if len(b) < 2 {
		return none, 0, errShort
	}
	at := 2 + int(b[1])
	if len(b) <= at {
		return none, 0, errShort
	}
	size = at + 1 + int(b[at])
	if len(b) < size {
		return none, 0, errShort
	}
	return none, size, nil
}

// socksRequest is a request; host is a name as it was said, an address, or
// empty where there is none that can be read.
type socksRequest struct {
	command, kind byte
	host          string
	port          uint16
}

// parseSOCKSRequest reads VER, CMD, RSV, ATYP, DST.ADDR, DST.PORT.
func parseSOCKSRequest(b []byte) (r socksRequest, size int, err error) {
	const fixed = 4
	if len(b) > 0 && b[0] != socksVersion {
		return r, 0, malformed("not a SOCKS request")
	}
	if len(b) <= fixed { // the byte after is a length, where there is one
		return r, 0, errShort
	}
	r.command, r.kind = b[1], b[3]
	at := fixed
	var length int
	switch r.kind {
	case socksIPv4:
		length = 4
	case socksIPv6:
		length = 16
	case socksName:
		at, length = fixed+1, int(b[fixed])
	default:
		return r, len(b), nil // where it ends nobody knows
	}
	size = at + length + 2
	if len(b) < size {
		return r, 0, errShort
	}
	raw := b[at : at+length]
	r.host, r.port = string(raw), binary.BigEndian.Uint16(b[at+length:])
	if a, ok := netip.AddrFromSlice(raw); ok && r.kind != socksName {
		r.host = a.String()
	}
	return r, size, nil
}
