package spec_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// publishedServer is a server at an address and a port of the sandbox: it reads
// until the client has no more, and answers with what it got. For "flood" it
// sends without an end instead and reads nothing.
const publishedServer = `
import socket, sys, threading
host, port = sys.argv[1], int(sys.argv[2])
s = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=256)
print("listening", flush=True)
def serve(c):
    with c:
        if sys.argv[3] == "flood":
            try:
                while True: c.sendall(b"x" * 65536)
            except OSError: return
        got = b""
        while True:
            b = c.recv(65536)
            if not b: break
            got += b
        c.sendall(b"echo:" + got)
while True:
    threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
`

// freePort is one that nothing listens at, at either address of the loopback.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// throughPort sends text, ends its own direction, and returns the answer.
func throughPort(host string, port int, text string) (string, error) {
	conn, err := net.DialTimeout("tcp", net.JoinHostPort(host, strconv.Itoa(port)), 10*time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(conn, text); err != nil {
		return "", err
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	return string(answer), err
}

func TestISO02_PublishedPortLeadsInside(t *testing.T) {
	t.Attr("claim", "ISO-02")
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		y.Write(t, "serve.py", publishedServer)
		for i, host := range []string{"127.0.0.1", "::1", "0.0.0.0"} {
			if host == "0.0.0.0" && !y.Turn(i) {
				continue
			}
			t.Run(host, func(t *testing.T) {
				port := freePort(t)
				r := y.Start(t, "run", "--publish", strconv.Itoa(port), "--", python, "serve.py", host, strconv.Itoa(port), "echo")
				r.Await(t, "listening")
				if _, header := r.Output(); !strings.Contains(header, fmt.Sprintf("published: 127.0.0.1:%d and [::1]:%d of this machine lead to port %d inside", port, port, port)) {
					t.Errorf("header:\n%s", header)
				}
				if out := y.Run(t, "ps").OK(t).Stdout; !strings.Contains(out, fmt.Sprintf("none+publish=%d ", port)) {
					t.Errorf("ps:\n%s", out)
				}
				for _, from := range []string{"127.0.0.1", "::1"} {
					big := strings.Repeat("0123456789abcdef", 1<<16) // more than any buffer on the way
					if got, err := throughPort(from, port, big); err != nil || got != "echo:"+big {
						t.Errorf("from %s: %d bytes, %v", from, len(got), err)
					}
				}
				crowd(t, port)
				otherAddresses(t, port)
				_ = r.Cmd.Process.Signal(syscall.SIGTERM)
				r.Wait(t, time.Minute)
				if _, err := throughPort("127.0.0.1", port, "x"); !errors.Is(err, syscall.ECONNREFUSED) {
					t.Errorf("after the end: %v", err)
				}
			})
		}
	})
}

// crowd makes more connections at once than are passed on.
func crowd(t *testing.T, port int) {
	t.Helper()
	var all sync.WaitGroup
	for n := range 160 {
		all.Go(func() {
			want := fmt.Sprintf("number %d", n)
			if got, err := throughPort("127.0.0.1", port, want); err != nil || got != "echo:"+want {
				t.Errorf("connection %d: %q, %v", n, got, err)
			}
		})
	}
	all.Wait()
}

// otherAddresses tries the port at every other address of this machine.
func otherAddresses(t *testing.T, port int) {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		ip := a.(*net.IPNet).IP
		if ip.IsLoopback() || ip.IsLinkLocalUnicast() {
			continue
		}
		if _, err := throughPort(ip.String(), port, "x"); err == nil {
			t.Errorf("the port is bound at %s too", ip)
		}
	}
}

// TestISO02_NothingIsPublishedUnasked is the twin: the same server, and no flag.
func TestISO02_NothingIsPublishedUnasked(t *testing.T) {
	t.Attr("claim", "ISO-02")
	yard.InTurn(t, 1, func(t *testing.T, y *yard.Yard) {
		y.Write(t, "serve.py", publishedServer)
		port := freePort(t)
		r := y.Start(t, "run", "--quiet", "--", python, "serve.py", "0.0.0.0", strconv.Itoa(port), "echo")
		r.Await(t, "listening")
		if got, err := throughPort("127.0.0.1", port, "x"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("reached: %q, %v", got, err)
		}
	})
}

func TestISO02_PublishedPortsFail(t *testing.T) {
	t.Attr("claim", "ISO-02")
	yard.InTurn(t, 1, func(t *testing.T, y *yard.Yard) {
		taken, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer taken.Close()
		port := taken.Addr().(*net.TCPAddr).Port
		for _, c := range []struct{ flag, says string }{
			{strconv.Itoa(port), fmt.Sprintf("port %d of 127.0.0.1 cannot be bound: address already in use", port)},
			{"0", `"0" is not a port`},
			{"70000", "is not a port"},
			{"127.0.0.1:80:80", "is not a port"},
			{"0.0.0.0:80", "is not a port"},
			{"", "is not a port"},
		} {
			r := y.Sh(t, "touch ran", "--publish", c.flag).Exit(t, 125)
			if !strings.Contains(r.Stderr, c.says) {
				t.Errorf("--publish %q: %s", c.flag, r.Stderr)
			}
			if _, err := os.Lstat(filepath.Join(y.Dir, "ran")); err == nil {
				t.Fatalf("--publish %q: the command ran", c.flag)
			}
		}
	})
}

func TestReportC10_APortThatNothingListensAt(t *testing.T) {
	yard.InTurn(t, 1, func(t *testing.T, y *yard.Yard) {
		y.Write(t, "serve.py", publishedServer)
		host := freePort(t)
		r := y.Start(t, "run", "--name", "web", "--publish", fmt.Sprintf("%d:3000", host), "--", "sh", "-c", "echo up; read -r x; exec python3 serve.py ::1 3000 echo")
		r.Await(t, "up")
		const says = "nothing listens at port 3000 inside sandbox web, neither at 127.0.0.1 nor at ::1"
		got, err := throughPort("::1", host, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if err != nil || !strings.HasPrefix(got, "HTTP/1.1 502 ") || !strings.Contains(got, says) {
			t.Errorf("a browser is told %q, %v", got, err)
		}
		if got, err := throughPort("127.0.0.1", host, "\x16\x03\x01"); err == nil || got != "" {
			t.Errorf("another client: %q, %v; want a reset", got, err)
		}
		yard.Eventually(t, time.Minute, func() bool { _, errOut := r.Output(); return strings.Contains(errOut, says) }, func() string { return "the run does not say it" })
		if out := y.Run(t, "ps").OK(t).Stdout; !strings.Contains(out, fmt.Sprintf("+publish=%d(nothing listens)", host)) {
			t.Errorf("ps:\n%s", out)
		}
		_, _ = io.WriteString(r.Stdin, "go\n")
		r.Await(t, "listening")
		if got, err := throughPort("127.0.0.1", host, "now"); err != nil || got != "echo:now" {
			t.Errorf("once something listens: %q, %v", got, err)
		}
		if out := y.Run(t, "ps").OK(t).Stdout; strings.Contains(out, "nothing listens") {
			t.Errorf("ps:\n%s", out)
		}
	})
}

// TestISO08_APublishedFloodIsBounded: a server that sends without an end to
// clients that read nothing takes no more than its buffers, and keeps nobody
// else waiting.
func TestISO08_APublishedFloodIsBounded(t *testing.T) {
	t.Attr("claim", "ISO-08")
	yard.InTurn(t, 1, func(t *testing.T, y *yard.Yard) {
		y.Write(t, "serve.py", publishedServer)
		port := freePort(t)
		r := y.Start(t, "run", "--quiet", "--name", "flood", "--publish", strconv.Itoa(port), "--", python, "serve.py", "127.0.0.1", strconv.Itoa(port), "flood")
		r.Await(t, "listening")
		for range 40 {
			conn, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), 10*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			first := make([]byte, 1)
			_ = conn.SetDeadline(time.Now().Add(time.Minute))
			if _, err := io.ReadFull(conn, first); err != nil || !bytes.Equal(first, []byte("x")) {
				t.Fatalf("nothing came: %v", err)
			}
		}
		if out := y.Run(t, "exec", "flood", "echo", "there").OK(t).Stdout; out != "there\n" {
			t.Errorf("exec: %q", out)
		}
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.Cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(status), "VmRSS:")
		kb, _ := strconv.Atoi(strings.Fields(rest)[0])
		if kb == 0 || kb > 200<<10 {
			t.Errorf("bailey takes %d KB", kb)
		}
		t.Logf("bailey takes %d KB with 40 floods", kb)
	})
}
