package spec_test

import (
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/bailey-dev/bailey/internal/testkit/netlab"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// onAllowed is a port of the lab's allowed host.
func onAllowed(port uint16) netip.AddrPort { return netip.AddrPortFrom(netlab.Allowed, port) }

func onEvil(port uint16) netip.AddrPort { return netip.AddrPortFrom(netlab.Evil, port) }

// udpEcho answers every packet to an address of the lab with itself.
func udpEcho(lab *netlab.Lab, addr string) {
	pc := lab.ListenPacket(addr)
	go func() {
		buf := make([]byte, 1<<16)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = pc.WriteTo(buf[:n], from)
		}
	}()
}

// banner answers each TCP connection to an address of the lab before the
// client has said a word, as SSH and mail servers do, and then echoes.
func banner(lab *netlab.Lab, addr, text string) {
	ln := lab.Listen(addr)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if _, err := c.Write([]byte(text)); err == nil {
					buf := make([]byte, 100)
					n, _ := c.Read(buf)
					_, _ = c.Write(buf[:n])
				}
			}()
		}
	}()
}

// world is what the labs of these tests have besides their usual servers.
func world(lab *netlab.Lab) {
	for _, a := range []string{"11.0.0.10:443", "11.0.0.66:443", "11.0.0.66:123", "[2600:11::66]:443", "127.0.0.1:5353", "[::1]:5353", "11.0.0.1:5353"} {
		udpEcho(lab, a)
	}
	banner(lab, "11.0.0.10:22", "SSH-2.0-lab\r\n")
	banner(lab, "11.0.0.66:22", "SSH-2.0-lab\r\n")
	banner(lab, "127.0.0.1:22", "SSH-2.0-lab\r\n")
	banner(lab, "11.0.0.1:22", "SSH-2.0-lab\r\n")
}

// TestEGR01_NoNetwork holds the part that this version has: there are no tasks.
func TestEGR01_NoNetwork(t *testing.T) {
	t.Attr("claim", "EGR-01")
	t.Parallel()
	unreachable := fails("ENETUNREACH")
	list := []attempt{
		{Name: "links", Op: "list", host: reaches("lab0"), inside: func(v verdict) string {
			if got := string(v.Data); got != "lo [127.0.0.1/8 ::1/128]\n" && got != "lo [127.0.0.1/8]\n" {
				return "want lo alone"
			}
			return ""
		}},
		web("HTTP", "11.0.0.10:80", "allow.test", reaches("hello from allow.test"), unreachable),
		secure("TLS", "11.0.0.10:443", "allow.test", reaches("hello from allow.test"), unreachable),
		web("IPv6", "[2600:11::10]:80", "six.test", reaches("hello from six.test"), unreachable),
		web("host's loopback", "127.0.0.1:8080", "x", reaches(netlab.LoopbackCanary), fails("ECONNREFUSED")),
		web("host's address", "11.0.0.1:8080", "x", reaches(netlab.LoopbackCanary), unreachable),
		web("gateway of other modes", "192.0.0.1:80", "x", nil, unreachable),
		web("metadata", "169.254.169.254:80", "x", reaches(netlab.MetadataCanary), unreachable),
		packet("UDP", "11.0.0.66:123", []byte("hi"), reaches("hi"), unreachable),
		ask(t, "DNS", "udp", "11.0.0.53:53", "allow.test", dns.TypeA, answers(dns.RcodeSuccess, netlab.Allowed), unreachable),
		{Name: "look-up", Op: "lookup", To: "allow.test", Quick: atOnce, Wait: 3 * time.Second, host: reaches("11.0.0.10"), inside: func(v verdict) string {
			if v.Err == "" || v.Took > atOnce {
				return "want an error at once"
			}
			return ""
		}},
	}
	both(t, list, world, func(t *testing.T, y *yard.Yard, lab *netlab.Lab) {
		for _, flags := range [][]string{{"--net", "none"}, nil} { // none is the default
			r := attack(t, y, list, flags...)
			if !strings.Contains(r.Stderr, "network: none") {
				t.Errorf("the header does not say that there is no network:\n%s", r.Stderr)
			}
		}
		stayed(t, lab, nil)
		// The sandbox's own loopback works: the test's tools can connect.
		own := "python3 -m http.server -b 127.0.0.1 8000 >/dev/null 2>&1 & for i in 1 2 3 4 5 6 7 8 9; do sleep 0.3; " +
			"python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 8000)); print(\"own loopback\")' 2>/dev/null && exit; done"
		if r := y.Sh(t, own); !strings.Contains(r.Stdout, "own loopback") {
			t.Errorf("the sandbox cannot use its own loopback: %s%s", r.Stdout, r.Stderr)
		}
	})
}

func TestEGR02_EverythingEndsAtTheProxy(t *testing.T) {
	t.Attr("claim", "EGR-02")
	t.Parallel()
	refused, gone := fails("ECONNREFUSED"), fails("ECONNRESET")
	none6 := fails("ENETUNREACH")
	noSocket := fails("EPERM", "EACCES", "EAFNOSUPPORT", "EPROTONOSUPPORT", "ESOCKTNOSUPPORT", "EINVAL")
	list := []attempt{
		// Programs that know nothing of proxies: what is allowed passes.
		web("allowed HTTP", "11.0.0.10:80", "allow.test", reaches("hello from allow.test at 11.0.0.10"), reaches("hello from allow.test at 11.0.0.10")),
		secure("allowed TLS", "11.0.0.10:443", "allow.test", reaches("hello from allow.test"), reaches("hello from allow.test")),
		echo("allowed address and port", "11.0.0.10:7", "ping\n", reaches("ping"), reaches("ping")),
		echo("server speaks first", "11.0.0.10:22", "", reaches("SSH-2.0-lab"), reaches("SSH-2.0-lab")),
		{Name: "look-up", Op: "lookup", To: "allow.test", host: reaches("11.0.0.10"), inside: reaches("11.0.0.10")},

		// TCP, at any port.
		web("other host", "11.0.0.66:80", "evil.test", reaches("hello from evil.test"), gets403("not-allowed", "--allow evil.test:80")),
		secure("other host, TLS", "11.0.0.66:443", "evil.test", reaches("hello from evil.test"), gone),
		echo("A104 other host, echo", "11.0.0.66:7", "ping\n", reaches("ping"), gone),
		echo("A104 other host, SSH", "11.0.0.66:22", "", reaches("SSH-2.0-lab"), gone),
		web("A104 no such port", "11.0.0.66:8888", "evil.test", refused, gets403("not-allowed")),
		// TCP with a port bound and an address chosen by the program.
		{Name: "bound source", Op: "dial", Net: "tcp", To: "11.0.0.66:7", From: "0.0.0.0", Send: [][]byte{[]byte("ping\n")}, First: true, Quick: atOnce, host: reaches("ping"), inside: gone},

		// UDP, QUIC and time servers included.
		packet("A108 UDP 443", "11.0.0.10:443", []byte("hi"), reaches("hi"), refused),
		packet("UDP 443 of another", "11.0.0.66:443", []byte("hi"), reaches("hi"), refused),
		packet("UDP 123", "11.0.0.66:123", []byte("hi"), reaches("hi"), refused),
		packet("UDP IPv6", "[2600:11::66]:443", []byte("hi"), reaches("hi"), none6),
		raw("A112 UDP-Lite", syscall.AF_INET, syscall.SOCK_DGRAM, ipUDPLite, "11.0.0.66:443", []byte("hi"), nil, noSocket),

		// IPv6.
		web("A110 IPv6", "[2600:11::10]:80", "six.test", reaches("hello from six.test"), none6),
		script("A110 a program with both families", "curl -sS --max-time 5 http://both.test/", reaches("hello from both.test"), reaches("hello from both.test at 11.0.0.10")),
		web("A110 IPv6 link-local", "[fe80::1%eth0]:80", "x", nil, fails("ENETUNREACH", "EINVAL", "EHOSTUNREACH", "ENODEV")),
		web("A110 IPv4 in IPv6", "[::ffff:11.0.0.66]:80", "evil.test", reaches("hello from evil.test"), gets403("not-allowed")),

		// What is neither TCP nor UDP.
		raw("A109 ping, raw", syscall.AF_INET, syscall.SOCK_RAW, syscall.IPPROTO_ICMP, "11.0.0.66:0", icmpEcho(), reaches("tunnel"), noSocket),
		beside(raw("A109 ping, datagram", syscall.AF_INET, syscall.SOCK_DGRAM, syscall.IPPROTO_ICMP, "11.0.0.66:0", icmpEcho(), nil, silence)),
		raw("A109 ping, IPv6", syscall.AF_INET6, syscall.SOCK_RAW, syscall.IPPROTO_ICMPV6, "", nil, works, noSocket),
		raw("A113 any IP protocol", syscall.AF_INET, syscall.SOCK_RAW, syscall.IPPROTO_RAW, "", nil, works, noSocket),
		raw("A112 GRE", syscall.AF_INET, syscall.SOCK_RAW, syscall.IPPROTO_GRE, "", nil, works, noSocket),
		raw("A112 IPv6 in IPv4", syscall.AF_INET, syscall.SOCK_RAW, syscall.IPPROTO_IPV6, "", nil, works, noSocket),
		raw("A112 ESP", syscall.AF_INET, syscall.SOCK_RAW, syscall.IPPROTO_ESP, "", nil, works, noSocket),
		raw("A112 SCTP", syscall.AF_INET, syscall.SOCK_STREAM, ipSCTP, "", nil, nil, noSocket),
		raw("A112 DCCP", syscall.AF_INET, 6, 33, "", nil, nil, noSocket),
		raw("A112 MPTCP", syscall.AF_INET, syscall.SOCK_STREAM, ipMPTCP, "", nil, nil, noSocket),
		raw("A122 packets of the link", syscall.AF_PACKET, syscall.SOCK_RAW, int(syscall.ETH_P_ALL), "", nil, works, noSocket),
		raw("A118 VSOCK", afVsock, syscall.SOCK_STREAM, 0, "", nil, nil, noSocket),
		raw("A118 XDP", afXDP, syscall.SOCK_RAW, 0, "", nil, nil, noSocket),
		raw("A118 Bluetooth", syscall.AF_BLUETOOTH, syscall.SOCK_RAW, 1, "", nil, nil, noSocket),
		raw("A118 TIPC", syscall.AF_TIPC, syscall.SOCK_STREAM, 0, "", nil, nil, noSocket),

		// Names at any resolver, by any transport: all are ours.
		ask(t, "A081 DNS at another resolver", "udp", "9.9.9.9:53", "allow.test", dns.TypeA, nil, answers(dns.RcodeSuccess, netlab.Allowed)),
		ask(t, "A080 DNS by TCP at another resolver", "tcp", "1.1.1.1:53", "allow.test", dns.TypeA, nil, answers(dns.RcodeSuccess, netlab.Allowed)),
		ask(t, "other name at the host's resolver", "udp", "11.0.0.53:53", "evil.test", dns.TypeA, answers(dns.RcodeSuccess, netlab.Evil), answers(dns.RcodeNameError)),
		ask(t, "other name by TCP", "tcp", "11.0.0.53:53", "evil.test", dns.TypeA, answers(dns.RcodeSuccess, netlab.Evil), answers(dns.RcodeNameError)),
		beside(packet("A082 multicast DNS", "224.0.0.251:5353", []byte("hi"), nil, silence)),
		packet("A082 LLMNR", "11.0.0.66:5355", []byte("hi"), nil, refused),
		packet("A082 NetBIOS", "11.0.0.66:137", []byte("hi"), nil, refused),
		packet("A082 DNS over QUIC", "11.0.0.66:853", []byte("hi"), nil, refused),
		echo("A082 DNS over TLS", "11.0.0.66:853", string(clientHello(t, "evil.test", nil)), nil, gone),
		raw("UDP 0", syscall.AF_INET, syscall.SOCK_DGRAM, 0, "255.255.255.255:67", []byte("hi"), nil, fails("EACCES", "ECONNREFUSED", "ENETUNREACH")),
	}
	prepare := func(lab *netlab.Lab) { world(lab); lab.Name("both.test", netlab.Allowed6, netlab.Allowed) }
	both(t, list, prepare, func(t *testing.T, y *yard.Yard, lab *netlab.Lab) {
		attack(t, y, list, "--allow", "allow.test", "--allow", "both.test", "--allow", "11.0.0.10:7", "--allow", "11.0.0.10:22")
		stayed(t, lab, []netip.AddrPort{onAllowed(80), onAllowed(443), onAllowed(7), onAllowed(22)}, "allow.test", "both.test")
	})
}
