package egress

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/policy"
	"github.com/bailey-dev/bailey/internal/testkit/ca"
)

// helloFor returns the one record of a ClientHello for a name of ten bytes.
func helloFor(t testing.TB, name string) []byte {
	t.Helper()
	a, b := net.Pipe()
	go func() {
		_ = tls.Client(a, &tls.Config{ServerName: "stand.test"}).Handshake()
		_ = a.Close()
	}()
	buf := make([]byte, 16<<10)
	n, err := b.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	_ = b.Close()
	if len(name) != len("stand.test") {
		t.Fatalf("%q is not ten bytes long", name)
	}
	return bytes.Replace(buf[:n], []byte("stand.test"), []byte(name), 1)
}

func record(kind byte, payload ...byte) []byte {
	return append([]byte{kind, 3, 3, byte(len(payload) >> 8), byte(len(payload))}, payload...)
}

// pieced cuts the payload of a record into records of some size.
func pieced(b []byte, size int) []byte {
	var out []byte
	for p := range slices.Chunk(b[recordHeader:], size) {
		out = append(out, record(b[0], p...)...)
	}
	return out
}

// serverHello is the start of one: a HelloRetryRequest or another.
func serverHello(random string) []byte {
	body := append([]byte{3, 3}, random...)
	body = append(body, make([]byte, 40)...)
	return record(tlsHandshake, append([]byte{serverHelloType, 0, 0, byte(len(body))}, body...)...)
}

// After a HelloRetryRequest the second ClientHello is held to the first one,
// in whatever pieces and at whatever time it comes (EGR-04, A020).
func TestHelloScreen(t *testing.T) {
	t.Parallel()
	first, same, other := helloFor(t, "allow.test"), helloFor(t, "allow.test"), helloFor(t, "other.test")
	retry, plain := serverHello(retryRandom), serverHello(strings.Repeat("r", randomSize))
	ccs, early := record(tlsChangeCipher, 1), record(tlsAppData, []byte("early data")...)
	for what, c := range map[string]struct {
		server, client []byte
		reason         string // empty: all is passed on
	}{
		"same name":                         {retry, same, ""},
		"same name, later bytes":            {retry, slices.Concat(ccs, same, early), ""},
		"same name, early data":             {retry, slices.Concat(early, ccs, same), ""},
		"same name, one-byte records":       {pieced(retry, 1), pieced(same, 1), ""},
		"same name, after a warning":        {slices.Concat(record(tlsAlert, 1, 112), retry), same, ""},
		"other name":                        {retry, other, policy.ReasonNameMismatch},
		"other name, after CCS":             {retry, slices.Concat(ccs, other), policy.ReasonNameMismatch},
		"other name, early data":            {retry, slices.Concat(early, ccs, other), policy.ReasonNameMismatch},
		"other name, one-byte records":      {retry, pieced(other, 1), policy.ReasonNameMismatch},
		"other name, the server in pieces":  {pieced(retry, 1), other, policy.ReasonNameMismatch},
		"other name, after a warning":       {slices.Concat(record(tlsAlert, 1, 112), retry), other, policy.ReasonNameMismatch},
		"other name, without being asked":   {plain, other, policy.ReasonNameMismatch},
		"something else in its place":       {retry, record(tlsHandshake, 20, 0, 0, 1, 0), policy.ReasonBadTLS},
		"something after it in its record":  {retry, pieced(record(tlsHandshake, append(same[recordHeader:], 1, 0, 0, 0)...), 16000), policy.ReasonBadTLS},
		"something else in the middle":      {retry, slices.Concat(pieced(same, 100)[:105], ccs, same), policy.ReasonBadTLS},
		"endless":                           {retry, slices.Repeat(record(tlsHandshake, 1, 0xff, 0xff, 0xff), 10000), policy.ReasonBadTLS},
		"no retry: TLS 1.3":                 {plain, slices.Concat(ccs, early), ""},
		"no retry: TLS 1.2":                 {plain, record(tlsHandshake, 16, 0, 0, 1, 0), ""},
		"no retry: TLS 1.2, resumed":        {plain, slices.Concat(ccs, record(tlsHandshake, 1, 2, 3)), ""},
		"no TLS at all from the server":     {[]byte("HTTP/1.1 400 Bad Request\r\n"), early, ""},
		"a server that ends without a word": {nil, other, policy.ReasonNameMismatch},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			screenHello(t, first, c.server, c.client, c.reason)
		})
	}
}

// screenHello joins two connections under a helloScreen and compares what
// comes out at the server.
func screenHello(t *testing.T, first, server, client []byte, reason string) {
	t.Helper()
	down, sandbox := tcpPair(t)
	up, host := tcpPair(t)
	h, err := parseHello(t.Context(), bytes.NewReader(first))
	if err != nil || h.serverName != "allow.test" {
		t.Fatalf("%+v, %v", h, err)
	}
	f := &flow{p: New(Config{Now: time.Now, Rules: policy.NewLive(policy.Policy{})}), down: down, head: slices.Concat(first, client)} // all at once
	f.decision.Verdict = bailey.Allow
	joined := make(chan struct{})
	go func() { defer close(joined); f.relay(up, newHelloScreen(t.Context(), h, len(first))) }()
	_ = sandbox.CloseWrite()
	_ = host.SetDeadline(time.Now().Add(20 * time.Second))
	got := make([]byte, len(first))
	if _, err := io.ReadFull(host, got); err != nil || !bytes.Equal(got, first) {
		t.Fatalf("first hello: %v", err)
	}
	_, _ = host.Write(server)
	_ = host.CloseWrite()
	rest, err := io.ReadAll(host)
	<-joined
	if reason == "" {
		if err != nil || !bytes.Equal(rest, client) || !f.kept || f.decision.Verdict != bailey.Allow {
			t.Errorf("%d of %d bytes passed, %v; %+v", len(rest), len(client), err, f.decision)
		}
		return
	}
	if f.decision.Reason != reason || f.decision.Verdict == bailey.Allow || f.kept || bytes.Contains(rest, []byte("other.test")) {
		t.Errorf("%d bytes passed; kept %v, %+v", len(rest), f.kept, f.decision)
	}
}

// The random of a HelloRetryRequest is what crypto/tls sends.
func TestReadRetry_AgreesWithCryptoTLS(t *testing.T) {
	t.Parallel()
	authority, err := ca.New(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for want, curve := range map[bool]tls.CurveID{true: tls.CurveP384, false: tls.X25519} {
		a, b := net.Pipe()
		config := authority.ServerConfig()
		config.CurvePreferences = []tls.CurveID{curve}
		go func() { _ = tls.Server(a, config).HandshakeContext(t.Context()) }()
		_ = b.SetDeadline(time.Now().Add(20 * time.Second))
		if _, err := b.Write(helloFor(t, "allow.test")); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 4096)
		n, err := b.Read(buf)
		if retry, sure := readRetry(buf[:n]); err != nil || !sure || retry != want {
			t.Errorf("%v: retry %v, sure %v, %v", curve, retry, sure, err)
		}
		_, _ = a.Close(), b.Close()
	}
}
