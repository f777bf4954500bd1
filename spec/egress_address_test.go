package spec_test

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bailey-dev/bailey/internal/testkit/netlab"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// TestEGR05_SpecialAddresses reaches for addresses that no sandbox may reach,
// by number and through names that a rule allows.
func TestEGR05_SpecialAddresses(t *testing.T) {
	t.Attr("claim", "EGR-05")
	t.Parallel()
	special := gets403("special-address")
	gone := fails("ECONNRESET")
	list := []attempt{
		web("metadata by number", "169.254.169.254:80", "169.254.169.254", reaches(netlab.MetadataCanary), special),
		web("metadata by name", "169.254.169.254:80", "metadata.google.internal", reaches(netlab.MetadataCanary), special),
		web("metadata's name to another address", "11.0.0.10:80", "metadata.google.internal", nil, special),
		web("private by number", "10.11.12.13:8080", "10.11.12.13:8080", reaches(netlab.PrivateCanary), special),
		web("private by name", "10.11.12.13:8080", "private.test:8080", reaches(netlab.PrivateCanary), special),
		web("A069 private through an allowed name", "11.0.0.10:8080", "private.test:8080", nil, special),
		web("loopback through an allowed name", "11.0.0.10:8080", "loop.test:8080", nil, special),
		secure("TLS to a private address", "11.0.0.10:443", "private443.test", nil, gone),
		echo("raw to a private address", "10.11.12.13:7", "ping\n", nil, gone),
		echo("raw, private, server first", "10.11.12.13:22", "", nil, gone),
		{Name: "look-up of a private name", Op: "lookup", To: "private.test", Quick: atOnce, host: reaches("10.11.12.13"), inside: fails("not found")},
		{Name: "look-up of a loopback name", Op: "lookup", To: "loop.test", Quick: atOnce, host: reaches("127.0.0.1"), inside: fails("not found")},
		{Name: "A070 look-up of a mixed answer", Op: "lookup", To: "mixed.test", Quick: atOnce, host: reaches("10.11.12.13 11.0.0.10"), inside: fails("not found")},
		{Name: "A070 look-up, other order", Op: "lookup", To: "mixed2.test", Quick: atOnce, host: reaches("11.0.0.10 127.0.0.1"), inside: fails("not found")},
		web("A070 mixed answer", "11.0.0.10:80", "mixed.test", reaches("hello from mixed.test"), special),
		web("A070 mixed answer, other order", "11.0.0.10:80", "mixed2.test", reaches("hello from mixed2.test"), special),
		web("A084 alias to a private address", "11.0.0.10:80", "inward.test", nil, special),
		web("IPv6 loopback", "[::1]:8080", "x", reaches(netlab.LoopbackCanary), fails("ECONNREFUSED")), // the sandbox's own
		web("A052 mapped loopback", "[::ffff:127.0.0.1]:8080", "x", reaches(netlab.LoopbackCanary), fails("ECONNREFUSED")),
		web("A052 mapped metadata", "[::ffff:169.254.169.254]:80", "169.254.169.254", reaches(netlab.MetadataCanary), special),
		web("A061 this network", "0.0.0.0:8080", "x", reaches(netlab.LoopbackCanary), fails("ECONNREFUSED")),

		web("public, for comparison", "11.0.0.10:80", "allow.test", reaches(helloAllowed), reaches(helloAllowed)),
		// A rebinding name: its handler points it inward at the first request.
		// What was looked up is kept for ten seconds.
		web("A069 before rebinding", "11.0.0.10:80", "rebind.test", nil, reaches("rebound")),
		beside(attempt{Name: "A072 after rebinding, HTTP", Op: "dial", Net: "tcp", To: "11.0.0.10:80", Delay: 11 * time.Second, Send: [][]byte{[]byte("GET / HTTP/1.1\r\nHost: rebind.test\r\nConnection: close\r\n\r\n")}, inside: slowly(special)}),
		beside(attempt{Name: "A072 after rebinding, TLS", Op: "tls", Net: "tcp", To: "11.0.0.10:443", Delay: 11 * time.Second, SNI: "rebind.test", inside: slowly(gone)}),
		beside(attempt{Name: "A072 after rebinding, look-up", Op: "lookup", To: "rebind.test", Delay: 11 * time.Second, inside: slowly(fails("not found"))}),
	}
	for _, a := range []string{
		"10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "192.0.0.1", "192.0.0.2", "192.0.2.1", "198.18.0.1", "198.51.100.1",
		"203.0.113.1", "240.0.0.1", "192.88.99.1", "169.254.170.2", "127.0.0.2",
		"168.63.129.16", "100.100.100.200", "192.0.0.192", // clouds' own
	} {
		want := special
		if a == "127.0.0.2" || a == "192.0.0.2" { // the sandbox's own
			want = fails("ECONNREFUSED")
		}
		list = append(list, web(a, a+":80", a, nil, want))
	}
	for _, a := range []string{"224.0.0.1", "255.255.255.255"} { // no kernel answers a TCP connection to these
		list = append(list, beside(web(a, a+":80", a, nil, silence)))
	}
	// Every form that carries an IPv4 address in an IPv6 one, and the rest.
	for a, id := range map[string]string{
		"64:ff9b::a9fe:a9fe": "A054 ", "64:ff9b::7f00:1": "A054 ", "64:ff9b::b00:42": "A054 ", "2002:7f00:1::": "A057 ", "2002:a9fe:a9fe::": "A057 ",
		"2001:0:4136:e378:8000:63bf:5601:5601": "A058 ", "::127.0.0.1": "A053 ", "::ffff:0:7f00:1": "A053 ",
		"fc00::1": "", "fec0::1": "", "2001:db8::1": "", "2600:11::66": "",
	} {
		list = append(list,
			web(id+a, "["+a+"]:80", "["+a+"]", nil, fails("ENETUNREACH", "EHOSTUNREACH", "EADDRNOTAVAIL")),
			// By IPv4, with the address as the name of the request.
			web(id+a+" as Host", "11.0.0.10:80", "["+a+"]", reaches("HTTP/1.1"), lacks("hello from")))
	}
	list = append(list,
		web("A073 second family inward", "11.0.0.10:80", "eyeballs.test", reaches("hello from eyeballs.test"), reaches("hello from eyeballs.test at 11.0.0.10")),
		script("A073 by a program that tries both", "curl -sS --max-time 5 http://eyeballs.test/", nil, reaches("hello from eyeballs.test at 11.0.0.10")))
	prepare := func(lab *netlab.Lab) {
		world(lab)
		lab.Name("mixed.test", netlab.Allowed, netlab.Private)
		lab.Name("mixed2.test", netlab.Loopback4, netlab.Allowed)
		lab.Name("private443.test", netlab.Private)
		lab.Name("eyeballs.test", netlab.Allowed, netlab.Loopback6)
		lab.Alias("inward.test", "private.test")
		lab.Name("rebind.test", netlab.Allowed)
		lab.Handle("rebind.test", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			lab.Name("rebind.test", netlab.Metadata)
			_, _ = w.Write([]byte("rebound"))
		}))
	}
	names := []string{"allow.test", "mixed.test", "mixed2.test", "private443.test", "inward.test", "rebind.test", "private.test", "loop.test", "metadata.google.internal", "eyeballs.test"}
	both(t, list, prepare, func(t *testing.T, y *yard.Yard, lab *netlab.Lab) {
		var flags []string
		for _, n := range names {
			flags = append(flags, "--allow", n)
		}
		flags = append(flags, "--allow", "private.test:8080", "--allow", "loop.test:8080")
		for _, mode := range [][]string{flags, {"--net", "open"}} {
			lab.Name("rebind.test", netlab.Allowed)
			inMode := slices.Clone(list)
			if len(mode) == 2 { // there a public address needs no rule
				inMode = append(inMode, web("public by number", "11.0.0.66:80", "11.0.0.66", nil, reaches("at 11.0.0.66")))
			}
			attack(t, y, inMode, mode...)
		}
		stayed(t, lab, []netip.AddrPort{onAllowed(80), onEvil(80)}, names...)
		// No rule can name one.
		for _, rule := range []string{"127.0.0.1", "169.254.169.254:80", "10.0.0.1", "[::1]:80", "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "localhost", "x.localhost:8080", "0.0.0.0", "fe80::1%eth0"} {
			if r := y.Run(t, "run", "--allow", rule, "--", "true").Exit(t, 125); !strings.Contains(r.Stderr, rule) {
				t.Errorf("--allow %s: %s", rule, r.Stderr)
			}
		}
	})
}

// TestEGR10_LoopbackOfTheHost reaches for the services of the host.
func TestEGR10_LoopbackOfTheHost(t *testing.T) {
	t.Attr("claim", "EGR-10")
	t.Parallel()
	own := fails("ECONNREFUSED") // the sandbox's own loopback has nothing there
	gone, none6 := fails("ECONNRESET"), fails("ENETUNREACH")
	special := gets403("special-address")
	list := []attempt{
		web("IPv4", "127.0.0.1:8080", "x", reaches(netlab.LoopbackCanary), own),
		web("IPv6", "[::1]:8080", "x", reaches(netlab.LoopbackCanary), own),
		web("another of 127/8", "127.8.9.10:8080", "x", nil, own),
		web("unspecified", "0.0.0.0:8080", "x", reaches(netlab.LoopbackCanary), own),
		web("unspecified, IPv6", "[::]:8080", "x", reaches(netlab.LoopbackCanary), own),
		web("localhost", "localhost:8080", "x", reaches(netlab.LoopbackCanary), own),
		web("mapped", "[::ffff:127.0.0.1]:8080", "x", reaches(netlab.LoopbackCanary), own),
		echo("SSH", "127.0.0.1:22", "", reaches("SSH-2.0-lab"), own),
		packet("UDP", "127.0.0.1:5353", []byte("hi"), reaches("hi"), own),
		packet("UDP, IPv6", "[::1]:5353", []byte("hi"), reaches("hi"), own),

		// Asking the proxy for it.
		web("as Host", "11.0.0.10:8080", "127.0.0.1:8080", nil, gets403("name-mismatch")),
		web("localhost as Host", "11.0.0.10:8080", "localhost:8080", nil, special),
		web("a name with that address", "11.0.0.10:8080", "loop.test:8080", nil, special),
		{Name: "look-up", Op: "lookup", To: "loop.test", Quick: atOnce, host: reaches("127.0.0.1 ::1"), inside: fails("not found")},
		secure("TLS", "11.0.0.10:8080", "loop.test", nil, gone),

		// The gateway of the sandbox's link is no way to the host.
		web("gateway", "192.0.0.1:8080", "x.test:8080", nil, gets403("not-allowed", "x.test:8080")),
		web("A066 gateway by number", "192.0.0.1:8080", "192.0.0.1:8080", nil, special),
		echo("A066 gateway, SSH", "192.0.0.1:22", "", nil, gone),
		echo("A066 gateway, raw", "192.0.0.1:2375", "hello\n", nil, gone),
		packet("A066 gateway, UDP", "192.0.0.1:5353", []byte("hi"), nil, own),
		echo("A064 the proxy's own port", "192.0.0.1:15001", "GET / HTTP/1.1\r\nHost: allow.test\r\n\r\n", nil, fails("ECONNRESET", "eof")),
		echo("A064 the proxy's own port, silent", "192.0.0.1:15001", "", nil, fails("ECONNRESET", "eof")),
		echo("A064 the DNS port", "192.0.0.1:15053", "hello\n", nil, gone),
		packet("A064 the DNS port, UDP", "192.0.0.1:15053", []byte("hi"), nil, own),

		// The host's other addresses. What listens there counts on a firewall
		// that a connection from the host itself never meets.
		web("host's address", "11.0.0.1:8080", "11.0.0.1:8080", reaches(netlab.LoopbackCanary), forbidden),
		web("host's address by a name", "11.0.0.1:8080", "a.wild.test:8080", reaches(netlab.LoopbackCanary), forbidden),
		echo("host's address, SSH", "11.0.0.1:22", "", reaches("SSH-2.0-lab"), gone),
		packet("host's address, UDP", "11.0.0.1:5353", []byte("hi"), reaches("hi"), own),
		web("host's address, IPv6", "[2600:11::1]:8080", "x", reaches(netlab.LoopbackCanary), none6),

		web("allowed, for comparison", "11.0.0.10:80", "allow.test", reaches(helloAllowed), reaches(helloAllowed)),
	}
	prepare := func(lab *netlab.Lab) {
		world(lab)
		lab.Name("a.wild.test", netlab.Own)
		lab.Name("host.test", netlab.Own)
	}
	both(t, list, prepare, func(t *testing.T, y *yard.Yard, lab *netlab.Lab) {
		rules := []string{"--allow", "allow.test", "--allow", "loop.test:8080", "--allow", "*.wild.test:8080"}
		attack(t, y, list, rules...)
		open := slices.DeleteFunc(slices.Clone(list), func(a attempt) bool { // there any public name may be asked for
			return a.Name == "gateway"
		})
		attack(t, y, open, "--net", "open")
		// Twin: a rule that names the host itself opens that address, and that
		// port; the loopback stays closed.
		attack(t, y, []attempt{
			web("host's address by its rule", "11.0.0.1:8080", "11.0.0.1:8080", nil, reaches(netlab.LoopbackCanary)),
			web("host's name, with a rule for its address", "11.0.0.1:8080", "host.test:8080", nil, reaches(netlab.LoopbackCanary)),
			echo("another port", "11.0.0.1:22", "", nil, gone),
			web("loopback", "127.0.0.1:8080", "x", nil, own),
		}, "--allow", "11.0.0.1:8080", "--allow", "host.test:8080")
		attack(t, y, []attempt{
			web("host's address by a name alone", "11.0.0.1:8080", "host.test:8080", nil, forbidden),
		}, "--allow", "host.test:8080")
		for _, c := range lab.Connections() {
			a := c.To.Addr()
			if a.IsLoopback() || a == netlab.Own6 || a == netlab.Own && c.To.Port() != 8080 {
				t.Errorf("%s to %s was made on the host", c.Proto, c.To)
			}
		}
	})
}

// forbidden wants a refusal because of the host's address, or for want of a rule.
func forbidden(v verdict) string {
	if gets403("host-address")(v) == "" {
		return ""
	}
	return gets403("not-allowed")(v)
}

// TestEGR10_OtherSandboxes: two sandboxes at a time have no way to each other.
func TestEGR10_OtherSandboxes(t *testing.T) {
	t.Attr("claim", "EGR-10")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		lab := netlab.New(t)
		y.Wrap = lab.Enter
		const serve = `import socket, sys
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(("0.0.0.0", 9000)); s.listen(9)
a = socket.socket(socket.AF_UNIX); a.bind("\0neighbour"); a.listen(9)
socket.create_connection(("192.0.0.2", 9000)); print("own", s.accept()[1], flush=True)
s.settimeout(60)
while True:
    c = s.accept()
    c[0].sendall(b"the neighbour")
    print("visited by", c[1], flush=True)
`
		y.Write(t, "serve.py", serve)
		first := y.Start(t, "run", "--allow", "allow.test", "--allow", "11.0.0.10:9000", "--name", "first", "--", python, "serve.py")
		first.Await(t, "own")
		gone := fails("ECONNRESET")
		attack(t, y, []attempt{
			echo("A065 the address of every sandbox", "192.0.0.2:9000", "hello\n", nil, fails("ECONNREFUSED")), // its own
			echo("gateway", "192.0.0.1:9000", "hello\n", nil, gone),
			beside(echo("A065 beside", "192.0.0.3:9000", "hello\n", nil, silence)), // the link's broadcast address
			beside(echo("A065 network", "192.0.0.0:9000", "hello\n", nil, silence)),
			script("abstract socket", python+` -c 'import socket; socket.socket(socket.AF_UNIX).connect("\0neighbour"); print("in")' 2>&1; echo`, nil, func(v verdict) string {
				if !strings.Contains(string(v.Data), "Connection refused") {
					return "want it refused"
				}
				return ""
			}),
			web("allowed, for comparison", "11.0.0.10:80", "allow.test", nil, reaches(helloAllowed)),
		}, "--allow", "allow.test", "--allow", "11.0.0.10:9000")
		// Twin: from inside of the first it can be reached.
		const visit = `import socket; print(socket.create_connection(("192.0.0.2", 9000)).recv(99).decode())`
		out, _ := first.Output()
		if r := y.Run(t, "exec", "first", "--", python, "-c", visit); !strings.Contains(r.Stdout, "the neighbour") {
			t.Errorf("from inside: %+v", r)
		}
		first.Await(t, "visited")
		if strings.Contains(out, "visited") {
			t.Errorf("the neighbour was visited: %s", out)
		}
		stayed(t, lab, []netip.AddrPort{onAllowed(80)}, "allow.test")
	})
}
