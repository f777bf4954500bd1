package airlock_test

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey/internal/airlock"
	"github.com/bailey-dev/bailey/internal/linux/netns"
	"github.com/bailey-dev/bailey/internal/linux/nft"
	"github.com/bailey-dev/bailey/internal/linux/thread"
)

// The negative twins: each takes one rule away and shows that what the rule
// is for then does not hold, so that the test of the rule can fail.

// without builds an airlock that lacks the rules with the given texts.
func without(t *testing.T, chain string, texts ...string) *airlock.Lock {
	t.Helper()
	rs := airlock.Rules()
	removed := 0
	for i := range rs.Chains {
		if rs.Chains[i].Name != chain {
			continue
		}
		rs.Chains[i].Rules = slices.DeleteFunc(rs.Chains[i].Rules, func(r nft.Rule) bool {
			if slices.Contains(texts, r.String()) {
				removed++
				return true
			}
			return false
		})
	}
	if removed != len(texts) {
		t.Fatalf("the rules are not there: %q\n%s", texts, rs)
	}
	l, err := airlock.BuildWith(rs)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
			t.Error(err)
		}
	})
	return l
}

const (
	rejectUDP   = "meta nfproto ipv4 meta l4proto udp reject with icmpx port-unreachable"
	rejectOther = "meta nfproto ipv4 reject with icmpx admin-prohibited"
)

func TestTwin_WithoutRejectPort_UDPGetsAnotherError(t *testing.T) {
	t.Parallel()
	l := without(t, "guard", rejectUDP)
	if err := sendAndRead(t, l, "1.2.3.4:443"); !errors.Is(err, syscall.EHOSTUNREACH) {
		t.Errorf("got %v, want EHOSTUNREACH", err)
	}
}

func TestTwin_WithoutReject_UDPGetsNoError(t *testing.T) {
	t.Parallel()
	l := without(t, "guard", rejectUDP, rejectOther)
	if err := sendAndRead(t, l, "1.2.3.4:443"); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v, want a time-out", err)
	}
}

// sendAndRead sends a datagram and waits a little for an answer or error.
func sendAndRead(t *testing.T, l *airlock.Lock, to string) error {
	t.Helper()
	c := dialUDP(t, l, to)
	if err := c.SetDeadline(time.Now().Add(2 * atOnce)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, "x"); err != nil {
		return err
	}
	_, err := c.Read(make([]byte, 1))
	return err
}

func TestTwin_WithoutReject_RawGetsNoError(t *testing.T) {
	t.Parallel()
	l := without(t, "guard", rejectOther)
	if err := tryInside(l, func() error { return rawRefused(unix.IPPROTO_ICMP, netip.MustParseAddr("1.2.3.4")) }); !errors.Is(err, errSilence) {
		t.Errorf("got %v, want no answer", err)
	}
}

// TestTwin_WithRateMask_RejectionsRunOut: the kernel's own limit on ICMP errors, put back.
func TestTwin_WithRateMask_RejectionsRunOut(t *testing.T) {
	t.Parallel()
	l := build(t)
	// R has no other name here than the network namespace of its sockets.
	inRouter(t, l, func() error {
		return netns.SetSysctls([]netns.Sysctl{{Key: "ipv4/icmp_ratemask", Value: "6168"}})
	})
	for range 30 {
		if err := sendAndRead(t, l, "1.2.3.4:443"); errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
	}
	t.Error("thirty in a row were refused at once")
}

// inRouter runs fn on a thread in the namespace of the listeners.
func inRouter(t *testing.T, l *airlock.Lock, fn func() error) {
	t.Helper()
	fd, err := unix.IoctlRetInt(int(l.TCP.Fd()), unix.SIOCGSKNS)
	if err != nil {
		t.Fatal(err)
	}
	ns := os.NewFile(uintptr(fd), "router")
	defer ns.Close()
	inside(t, &airlock.Lock{Sandbox: ns}, fn)
}

func TestTwin_WithoutSourceRule_SpoofedArrives(t *testing.T) {
	t.Parallel()
	l := without(t, "guard", "meta nfproto ipv4 ip saddr != 192.0.0.2 drop")
	p := serve(t, l)
	inside(t, l, func() error { return sendUDP(netip.MustParseAddr("192.0.0.3"), airlock.Gateway(), "spoofed") })
	if got := p.next(t); got.from.Addr() != netip.MustParseAddr("192.0.0.3") {
		t.Errorf("got %+v", got)
	}
}

func TestTwin_WithoutRedirect_TCPGoesNowhere(t *testing.T) {
	t.Parallel()
	l := without(t, "redirect", "meta nfproto ipv4 meta l4proto tcp redirect to :15001")
	err := tryInside(l, func() error {
		c, err := net.DialTimeout("tcp4", "203.0.113.9:80", 2*atOnce)
		if err == nil {
			_ = c.Close()
		}
		return err
	})
	if ne, ok := errors.AsType[net.Error](err); !ok || !ne.Timeout() {
		t.Errorf("got %v, want a time-out", err)
	}
}

func TestTwin_WithoutEstablished_NoAnswerLeaves(t *testing.T) {
	t.Parallel()
	l := without(t, "output", `oifname "r0" ct state established,related accept`)
	serve(t, l)
	err := tryInside(l, func() error {
		c, err := net.DialTimeout("tcp4", "203.0.113.9:80", 2*atOnce)
		if err == nil {
			_ = c.Close()
		}
		return err
	})
	if ne, ok := errors.AsType[net.Error](err); !ok || !ne.Timeout() {
		t.Errorf("got %v, want a time-out", err)
	}
}

// TestRouter_OpensNothingToTheSandbox: whoever holds R's sockets, or is in R,
// cannot begin a conversation.
func TestRouter_OpensNothingToTheSandbox(t *testing.T) {
	t.Parallel()
	l := build(t)
	inside(t, l, func() error {
		ln, err := net.Listen("tcp4", ":8080")
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = ln.Close() })
		return nil
	})
	inRouter(t, l, func() error {
		c, err := net.DialTimeout("tcp4", "192.0.0.2:8080", atOnce)
		if err == nil {
			_ = c.Close()
		}
		if ne, ok := errors.AsType[net.Error](err); !ok || !ne.Timeout() && !errors.Is(err, syscall.EPERM) {
			t.Errorf("got %v, want the packets dropped", err)
		}
		return nil
	})
	// The twin: the port is open, to the sandbox itself.
	inside(t, l, func() error {
		c, err := net.DialTimeout("tcp4", "192.0.0.2:8080", time.Second)
		if err == nil {
			err = c.Close()
		}
		return err
	})
}

// TestRouter_ForwardsNothing gives R a second link, which it never has, and
// lets UDP past guard. Two layers are left, and each holds without the other.
func TestRouter_ForwardsNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what               string
		rule, kernel, want bool // forwarding allowed; a packet arrives
	}{
		{"as built", false, false, false},
		{"the kernel forwards", false, true, false},
		{"the rules let pass", true, false, false},
		{"twin: both", true, true, true},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			l, err := airlock.BuildWith(forwarding(t, c.rule))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			outside := secondLink(t, l)
			if c.kernel {
				inRouter(t, l, func() error {
					return netns.SetSysctls([]netns.Sysctl{{Key: "ipv4/ip_forward", Value: "1"}})
				})
			}
			sent := dialUDP(t, l, outside.LocalAddr().String())
			if _, err := io.WriteString(sent, "x"); err != nil {
				t.Fatal(err)
			}
			wait := 2 * atOnce
			if c.want {
				wait = 5 * time.Second
			}
			if err := outside.SetReadDeadline(time.Now().Add(wait)); err != nil {
				t.Fatal(err)
			}
			if _, _, err := outside.ReadFrom(make([]byte, 9)); (err == nil) != c.want {
				t.Errorf("arrived: %v, want %v", err, c.want)
			}
		})
	}
}

// forwarding is the rule set with UDP let past guard, and the forward chain
// open or as it is.
func forwarding(t *testing.T, open bool) nft.Ruleset {
	t.Helper()
	rs := airlock.Rules()
	changed := 0
	for i := range rs.Chains {
		switch c := &rs.Chains[i]; c.Name {
		case "guard":
			for j := range c.Rules {
				if c.Rules[j].String() == rejectUDP {
					c.Rules[j].Verdict = nft.Accept()
					changed++
				}
			}
		case "forward":
			if open {
				c.Policy = nft.PolicyAccept
			}
			changed++
		}
	}
	if changed != 2 {
		t.Fatalf("the rules are not there:\n%s", rs)
	}
	return rs
}

// secondLink joins R to a namespace that plays the world and returns a socket
// there.
func secondLink(t *testing.T, l *airlock.Lock) net.PacketConn {
	t.Helper()
	world := &airlock.Lock{}
	if err := thread.Run(func() (err error) { world.Sandbox, err = netns.New(); return err }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = world.Sandbox.Close() })
	end := func(name, addr string) func() error {
		return func() error {
			c, err := netns.Dial()
			if err != nil {
				return err
			}
			defer c.Close()
			if name == "r1" {
				if _, err := c.AddVeth(netns.Veth{Name: name, PeerName: "world0", PeerNS: world.Sandbox, MTU: 1500}); err != nil {
					return err
				}
			}
			link, err := c.Link(name)
			if err != nil {
				return err
			}
			return errors.Join(c.AddAddress(link, netip.MustParsePrefix(addr)), c.Up(link))
		}
	}
	inRouter(t, l, end("r1", "198.51.100.1/24"))
	inside(t, world, end("world0", "198.51.100.2/24"))
	var pc net.PacketConn
	inside(t, world, func() error {
		c, err := netns.Dial()
		if err != nil {
			return err
		}
		defer c.Close()
		link, err := c.Link("world0")
		if err != nil {
			return err
		}
		if err := errors.Join(c.AddDefaultRoute(link, netip.MustParseAddr("198.51.100.1")), c.WaitUp(link)); err != nil {
			return err
		}
		pc, err = net.ListenPacket("udp4", "198.51.100.2:9999")
		return err
	})
	t.Cleanup(func() { _ = pc.Close() })
	return pc
}

// TestRouter_HasNoOtherLink also reads R's settings back.
func TestRouter_HasNoOtherLink(t *testing.T) {
	t.Parallel()
	l := build(t)
	inRouter(t, l, func() error {
		names, err := links()
		if diff := cmp.Diff([]string{"lo", "r0"}, names); diff != "" {
			t.Error(diff)
		}
		for key, want := range map[string]string{
			"ipv4/ip_forward": "0", "ipv4/conf/r0/rp_filter": "1", "ipv4/conf/all/rp_filter": "1",
			"ipv4/conf/r0/accept_redirects": "0", "ipv4/conf/all/accept_redirects": "0",
			"ipv4/conf/r0/route_localnet": "0", "ipv4/conf/all/route_localnet": "0",
			"ipv4/conf/r0/accept_source_route": "0", "ipv4/conf/r0/send_redirects": "0",
			"ipv6/conf/r0/disable_ipv6": "1",
		} {
			got, err := os.ReadFile("/proc/sys/net/" + key)
			if err != nil || string(got) != want+"\n" {
				t.Errorf("%s is %q (%v), want %s", key, got, err, want)
			}
		}
		return err
	})
}
