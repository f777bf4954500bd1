package airlock_test

import (
	"errors"
	"net"
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
	l, err := airlock.Build()
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

func TestBuild_Files(t *testing.T) {
	t.Parallel()
	l := build(t)
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
		names, err := links()
		if diff := cmp.Diff([]string{"lo", "eth0"}, names); diff != "" {
			t.Error("A122: links (-want +got):", diff)
		}
		return err
	})
}

func TestBuild_LeavesNothingInItsOwnNamespace(t *testing.T) {
	before, err := links()
	l := build(t)
	during, err2 := links()
	err3 := l.Close()
	after, err4 := links()
	if err := errors.Join(err, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	want := [][]string{before, before, before}
	if diff := cmp.Diff(want, [][]string{before, during, after}); diff != "" {
		t.Error(diff)
	}
	if rules, err := os.ReadFile("/proc/self/net/nf_conntrack"); err == nil && len(rules) > 0 {
		t.Errorf("connections are tracked in the caller's namespace: %s", rules)
	}
}

// links names the links of the calling thread's namespace.
func links() ([]string, error) {
	list, err := net.Interfaces() // asks on the calling thread
	names := make([]string, 0, len(list))
	for _, l := range list {
		names = append(names, l.Name)
	}
	return names, err
}

func TestBuild_NamesTheLayerThatIsMissing(t *testing.T) {
	// The limit on namespaces is the user namespace's own, and CAP_SYS_RESOURCE
	// in it may set it (kernel/ucount.c).
	const limit = "/proc/sys/user/max_net_namespaces"
	old, err := os.ReadFile(limit)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(limit, []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := os.WriteFile(limit, old, 0o600); err != nil {
			t.Error(err)
		}
	}()
	l, err := airlock.Build()
	e, ok := errors.AsType[*bailey.Error](err)
	if l != nil || !ok || !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("A126: got %v, %v; want a bailey.Error around ENOSPC", l, err)
	}
	if e.Kind != bailey.Exhausted || !strings.Contains(e.Message, "network namespace of the") ||
		!strings.Contains(e.Hint, "user.max_net_namespaces") {
		t.Errorf("got kind %s, message %q, hint %q", e.Kind, e.Message, e.Hint)
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
		l, err := airlock.Build()
		if err != nil {
			b.Fatal(err)
		}
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
