package spec_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bailey-dev/bailey/internal/testkit/netlab"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// exit is a network's own proxy: it answers CONNECT, and requests that are put
// to it as such, and knows names that nobody else does.
type exit struct {
	lab     *netlab.Lab
	login   string
	tlsOnly bool // it opens tunnels to port 443 alone
	mu      sync.Mutex
	seen    []string // what it was asked for: a target of CONNECT, or the request line
	heads   []http.Header
}

const exitAt = "11.0.0.53:3128" // in the world

func newExit(t *testing.T, lab *netlab.Lab, login string) *exit {
	t.Helper()
	x := &exit{lab: lab, login: login}
	ln := lab.Listen(exitAt)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go x.serve(t, c)
		}
	}()
	return x
}

func (x *exit) serve(t *testing.T, c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	r, err := http.ReadRequest(in)
	for err == nil && r.Method != http.MethodConnect {
		if x.forward(c, r) {
			return
		}
		r, err = http.ReadRequest(in)
	}
	if err != nil || !x.mayAsk(c, r, r.Host) {
		return
	}
	host, port, _ := net.SplitHostPort(r.Host)
	if host == "refused.test" || x.tlsOnly && port != "443" {
		_, _ = io.WriteString(c, "HTTP/1.1 403 Forbidden\x1b[31m\r\nContent-Length: 0\r\n\r\n")
		return
	}
	up, err := x.dial(t.Context(), host, port)
	if err != nil {
		_, _ = io.WriteString(c, "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
		return
	}
	defer up.Close()
	_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
	go func() { _, _ = io.Copy(up, in) }()
	_, _ = io.Copy(c, up)
}

// mayAsk notes what it is asked for, and wants a login.
func (x *exit) mayAsk(c io.Writer, r *http.Request, what string) bool {
	x.mu.Lock()
	x.seen, x.heads = append(x.seen, what), append(x.heads, r.Header)
	x.mu.Unlock()
	if want := "Basic " + base64.StdEncoding.EncodeToString([]byte(x.login)); x.login != "" && r.Header.Get("Proxy-Authorization") != want {
		_, _ = io.WriteString(c, "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=words-of-the-proxy\r\nContent-Length: 0\r\n\r\n")
		return false
	}
	return true
}

func (x *exit) dial(ctx context.Context, host, port string) (net.Conn, error) {
	to, ok := map[string]string{"allow.test": "11.0.0.10", "corp.test": "11.0.0.10", "evil.test": "11.0.0.66"}[host]
	if !ok {
		to = host
	}
	return x.lab.Dial(ctx, "tcp", net.JoinHostPort(to, port)) //nolint:wrapcheck // for one look
}

// forward answers a request that is put to it as such. It reports whether the
// connection ends.
func (x *exit) forward(c net.Conn, r *http.Request) (ends bool) {
	if !x.mayAsk(c, r, r.Method+" "+r.RequestURI) || r.URL.Host == "" {
		return true
	}
	r.Header.Del("Proxy-Authorization")
	body, err := io.ReadAll(r.Body) // before an answer: a transport may go on to read what it sends after that
	if err != nil {
		return true
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	port := r.URL.Port()
	if port == "" {
		port = "80"
	}
	way := &http.Transport{DisableKeepAlives: true, DisableCompression: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return x.dial(ctx, r.URL.Hostname(), port)
	}}
	defer way.CloseIdleConnections()
	res, err := way.RoundTrip(r)
	if err != nil {
		_, _ = io.WriteString(c, "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
		return true
	}
	defer res.Body.Close()
	res.Close = false
	return res.Write(c) != nil
}

func (x *exit) asked() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	out := x.seen
	x.seen, x.heads = nil, nil
	return out
}

// TestEGR05_UpstreamForwards: by way of a proxy that opens tunnels for TLS alone
// plain HTTP is put to it request by request, if the user's file says so, with
// the same hosts in reach and no others; its login is seen by nobody inside.
func TestEGR05_UpstreamForwards(t *testing.T) {
	t.Attr("claim", "EGR-05")
	t.Attr("claim", "SEC-06")
	t.Parallel()
	const login = "me:canary-pass-4712"
	const script = `
get() { printf '%s: ' "$1"; curl -sS --path-as-is --max-time 20 "$@" 2>&1 | head -c 600; echo; }
get 'http://allow.test//a%2fb?x=%zz&&y' -H 'Proxy-Authorization: Basic ZnJvbS1pbnNpZGU=' -H 'Max-Forwards: 0'
get http://allow.test/one http://allow.test/two
head -c 2000000 /dev/zero | get http://allow.test/post -H 'Expect: 100-continue' --data-binary @-
get http://corp.test/
get https://allow.test/ -k
get http://allow.test/socket -H 'Connection: Upgrade' -H 'Upgrade: websocket' -H 'Sec-WebSocket-Version: 13' -H 'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=='
get http://evil.test/
get http://loop.test:8080/
get http://169.254.169.254/
env`
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		lab := netlab.New(t)
		x := newExit(t, lab, login)
		x.tlsOnly = true
		y.Wrap = lab.Enter
		y.RunWith(t, func(c *exec.Cmd) { c.Stdin = strings.NewReader(login) }, "secret", "set", "exit", "--for", "gateway").OK(t)
		run := func(settings string) (yard.Result, string) {
			userPolicy(t, y, "net: {upstream: {proxy: 'http://"+exitAt+"'"+settings+"}}\n")
			r := y.Sh(t, script, "--tool", "curl", "--allow", "allow.test", "--allow", "corp.test", "--allow", "loop.test:8080")
			x.mu.Lock()
			for _, h := range x.heads {
				if strings.Contains(fmt.Sprint(h), "ZnJvbS1pbnNpZGU=") || h.Get("Max-Forwards") != "" || h.Get("Expect") != "" {
					t.Errorf("the proxy got %v", h)
				}
			}
			x.mu.Unlock()
			return r, strings.Join(x.asked(), "\n")
		}
		r, asked := run(", login: exit, plain_http: forward")
		saysAll(t, r, "&&y: "+helloAllowed, helloAllowed+"\n"+helloAllowed, "/post: "+helloAllowed, "http://corp.test/: hello from corp.test at 11.0.0.10", "https://allow.test/: "+helloAllowed)
		want := []string{
			"GET http://allow.test//a%2fb?x=%zz&&y", "GET http://allow.test/one", "GET http://allow.test/two", "POST http://allow.test/post",
			"GET http://corp.test/", "allow.test:443", "allow.test:80", // a tunnel for what is to be no HTTP any more
		}
		if asked != strings.Join(want, "\n") {
			t.Errorf("the proxy was asked for\n%s\nwant\n%s", asked, strings.Join(want, "\n"))
		}
		said := r.Stdout + r.Stderr + y.Run(t, "net", "log", "--json").Stdout
		for _, secret := range []string{"canary", "may help", base64.StdEncoding.EncodeToString([]byte(login)), "hello from evil"} {
			if strings.Contains(said, secret) {
				t.Errorf("%s is to be seen:\n%s", secret, said)
			}
		}
		// A proxy that wants a login says so to us, and not to who is inside.
		if r, _ = run(", plain_http: forward"); strings.Contains(r.Stdout, "words-of-the-proxy") || strings.Contains(r.Stdout, "hello") {
			t.Errorf("without the login: %s", r.Stdout)
		}
		saysAll(t, r, "your upstream proxy wants a login")
		// Twin: by a tunnel there is no way, and it is said what may help.
		if r, _ = run(", login: exit, plain_http: tunnel"); strings.Contains(r.Stdout, "corp.test/: hello") {
			t.Errorf("by a tunnel: %s", r.Stdout)
		}
		saysAll(t, r, "plain_http: forward may help", "https://allow.test/: "+helloAllowed)
	})
}

// TestEGR05_Upstream: by way of the network's own proxy the same hosts are
// reached as without, and no others; what this machine resolves is judged before
// the proxy is asked.
func TestEGR05_Upstream(t *testing.T) {
	t.Attr("claim", "EGR-05")
	t.Attr("claim", "EGR-04")
	t.Parallel()
	const script = `
get() { printf '%s: ' "$1"; curl -sS --max-time 20 "$@" 2>&1 | head -c 600; echo; }
get http://allow.test/
get https://allow.test/ -k
get http://allow.test/ --noproxy '*'
get http://corp.test/
get http://refused.test/
get http://evil.test/
get http://private.test:8080/
get http://loop.test:8080/
get http://metadata.google.internal/
get http://169.254.169.254/
get http://10.11.12.13:8080/
get http://127.0.0.1.:8080/`
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		lab := netlab.New(t)
		x := newExit(t, lab, "")
		y.Wrap = lab.Enter
		flags := []string{"--name", "web", "--tool", "curl"}
		for _, host := range []string{"allow.test", "corp.test", "refused.test", "private.test:8080", "loop.test:8080"} {
			flags = append(flags, "--allow", host)
		}
		userPolicy(t, y, "net:\n  upstream: {proxy: 'http://"+exitAt+"'}\n")
		r := y.Sh(t, script, flags...)
		saysAll(t, r, "http://allow.test/: "+helloAllowed, "https://allow.test/: "+helloAllowed, "http://corp.test/: hello from corp.test at 11.0.0.10",
			"upstream: hosts are reached by way of http://"+exitAt, "your upstream proxy refused refused.test:80 with status 403")
		if strings.Contains(r.Stdout+r.Stderr, "\x1b") || strings.Contains(r.Stdout, "canary") || strings.Contains(r.Stdout, "hello from evil") {
			t.Errorf("something got through:\n%s%s", r.Stdout, r.Stderr)
		}
		asked := x.asked()
		slices.Sort(asked)
		if got := strings.Join(slices.Compact(asked), " "); got != "allow.test:443 allow.test:80 corp.test:80 refused.test:80" {
			t.Errorf("the upstream proxy was asked for %s", got)
		}
		// What no_proxy names goes directly, and so does what a rule pins.
		userPolicy(t, y, "net:\n  allow: [{host: private.test, ports: [8080], addresses: [10.11.12.13]}]\n  upstream: {proxy: 'http://"+exitAt+"', no_proxy: [allow.test]}\n")
		r = y.Sh(t, script, "--tool", "curl", "--allow", "allow.test")
		saysAll(t, r, "http://allow.test/: "+helloAllowed, "canary")
		if got := x.asked(); len(got) > 0 {
			t.Errorf("the upstream proxy was asked for %v", got)
		}
		// Twin: without the upstream proxy its names are nobody's.
		userPolicy(t, y, "net: {}\n")
		if r = y.Sh(t, "curl -sS http://corp.test/", "--tool", "curl", "--allow", "corp.test"); strings.Contains(r.Stdout, "hello") {
			t.Errorf("corp.test is known: %s", r.Stdout)
		}
	})
}

// TestSEC06_UpstreamLogin: the login for the upstream proxy is a secret of the
// vault that no sandbox can be lent, and is seen nowhere.
func TestSEC06_UpstreamLogin(t *testing.T) {
	t.Attr("claim", "SEC-06")
	t.Parallel()
	const login = "me:canary-pass-4711"
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		lab := netlab.New(t)
		x := newExit(t, lab, login)
		y.Wrap = lab.Enter
		keep := func(name string, more ...string) {
			y.RunWith(t, func(c *exec.Cmd) { c.Stdin = strings.NewReader(login) }, append([]string{"secret", "set", name}, more...)...).OK(t)
		}
		keep("exit", "--for", "gateway")
		keep("plain", "--host", "allow.test")
		run := func(settings string) yard.Result {
			userPolicy(t, y, "net: {upstream: {proxy: 'http://"+exitAt+"'"+settings+"}}\n")
			return y.Sh(t, "curl -sS --max-time 20 http://allow.test/ 2>&1; env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'", "--tool", "curl", "--allow", "allow.test")
		}
		r := run(", login: exit")
		saysAll(t, r, helloAllowed)
		said := r.Stdout + r.Stderr + y.Run(t, "net", "log", "--json").Stdout
		for _, secret := range []string{"canary-pass", base64.StdEncoding.EncodeToString([]byte(login))} {
			if strings.Contains(said, secret) {
				t.Errorf("%s is to be seen:\n%s", secret, said)
			}
		}
		saysAll(t, run(""), "your upstream proxy wants a login")
		saysAll(t, run(", login: plain").Exit(t, 125), "a sandbox can be lent it")
		saysAll(t, run(", login: nobody").Exit(t, 125), "nobody")
		if len(x.asked()) == 0 {
			t.Error("nobody asked the proxy")
		}
	})
}

// TestEGR13_UpstreamProject: a project's file says nothing of the way out, and a
// file of roots is one, from outside of the workspace.
func TestEGR13_UpstreamProject(t *testing.T) {
	t.Attr("claim", "EGR-13")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		lab := netlab.New(t)
		y.Wrap = lab.Enter
		y.Write(t, "bailey.yaml", "net: {upstream: {proxy: 'http://evil.test:1'}}\n")
		doesNotStart(t, y, "only your own file says by way of whom")
		y.Write(t, "bailey.yaml", "net: {}\n")
		key := y.WriteHome(t, "key.pem", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
		for settings, words := range map[string]string{
			"ca: " + key: "it holds a PRIVATE KEY too", "ca: /none.pem": "cannot be read", "ca: none.pem": "no absolute path",
			"ca: " + y.Write(t, "ca.pem", ""):             "lies in the workspace",
			"proxy: 'socks5://example.com:1'":             "write it as http://",
			"proxy: 'http://me:pw@example.com'":           "holds a login",
			"login: x":                                    "says nothing without proxy",
			"plain_http: forward":                         "says nothing without proxy",
			"proxy: 'http://example.com', plain_http: no": "unknown value",
		} {
			userPolicy(t, y, "net: {upstream: {"+settings+"}}\n")
			r := y.Sh(t, "true", "--allow", "allow.test").Exit(t, 125)
			if !strings.Contains(r.Stderr, words) || strings.Contains(r.Stderr, "pw@") {
				t.Errorf("%s: want %q in %s", settings, words, r.Stderr)
			}
		}
		// The roots are for hosts whose TLS is opened, and for programs inside.
		const script = "curl -sS https://allow.test/x 2>&1; curl -sS https://evil.test/ 2>&1; true"
		policy := "net: {allow: [{host: allow.test, inspect: true}, evil.test]%s}\n"
		userPolicy(t, y, fmt.Sprintf(policy, ""))
		r := y.Sh(t, script, "--tool", "curl")
		if strings.Contains(r.Stdout, "hello from") {
			t.Errorf("trusted without it: %s", r.Stdout)
		}
		userPolicy(t, y, fmt.Sprintf(policy, ", upstream: {ca: "+lab.CAFile()+"}"))
		r = y.Sh(t, script, "--tool", "curl")
		saysAll(t, r, helloAllowed, "hello from evil.test", "trusted too: 1 certificates of "+lab.CAFile())
		userPolicy(t, y, "net: {allow: [evil.test], upstream: {ca: "+lab.CAFile()+"}}\n")
		saysAll(t, y.Sh(t, script, "--tool", "curl"), "hello from evil.test")
	})
}

// TestEGR05_UpstreamToProviders: providers of models are reached by way of the
// network's own proxy too, by runs and by the commands about models, whether the
// sandbox has a network or none; the login is seen by neither side.
func TestEGR05_UpstreamToProviders(t *testing.T) {
	t.Attr("claim", "EGR-05")
	t.Attr("claim", "SEC-06")
	t.Parallel()
	const login = "me:canary-pass-4713"
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		lab := netlab.New(t)
		x := newExit(t, lab, login)
		y.Wrap = lab.Enter
		y.RunWith(t, func(c *exec.Cmd) { c.Stdin = strings.NewReader(login) }, "secret", "set", "exit", "--for", "gateway").OK(t)
		w := newModelWorld(t, y, "anthropic", nil)
		p := &headed{}
		lab.Handle("corp.test", p)
		list := []modelTry{talk("anthropic", "call", hello)}
		putCalls(t, y, list)
		at := func(url string) {
			w.url = url
			w.models(t, "anthropic")
			if !strings.HasPrefix(url, "http:") {
				return
			}
			const name = ".config/bailey/models.yaml"
			text, err := os.ReadFile(filepath.Join(y.Home, name))
			if err != nil {
				t.Fatal(err)
			}
			y.WriteHome(t, name, strings.Replace(string(text), "kind:", "insecure_http: true, kind:", 1))
		}
		call := func(settings string, flags ...string) (string, string) {
			t.Helper()
			userPolicy(t, y, "net: {upstream: {"+settings+"}}\n")
			r := y.Run(t, append(append([]string{"run", "--model", "small"}, flags...), "--", "./calls", "tries.json")...).OK(t)
			g := callResults(t, list, r.Stdout)["call"]
			for _, secret := range []string{"canary", "words-of-the-proxy", base64.StdEncoding.EncodeToString([]byte(login))} {
				if strings.Contains(r.Stdout+r.Stderr, secret) {
					t.Errorf("%s: %s is to be seen:\n%s%s", settings, secret, r.Stdout, r.Stderr)
				}
			}
			return fmt.Sprintf("%d %s", g.Status, g.Body), strings.Join(x.asked(), " ")
		}
		const proxy = "proxy: 'http://" + exitAt + "'"
		ca := ", ca: " + lab.CAFile()
		for name, c := range map[string]struct {
			url, settings string
			flags         []string
			answer, asked string
		}{
			"by a tunnel":         {"https://corp.test", proxy + ", login: exit" + ca, nil, "200 ", "corp.test:443"},
			"with a network":      {"https://corp.test", proxy + ", login: exit" + ca, []string{"--allow", "allow.test"}, "200 ", "corp.test:443"},
			"of a host's own":     {"https://corp.test", proxy + ", login: exit", nil, "certificate", "corp.test:443"},
			"without the login":   {"https://corp.test", proxy + ca, nil, "your upstream proxy wants a login", "corp.test:443 corp.test:443"},
			"in the clear":        {"http://corp.test", proxy + ", login: exit", nil, "200 ", "corp.test:80"},
			"forwarded":           {"http://corp.test", proxy + ", login: exit, plain_http: forward", nil, "200 ", "POST http://corp.test/v1/messages"},
			"forwarded, no login": {"http://corp.test", proxy + ", plain_http: forward", nil, "your upstream proxy wants a login", "POST http://corp.test/v1/messages POST http://corp.test/v1/messages"},
			"refused":             {"https://refused.test", proxy + ", login: exit" + ca, nil, "your upstream proxy refused refused.test:443 with status 403", "refused.test:443 refused.test:443"},
			"directly":            {"https://corp.test", proxy + ", no_proxy: [corp.test], login: exit" + ca, nil, "cannot be reached", ""},
			"who is no provider":  {"https://allow.test", "ca: " + lab.CAFile(), nil, "502 ", ""},
		} {
			at(c.url)
			p.take()
			answer, asked := call(c.settings, c.flags...)
			if !strings.Contains(answer, c.answer) || asked != c.asked {
				t.Errorf("%s: %s; the proxy was asked for %q, want %q", name, answer, asked, c.asked)
			}
			keys := p.take()
			if c.answer == "200 " != (len(keys) == 1 && keys[0] == w.key+" ") || c.answer != "200 " && len(keys) > 0 {
				t.Errorf("%s: the provider got %q", name, keys)
			}
		}
		// The commands about models go the same way.
		at("https://corp.test")
		userPolicy(t, y, "net: {upstream: {"+proxy+", login: exit"+ca+"}}\n")
		saysAll(t, y.Run(t, "models", "check").OK(t), "ok")
		saysAll(t, y.Run(t, "models", "test").OK(t), "real-1")
		saysAll(t, y.Run(t, "models", "list", "--json").OK(t), `"reachable": true`)
		if asked := strings.Join(x.asked(), " "); asked != "corp.test:443 corp.test:443 corp.test:443" {
			t.Errorf("the proxy was asked for %s", asked)
		}
		userPolicy(t, y, "net: {upstream: {"+ca[2:]+"}}\n")
		saysAll(t, y.Run(t, "models", "check").Exit(t, 1), "cannot be reached")
		y.Run(t, "models", "test").Exit(t, 125)
		if asked := x.asked(); len(asked) > 0 {
			t.Errorf("the proxy was asked for %v", asked)
		}
	})
}

// headed is a provider that answers calmly, and notes the key and the proxy's
// login of each request.
type headed struct {
	mu   sync.Mutex
	keys []string
}

func (h *headed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.keys = append(h.keys, r.Header.Get("X-Api-Key")+" "+r.Header.Get("Proxy-Authorization"))
	h.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_, body, _ := strings.Cut(calm, "\r\n\r\n")
	_, _ = io.WriteString(w, body)
}

func (h *headed) take() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := h.keys
	h.keys = nil
	return out
}

// TestEGR05_UpstreamOfTasks: the model of a task, which has no network, is
// reached by way of the network's own proxy as that of a run is.
func TestEGR05_UpstreamOfTasks(t *testing.T) {
	t.Attr("claim", "EGR-05")
	t.Parallel()
	const login = "me:canary-pass-4714"
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		d := newTaskDesk(t, y, "anthropic", "")
		p := &headed{} // the proxy, which answers in the provider's place
		d.w.serve(t, p)
		proxy := d.w.url
		y.WriteHome(t, ".config/bailey/models.yaml", "default: small\nproviders: {far: {kind: anthropic, base_url: 'http://corp.test', insecure_http: true}}\nmodels: {small: {provider: far, name: real-1, context: 200000, max_output: 100, dialect: anthropic}}\n")
		y.RunWith(t, func(c *exec.Cmd) { c.Stdin = strings.NewReader(login) }, "secret", "set", "exit", "--for", "gateway").OK(t)
		ask := func(upstream string) string {
			t.Helper()
			userPolicy(t, y, "tasks: {roots: ["+y.Dir+"], mcp_listen: \"off\"}\nnet: {upstream: {"+upstream+"}}\n")
			s, r := d.run(`curl -sS -m 20 -H "Authorization: Bearer $ANTHROPIC_AUTH_TOKEN" -H "Content-Type: application/json" -H "anthropic-version: 2023-06-01" -d '` + hello + `' $ANTHROPIC_BASE_URL/v1/messages >answer 2>&1; env >>answer`)
			if s.Result == nil || strings.Contains(r.Stdout, "canary") {
				t.Fatalf("%+v %s", s, r.Stderr)
			}
			return s.Result.Diff
		}
		answer := ask("proxy: '" + proxy + "', login: exit, plain_http: forward")
		want := " Basic " + base64.StdEncoding.EncodeToString([]byte(login))
		if keys := p.take(); !strings.Contains(answer, `"text":"calm"`) || len(keys) != 1 || keys[0] != want {
			t.Errorf("the proxy got %q, the agent\n%s", keys, answer)
		}
		// Twin: without a proxy nobody knows the name.
		if answer = ask(""); !strings.Contains(answer, "cannot be reached") || len(p.take()) > 0 {
			t.Errorf("without the proxy: %s", answer)
		}
	})
}
