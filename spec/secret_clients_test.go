package spec_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey/internal/testkit/netlab"
	"github.com/bailey-dev/bailey/internal/testkit/origin"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// wsScript is a client of WebSockets (RFC 6455) of its own: it opens one with
// the placeholder in the handshake, has a message come back, and sends the
// placeholder itself in two fragments.
const wsScript = `import base64, os, socket, ssl, struct, sys
def connect():
    s = ssl.create_default_context().wrap_socket(socket.create_connection(("allow.test", 443)), server_hostname="allow.test")
    s.sendall(("GET /ws HTTP/1.1\r\nHost: allow.test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: " + base64.b64encode(os.urandom(16)).decode() + "\r\nSec-WebSocket-Extensions: permessage-deflate\r\n"
        "Authorization: Bearer " + os.environ["DEMO"] + "\r\n\r\n").encode())
    head = b""
    while b"\r\n\r\n" not in head:
        b = s.recv(1)
        if not b: break
        head += b
    print(head.split(b"\r\n")[0].decode(), b"xtensions" in head)
    return s
def send(s, op, fin, data):
    mask = os.urandom(4)
    s.sendall(bytes([fin << 7 | op, 0x80 | len(data)]) + mask + bytes(c ^ mask[i % 4] for i, c in enumerate(data)))
def receive(s):
    out = b""
    while True:
        h = s.recv(2)
        if len(h) < 2: return None
        n = h[1] & 127
        if n == 126: n = struct.unpack(">H", s.recv(2))[0]
        while n:
            b = s.recv(n)
            if not b: return None
            out += b; n -= len(b)
        if h[0] & 0x80: return out.decode()
s = connect()
send(s, 1, 1, b"hello"); print(receive(s))
send(s, 1, 1, b"tell"); print(receive(s) == "it is " + os.environ["DEMO"])
p = os.environ["DEMO"].encode()
send(s, 1, 0, b"x" + p[:9]); send(s, 0, 1, p[9:] + b"y")
try: print(receive(s))
except OSError: print(None)
`

// TestSEC01_RealClients: programs that people use authenticate with what they
// find in their variables, to hosts that want the value.
func TestSEC01_RealClients(t *testing.T) {
	t.Attr("claim", "SEC-01")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		w := newSecretWorld(t, y)
		gitToken, npmToken, got := newValue(), newValue(), []string{}
		git := origin.NewGit(t)
		demand := func(h http.Handler, want func(r *http.Request) bool) http.Handler {
			return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if !want(r) {
					rw.Header().Set("WWW-Authenticate", `Basic realm="origin"`)
					http.Error(rw, "who are you?", http.StatusUnauthorized)
					return
				}
				h.ServeHTTP(rw, r)
			})
		}
		w.lab.Name("git.test", netlab.Allowed)
		w.lab.Name("npm.test", netlab.Allowed)
		w.lab.Handle("git.test", demand(git, func(r *http.Request) bool { _, p, _ := r.BasicAuth(); return p == gitToken }))
		w.lab.Handle("npm.test", demand(origin.NPM(t, clientText), func(r *http.Request) bool { return r.Header.Get("Authorization") == "Bearer "+npmToken }))
		w.lab.Handle("allow.test", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer "+w.value {
				http.Error(rw, "who are you?", http.StatusUnauthorized)
				return
			}
			if r.URL.Path == "/ws" {
				origin.TellSocket(rw, r, w.value)
				return
			}
			b, _ := io.ReadAll(r.Body)
			_, _ = fmt.Fprintf(rw, "%s by %s, %d bytes", clientText, r.Proto, len(b))
		}))
		w.set(t, "git", gitToken, "--host", "git.test", "--basic", "x-access-token", "--var", "GIT_TOKEN")
		w.set(t, "npm", npmToken, "--host", "npm.test", "--var", "NPM_TOKEN")
		y.Write(t, "ws.py", wsScript)
		y.Write(t, "up.bin", strings.Repeat("0123456789abcdef", 1<<16)) // 1 MiB
		for _, c := range []struct{ name, script, want string }{
			{"curl", bearer("https://allow.test/") + "; " + bearer("--http1.1 https://allow.test/"), clientText + " by HTTP/2.0, 0 bytes" + clientText + " by HTTP/1.1, 0 bytes"},
			{"gh's form", `curl -sS -H "Authorization: token $DEMO" https://allow.test/`, clientText + " by HTTP/2.0"},
			{"curl, a long body", bearer("--data-binary @up.bin https://allow.test/"), clientText + " by HTTP/2.0, 1048576 bytes"},
			{"git", `git clone -q https://x-access-token:$GIT_TOKEN@git.test/repo.git && cd repo && cat README && echo two > README && git -c user.name=a -c user.email=a@b.test commit -qam second && git push -q && echo pushed`, "first words\npushed"},
			{"git, a helper of its own", `git -c credential.helper='!f() { echo username=x; echo password=$GIT_TOKEN; }; f' ls-remote https://git.test/repo.git | grep -c main`, "1"},
			{"npm", `printf '//npm.test/:_authToken=${NPM_TOKEN}\n' > ~/.npmrc; npm install --fetch-retries 0 --no-audit --no-fund --cafile /etc/ssl/certs/ca-certificates.crt --registry https://npm.test/ tiny >&2 && node -e 'console.log(require("tiny"))'`, clientText},
			{"python", python + ` -c 'import os, urllib.request as r; print(r.urlopen(r.Request("https://allow.test/", headers={"Authorization": "Bearer " + os.environ["DEMO"]})).read().decode())'`, clientText},
			{"node", `node -e 'fetch("https://allow.test/", {headers: {authorization: "Bearer " + process.env.DEMO}}).then(r => r.text()).then(console.log)'`, clientText},
			{"WebSocket, B061, B062", python + " ws.py", "HTTP/1.1 101 Switching Protocols False\nhello\nTrue\nNone\n"},
		} {
			t.Run(c.name, func(t *testing.T) {
				r := y.Sh(t, c.script, "--secret", "demo", "--secret", "git", "--secret", "npm", "--json")
				if !strings.Contains(r.Stdout, c.want) {
					t.Errorf("want %q: %s\n%s", c.want, r.Stdout, r.Stderr)
				}
				got = append(got, r.Stdout+r.Stderr)
			})
		}
		for _, value := range []string{w.value, gitToken, npmToken} {
			if strings.Contains(strings.Join(got, ""), value) {
				t.Error("a value was printed")
			}
		}
		if log := strings.TrimSpace(git.Log(t)); log != "second\nfirst" {
			t.Errorf("pushed: %q", log)
		}
	})
}
