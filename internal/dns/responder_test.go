package dns_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	mdns "github.com/miekg/dns"
	"go.uber.org/goleak"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/dns"
	"github.com/bailey-dev/bailey/internal/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// zone is the host's resolver: it knows some names and notes every question.
type zone struct {
	mu    sync.Mutex
	names map[string][]string
	asked []string
}

func (z *zone) Lookup(_ context.Context, name string) ([]netip.Addr, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.asked = append(z.asked, name)
	addrs, ok := z.names[name]
	switch {
	case name == "broken.test":
		return nil, fmt.Errorf("look up %s: %w", name, context.DeadlineExceeded)
	case name == "panic.test":
		panic("a bug")
	case !ok:
		return nil, fmt.Errorf("look up %s: %w", name, policy.ErrNoAddress)
	}
	var out []netip.Addr
	for _, a := range addrs {
		out = append(out, netip.MustParseAddr(a))
	}
	return out, nil
}

// LookupTXT and LookupSRV know the records of records.test.
func (z *zone) LookupTXT(_ context.Context, name string) ([]string, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.asked = append(z.asked, "TXT "+name)
	switch name {
	case "records.test":
		return []string{"v=1 \\ \"quoted\" \xff", strings.Repeat("x", 700)}, nil
	case "large.test":
		return slices.Repeat([]string{strings.Repeat("y", 200)}, 30), nil
	case "broken.test":
		return nil, fmt.Errorf("look up %s: %w", name, context.DeadlineExceeded)
	}
	return nil, fmt.Errorf("look up %s: %w", name, policy.ErrNoAddress)
}

func (z *zone) LookupSRV(_ context.Context, name string) ([]*net.SRV, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.asked = append(z.asked, "SRV "+name)
	if name == "_imap._tcp.records.test" {
		return []*net.SRV{{Target: "mail.records.test.", Port: 993, Priority: 1, Weight: 2}}, nil
	}
	return nil, fmt.Errorf("look up %s: %w", name, policy.ErrNoAddress)
}

func (z *zone) questions() []string {
	z.mu.Lock()
	defer z.mu.Unlock()
	return slices.Clone(z.asked)
}

type journal struct {
	mu     sync.Mutex
	events []bailey.Event
}

func (j *journal) Record(ev bailey.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events = append(j.events, ev)
}

func (j *journal) find(host, reason string) (n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, ev := range j.events {
		if ev.Host == host && ev.Reason == reason {
			n++
		}
	}
	return n
}

type fixture struct {
	zone    *zone
	journal *journal
	pins    *dns.Pins
	udp     string
	tcp     string
}

func start(t *testing.T, p policy.Policy) fixture {
	t.Helper()
	f := fixture{
		zone: &zone{names: map[string][]string{
			"allow.test":    {"11.0.0.10", "11.0.0.11"},
			"a.wild.test":   {"11.0.0.12"}, // never asked for
			"records.test":  {"11.0.0.13"},
			"private.test":  {"10.0.0.5"},
			"mixed.test":    {"11.0.0.10", "127.0.0.1"},
			"mixed2.test":   {"169.254.169.254", "11.0.0.10"},
			"evil.test":     {"11.0.0.66"},
			"many.test":     slices.Repeat([]string{"11.0.0.10"}, 40),
			"denied-ip.tst": {"11.0.0.67"},
		}},
		journal: &journal{},
		pins:    &dns.Pins{},
	}
	pc, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.udp, f.tcp = pc.LocalAddr().String(), ln.Addr().String()
	r := dns.New(dns.Config{
		Sandbox: "sbx_0123456789abcdef", Rules: policy.NewLive(p), Resolver: f.zone, Recorder: f.journal, Pins: f.pins, Now: time.Now,
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx, pc, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return f
}

func allowPolicy(t *testing.T) policy.Policy {
	t.Helper()
	p := policy.Policy{Mode: bailey.NetAllow}
	for _, s := range []string{
		"allow.test", "*.wild.test", "private.test", "mixed.test", "mixed2.test", "broken.test",
		"panic.test", "missing.test", "many.test", "ssh.test:22", "denied-ip.tst",
	} {
		r, err := policy.ParseRule(s)
		if err != nil {
			t.Fatal(err)
		}
		p.Allow = append(p.Allow, r)
	}
	for _, name := range []string{"records.test", "large.test", "broken.test", "empty.test"} {
		r, err := policy.ParseRule(name)
		if err == nil {
			r, err = r.With(policy.Narrow{Records: []string{policy.TXT, "_imap._tcp"}})
		}
		if err != nil {
			t.Fatal(err)
		}
		p.Allow = append(p.Allow, r)
	}
	for _, s := range []string{"x.wild.test", "11.0.0.67"} {
		r, err := policy.ParseDenyRule(s)
		if err != nil {
			t.Fatal(err)
		}
		p.Deny = append(p.Deny, r)
	}
	return p
}

func ask(t *testing.T, f fixture, network, name string, kind uint16) *mdns.Msg {
	t.Helper()
	m := new(mdns.Msg).SetQuestion(mdns.Fqdn(name), kind)
	addr := f.udp
	if network == "tcp" {
		addr = f.tcp
	}
	reply, _, err := (&mdns.Client{Net: network, Timeout: 5 * time.Second}).Exchange(m, addr)
	if err != nil {
		t.Fatalf("%s %s: %v", name, mdns.TypeToString[kind], err)
	}
	return reply
}

func addresses(m *mdns.Msg) []string {
	var out []string
	for _, rr := range m.Answer {
		if a, ok := rr.(*mdns.A); ok {
			out = append(out, a.A.String())
		}
	}
	return out
}

func TestResponder_Answers(t *testing.T) {
	t.Parallel()
	for _, network := range []string{"udp", "tcp"} { // A080
		f := start(t, allowPolicy(t))
		for _, c := range []struct {
			name   string
			kind   uint16
			rcode  int
			answer []string
			reason string // recorded; "-" for nothing
		}{
			{"allow.test", mdns.TypeA, mdns.RcodeSuccess, []string{"11.0.0.10", "11.0.0.11"}, ""},
			{"AlLoW.TeSt", mdns.TypeA, mdns.RcodeSuccess, []string{"11.0.0.10", "11.0.0.11"}, "-"}, // A090
			{"a.wild.test", mdns.TypeA, mdns.RcodeSuccess, []string{"198.18.0.1"}, ""},             // A077
			{"allow.test", mdns.TypeAAAA, mdns.RcodeSuccess, nil, "-"},
			{"x.localhost", mdns.TypeA, mdns.RcodeSuccess, []string{"127.0.0.1"}, "-"},
			{"localhost", mdns.TypeAAAA, mdns.RcodeSuccess, nil, "-"},
			{"evil.test", mdns.TypeA, mdns.RcodeNameError, nil, policy.ReasonNotAllowed},                // A076
			{"mfzwizltoq.x.evil.test", mdns.TypeTXT, mdns.RcodeNameError, nil, policy.ReasonNotAllowed}, // A076
			{"allow.test.evil.test", mdns.TypeA, mdns.RcodeNameError, nil, policy.ReasonNotAllowed},
			{"notallow.test", mdns.TypeA, mdns.RcodeNameError, nil, policy.ReasonNotAllowed},
			{"wild.test", mdns.TypeA, mdns.RcodeNameError, nil, policy.ReasonNotAllowed},
			{"x.wild.test", mdns.TypeA, mdns.RcodeNameError, nil, policy.ReasonDeniedByRule},
			{"private.test", mdns.TypeA, mdns.RcodeNameError, nil, policy.ReasonSpecialAddress}, // A069, A084
			{"mixed.test", mdns.TypeA, mdns.RcodeNameError, nil, policy.ReasonSpecialAddress},   // A070
			{"mixed2.test", mdns.TypeA, mdns.RcodeNameError, nil, policy.ReasonSpecialAddress},
			{"denied-ip.tst", mdns.TypeA, mdns.RcodeNameError, nil, policy.ReasonDeniedByRule},
			{"missing.test", mdns.TypeA, mdns.RcodeNameError, nil, policy.ReasonUnresolved},
			{"broken.test", mdns.TypeA, mdns.RcodeServerFailure, nil, policy.ReasonUnresolved},
			{"_dmarc.allow.test", mdns.TypeTXT, mdns.RcodeNameError, nil, policy.ReasonInvalidName},
			{"127.0.0.1", mdns.TypeA, mdns.RcodeNameError, nil, policy.ReasonInvalidName},
			{"0x7f.1", mdns.TypeA, mdns.RcodeNameError, nil, policy.ReasonInvalidName},
			{`evil\.allow.test`, mdns.TypeA, mdns.RcodeFormatError, nil, policy.ReasonInvalidName}, // A088
			{`a\000.allow.test`, mdns.TypeA, mdns.RcodeFormatError, nil, policy.ReasonInvalidName}, // A089
			{`a\255.allow.test`, mdns.TypeA, mdns.RcodeFormatError, nil, policy.ReasonInvalidName},
			{`a\ b.allow.test`, mdns.TypeA, mdns.RcodeFormatError, nil, policy.ReasonInvalidName},
		} {
			reply := ask(t, f, network, c.name, c.kind)
			if reply.Rcode != c.rcode || !slices.Equal(addresses(reply), c.answer) || len(reply.Answer) != len(c.answer) {
				t.Errorf("%s %s %s: rcode %d, answer %v; want %d, %v", network, c.name, mdns.TypeToString[c.kind],
					reply.Rcode, reply.Answer, c.rcode, c.answer)
			}
			if len(reply.Question) != 1 || reply.Question[0].Name != mdns.Fqdn(c.name) {
				t.Errorf("%s: the question is not echoed: %v", c.name, reply.Question)
			}
			host := c.name
			if c.reason == policy.ReasonInvalidName {
				host = mdns.Fqdn(c.name)
			}
			if c.reason != "-" && f.journal.find(host, c.reason) != 1 {
				t.Errorf("%s: no one event with reason %q in %+v", c.name, c.reason, f.journal.events)
			}
		}
		for _, q := range f.zone.questions() {
			if strings.Contains(q, "evil") || strings.HasSuffix(q, "wild.test") {
				t.Errorf("a question about %s left the host", q)
			}
		}
	}
}

// A086: whatever type is asked for, nothing but A of an allowed name leads to
// a question, and nothing but A is answered.
func TestResponder_OnlyA(t *testing.T) {
	t.Parallel()
	f := start(t, allowPolicy(t))
	for _, kind := range []uint16{
		mdns.TypeTXT, mdns.TypeNULL, mdns.TypeANY, mdns.TypeSRV, mdns.TypeNAPTR, mdns.TypePTR, mdns.TypeHTTPS,
		mdns.TypeSVCB, mdns.TypeCAA, mdns.TypeMX, mdns.TypeNS, mdns.TypeSOA, mdns.TypeAAAA, mdns.TypeAXFR, 65280,
	} {
		if r := ask(t, f, "udp", "allow.test", kind); r.Rcode != mdns.RcodeSuccess || len(r.Answer)+len(r.Ns)+len(r.Extra) != 0 {
			t.Errorf("type %d of an allowed name: %v", kind, r)
		}
		if r := ask(t, f, "udp", "evil.test", kind); r.Rcode != mdns.RcodeNameError {
			t.Errorf("type %d of another name: %v", kind, r)
		}
	}
	if q := f.zone.questions(); len(q) != 0 {
		t.Errorf("questions left the host: %v", q)
	}
	if n := f.journal.find("evil.test", policy.ReasonNotAllowed); n != 1 {
		t.Errorf("%d events for one name in one moment", n)
	}
	ask(t, f, "udp", "allow.test", mdns.TypeA) // twin: A is asked
	if q := f.zone.questions(); !slices.Equal(q, []string{"allow.test"}) {
		t.Errorf("questions: %v", q)
	}
}

func TestResponder_OpenMode(t *testing.T) {
	t.Parallel()
	p := policy.Policy{Mode: bailey.NetOpen, Deny: allowPolicy(t).Deny}
	f := start(t, p)
	if r := ask(t, f, "udp", "evil.test", mdns.TypeA); !slices.Equal(addresses(r), []string{"11.0.0.66"}) {
		t.Errorf("open: %v", r)
	}
	for _, name := range []string{"x.wild.test", "private.test", "denied-ip.tst"} {
		if r := ask(t, f, "udp", name, mdns.TypeA); r.Rcode != mdns.RcodeNameError {
			t.Errorf("open: %s: %v", name, r)
		}
	}
}

func TestResponder_NoPolicyNoAnswer(t *testing.T) {
	t.Parallel()
	f := start(t, policy.Policy{})
	if r := ask(t, f, "udp", "allow.test", mdns.TypeA); r.Rcode != mdns.RcodeNameError {
		t.Errorf("zero policy: %v", r)
	}
	if len(f.zone.questions()) != 0 {
		t.Error("a question left the host")
	}
}

// A092: EDNS options of the client go nowhere; a list of addresses stays within
// what UDP without EDNS may carry.
func TestResponder_IgnoresEDNS(t *testing.T) {
	t.Parallel()
	f := start(t, allowPolicy(t))
	m := new(mdns.Msg).SetQuestion("many.test.", mdns.TypeA)
	opt := &mdns.OPT{Hdr: mdns.RR_Header{Name: ".", Rrtype: mdns.TypeOPT}}
	opt.SetUDPSize(4096)
	opt.Option = append(opt.Option, &mdns.EDNS0_LOCAL{Code: 65001, Data: make([]byte, 400)})
	m.Extra = append(m.Extra, opt)
	r, _, err := (&mdns.Client{Timeout: 5 * time.Second}).Exchange(m, f.udp)
	if err != nil {
		t.Fatal(err)
	}
	packed, _ := r.Pack()
	if o := r.IsEdns0(); o == nil || len(o.Option) != 0 || o.UDPSize() != 1232 || len(r.Answer) != 8 || len(packed) > 512 {
		t.Errorf("%d bytes: %v", len(packed), r)
	}
	if ttl := r.Answer[0].Header().Ttl; ttl < 5 || ttl > 300 {
		t.Errorf("TTL %d", ttl)
	}
}

func packet(id uint16, flags byte, counts [4]uint16, rest ...byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, id)
	b = append(b, flags, 0)
	for _, c := range counts {
		b = binary.BigEndian.AppendUint16(b, c)
	}
	return append(b, rest...)
}

// A096 and kin: what is no question is answered at once with an error, or not
// at all, and the next question is answered.
func TestResponder_BadPackets(t *testing.T) {
	t.Parallel()
	f := start(t, allowPolicy(t))
	question := []byte("\x05allow\x04test\x00\x00\x01\x00\x01")
	for name, c := range map[string]struct {
		packet []byte
		rcode  int // -1: no answer
	}{
		"65535 questions":   {packet(1, 1, [4]uint16{65535, 0, 0, 0}, question...), mdns.RcodeFormatError},
		"65535 answers":     {packet(1, 1, [4]uint16{1, 65535, 0, 0}, question...), mdns.RcodeFormatError},
		"65535 additional":  {packet(1, 1, [4]uint16{1, 0, 0, 65535}, question...), mdns.RcodeFormatError},
		"no question":       {packet(1, 1, [4]uint16{}), mdns.RcodeFormatError},
		"two questions":     {packet(1, 1, [4]uint16{2, 0, 0, 0}, append(question, question...)...), mdns.RcodeFormatError},
		"pointer loop":      {packet(1, 1, [4]uint16{1, 0, 0, 0}, 0xc0, 12, 0, 1, 0, 1), mdns.RcodeFormatError},
		"cut off":           {packet(1, 1, [4]uint16{1, 0, 0, 0}, 5, 'a'), mdns.RcodeFormatError},
		"NOTIFY":            {packet(1, 4<<3, [4]uint16{1, 0, 0, 0}, question...), mdns.RcodeNotImplemented},
		"UPDATE":            {packet(1, 5<<3, [4]uint16{1, 0, 0, 0}, question...), mdns.RcodeNotImplemented},
		"CHAOS":             {packet(1, 1, [4]uint16{1, 0, 0, 0}, []byte("\x05allow\x04test\x00\x00\x01\x00\x03")...), mdns.RcodeRefused},
		"an answer":         {packet(1, 0x81, [4]uint16{1, 0, 0, 0}, question...), -1},
		"eleven bytes":      {make([]byte, 11), -1},
		"1233 bytes":        {append(packet(1, 1, [4]uint16{1, 0, 0, 0}, question...), make([]byte, 1233)...), -1},
		"a panic of ours":   {packet(1, 1, [4]uint16{1, 0, 0, 0}, []byte("\x05panic\x04test\x00\x00\x01\x00\x01")...), -1},
		"as it should be":   {packet(1, 1, [4]uint16{1, 0, 0, 0}, question...), mdns.RcodeSuccess},
		"compressed itself": {packet(1, 1, [4]uint16{1, 0, 0, 0}, append([]byte("\x05allow\x04test\xc0\x0c"), 0, 1, 0, 1)...), mdns.RcodeFormatError},
	} {
		conn, err := net.Dial("udp4", f.udp)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(c.packet); err != nil {
			t.Fatal(err)
		}
		if c.rcode < 0 { // the second question shows that the first had none
			if _, err := conn.Write(packet(2, 1, [4]uint16{1, 0, 0, 0}, question...)); err != nil {
				t.Fatal(err)
			}
		}
		_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		buf := make([]byte, 1500)
		n, err := conn.Read(buf)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var m mdns.Msg
		if err := m.Unpack(buf[:n]); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if c.rcode < 0 && m.Id != 2 || c.rcode >= 0 && (m.Id != 1 || m.Rcode != c.rcode) {
			t.Errorf("%s: id %d, rcode %d; want rcode %d", name, m.Id, m.Rcode, c.rcode)
		}
		_ = conn.Close()
	}
}

// A101: a flood is not answered beyond the bucket.
func TestResponder_Flood(t *testing.T) {
	t.Parallel()
	f := start(t, allowPolicy(t))
	conn, err := net.Dial("tcp4", f.tcp)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	q, _ := new(mdns.Msg).SetQuestion("allow.test.", mdns.TypeA).Pack()
	framed := append(binary.BigEndian.AppendUint16(nil, uint16(len(q))), q...)
	answered := 0
	buf := make([]byte, 1024)
	for ; answered < 5000; answered++ {
		if _, err := conn.Write(framed); err != nil {
			break
		}
		if _, err := conn.Read(buf); err != nil {
			break
		}
	}
	if answered < 1000 || answered >= 5000 {
		t.Errorf("%d questions were answered before the connection was closed", answered)
	}
	if n := f.journal.find("allow.test", ""); n > 5 {
		t.Errorf("%d events of one decision", n)
	}
}

func TestPins(t *testing.T) {
	t.Parallel()
	var p dns.Pins
	now := time.Unix(1000, 0)
	a, b := netip.MustParseAddr("11.0.0.1"), netip.MustParseAddr("11.0.0.2")
	p.Add("one.test", []netip.Addr{a, b}, now)
	p.Add("two.test", []netip.Addr{a}, now.Add(time.Minute))
	p.Add("one.test", []netip.Addr{b}, now.Add(time.Minute))
	if got := p.Names(a, now.Add(time.Minute)); !slices.Equal(got, []string{"two.test", "one.test"}) {
		t.Errorf("names of %s: %v", a, got)
	}
	if got := p.Names(b, now.Add(time.Minute)); !slices.Equal(got, []string{"one.test"}) {
		t.Errorf("names of %s: %v", b, got)
	}
	if got := p.Names(a, now.Add(time.Hour+time.Second)); !slices.Equal(got, []string{"two.test"}) {
		t.Errorf("names after an hour: %v", got)
	}
	if got := p.Names(netip.MustParseAddr("11.0.0.3"), now); got != nil {
		t.Errorf("an address never answered has names %v", got)
	}
	for i := range 20 {
		p.Add(fmt.Sprintf("n%d.test", i), []netip.Addr{a}, now)
	}
	if got := p.Names(a, now); len(got) != 8 || got[0] != "n19.test" {
		t.Errorf("%d names: %v", len(got), got)
	}
	for i := range 10_000 {
		p.Add("flood.test", []netip.Addr{netip.AddrFrom4([4]byte{12, 0, byte(i >> 8), byte(i)})}, now)
	}
	kept := 0
	for i := range 10_000 {
		kept += len(p.Names(netip.AddrFrom4([4]byte{12, 0, byte(i >> 8), byte(i)}), now))
	}
	if kept > 4096 || kept < 4000 {
		t.Errorf("%d addresses are kept", kept)
	}
}

// TXT and SRV are answered for the hosts and services that a rule names, and
// for nothing else.
func TestResponder_NamedRecords(t *testing.T) {
	t.Parallel()
	f := start(t, allowPolicy(t))
	texts := ask(t, f, "tcp", "records.test", mdns.TypeTXT)
	var got []string
	for _, rr := range texts.Answer {
		if txt, ok := rr.(*mdns.TXT); ok {
			got = append(got, strings.Join(txt.Txt, ""))
		}
	}
	if want := []string{`v=1 \\ \"quoted\" \255`, strings.Repeat("x", 700)}; !slices.Equal(got, want) {
		t.Errorf("TXT: %q, want %q", got, want)
	}
	services := ask(t, f, "udp", "_IMAP._tcp.Records.test", mdns.TypeSRV)
	if len(services.Answer) != 1 || !strings.HasSuffix(services.Answer[0].String(), "\tIN\tSRV\t1 2 993 mail.records.test.") {
		t.Errorf("SRV: %v", services)
	}
	for _, c := range []struct {
		name  string
		kind  uint16
		rcode int
	}{
		{"allow.test", mdns.TypeTXT, mdns.RcodeSuccess},                // the host is named, its records are not
		{"a.wild.test", mdns.TypeTXT, mdns.RcodeSuccess},               // below a wildcard
		{"x.records.test", mdns.TypeTXT, mdns.RcodeNameError},          // below the host
		{"_smtp._tcp.records.test", mdns.TypeSRV, mdns.RcodeNameError}, // another service
		{"_imap._udp.records.test", mdns.TypeSRV, mdns.RcodeNameError},
		{"x._imap._tcp.records.test", mdns.TypeSRV, mdns.RcodeNameError},
		{"_imap._tcp.allow.test", mdns.TypeSRV, mdns.RcodeNameError},
		{"_imap._tcp.records.test", mdns.TypeA, mdns.RcodeSuccess},
		{"_imap._tcp.records.test", mdns.TypeTXT, mdns.RcodeSuccess},
		{"records.test", mdns.TypeSRV, mdns.RcodeSuccess},
		{"records.test", mdns.TypeMX, mdns.RcodeSuccess},
		{"empty.test", mdns.TypeTXT, mdns.RcodeSuccess},
		{"broken.test", mdns.TypeTXT, mdns.RcodeServerFailure},
	} {
		if r := ask(t, f, "udp", c.name, c.kind); r.Rcode != c.rcode || len(r.Answer) != 0 {
			t.Errorf("%s %s: %v", c.name, mdns.TypeToString[c.kind], r)
		}
	}
	want := []string{"SRV _imap._tcp.records.test", "TXT broken.test", "TXT empty.test", "TXT records.test"}
	if got := slices.Sorted(slices.Values(f.zone.questions())); !slices.Equal(got, want) {
		t.Errorf("questions that left: %q, want %q", got, want)
	}
}

// An answer is as long as its way can carry, and says when it is cut (RFC 1035
// §4.2.1, RFC 6891 §6.2).
func TestResponder_Sizes(t *testing.T) {
	t.Parallel()
	f := start(t, allowPolicy(t))
	for _, c := range []struct {
		network string
		size    uint16 // of the client's EDNS; 0: none
		most    int
		cut     bool
	}{{"udp", 0, 512, true}, {"udp", 100, 512, true}, {"udp", 1000, 1000, true}, {"udp", 4096, 1232, true}, {"tcp", 0, 8 << 10, false}} {
		m := new(mdns.Msg).SetQuestion("large.test.", mdns.TypeTXT)
		if c.size > 0 {
			m.SetEdns0(c.size, false)
		}
		addr := f.udp
		if c.network == "tcp" {
			addr = f.tcp
		}
		r, _, err := (&mdns.Client{Net: c.network, UDPSize: 4096, Timeout: 5 * time.Second}).Exchange(m, addr)
		if err != nil {
			t.Fatal(err)
		}
		r.Compress = true
		if r.Truncated != c.cut || r.Len() > c.most || r.Len() < c.most/3 || (r.IsEdns0() != nil) != (c.size > 0) {
			t.Errorf("%+v: %d bytes, cut %v, EDNS %v", c, r.Len(), r.Truncated, r.IsEdns0())
		}
		if !c.cut && len(r.Answer) != 4096/200 { // no more than the bound of data
			t.Errorf("%d records", len(r.Answer))
		}
	}
	m := new(mdns.Msg).SetQuestion("allow.test.", mdns.TypeA)
	m.SetEdns0(1232, false).IsEdns0().SetVersion(1)
	if r, _, err := (&mdns.Client{Timeout: 5 * time.Second}).Exchange(m, f.udp); err != nil || r.Rcode != mdns.RcodeBadVers || len(r.Answer) != 0 {
		t.Errorf("EDNS version 1: %v, %v", r, err)
	}
}

// A077: names below a wildcard are answered without a question, each with an
// address of its own that leads back to it.
func TestResponder_StandIns(t *testing.T) {
	t.Parallel()
	f := start(t, allowPolicy(t))
	seen := map[string]string{}
	for i := range 50 {
		name := fmt.Sprintf("data-%d.wild.test", i)
		got := addresses(ask(t, f, "udp", name, mdns.TypeA))
		if len(got) != 1 || seen[got[0]] != "" {
			t.Fatalf("%s: %v", name, got)
		}
		seen[got[0]] = name
		a := netip.MustParseAddr(got[0])
		if names := f.pins.Names(a, time.Now()); !slices.Equal(names, []string{name}) {
			t.Errorf("%s stands for %v", a, names)
		}
		if c := policy.Classify(a); c != policy.ClassBenchmarking {
			t.Errorf("%s is %s: it could be dialled", a, c)
		}
		if again := addresses(ask(t, f, "tcp", strings.ToUpper(name), mdns.TypeA)); !slices.Equal(again, got) {
			t.Errorf("%s has moved from %v to %v", name, got, again)
		}
	}
	if q := f.zone.questions(); len(q) != 0 {
		t.Errorf("questions left: %v", q)
	}
	ask(t, f, "udp", "allow.test", mdns.TypeA) // twin: a name that a rule spells out is looked up
	if q := f.zone.questions(); !slices.Equal(q, []string{"allow.test"}) {
		t.Errorf("questions that left: %v", q)
	}
}

// Where names are open, they are looked up, below a wildcard too.
func TestResponder_NoStandInsWhereNamesAreOpen(t *testing.T) {
	t.Parallel()
	for _, open := range []func(*policy.Policy){
		func(p *policy.Policy) { p.DNS = bailey.DNSOpen },
		func(p *policy.Policy) { p.Mode = bailey.NetOpen },
		func(p *policy.Policy) { p.Mode = bailey.NetFull },
	} {
		p := allowPolicy(t)
		open(&p)
		f := start(t, p)
		if got := addresses(ask(t, f, "udp", "a.wild.test", mdns.TypeA)); !slices.Equal(got, []string{"11.0.0.12"}) {
			t.Errorf("%v, %v: %v", p.Mode, p.DNS, got)
		}
	}
}
