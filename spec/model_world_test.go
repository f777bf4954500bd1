package spec_test

import (
	"encoding/json"
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

	"github.com/bailey-dev/bailey/internal/testkit/provider"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// modelWorld is a provider on this machine, and a user who has it as a model.
type modelWorld struct {
	y   *yard.Yard
	srv *provider.Server
	url string
	key string // of the provider's
}

// dialectKinds are a kind of provider for each dialect.
var dialectKinds = map[string]string{
	"anthropic": "anthropic", "openai-responses": "openai", "openai-chat": "openai-compatible", "gemini": "gemini",
}

// newModelWorld makes the model small, of the provider's real-1. More are lines
// of the model's in models.yaml, such as "max_output: 500".
func newModelWorld(t *testing.T, y *yard.Yard, dialect string, more []string, script ...provider.Turn) *modelWorld {
	t.Helper()
	w := &modelWorld{y: y, key: "sk-" + newValue()}
	w.srv = provider.New(w.key, script...)
	w.serve(t, w.srv)
	w.models(t, dialect, more...)
	y.RunWith(t, func(c *exec.Cmd) { c.Stdin = strings.NewReader(w.key) }, "secret", "set", "provider", "--for", "gateway").OK(t)
	return w
}

// serve puts a provider at the world's address.
func (w *modelWorld) serve(t *testing.T, h http.Handler) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	w.url = "http://" + l.Addr().String()
}

// models writes models.yaml.
func (w *modelWorld) models(t *testing.T, dialect string, more ...string) {
	t.Helper()
	text := fmt.Sprintf("default: small\nproviders:\n  local: {kind: %s, base_url: %q, key: {secret: provider}}\nmodels:\n  small:\n    provider: local\n    name: real-1\n    dialect: %s\n", dialectKinds[dialect], w.url, dialect)
	for _, line := range more {
		text += "    " + line + "\n"
	}
	w.y.WriteHome(t, ".config/bailey/models.yaml", text)
}

// modelTry is one request from inside; testdata/calls makes it.
type modelTry struct {
	Name   string
	Line   string
	Fields []string
	Body   []byte // any bytes
	Raw    []byte
	Count  int
	Idle   bool
	HangUp int
}

// modelTried is what came back.
type modelTried struct {
	Name     string
	Status   int
	Header   http.Header
	Body     string
	Error    string
	Statuses map[int]int
}

// talk is a request to a dialect's usual endpoint, with token and type.
func talk(dialect, name, body string) modelTry {
	return modelTry{Name: name, Line: "POST " + target(dialect), Fields: []string{tokenField(dialect), "Content-Type: application/json"}, Body: []byte(body)}
}

func target(dialect string) string {
	return map[string]string{
		"anthropic": "/v1/messages", "openai-responses": "/v1/responses", "openai-chat": "/v1/chat/completions",
		"gemini": "/v1beta/models/any-model:generateContent",
	}[dialect]
}

func tokenField(dialect string) string {
	return map[string]string{
		"anthropic": "x-api-key: @TOKEN@", "openai-responses": "Authorization: Bearer @TOKEN@", "openai-chat": "Authorization: Bearer @TOKEN@",
		"gemini": "x-goog-api-key: @TOKEN@",
	}[dialect]
}

var buildCalls = sync.OnceValues(func() ([]byte, error) { return buildTestdata("calls") })

// putCalls writes the program and its list into the workspace.
func putCalls(t *testing.T, y *yard.Yard, list []modelTry) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(y.Dir, "calls")); err != nil { // else a sandbox may be running it
		bin, err := buildCalls()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(y.Write(t, "calls", string(bin)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	text, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	y.Write(t, "tries.json", string(text))
}

// run makes requests in a sandbox with the model, and returns what came of each
// by name, and the end of the run.
func (w *modelWorld) run(t *testing.T, list []modelTry, flags ...string) (map[string]modelTried, yard.Result) {
	t.Helper()
	putCalls(t, w.y, list)
	r := w.y.Run(t, append(append([]string{"run", "--model", "small"}, flags...), "--", "./calls", "tries.json")...).OK(t)
	return callResults(t, list, r.Stdout), r
}

func callResults(t *testing.T, list []modelTry, out string) map[string]modelTried {
	t.Helper()
	got := map[string]modelTried{}
	d := json.NewDecoder(strings.NewReader(out))
	for range list {
		var r modelTried
		if err := d.Decode(&r); err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		got[r.Name] = r
	}
	return got
}

// sent returns the bodies that the provider got, in order.
func (w *modelWorld) sent() []string {
	var out []string
	for _, r := range w.srv.Requests() {
		out = append(out, string(r.Body))
	}
	return out
}

// stdin gives a command something to read.
func stdin(text string) func(*exec.Cmd) {
	return func(c *exec.Cmd) { c.Stdin = strings.NewReader(text) }
}

// meteredProvider answers any request of the Messages API, and says that it used
// 100 tokens in and as many out as were allowed, 400 at most. A stream waits in
// its middle until its client is gone, or the test ends it.
type meteredProvider struct {
	mu     sync.Mutex
	bodies []string
	end    chan struct{} // closed to let streams go on
}

func (p *meteredProvider) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	var ask struct {
		Max    int64 `json:"max_tokens"`
		Stream bool  `json:"stream"`
	}
	_ = json.Unmarshal(b, &ask)
	p.mu.Lock()
	p.bodies = append(p.bodies, string(b))
	p.mu.Unlock()
	used := min(ask.Max, 400)
	if !ask.Stream {
		rw.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(rw, `{"id":"m","type":"message","role":"assistant","model":"real-1","content":[{"type":"text","text":"done"}],"stop_reason":"end_turn","usage":{"input_tokens":100,"output_tokens":%d}}`, used)
		return
	}
	rw.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(rw, `event: message_start
data: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"real-1","content":[],"usage":{"input_tokens":100,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"the beginning of a long answer"}}

`)
	_ = http.NewResponseController(rw).Flush()
	select {
	case <-p.end:
	case <-r.Context().Done():
		return
	}
	_, _ = fmt.Fprintf(rw, `event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":%d}}

event: message_stop
data: {"type":"message_stop"}

`, used)
}

// asked returns the bodies of all requests.
func (p *meteredProvider) asked() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.bodies)
}
