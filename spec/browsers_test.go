package spec_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey/internal/testkit/netlab"
	"github.com/bailey-dev/bailey/internal/testkit/origin"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// browserPolicy opens TLS to clientHost.
const browserPolicy = "net:\n  allow:\n  - {host: " + clientHost + ", inspect: true}\n"

// browse has a browser print a page, or why it did not load. Chromium's own
// sandbox cannot be made inside another one.
func browse(program, flags, host string) string {
	return fmt.Sprintf(`timeout 80 %s --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --disable-extensions --disable-background-networking --disable-component-update \
		--user-data-dir="$(mktemp -d)" %s --dump-dom https://%s/ 2>&1 | grep -E -o 'all of it|ERR_CERT[A-Z_]*' | sort -u`, program, flags, host)
}

// nssScript asks NSS's own client of TLS, with the database and with one that
// holds nothing.
const nssScript = `certutil -L -d sql:$HOME/.pki/nssdb | tail -1 | grep -o ' C,,'
timeout 20 tstclnt -Q -h ` + clientHost + ` -p 443 -d sql:$HOME/.pki/nssdb >/dev/null 2>&1 && echo trusted
none="$(mktemp -d)"; certutil -N -d sql:$none --empty-password
timeout 20 tstclnt -Q -h ` + clientHost + ` -p 443 -d sql:$none 2>&1 | grep -o 'SEC_ERROR[A-Z_]*' | sort -u`

// TestEGR14_BrowsersInsideTLS: browsers, which have roots of their own, trust
// that of the sandbox without a setting: Chromium by its policy, and its
// headless shell, which knows no policies, by the user's database of NSS. The
// twin: without either the same page does not load.
func TestEGR14_BrowsersInsideTLS(t *testing.T) {
	t.Attr("claim", "EGR-14")
	t.Parallel()
	const all, rejected = "all of it\n", `"reason":"client-rejected-root"`
	report := func(protocol string) origin.BrowserReport {
		return origin.BrowserReport{Error: "", Fetched: "100000\n", Protocol: protocol, Socket: "ping", Event: "first"}
	}
	const elsewhere = `export HOME="$(mktemp -d)"; ` // no database there
	for _, c := range []struct {
		name, script, want string
		reports            []origin.BrowserReport
	}{
		{"headless shell by its database, HTTP/2", browse("chromium-headless-shell", "", clientHost), all, []origin.BrowserReport{report("h2")}},
		{"headless shell by its database, HTTP/1.1", browse("chromium-headless-shell", "--disable-http2", clientHost), all, []origin.BrowserReport{report("http/1.1")}},
		{"twin: without the database", elsewhere + browse("chromium-headless-shell", "", clientHost), rejected, nil},
		{"chromium by its policy", elsewhere + browse("chromium --headless", "", clientHost), all, []origin.BrowserReport{report("h2")}},
		{"NSS itself", nssScript, " C,,\ntrusted\nSEC_ERROR_UNTRUSTED_ISSUER\n", nil},
	} {
		t.Run(c.name, func(t *testing.T) { // one after the other: a browser fills a machine
			y := yard.Unprivileged(t)
			lab := netlab.New(t)
			lab.Trust()
			lab.Name(clientHost, netlab.Allowed)
			y.Wrap = lab.Enter
			b := origin.NewBrowser()
			lab.Handle(clientHost, b)
			userPolicy(t, y, browserPolicy)
			r := y.Sh(t, c.script, "--json")
			ok := r.Stdout == c.want
			if c.want == rejected { // the page of the error says why only once its script has run
				ok = r.Stdout != all && strings.Contains(r.Stderr, rejected)
			}
			if !ok {
				t.Errorf("%q, want %q\n%s", r.Stdout, c.want, r.Stderr)
			}
			if diff := cmp.Diff(c.reports, b.Reports()); diff != "" {
				t.Errorf("what the page found (-want +got):\n%s", diff)
			}
		})
	}
}

// againPage asks three times more, each by a connection of its own, and is not
// loaded before.
const againPage = `<!DOCTYPE html><body></body><script>
for (let i = 0; i < 3; i++) {
	const x = new XMLHttpRequest();
	x.open("GET", "/again", false);
	x.send();
}
document.body.textContent = "all of it";
</script>`

// again serves it, and offers HTTP/3.
func again(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Alt-Svc", `h3=":443"; ma=86400`)
	w.Header().Set("Connection", "close")
	w.Header().Set("Content-Type", "text/html")
	_, _ = w.Write([]byte(againPage))
}

// TestEGR02_QUICFallsBack: a browser that a server offers HTTP/3 tries it, is
// told by ICMP at once that it cannot be, and goes on over TCP. The bound is far
// from what it takes (some milliseconds) and below QUIC's own time-outs for a
// handshake.
func TestEGR02_QUICFallsBack(t *testing.T) {
	t.Attr("claim", "EGR-02")
	t.Parallel()
	y := yard.Unprivileged(t)
	lab := netlab.New(t)
	lab.Trust()
	lab.Name(clientHost, netlab.Allowed)
	y.Wrap = lab.Enter
	lab.Handle(clientHost, http.HandlerFunc(again))
	y.Write(t, "ca.pem", string(lab.CA().PEM()))
	const trustLab = `export HOME="$(mktemp -d)"; mkdir -p $HOME/.pki/nssdb && certutil -d sql:$HOME/.pki/nssdb -N --empty-password && certutil -d sql:$HOME/.pki/nssdb -A -t C,, -n lab -i ca.pem; `
	// With a proxy of its own a browser does not try QUIC.
	r := y.Sh(t, withoutProxy+trustLab+browse("chromium --headless", "--enable-quic --disable-http2 --log-net-log=$PWD/net.json", clientHost), "--allow", clientHost, "--json")
	if r.Stdout != "all of it\n" {
		t.Errorf("%q\n%s", r.Stdout, r.Stderr)
	}
	took, ended := quicTried(t, filepath.Join(y.Dir, "net.json"))
	const most = 2 * time.Second
	if took < 0 || took > most || !quicRefused.MatchString(ended) {
		t.Errorf("QUIC was given up after %v: %s", took, ended)
	}
	t.Logf("QUIC was given up %v after its first packet", took)
	asked := 0
	for _, q := range lab.Requests() {
		if q.Path == "/again" {
			asked++
		}
	}
	if asked != 3 {
		t.Errorf("%d requests over TCP after HTTP/3 was offered", asked)
	}
	for _, c := range lab.Connections() {
		if c.Proto != "tcp" && c.To.Port() == 443 {
			t.Errorf("%s to %s left the sandbox", c.Proto, c.To)
		}
	}
}

// quicRefused is what a read, or a write, says after an ICMP message that nobody
// listens: ERR_CONNECTION_REFUSED, which has the number 102.
var quicRefused = regexp.MustCompile(`ERR_CONNECTION_REFUSED|-102`)

// quicTried reads from Chromium's own log how long after its first packet the
// first session of QUIC was given up, and why; -1 if there was none.
func quicTried(t *testing.T, file string) (time.Duration, string) {
	t.Helper()
	var log struct {
		Constants struct{ LogEventTypes map[string]int }
		Events    []struct {
			Time   string
			Type   int
			Params struct{ Details string }
		}
	}
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &log)
	}
	if err != nil {
		t.Fatalf("read Chromium's log: %v", err)
	}
	sent := -1
	for _, e := range log.Events {
		ms, err := strconv.Atoi(e.Time)
		if err != nil {
			t.Fatalf("time %q in Chromium's log", e.Time)
		}
		switch e.Type {
		case log.Constants.LogEventTypes["QUIC_SESSION_PACKET_SENT"]:
			if sent < 0 {
				sent = ms
			}
		case log.Constants.LogEventTypes["QUIC_SESSION_CLOSED"]:
			if sent >= 0 {
				return time.Duration(ms-sent) * time.Millisecond, e.Params.Details
			}
		}
	}
	return -1, ""
}
