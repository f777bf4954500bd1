package spec_test

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bailey-dev/bailey/internal/testkit/netlab"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// calm is a sound answer of the Messages API.
const calm = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n" +
	`{"id":"m","type":"message","role":"assistant","model":"real-1","content":[{"type":"text","text":"calm"}],"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":2}}`

// rawProvider answers each request with bytes, and closes.
type rawProvider struct {
	answer func(body, key string) string

	mu   sync.Mutex
	keys []string // that came
}

// rawAt has a provider answer at an address of this machine, or of a lab's.
func rawAt(t *testing.T, l net.Listener, answer func(body, key string) string) *rawProvider {
	t.Helper()
	p := &rawProvider{answer: answer}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(c)
		}
	}()
	return p
}

func (p *rawProvider) serve(c net.Conn) {
	defer c.Close()
	r, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return
	}
	var body bytes.Buffer
	_, _ = body.ReadFrom(r.Body)
	key := r.Header.Get("X-Api-Key")
	p.mu.Lock()
	p.keys = append(p.keys, key)
	p.mu.Unlock()
	// No other call is to come on a connection that ends here.
	_, _ = fmt.Fprint(c, firstHead.ReplaceAllString(p.answer(body.String(), key), "${1}Connection: close\r\n"))
}

var firstHead = regexp.MustCompile(`^((?s:HTTP/1\.1 1.*?\r\n\r\n)*HTTP/1\.1 [2-5][^\r]*\r\n)`)

func (p *rawProvider) asked() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.keys)
}

// raw makes a world whose provider is a rawProvider.
func rawWorld(t *testing.T, y *yard.Yard, answer func(body, key string) string) (*modelWorld, *rawProvider) {
	t.Helper()
	w := newModelWorld(t, y, "anthropic", nil)
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.url = "http://" + l.Addr().String()
	w.models(t, "anthropic")
	return w, rawAt(t, l, answer)
}

// keyEchoes are answers with the provider's key (%[1]s), which a harness would
// be shown. Those of oddAnswers come on top.
func keyEchoes(key string) map[string]string {
	const (
		plain  = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
		events = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
		start  = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"model\":\"%[1]s\",\"usage\":{\"input_tokens\":1}}}\n\n"
	)
	sized := func(head, body string) string {
		body = strings.ReplaceAll(body, "%[1]s", key)
		return head + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)
	}
	chunks := func(text string) string {
		var b strings.Builder
		for _, c := range []byte(strings.ReplaceAll(text, "%[1]s", key)) {
			b.WriteString("1\r\n" + string(c) + "\r\n")
		}
		return b.String() + "0\r\n\r\n"
	}
	list := map[string]string{ // a provider that takes its key apart, to give it away, can
		"body":         plain + `{"type":"message","model":"real-1","content":[{"type":"text","text":"%[1]s"}],"usage":{"input_tokens":1,"output_tokens":1}}`,
		"base64":       plain + `{"type":"message","content":[{"type":"text","text":"` + base64.StdEncoding.EncodeToString([]byte("x-api-key: "+key)) + `"}]}`,
		"hex":          plain + `{"type":"message","content":[{"type":"text","text":"` + hex.EncodeToString([]byte(key)) + `"}]}`,
		"escapes":      plain + `{"type":"message","content":[{"type":"text","text":"` + strings.ReplaceAll(key, "_", `\u005f`) + `"}]}`,
		"model":        plain + `{"type":"message","model":"%[1]s","content":[],"usage":{"input_tokens":1,"output_tokens":1}}`,
		"tool counts":  plain + `{"type":"message","content":[],"usage":{"input_tokens":1,"output_tokens":1,"server_tool_use":{"%[1]s":1},"service_tier":"%[1]s"}}`,
		"error":        "HTTP/1.1 400 Bad\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n" + `{"type":"error","error":{"type":"invalid_request_error","message":"header x-api-key: %[1]s"}}`,
		"login":        "HTTP/1.1 401 %[1]s\r\nContent-Type: application/json\r\nWWW-Authenticate: Bearer realm=%[1]s\r\nConnection: close\r\n\r\n" + `{"error":"%[1]s"}`,
		"fields":       "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nRequest-Id: %[1]s\r\nAnthropic-Ratelimit-Tokens-Remaining: %[1]s\r\nAnthropic-Ratelimit-%[1]s: 1\r\nX-Ratelimit-Remaining-%[1]s: 1\r\nSet-Cookie: a=%[1]s\r\nConnection: close\r\n\r\n" + calm[strings.Index(calm, "{"):],
		"kind":         "HTTP/1.1 200 OK\r\nContent-Type: text/%[1]s\r\nConnection: close\r\n\r\nx",
		"redirect":     "HTTP/1.1 307 x\r\nLocation: https://evil.test/?%[1]s\r\nContent-Length: 0\r\n\r\n",
		"events":       events + start + "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"%[1]s\"}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
		"event's name": events + "event: %[1]s\ndata: {}\n\n: %[1]s\n\nid: %[1]s\ndata: {\"type\":\"ping\"}\n\n",
		"error event":  events + start + "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"%[1]s\",\"message\":\"%[1]s\"}}\n\n",
		"split":        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"%[1]s\"}}\n\n"),
		"compressed":   sized("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n", "%[1]s"),
		"identity":     sized("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: identity\r\n", `{"type":"message","content":[{"type":"text","text":"%[1]s"}]}`),
	}
	for name, text := range oddAnswers {
		list["odd "+name] = text
	}
	return list
}

// TestModel_KeyStaysOut (D070, D072): whatever a provider makes of its answer,
// its key comes back in no form, to nobody; no redirect is followed. The twin
// after each, which is sound, arrives.
func TestModel_KeyStaysOut(t *testing.T) {
	t.Parallel()
	y := yard.Unprivileged(t)
	var echoes map[string]string
	w, p := rawWorld(t, y, func(body, key string) string {
		_, rest, _ := strings.Cut(body, "say:")
		name, _, _ := strings.Cut(rest, ".")
		if text, ok := echoes[name]; ok {
			return strings.NewReplacer("%[1]s", key, "%[2]s", key).Replace(text)
		}
		return calm
	})
	echoes = map[string]string{}
	var list []modelTry
	for name, text := range keyEchoes(w.key) {
		echoes[name] = text
		list = append(list, saying("anthropic", name, strings.Contains(text, "event-stream")), saying("anthropic", "twin", false)) // which closes the circuit
	}
	got, r := w.run(t, list, "--json")
	all := r.Stdout + r.Stderr + fmt.Sprint(got) + y.Run(t, "net", "log", "--json").OK(t).Stdout + y.Run(t, "usage").OK(t).Stdout
	found := func(where, text string) {
		text = strings.ToLower(text)
		for _, part := range []string{w.key[:24], w.key[len(w.key)-20:], base64.StdEncoding.EncodeToString([]byte("x-api-key: " + w.key))[8:40], hex.EncodeToString([]byte(w.key))[:40]} {
			if i := strings.Index(text, strings.ToLower(part)); i >= 0 {
				t.Errorf("the key came back in %s: %q", where, text[max(0, i-200):min(len(text), i+80)])
			}
		}
	}
	found("what was said", all)
	eachFile(y, func(path, text string) { found(path, text) })
	if n := len(p.asked()); n < len(list) || slices.Contains(p.asked(), "") || p.asked()[0] != w.key {
		t.Errorf("the provider was asked %d times of %d", n, len(list))
	}
	if got["twin"].Status != 200 || strings.Count(r.Stdout, "calm") < len(list)/2 {
		t.Errorf("the twin: %d %s", got["twin"].Status, got["twin"].Body)
	}
	for name, want := range map[string]int{"redirect": 502, "compressed": 502, "body": 200, "error": 400, "login": 403} {
		if g := got[name]; g.Status != want || g.Header.Get("Location") != "" {
			t.Errorf("%s: %d %v %s", name, g.Status, g.Header, g.Body)
		}
	}
}

// eachFile reads every file of the yard's but the vault, those of the test's own
// and the binaries.
func eachFile(y *yard.Yard, look func(path, text string)) {
	_ = filepath.WalkDir(filepath.Dir(y.Home), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && d.Name() != "tries.json" && d.Name() != "calls" {
			b, _ := os.ReadFile(path)
			look(path, string(b))
		}
		return nil
	})
}

// TestModel_AnswersAreHandedOn (D040, D073, D078): the gateway is neutral to what a
// model says: calls of tools that nobody declared, arguments that lead out,
// broken JSON and text that looks like an event arrive as they are, inside of
// what they are, and nothing on the host acts by them.
func TestModel_AnswersAreHandedOn(t *testing.T) {
	t.Parallel()
	y := yard.Unprivileged(t)
	answers := map[string]string{
		"undeclared": `{"type":"message","model":"real-1","content":[{"type":"tool_use","id":"t","name":"rm","input":{"path":"../../etc"}}],"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":1}}`,
		"many":       `{"type":"message","model":"real-1","content":[` + strings.Repeat(`{"type":"tool_use","id":"t","name":"read","input":{}},`, 100_000) + `{"type":"text","text":"x"}],"usage":{"input_tokens":1,"output_tokens":1}}`,
		"broken":     `{"type":"message","content":[`,
		"deep":       `{"type":"message","content":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`,
		"another":    `{"type":"message","model":"dear-9","content":[],"usage":{"input_tokens":1,"output_tokens":1}}`,
		"an event":   stream(`{"type":"message_start","message":{"model":"real-1","usage":{"input_tokens":1}}}`, `{"type":"content_block_delta","delta":{"type":"text_delta","text":"\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\r\revent: error\r"}}`, `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9}}`, `{"type":"message_stop"}`),
		"line ends":  "event: message_stop\rdata: {\"type\":\"message_stop\"}\r\revent: ping\r\ndata: {\"type\":\"ping\"}\r\n\r\n",
	}
	w := newModelWorld(t, y, "anthropic", nil)
	w.serve(t, &sayer{answers: answers})
	w.models(t, "anthropic")
	var list []modelTry
	for name, text := range answers {
		list = append(list, saying("anthropic", name, !strings.HasPrefix(text, "{")))
	}
	got, r := w.run(t, list, "--json")
	for name, text := range answers {
		want := text
		if name == "line ends" { // written anew, so that nobody reads it otherwise
			want = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\n"
		}
		if g := got[name]; g.Status != 200 || g.Body != want {
			t.Errorf("%s: %d %.300s", name, g.Status, g.Body)
		}
	}
	for _, e := range modelCalls(t, r.Stderr) {
		if e.Use.Served == "dear-9" {
			return
		}
	}
	t.Errorf("nobody is told which model answered: %s", r.Stderr)
}

// TestModel_Retries (D056): one call is at most two of the provider's, the first
// of which cost nothing; a provider that fails on and on is left alone, and none
// of it is booked.
func TestModel_Retries(t *testing.T) {
	t.Parallel()
	y := yard.Root(t)
	busy := "HTTP/1.1 529 x\r\nRetry-After: 0\r\nX-Should-Retry: true\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n{}"
	failed := strings.Replace(busy, "529", "500", 1)
	var asked atomic.Int64
	w, p := rawWorld(t, y, func(body, _ string) string {
		n := asked.Add(1)
		switch {
		case strings.Contains(body, "say:busy once") && n == 1:
			return busy
		case strings.Contains(body, "say:busy."):
			return busy
		case strings.Contains(body, "say:failed"):
			return failed
		}
		return calm
	})
	list := []modelTry{saying("anthropic", "busy once", false), saying("anthropic", "busy", false), saying("anthropic", "twin", false)}
	for i := range 20 {
		list = append(list, saying("anthropic", fmt.Sprint("failed", i), false))
	}
	got, r := w.run(t, list, "--json")
	if got["busy once"].Status != 200 || got["busy"].Status != 529 || got["twin"].Status != 200 || got["failed0"].Status != 500 || got["failed19"].Status != 503 {
		t.Errorf("%v", got)
	}
	if n := len(p.asked()); n != 2+2+1+5 {
		t.Errorf("the provider was asked %d times for %d calls", n, len(list))
	}
	if calls := modelCalls(t, r.Stderr); len(calls) != len(list) || !calls[0].Use.Retried || calls[0].Use.Input != 3 {
		t.Errorf("%s", r.Stderr)
	}
	if u := usage(t, y); len(u) != 1 || u[0].Requests != 2 || u[0].Input != 6 || u[0].Output != 4 {
		t.Errorf("%+v", u)
	}
}

// TestModel_ContentIsInNoRecord (D076): what was asked and answered is in no
// log, event, error or file of the host's, however the call went.
func TestModel_ContentIsInNoRecord(t *testing.T) {
	t.Parallel()
	y := yard.Unprivileged(t)
	const private = "my-very-own-words-4711"
	w, p := rawWorld(t, y, func(body, _ string) string {
		switch {
		case strings.Contains(body, "say:refused"):
			return "HTTP/1.1 400 " + private + "\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n" + `{"type":"error","error":{"type":"x","message":"` + private + `"}}`
		case strings.Contains(body, "say:page"):
			return "HTTP/1.1 500 x\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n" + private
		case strings.Contains(body, "say:none"):
			return private
		case strings.Contains(body, "say:no field"):
			return "HTTP/1.1 200 OK\r\n" + private + "\r\n\r\n"
		case strings.Contains(body, "say:no chunk"):
			return "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" + private
		}
		return strings.Replace(calm, "calm", private, 1)
	})
	list := []modelTry{{Name: "a path", Line: "POST /v1/messages", Fields: []string{tokenField("anthropic"), "Content-Type: application/json", "X-Note: " + private}, Body: []byte(hello)}}
	for name, body := range map[string]string{
		"a message":    `{"model":"x","max_tokens":50,"messages":[{"role":"user","content":"%s"}]}`,
		"a system":     `{"model":"x","max_tokens":50,"system":"%s","messages":[{"role":"user","content":"x"}]}`,
		"a tool":       `{"model":"x","max_tokens":50,"tools":[{"name":"read","description":"%s","input_schema":{"x":"%[1]s"}}],"messages":[{"role":"user","content":"x"}]}`,
		"a result":     `{"model":"x","max_tokens":50,"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"%s"}]}]}`,
		"metadata":     `{"model":"x","max_tokens":50,"metadata":{"user_id":"%s"},"messages":[{"role":"user","content":"x"}]}`,
		"refused":      `{"model":"x","max_tokens":50,"messages":[{"role":"user","content":"say:refused %s"}]}`,
		"page":         `{"model":"x","max_tokens":50,"messages":[{"role":"user","content":"say:page %s"}]}`,
		"none":         `{"model":"x","max_tokens":50,"messages":[{"role":"user","content":"say:none %s"}]}`,
		"no field":     `{"model":"x","max_tokens":50,"messages":[{"role":"user","content":"say:no field %s"}]}`,
		"no chunk":     `{"model":"x","max_tokens":50,"messages":[{"role":"user","content":"say:no chunk %s"}]}`,
		"no JSON":      `{"model":"x","messages":[{"role":"user","content":"%s`,
		"a wrong kind": `{"model":"x","max_tokens":50,"messages":"%s"}`,
		"a long role":  `{"model":"x","max_tokens":50,"messages":[{"role":"` + strings.Repeat("x", 64) + `%s","content":"x"}]}`,
		"unknown":      `{"model":"x","max_tokens":50,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://%s.test"}}]}]}`,
		"bad UTF-8":    `{"model":"x","max_tokens":50,"messages":[{"role":"user","content":"%s` + "\xff" + `"}]}`,
	} {
		list = append(list, talk("anthropic", name, strings.ReplaceAll(strings.ReplaceAll(body, "%[1]s", private), "%s", private)))
	}
	got, r := w.run(t, list, "--json", "--budget", "100k")
	if !strings.Contains(got["a message"].Body, private) || !strings.Contains(got["refused"].Body, private) || len(p.asked()) < 6 {
		t.Errorf("the twin: the sandbox gets what the provider says: %v", got)
	}
	for what, text := range map[string]string{
		"events": r.Stderr, "the log": y.Run(t, "net", "log", "--json").OK(t).Stdout, "usage": y.Run(t, "usage", "--by", "task").OK(t).Stdout,
	} {
		if i := strings.Index(text, private); i >= 0 {
			t.Errorf("in %s: %s", what, text[max(0, i-300):min(len(text), i+100)])
		}
	}
	eachFile(y, func(path, text string) {
		if strings.Contains(text, private) {
			t.Errorf("in %s", path)
		}
	})
}

// TestModel_CacheNames (D018, D077): what names a prompt cache is one run's alone, and
// says nothing; a cache that is shared by more than a conversation is not asked
// for.
func TestModel_CacheNames(t *testing.T) {
	t.Parallel()
	y := yard.Unprivileged(t)
	w := newModelWorld(t, y, "openai-responses", nil, answered)
	body := `{"model":"x","input":[{"role":"user","content":"hello"}],"prompt_cache_key":"evil","prompt_cache_retention":"24h"}`
	list := []modelTry{talk("openai-responses", "1", body), talk("openai-responses", "2", body)}
	w.run(t, list)
	w.run(t, list)
	names := map[string]int{}
	for _, body := range w.sent() {
		_, rest, _ := strings.Cut(body, `"prompt_cache_key":"`)
		name, _, _ := strings.Cut(rest, `"`)
		names[name]++
		if strings.Contains(body, "evil") || strings.Contains(body, "retention") {
			t.Errorf("sent %s", body)
		}
	}
	if len(names) != 2 || names[""] > 0 {
		t.Errorf("two runs of two calls have the names %v", names)
	}
}

// leaf is a certificate that one of another name, of another time or of nobody
// stands for.
func leaf(t *testing.T, name string, until time.Time) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(4711), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: until}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
}

// TestModel_ProviderProvesItsName (D081): a provider with another's name, an
// old certificate or one that nobody signed gets neither key nor request; what
// stands in the environment that bailey is started with opens no way.
func TestModel_ProviderProvesItsName(t *testing.T) {
	t.Parallel()
	y := yard.Root(t)
	lab := netlab.New(t)
	lab.Trust()
	y.Wrap = lab.Enter
	w := newModelWorld(t, y, "anthropic", nil)
	self := leaf(t, "self.test", time.Now().Add(time.Hour))
	bundle := y.WriteHome(t, "evil.pem", pemOf(self))
	other, err := lab.CA().Leaf("other.test")
	if err != nil {
		t.Fatal(err)
	}
	tunnel := rawAt(t, lab.Listen(netip.AddrPortFrom(netlab.Evil, 3128).String()), func(string, string) string { return calm })
	providers := map[string]*rawProvider{}
	port := uint16(9500)
	for _, c := range []struct {
		name string
		conf *tls.Config
		env  []string
		ok   bool
	}{
		{"twin", lab.CA().ServerConfig("http/1.1"), nil, true},
		{"wrong", &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*other}}, nil, false},
		{"expired", leaf(t, "expired.test", time.Now().Add(-time.Hour)), nil, false},
		{"self", self, nil, false},
		{"self", self, []string{"SSL_CERT_FILE=" + bundle, "SSL_CERT_DIR=" + y.Home, "GODEBUG=x509ignoreCN=0"}, false},
		{"proxied", lab.CA().ServerConfig("http/1.1"), []string{"HTTPS_PROXY=http://11.0.0.66:3128", "HTTP_PROXY=http://11.0.0.66:3128", "ALL_PROXY=http://11.0.0.66:3128", "https_proxy=http://11.0.0.66:3128", "SSL_CERT_FILE=/dev/null", "SSLKEYLOGFILE=" + y.Home + "/keys"}, true},
	} {
		port++
		name := c.name + ".test"
		lab.Name(name, netlab.Allowed)
		p := rawAt(t, tls.NewListener(lab.Listen(netip.AddrPortFrom(netlab.Allowed, port).String()), c.conf), func(string, string) string { return calm })
		providers[c.name] = p
		w.url = fmt.Sprintf("https://%s:%d", name, port)
		w.models(t, "anthropic")
		list := []modelTry{talk("anthropic", "call", hello)}
		putCalls(t, y, list)
		r := y.RunWith(t, func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, c.env...) }, "run", "--model", "small", "--", "./calls", "tries.json").OK(t)
		g := callResults(t, list, r.Stdout)["call"]
		switch n := len(p.asked()); {
		case c.ok && (g.Status != 200 || n != 1 || p.asked()[0] != w.key):
			t.Errorf("%s: %d %s, asked %d times", c.name, g.Status, g.Body, n)
		case !c.ok && (g.Status != 502 || n != 0 || !strings.Contains(g.Body, "certificate")):
			t.Errorf("%s with %v: %d %s, asked %d times", c.name, c.env, g.Status, g.Body, n)
		}
	}
	if n := len(tunnel.asked()); n != 0 || len(lab.ConnectionsTo(netlab.Evil)) != 0 {
		t.Errorf("the proxy of the environment was asked %d times", n)
	}
	if _, err := os.Stat(filepath.Join(y.Home, "keys")); err == nil {
		t.Error("the keys of TLS were written")
	}
}

func pemOf(c *tls.Config) string {
	return "-----BEGIN CERTIFICATE-----\n" + base64.StdEncoding.EncodeToString(c.Certificates[0].Certificate[0]) + "\n-----END CERTIFICATE-----\n"
}
