package dns

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/policy"
)

// asked notes what a Responder would let leave.
type asked struct{ names []string }

func (a *asked) Lookup(_ context.Context, name string) ([]netip.Addr, error) {
	a.names = append(a.names, name)
	return []netip.Addr{netip.AddrFrom4([4]byte{11, 0, 0, 10})}, nil
}

func (a *asked) LookupTXT(_ context.Context, name string) ([]string, error) {
	a.names = append(a.names, name)
	return []string{strings.Repeat("t", 300)}, nil
}

func (a *asked) LookupSRV(_ context.Context, name string) ([]*net.SRV, error) {
	a.names = append(a.names, name)
	return []*net.SRV{{Target: "allow.test.", Port: 993}}, nil
}

func (a *asked) Record(bailey.Event) {}

// FuzzAnswer gives a Responder any packet: whatever it is, no question leaves
// but for the three names of the rules, and the answer is a message of the size
// that its way carries.
func FuzzAnswer(f *testing.F) {
	for _, name := range []string{"allow.test.", "AlLoW.test.", "data.wild.test.", "evil.test.", "_imap._tcp.allow.test.", "_x._tcp.allow.test.", `a\.allow.test.`, "."} {
		for _, kind := range []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeTXT, dns.TypeSRV, dns.TypeANY} {
			m := new(dns.Msg).SetQuestion(name, kind)
			m.SetEdns0(4096, true)
			b, err := m.Pack()
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b, false)
			f.Add(b, true)
		}
	}
	p := policy.Policy{Mode: bailey.NetAllow}
	for _, s := range []string{"allow.test", "*.wild.test"} {
		r, err := policy.ParseRule(s)
		if err == nil && !r.Wildcard {
			r, err = r.With(policy.Narrow{Records: []string{policy.TXT, "_imap._tcp"}})
		}
		if err != nil {
			f.Fatal(err)
		}
		p.Allow = append(p.Allow, r)
	}
	f.Fuzz(func(t *testing.T, packet []byte, stream bool) {
		a := &asked{}
		r := New(Config{Sandbox: "sbx_0123456789abcdef", Rules: policy.NewLive(p), Resolver: a, Recorder: a, Pins: &Pins{}, Now: time.Now})
		reply := r.answer(t.Context(), packet, stream)
		for _, name := range a.names {
			if name != "allow.test" && name != "_imap._tcp.allow.test" {
				t.Errorf("a question about %q left", name)
			}
		}
		if reply == nil {
			return
		}
		if most := map[bool]int{false: maxQuery, true: maxReply}[stream]; len(reply) > most {
			t.Errorf("%d bytes of answer, at most %d", len(reply), most)
		}
		if err := new(dns.Msg).Unpack(reply); err != nil || binary.BigEndian.Uint16(reply) != binary.BigEndian.Uint16(packet) || reply[2]&0x80 == 0 {
			t.Errorf("the answer to %x is none: %x, %v", packet, reply, err)
		}
	})
}
