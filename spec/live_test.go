package spec_test

import (
	"crypto/sha1"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/role"
	"github.com/bailey-dev/bailey/internal/testkit/netlab"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// within is the promise: what is tightened has reached every connection by then.
const within = time.Second

// flows opens a connection of each kind to each of some hosts, says so, and
// says when one ends.
const flows = `
import socket, ssl, sys, threading, time

def say(*words):
    sys.stdout.write(" ".join(words) + "\n"); sys.stdout.flush()

def http(host, request):
    s = socket.create_connection((host, 80))
    s.sendall((request + "\r\nHost: " + host + "\r\n\r\n").encode())
    return s

def keepalive(host):
    s = http(host, "GET /page HTTP/1.1")
    while b"the page" not in s.recv(65536): pass
    return s

def websocket(host):
    s = http(host, "GET /ws HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")
    assert b" 101 " in s.recv(65536)
    return s

def download(host):
    s = http(host, "GET /endless HTTP/1.1")
    for i in range(20): assert s.recv(65536)
    return s

def raw(host):
    s = socket.create_connection((host, 9000))
    assert s.recv(99) == b"welcome\n"
    return s

def tls(host):
    c = ssl._create_unverified_context()
    s = c.wrap_socket(socket.create_connection((host, 443)), server_hostname=host)
    s.sendall(("GET /endless HTTP/1.1\r\nHost: " + host + "\r\n\r\n").encode())
    for i in range(5): assert s.recv(65536)
    return s

def watch(name, s):
    try:
        while s.recv(65536): pass
    except OSError: pass
    say(name, "cut")

for host in sys.argv[1:]:
    for kind in keepalive, websocket, download, raw, tls:
        try: s = kind(host)
        except BaseException as e:
            say(host, kind.__name__, "failed", repr(e)); continue
        say(host, kind.__name__, "open")
        threading.Thread(target=watch, args=(host + " " + kind.__name__, s), daemon=True).start()
say("ready")
time.sleep(600)
`

// kindsOfFlow are those that flows opens.
func kindsOfFlow() []string { return []string{"keepalive", "websocket", "download", "raw", "tls"} }

// longLived is a lab whose servers keep connections open.
func longLived(t *testing.T, y *yard.Yard) *netlab.Lab {
	t.Helper()
	lab := netlab.New(t)
	y.Wrap = lab.Enter
	for _, host := range []string{"allow.test", "evil.test"} {
		lab.Handle(host, http.HandlerFunc(neverEnding))
	}
	for _, host := range []string{"a.wild.test", "b.wild.test", "c.wild.test"} {
		lab.Name(host, netlab.Allowed)
	}
	for _, a := range []string{"11.0.0.10:9000", "11.0.0.66:9000"} {
		ln := lab.Listen(a)
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
				}()
			}
		}()
	}
	return lab
}

func neverEnding(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/ws":
		sum := sha1.Sum([]byte(r.Header.Get("Sec-Websocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n", base64.StdEncoding.EncodeToString(sum[:]))
		_, _ = io.Copy(io.Discard, c)
	case "/endless":
		page := make([]byte, 64<<10)
		for r.Context().Err() == nil {
			if _, err := w.Write(page); err != nil {
				return
			}
		}
	default:
		_, _ = io.WriteString(w, "the page of "+r.Host+"\n")
	}
}

// replace writes a file as an editor does: beside it, and over it.
func replace(t *testing.T, y *yard.Yard, text string) {
	t.Helper()
	y.WriteHome(t, ".config/bailey/config.yaml.new", text)
	if err := os.Rename(filepath.Join(y.Home, ".config/bailey/config.yaml.new"), filepath.Join(y.Home, ".config/bailey/config.yaml")); err != nil {
		t.Fatal(err)
	}
}

// opened holds that every kind of connection to a host is open and still is.
func opened(t *testing.T, box *yard.Running, host string) {
	t.Helper()
	out, stderr := box.Output()
	for _, kind := range kindsOfFlow() {
		if !strings.Contains(out, host+" "+kind+" open\n") || strings.Contains(out, host+" "+kind+" cut\n") {
			t.Errorf("%s to %s is not open:\n%s\n%s", kind, host, out, stderr)
		}
	}
}

// cutWithin holds that all connections to a host end, and returns how long it
// took from a moment.
func cutWithin(t *testing.T, box *yard.Running, host string, since time.Time) time.Duration {
	t.Helper()
	yard.Eventually(t, yard.Timeout, func() bool {
		out, _ := box.Output()
		return !slices.ContainsFunc(kindsOfFlow(), func(kind string) bool { return !strings.Contains(out, host+" "+kind+" cut\n") })
	}, func() string {
		out, stderr := box.Output()
		return "not all were cut:\n" + out + stderr
	})
	return time.Since(since)
}

// inTime runs a round until one keeps the promise; a machine that is busy with
// other tests may need several.
func inTime(t *testing.T, round func() time.Duration) {
	t.Helper()
	var took time.Duration
	for range 8 {
		if took = round(); took <= within || t.Failed() {
			return
		}
	}
	t.Errorf("it took %v", took)
}

// get is a request from inside a running sandbox.
func get(t *testing.T, y *yard.Yard, box, host string) string {
	t.Helper()
	return y.Run(t, "exec", box, "--", "sh", "-c", `curl -q -sS -i -m 40 --http1.0 "http://$1/page" 2>&1 || true`, "sh", host).OK(t).Stdout
}

const bothHosts = "net:\n  allow:\n    - {host: allow.test, ports: [80, 443, 9000]}\n    - {host: evil.test, ports: [80, 443, 9000]}\n"

// inspected is bothHosts with one of them opened.
var inspected = strings.Replace(bothHosts, "allow.test, ports: [80, 443, 9000]", "allow.test, ports: [80, 443], inspect: true}\n    - {host: allow.test, ports: [9000]", 1)

// TestEGR12_ATightenedPolicyReachesOpenConnections: what the user takes out of
// their file is cut, in every kind of connection, and nothing else is.
func TestEGR12_ATightenedPolicyReachesOpenConnections(t *testing.T) {
	t.Attr("claim", "EGR-12")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		longLived(t, y).Trust()
		without := strings.Replace(bothHosts, "    - {host: allow.test, ports: [80, 443, 9000]}\n", "", 1)
		for i, change := range []struct{ name, from, to string }{
			{"A160 a rule is taken out", bothHosts, without},
			{"A160 a deny rule is put in", bothHosts, bothHosts + "  deny: [allow.test]\n"},
			{"A160 a port is taken out", bothHosts, strings.Replace(bothHosts, "allow.test, ports: [80, 443, 9000]", "allow.test, ports: [22]", 1)},
			{"A160 opened TLS", inspected, without},
			{"A160 a path is taken out, inside TLS too", inspected, strings.Replace(bothHosts, "allow.test, ports: [80, 443, 9000]", "allow.test, ports: [80, 443], paths: [/other]", 1)},
		} {
			if !y.Turn(i) {
				continue
			}
			t.Run(change.name, func(t *testing.T) {
				inTime(t, func() time.Duration {
					replace(t, y, change.from)
					box := y.Start(t, "run", "--json", "--name", "live", "--", python, "-c", flows, "allow.test", "evil.test")
					defer func() { y.Run(t, "stop", "live") }()
					box.Await(t, "ready")
					opened(t, box, "allow.test")
					since := time.Now()
					replace(t, y, change.to)
					took := cutWithin(t, box, "allow.test", since)
					opened(t, box, "evil.test")
					// A cut is felt at once, and on record next to at once.
					yard.Eventually(t, yard.Timeout, func() bool {
						_, stderr := box.Output()
						return strings.Count(stderr, `"reason":"policy-changed"`) >= len(kindsOfFlow()) && strings.Contains(stderr, `"type":"net.policy"`)
					}, func() string { out, stderr := box.Output(); return "an event is missing:\n" + out + stderr })
					if out, stderr := box.Output(); strings.Count(stderr, `"reason":"policy-changed"`) != len(kindsOfFlow()) {
						t.Errorf("more events than %d cuts:\n%s\n%s", len(kindsOfFlow()), out, stderr)
					}
					t.Run("A102 an answer that was given before", func(t *testing.T) {
						if got := get(t, y, "live", "11.0.0.10"); strings.Contains(got, "the page") {
							t.Errorf("by its address: %s", got)
						}
						if got := get(t, y, "live", "allow.test"); strings.Contains(got, "the page") {
							t.Errorf("by its name: %s", got)
						}
						if got := get(t, y, "live", "evil.test"); !strings.Contains(got, "the page of evil.test") {
							t.Errorf("twin: %s", got)
						}
					})
					return took
				})
			})
		}
	})
}

// TestEGR12_SealedTLSThatIsToBeOpened: a rule that wants to see inside TLS from
// now on ends what was passed on unseen, and that alone; where the run began
// without a root TLS to the host is refused, and that is said.
func TestEGR12_SealedTLSThatIsToBeOpened(t *testing.T) {
	t.Attr("claim", "EGR-12")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		longLived(t, y)
		replace(t, y, bothHosts)
		box := y.Start(t, "run", "--name", "sealed", "--", python, "-c", flows, "allow.test", "evil.test")
		box.Await(t, "ready")
		opened(t, box, "allow.test")
		replace(t, y, inspected)
		box.Await(t, "allow.test tls cut")
		opened(t, box, "evil.test")
		time.Sleep(within)
		out, stderr := box.Output()
		if n := strings.Count(out, "cut\n"); n != 1 || !strings.Contains(stderr, "until the next run TLS to it is refused") {
			t.Errorf("%d were cut:\n%s\n%s", n, out, stderr)
		}
		const try = `import socket, ssl
c = ssl._create_unverified_context()
try:
    c.wrap_socket(socket.create_connection(("allow.test", 443)), server_hostname="allow.test"); print("it opened")
except OSError as e: print("refused")`
		if got := y.Run(t, "exec", "sealed", "--", python, "-c", try).OK(t).Stdout; got != "refused\n" {
			t.Errorf("TLS to it: %s", got)
		}
	})
}

// TestEGR12_ABadFileChangesNothing: what cannot be read neither opens nor
// closes, and is said with its place; what it says right afterwards holds.
func TestEGR12_ABadFileChangesNothing(t *testing.T) {
	t.Attr("claim", "EGR-12")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		longLived(t, y)
		allow := "net:\n  allow:\n    - {host: allow.test, ports: [80, 443, 9000]}\n"
		userPolicy(t, y, allow)
		box := y.Start(t, "run", "--name", "bad", "--", python, "-c", flows, "allow.test")
		box.Await(t, "ready")
		for i, c := range []struct{ name, text, want string }{
			{"A161 not YAML", "net: [\n", "config.yaml:"},
			{"A161 half of it", bothHosts[:len(bothHosts)/2], "config.yaml:"},
			{"A161 a key that is not known", "net:\n  mode: open\n  alow: [evil.test]\n", "config.yaml:3:3: unknown key"},
			{"A161 nothing could be reached", "net:\n  mode: allow\n  allow: []\n", "config.yaml:3:10: mode allow has no allow rule"},
		} {
			if !y.Turn(i) {
				continue
			}
			t.Run(c.name, func(t *testing.T) {
				_, before := box.Output()
				userPolicy(t, y, c.text)
				said := func() string { _, now := box.Output(); return now[len(before):] }
				yard.Eventually(t, yard.Timeout, func() bool { return strings.Contains(said(), c.want) }, said)
				time.Sleep(within)
				if n := strings.Count(said(), "what held before holds"); n != 1 {
					t.Errorf("said %d times: %s", n, said())
				}
				opened(t, box, "allow.test")
				if got := get(t, y, "bad", "evil.test"); strings.Contains(got, "the page") {
					t.Errorf("it opened: %s", got)
				}
			})
		}
		t.Run("A161 written in place, by and by", func(t *testing.T) {
			path := filepath.Join(y.Home, ".config/bailey/config.yaml")
			for _, pause := range []time.Duration{20, 60, 100, 140, 180, 220} {
				if err := os.Truncate(path, 0); err != nil {
					t.Fatal(err)
				}
				time.Sleep(pause * time.Millisecond)
				if err := os.WriteFile(path, []byte(allow), 0o600); err != nil {
					t.Fatal(err)
				}
				time.Sleep(within / 2)
			}
			opened(t, box, "allow.test")
		})
		userPolicy(t, y, "net:\n  allow:\n    - {host: evil.test, ports: [80]}\n") // twin
		cutWithin(t, box, "allow.test", time.Now())
		if got := get(t, y, "bad", "evil.test"); !strings.Contains(got, "the page of evil.test") {
			t.Errorf("twin: %s", got)
		}
	})
}

// TestEGR12_AProxyThatDoesNotFollow: where the rules can be changed no more, the
// sandbox does not go on with those from before. Its twin follows.
func TestEGR12_AProxyThatDoesNotFollow(t *testing.T) {
	t.Attr("claim", "EGR-12")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		longLived(t, y)
		for _, deaf := range []bool{false, true} {
			userPolicy(t, y, bothHosts)
			box := y.Start(t, "run", "--name", fmt.Sprintf("deaf-%v", deaf), "--", python, "-c", flows, "allow.test")
			box.Await(t, "ready")
			if deaf {
				signal(t, childNamed(t, box.Cmd.Process.Pid, role.Proxy), syscall.SIGSTOP)
			}
			userPolicy(t, y, "net:\n  allow:\n    - {host: evil.test, ports: [80]}\n")
			if !deaf {
				cutWithin(t, box, "allow.test", time.Now())
				if got := get(t, y, "deaf-false", "evil.test"); !strings.Contains(got, "the page of evil.test") {
					t.Errorf("twin: %s", got)
				}
				continue
			}
			if r := box.Wait(t, yard.Timeout); r.Code != 125 || !strings.Contains(r.Stderr, "does not take rules any more") {
				t.Errorf("exit %d: %s", r.Code, r.Stderr)
			}
		}
	})
}

// TestEGR13_ASandboxCannotWidenItsRun: it can write the project's file, and
// only tightens by it; nor does it help to take away what tightened.
func TestEGR13_ASandboxCannotWidenItsRun(t *testing.T) {
	t.Attr("claim", "EGR-13")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		longLived(t, y)
		userPolicy(t, y, "net:\n  allow: [allow.test, evil.test]\n")
		y.Write(t, "bailey.yaml", "net:\n  deny: [evil.test]\n")
		box := y.Start(t, "run", "--name", "wide", "--json", "--", "sh", "-c", "echo ready; sleep 600")
		box.Await(t, "ready")
		write := func(text string) {
			t.Helper()
			y.Run(t, "exec", "wide", "--", "sh", "-c", text).OK(t)
			time.Sleep(2 * within)
		}
		reach := func(host string, want bool) {
			t.Helper()
			if got := get(t, y, "wide", host); strings.Contains(got, "the page of "+host) != want {
				_, stderr := box.Output()
				t.Errorf("%s, want %v: %s\n%s", host, want, got, stderr)
			}
		}
		reach("allow.test", true)
		reach("evil.test", false)
		for i, c := range []struct{ name, text string }{
			{"A162 a wider file", "printf 'net:\\n  mode: open\\n  allow: [evil.test]\\n' >bailey.yaml"},
			{"A162 no file", "rm -f bailey.yaml"},
			{"A162 a link", "ln -sf /dev/null bailey.yaml"},
			{"A162 a repository", "rm -f bailey.yaml; mkdir -p sub/.git"},
			{"A162 an own directory", "mkdir -p ~/.config/bailey ~/.local/share/bailey/trust; printf 'net: {mode: full}' >~/.config/bailey/config.yaml"},
			{"A162 an empty file", "rm -f bailey.yaml; : >bailey.yaml"},
		} {
			if !y.Turn(i) {
				continue
			}
			t.Run(c.name, func(*testing.T) {
				write(c.text)
				reach("evil.test", false)
				reach("allow.test", true)
			})
		}
		write("rm -f bailey.yaml; printf 'net:\\n  deny: [allow.test]\\n' >bailey.yaml") // it can tighten
		reach("allow.test", false)
		reach("evil.test", false)
		write("rm bailey.yaml") // and take that back, as it was its own
		reach("allow.test", true)
		reach("evil.test", false)

		// Trusted by the user, the file opens, in the run that is under way; an
		// edit of the sandbox's ends that.
		y.Write(t, "bailey.yaml", "net:\n  allow: [c.wild.test]\n")
		y.Run(t, "policy", "trust").OK(t)
		time.Sleep(2 * within)
		reach("evil.test", true)
		write("echo '# an edit' >>bailey.yaml")
		if got := get(t, y, "wide", "c.wild.test"); !strings.Contains(got, "not-allowed") && !strings.Contains(got, "gaierror") {
			t.Errorf("an edited file still opens: %s", got)
		}
		// Put back as it was it opens nothing: the edit may have been the user's,
		// to tighten. To trust it anew does.
		opens := func() bool { return strings.Contains(get(t, y, "wide", "c.wild.test"), " 200 ") }
		write("sed -i '/an edit/d' bailey.yaml")
		if _, stderr := box.Output(); opens() || !strings.Contains(stderr, "was not in between") {
			t.Errorf("A162 a trusted file that was put back opens:\n%s", stderr)
		}
		y.Run(t, "policy", "trust").OK(t)
		time.Sleep(2 * within)
		if !opens() {
			_, stderr := box.Output()
			t.Errorf("twin: trusted anew it does not open:\n%s", stderr)
		}
	})
}

// TestEGR12_AnswersOfAPerson: what bailey net allow lets through and bailey net
// deny takes back, in a sandbox that runs.
func TestEGR12_AnswersOfAPerson(t *testing.T) {
	t.Attr("claim", "EGR-12")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		longLived(t, y)
		inTime(t, func() time.Duration {
			box := y.Start(t, "run", "--name", "grants", "--allow", "allow.test", "--allow", "allow.test:9000", "--", python, "-c", "input()\nimport sys; sys.argv = ['', 'allow.test', 'evil.test']\n"+flows)
			defer func() { y.Run(t, "stop", "grants") }()
			yard.Eventually(t, yard.Timeout, func() bool { return strings.Contains(y.Run(t, "ps").Stdout, "running") }, func() string { return "it does not run" })
			if got := get(t, y, "grants", "evil.test"); strings.Contains(got, "the page") {
				t.Errorf("before: %s", got)
			}
			y.Run(t, "net", "allow", "evil.test").OK(t)
			y.Run(t, "net", "allow", "evil.test:9000").OK(t)
			if _, err := io.WriteString(box.Stdin, "\n"); err != nil {
				t.Fatal(err)
			}
			box.Await(t, "ready")
			opened(t, box, "evil.test")
			since := time.Now()
			y.Run(t, "net", "deny", "evil.test").OK(t)
			took := cutWithin(t, box, "evil.test", since)
			opened(t, box, "allow.test")
			return took
		})
		if _, err := os.Lstat(filepath.Join(y.Home, ".config/bailey/config.yaml")); err == nil {
			t.Error("an answer for a run is in the user's file")
		}
		// One answer takes back those about the same host alone.
		ranges := y.Start(t, "run", "--name", "ranges", "--allow", "allow.test", "--allow", "evil.test", "--", "sh", "-c", "echo ready; sleep 600")
		ranges.Await(t, "ready")
		y.Run(t, "net", "deny", "11.0.0.0/28", "--sandbox", "ranges").OK(t)
		y.Run(t, "net", "deny", "11.0.9.0/24", "--sandbox", "ranges").OK(t)
		if got := get(t, y, "ranges", "allow.test"); strings.Contains(got, "the page") {
			t.Errorf("a second denied range took the first back: %s", got)
		}
		if got := get(t, y, "ranges", "evil.test"); !strings.Contains(got, "the page") {
			t.Errorf("twin: %s", got)
		}
		y.Run(t, "stop", "ranges").OK(t)
		// What a deny rule of a file refuses is not let through by an answer.
		userPolicy(t, y, "net:\n  deny: [evil.test]\n")
		box := y.Start(t, "run", "--name", "firm", "--allow", "allow.test", "--", "sh", "-c", "echo ready; sleep 600")
		box.Await(t, "ready")
		if r := y.Run(t, "net", "allow", "evil.test", "--sandbox", "firm").Exit(t, 125); !strings.Contains(r.Stderr, "the deny rule evil.test refuses") {
			t.Errorf("%s", r.Stderr)
		}
		// A sandbox without a network has nothing to open.
		none := y.Start(t, "run", "--name", "none", "--", "sh", "-c", "echo ready; sleep 600")
		none.Await(t, "ready")
		if r := y.Run(t, "net", "allow", "allow.test", "--sandbox", "none").Exit(t, 125); !strings.Contains(r.Stderr, "has no network") {
			t.Errorf("%s", r.Stderr)
		}
	})
}

// waiting is what waits for an answer.
func waiting(t *testing.T, y *yard.Yard) []map[string]any {
	t.Helper()
	var list []map[string]any
	if err := json.Unmarshal([]byte(y.Run(t, "net", "pending", "--json").OK(t).Stdout), &list); err != nil {
		t.Fatal(err)
	}
	return list
}

// comesUp waits until one host waits.
func comesUp(t *testing.T, y *yard.Yard, host string) {
	t.Helper()
	yard.Eventually(t, yard.Timeout, func() bool {
		return slices.ContainsFunc(waiting(t, y), func(p map[string]any) bool { return p["host"] == host })
	}, func() string { return fmt.Sprintf("%s does not wait: %v", host, waiting(t, y)) })
}

// asker asks for pages, as it is told on its input, each in a thread.
const asker = `
import socket, sys, threading
def get(host):
    try:
        s = socket.create_connection((host, 80), 60); s.sendall(("GET /page HTTP/1.0\r\nHost: " + host + "\r\n\r\n").encode())
        b = b""
        while True:
            d = s.recv(65536)
            if not d: break
            b += d
        got = b.decode().split()
        print(host, got[1], got[-1] if got[1] == "200" else got[got.index("X-Bailey-Reason:") + 1], flush=True)
    except OSError as e: print(host, repr(e), flush=True)
print("ready", flush=True)
for line in sys.stdin: threading.Thread(target=get, args=(line.strip(),)).start()
`

// TestEGR12_APersonIsAsked: a host that no rule names waits for an answer, and
// gets what was answered; no question of the sandbox leaves before.
func TestEGR12_APersonIsAsked(t *testing.T) {
	t.Attr("claim", "EGR-12")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		lab := longLived(t, y)
		box := y.Start(t, "run", "--json", "--name", "asking", "--allow", "allow.test", "--ask", "--", python, "-c", asker)
		box.Await(t, "ready")
		tell := func(host string, times int) {
			t.Helper()
			for range times {
				if _, err := io.WriteString(box.Stdin, host+"\n"); err != nil {
					t.Fatal(err)
				}
			}
		}
		count := func(text string, n int) {
			t.Helper()
			yard.Eventually(t, yard.Timeout, func() bool { out, _ := box.Output(); return strings.Count(out, text) >= n }, func() string {
				out, stderr := box.Output()
				return fmt.Sprintf("not %d of %q:\n%s\n%s", n, text, out, stderr)
			})
		}
		tell("allow.test", 1)
		count("allow.test 200", 1)

		// Five at once are one question; once is for them, and the next asks again.
		tell("evil.test", 5)
		comesUp(t, y, "evil.test")
		time.Sleep(500 * time.Millisecond)
		if list := waiting(t, y); len(list) != 1 {
			t.Errorf("waiting: %v", list)
		}
		if lab.Asked("evil.test") || len(lab.ConnectionsTo(netlab.Evil)) > 0 {
			t.Error("something left before there was an answer")
		}
		if r := y.Run(t, "net", "pending").OK(t); !strings.Contains(r.Stdout, "asking") || !strings.Contains(r.Stdout, "evil.test") {
			t.Errorf("%s", r.Stdout)
		}
		y.Run(t, "net", "allow", "evil.test:80", "--once").OK(t)
		count("evil.test 200", 5)
		tell("evil.test", 1)
		comesUp(t, y, "evil.test")
		y.Run(t, "net", "deny", "evil.test:80", "--once").OK(t)
		count("evil.test 403 answered-no", 1)
		tell("evil.test", 1) // it is remembered
		count("evil.test 403 answered-no", 2)
		if list := waiting(t, y); len(list) != 0 {
			t.Errorf("asked again: %v", list)
		}

		// For the run, and for always.
		tell("a.wild.test", 1)
		comesUp(t, y, "a.wild.test")
		y.Run(t, "net", "allow", "a.wild.test").OK(t)
		count("a.wild.test 200", 1)
		tell("a.wild.test", 1)
		count("a.wild.test 200", 2)
		y.WriteHome(t, ".config/bailey/config.yaml", "# my hosts\nnet:\n  allow: # those\n    - allow.test # why not\n")
		if err := os.Chmod(filepath.Join(y.Home, ".config/bailey/config.yaml"), 0o600); err != nil {
			t.Fatal(err)
		}
		tell("b.wild.test", 1)
		comesUp(t, y, "b.wild.test")
		y.Run(t, "net", "allow", "b.wild.test:80", "--always").OK(t)
		count("b.wild.test 200", 1)
		text, err := os.ReadFile(filepath.Join(y.Home, ".config/bailey/config.yaml"))
		if want := "# my hosts\nnet:\n  allow: # those\n    - b.wild.test:80 # " + time.Now().Format(time.DateOnly) + ": bailey net allow, sandbox asking\n    - allow.test # why not\n"; err != nil || string(text) != want {
			t.Errorf("the user's file: %v\n%s\nwant:\n%s", err, text, want)
		}
		if fi, err := os.Stat(filepath.Join(y.Home, ".config/bailey/config.yaml")); err != nil || fi.Mode().Perm() != 0o600 {
			t.Errorf("its mode: %v, %v", fi, err)
		}
		// A no is one, also where a rule comes of it.
		for host, forHow := range map[string]string{"c.wild.test": "--run", "d.wild.test": "--always"} {
			tell(host, 1)
			comesUp(t, y, host)
			y.Run(t, "net", "deny", host, forHow).OK(t)
			count(host+" 403 answered-no", 1)
		}
		if log := y.Run(t, "net", "log", "--denied").OK(t); strings.Contains(log.Stdout, "policy-changed") || strings.Contains(log.Stdout, "denied-by-rule") || strings.Count(log.Stdout, "answered-no") != 4 {
			t.Errorf("on record: %s", log.Stdout)
		}
		y.Run(t, "stop", "asking").OK(t)
		_, stderr := box.Output()
		for _, kind := range []bailey.EventType{bailey.EventNetAsk, bailey.EventNetAnswered} {
			if n := strings.Count(stderr, fmt.Sprintf(`"type":%q`, kind)); n != 6 {
				t.Errorf("%d of %s:\n%s", n, kind, stderr)
			}
		}
		later := y.Start(t, "run", "--name", "later", "--", python, "-c", asker)
		later.Await(t, "ready")
		if _, err := io.WriteString(later.Stdin, "b.wild.test\n"); err != nil {
			t.Fatal(err)
		}
		later.Await(t, "b.wild.test 200")
	})
}

// TestEGR12_NobodyAnswers: a connection that nobody answers for is refused
// after half a minute, and not asked for again at once.
func TestEGR12_NobodyAnswers(t *testing.T) {
	t.Attr("claim", "EGR-12")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		lab := longLived(t, y)
		box := y.Start(t, "run", "--name", "silent", "--ask", "--", python, "-c", asker)
		box.Await(t, "ready")
		began := time.Now()
		_, _ = io.WriteString(box.Stdin, "evil.test\n")
		comesUp(t, y, "evil.test")
		yard.Eventually(t, 2*time.Minute, func() bool { out, _ := box.Output(); return strings.Contains(out, "not-answered") }, func() string {
			out, stderr := box.Output()
			return "no end:\n" + out + stderr
		})
		if took := time.Since(began); took < 25*time.Second {
			t.Errorf("refused after %v", took)
		}
		_, _ = io.WriteString(box.Stdin, "evil.test\n")
		box.Await(t, "answered-no")
		if list := waiting(t, y); len(list) != 0 || len(lab.ConnectionsTo(netlab.Evil)) > 0 || lab.Asked("evil.test") {
			t.Errorf("after it: %v", list)
		}
	})
}

// TestEGR12_ThePromptTakesNoTypeAhead: at a terminal that the sandbox's program
// has no part of a person is asked, and what they typed before is no answer.
func TestEGR12_ThePromptTakesNoTypeAhead(t *testing.T) {
	t.Attr("claim", "EGR-12")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		longLived(t, y)
		tty, other, err := pty.Open()
		if err != nil {
			t.Fatal(err)
		}
		store := filepath.Join(t.TempDir(), "out")
		out, err := os.Create(store)
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		stored := func() string { b, _ := os.ReadFile(store); return string(b) }
		p := &person{t: t, tty: tty, other: other, cmd: y.Command(t.Context(), "run", "--name", "typed", "--ask", "--", python, "-c", asker), ended: make(chan error, 1)}
		in, feed := io.Pipe()
		p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = in, out, nil
		p.cmd.ExtraFiles = []*os.File{other}
		p.cmd.SysProcAttr.Setpgid, p.cmd.SysProcAttr.Setsid, p.cmd.SysProcAttr.Setctty, p.cmd.SysProcAttr.Ctty = false, true, true, 3
		if err := p.cmd.Start(); err != nil {
			t.Fatal(err)
		}
		go func() { p.ended <- p.cmd.Wait() }()
		go p.watch()
		t.Cleanup(func() {
			_ = p.cmd.Process.Kill()
			_ = feed.Close()
			_ = tty.Close()
			_ = other.Close()
		})
		tell := func(host string) { _, _ = io.WriteString(feed, host+"\n") }

		p.types("ooooaaaa") // long before
		tell("evil.test")
		p.sees("wants to reach evil.test:80").types("a") // while it came
		time.Sleep(1500 * time.Millisecond)
		if list := waiting(t, y); len(list) != 1 {
			t.Errorf("what was typed before was an answer: %v\n%s", list, p.screen())
		}
		p.types("\x1b[Aoo") // no key by itself
		time.Sleep(300 * time.Millisecond)
		if list := waiting(t, y); len(list) != 1 {
			t.Errorf("a paste was an answer: %v\n%s", list, p.screen())
		}
		p.types("d").sees("evil.test:80: evil.test:80: what waited was refused")
		tell("a.wild.test") // twin: a fresh key is an answer
		p.sees("wants to reach a.wild.test:80")
		time.Sleep(1500 * time.Millisecond)
		p.types("r").sees("a.wild.test:80 is let through")
		yard.Eventually(t, yard.Timeout, func() bool { return strings.Contains(stored(), "a.wild.test 200") }, stored)
		_ = feed.Close()
		if code := p.leaves(); code != 0 || strings.Contains(stored(), "evil.test 200") {
			t.Errorf("exit %d, inside: %s", code, stored())
		}
	})
}
