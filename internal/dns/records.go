package dns

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/miekg/dns"

	"github.com/bailey-dev/bailey/internal/policy"
)

// Bounds of records that are not addresses.
const (
	maxOther     = 32      // records of one answer
	maxOtherData = 4 << 10 // bytes of their data together
	maxText      = 255     // bytes of one string of a TXT record (RFC 1035 §3.3)
)

// LookupTXT returns the TXT records of a normalised name, the strings of each
// joined; at most maxOther of them. The error wraps policy.ErrNoAddress where
// there are none.
func (r *HostResolver) LookupTXT(ctx context.Context, name string) ([]string, error) {
	l, err := r.look(ctx, inquiry{dns.TypeTXT, name})
	if err != nil {
		return nil, err
	}
	return l.texts, nil
}

// LookupSRV returns the SRV records of a name such as _imap._tcp.example.com;
// at most maxOther of them. The error is as LookupTXT's.
func (r *HostResolver) LookupSRV(ctx context.Context, name string) ([]*net.SRV, error) {
	l, err := r.look(ctx, inquiry{dns.TypeSRV, name})
	if err != nil {
		return nil, err
	}
	return l.services, nil
}

func lookupTXT(ctx context.Context, name string) ([]string, error) {
	list, err := resolver().LookupTXT(ctx, name+".")
	return list[:min(len(list), maxOther)], foundNothing(name, len(list), err)
}

func lookupSRV(ctx context.Context, name string) ([]*net.SRV, error) {
	_, list, err := resolver().LookupSRV(ctx, "", "", name+".")
	return list[:min(len(list), maxOther)], foundNothing(name, len(list), err)
}

// foundNothing is the error of a look-up that found n records; some that are
// good are enough.
func foundNothing(name string, n int, err error) error {
	if n > 0 {
		return nil
	}
	if e, ok := errors.AsType[*net.DNSError](err); err == nil || ok && e.IsNotFound {
		return fmt.Errorf("look up %s: %w", name, policy.ErrNoAddress)
	}
	return fmt.Errorf("look up %s: %w", name, err)
}

// textRecords puts texts under the name of a question, in strings of a length
// that a record can hold.
func (q query) textRecords(texts []string) []dns.RR {
	var out []dns.RR
	size := 0
	for _, t := range texts {
		if size += len(t); size > maxOtherData {
			break
		}
		rr := &dns.TXT{Hdr: q.header(dns.TypeTXT)}
		for len(t) > maxText {
			rr.Txt, t = append(rr.Txt, escape(t[:maxText])), t[maxText:]
		}
		rr.Txt = append(rr.Txt, escape(t))
		out = append(out, rr)
	}
	return out
}

// escape writes bytes as miekg's presentation form of a string, which Pack
// reads back.
func escape(s string) string {
	out := make([]byte, 0, len(s))
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '\\' || c == '"' {
			out = fmt.Appendf(out, `\%03d`, c)
		} else {
			out = append(out, c)
		}
	}
	return string(out)
}

// serviceRecords puts services under the name of a question.
func (q query) serviceRecords(list []*net.SRV) []dns.RR {
	var out []dns.RR
	for _, s := range list {
		out = append(out, &dns.SRV{Hdr: q.header(dns.TypeSRV), Priority: s.Priority, Weight: s.Weight, Port: s.Port, Target: dns.Fqdn(s.Target)})
	}
	return out
}

func (q query) header(kind uint16) dns.RR_Header {
	return dns.RR_Header{Name: q.name, Rrtype: kind, Class: dns.ClassINET, Ttl: answerTTL, Rdlength: 0}
}
