package spec_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bailey-dev/bailey/internal/testkit/agents"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// mcpDoor is a service whose MCP is served over HTTP.
type mcpDoor struct {
	yard        *yard.Yard
	addr, token string
}

func newMCPDoor(t *testing.T, y *yard.Yard) *mcpDoor {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &mcpDoor{yard: y, addr: l.Addr().String()}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	r := y.Start(t, "serve", "--local", "--json", "--mcp-listen", d.addr)
	r.Await(t, `"serving"`)
	if out, errOut := r.Output(); !strings.Contains(out, d.addr) {
		t.Fatalf("it does not serve on %s: %s%s", d.addr, out, errOut)
	}
	t.Cleanup(func() { d.stop(t) })
	path := strings.TrimSpace(y.Run(t, "mcp", "token").OK(t).Stdout)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the token's file: %v %v", info.Mode(), err)
	}
	d.token = strings.TrimSpace(string(text))
	return d
}

// stop ends the service in order.
func (d *mcpDoor) stop(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), yard.Timeout)
	defer cancel()
	_ = d.yard.Command(ctx, "serve", "stop").Run() // the test may have
}

const mcpHello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"0"}}}`

// raw sends the bytes of one request and returns the status and what follows.
func (d *mcpDoor) raw(t *testing.T, request string) (status int, rest string) {
	t.Helper()
	var dialer net.Dialer
	c, err := dialer.DialContext(t.Context(), "tcp", d.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(yard.Timeout)); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.WriteString(c, request) }() // it may be answered before its end
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("%.200q: %v", request, err)
	}
	defer resp.Body.Close()
	var head strings.Builder
	_ = resp.Header.Write(&head)
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return resp.StatusCode, head.String() + string(body)
}

// request is one as it should be, or not: header fields replace the usual ones
// of their name, and those without a value take them away.
func (d *mcpDoor) request(line string, fields map[string]string, body string) string {
	all := map[string]string{
		"Host": d.addr, "Authorization": "Bearer " + d.token, "Content-Type": "application/json",
		"Accept": "application/json, text/event-stream", "Content-Length": fmt.Sprint(len(body)), "Connection": "close",
	}
	var b strings.Builder
	b.WriteString(line + "\r\n")
	maps.Copy(all, fields)
	for k, v := range all {
		if v != "" {
			b.WriteString(k + ": " + v + "\r\n")
		}
	}
	b.WriteString("\r\n" + body)
	return b.String()
}

// TestSRV07_TheDoorIsForThisMachine: MCP over HTTP listens on loopback, wants
// the token on every request, and refuses foreign hosts and origins.
func TestSRV07_TheDoorIsForThisMachine(t *testing.T) {
	t.Attr("claim", "SRV-07")
	t.Parallel()
	d := newMCPDoor(t, yard.Unprivileged(t))
	_, port, _ := net.SplitHostPort(d.addr)
	const post = "POST /mcp HTTP/1.1"
	type fields = map[string]string
	for _, tc := range []struct {
		name, line string
		fields     fields
		body       string
		want       int
	}{
		{"as it should be", post, nil, mcpHello, 200},
		{"localhost", post, fields{"Host": "localhost:" + port}, mcpHello, 200},
		{"absolute form", "POST http://" + d.addr + "/mcp HTTP/1.1", nil, mcpHello, 200},
		{"a page of this machine", post, fields{"Origin": "http://localhost:3000"}, mcpHello, 200},

		{"rebinding", post, fields{"Host": "rebind.test:" + port}, mcpHello, 421},
		{"rebinding, with its own origin", post, fields{"Host": "rebind.test:" + port, "Origin": "http://rebind.test:" + port}, mcpHello, 421},
		{"rebinding to a stream", "GET /mcp HTTP/1.1", fields{"Host": "rebind.test:" + port}, "", 421},
		{"a name that resolves here", post, fields{"Host": "127.0.0.1.nip.test:" + port}, mcpHello, 421},
		{"a name below localhost", post, fields{"Host": "localhost.evil.test:" + port}, mcpHello, 421},
		{"0.0.0.0", post, fields{"Host": "0.0.0.0:" + port}, mcpHello, 421},
		{"mapped", post, fields{"Host": "[::ffff:127.0.0.1]:" + port}, mcpHello, 421},
		{"no port", post, fields{"Host": "127.0.0.1"}, mcpHello, 421},
		{"absolute form of another", "POST http://rebind.test:" + port + "/mcp HTTP/1.1", nil, mcpHello, 421},
		{"no host", "POST /mcp HTTP/1.0", fields{"Host": ""}, mcpHello, 421},
		{"two hosts", post, fields{"Host": d.addr + "\r\nHost: rebind.test"}, mcpHello, 400},
		{"forwarded", post, fields{"Host": "rebind.test", "X-Forwarded-Host": d.addr, "Forwarded": "host=" + d.addr}, mcpHello, 421},

		{"a page", post, fields{"Origin": "https://evil.test"}, mcpHello, 403},
		{"no page in particular", post, fields{"Origin": "null"}, mcpHello, 403},
		{"a page with our name in it", post, fields{"Origin": "http://127.0.0.1.evil.test"}, mcpHello, 403},
		{"a page that fetches", post, fields{"Sec-Fetch-Site": "cross-site"}, mcpHello, 403},
		{"a page that asks first", "OPTIONS /mcp HTTP/1.1", fields{"Origin": "https://evil.test", "Access-Control-Request-Method": "POST", "Access-Control-Request-Private-Network": "true"}, "", 403},
		{"a page's simple request", post, fields{"Authorization": "", "Content-Type": "text/plain"}, mcpHello, 401},

		{"no token", post, fields{"Authorization": ""}, mcpHello, 401},
		{"another", post, fields{"Authorization": "Bearer " + strings.Repeat("0", 64)}, mcpHello, 401},
		{"a part of it", post, fields{"Authorization": "Bearer " + d.token[:63]}, mcpHello, 401},
		{"more than it", post, fields{"Authorization": "Bearer " + d.token + "0"}, mcpHello, 401},
		{"its sum", post, fields{"Authorization": "Bearer "}, mcpHello, 401},
		{"in the query", "POST /mcp?token=" + d.token + " HTTP/1.1", fields{"Authorization": ""}, mcpHello, 401},
		{"in a cookie", post, fields{"Authorization": "", "Cookie": "token=" + d.token}, mcpHello, 401},
		{"as another scheme", post, fields{"Authorization": "Basic " + d.token}, mcpHello, 401},
		{"no token for a stream", "GET /mcp HTTP/1.1", fields{"Authorization": ""}, "", 401},
		{"no token for an end", "DELETE /mcp HTTP/1.1", fields{"Authorization": "", "Mcp-Session-Id": "x"}, "", 401},
		{"no token for what is not there", "GET /debug/pprof/heap HTTP/1.1", fields{"Authorization": ""}, "", 401},

		{"what is not there", "GET /debug/pprof/heap HTTP/1.1", nil, "", 404},
		{"another method", "PUT /mcp HTTP/1.1", nil, mcpHello, 405},
		{"a tunnel", "CONNECT " + d.addr + " HTTP/1.1", nil, "", 404},
		{"a session of one's own", post, fields{"Mcp-Session-Id": "chosen"}, mcpHello, 404},
		{"a stream of no session", "GET /mcp HTTP/1.1", fields{"Mcp-Session-Id": "chosen"}, "", 404},
		{"a form", post, fields{"Content-Type": "text/plain"}, mcpHello, 415},
		{"a large body", post, nil, strings.Repeat(" ", 5<<20), 413},
		{"large header fields", post, fields{"X-Large": strings.Repeat("x", 80<<10)}, mcpHello, 431},
		{"no JSON", post, nil, "{", 400},
	} {
		t.Run(tc.name, func(t *testing.T) {
			status, rest := d.raw(t, d.request(tc.line, tc.fields, tc.body))
			if status != tc.want {
				t.Errorf("status %d, want %d: %s", status, tc.want, rest)
			}
			if (status == 200) != strings.Contains(rest, `"serverInfo"`) || strings.Contains(rest, "Access-Control-") || strings.Contains(rest, d.token) {
				t.Errorf("it answers %s", rest)
			}
		})
	}
	t.Run("it listens on loopback alone", func(t *testing.T) {
		for _, at := range []string{"0.0.0.0:" + port, "[::]:" + port, "192.0.2.1:" + port} {
			r := yard.Unprivileged(t).Run(t, "serve", "--local", "--mcp-listen", at)
			if r.Code == 0 || !strings.Contains(r.Stderr, "loopback") {
				t.Errorf("%s: exit %d: %s", at, r.Code, r.Stderr)
			}
		}
		addrs, err := net.InterfaceAddrs()
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range addrs {
			ip, ok := a.(*net.IPNet)
			if !ok || ip.IP.IsLoopback() {
				continue
			}
			if c, err := net.DialTimeout("tcp", net.JoinHostPort(ip.IP.String(), port), time.Second); err == nil {
				_ = c.Close()
				t.Errorf("it is reached by %s", ip.IP)
			}
		}
	})
	t.Run("a session is nobody's without the token", func(t *testing.T) {
		_, rest := d.raw(t, d.request(post, nil, mcpHello))
		var id string
		for line := range strings.Lines(rest) {
			if v, ok := strings.CutPrefix(strings.TrimSpace(line), "Mcp-Session-Id: "); ok {
				id = v
			}
		}
		const list = `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
		if status, rest := d.raw(t, d.request(post, fields{"Mcp-Session-Id": id}, list)); status != 200 || !strings.Contains(rest, "delegate_task") {
			t.Errorf("with the token: %d %.300s", status, rest)
		}
		if status, _ := d.raw(t, d.request(post, fields{"Mcp-Session-Id": id, "Authorization": ""}, list)); status != 401 {
			t.Errorf("without: %d", status)
		}
	})
}

// inspect runs the official inspector with one method and returns its answer.
func inspect(t *testing.T, y *yard.Yard, args ...string) (out string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), yard.Timeout)
	defer cancel()
	cmd := y.Command(ctx, "mcp")
	node := filepath.Join(agents.Bin(t), "node")
	cmd.Path, cmd.Args = node, append([]string{node, filepath.Join(agents.InspectorBin(t), "mcp-inspector"), "--cli"}, args...)
	var errOut strings.Builder
	cmd.Stderr = &errOut
	b, err := cmd.Output()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	t.Logf("inspector %s: %s%s", strings.Join(args, " "), errOut.String(), err2text(err))
	return string(b), cmd.ProcessState.ExitCode()
}

func err2text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestMCP_TheOfficialInspectorUnderstands: over standard input and output and
// over HTTP; with --strict it ends with an error for a schema that is not sound.
func TestMCP_TheOfficialInspectorUnderstands(t *testing.T) {
	t.Parallel()
	y := yard.Unprivileged(t)
	d := newMCPDoor(t, y)
	tools := []string{"cancel_task", "cleanup_delegation", "delegate_task", "list_models", "list_tasks", "run_checks", "task_result", "task_status"}
	for name, server := range map[string][]string{
		// It starts servers without what says where bailey's folders are.
		"stdio": {y.Bin, "mcp", "-e", "XDG_RUNTIME_DIR=" + y.Variable("XDG_RUNTIME_DIR")},
		"http":  {"http://" + d.addr + "/mcp", "--transport", "http", "--header", "Authorization: Bearer " + d.token},
	} {
		t.Run(name, func(t *testing.T) {
			with := func(args ...string) (string, int) { return inspect(t, y, slices.Concat(server, args)...) }
			out, code := with("--method", "tools/list", "--strict")
			var list struct {
				Tools []struct {
					Name string `json:"name"`
				} `json:"tools"`
			}
			if err := json.Unmarshal([]byte(out), &list); err != nil || code != 0 {
				t.Fatalf("exit %d, %v: %s", code, err, out)
			}
			var names []string
			for _, tool := range list.Tools {
				names = append(names, tool.Name)
			}
			if slices.Sort(names); !slices.Equal(names, tools) {
				t.Errorf("the tools are %q", names)
			}
			for _, tc := range []struct {
				args []string
				want []string
				code int
			}{
				{[]string{"list_tasks"}, []string{`"tasks": []`, "there are no tasks"}, 0},
				{[]string{"list_models"}, []string{`"models": []`}, 0},
				{[]string{"task_status", "--tool-arg", "id=none"}, []string{"hint: bailey task ls", `"isError": true`}, 5},
				{[]string{"delegate_task", "--tool-arg", "task=x", "repo_path=relative"}, []string{"is not absolute", `"isError": true`}, 5},
				{[]string{"delegate_task", "--tool-arg", "task=x"}, []string{"repo_path", `"isError": true`}, 5},
			} {
				out, code := with(append([]string{"--method", "tools/call", "--tool-name"}, tc.args...)...)
				if code != tc.code {
					t.Errorf("%q: exit %d, want %d", tc.args, code, tc.code)
				}
				for _, want := range tc.want {
					if !strings.Contains(out, want) {
						t.Errorf("%q: no %q in %s", tc.args, want, out)
					}
				}
			}
		})
	}
	t.Run("http without the token", func(t *testing.T) {
		if out, code := inspect(t, y, "http://"+d.addr+"/mcp", "--transport", "http", "--method", "tools/list"); code == 0 {
			t.Errorf("it got %s", out)
		}
	})
}

// TestMCP_StdioSummonsTheService: a client that only looks starts nothing; the
// first use does, and what is started has no descriptor of the client's and ends
// when nobody needs it.
func TestMCP_StdioSummonsTheService(t *testing.T) {
	t.Parallel()
	y := yard.Unprivileged(t)
	ctx, cancel := context.WithTimeout(t.Context(), yard.Timeout)
	defer cancel()
	cmd := y.Command(ctx, "mcp")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	ask := func(message string) string {
		_, _ = io.WriteString(in, message+"\n")
		if !lines.Scan() {
			t.Fatalf("no answer: %v", lines.Err())
		}
		return lines.Text()
	}
	ask(mcpHello)
	_, _ = io.WriteString(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	if got := ask(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`); !strings.Contains(got, "delegate_task") {
		t.Errorf("the tools: %s", got)
	}
	running := func() bool { return y.Run(t, "serve", "status").Code == 0 }
	if running() {
		t.Error("a list of the tools started the service")
	}
	if got := ask(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"list_tasks"}}`); !strings.Contains(got, "there are no tasks") {
		t.Errorf("the tasks: %s", got)
	}
	if !running() {
		t.Error("the service does not run")
	}
	d := &mcpDoor{yard: y}
	t.Cleanup(func() { d.stop(t) })
	_ = in.Close()
	// The end of its output is seen only when nobody else has it open.
	if rest, err := io.ReadAll(out); err != nil || len(rest) > 0 {
		t.Errorf("after its end: %q %v", rest, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if !running() {
		t.Error("the service ended with its client")
	}
}
