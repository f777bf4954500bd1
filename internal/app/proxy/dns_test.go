package proxy_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	mdns "github.com/miekg/dns"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/policy"
)

// record reads a record in zone file form.
func record(t *testing.T, text string) mdns.RR {
	t.Helper()
	rr, err := mdns.NewRR(text)
	if err != nil {
		t.Fatal(err)
	}
	return rr
}

// replies answers with records, whatever is asked.
func replies(t *testing.T, records ...string) mdns.HandlerFunc {
	t.Helper()
	var list []mdns.RR
	for _, text := range records {
		list = append(list, record(t, text))
	}
	return func(w mdns.ResponseWriter, r *mdns.Msg) {
		m := new(mdns.Msg).SetReply(r)
		m.Answer = list
		_ = w.WriteMsg(m)
	}
}

// aliases is a chain of n aliases from a name to an address.
func aliases(name string, n int) []string {
	var out []string
	for i := range n {
		next := fmt.Sprintf("h%d.%s", i, name)
		out = append(out, fmt.Sprintf("%s. 60 CNAME %s.", name, next))
		name = next
	}
	return append(out, name+". 60 A "+allowed)
}

// What a hostile or broken server, or somebody beside it, answers.
func TestDNS_HostileServer(t *testing.T) {
	t.Parallel()
	good := func(w mdns.ResponseWriter, r *mdns.Msg) {
		replies(t, r.Question[0].Name+" 60 A "+allowed)(w, r)
	}
	bad := func(change func(*mdns.Msg)) mdns.HandlerFunc { // a forged answer comes first
		return func(w mdns.ResponseWriter, r *mdns.Msg) {
			m := new(mdns.Msg).SetReply(r)
			m.Answer = []mdns.RR{record(t, r.Question[0].Name+" 60 A "+evil)}
			change(m)
			_ = w.WriteMsg(m)
			good(w, r)
		}
	}
	odd := map[string]mdns.HandlerFunc{
		"id.test":       bad(func(m *mdns.Msg) { m.Id++ }),
		"question.test": bad(func(m *mdns.Msg) { m.Question[0].Name = "evil.test." }),
		"type.test":     bad(func(m *mdns.Msg) { m.Question[0].Qtype = mdns.TypeTXT }),
		"query.test":    bad(func(m *mdns.Msg) { m.Response = false }),
		"other.test":    replies(t, "evil.test. 60 A "+evil),
		"beside.test":   replies(t, "beside.test. 60 A "+allowed, "evil.test. 60 A "+evil),
		"chain8.test":   replies(t, aliases("chain8.test", 8)...),
		"chain20.test":  replies(t, aliases("chain20.test", 20)...),
		"self.test":     replies(t, "self.test. 60 CNAME self.test.", "self.test. 60 A "+evil),
		"ttl0.test":     replies(t, "ttl0.test. 0 A "+allowed),
		"ttl31.test":    replies(t, "ttl31.test. 2147483648 A "+allowed),
		"svcb.test": func(w mdns.ResponseWriter, r *mdns.Msg) {
			m := new(mdns.Msg).SetReply(r)
			m.Answer = []mdns.RR{record(t, "svcb.test. 60 A "+allowed)}
			b, err := m.Pack()
			if err != nil {
				t.Error(err)
			}
			b[11] = 1 // one additional record: HTTPS with a parameter longer than it
			_, _ = w.Write(append(b, 0xc0, 12, 0, 65, 0, 1, 0, 0, 0, 60, 0, 7, 0, 1, 0, 0, 1, 0xff, 0xff))
		},
		"cut.test": func(w mdns.ResponseWriter, r *mdns.Msg) {
			if w.RemoteAddr().Network() == "tcp" {
				good(w, r)
				return
			}
			m := new(mdns.Msg).SetReply(r)
			m.Truncated = true
			m.Answer = []mdns.RR{record(t, "cut.test. 60 A "+evil)}
			_ = w.WriteMsg(m)
		},
	}
	var names []string
	for name := range odd {
		names = append(names, name)
	}
	l := newLab(t, allow(t, names...), withOdd(odd))
	for _, c := range []struct {
		what, name string
		rcode      int
	}{
		{"A094 another id", "id.test", mdns.RcodeSuccess},
		{"A094 another question", "question.test", mdns.RcodeSuccess},
		{"A094 another type", "type.test", mdns.RcodeSuccess},
		{"A094 no answer at all", "query.test", mdns.RcodeSuccess},
		{"A093 address of another name", "other.test", mdns.RcodeServerFailure},
		{"A093 one beside", "beside.test", mdns.RcodeServerFailure},
		{"A085 eight aliases", "chain8.test", mdns.RcodeSuccess},
		{"A085 twenty aliases", "chain20.test", mdns.RcodeServerFailure},
		{"A085 alias of itself", "self.test", mdns.RcodeServerFailure},
		{"A098 time to live of 0", "ttl0.test", mdns.RcodeSuccess},
		{"A098 time to live of 2^31", "ttl31.test", mdns.RcodeSuccess},
		{"A097 parameter overflow", "svcb.test", mdns.RcodeSuccess},
		{"cut off, whole by TCP", "cut.test", mdns.RcodeSuccess},
	} {
		t.Run(c.what, func(t *testing.T) {
			r := l.lookup("udp", "192.0.0.1:53", c.name, mdns.TypeA)
			var want []string
			if c.rcode == mdns.RcodeSuccess {
				want = []string{allowed}
			}
			if got := answers(r); r.Rcode != c.rcode || !slices.Equal(got, want) {
				t.Errorf("%v, want %s %v", r, mdns.RcodeToString[c.rcode], want)
			}
			for _, rr := range r.Answer {
				if ttl := rr.Header().Ttl; ttl < 5 || ttl > 300 {
					t.Errorf("time to live %d, want 5 to 300", ttl)
				}
			}
		})
	}
	l.untouched(evil)
}

// A077: a name below a wildcard has an address that stands for it, and is
// looked up when a connection comes.
func TestDNS_StandIns(t *testing.T) {
	t.Parallel()
	l := newLab(t, allow(t, "*.wild.test", "*.wild.test:22", "*.wild.test:7"))
	at := func(name string) string {
		t.Helper()
		got := answers(l.lookup("udp", "192.0.0.1:53", name, mdns.TypeA))
		if len(got) != 1 || !strings.HasPrefix(got[0], "198.18.") {
			t.Fatalf("%s is at %v", name, got)
		}
		return got[0]
	}
	b, private, missing := at("b.wild.test"), at("priv.wild.test"), at("none.wild.test")
	if q := l.questions(); len(q) != 0 {
		t.Fatalf("questions left: %v", q)
	}
	t.Run("A077 server speaks first", func(t *testing.T) {
		c := l.dial("tcp4", b+":22")
		line, err := bufio.NewReader(c).ReadString('\n')
		_ = c.Close()
		if err != nil || !strings.Contains(line, "banner-of-"+allowed) {
			t.Errorf("%q, %v", line, err)
		}
	})
	if q := l.questions(); !slices.Equal(q, []string{"b.wild.test A"}) {
		t.Errorf("after the first connection: %v", q)
	}
	t.Run("A077 TLS", func(t *testing.T) {
		if got, err := l.get(b+":443", &tls.Config{ServerName: "b.wild.test"}); err != nil || !strings.Contains(got, "hello from "+allowed) {
			t.Errorf("%q, %v", got, err)
		}
	})
	for _, c := range []struct{ what, to, host, status, reason string }{
		{"A077 HTTP", b, "b.wild.test", "200", ""},
		{"A077 the name counts, not the address", missing, "b.wild.test", "200", ""},
		{"A077 by number", b, b, "403", policy.ReasonSpecialAddress},
		{"A077 private", private, "priv.wild.test", "403", policy.ReasonSpecialAddress},
		{"A077 not there", missing, "none.wild.test", "502", policy.ReasonUnresolved},
		{"A077 another name", b, "evil.test", "403", policy.ReasonNotAllowed},
	} {
		t.Run(c.what, func(t *testing.T) {
			got, _ := l.say(c.to+":80", "GET / HTTP/1.1\r\nHost: "+c.host+"\r\nConnection: close\r\n\r\n")
			if !strings.HasPrefix(got, "HTTP/1.1 "+c.status) || !strings.Contains(got, c.reason) {
				t.Errorf("%q, want %s %s", got, c.status, c.reason)
			}
		})
	}
	for _, dest := range []string{private + ":7", missing + ":7", "198.18.200.1:7", b + ":9"} { // the last has no rule
		if got, err := l.say(dest, "\x00ping"); !isReset(err) {
			t.Errorf("%s: %q, %v", dest, got, err)
		}
	}
	l.event("by its name", func(ev bailey.Event) bool {
		return ev.Verdict == "allow" && ev.Port == 22 && ev.Host == "b.wild.test" && ev.Address == allowed
	})
	l.untouched(evil, private)
}

// A077, A101: names that nobody spelled out are looked up at a rate, and those
// of rules are not held up by it.
func TestDNS_NamesAreRationed(t *testing.T) {
	t.Parallel()
	l := newLab(t, allow(t, "allow.test", "*.wild.test"))
	const names = 700
	refused := 0
	for i := range names {
		got, _ := l.say(allowed+":80", fmt.Sprintf("GET / HTTP/1.1\r\nHost: data-%d.wild.test\r\nConnection: close\r\n\r\n", i))
		if strings.Contains(got, policy.ReasonTooMany) {
			refused++
		}
	}
	t.Run("A077 names are rationed", func(t *testing.T) {
		if left := len(l.questions()); left < 300 || left+refused > names || left+refused < names-names/20 || refused < names/10 { // a busy machine answers some too late
			t.Errorf("of %d names %d were looked up, %d refused", names, left, refused)
		}
	})
	if got, err := l.get(allowed+":443", &tls.Config{ServerName: "allow.test"}); err != nil || !strings.Contains(got, "hello") {
		t.Errorf("a host of a rule: %q, %v", got, err)
	}
}

// TXT and SRV, from the world's server to the sandbox, where a rule names them.
func TestDNS_NamedRecords(t *testing.T) {
	t.Parallel()
	srv := func(w mdns.ResponseWriter, r *mdns.Msg) {
		m := new(mdns.Msg).SetReply(r)
		if r.Question[0].Qtype == mdns.TypeSRV {
			m.Answer = []mdns.RR{record(t, "_mongodb._tcp.db.test. 60 SRV 1 2 27017 shard.db.test.")}
		}
		_ = w.WriteMsg(m)
	}
	p := allow(t, "*.db.test:27017", "plain.test")
	p.Allow = append(p.Allow, narrowed(t, "db.test", policy.Narrow{Records: []string{policy.TXT, "_mongodb._tcp"}}))
	l := newLab(t, p, withOdd(map[string]mdns.HandlerFunc{
		"_mongodb._tcp.db.test": srv,
		"db.test":               replies(t, `db.test. 60 TXT "replicaSet=x" "&more"`),
	}))
	if r := l.lookup("udp", "192.0.0.1:53", "db.test", mdns.TypeTXT); len(r.Answer) != 1 || !strings.Contains(r.Answer[0].String(), "replicaSet=x&more") {
		t.Errorf("TXT: %v", r)
	}
	if r := l.lookup("udp", "192.0.0.1:53", "_mongodb._tcp.db.test", mdns.TypeSRV); len(r.Answer) != 1 || !strings.HasSuffix(r.Answer[0].String(), "1 2 27017 shard.db.test.") {
		t.Errorf("SRV: %v", r)
	}
	for name, kind := range map[string]uint16{"plain.test": mdns.TypeTXT, "_mongodb._tcp.plain.test": mdns.TypeSRV, "x.db.test": mdns.TypeTXT, "_x._tcp.db.test": mdns.TypeSRV} {
		if r := l.lookup("udp", "192.0.0.1:53", name, kind); len(r.Answer) != 0 {
			t.Errorf("%s: %v", name, r)
		}
	}
	want := []string{"_mongodb._tcp.db.test SRV", "db.test TXT"}
	if got := slices.Sorted(slices.Values(l.questions())); !slices.Equal(got, want) {
		t.Errorf("questions that left: %v, want %v", got, want)
	}
}

// Two sockets that answer for one server: an answer from another port is none.
func TestDNS_AnotherPort(t *testing.T) {
	t.Parallel()
	l := newLab(t, allow(t, "port.test"), func(l *lab) {
		l.odd = map[string]mdns.HandlerFunc{"port.test": func(w mdns.ResponseWriter, r *mdns.Msg) {
			m := new(mdns.Msg).SetReply(r)
			m.Answer = []mdns.RR{record(t, "port.test. 60 A "+evil)}
			b, err := m.Pack()
			if err != nil {
				t.Error(err)
			}
			err = l.world.do(func() error {
				pc, err := net.ListenPacket("udp4", resolver+":0")
				if err == nil {
					_, err = pc.WriteTo(b, w.RemoteAddr())
					_ = pc.Close()
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
			replies(t, "port.test. 60 A "+allowed)(w, r)
		}}
	})
	t.Run("A094 another port", func(t *testing.T) {
		var got []string
		for range 3 { // a busy machine answers too late
			if got = answers(l.lookup("udp", "192.0.0.1:53", "port.test", mdns.TypeA)); len(got) > 0 {
				break
			}
		}
		if !slices.Equal(got, []string{allowed}) {
			t.Errorf("%v", got)
		}
	})
}
