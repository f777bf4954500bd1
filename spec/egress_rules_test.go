package spec_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/testkit/netlab"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// lacks wants an output without a text.
func lacks(text string) want {
	return func(v verdict) string {
		if strings.Contains(string(v.Data), text) {
			return fmt.Sprintf("want no %q", text)
		}
		return ""
	}
}

// TestEGR03_NoPowerOverTheRules tries to see, change and evade the rules from
// inside. That they are read back after they are set is held by the tests of
// internal/airlock, which can put other rules in their place.
func TestEGR03_NoPowerOverTheRules(t *testing.T) {
	t.Attr("claim", "EGR-03")
	t.Parallel()
	const done = "it was done"
	change := func(name, command string) attempt {
		return script(name, "{ "+command+"; } && echo "+done, reaches(done), lacks(done))
	}
	const netfilter = 12 // of netlink
	list := []attempt{
		script("see", "nft add table inet theirs; nft list ruleset", reaches("table inet theirs"), lacks("table")),
		change("A116 flush", "nft flush ruleset"),
		raw("speak to netfilter", syscall.AF_NETLINK, syscall.SOCK_RAW, netfilter, "", nil, works, fails("EPROTONOSUPPORT", "EPERM", "EACCES", "EAFNOSUPPORT")),
		change("add an address", "ip addr add 10.9.9.9/32 dev lo"),
		change("A116 add a route", "ip route add 10.99.0.0/16 dev lo"),
		change("add a link", "ip link add name v0 type veth peer name v1"),
		change("change a link", "ip link set lo mtu 4000"),
		change("forward packets", "echo 1 > /proc/sys/net/ipv4/ip_forward"),
		change("A116 route the loopback", "echo 1 > /proc/sys/net/ipv4/conf/all/route_localnet"),
		script("A120 io_uring", python+` -c 'import ctypes; l = ctypes.CDLL(None, use_errno=True); print("ring" if l.syscall(425, 8, ctypes.create_string_buffer(120)) >= 0 else "none", ctypes.get_errno())'`, nil, reaches("none 38")),
		change("A117 a new network", "unshare -n true"),
		change("A117 a new user and network", "unshare -Urn true"),
		script("the network of process 1", "nsenter -t 1 -n true && echo "+done, nil, lacks(done)),
		web("still refused", "11.0.0.66:80", "evil.test", reaches("hello from evil.test"), gets403("not-allowed")),
		packet("still refused, UDP", "11.0.0.66:123", []byte("hi"), reaches("hi"), fails("ECONNREFUSED")),
		web("still allowed", "11.0.0.10:80", "allow.test", reaches(helloAllowed), reaches(helloAllowed)),
	}
	both(t, list, world, func(t *testing.T, y *yard.Yard, lab *netlab.Lab) {
		attack(t, y, list, "--allow", "allow.test")
		stayed(t, lab, []netip.AddrPort{onAllowed(80)}, "allow.test")
	})
}

// TestEGR03_AllPowerInTheSandboxsNamespace gives an attacker what no sandbox
// has, the rights of root in the sandbox's own network namespace, as if
// gVisor's kernel were taken over. The rules are not there: nothing gets out.
func TestEGR03_AllPowerInTheSandboxsNamespace(t *testing.T) {
	t.Attr("claim", "EGR-03")
	t.Parallel()
	const spoofed = "192.0.0.3"
	setup := strings.Join([]string{
		"ip addr add 192.0.0.2/29 dev eth0", "ip route add default via 192.0.0.1",
		"ip addr add " + spoofed + "/32 dev eth0",
		"sysctl -q -w net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.eth0.disable_ipv6=0 net.ipv4.conf.all.route_localnet=1",
		"ip -6 addr add 2600:11::99/64 dev eth0 nodad", "ip -6 route add default dev eth0",
		"ip route add 127.77.0.0/16 via 192.0.0.1 src 192.0.0.2", // A068
		"nft list ruleset; ip addr show eth0",
	}, "; ")
	unheard := beside(attempt{Name: "A121 spoofed source", Op: "dial", Net: "tcp", To: "11.0.0.10:80", From: spoofed, Wait: 4 * time.Second, Send: [][]byte{[]byte("GET / HTTP/1.1\r\nHost: allow.test\r\n\r\n")}, inside: slowly(fails("timeout"))})
	list := []attempt{
		script("take over", setup, nil, func(v verdict) string {
			if s := lacks("table")(v); s != "" {
				return s
			}
			return reaches("192.0.0.2")(v)
		}),
		web("allowed: the way is open", "11.0.0.10:80", "allow.test", nil, reaches(helloAllowed)),
		web("HTTP", "11.0.0.66:80", "evil.test", nil, gets403("not-allowed")),
		echo("raw", "11.0.0.66:7", "ping\n", nil, fails("ECONNRESET")),
		packet("UDP", "11.0.0.66:123", []byte("hi"), nil, fails("ECONNREFUSED")),
		packet("DNS port of another protocol", "11.0.0.66:123", []byte("hi"), nil, fails("ECONNREFUSED")),
		raw("ping", syscall.AF_INET, syscall.SOCK_RAW, syscall.IPPROTO_ICMP, "11.0.0.66:0", icmpEcho(), nil, fails("timeout", "EHOSTUNREACH", "EACCES", "EPERM")),
		raw("A112 GRE", syscall.AF_INET, syscall.SOCK_RAW, syscall.IPPROTO_GRE, "11.0.0.66:0", []byte("in a tunnel"), nil, silence),
		raw("A112 IPv6 in IPv4", syscall.AF_INET, syscall.SOCK_RAW, syscall.IPPROTO_IPV6, "11.0.0.66:0", []byte("in a tunnel"), nil, silence),
		raw("A112 SCTP", syscall.AF_INET, syscall.SOCK_RAW, ipSCTP, "11.0.0.66:0", []byte("in a tunnel"), nil, silence),
		raw("A112 UDP-Lite", syscall.AF_INET, syscall.SOCK_DGRAM, ipUDPLite, "11.0.0.66:123", []byte("hi"), nil, silence),
		raw("A109 ping by IPv6", syscall.AF_INET6, syscall.SOCK_RAW, syscall.IPPROTO_ICMPV6, "[2600:11::66]:0", []byte{128, 0, 0, 0, 0, 1, 0, 1}, nil, silence),
		beside(web("A110 IPv6", "[2600:11::66]:80", "evil.test", nil, slowly(fails("timeout", "EHOSTUNREACH")))),
		beside(web("A068 the host's loopback by a route", "127.77.0.1:8080", "x", nil, slowly(fails("timeout")))),
		unheard,
	}
	for i := range list { // a kernel may wait for an answer that never comes
		if list[i].Op == "socket" {
			list[i].Wait, list[i].Quick, list[i].Beside = time.Second, 0, true
			list[i].inside = sent(slowly(list[i].inside))
		}
	}
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		lab := netlab.New(t)
		world(lab)
		y.Wrap = lab.Enter
		box := y.Start(t, "run", "--allow", "allow.test", "--", "sh", "-c", "echo ready; sleep 100")
		box.Await(t, "ready")
		putProbe(t, y, list)
		pids := inNamespace(t, box.Cmd.Process.Pid)
		for _, pid := range pids { // what is taken over does not answer for itself
			if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), yard.Timeout)
		defer cancel()
		cmd := exec.CommandContext(ctx, "nsenter", "-t", strconv.Itoa(pids[0]), "-n", "--", filepath.Join(y.Dir, "netprobe"), "attempts.json")
		cmd.Dir = y.Dir
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("in the sandbox's namespace: %v", err)
		}
		holdAll(t, "in the sandbox's namespace", list, string(out), func(a attempt) want { return a.inside })
		stayed(t, lab, []netip.AddrPort{onAllowed(80)}, "allow.test")
	})
}

// inNamespace returns the processes below pid that are in another network
// namespace with a link.
func inNamespace(t *testing.T, pid int) []int {
	t.Helper()
	own, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		t.Fatal(err)
	}
	var list []int
	for _, p := range descendants(t, pid) {
		ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", p))
		if err == nil && ns != own && strings.Contains(readProc(t, p, "net/dev"), "eth0:") {
			list = append(list, p)
		}
	}
	if len(list) == 0 {
		t.Fatal("no process is in the sandbox's network namespace")
	}
	return list
}

// TestEGR07_NothingIsImplied: what cannot mean what its author thinks stops
// the start. This version has no policy file, so its keys are flags and
// variables.
func TestEGR07_NothingIsImplied(t *testing.T) {
	t.Attr("claim", "EGR-07")
	t.Parallel()
	type start struct {
		flags []string
		env   string
		says  string
	}
	bad := []start{
		{flags: []string{"--net", "allow"}, says: "network mode allow has no allow rule"},
		{flags: []string{"--net", "allow", "--deny", "evil.test"}, says: "network mode allow has no allow rule"},
		{env: "BAILEY_NET=allow", says: "network mode allow has no allow rule"},
		{flags: []string{"--net", "fullest"}, says: `"fullest"`},
		{flags: []string{"--net", "Open"}, says: `"Open"`},
		{flags: []string{"--net", "on"}, says: `"on"`},
		{flags: []string{"--net", ""}, says: "--net"},
		{flags: []string{"--net=", "--allow", "allow.test"}, says: "--net"},
		{env: "BAILEY_NET=anything", says: `"anything"`},
		{flags: []string{"--net", "none", "--allow", "allow.test"}, says: "contradict"},
		{flags: []string{"--alow", "allow.test"}, says: "--alow"},
		{flags: []string{"--allow-all"}, says: "--allow-all"},
		{flags: []string{"--allow"}, says: "--allow"},
	}
	for _, rule := range []string{
		"", "*", "*.com", "*.github.io", "*.s3.amazonaws.com", "https://allow.test/", "allow.test/path", "a b", "allow.test:0", "allow.test:99999",
		"allow.test:http", "allow.test:", "api.*.test", "allow.*", "*allow.test", "user@allow.test", "allow", "10.0.0.0/8", "a,b.test", "allow.test..", "127.1", "0x7f.1", "2130706433",
		"xn--allow-.test", "[allow.test]:80", "2600:11::66:443:x",
	} { // A044, A046, A050
		bad = append(bad, start{flags: []string{"--allow", rule}, says: strconv.Quote(rule)})
		if !strings.HasPrefix(rule, "*.") && rule != "10.0.0.0/8" { // a deny rule cannot be too broad
			bad = append(bad, start{flags: []string{"--allow", "allow.test", "--deny", rule}, says: strconv.Quote(rule)})
		}
	}
	y := yard.Unprivileged(t)
	lab := netlab.New(t)
	y.Wrap = lab.Enter
	began := func(s start) yard.Result {
		return y.RunWith(t, func(cmd *exec.Cmd) {
			if s.env != "" {
				cmd.Env = append(cmd.Env, s.env)
			}
		}, append(append([]string{"run"}, s.flags...), "--", "echo", "it ran")...)
	}
	for _, s := range bad {
		r := began(s)
		lines := strings.Count(strings.TrimSpace(r.Stderr), "\n") + 1
		if r.Code != 125 || strings.Contains(r.Stdout, "it ran") || !strings.Contains(r.Stderr, s.says) || lines > 2 {
			t.Errorf("A044, A046: %q %s: code %d, want 125 and one message with %q:\n%s%s", s.flags, s.env, r.Code, s.says, r.Stdout, r.Stderr)
		}
	}
	for _, s := range []start{ // twins
		{flags: []string{"--net", "allow", "--allow", "allow.test"}},
		{flags: []string{"--allow", "*.allow.test:8443", "--deny", "*.com"}},
		{env: "BAILEY_NET=none"},
		{flags: []string{"--net", "open"}},
	} {
		if r := began(s); r.Code != 0 || !strings.Contains(r.Stdout, "it ran") {
			t.Errorf("%q %s: %d %s", s.flags, s.env, r.Code, r.Stderr)
		}
	}
	if c := lab.Connections(); len(c) > 0 {
		t.Errorf("connections: %v", c)
	}
}

// TestEGR11_DecisionsAreEvents holds the part that this version has: the
// program that asked is not known.
func TestEGR11_DecisionsAreEvents(t *testing.T) {
	t.Attr("claim", "EGR-11")
	t.Parallel()
	const secret = "s3cr3t-of-the-body"
	list := []attempt{
		{Name: "look-up", Op: "lookup", To: "allow.test", inside: works},
		{Name: "refused look-up", Op: "lookup", To: "evil.test", Wait: 3 * time.Second, inside: fails("not found")},
		say("HTTP", "11.0.0.10:80", "POST /path?q="+secret+" HTTP/1.1\r\nHost: allow.test\r\nAuthorization: "+secret+"\r\nContent-Length: 18\r\nConnection: close\r\n\r\n"+secret, nil, reaches(helloAllowed)),
		secure("TLS", "11.0.0.66:443", "www.allow.test", nil, reaches("hello from www.allow.test at 11.0.0.10")),
		echo("raw", "11.0.0.10:7", secret+"\n", nil, reaches(secret)),
		web("refused HTTP", "11.0.0.66:80", "evil.test", nil, gets403("not-allowed")),
		secure("refused TLS", "11.0.0.66:443", "evil.test", nil, fails("ECONNRESET")),
		echo("refused raw", "11.0.0.66:7", "ping\n", nil, fails("ECONNRESET")),
		// One that would fill its reader's line, at six bytes of JSON for each of its own.
		say("refused at length", "11.0.0.10:80", "GET / HTTP/1.1\r\nHost: allow.test\r\n"+strings.Repeat("&", 60000)+": \x01\r\n\r\n", nil, getsStatus("400 Bad Request", "bad-request")),
		web("denied", "11.0.0.10:80", "api.openai.com", nil, gets403("denied-by-rule")),
	}
	events := []bailey.Event{
		{Protocol: "dns", Host: "allow.test", Verdict: "allow", Rule: "allow.test"},
		{Protocol: "dns", Host: "evil.test", Verdict: "deny", Reason: "not-allowed"},
		{Protocol: "http", Host: "allow.test", Port: 80, Address: "11.0.0.10", Method: "POST", Verdict: "allow", Rule: "allow.test"},
		{Protocol: "tls", Host: "www.allow.test", Port: 443, Address: "11.0.0.10", Verdict: "allow", Rule: "*.allow.test"},
		{Protocol: "tcp", Port: 7, Address: "11.0.0.10", Verdict: "allow", Rule: "11.0.0.10:7"},
		{Protocol: "http", Host: "evil.test", Port: 80, Address: "11.0.0.66", Method: "GET", Verdict: "deny", Reason: "not-allowed"},
		{Protocol: "tls", Host: "evil.test", Port: 443, Address: "11.0.0.66", Verdict: "deny", Reason: "not-allowed"},
		{Protocol: "tcp", Port: 7, Address: "11.0.0.66", Verdict: "deny", Reason: "not-allowed"},
		{Protocol: "http", Port: 80, Address: "11.0.0.10", Verdict: "deny", Reason: "bad-request"},
		{Protocol: "http", Host: "api.openai.com", Port: 80, Address: "11.0.0.10", Method: "GET", Verdict: "deny", Rule: "api.openai.com", Reason: "denied-by-rule"},
	}
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		lab := netlab.New(t)
		world(lab)
		y.Wrap = lab.Enter
		putProbe(t, y, list)
		box := y.Start(t, "run", "--json", "--allow", "allow.test", "--allow", "*.allow.test", "--allow", "11.0.0.10:7", "--deny", "api.openai.com", "--",
			"sh", "-c", "./netprobe attempts.json; read line")
		// They can be followed while the command runs.
		yard.Eventually(t, yard.Timeout, func() bool {
			_, said := box.Output()
			return strings.Contains(said, "denied-by-rule")
		}, func() string { out, said := box.Output(); return out + said })
		_, _ = io.WriteString(box.Stdin, "go\n")
		r := box.Wait(t, 10*time.Second).OK(t)
		holdAll(t, "inside", list, r.Stdout, func(a attempt) want { return a.inside })
		got := decisions(t, r)
		for i, ev := range got {
			if time.Since(ev.Time) > 10*time.Minute || !regexp.MustCompile(`^sbx_[0-9a-f]{16}$`).MatchString(string(ev.Sandbox)) {
				t.Errorf("event without its time or sandbox: %+v", ev)
			}
			if ev.Verdict == "deny" && ev.Message == "" {
				t.Errorf("refused without a word: %+v", ev)
			}
			if ev.Verdict == "allow" && ev.Protocol != "dns" && (ev.BytesIn == 0 || ev.BytesOut == 0) {
				t.Errorf("allowed without its bytes: %+v", ev)
			}
			if ev.Protocol != "dns" && ev.Connection == 0 {
				t.Errorf("a connection without a number: %+v", ev)
			}
			got[i].Time, got[i].Type, got[i].Sandbox, got[i].Message, got[i].BytesIn, got[i].BytesOut = time.Time{}, "", "", "", 0, 0
			got[i].DurationMS, got[i].Connection = 0, 0
		}
		byText := cmpopts.SortSlices(func(a, b bailey.Event) bool { return fmt.Sprint(a) < fmt.Sprint(b) })
		if diff := cmp.Diff(events, got, byText); diff != "" {
			t.Errorf("decisions (-want +got):\n%s", diff)
		}
		if strings.Contains(r.Stderr, secret) || strings.Contains(r.Stderr, "/path") {
			t.Error("an event holds what was sent")
		}
	})
}

// TestEGR12_AStoppedSandboxHasNoConnection holds the part about the end of a
// run.
func TestEGR12_AStoppedSandboxHasNoConnection(t *testing.T) {
	t.Attr("claim", "EGR-12")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		lab := netlab.New(t)
		y.Wrap = lab.Enter
		ln := lab.Listen("11.0.0.10:9000")
		ended := make(chan struct{}, 2)
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					_, _ = io.WriteString(c, "welcome\n")
					_, _ = io.Copy(io.Discard, c)
					ended <- struct{}{}
				}()
			}
		}()
		const hold = `import socket, time; s = socket.create_connection(("11.0.0.10", 9000)); print(s.recv(99).decode(), flush=True); time.sleep(600)`
		for _, end := range []string{"stop", "kill"} { // A129: next to nothing of it is left for whoever comes after
			box := y.Start(t, "run", "--name", "held-"+end, "--allow", "11.0.0.10:9000", "--", python, "-c", hold)
			box.Await(t, "welcome")
			select {
			case <-ended:
				t.Fatal("the connection did not last until the end")
			default:
			}
			if end == "stop" {
				y.Run(t, "stop", "held-stop").OK(t)
			} else if err := box.Cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			select { // what stop has stopped is gone when it says so, or next to
			case <-ended:
			case <-time.After(atOnce):
				t.Errorf("A129 %s: the connection is still open", end)
			}
		}
	})
}

// TestEGR13_DenyWins holds the part about deny rules; there are no images that
// could name rules.
func TestEGR13_DenyWins(t *testing.T) {
	t.Attr("claim", "EGR-13")
	t.Parallel()
	denied, gone := gets403("denied-by-rule", "the deny rule"), fails("ECONNRESET")
	deny := []attempt{
		web("denied", "11.0.0.10:80", "bad.wild.test", reaches("hello from bad.wild.test"), denied),
		web("A049 in another form", "11.0.0.10:80", "BAD.Wild.Test.", reaches("hello from"), denied),
		secure("denied, TLS", "11.0.0.10:443", "bad.wild.test", reaches("hello from bad.wild.test"), gone),
		web("below a denied wildcard", "11.0.0.10:80", "x.worse.wild.test", reaches("hello from"), denied),
		{Name: "look-up", Op: "lookup", To: "bad.wild.test", Quick: atOnce, host: reaches("11.0.0.10"), inside: fails("not found")},
		web("one port", "11.0.0.10:80", "half.wild.test", reaches("hello from"), denied),
		secure("the other port", "11.0.0.10:443", "half.wild.test", reaches("hello from"), reaches("hello from half.wild.test")),
		web("a denied address by number", "11.0.0.66:80", "11.0.0.66", reaches("at 11.0.0.66"), denied),
		web("a denied address by a name", "11.0.0.10:80", "moved.wild.test", nil, gets403("denied-by-rule", "moved.wild.test resolves to 11.0.0.66")),
		web("the rest", "11.0.0.10:80", "good.wild.test", reaches("hello from good.wild.test"), reaches("hello from good.wild.test at 11.0.0.10")),
	}
	prepare := func(lab *netlab.Lab) {
		for _, n := range []string{"bad", "x.worse", "half", "good"} {
			lab.Name(n+".wild.test", netlab.Allowed)
		}
		lab.Name("moved.wild.test", netlab.Evil)
	}
	both(t, deny, prepare, func(t *testing.T, y *yard.Yard, lab *netlab.Lab) {
		// What a sandbox or a repository could leave to be read next time.
		for _, name := range []string{".bailey", ".bailey.yaml", "bailey.yml", ".bailey.toml", ".env", "bailey.json", ".bailey/config.yaml"} {
			if name != ".bailey" {
				y.Write(t, name, "net: open\nallow: ['*']\nBAILEY_NET=open\n")
			}
		}
		denials := []string{"--deny", "bad.wild.test", "--deny", "*.worse.wild.test", "--deny", "half.wild.test:80", "--deny", "11.0.0.66"}
		attack(t, y, deny, append([]string{"--allow", "*.wild.test", "--allow", "bad.wild.test", "--allow", "11.0.0.66:80"}, denials...)...)
		attack(t, y, deny, append([]string{"--net", "open"}, denials...)...)
		stayed(t, lab, []netip.AddrPort{onAllowed(80), onAllowed(443)}, "half.wild.test", "good.wild.test", "moved.wild.test")
		// Without a flag all is denied, whatever lies in the folder.
		attack(t, y, []attempt{web("A162 none", "11.0.0.10:80", "good.wild.test", nil, fails("ENETUNREACH"))})
		// Twin: without the deny rules the same is reached.
		open := slices.Clone(deny)
		for i := range open {
			open[i].inside = open[i].host
		}
		open = slices.DeleteFunc(open, func(a attempt) bool { return a.inside == nil })
		attack(t, y, open, "--net", "open")
	})
}

// TestEGR13_DeniedRanges: a deny rule for a range beats what allows an address
// or a name in it, and is named.
func TestEGR13_DeniedRanges(t *testing.T) {
	t.Attr("claim", "EGR-13")
	t.Parallel()
	denied, gone := gets403("denied-by-rule", "the deny rule 11.0.0.64/26", "11.0.0.66"), fails("ECONNRESET")
	list := []attempt{
		web("by number", "11.0.0.66:80", "11.0.0.66", reaches("at 11.0.0.66"), denied),
		echo("by number, another protocol", "11.0.0.66:7", "ping\n", reaches("ping"), gone),
		web("by an allowed name", "11.0.0.66:80", "evil.test", reaches("at 11.0.0.66"), denied),
		secure("by an allowed name, TLS", "11.0.0.66:443", "evil.test", reaches("at 11.0.0.66"), gone),
		web("by a name that has moved", "11.0.0.10:80", "moved.test", nil, denied),
		{Name: "look-up", Op: "lookup", To: "evil.test", Quick: atOnce, host: reaches("11.0.0.66"), inside: fails("not found")},
		web("beside the range", "11.0.0.10:80", "allow.test", reaches("hello from allow.test"), reaches(helloAllowed)),
		web("a name, where a rule denies it", "11.0.0.10:80", "part.test", reaches("hello from part.test"), gets403("denied-by-rule", "the deny rule part.test", "11.0.0.10")),
	}
	prepare := func(lab *netlab.Lab) {
		lab.Name("moved.test", netlab.Evil)
		lab.Name("part.test", netlab.Allowed)
	}
	both(t, list, prepare, func(t *testing.T, y *yard.Yard, lab *netlab.Lab) {
		y.WriteHome(t, ".config/bailey/config.yaml", "net:\n  mode: open\n  deny:\n    - 11.0.0.64/26\n    - {host: part.test, addresses: [11.0.0.8/29]}\n")
		attack(t, y, list)
		attack(t, y, list, "--allow", "evil.test", "--allow", "11.0.0.66:80", "--allow", "11.0.0.66:7", "--allow", "moved.test", "--allow", "allow.test", "--allow", "part.test", "--deny", "11.0.0.64/26")
		stayed(t, lab, []netip.AddrPort{onAllowed(80)}, "allow.test", "evil.test", "moved.test", "part.test")
	})
}

// TestEGR15_OpenIsNamed: the one mode that guards less has to be asked for by
// name, and the header says it.
func TestEGR15_OpenIsNamed(t *testing.T) {
	t.Attr("claim", "EGR-15")
	t.Parallel()
	const header = "network: open: any public address"
	refused := gets403("not-allowed")
	list := []attempt{
		web("HTTP", "11.0.0.66:80", "evil.test", reaches("hello from evil.test"), reaches("hello from evil.test at 11.0.0.66")),
		secure("TLS", "11.0.0.66:443", "evil.test", reaches("hello from evil.test"), reaches("hello from evil.test at 11.0.0.66")),
		echo("raw", "11.0.0.66:7", "ping\n", reaches("ping"), reaches("ping")),
		echo("SSH", "11.0.0.66:22", "", reaches("SSH-2.0-lab"), reaches("SSH-2.0-lab")),
		{Name: "look-up", Op: "lookup", To: "evil.test", host: reaches("11.0.0.66"), inside: reaches("11.0.0.66")},
		// Open is not everything.
		packet("UDP", "11.0.0.66:123", []byte("hi"), reaches("hi"), fails("ECONNREFUSED")),
		web("private", "10.11.12.13:8080", "10.11.12.13:8080", reaches(netlab.PrivateCanary), gets403("special-address")),
	}
	both(t, list, world, func(t *testing.T, y *yard.Yard, lab *netlab.Lab) {
		r := attack(t, y, list, "--net", "open")
		if !strings.Contains(r.Stderr, header) {
			t.Errorf("the header does not say it:\n%s", r.Stderr)
		}
		stayed(t, lab, []netip.AddrPort{onEvil(80), onEvil(443), onEvil(7), onEvil(22)}, "evil.test")
		if r := y.RunWith(t, func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, "BAILEY_NET=open") }, "run", "--", "true").OK(t); !strings.Contains(r.Stderr, header) {
			t.Errorf("by the variable: the header does not say it:\n%s", r.Stderr)
		}
		r = y.Run(t, "run", "--json", "--net", "open", "--", "true").OK(t)
		var first bailey.Event
		if err := json.NewDecoder(strings.NewReader(r.Stderr)).Decode(&first); err != nil || !strings.Contains(first.Message, "network: open") {
			t.Errorf("the first event does not say it: %+v %v", first, err)
		}
		// Twin: nothing else opens it.
		for _, flags := range [][]string{{"--allow", "allow.test"}, {"--net", "allow", "--allow", "*.allow.test"}} {
			r := attack(t, y, []attempt{web("HTTP", "11.0.0.66:80", "evil.test", nil, refused)}, flags...)
			if strings.Contains(r.Stderr, "open") {
				t.Errorf("%q: %s", flags, r.Stderr)
			}
		}
	})
}
