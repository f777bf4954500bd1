package dns

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// message is a server's answer to a question for the addresses of allow.test,
// with records in zone file form.
func message(tb testing.TB, records ...string) []byte {
	tb.Helper()
	m := new(dns.Msg).SetQuestion("Allow.test.", dns.TypeA)
	m.Response, m.RecursionAvailable, m.Compress = true, true, true
	for _, text := range records {
		rr, err := dns.NewRR(text)
		if err != nil {
			tb.Fatal(err)
		}
		m.Answer = append(m.Answer, rr)
	}
	b, err := m.Pack()
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// chain is a chain of aliases from allow.test, n long, and an address.
func chain(n int) []string {
	out := []string{fmt.Sprintf("h%d.test. 60 A 11.0.0.10", n)}
	name := "allow.test."
	for i := range n {
		to := fmt.Sprintf("h%d.test.", i+1)
		out = append(out, name+" 60 CNAME "+to) // behind the address: order says nothing
		name = to
	}
	return out
}

func TestScreenAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		records []string
		passes  bool
	}{
		"addresses":                      {[]string{"allow.test. 60 A 11.0.0.10", "allow.test. 60 A 11.0.0.11"}, true},
		"nothing":                        {nil, true},
		"alias":                          {chain(1), true},
		"A085 eight aliases":             {chain(8), true},
		"A085 nine aliases":              {chain(9), false},
		"A085 twenty aliases":            {chain(20), false},
		"A085 alias to itself":           {[]string{"allow.test. 60 CNAME allow.test."}, false},
		"A085 loop":                      {[]string{"allow.test. 60 CNAME b.test.", "b.test. 60 CNAME allow.test.", "b.test. 60 A 11.0.0.10"}, false},
		"two aliases of one name":        {[]string{"allow.test. 60 CNAME b.test.", "allow.test. 60 CNAME c.test.", "b.test. 60 A 11.0.0.10"}, false},
		"A093 address of another":        {[]string{"evil.test. 60 A 11.0.0.66"}, false},
		"A093 one beside":                {[]string{"allow.test. 60 A 11.0.0.10", "evil.test. 60 A 11.0.0.66"}, false},
		"A093 the target's sibling":      {append(chain(1), "evil.test. 60 A 11.0.0.66"), false},
		"A093 address where an alias is": {append(chain(1), "allow.test. 60 A 11.0.0.66"), false},
		"signature beside":               {[]string{"allow.test. 60 A 11.0.0.10", "allow.test. 60 RRSIG A 8 2 60 20300101000000 20200101000000 1 test. AAAA"}, true},
		"alias of another class":         {[]string{"allow.test. 60 CH CNAME b.test.", "b.test. 60 A 11.0.0.66"}, false},
		"A097 HTTPS in the answer":       {[]string{"allow.test. 60 A 11.0.0.10", "allow.test. 60 HTTPS 1 . alpn=h3 ech=AAAA ipv4hint=11.0.0.66"}, true},
	} {
		b := message(t, c.records...)
		got := screenAnswer(bytes.Clone(b))
		if c.passes {
			if !bytes.Equal(got, b) {
				t.Errorf("%s: changed", name)
			}
			continue
		}
		m := new(dns.Msg)
		if err := m.Unpack(got); err != nil || m.Rcode != dns.RcodeServerFailure || len(m.Answer) != 0 || len(m.Question) != 1 || m.Question[0].Name != "Allow.test." {
			t.Errorf("%s: %v, %v", name, m, err)
		}
	}
}

// A096, A097: answers that lie about their form.
func TestScreenAnswer_Malformed(t *testing.T) {
	t.Parallel()
	good := message(t, "allow.test. 60 A 11.0.0.10")
	question := bytes.Index(good[headerSize:], []byte{0, 1, 0, 1}) + headerSize + 4
	record := func(owner []byte, kind byte, data ...byte) []byte {
		b := append(bytes.Clone(good[:question]), owner...)
		return append(append(b, 0, kind, 0, 1, 0, 0, 0, 60, 0, byte(len(data))), data...)
	}
	counts := func(b []byte, answers, additional int) []byte {
		b = bytes.Clone(b)
		b[6], b[7], b[10], b[11] = byte(answers>>8), byte(answers), byte(additional>>8), byte(additional)
		return b
	}
	for name, b := range map[string][]byte{
		"A096 65535 answers":      counts(good, 65535, 0),
		"A096 owner is a loop":    record([]byte{0xc0, byte(question)}, 1, 11, 0, 0, 10),
		"A096 alias to a loop":    record([]byte{0xc0, headerSize}, 5, 0xc0, byte(question+12)),
		"cut off":                 good[:len(good)-2],
		"data longer than it is":  append(bytes.Clone(good[:len(good)-5]), 200, 11, 0, 0, 10),
		"two questions, one told": counts(good[:question], 1, 0),
	} {
		got := screenAnswer(bytes.Clone(b))
		if m := new(dns.Msg); m.Unpack(got) != nil || m.Rcode != dns.RcodeServerFailure || len(m.Answer) != 0 {
			t.Errorf("%s: %v", name, m)
		}
	}
	// A097: a parameter of an HTTPS record that is longer than the record. It
	// is not read, in whatever section.
	overflow := record([]byte{0xc0, headerSize}, 65, 0, 1, 0, 0, 1, 0xff, 0xff)
	for name, b := range map[string][]byte{"answer": overflow, "additional": counts(overflow, 0, 1)} {
		if got := screenAnswer(bytes.Clone(b)); !bytes.Equal(got, b) {
			t.Errorf("A097 in the %s section: changed", name)
		}
	}
	for _, b := range [][]byte{nil, {1}, make([]byte, 11), make([]byte, 12)} {
		if got := screenAnswer(b); len(got) > len(b) {
			t.Errorf("%d bytes became %d", len(b), len(got))
		}
	}
}

// A stream is screened message by message, however it is read.
func TestScreenedStream(t *testing.T) {
	t.Parallel()
	good, bad := message(t, "allow.test. 60 A 11.0.0.10"), message(t, "evil.test. 60 A 11.0.0.66")
	framed := func(b []byte) []byte { return append([]byte{byte(len(b) >> 8), byte(len(b))}, b...) }
	ours, theirs := net.Pipe()
	go func() {
		defer func() { _ = theirs.Close() }()
		_, _ = theirs.Write(append(framed(bad), framed(good)...))
	}()
	c := &screenedStream{Conn: ours}
	var all []byte
	for one := make([]byte, 1); ; {
		if _, err := io.ReadFull(c, one); err != nil {
			break
		}
		all = append(all, one...)
	}
	if want := append(framed(screenAnswer(bytes.Clone(bad))), framed(good)...); !bytes.Equal(all, want) {
		t.Errorf("read %x, want %x", all, want)
	}
}

// FuzzScreenAnswer holds the screen against a second reading by another parser:
// what passes as a good answer has no address but at the end of the chain.
func FuzzScreenAnswer(f *testing.F) {
	f.Add(message(f, "allow.test. 60 A 11.0.0.10"))
	f.Add(message(f, chain(3)...))
	f.Add(message(f, chain(9)...))
	f.Add(message(f, "evil.test. 60 A 11.0.0.66"))
	f.Add(message(f, "allow.test. 60 HTTPS 1 . alpn=h3 ipv4hint=11.0.0.66", "allow.test. 60 TXT \"x\""))
	f.Fuzz(func(t *testing.T, b []byte) {
		got := screenAnswer(bytes.Clone(b))
		if len(got) > len(b) {
			t.Fatalf("%d bytes became %d", len(b), len(got))
		}
		m := new(dns.Msg)
		if m.Unpack(got) != nil || len(m.Question) != 1 || m.Truncated || m.Rcode != dns.RcodeSuccess {
			return
		}
		end := strings.ToLower(m.Question[0].Name)
		for range 2 * maxAliases { // where the chain ends, read by the other parser
			for _, rr := range m.Answer {
				if c, ok := rr.(*dns.CNAME); ok && c.Hdr.Class == dns.ClassINET && strings.EqualFold(c.Hdr.Name, end) {
					end = strings.ToLower(c.Target)
					break
				}
			}
		}
		for _, rr := range m.Answer {
			if a, ok := rr.(*dns.A); ok && !strings.EqualFold(a.Hdr.Name, end) {
				t.Errorf("%s is at %s, and the answer is about %s, which ends at %s", a.A, a.Hdr.Name, m.Question[0].Name, end)
			}
		}
	})
}
