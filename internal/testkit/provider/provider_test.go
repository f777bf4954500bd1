package provider_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey/internal/testkit/provider"
)

const key = "sk-canary"

func serve(t *testing.T, script ...provider.Turn) (*provider.Server, string) {
	t.Helper()
	s := provider.New(key, script...)
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return s, h.URL
}

// post sends a body and returns the status and the answer.
func post(t *testing.T, url, bearer, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+bearer)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// events checks the framing of a stream and returns the data of each event.
func events(t *testing.T, stream string) []string {
	t.Helper()
	var out []string
	sc := bufio.NewScanner(strings.NewReader(stream))
	for sc.Scan() {
		data, ok := strings.CutPrefix(sc.Text(), "data: ")
		if !ok {
			continue
		}
		if data != "[DONE]" && !json.Valid([]byte(data)) {
			t.Errorf("event is no JSON: %s", data)
		}
		out = append(out, data)
	}
	return out
}

// wire is how a test speaks one dialect.
type wire struct {
	path    string
	stream  string // the path for a stream; empty: the same
	request func(stream bool, tools []string, results map[string]string) string
	last    string // what ends every stream
}

func quoteAll(format string, names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = fmt.Sprintf(format, n)
	}
	return strings.Join(out, ",")
}

func wires() map[string]wire {
	return map[string]wire{
		"anthropic": {
			path: "/v1/messages?beta=true",
			last: `{"type":"message_stop"}`,
			request: func(stream bool, tools []string, results map[string]string) string {
				var blocks []string
				for id, text := range results {
					blocks = append(blocks, fmt.Sprintf(`{"type":"tool_result","tool_use_id":%q,"content":[{"type":"text","text":%q}]}`, id, text))
				}
				return fmt.Sprintf(`{"model":"m","stream":%v,"tools":[%s],"messages":[{"role":"user","content":"hi"},{"role":"user","content":[%s]}]}`,
					stream, quoteAll(`{"name":%q}`, tools), strings.Join(blocks, ","))
			},
		},
		"responses": {
			path: "/v1/responses",
			last: `"type":"response.completed"}`,
			request: func(stream bool, tools []string, results map[string]string) string {
				items := []string{`{"type":"message","role":"user","content":"hi"}`}
				for id, text := range results {
					items = append(items, fmt.Sprintf(`{"type":"function_call_output","call_id":%q,"output":%q}`, id, text))
				}
				return fmt.Sprintf(`{"model":"m","stream":%v,"tools":[%s],"input":[%s]}`,
					stream, quoteAll(`{"type":"function","name":%q}`, tools), strings.Join(items, ","))
			},
		},
		"chat": {
			path: "/v1/chat/completions",
			last: "[DONE]",
			request: func(stream bool, tools []string, results map[string]string) string {
				msgs := []string{`{"role":"user","content":[{"type":"text","text":"hi"}]}`, `{"role":"assistant","content":null}`}
				for id, text := range results {
					msgs = append(msgs, fmt.Sprintf(`{"role":"tool","tool_call_id":%q,"content":%q}`, id, text))
				}
				return fmt.Sprintf(`{"model":"m","stream":%v,"stream_options":{"include_usage":true},"tools":[%s],"messages":[%s]}`,
					stream, quoteAll(`{"type":"function","function":{"name":%q}}`, tools), strings.Join(msgs, ","))
			},
		},
		"gemini": {
			path: "/v1beta/models/m:generateContent", stream: "/v1beta/models/m:streamGenerateContent?alt=sse",
			last: `:18}}`,
			request: func(_ bool, tools []string, results map[string]string) string {
				parts := []string{`{"text":"hi"}`}
				for id, text := range results {
					parts = append(parts, fmt.Sprintf(`{"functionResponse":{"id":%q,"name":"n","response":{"output":%q}}}`, id, text))
				}
				return fmt.Sprintf(`{"tools":[{"functionDeclarations":[%s]}],"contents":[{"role":"user","parts":[%s]}]}`,
					quoteAll(`{"name":%q,"parameters":{"type":"object"}}`, tools), strings.Join(parts, ","))
			},
		},
	}
}

// at is the path for a whole answer or a stream.
func (w wire) at(stream bool) string {
	if stream && w.stream != "" {
		return w.stream
	}
	return w.path
}

func TestServer_FollowsTheScript(t *testing.T) {
	t.Parallel()
	for name, w := range wires() {
		for _, stream := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s stream=%v", name, stream), func(t *testing.T) {
				t.Parallel()
				s, url := serve(t, provider.Do(provider.Shell("first"), provider.Shell("second")), provider.Do(provider.Shell("third")), provider.Say("the end"))
				ask := func(results map[string]string) string {
					t.Helper()
					code, body := post(t, url+w.at(stream), key, w.request(stream, []string{"bash"}, results))
					if code != http.StatusOK {
						t.Fatalf("%d %s", code, body)
					}
					if stream {
						if ev := events(t, body); !strings.HasSuffix(ev[len(ev)-1], w.last) {
							t.Errorf("stream ends with %s", ev[len(ev)-1])
						}
					}
					return body
				}
				results := map[string]string{}
				for range 2 { // a retry gets the same turn
					if got := ask(results); !strings.Contains(got, "call_t0c0") || !strings.Contains(got, "call_t0c1") || strings.Contains(got, "call_t1") {
						t.Fatalf("first turn: %s", got)
					}
				}
				results["call_t0c0"] = "one"
				if got := ask(results); !strings.Contains(got, "call_t0c1") {
					t.Errorf("half a turn's results must not move on: %s", got)
				}
				results["call_t0c1"] = "two"
				if got := ask(results); !strings.Contains(got, "call_t1c0") || strings.Contains(got, "call_t0") {
					t.Errorf("second turn: %s", got)
				}
				if s.Finished() {
					t.Error("finished too early")
				}
				results["call_t1c0"] = "three"
				if got := ask(results); !strings.Contains(got, "the end") || strings.Contains(got, "call_t") {
					t.Errorf("last turn: %s", got)
				}
				if !s.Finished() || len(s.Problems()) != 0 {
					t.Errorf("finished %v, problems %v", s.Finished(), s.Problems())
				}
				got := s.Results()
				if len(got) != 3 || got[0].Output != "one" || got[1].Output != "two" || got[1].Call != 1 || got[2].Output != "three" || got[2].Turn != 1 {
					t.Errorf("results %+v", got)
				}
			})
		}
	}
}

func TestServer_SideRequestsDoNotMoveTheScript(t *testing.T) {
	t.Parallel()
	for name, w := range wires() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, url := serve(t, provider.Say("only"))
			for _, tools := range [][]string{nil, {"web_search"}} {
				code, body := post(t, url+w.path, key, w.request(false, tools, nil))
				if code != http.StatusOK || !strings.Contains(body, "title") || s.Finished() {
					t.Errorf("%v: %d %s", tools, code, body)
				}
			}
			if reqs := s.Requests(); len(reqs) != 2 || !reqs[0].Side {
				t.Errorf("requests %+v", reqs)
			}
			post(t, url+w.path, key, w.request(false, []string{"bash"}, nil))
			if reqs := s.Requests(); !s.Finished() || reqs[2].Side {
				t.Error("the real request was taken for a side one")
			}
		})
	}
}

func TestServer_FormIsASideRequest(t *testing.T) {
	t.Parallel()
	s, url := serve(t, provider.Say("only"))
	body := `{"tools":[{"type":"function","name":"exec_command"}],"input":[],"text":{"format":{"type":"json_schema"}}}`
	if code, got := post(t, url+"/v1/responses", key, body); code != 200 || !strings.Contains(got, `{\"title\":`) || s.Finished() {
		t.Errorf("%d %s", code, got)
	}
}

func TestServer_IsStrictAboutTheKey(t *testing.T) {
	t.Parallel()
	s, url := serve(t, provider.Say("only"))
	for _, wrong := range []string{"", "sk-other", key + "x", key[:4]} {
		if code, body := post(t, url+"/v1/messages", wrong, `{}`); code != http.StatusUnauthorized || !strings.Contains(body, "authentication_error") {
			t.Errorf("%q: %d %s", wrong, code, body)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/messages/count_tokens", strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Api-Key", key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Error(resp.Status)
	}
	if s.Finished() {
		t.Error("a wrong key moved the script")
	}
	// The zero key accepts nobody, not everybody.
	open := httptest.NewServer(provider.New("", provider.Say("x")))
	t.Cleanup(open.Close)
	if code, _ := post(t, open.URL+"/v1/messages", "", `{}`); code != http.StatusUnauthorized {
		t.Errorf("no key: %d", code)
	}
}

func TestServer_AnswersProbes(t *testing.T) {
	t.Parallel()
	s, url := serve(t, provider.Say("only"))
	for _, tc := range []struct {
		method, path, upgrade string
		want                  int
	}{
		{"HEAD", "/", "", 200},
		{"HEAD", "/api/hello", "", 200},
		{"GET", "/v1/models", "", 200},
		{"GET", "/v1/files", "", 404},
		{"GET", "/v1/responses", "websocket", 426},
	} {
		req, err := http.NewRequestWithContext(t.Context(), tc.method, url+tc.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Api-Key", key)
		if tc.upgrade != "" {
			req.Header.Set("Connection", "Upgrade")
			req.Header.Set("Upgrade", tc.upgrade)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != tc.want {
			t.Errorf("%s %s: %s", tc.method, tc.path, resp.Status)
		}
	}
	if n := len(s.Requests()); n != 5 {
		t.Errorf("%d requests recorded", n)
	}
}

func TestServer_SpeaksEachAgentsTools(t *testing.T) {
	t.Parallel()
	all := provider.Do(
		provider.Read("/w/a b"), provider.Edit("/w/f", "old", "new"), provider.Write("/w/n", "x\ny\n"), provider.Shell("id"),
	)
	for _, tc := range []struct {
		name, path, tools string
		want              []string
	}{
		{"Claude Code", "/v1/messages", `[{"name":"Bash"},{"name":"Read"},{"name":"Edit"},{"name":"Write"}]`, []string{
			`"file_path":"/w/a b"`, `"old_string":"old"`, `"new_string":"new"`, `"content":"x\ny\n"`, `"command":"id"`, `"name":"Bash"`,
		}},
		{"opencode", "/v1/messages", `[{"name":"bash"},{"name":"read"},{"name":"edit"},{"name":"write"}]`, []string{
			`"filePath":"/w/a b"`, `"oldString":"old"`, `"newString":"new"`, `"content":"x\ny\n"`, `"name":"bash"`,
		}},
		{"opencode with patches", "/v1/messages", `[{"name":"bash"},{"name":"read"},{"name":"apply_patch"}]`, []string{
			`*** Update File: /w/f\n@@\n-old\n+new\n`, `*** Add File: /w/n\n+x\n+y\n`,
		}},
		{"Codex", "/v1/responses", `[{"type":"function","name":"exec_command"},{"type":"custom","name":"apply_patch"}]`, []string{
			`cat '/w/a b'`, `"type":"custom_tool_call"`, `*** Begin Patch\n*** Update File: /w/f`, `\"cmd\":\"id\"`,
		}},
		{"pi", "/v1/chat/completions", `[{"function":{"name":"read"}},{"function":{"name":"bash","parameters":{"properties":{"command":{},"timeout":{}}}}},` +
			`{"function":{"name":"edit","parameters":{"properties":{"path":{},"edits":{}}}}},{"function":{"name":"write","parameters":{"properties":{"path":{},"content":{}}}}}]`, []string{
			`{\"command\":\"id\"}`, `\"edits\":[{\"newText\":\"new\",\"oldText\":\"old\"}]`, `\"path\":\"/w/n\"`,
		}},
		{"Gemini CLI", "/v1beta/models/m:generateContent", `[{"functionDeclarations":[{"name":"run_shell_command"},{"name":"read_file"},{"name":"replace"},` +
			`{"name":"write_file","parametersJsonSchema":{"properties":{"file_path":{},"content":{}}}}]}]`, []string{
			`"file_path":"/w/a b"`, `"old_string":"old"`, `"content":"x\ny\n"`, `"name":"run_shell_command"`,
		}},
		{"Codex with a model that it does not know", "/v1/responses", `[{"type":"function","name":"exec_command"}]`, []string{
			`apply_patch \\u003c\\u003c'EOF'\\n*** Begin Patch\\n*** Add File: /w/n`,
		}},
		{"Codex in cells", "/v1/responses", `[{"type":"namespace","name":"functions","tools":[{"type":"custom","name":"exec"}]}]`, []string{
			`"namespace":"functions"`, `tools.exec_command({`, `tools.apply_patch(`,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s, url := serve(t, all)
			code, got := post(t, url+tc.path, key, `{"model":"m","tools":`+tc.tools+`}`)
			if code != http.StatusOK || len(s.Problems()) != 0 {
				t.Fatalf("%d %s %v", code, got, s.Problems())
			}
			for _, want := range tc.want {
				if !strings.Contains(got, want) {
					t.Errorf("want %s in %s", want, got)
				}
			}
		})
	}
	s, url := serve(t, all)
	if code, _ := post(t, url+"/v1/messages", key, `{"tools":[{"name":"Bash"}]}`); code != http.StatusBadRequest || len(s.Problems()) != 1 {
		t.Errorf("no tool for an edit: %d %v", code, s.Problems())
	}
}

func TestServer_RefusesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	for name, w := range wires() {
		s, url := serve(t, provider.Say("x"))
		if code, _ := post(t, url+w.path, key, `{"model":`); code != http.StatusBadRequest || len(s.Problems()) != 1 {
			t.Errorf("%s: %d %v", name, code, s.Problems())
		}
	}
	s, url := serve(t, provider.Say("x"))
	big := string(bytes.Repeat([]byte("x"), 33<<20))
	if code, _ := post(t, url+"/v1/messages", key, big); code != http.StatusRequestEntityTooLarge || s.Finished() {
		t.Errorf("oversized: %d", code)
	}
}
