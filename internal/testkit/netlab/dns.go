package netlab

import (
	"net/netip"
	"slices"
	"sync"

	"github.com/miekg/dns"
)

// zone is what the lab's DNS server answers.
type zone struct {
	mu    sync.Mutex
	names map[string][]netip.Addr
	alias map[string]string
	other map[string][]dns.RR // records that are not addresses, by owner
}

func newZone() *zone {
	z := &zone{names: map[string][]netip.Addr{}, alias: map[string]string{}, other: map[string][]dns.RR{}}
	for name, addrs := range map[string][]netip.Addr{
		"allow.test":               {Allowed},
		"www.allow.test":           {Allowed},
		"model.test":               {Allowed},
		"api.anthropic.com":        {Allowed},
		"api.openai.com":           {Allowed},
		"evil.test":                {Evil},
		"six.test":                 {Allowed6},
		"private.test":             {Private},
		"loop.test":                {Loopback4, Loopback6},
		"metadata.google.internal": {Metadata},
	} {
		z.names[dns.Fqdn(name)] = addrs
	}
	return z
}

// Name makes the lab's DNS answer a name with addresses, or with NXDOMAIN if
// there are none. It may be called at any time, so a name can be rebound
// between two questions.
func (l *Lab) Name(name string, addrs ...netip.Addr) {
	l.dns.mu.Lock()
	defer l.dns.mu.Unlock()
	l.dns.names[dns.CanonicalName(name)] = slices.Clone(addrs)
}

// Alias makes the lab's DNS answer a name with a CNAME and, if the target is
// a name of the lab, its addresses.
func (l *Lab) Alias(name, target string) {
	l.dns.mu.Lock()
	defer l.dns.mu.Unlock()
	l.dns.alias[dns.CanonicalName(name)] = dns.CanonicalName(target)
}

// Record adds a record that is no address, in the form of a zone file.
func (l *Lab) Record(text string) {
	l.tb.Helper()
	rr, err := dns.NewRR(text)
	if err != nil {
		l.tb.Fatalf("netlab: %v", err)
	}
	l.dns.mu.Lock()
	defer l.dns.mu.Unlock()
	name := dns.CanonicalName(rr.Header().Name)
	l.dns.other[name] = append(l.dns.other[name], rr)
}

// answer fills in the records for one question. Time to live is zero, so that
// nobody keeps what a test is about to change.
func (z *zone) answer(m *dns.Msg, q dns.Question) {
	z.mu.Lock()
	defer z.mu.Unlock()
	name := dns.CanonicalName(q.Name)
	owner := q.Name
	for range 8 {
		target, ok := z.alias[name]
		if !ok {
			break
		}
		m.Answer = append(m.Answer, &dns.CNAME{Hdr: header(owner, dns.TypeCNAME), Target: target})
		name, owner = target, target
	}
	for _, rr := range z.other[name] {
		if rr.Header().Rrtype == q.Qtype {
			m.Answer = append(m.Answer, rr)
		}
	}
	addrs := z.names[name]
	if len(addrs) == 0 && len(z.other[name]) == 0 {
		m.Rcode = dns.RcodeNameError
		return
	}
	for _, a := range addrs {
		switch {
		case q.Qtype == dns.TypeA && a.Is4():
			m.Answer = append(m.Answer, &dns.A{Hdr: header(owner, dns.TypeA), A: a.AsSlice()})
		case q.Qtype == dns.TypeAAAA && a.Is6():
			m.Answer = append(m.Answer, &dns.AAAA{Hdr: header(owner, dns.TypeAAAA), AAAA: a.AsSlice()})
		}
	}
}

func header(name string, rrtype uint16) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: rrtype, Class: dns.ClassINET, Ttl: 0}
}

func (l *Lab) startDNS() error {
	addr := netip.AddrPortFrom(Resolver, 53)
	pc, err := l.listenPacket(addr.String())
	if err != nil {
		return err
	}
	ln, err := l.listen(addr.String())
	if err != nil {
		return err
	}
	handler := func(overTCP bool) dns.HandlerFunc {
		return func(w dns.ResponseWriter, r *dns.Msg) {
			m := new(dns.Msg).SetReply(r)
			m.RecursionAvailable = true
			if len(r.Question) == 1 {
				if overTCP { // over UDP the capture sees it
					l.tap.note(question(addr, r.Question[0]))
				}
				l.dns.answer(m, r.Question[0])
			}
			_ = w.WriteMsg(m)
		}
	}
	for _, s := range []*dns.Server{
		{PacketConn: pc, Handler: handler(false)},
		{Listener: ln, Handler: handler(true)},
	} {
		started := make(chan struct{})
		s.NotifyStartedFunc = func() { close(started) }
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = s.ActivateAndServe()
		}()
		<-started
		l.onClose(func() {
			_ = s.Shutdown()
			<-done
		})
	}
	return nil
}

func (t *tap) note(q Question) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !slices.Contains(t.questions, q) {
		t.questions = append(t.questions, q)
	}
}
