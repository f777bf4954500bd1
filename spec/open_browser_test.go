package spec_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// loginProgram is an agent that logs in: it listens for the answer, has an
// address opened by argv[3], and prints what it gets.
const loginProgram = `
import http.server, socket, subprocess, sys
host, port, opener, url = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        print("got", self.path, "cookie", self.headers.get("Cookie"), flush=True)
        self.send_response(200)
        self.send_header("Set-Cookie", "evil=1")
        self.end_headers()
        self.wfile.write(b"<script>evil()</script>")
    def log_message(self, *a): pass
class S(http.server.HTTPServer):
    address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
s = S((host, port), H)
import os, shlex
r = subprocess.run(shlex.split(os.path.expandvars(opener)) + [url], capture_output=True, text=True)
print("opener", r.returncode, r.stderr.strip(), flush=True)
s.handle_request()
print("end", flush=True)
sys.stdin.readline()
`

// scriptedBrowser is a program of the host that keeps the address it is given.
func scriptedBrowser(t *testing.T, y *yard.Yard) (program, kept string) {
	t.Helper()
	kept = filepath.Join(y.Home, "opened")
	program = y.WriteHome(t, "browser", "#!/bin/sh\nprintf '%s\\n' \"$@\" >> "+kept+"\n")
	if err := os.Chmod(program, 0o700); err != nil {
		t.Fatal(err)
	}
	return program, kept
}

// lent starts a sandbox with the browser lent.
func lent(t *testing.T, y *yard.Yard, program string, args ...string) *yard.Running {
	t.Helper()
	y.Wrap = func(c *exec.Cmd) { c.Env = append(c.Env, "BROWSER="+program) }
	t.Cleanup(func() { y.Wrap = nil })
	return y.Start(t, append([]string{"run", "--open-browser", "--name", "login", "--"}, args...)...)
}

// asBrowser makes the request that a browser would, and returns status and page.
func asBrowser(t *testing.T, host string, port int, target string, change func(*http.Request)) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, strconv.Itoa(port))+target, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Cookie", "mine=canary")
	if change != nil {
		change(r)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(answer.Body)
	for name := range answer.Header {
		body = append(body, name...)
	}
	return answer.StatusCode, string(body)
}

func TestReportD1_ALoginComesBackInside(t *testing.T) {
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		program, kept := scriptedBrowser(t, y)
		y.Write(t, "login.py", loginProgram)
		for i, c := range []struct{ inside, from, opener string }{
			{"127.0.0.1", "127.0.0.1", "xdg-open"},
			{"::1", "127.0.0.1", "$BROWSER"},
			{"127.0.0.1", "::1", "sensible-browser"},
		} {
			if i > 0 && !y.Turn(i) {
				continue
			}
			t.Run(c.inside+" from "+c.from, func(t *testing.T) {
				_ = os.Remove(kept)
				port := freePort(t)
				back := fmt.Sprintf("http://localhost:%d/auth/callback", port)
				address := "https://auth.example.com/authorize?client_id=x&redirect_uri=" + url.QueryEscape(back) + "&state=0123456789abcdef"
				r := lent(t, y, program, python, "login.py", c.inside, strconv.Itoa(port), c.opener, address)
				r.Await(t, "opener 0")
				if _, out := r.Output(); !strings.Contains(out, "opened in your browser for the sandbox, whose port "+strconv.Itoa(port)+" gets the answer: "+address) {
					t.Errorf("what was said:\n%s", out)
				}
				if !strings.Contains(y.Run(t, "ps").OK(t).Stdout, "+open-browser") {
					t.Error("ps does not show it")
				}
				yard.Eventually(t, time.Minute, func() bool { b, _ := os.ReadFile(kept); return string(b) == address+"\n" }, func() string { return "the browser got no address" })

				good := "/auth/callback?code=secret&state=0123456789abcdef"
				for name, bad := range map[string]func() (int, string){
					"another state": func() (int, string) {
						return asBrowser(t, c.from, port, "/auth/callback?code=evil&state=0123456789abcdeF", nil)
					},
					"no state":     func() (int, string) { return asBrowser(t, c.from, port, "/auth/callback?code=evil", nil) },
					"two states":   func() (int, string) { return asBrowser(t, c.from, port, good+"&state=x", nil) },
					"another path": func() (int, string) { return asBrowser(t, c.from, port, "/admin?state=0123456789abcdef", nil) },
					"a rebound name": func() (int, string) {
						return asBrowser(t, c.from, port, good, func(r *http.Request) { r.Host = "evil.test" })
					},
					"another method": func() (int, string) {
						return asBrowser(t, c.from, port, good, func(r *http.Request) { r.Method = http.MethodPost })
					},
					"an absolute form": func() (int, string) {
						return asBrowser(t, c.from, port, good, func(r *http.Request) { r.URL.Opaque = "http://evil.test" + good })
					},
				} {
					if status, page := bad(); status != http.StatusForbidden {
						t.Errorf("%s: %d %s", name, status, page)
					}
				}
				if out, _ := r.Output(); strings.Contains(out, "got ") {
					t.Fatalf("something else came inside:\n%s", out)
				}
				status, page := asBrowser(t, c.from, port, good, func(r *http.Request) { r.Host = "localhost:" + strconv.Itoa(port) })
				if status != http.StatusOK || !strings.Contains(page, "was delivered to the sandbox") || strings.Contains(page, "evil") || strings.Contains(page, "Set-Cookie") {
					t.Errorf("the answer: %d %s", status, page)
				}
				r.Await(t, "end")
				if out, _ := r.Output(); !strings.Contains(out, "got "+good+" cookie None\n") {
					t.Errorf("inside:\n%s", out)
				}
				yard.Eventually(t, time.Minute, func() bool {
					conn, err := net.DialTimeout("tcp", net.JoinHostPort(c.from, strconv.Itoa(port)), time.Second)
					if err == nil {
						_ = conn.Close()
					}
					return err != nil
				}, func() string { return "the port is still bound after the answer" })
				_, _ = io.WriteString(r.Stdin, "\n")
				r.Wait(t, time.Minute).OK(t)
			})
		}
	})
}

func TestReportD1_OtherAddressesAreRefused(t *testing.T) {
	yard.InTurn(t, 1, func(t *testing.T, y *yard.Yard) {
		program, kept := scriptedBrowser(t, y)
		back := func(s string) string {
			return "https://auth.example.com/?state=0123456789abcdef&redirect_uri=" + url.QueryEscape(s)
		}
		bad := []string{
			"https://127.0.0.1:8443/admin", "https://[::1]:8443/", "https://169.254.169.254/latest/meta-data", "https://192.168.1.1/reboot", "https://localhost:8443/", "https://printer/", "https://router.lan/",
			"http://example.com/", "file:///etc/passwd", "javascript:alert(1)", "vscode://x", "--version", "https://", "https://user:pw@example.com/", "https://example.com/\x1b]0;x\x07",
			back("http://localhost/callback"), back("http://localhost:80/cb"), back("http://192.0.2.1:8080/cb"), back("http://localhost:8080/cb?x=1"), back("x://localhost:8080/"), back("http://a@localhost:8080/"),
			"https://auth.example.com/?redirect_uri=http%3A%2F%2Flocalhost%3A8080%2Fcb", "https://auth.example.com/?state=short&redirect_uri=http%3A%2F%2Flocalhost%3A8080%2Fcb",
			back("http://localhost:8080/cb") + "&redirect_uri=x", back("http://localhost:8080/cb") + "&state=0123456789abcdef",
			"https://example.com/" + strings.Repeat("x", 9000),
		}
		var script strings.Builder
		for _, a := range bad {
			fmt.Fprintf(&script, "xdg-open '%s' && echo opened\n", a)
		}
		script.WriteString("for i in 1 2 3; do xdg-open https://example.com/$i && echo good; done; true")
		r := lent(t, y, program, "sh", "-c", script.String()).Wait(t, 3*time.Minute).OK(t)
		if strings.Contains(r.Stdout, "opened") || strings.Count(r.Stdout, "good") != 1 {
			t.Errorf("inside:\n%s", r.Stdout)
		}
		if strings.Contains(r.Stderr, "\x1b") || !strings.Contains(r.Stderr, `\x1b]0;x`) {
			t.Errorf("what was said:\n%q", r.Stderr)
		}
		yard.Eventually(t, time.Minute, func() bool { b, _ := os.ReadFile(kept); return len(b) > 0 }, func() string { return "nothing was opened" })
		if b, _ := os.ReadFile(kept); string(b) != "https://example.com/1\n" {
			t.Errorf("opened: %q", b)
		}

		// A browser that lies in the workspace may be the sandbox's.
		own := y.Write(t, "browser", "#!/bin/sh\ntouch "+y.Home+"/evil\n")
		if err := os.Chmod(own, 0o700); err != nil {
			t.Fatal(err)
		}
		r = lent(t, y, own, "sh", "-c", "xdg-open https://example.com/ && echo opened; true").Wait(t, time.Minute).OK(t)
		if strings.Contains(r.Stdout, "opened") || !strings.Contains(r.Stderr, "which the sandbox may have written") {
			t.Errorf("%s\n%s", r.Stdout, r.Stderr)
		}
	})
}

// TestReportD1_WithoutTheFlag is the twin: nothing is opened, and nothing bound.
func TestReportD1_WithoutTheFlag(t *testing.T) {
	yard.InTurn(t, 1, func(t *testing.T, y *yard.Yard) {
		program, kept := scriptedBrowser(t, y)
		port := freePort(t)
		address := "https://auth.example.com/?state=0123456789abcdef&redirect_uri=" + url.QueryEscape(fmt.Sprintf("http://localhost:%d/cb", port))
		y.Wrap = func(c *exec.Cmd) { c.Env = append(c.Env, "BROWSER="+program) }
		r := y.Start(t, "run", "--quiet", "--", "sh", "-c", "$BROWSER '"+address+"'; echo code $?; read -r x")
		r.Await(t, "code 1")
		if _, out := r.Output(); !strings.Contains(out, "bailey run --open-browser lends it") || !strings.Contains(out, address) {
			t.Errorf("what was said:\n%s", out)
		}
		if _, err := os.Lstat(kept); err == nil {
			t.Error("it was opened")
		}
		if _, err := throughPort("127.0.0.1", port, "x"); err == nil {
			t.Error("the port is bound")
		}
		_ = r.Cmd.Process.Signal(syscall.SIGTERM)
		r.Wait(t, time.Minute)
	})
}
