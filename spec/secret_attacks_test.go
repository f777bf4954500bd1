package spec_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bailey-dev/bailey/internal/testkit/netlab"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// oddAnswers are answers that hold a field's value (%[1]s) and a token (%[2]s)
// where few look, or that are none.
var oddAnswers = map[string]string{
	"plain":      "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n%[1]s",
	"http10":     "HTTP/1.0 200 OK\r\n\r\n%[1]s",
	"http09":     "%[1]s",
	"chunkext":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=\"%[1]s\"\r\nhello\r\n0\r\nX-Trail: %[1]s\r\n\r\n",
	"reason":     "HTTP/1.1 200 %[1]s\r\nContent-Length: 2\r\n\r\nhi",
	"status":     "HTTP/1.1 %[2]s x\r\n\r\n",
	"version":    "%[2]s/1.1 200 x\r\n\r\n",
	"nofield":    "HTTP/1.1 200 OK\r\n%[2]s\r\n\r\n",
	"name":       "HTTP/1.1 200 OK\r\n%[2]s: 1\r\nX %[2]s: 1\r\nContent-Length: 0\r\n\r\n",
	"coding":     "HTTP/1.1 200 OK\r\nTransfer-Encoding: %[1]s\r\n\r\nx",
	"length":     "HTTP/1.1 200 OK\r\nContent-Length: %[1]s\r\n\r\nx",
	"lengths":    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: %[1]s\r\n\r\nx",
	"chunk":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%[1]s\r\nx",
	"switched":   "HTTP/1.1 101 x\r\nUpgrade: %[2]s\r\nConnection: upgrade\r\n\r\n%[1]s",
	"hints":      "HTTP/1.1 103 Early Hints\r\nLink: <%[1]s>\r\n\r\nHTTP/1.1 199 %[1]s\r\nX-A: %[1]s\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
	"surplus":    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi%[1]sHTTP/1.1 200 OK\r\n\r\n%[1]s",
	"nocontent":  "HTTP/1.1 204 No\r\nX-A: %[1]s\r\n\r\n%[1]s",
	"trailer":    "HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nTrailer: %[2]s, X-B\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n%[2]s: a\r\nX-B: %[1]s\r\n\r\n",
	"connection": "HTTP/1.1 200 OK\r\nConnection: %[2]s\r\n%[2]s: 1\r\nKeep-Alive: %[1]s\r\nProxy-Authenticate: %[1]s\r\nContent-Length: 0\r\n\r\n",
	"cut":        "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n%[1]s",
	"framed":     "HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\n\r\n\x00\x00\x00\x00\x14%[1]s",
	"lying":      "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n%[1]s",
	"unknown":    "HTTP/1.1 200 OK\r\nContent-Encoding: exi\r\n\r\n%[1]s",
	"part":       "HTTP/1.1 206 Partial\r\nContent-Type: multipart/byteranges; boundary=%[2]s\r\n\r\n--%[2]s\r\n\r\n%[1]s",
	"head":       "HTTP/1.1 200 OK\r\nX-A: %[1]s",
}

// serveOddly answers at allow.test:9443 by the path, and counts who brought a
// value.
func serveOddly(t *testing.T, w *secretWorld) *atomic.Int64 {
	t.Helper()
	var came atomic.Int64
	ln := tls.NewListener(w.lab.Listen(netip.AddrPortFrom(netlab.Allowed, 9443).String()), w.lab.CA().ServerConfig("http/1.1"))
	serve := func(c net.Conn) {
		defer c.Close()
		r, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		got := r.Header.Get("Authorization")
		if got == "Bearer "+w.value {
			came.Add(1)
		}
		_, _ = fmt.Fprintf(c, oddAnswers[r.URL.Path[1:]], got, strings.TrimPrefix(got, "Bearer "))
	}
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	return &came
}

// TestSecrets_OddAnswersGiveNothingBack: whatever a host makes of an answer, and
// what bailey says of one that is none (B042, B049, B050, B066).
func TestSecrets_OddAnswersGiveNothingBack(t *testing.T) {
	t.Parallel()
	y := yard.Root(t)
	w := newSecretWorld(t, y)
	came := serveOddly(t, w)
	w.set(t, "odd", w.value, "--host", "allow.test:9443", "--var", "ODD")
	var paths []string
	for name := range oddAnswers {
		paths = append(paths, name)
	}
	slices.Sort(paths)
	r := y.Sh(t, `echo "$ODD"; for v in --http1.1 --http2; do for p in `+strings.Join(paths, " ")+
		`; do echo "$v $p"; curl -m 5 -sS -i $v -H "Authorization: Bearer $ODD" https://allow.test:9443/$p 2>&1 | tr -d '\0'; echo; done; done`, "--secret", "odd", "--json")
	log := y.Run(t, "net", "log", "--json")
	all := strings.ToLower(r.Stdout + r.Stderr + log.Stdout + log.Stderr)
	for _, part := range []string{w.value[:24], w.value[16:]} { // the placeholder shares the beginning
		if i := strings.Index(all, part); i >= 0 {
			t.Errorf("the value came back near %q", all[max(0, i-300):i])
		}
	}
	placeholder, rest, _ := strings.Cut(r.Stdout, "\n")
	if n := came.Load(); n < int64(2*len(paths)) || !strings.Contains(rest, "\r\n\r\nBearer "+placeholder) {
		t.Errorf("the value arrived %d times: %s", n, rest)
	}
}

// TestSecrets_OneHoldsUpNoOther: a change to a place that cannot hold the value
// is refused and reaches nobody, and what becomes of the others reaches the
// sandbox all the same.
func TestSecrets_OneHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	y := yard.Unprivileged(t)
	w := newSecretWorld(t, y)
	odd := newValue() + ";x" // which no cookie can hold
	w.set(t, "odd", odd, "--host", "two.test")
	box := y.Start(t, "run", "--json", "--name", "two", "--secret", "demo", "--secret", "odd", "--", "sh", "-c",
		`while :; do `+bearer("https://allow.test/x")+`; curl -sS -H "Authorization: Bearer $ODD" https://two.test/y; sleep 0.1; done`)
	defer func() { y.Run(t, "stop", "two") }()
	box.Await(t, "/y by")
	said := func(what string) {
		t.Helper()
		yard.Eventually(t, yard.Timeout, func() bool { _, stderr := box.Output(); return strings.Contains(stderr, what) }, func() string {
			_, stderr := box.Output()
			return "not said: " + what + "\n" + stderr
		})
	}
	w.secret(t, odd, "edit", "odd", "--cookie", "c").Exit(t, 125)
	w.secret(t, "", "rm", "demo").OK(t)
	said("demo was withdrawn")
	if _, stderr := box.Output(); strings.Contains(stderr, "odd was") {
		t.Errorf("odd is not lent any more:\n%s", stderr)
	}
	w.secret(t, "", "edit", "odd", "--path", "/y").OK(t)
	said("odd has other rules")
	yard.Eventually(t, yard.Timeout, func() bool { return w.got("Authorization") == "Bearer "+odd }, func() string { return "it is not lent again" })
	before := len(w.lab.Requests())
	yard.Eventually(t, yard.Timeout, func() bool { return len(w.lab.Requests()) > before+2 }, func() string { return "nothing arrives" })
	for _, q := range w.lab.Requests()[before:] {
		if q.Host == "allow.test" {
			t.Error("a request with a secret that is gone has arrived")
		}
	}
}

// TestSecrets_WidenNoRule: a secret for all names below one opens no more of a
// name for which a rule lets some requests through.
func TestSecrets_WidenNoRule(t *testing.T) {
	t.Parallel()
	y := yard.Root(t)
	w := newSecretWorld(t, y)
	w.set(t, "wild", newValue(), "--host", "*.allow.test")
	userPolicy(t, y, "net:\n  allow: [{host: www.allow.test, paths: [/a]}]\n")
	ask := `for p in a b; do curl -sS -H "Authorization: Bearer $WILD" https://www.allow.test/$p; echo; done`
	if r := y.Sh(t, ask, "--secret", "wild"); !strings.Contains(r.Stdout, "GET /a by") || strings.Contains(r.Stdout, "GET /b by") || !strings.Contains(r.Stdout, "path-not-allowed") {
		t.Errorf("%s\n%s", r.Stdout, r.Stderr)
	}
	userPolicy(t, y, "net:\n  deny: [evil.test]\n")
	if r := y.Sh(t, ask, "--secret", "wild"); !strings.Contains(r.Stdout, "GET /a by") || !strings.Contains(r.Stdout, "GET /b by") {
		t.Errorf("the twin: %s\n%s", r.Stdout, r.Stderr)
	}
	if r := y.Sh(t, "true", "--secret", "wild", "--net", "none"); r.Code != 125 || !strings.Contains(r.Stderr, "--net none and --secret contradict") {
		t.Errorf("%d %s", r.Code, r.Stderr)
	}
}
