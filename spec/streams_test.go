package spec_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthapi "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/bailey-dev/bailey/internal/role"
	"github.com/bailey-dev/bailey/internal/testkit/netlab"
	"github.com/bailey-dev/bailey/internal/testkit/origin"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// streamPorts are those of the half-closing servers.
var streamPorts = []string{"9001", "9002"}

// TestEGR02_Streams talks in the ways that keep a connection for long: to the
// host that rules name all of them work, with the variables for a proxy and
// without; to the one that none names, none, at once. On the host, the twin,
// that one answers to all.
func TestEGR02_Streams(t *testing.T) {
	t.Attr("claim", "EGR-02")
	t.Parallel()
	y := yard.Unprivileged(t)
	lab := netlab.New(t)
	lab.Trust()
	serveStreams(lab, "allow.test", netlab.Allowed)
	serveStreams(lab, "evil.test", netlab.Evil)
	putProgram(t, y, "streams")

	t.Run("twin", func(t *testing.T) {
		cmd := exec.CommandContext(t.Context(), filepath.Join(y.Dir, "streams"), "evil.test")
		cmd.Env = []string{}
		lab.Enter(cmd)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		everyWay(t, string(out), func(said string) bool { return said == "ok" })
	})
	before := len(lab.Connections())
	y.Wrap = lab.Enter
	args := []string{"run", "--allow", "allow.test"}
	for _, port := range streamPorts {
		args = append(args, "--allow", "allow.test:"+port)
	}
	run := func(script string) string {
		return y.Run(t, append(slices.Clone(args), "--", "sh", "-c", script)...).Stdout
	}
	t.Run("allowed", func(t *testing.T) {
		everyWay(t, run("./streams allow.test"), func(said string) bool { return said == "ok" })
	})
	t.Run("A158 without variables for a proxy", func(t *testing.T) {
		everyWay(t, run(withoutProxy+"./streams allow.test"), func(said string) bool { return said == "ok" })
	})
	t.Run("not allowed", func(t *testing.T) {
		began := time.Now()
		everyWay(t, run("./streams evil.test"), func(said string) bool { return said != "ok" })
		if took := time.Since(began); took > 45*time.Second {
			t.Errorf("refusals took %v", took)
		}
		for _, c := range lab.Connections()[before:] {
			if c.To.Addr() == netlab.Evil {
				t.Errorf("%s to %s left the sandbox", c.Proto, c.To)
			}
		}
	})
}

// everyWay holds what became of every way.
func everyWay(t *testing.T, out string, want func(said string) bool) {
	t.Helper()
	ways := 0
	for line := range strings.Lines(out) {
		name, said, _ := strings.Cut(strings.TrimSpace(line), ": ")
		ways++
		if !want(said) {
			t.Errorf("%s: %s", name, said)
		}
	}
	if ways != 14 {
		t.Errorf("%d ways were tried:\n%s", ways, out)
	}
}

// serveStreams serves what testdata/streams asks for.
func serveStreams(lab *netlab.Lab, host string, at netip.Addr) {
	calls := grpc.NewServer()
	healthapi.RegisterHealthServer(calls, health.NewServer())
	got := make(chan int64, 10)
	mux := http.NewServeMux()
	mux.HandleFunc("/socket", origin.EchoSocket)
	mux.HandleFunc("/events", origin.Events)
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		_ = c.EnableFullDuplex()
		lines := bufio.NewScanner(r.Body)
		for lines.Scan() {
			_, _ = fmt.Fprintln(w, lines.Text())
			_ = c.Flush()
		}
	})
	mux.HandleFunc("/refusing", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusExpectationFailed) })
	mux.HandleFunc("/hello", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "hel")
		_ = http.NewResponseController(w).Flush()
		_, _ = io.WriteString(w, "lo")
	})
	mux.HandleFunc("/got", func(w http.ResponseWriter, r *http.Request) {
		select {
		case n := <-got:
			_, _ = fmt.Fprintf(w, "%d bytes", n)
		case <-r.Context().Done():
		}
	})
	lab.Handle(host, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			calls.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	each(lab.Listen(at.String()+":9001"), func(c *net.TCPConn) {
		n, _ := io.Copy(io.Discard, c)
		_, _ = fmt.Fprintf(c, "%d bytes", n)
	})
	each(lab.Listen(at.String()+":9002"), func(c *net.TCPConn) {
		_, _ = io.ReadFull(c, make([]byte, 5))
		_, _ = io.WriteString(c, "no more")
		_ = c.CloseWrite()
		n, _ := io.Copy(io.Discard, c)
		got <- n + 5
	})
}

// each serves every connection of a listener and closes it.
func each(ln net.Listener, serve func(*net.TCPConn)) {
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if tcp, ok := c.(*net.TCPConn); ok {
					serve(tcp)
				}
			}()
		}
	}()
}

// putProgram builds a program of testdata into the workspace.
func putProgram(t *testing.T, y *yard.Yard, name string) {
	t.Helper()
	out := filepath.Join(t.TempDir(), name)
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", out, "./testdata/"+name)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, b)
	}
	bin, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(y.Write(t, name, string(bin)), 0o700); err != nil {
		t.Fatal(err)
	}
}

// longTransfer is how much is sent in each direction: far more than a proxy
// may hold, and of plain HTTP, which it rebuilds.
const longTransfer = 256 << 20

// TestEGR02_LongTransfers sends a quarter of a GiB down and as much up: all of it arrives,
// and the proxy's memory stays what it was.
func TestEGR02_LongTransfers(t *testing.T) {
	t.Attr("claim", "EGR-02")
	y := yard.Unprivileged(t)
	lab := netlab.New(t)
	y.Wrap = lab.Enter
	up := make(chan int64, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /big", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.CopyN(w, zeros{}, longTransfer) })
	mux.HandleFunc("POST /big", func(_ http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		up <- n
	})
	lab.Handle("allow.test", mux)
	box := y.Start(t, "run", "--allow", "allow.test", "--", "sh", "-c",
		`curl -sS -o /dev/null http://allow.test/; echo ready; read line
		curl -sS http://allow.test/big | wc -c
		head -c `+strconv.Itoa(longTransfer)+` /dev/zero | curl -sS -T - -X POST http://allow.test/big; echo done; read line`)
	box.Await(t, "ready")
	proxy := childNamed(t, box.Cmd.Process.Pid, role.Proxy)
	before := highWater(t, proxy)
	_, _ = io.WriteString(box.Stdin, "go\n")
	box.Await(t, "done")
	after := highWater(t, proxy)
	_, _ = io.WriteString(box.Stdin, "go\n")
	r := box.Wait(t, 30*time.Second).OK(t)
	if !strings.Contains(r.Stdout, strconv.Itoa(longTransfer)) {
		t.Errorf("down: %s", r.Stdout)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	select {
	case n := <-up:
		if n != longTransfer {
			t.Errorf("up: %d bytes", n)
		}
	case <-ctx.Done():
		t.Error("nothing came up")
	}
	const grown = 16 << 20
	if after-before > grown {
		t.Errorf("the proxy's memory grew from %d to %d bytes", before, after)
	}
	t.Logf("the proxy's memory: %d KiB before, %d KiB at most", before>>10, after>>10)
}

// highWater is the most memory that a process has had, in bytes.
func highWater(t *testing.T, pid int) int {
	t.Helper()
	for line := range strings.Lines(readProc(t, pid, "status")) {
		if kb, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.Atoi(strings.Fields(kb)[0])
			if err != nil {
				t.Fatal(err)
			}
			return n << 10
		}
	}
	t.Fatalf("no VmHWM of %d", pid)
	return 0
}

// zeros is a body without an end.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }
