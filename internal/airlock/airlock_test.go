package airlock_test

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/airlock"
	"github.com/bailey-dev/bailey/internal/linux/netns"
	"github.com/bailey-dev/bailey/internal/linux/thread"
)

// build makes an airlock that goes with the test.
func build(tb testing.TB) *airlock.Lock {
	tb.Helper()
	l, err := airlock.Build(airlock.Config{})
	if err != nil {
		tb.Fatalf("build: %v", err)
	}
	tb.Cleanup(func() {
		if err := l.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
			tb.Errorf("close: %v", err)
		}
	})
	return l
}

// inside runs fn on a thread in the sandbox's namespace.
func inside(tb testing.TB, l *airlock.Lock, fn func() error) {
	tb.Helper()
	if err := tryInside(l, fn); err != nil {
		tb.Fatal(err)
	}
}

func tryInside(l *airlock.Lock, fn func() error) error {
	return thread.Run(func() error {
		if err := netns.Enter(l.Sandbox); err != nil {
			return err
		}
		return fn()
	})
}

func TestBuild_AddressesAndFiles(t *testing.T) {
	t.Parallel()
	l := build(t)
	got := []string{l.Address.String(), l.Gateway.String()}
	if diff := cmp.Diff([]string{"192.0.0.2/30", "192.0.0.1"}, got); diff != "" {
		t.Error(diff)
	}
	for name, f := range map[string]*os.File{"TCP": l.TCP, "DNSTCP": l.DNSTCP} {
		if ln, err := net.FileListener(f); err != nil {
			t.Errorf("%s is no listener: %v", name, err)
		} else if err := ln.Close(); err != nil {
			t.Error(err)
		}
	}
	pc, err := net.FilePacketConn(l.DNSUDP)
	if err != nil {
		t.Fatalf("DNSUDP is no packet socket: %v", err)
	}
	if err := pc.Close(); err != nil {
		t.Error(err)
	}
}

func TestBuild_SandboxHasLoopbackAndOneLink(t *testing.T) {
	t.Parallel()
	l := build(t)
	inside(t, l, func() error {
		c, err := netns.Dial()
		if err != nil {
			return err
		}
		defer c.Close()
		names, err := c.Names()
		if diff := cmp.Diff([]string{"lo", "eth0"}, names); diff != "" {
			t.Error(diff)
		}
		return err
	})
}

func TestBuild_LeavesNothingInItsOwnNamespace(t *testing.T) {
	before := links(t)
	l := build(t)
	during := links(t)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	want := [][]string{before, before, before}
	if diff := cmp.Diff(want, [][]string{before, during, links(t)}); diff != "" {
		t.Error(diff)
	}
	if rules, err := os.ReadFile("/proc/self/net/nf_conntrack"); err == nil && len(rules) > 0 {
		t.Errorf("connections are tracked in the caller's namespace: %s", rules)
	}
}

func links(t *testing.T) []string {
	t.Helper()
	c, err := netns.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	names, err := c.Names()
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestBuild_RefusesAWrongConfig(t *testing.T) {
	t.Parallel()
	two, three := netip.MustParsePrefix("10.9.0.2/30"), netip.MustParseAddr("10.9.0.3")
	for name, tc := range map[string]struct {
		cfg  airlock.Config
		says string
	}{
		"IPv6":               {airlock.Config{Sandbox: netip.MustParsePrefix("fd00::2/64"), Gateway: netip.MustParseAddr("fd00::1")}, "not both IPv4"},
		"gateway missing":    {airlock.Config{Sandbox: two}, "not both IPv4"},
		"gateway elsewhere":  {airlock.Config{Sandbox: two, Gateway: netip.MustParseAddr("10.9.0.9")}, "not another address"},
		"gateway is sandbox": {airlock.Config{Sandbox: two, Gateway: two.Addr()}, "not another address"},
		"loopback":           {airlock.Config{Sandbox: netip.MustParsePrefix("127.0.0.2/8"), Gateway: netip.MustParseAddr("127.0.0.1")}, "cannot be a host's"},
		"MTU":                {airlock.Config{Sandbox: two, Gateway: three, MTU: 70000}, "MTU 70000"},
		"ports":              {airlock.Config{TCPPort: 15053}, "given twice"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := airlock.Build(tc.cfg)
			if l != nil || bailey.KindOf(err) != bailey.Invalid || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v, %v; want an Invalid error with %q", l, err, tc.says)
			}
		})
	}
}

func TestBuild_TakesOtherAddresses(t *testing.T) {
	t.Parallel()
	l, err := airlock.Build(airlock.Config{
		Sandbox: netip.MustParsePrefix("10.200.0.2/30"), Gateway: netip.MustParseAddr("10.200.0.1"), MTU: 1500,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := serve(t, l)
	c := dial(t, l, "203.0.113.9:80")
	if got := p.next(t); got.from.Addr() != netip.MustParseAddr("10.200.0.2") {
		t.Errorf("connection came from %s", got.from)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func TestBuild_NamesTheLayerThatIsMissing(t *testing.T) {
	// The limit on namespaces is the user namespace's own; the helper may set it.
	const limit = "/proc/sys/user/max_net_namespaces"
	old, err := os.ReadFile(limit)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(limit, []byte("1"), 0o600); errors.Is(err, os.ErrPermission) {
		t.Skip("this id may not lower the limit on namespaces: tried by the others")
	} else if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := os.WriteFile(limit, old, 0o600); err != nil {
			t.Error(err)
		}
	}()
	l, err := airlock.Build(airlock.Config{})
	e, ok := errors.AsType[*bailey.Error](err)
	if l != nil || !ok || !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("got %v, %v; want a bailey.Error around ENOSPC", l, err)
	}
	if e.Kind != bailey.Exhausted || !strings.Contains(e.Message, "network namespace of the") ||
		!strings.Contains(e.Hint, "user.max_net_namespaces") {
		t.Errorf("got kind %s, message %q, hint %q", e.Kind, e.Message, e.Hint)
	}
}

func TestProbe_ListsEveryLayer(t *testing.T) {
	t.Parallel()
	layers := airlock.Probe()
	names := make([]string, 0, len(layers))
	for _, l := range layers {
		names = append(names, l.Name)
		if l.Err != nil {
			t.Errorf("%s: %v", l.Name, l.Err)
		}
	}
	want := []string{
		"network namespace of the sandbox", "network settings of the sandbox", "network namespace of the router",
		"network settings of the router", "veth pair", "listeners", "nftables rules", "link",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
}

// BenchmarkBuild reports the CPU time too, which a busy machine changes less.
func BenchmarkBuild(b *testing.B) {
	cpu := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := cpu()
	defer func() { b.ReportMetric(float64((cpu()-before).Microseconds())/1000/float64(b.N), "cpu-ms/op") }()
	for b.Loop() {
		l, err := airlock.Build(airlock.Config{})
		if err != nil {
			b.Fatal(err)
		}
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
