package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/bailey-dev/bailey/internal/policy"
)

const (
	maxHello     = 64 << 10
	extensionECH = 0xfe0d // encrypted_client_hello, RFC 9849
)

// hello is what a ClientHello says about its destination.
type hello struct {
	serverName string
	ech        bool
}

// serveTLS judges a TLS connection by its server name. Where rules want to see
// inside it is opened; any other is passed on untouched, as long as it stays
// with that name.
func (f *flow) serveTLS(ctx context.Context) {
	f.protocol = policy.ProtocolTLS
	h, size, err := f.readHello(ctx)
	if err != nil {
		f.refuse(policy.ReasonBadTLS, "the TLS ClientHello cannot be read: "+printable(err.Error()))
		return
	}
	named := f.nameTLS(h)
	if f.p.rules.Opens(f.request()) && (named || f.decision.Reason == policy.ReasonSealed) {
		f.serveOpened(ctx)
		return
	}
	if !named {
		return
	}
	if h.ech && f.p.rules.Policy().Mode.ByList() {
		f.refuse(policy.ReasonECH, fmt.Sprintf("the TLS connection to %s carries encrypted_client_hello, which can hide another name; switch it off in the client (Chromium: policy EncryptedClientHelloEnabled, Firefox: DisableEncryptedClientHello), or have TLS to it opened (inspect: true in its rule)", f.host))
		return
	}
	f.splice(ctx, newHelloScreen(ctx, h, size))
}

// nameTLS takes the server name for the host. Without one only a rule for the
// address itself helps; a name from our DNS would let a client reach any host
// that shares the address.
func (f *flow) nameTLS(h hello) bool {
	if h.serverName == "" {
		if f.identify(false) {
			return true
		}
		switch f.decision.Reason {
		case policy.ReasonNotAllowed, policy.ReasonPortNotAllowed, policy.ReasonNoName:
			f.refuse(policy.ReasonNoName, "the TLS connection names no host (no SNI): "+f.decision.Detail)
		}
		return false
	}
	name, err := policy.NormalizeName(h.serverName)
	if err != nil {
		f.host = printable(h.serverName)
		f.refuse(policy.ReasonInvalidName, err.Error())
		return false
	}
	f.host, f.spoken = name, true
	return f.sameAsTunnel() && f.decide()
}

// errPeeked ends the handshake once the ClientHello is known.
var errPeeked = errors.New("peeked")

// readHello reads the connection until the ClientHello is whole, in whatever
// records and segments it comes. All that was read stays in f.head, of which
// the hello's records are the first size bytes.
func (f *flow) readHello(ctx context.Context) (h hello, size int, err error) {
	deadline := f.p.cfg.Now().Add(sniffTimeout)
	if err := f.down.SetReadDeadline(deadline); err != nil {
		return hello{}, 0, err
	}
	h, err = parseHello(ctx, &peek{f: f})
	if err != nil {
		return hello{}, 0, err
	}
	size, err = helloSize(f.head)
	return h, size, err
}

// parseHello lets crypto/tls read a ClientHello, and stops it there.
func parseHello(ctx context.Context, from io.Reader) (hello, error) {
	var got *hello
	config := &tls.Config{ // nothing is negotiated here, so no version is too old
		GetConfigForClient: func(info *tls.ClientHelloInfo) (*tls.Config, error) {
			got = &hello{info.ServerName, slices.Contains(info.Extensions, extensionECH)}
			return nil, errPeeked
		},
	}
	err := tls.Server(mute{Reader: from}, config).HandshakeContext(ctx)
	if got != nil {
		return *got, nil
	}
	if err == nil {
		err = errors.New("no ClientHello")
	}
	return hello{}, err
}

// peek shows what was read of a connection already, then reads more, which it
// keeps.
type peek struct {
	f    *flow
	read int // bytes of f.head that were shown
}

func (c *peek) Read(b []byte) (int, error) {
	if c.read == len(c.f.head) {
		if len(c.f.head) >= maxHello {
			return 0, fmt.Errorf("more than %d bytes", maxHello)
		}
		n, err := c.f.down.Read(b)
		c.f.head = append(c.f.head, b[:n]...)
		c.read += n
		return n, err
	}
	n := copy(b, c.f.head[c.read:])
	c.read += n
	return n, nil
}

// mute makes a connection of a reader for crypto/tls: what is written is
// thrown away, so that no alert of ours reaches the client in the middle of
// somebody else's handshake.
type mute struct{ io.Reader }

func (mute) Write(b []byte) (int, error)      { return len(b), nil }
func (mute) Close() error                     { return nil }
func (mute) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (mute) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (mute) SetDeadline(time.Time) error      { return nil }
func (mute) SetReadDeadline(time.Time) error  { return nil }
func (mute) SetWriteDeadline(time.Time) error { return nil }
