package spec_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey/internal/testkit/netlab"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// connectTo is a CONNECT to the explicit proxy and what is said in the tunnel.
func connectTo(name, target, inner string, inside want) attempt {
	return say(name, "192.0.0.1:3128", "CONNECT "+target+" HTTP/1.1\r\nHost: "+target+"\r\nProxy-Authorization: Basic eDp5\r\n\r\n"+inner, nil, inside)
}

// socksTo is a request to the SOCKS5 proxy for a name, and what is said next.
func socksTo(name, host string, port uint16, inner string, inside want) attempt {
	return say(name, "192.0.0.1:1080", "\x05\x01\x00\x05\x01\x00\x03"+string(rune(len(host)))+host+string([]byte{byte(port >> 8), byte(port)})+inner, nil, inside)
}

// cut wants an answer that is this and no more, and then a reset.
func cut(answer string) want {
	return func(v verdict) string {
		if string(v.Data) != answer || v.Err != "ECONNRESET" {
			return "want " + answer + " and then ECONNRESET"
		}
		return ""
	}
}

// exactly wants an answer that is this.
func exactly(answer string) want {
	return func(v verdict) string {
		if string(v.Data) != answer {
			return "want the answer " + answer
		}
		return ""
	}
}

// TestEGR04_ExplicitProxy: a program that knows of the proxy gets no further
// than one that does not; the name that it says there is one more that has to
// agree.
func TestEGR04_ExplicitProxy(t *testing.T) {
	t.Attr("claim", "EGR-04")
	t.Parallel()
	const (
		granted = "HTTP/1.1 200 Connection established\r\n\r\n"
		socksOK = "\x05\x00\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00"
		socksNo = "\x05\x00\x05\x02\x00\x01\x00\x00\x00\x00\x00\x00"
	)
	get := func(host string) string { return "GET / HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n" }
	hello := func(name string) string { return string(clientHello(t, name, nil)) }
	passes := func(before string) want {
		return func(v verdict) string {
			if !strings.HasPrefix(string(v.Data), before) {
				return "want the tunnel granted"
			}
			return reaches(helloAllowed)(v)
		}
	}
	first := func(a attempt) attempt { a.First = true; return a }
	list := []attempt{
		connectTo("CONNECT", "allow.test:80", get("allow.test"), passes(granted)),
		connectTo("A014 one final dot", "Allow.Test.:80", get("allow.test"), passes(granted)),
		socksTo("SOCKS5", "allow.test", 80, get("allow.test"), passes(socksOK)),
		say("absolute form", "192.0.0.1:3128", "GET http://allow.test/ HTTP/1.1\r\nHost: allow.test\r\n\r\n", nil, reaches(helloAllowed)),
		say("either port speaks both", "192.0.0.1:1080", "CONNECT allow.test:80 HTTP/1.1\r\n\r\n"+get("allow.test"), nil, passes(granted)),

		connectTo("A006 another SNI in the tunnel", "allow.test:443", hello("evil.test"), cut(granted)),
		connectTo("A006 an allowed SNI that is another", "allow.test:443", hello("two.test"), cut(granted)),
		connectTo("A006 another Host in the tunnel", "allow.test:80", get("evil.test"), reaches("X-Bailey-Reason: name-mismatch")),
		socksTo("A006 another SNI by SOCKS", "allow.test", 443, hello("evil.test"), cut(socksOK)),
		connectTo("A008 no name in the tunnel", "allow.test:443", hello(""), cut(granted)),
		socksTo("A012 NUL in a SOCKS name", "evil.test\x00.allow.test", 80, "", exactly(socksNo)),
		connectTo("A014 two final dots", "allow.test..:80", "", getsStatus("400 Bad Request", "invalid-name")),
		connectTo("unlisted", "evil.test:443", "", gets403("not-allowed", "bailey run --allow evil.test:443")),
		socksTo("unlisted by SOCKS", "evil.test", 443, "", exactly(socksNo)),
		say("unlisted in absolute form", "192.0.0.1:3128", "GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n", nil, gets403("not-allowed")),

		connectTo("A060 decimal", "2130706433:80", "", getsStatus("400 Bad Request", "invalid-name")),
		connectTo("A060 octal", "0177.0.0.1:80", "", getsStatus("400 Bad Request", "invalid-name")),
		connectTo("A060 hex", "0x7f.1:80", "", getsStatus("400 Bad Request", "invalid-name")),
		connectTo("A060 short", "127.1:80", "", getsStatus("400 Bad Request", "invalid-name")),
		connectTo("A061 this network", "0.0.0.0:8080", "", gets403("special-address")),
		connectTo("A061 this network, IPv6", "[::]:8080", "", gets403("not-allowed", "IPv4 alone")),
		connectTo("A062 zone", "[fe80::1%25lab0]:80", "", getsStatus("400 Bad Request", "invalid-name")),
		socksTo("A062 zone by SOCKS", "fe80::1%lab0", 80, "", exactly(socksNo)),
		connectTo("A063 metadata", "169.254.169.254:80", "", gets403("special-address")),
		connectTo("A064 loopback of the host", "127.0.0.1:8080", "", gets403("special-address")),
		connectTo("A064 address of the host", "11.0.0.1:8080", "", gets403("not-allowed")),
		connectTo("A064 the proxy itself", "192.0.0.1:15001", "", gets403("special-address")),
		connectTo("A064 the proxy by itself", "192.0.0.1:3128", "", gets403("special-address")),
		first(connectTo("port 53", "allow.test:53", "", gets403("not-allowed"))),
		say("UDP ASSOCIATE", "192.0.0.1:1080", "\x05\x01\x00\x05\x03\x00\x01\x00\x00\x00\x00\x00\x00", nil, exactly("\x05\x00\x05\x07\x00\x01\x00\x00\x00\x00\x00\x00")),
		web("the proxy has no page", "192.0.0.1:3128", "192.0.0.1:3128", nil, getsStatus("400 Bad Request", "bad-request")),
	}
	prepare := func(lab *netlab.Lab) {
		world(lab)
		lab.Name("two.test", netlab.Allowed)
	}
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		lab := netlab.New(t)
		prepare(lab)
		y.Wrap = lab.Enter
		r := attack(t, y, list, "--json", "--allow", "allow.test", "--allow", "two.test")
		stayed(t, lab, []netip.AddrPort{onAllowed(80)}, "allow.test")
		for _, q := range lab.Requests() {
			if q.Host != "allow.test" {
				t.Errorf("a request for %q reached a server", q.Host)
			}
		}
		for _, ev := range decisions(t, r) {
			if ev.Verdict == "allow" && (ev.Host != "allow.test" || ev.Address != netlab.Allowed.String()) {
				t.Errorf("allowed: %+v", ev)
			}
		}
	})
}

// TestEGR02_ProxyVariables: programs find the proxy by the usual variables,
// those that ignore them are captured all the same, with the same verdict, and
// what a caller sets himself stays.
func TestEGR02_ProxyVariables(t *testing.T) {
	t.Attr("claim", "EGR-02")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		lab := netlab.New(t)
		y.Wrap = lab.Enter
		sh := func(script string, flags ...string) yard.Result {
			return y.Sh(t, script, append([]string{"--allow", "allow.test", "--tool", "curl"}, flags...)...)
		}
		has := func(what string, r yard.Result, texts ...string) {
			t.Helper()
			for _, text := range texts {
				if !strings.Contains(r.Stdout, text) {
					t.Errorf("%s: no %q in %q (%s)", what, text, r.Stdout, r.Stderr)
				}
			}
		}
		has("by the variables", sh("curl -sSv http://allow.test/ 2>&1; curl -sSvk https://allow.test/ 2>&1; curl -sS http://127.0.0.1:9/ 2>&1"),
			"Uses proxy env variable http_proxy", "Uses proxy env variable https_proxy", "hello from allow.test", "200 Connection established", "127.0.0.1 port 9")
		has("A158 without the proxy", sh("curl -sS --noproxy '*' http://allow.test/; curl -sSk --noproxy '*' https://allow.test/"), "hello from allow.test")
		has("refused, by the variables", sh("curl -sSvk https://evil.test/ 2>&1; curl -sS http://evil.test/ 2>&1"),
			"403 Forbidden", "X-Bailey-Reason: not-allowed", "bailey refused GET evil.test")
		r := sh("curl -sSk --noproxy '*' --resolve evil.test:443:11.0.0.66 https://evil.test/ 2>&1; curl -sS --noproxy '*' --resolve evil.test:80:11.0.0.66 http://evil.test/ 2>&1")
		has("A158 refused, without the proxy", r, "reset", "bailey refused GET evil.test")
		has("SOCKS5", sh("curl -sS -x socks5h://192.0.0.1:1080 http://allow.test/; curl -sS -x socks5://192.0.0.1:1080 http://allow.test/; curl -sS -x socks5h://u:p@192.0.0.1:1080 http://evil.test/ 2>&1"), "hello from allow.test")
		has("one's own stays", sh(`echo "$HTTPS_PROXY,$https_proxy,$http_proxy,$NO_PROXY."`, "--env", "HTTPS_PROXY=http://own.test:1", "--env", "no_proxy=x"),
			"http://own.test:1,,http://192.0.0.1:3128,.")
		has("no network, no proxy", y.Sh(t, `echo "<$HTTPS_PROXY$http_proxy$ALL_PROXY>"`, "--net", "none"), "<>")
		// A157: a relay inside, which adds what it likes, gets the same verdict.
		relay := `python3 -c '
import socket, threading
s = socket.create_server(("127.0.0.1", 8888))
def serve(c):
    u = socket.create_connection(("192.0.0.1", 3128))
    u.sendall(c.recv(65536).replace(b"\r\nHost", b"\r\nProxy-Authorization: Basic eDp5\r\nX-Forwarded-Host: allow.test\r\nHost", 1))
    while b := u.recv(65536): c.sendall(b)
    c.close()
while True: threading.Thread(target=serve, args=(s.accept()[0],)).start()
' & sleep 1; curl -sS -x http://127.0.0.1:8888 http://allow.test/; curl -sS -x http://127.0.0.1:8888 http://evil.test/; kill %1`
		has("A157 a relay inside", sh(relay, "--tool", "python3"), "hello from allow.test", "bailey refused GET evil.test")
		for _, q := range lab.Requests() {
			if q.Host != "allow.test" {
				t.Errorf("a request for %q reached a server", q.Host)
			}
		}
	})
}
