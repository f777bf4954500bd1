package anthropic_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey/internal/gateway"
	"github.com/bailey-dev/bailey/internal/gateway/anthropic"
	"github.com/bailey-dev/bailey/internal/gateway/shape"
)

const target = "/v1/messages"

var pin = gateway.Pin{ID: "opus", Name: "claude-opus-5-5"}

func dialect(t testing.TB) *anthropic.Messages {
	t.Helper()
	m, err := anthropic.New()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func read(t testing.TB, body string) (*gateway.Call, error) {
	t.Helper()
	return dialect(t).Read(gateway.Generate, target, http.Header{}, []byte(body), pin)
}

func sent(c *gateway.Call) string { return string(c.Body.AppendTo(nil)) }

// with is a request that has these members as well.
func with(members string) string {
	if members != "" {
		members = "," + members
	}
	return `{"model":"claude-opus-5-5","max_tokens":100,"messages":[{"role":"user","content":"hi"}]` + members + `}`
}

// says is a request whose message has this content.
func says(role, content string) string {
	return `{"model":"claude-opus-5-5","max_tokens":100,"messages":[{"role":"user","content":"hi"},{"role":"` + role + `","content":` + content + `}]}`
}

func TestMessages_Route(t *testing.T) {
	t.Parallel()
	m := dialect(t)
	for name, tc := range map[string]struct {
		method, target string
		want           gateway.Endpoint
	}{
		"messages":                     {"POST", "/v1/messages", gateway.Generate},
		"messages, as SDKs send it":    {"POST", "/v1/messages?beta=true", gateway.Generate},
		"count":                        {"POST", "/v1/messages/count_tokens", gateway.Count},
		"count, as SDKs send it":       {"POST", "/v1/messages/count_tokens?beta=true", gateway.Count},
		"models":                       {"GET", "/v1/models", gateway.Models},
		"a probe":                      {"HEAD", "/api/hello", gateway.Hello},
		"another":                      {"HEAD", "/", gateway.Hello},
		"D009 files":                   {"POST", "/v1/files", gateway.None},
		"D012 skills":                  {"POST", "/v1/skills", gateway.None},
		"D012 agents":                  {"POST", "/v1/agents", gateway.None},
		"D013 batches":                 {"POST", "/v1/messages/batches", gateway.None},
		"D032 two slashes":             {"POST", "//v1/messages", gateway.None},
		"D032 two slashes within":      {"POST", "/v1//messages", gateway.None},
		"D032 a dot":                   {"POST", "/v1/./messages", gateway.None},
		"D032 dots":                    {"POST", "/v1/messages/../files", gateway.None},
		"D032 dots, encoded":           {"POST", "/v1/%2e%2e/v1/messages", gateway.None},
		"D032 an encoded letter":       {"POST", "/v1/%6dessages", gateway.None},
		"D032 an encoded slash":        {"POST", "/v1%2fmessages", gateway.None},
		"D032 absolute form":           {"POST", "http://evil.test/v1/messages", gateway.None},
		"D032 a parameter":             {"POST", "/v1/messages;x=1", gateway.None},
		"D032 a NUL":                   {"POST", "/v1/messages%00", gateway.None},
		"D032 a fragment":              {"POST", "/v1/messages%23", gateway.None},
		"D032 an encoded query":        {"POST", "/v1/messages%3fbeta=true", gateway.None},
		"D032 a backslash":             {"POST", `\v1\messages`, gateway.None},
		"D032 another case":            {"POST", "/V1/Messages", gateway.None},
		"D032 a slash at the end":      {"POST", "/v1/messages/", gateway.None},
		"D032 the empty target":        {"POST", "", gateway.None},
		"D033 a second query":          {"POST", "/v1/messages?beta=true&beta=false;x", gateway.None},
		"D033 a model":                 {"POST", "/v1/messages?model=dear", gateway.None},
		"D033 a key":                   {"POST", "/v1/messages?key=sk-attacker", gateway.None},
		"D033 a base":                  {"POST", "/v1/messages?api_base=https://evil.test", gateway.None},
		"D033 an empty query":          {"POST", "/v1/messages?", gateway.None},
		"D033 another value":           {"POST", "/v1/messages?beta=TRUE", gateway.None},
		"a query of models":            {"GET", "/v1/models?beta=true&limit=1000", gateway.Models},
		"D033 a key with models":       {"GET", "/v1/models?key=sk-attacker", gateway.None},
		"D033 a key behind a page":     {"GET", "/v1/models/m?limit=1&key=sk", gateway.None},
		"D032 dots of a model":         {"GET", "/v1/models/..", gateway.None},
		"D032 dots behind the models":  {"GET", "/v1/models/../files", gateway.None},
		"D032 an encoded model":        {"GET", "/v1/models/%2e%2e", gateway.None},
		"D032 models with a slash":     {"GET", "/v1/models/", gateway.None},
		"another method of messages":   {"GET", "/v1/messages", gateway.None},
		"another case of the method":   {"post", "/v1/messages", gateway.None},
		"CONNECT":                      {"CONNECT", "/v1/messages", gateway.None},
		"one model":                    {"GET", "/v1/models/claude-opus-5-5", gateway.Model},
		"telemetry":                    {"POST", "/api/event_logging/v2/batch", gateway.None},
		"the probe with another query": {"HEAD", "/api/hello?x=1", gateway.None},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := m.Route(tc.method, tc.target); got != tc.want {
				t.Errorf("%s %s is %d, want %d", tc.method, tc.target, got, tc.want)
			}
		})
	}
}

// What a harness and the SDKs send by habit, which goes as it came.
func TestMessages_Keeps(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"the least":                   with(""),
		"every parameter":             with(`"system":"x","stream":true,"stop_sequences":["a"],"temperature":1,"top_p":0.9,"top_k":5,"thinking":{"type":"enabled","budget_tokens":2048,"display":"summarized","block_binding":{"prefix_mismatch_behavior":"drop_block"}},"output_config":{"effort":"xhigh","format":{"type":"json_schema","schema":{"type":"object"}},"task_budget":{"type":"tokens","total":1,"remaining":0}},"cache_control":{"type":"ephemeral","ttl":"1h"}`),
		"D001 tools without type":     with(`"tools":[{"name":"t","description":"d","input_schema":{"type":["web_fetch_20250910"]},"strict":true,"defer_loading":false,"eager_input_streaming":true,"input_examples":[{}],"cache_control":{"type":"ephemeral"}}],"tool_choice":{"type":"tool","name":"t"}`),
		"D002 the type custom":        with(`"tools":[{"type":"custom","name":"t","input_schema":{}}]`),
		"D002 a known type, escaped":  with(`"tools":[{"type":"custom","name":"web_fetch_20250910","input_schema":{}}]`),
		"D016 client tools":           with(`"tools":[{"type":"bash_20250124","name":"bash"},{"type":"text_editor_20250728","name":"str_replace_based_edit_tool","max_characters":10},{"type":"memory_20250818","name":"memory"},{"type":"computer_20251124","name":"computer","display_width_px":1,"display_height_px":1,"enable_zoom":true},{"type":"browser_toolset_20260801","configs":{"navigate":{"enabled":false}}}]`),
		"D008 bytes":                  says("user", `[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"},"transformations":{"oversized_image":"error"}},{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"AAAA"},"title":"t","context":"c","citations":{"enabled":true}},{"type":"document","source":{"type":"text","media_type":"text/plain","data":"x"}},{"type":"document","source":{"type":"content","content":[{"type":"text","text":"x"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA"}}]}}]`),
		"a tool and its result":       says("assistant", `[{"type":"thinking","thinking":"x","signature":"s"},{"type":"redacted_thinking","data":"x"},{"type":"tool_use","id":"t","name":"n","input":{"type":"web_search_20250305","mcp_servers":[]},"caller":{"type":"direct"}}]`),
		"every result":                says("user", `[{"type":"tool_result","tool_use_id":"t","is_error":true,"content":[{"type":"text","text":"x"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA"}},{"type":"search_result","source":"https://example.com","title":"t","content":[{"type":"text","text":"x"}],"citations":{"enabled":true}},{"type":"tool_reference","tool_name":"n"},{"type":"browser_state","tabs":[]}]}]`),
		"D042 a system message":       says("system", `[{"type":"text","text":"x"},{"type":"tool_addition","tool":{"type":"tool_reference","name":"n"}},{"type":"tool_removal","tool":{"type":"tool_reference","name":"n"}}]`),
		"a definition in a message":   says("system", `[{"type":"tool_addition","tool":{"type":"tool_definition","definition":{"name":"n","input_schema":{}}}}]`),
		"context management":          with(`"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":{"type":"thinking_turns","value":2}},{"type":"clear_tool_uses_20250919","trigger":{"type":"input_tokens","value":3},"keep":{"type":"tool_uses","value":1},"clear_at_least":{"type":"input_tokens","value":5},"exclude_tools":["n"],"clear_tool_inputs":["n"]}]}`),
		"citations":                   says("assistant", `[{"type":"text","text":"x","citations":[{"type":"char_location","cited_text":"c","document_index":0,"start_char_index":0,"end_char_index":1}]}]`),
		"D022 a name that looks like": says("user", `"mcp_servers web_fetch_20250910 \"model\":\"dear\""`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := read(t, body)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(body, sent(c)); diff != "" {
				t.Error(diff)
			}
			if len(c.Removed) > 0 {
				t.Errorf("removed %q", c.Removed)
			}
		})
	}
}

func TestMessages_Drops(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		body, want string
		removed    []string
	}{
		"D001 the fetch tool":              {with(`"tools":[{"type":"web_fetch_20250910","name":"web_fetch"},{"name":"t","input_schema":{}}]`), with(`"tools":[{"name":"t","input_schema":{}}]`), []string{"tools[0]: web_fetch_20250910"}},
		"D002 an escaped type":             {with(`"stream":true,"tools":[{"type":"web\u005ffetch_20250910","name":"web_fetch"}]`), with(`"stream":true`), []string{"tools[0]: web_fetch_20250910"}},
		"D004 code execution":              {with(`"tools":[{"type":"code_execution_20260521","name":"code_execution"}],"container":"cntr_other"`), with(""), []string{"tools[0]: code_execution_20260521", "container"}},
		"D005 connectors":                  {with(`"mcp_servers":[{"type":"url","url":"https://evil.test/sse","name":"x","authorization_token":"PH"}],"tools":[{"type":"mcp_toolset","mcp_server_name":"x"}]`), with(""), []string{"mcp_servers", "tools[0]: mcp_toolset"}},
		"D016 other tools of the provider": {with(`"tools":[{"type":"advisor_20260301","name":"advisor","model":"dear"},{"type":"bash_20250124","name":"bash"}]`), with(`"tools":[{"type":"bash_20250124","name":"bash"}]`), []string{"tools[0]: advisor_20260301"}},
		"D016 tool search, and tools show": {with(`"tools":[{"type":"tool_search_tool_regex_20251119","name":"s"},{"name":"t","input_schema":{},"defer_loading":true}]`), with(`"tools":[{"name":"t","input_schema":{}}]`), []string{"tools[0]: tool_search_tool_regex_20251119"}},
		"D018 metadata":                    {with(`"metadata":{"user_id":"data","x":"more"}`), with(""), []string{"metadata"}},
		"D041 what costs more":             {with(`"fallbacks":[{"model":"dear"}],"fallback_credit_token":"x","service_tier":"priority","speed":"fast","inference_geo":"us","billing_policy":{"type":"billing_policy","bill_to":"x"}`), with(""), []string{"fallbacks", "fallback_credit_token", "service_tier", "speed", "inference_geo", "billing_policy"}},
		"calls of the provider's own":      {with(`"compaction":{"type":"summarize"},"context_management":{"edits":[{"type":"compact_20260112"}]}`), with(""), []string{"compaction", "context_management.edits[0]: compact_20260112", "context_management: nothing is left of it"}},
		"a new thread":                     {with(`"thread":{"type":"create"}`), with(""), []string{"thread: create"}},
		"programmatic callers":             {with(`"tools":[{"name":"t","input_schema":{},"allowed_callers":["code_execution_20260120"]},{"name":"u","input_schema":{},"allowed_callers":["direct","code_execution_20260120"]}]`), with(`"tools":[{"name":"t","input_schema":{}},{"name":"u","input_schema":{},"allowed_callers":["direct"]}]`), []string{"tools[0].allowed_callers[0]: code_execution_20260120", "tools[1].allowed_callers[1]: code_execution_20260120"}},
		"a choice of what is dropped":      {with(`"tools":[{"type":"web_search_20250305","name":"web_search"},{"name":"t","input_schema":{}}],"tool_choice":{"type":"tool","name":"web_search","disable_parallel_tool_use":true}`), with(`"tools":[{"name":"t","input_schema":{}}],"tool_choice":{"type":"auto","disable_parallel_tool_use":true}`), []string{"tools[0]: web_search_20250305", "tool_choice: the tool is not there"}},
		"a choice of what is kept":         {with(`"tools":[{"type":"web_search_20250305","name":"web_search"},{"name":"t","input_schema":{}}],"tool_choice":{"type":"tool","name":"t"}`), with(`"tools":[{"name":"t","input_schema":{}}],"tool_choice":{"type":"tool","name":"t"}`), []string{"tools[0]: web_search_20250305"}},
		"a choice of nothing":              {with(`"tools":[{"type":"web_search_20250305","name":"web_search"}],"tool_choice":{"type":"any"}`), with(""), []string{"tools[0]: web_search_20250305", "tool_choice: no tool is left"}},
		"a tool hidden in a message": {
			says("system", `[{"type":"text","text":"x"},{"type":"tool_addition","tool":{"type":"tool_definition","definition":{"type":"web_search_20260318","name":"web_search"}}}]`),
			says("system", `[{"type":"text","text":"x"}]`),
			[]string{"messages[1].content[1].tool.definition: web_search_20260318", "messages[1].content[1].tool: nothing is left of it", "messages[1].content[1]: nothing is left of it"},
		},
		"a connector in a message": {
			says("system", `[{"type":"tool_addition","tool":{"type":"mcp_toolset_reference","server_name":"x"}},{"type":"text","text":"x"}]`),
			says("system", `[{"type":"text","text":"x"}]`),
			[]string{"messages[1].content[0].tool: mcp_toolset_reference", "messages[1].content[0]: nothing is left of it"},
		},
		"a search of another talk": {
			says("assistant", `[{"type":"server_tool_use","id":"s","name":"web_search","input":{}},{"type":"web_search_tool_result","tool_use_id":"s","content":[]},{"type":"text","text":"x","citations":[{"type":"web_search_result_location","cited_text":"c","encrypted_index":"e","url":"u"}]}]`),
			says("assistant", `[{"type":"text","text":"x"}]`),
			[]string{"messages[1].content[0]: server_tool_use", "messages[1].content[1]: web_search_tool_result", "messages[1].content[2].citations[0]: web_search_result_location"},
		},
		"a message of nothing else": {
			says("assistant", `[{"type":"mcp_tool_use","id":"s","name":"x","server_name":"y","input":{}},{"type":"mcp_tool_result","tool_use_id":"s"}]`),
			with(""),
			[]string{"messages[1].content[0]: mcp_tool_use", "messages[1].content[1]: mcp_tool_result", "messages[1]: nothing is left of it"},
		},
		"D077 a shared cache": {with(`"cache_control":{"type":"ephemeral","scope":"global"}`), with(`"cache_control":{"type":"ephemeral"}`), []string{"cache_control.scope"}},
		"null for nothing":    {with(`"temperature":null,"tools":null,"container":null`), with(""), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := read(t, tc.body)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, sent(c)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tc.removed, c.Removed); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMessages_Refuses(t *testing.T) {
	t.Parallel()
	fetch := func(typ string) string { return with(`"tools":[{"type":` + typ + `,"name":"web_fetch"}]`) }
	for name, tc := range map[string]struct {
		body   string
		status int
		code   string
		path   string
	}{
		"D002 a later version":         {fetch(`"web_fetch_20991231"`), 403, "tool_type_not_allowed", "tools[0].type"},
		"D002 upper case":              {fetch(`"WEB_FETCH_20250910"`), 403, "tool_type_not_allowed", "tools[0].type"},
		"D002 a space":                 {fetch(`"web_fetch_20250910 "`), 403, "tool_type_not_allowed", "tools[0].type"},
		"D002 a list":                  {fetch(`["web_fetch"]`), 403, "tool_type_not_allowed", "tools[0].type"},
		"D002 null":                    {fetch(`null`), 403, "tool_type_not_allowed", "tools[0].type"},
		"D002 hosted agents":           {fetch(`"agent_toolset_20260401"`), 403, "tool_type_not_allowed", "tools[0]"},
		"D002 a tool in a message":     {says("system", `[{"type":"tool_addition","tool":{"type":"tool_definition","definition":{"type":"web_fetch_20991231"}}}]`), 403, "tool_type_not_allowed", "messages[1].content[0].tool.definition.type"},
		"D004 an upload":               {says("user", `[{"type":"container_upload","file_id":"file_other"}]`), 403, "file_not_allowed", "messages[1].content[0]"},
		"D008 a file":                  {says("user", `[{"type":"document","source":{"type":"file","file_id":"file_other"}}]`), 403, "file_not_allowed", "messages[1].content[0].source"},
		"D008 the file of an image":    {says("user", `[{"type":"image","source":{"type":"file","file_id":"file_other"}}]`), 403, "file_not_allowed", "messages[1].content[0].source"},
		"a remote image":               {says("user", `[{"type":"image","source":{"type":"url","url":"https://evil.test/?d=1"}}]`), 403, "remote_url_not_allowed", "messages[1].content[0].source"},
		"a remote document":            {says("user", `[{"type":"document","source":{"type":"url","url":"https://evil.test/?d=1"}}]`), 403, "remote_url_not_allowed", "messages[1].content[0].source"},
		"a remote image in a result":   {says("user", `[{"type":"tool_result","tool_use_id":"t","content":[{"type":"image","source":{"type":"url","url":"https://evil.test"}}]}]`), 403, "remote_url_not_allowed", "messages[1].content[0].content[0].source"},
		"a remote image in a document": {says("user", `[{"type":"document","source":{"type":"content","content":[{"type":"image","source":{"type":"url","url":"https://evil.test"}}]}}]`), 403, "remote_url_not_allowed", "messages[1].content[0].source.content[0].source"},
		"an unknown source":            {says("user", `[{"type":"image","source":{"type":"gs","uri":"gs://evil"}}]`), 400, "unknown_source_type", "messages[1].content[0].source.type"},
		"a thread's next turn":         {with(`"thread":{"type":"continue","previous_message_id":"msg_other"}`), 403, "server_state_not_allowed", "thread"},
		"a compacted talk":             {says("assistant", `[{"type":"compaction","content":"x","tool_changes":[{"type":"tool_addition","tool":{"type":"tool_definition","definition":{"type":"web_search_20250305"}}}]}]`), 403, "server_compaction_not_allowed", "messages[1].content[0]"},
		"D020 two models":              {`{"model":"cheap","model":"dear","max_tokens":1,"messages":[]}`, 400, "invalid_json", "model"},
		"D020 two lists of tools":      {with(`"tools":[],"tools":[{"type":"web_fetch_20250910","name":"f"}]`), 400, "invalid_json", "tools"},
		"unknown in a browser's tab":   {says("user", `[{"type":"tool_result","tool_use_id":"t","content":[{"type":"browser_state","tabs":[{"tab_id":"1","title":"t","url":"u","image":{"type":"url","url":"https://evil.test"}}]}]}]`), 400, "unknown_field", "messages[1].content[0].content[0].tabs[0].image"},
		"D021 another case":            {with(`"MODEL":"dear"`), 400, "unknown_field", "MODEL"},
		"D021 another case of servers": {with(`"MCP_SERVERS":[]`), 400, "unknown_field", "MCP_SERVERS"},
		"D021 a long s":                {with(`"mcp_ſervers":[]`), 400, "unknown_field", `"mcp_\u017fervers"`},
		"D021 a long s in tools":       {with(`"toolſ":[]`), 400, "unknown_field", `"tool\u017f"`},
		"D021 a Kelvin sign":           {with("\"max_to\u212aens\":1"), 400, "unknown_field", `"max_to\u212aens"`},
		"D024 two documents":           {with("") + with(""), 400, "invalid_json", ""},
		"D025 a byte order mark":       {"\ufeff" + with(""), 400, "invalid_json", ""},
		"D026 null for the model":      {`{"model":null,"max_tokens":1,"messages":[]}`, 400, "missing_field", ""},
		"D026 no model":                {`{"max_tokens":1,"messages":[]}`, 400, "missing_field", ""},
		"D026 a list for the model":    {`{"model":["a"],"max_tokens":1,"messages":[]}`, 400, "wrong_type", "model"},
		"D026 an object for messages":  {`{"model":"a","max_tokens":1,"messages":{}}`, 400, "wrong_type", "messages"},
		"D026 text for stream":         {with(`"stream":"true"`), 400, "wrong_type", "stream"},
		"D026 a number for stream":     {with(`"stream":1`), 400, "wrong_type", "stream"},
		"D026 no number":               {with(`"temperature":NaN`), 400, "invalid_json", "temperature"},
		"D026 no limit":                {`{"model":"a","messages":[]}`, 400, "missing_field", ""},
		"D026 a negative limit":        {`{"model":"a","messages":[],"max_tokens":-1}`, 400, "wrong_type", "max_tokens"},
		"D036 a base":                  {with(`"api_base":"https://evil.test"`), 400, "unknown_field", "api_base"},
		"D038 betas in the body":       {with(`"betas":["files-api-2025-04-14"]`), 400, "unknown_field", "betas"},
		"D041 models":                  {with(`"models":["dear"]`), 400, "unknown_field", "models"},
		"D041 n":                       {with(`"n":128`), 400, "unknown_field", "n"},
		"D041 another time to live":    {with(`"cache_control":{"type":"ephemeral","ttl":"24h"}`), 400, "value_not_allowed", "cache_control.ttl"},
		"D042 another role":            {says("developer", `"x"`), 400, "value_not_allowed", "messages[1].role"},
		"an unknown block":             {says("user", `[{"type":"video"}]`), 400, "unknown_block_type", "messages[1].content[0].type"},
		"an unknown caller":            {with(`"tools":[{"name":"t","input_schema":{},"allowed_callers":["programmatic"]}]`), 400, "value_not_allowed", "tools[0].allowed_callers[0]"},
		"nothing is left":              {`{"model":"a","max_tokens":1,"messages":[{"role":"assistant","content":[{"type":"fallback"}]}]}`, 400, "nothing_left", ""},
		"a list":                       {`[]`, 400, "wrong_type", ""},
		"nothing":                      {``, 400, "invalid_json", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := read(t, tc.body)
			var r *gateway.Refusal
			if !errors.As(err, &r) {
				t.Fatalf("got %v", err)
			}
			if r.Status != tc.status || r.Code != tc.code || r.Path != tc.path || r.Detail == "" {
				t.Errorf("got %d %s at %q (%s), want %d %s at %q", r.Status, r.Code, r.Path, r.Detail, tc.status, tc.code, tc.path)
			}
		})
	}
}

// What each harness sends goes through, and what is taken out is what it does
// without. The bodies are recordings, with their texts shortened.
func TestMessages_Harnesses(t *testing.T) {
	t.Parallel()
	const claude = "claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27,per-turn-control-2026-07-01,mid-conversation-tool-changes-2026-07-01,thinking-token-count-2026-05-13,advanced-tool-use-2025-11-20,effort-2025-11-24"
	search := []string{"tools[0]: web_search_20250305", "metadata", "tool_choice: no tool is left"}
	for file, tc := range map[string]struct {
		beta, query string
		removed     []string
		gone        []string
	}{
		"claude-code-first.json":       {claude, "?beta=true", []string{"metadata"}, []string{"metadata"}},
		"claude-code-tool-result.json": {claude, "?beta=true", []string{"metadata"}, []string{"metadata"}},
		"claude-code-blocks.json":      {claude, "?beta=true", []string{"metadata"}, []string{"metadata"}},
		"claude-code-websearch.json":   {claude, "?beta=true", search, []string{"metadata", "tools", "tool_choice"}},
		"copilot.json":                 {"thinking-binding-controls-2026-08-01,mid-conversation-output-config-2026-07-01", "", nil, nil},
		"opencode.json":                {"thinking-binding-controls-2026-08-01,structured-outputs-2025-11-13", "", nil, nil},
		"qwen.json":                    {"interleaved-thinking-2025-05-14", "", nil, nil},
		"pi.json":                      {"", "?beta=true", nil, nil},
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			body, err := os.ReadFile(filepath.Join("testdata", file))
			if err != nil {
				t.Fatal(err)
			}
			h := http.Header{
				"Anthropic-Version": {"2023-06-01"}, "X-Api-Key": {"sk-ant-attacker"}, "Authorization": {"Bearer x"}, "Cookie": {"x"},
				"X-Goog-Api-Key": {"AIza"}, "Api-Key": {"x"}, "Proxy-Authorization": {"Basic x"},
				"Anthropic-Workspace-Id": {"x"}, "Anthropic-User-Profile-Id": {"x"}, "X-Stainless-Os": {"Linux"},
			}
			wantHeader := http.Header{"Anthropic-Version": {"2023-06-01"}}
			if tc.beta != "" {
				h["Anthropic-Beta"] = []string{tc.beta}
				wantHeader["Anthropic-Beta"] = h["Anthropic-Beta"]
			}
			c, err := dialect(t).Read(gateway.Generate, target+tc.query, h, body, pin)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.removed, c.Removed); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(wantHeader, c.Header); diff != "" {
				t.Errorf("D009, D010: the header is another: %s", diff)
			}
			want := decode(t, body)
			if c.Target != "/v1/messages"+tc.query || !c.Stream || float64(c.Output) != want["max_tokens"] || c.Input < 20 {
				t.Errorf("the call is %+v", c)
			}
			for _, name := range tc.gone {
				delete(want, name)
			}
			if diff := cmp.Diff(want, decode(t, []byte(sent(c)))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func decode(t *testing.T, b []byte) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestMessages_D038_Betas(t *testing.T) {
	t.Parallel()
	m := dialect(t)
	for name, tc := range map[string]struct {
		in      []string
		want    []string
		removed []string
	}{
		"none":                {nil, nil, nil},
		"known":               {[]string{"claude-code-20250219, effort-2025-11-24"}, []string{"claude-code-20250219,effort-2025-11-24"}, nil},
		"lines become one":    {[]string{"claude-code-20250219", "effort-2025-11-24,,claude-code-20250219"}, []string{"claude-code-20250219,effort-2025-11-24"}, nil},
		"network":             {[]string{"files-api-2025-04-14,code-execution-2025-05-22,mcp-client-2025-11-20"}, nil, []string{`anthropic-beta: "files-api-2025-04-14"`, `anthropic-beta: "code-execution-2025-05-22"`, `anthropic-beta: "mcp-client-2025-11-20"`}},
		"the price":           {[]string{"context-1m-2025-08-07,effort-2025-11-24"}, []string{"effort-2025-11-24"}, []string{`anthropic-beta: "context-1m-2025-08-07"`}},
		"D005 with servers":   {[]string{"mcp-client-2025-04-04"}, nil, []string{`anthropic-beta: "mcp-client-2025-04-04"`}},
		"unknown":             {[]string{"x-2099-01-01"}, nil, []string{`anthropic-beta: "x-2099-01-01"`}},
		"another case":        {[]string{"EFFORT-2025-11-24"}, nil, []string{`anthropic-beta: "EFFORT-2025-11-24"`}},
		"line ends":           {[]string{"effort-2025-11-24\r\nx-api-key: sk"}, nil, []string{`anthropic-beta: "effort-2025-11-24\r\nx-api-key: sk"`}},
		"a space of another":  {[]string{"effort-2025-11-24\u00a0"}, nil, []string{`anthropic-beta: "effort-2025-11-24\u00a0"`}},
		"two hundred of them": {[]string{strings.Repeat("a,", 100) + strings.Repeat("effort-2025-11-24,", 100)}, []string{"effort-2025-11-24"}, []string{`anthropic-beta: "a"`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := m.Read(gateway.Generate, target, http.Header{"Anthropic-Beta": tc.in}, []byte(with("")), pin)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, c.Header.Values("Anthropic-Beta")); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tc.removed, c.Removed); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMessages_Version(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"2023-06-01": "2023-06-01", "2027-01-02": "2027-01-02", "": "2023-06-01", "latest": "2023-06-01",
		"2023-06-1x": "2023-06-01", "2023_06_01": "2023-06-01", "20230601--": "2023-06-01", "2023-06-01\n": "2023-06-01",
	} {
		c, err := dialect(t).Read(gateway.Generate, target, http.Header{"Anthropic-Version": {in}}, []byte(with("")), pin)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Header.Get("Anthropic-Version"); got != want {
			t.Errorf("%q is sent as %q, want %q", in, got, want)
		}
	}
	c, err := dialect(t).Read(gateway.Generate, target, http.Header{"Anthropic-Version": {"2027-01-02", "2027-01-03"}}, []byte(with("")), pin)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"2023-06-01"}, c.Header["Anthropic-Version"]); diff != "" {
		t.Error(diff)
	}
}

func TestMessages_Count(t *testing.T) {
	t.Parallel()
	m := dialect(t)
	body := `{"model":"x","messages":[{"role":"user","content":"hi"}],"system":"s","tools":[{"type":"web_search_20250305","name":"w"}],"max_tokens":5,"stream":true}`
	c, err := m.Read(gateway.Count, "/v1/messages/count_tokens?beta=true", http.Header{}, []byte(body), pin)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := sent(c), `{"model":"claude-opus-5-5","messages":[{"role":"user","content":"hi"}],"system":"s"}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if c.Target != "/v1/messages/count_tokens?beta=true" || c.Stream || c.Output != 0 || c.Endpoint != gateway.Count {
		t.Errorf("the call is %+v", c)
	}
	m.SetOutput(c, 1)
	if c.Body.Get("max_tokens") != nil {
		t.Error("a count got a limit")
	}
	meter := m.Meter(c)
	meter.Whole([]byte(`{"input_tokens":12}`))
	if r := meter.Result(); !r.Known || !r.Ended || r.Usage.Tokens() != 0 {
		t.Errorf("a count costs: %+v", r)
	}
	_, err = m.Read(gateway.Count, "/v1/messages/count_tokens", http.Header{}, []byte(says("user", `[{"type":"image","source":{"type":"url","url":"https://evil.test"}}]`)), pin)
	if r, ok := errors.AsType[*gateway.Refusal](err); !ok || r.Code != "remote_url_not_allowed" {
		t.Errorf("D014: got %v", err)
	}
}

func TestMessages_Pin(t *testing.T) {
	t.Parallel()
	m := dialect(t)
	for name, tc := range map[string]struct {
		pin        gateway.Pin
		body, want string
		output     int64
		removed    []string
	}{
		"D040 the model is the pin's":   {pin: gateway.Pin{Name: "m"}, body: `{"model":"../CLAUDE-X@latest","max_tokens":5,"messages":[]}`, want: `{"model":"m","max_tokens":5,"messages":[]}`, output: 5},
		"the limit is the pin's":        {pin: gateway.Pin{Name: "m", MaxOutput: 4}, body: `{"model":"x","max_tokens":5,"messages":[]}`, want: `{"model":"m","max_tokens":4,"messages":[]}`, output: 4},
		"a lower limit stays":           {pin: gateway.Pin{Name: "m", MaxOutput: 9}, body: `{"model":"x","max_tokens":3,"messages":[]}`, want: `{"model":"m","max_tokens":3,"messages":[]}`, output: 3},
		"nothing is no bound":           {pin: gateway.Pin{Name: "m", MaxOutput: 9}, body: `{"model":"x","max_tokens":0,"messages":[]}`, want: `{"model":"m","max_tokens":1,"messages":[]}`, output: 1},
		"what the model does not take":  {pin: gateway.Pin{Name: "m", Drop: []string{"temperature", "top_p"}}, body: `{"model":"x","max_tokens":5,"messages":[],"temperature":1}`, want: `{"model":"m","max_tokens":5,"messages":[]}`, output: 5, removed: []string{"temperature: not for this model"}},
		"another name":                  {pin: gateway.Pin{Name: "m", Rename: map[string]string{"max_tokens": "limit"}}, body: `{"model":"x","max_tokens":5,"messages":[]}`, want: `{"model":"m","messages":[],"limit":5}`, output: 5},
		"what the operator adds":        {pin: gateway.Pin{Name: "m", Extra: map[string]json.RawMessage{"service_tier": json.RawMessage(`"standard_only"`), "x": json.RawMessage(`{"y":[1]}`)}}, body: `{"model":"x","max_tokens":5,"messages":[],"service_tier":"priority"}`, want: `{"model":"m","max_tokens":5,"messages":[],"service_tier":"standard_only","x":{"y":[1]}}`, output: 5, removed: []string{"service_tier"}},
		"what the operator adds, wins":  {pin: gateway.Pin{Name: "m", Extra: map[string]json.RawMessage{"temperature": json.RawMessage(`0`)}}, body: `{"model":"x","max_tokens":5,"temperature":1,"messages":[]}`, want: `{"model":"m","max_tokens":5,"temperature":0,"messages":[]}`, output: 5},
		"the operator's limit is known": {pin: gateway.Pin{Name: "m", Extra: map[string]json.RawMessage{"max_tokens": json.RawMessage(`7`)}}, body: `{"model":"x","max_tokens":5,"messages":[]}`, want: `{"model":"m","max_tokens":7,"messages":[]}`, output: 7},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := m.Read(gateway.Generate, target, http.Header{}, []byte(tc.body), tc.pin)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, sent(c)); diff != "" {
				t.Error(diff)
			}
			if c.Output != tc.output {
				t.Errorf("the output is %d, want %d", c.Output, tc.output)
			}
			if diff := cmp.Diff(tc.removed, c.Removed); diff != "" {
				t.Error(diff)
			}
		})
	}
	_, err := m.Read(gateway.Generate, target, http.Header{}, []byte(with("")), gateway.Pin{Name: "m", Extra: map[string]json.RawMessage{"x": json.RawMessage(`{`)}})
	if r, ok := errors.AsType[*gateway.Refusal](err); !ok || r.Status != 500 {
		t.Errorf("settings that are no JSON: %v", err)
	}
}

func TestMessages_SetOutput(t *testing.T) {
	t.Parallel()
	m := dialect(t)
	body := func(members string) string {
		return `{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":` + members + `}`
	}
	const thinking = `,"thinking":{"type":"enabled","budget_tokens":`
	const clearing = `,"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]}`
	const other = `,"context_management":{"edits":[{"type":"clear_tool_uses_20250919"}]}`
	for name, tc := range map[string]struct {
		in, want string
		n        int64
		removed  []string
	}{
		"lower":                         {body(`100`), body(`10`), 10, nil},
		"not higher":                    {body(`100`), body(`100`), 1000, nil},
		"never nothing":                 {body(`100`), body(`1`), 0, nil},
		"never negative":                {body(`100`), body(`1`), -5, nil},
		"nothing is no bound":           {body(`0`), body(`1`), 10, nil},
		"thinking stays below":          {body(`9000` + thinking + `8000}`), body(`5000` + thinking + `4999}`), 5000, nil},
		"thinking that is below stays":  {body(`9000` + thinking + `2000}`), body(`5000` + thinking + `2000}`), 5000, nil},
		"the least that thinking takes": {body(`9000` + thinking + `8000}`), body(`1025` + thinking + `1024}`), 1025, nil},
		"no room for thinking":          {body(`9000` + thinking + `8000}` + clearing), body(`1024`), 1024, []string{"thinking: there is no room for it in max_tokens", "context_management: clear_thinking_20251015"}},
		"what else is managed stays":    {body(`9000` + thinking + `8000}` + other), body(`10` + other), 10, []string{"thinking: there is no room for it in max_tokens"}},
		"adaptive thinking stays":       {body(`9000,"thinking":{"type":"adaptive"}`), body(`10,"thinking":{"type":"adaptive"}`), 10, nil},
		"a budget beyond, as it came":   {body(`5000` + thinking + `8000}`), body(`5000` + thinking + `8000}`), 5000, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := m.Read(gateway.Generate, target, http.Header{}, []byte(tc.in), gateway.Pin{Name: "m"})
			if err != nil {
				t.Fatal(err)
			}
			m.SetOutput(c, tc.n)
			if diff := cmp.Diff(tc.want, sent(c)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tc.removed, c.Removed); diff != "" {
				t.Error(diff)
			}
			if n, _ := c.Body.Get("max_tokens").Int(); n != c.Output {
				t.Errorf("the output is told as %d, and is %d", c.Output, n)
			}
		})
	}
	m.SetOutput(&gateway.Call{}, 5) // of another dialect: nothing to do
}

func TestMessages_FailuresAndModels(t *testing.T) {
	t.Parallel()
	m := dialect(t)
	for status, want := range map[int]string{
		400: "invalid_request_error", 401: "authentication_error", 402: "billing_error", 403: "permission_error", 404: "not_found_error",
		409: "conflict_error", 411: "invalid_request_error", 413: "request_too_large", 415: "invalid_request_error", 429: "rate_limit_error",
		500: "api_error", 502: "api_error", 503: "overloaded_error", 504: "timeout_error", 529: "overloaded_error",
	} {
		f := gateway.Failure{Status: status, Code: "some_code", Message: "It is \"so\".\nDo this."}
		got, h, body := m.Fail(f)
		wantBody := `{"type":"error","error":{"type":"` + want + `","message":"It is \"so\".\nDo this.","details":{"error_code":"some_code"}}}`
		if got != status || string(body) != wantBody || h.Get("Content-Type") != "application/json" {
			t.Errorf("%d: %d %v %s", status, got, h, body)
		}
		if (h.Get("X-Should-Retry") == "false") != (status == 401 || status == 402) {
			t.Errorf("%d: retry %q", status, h.Get("X-Should-Retry"))
		}
		if got := string(m.FailStream(f)); got != "event: error\ndata: "+wantBody+"\n\n" {
			t.Errorf("%d: D073: the event is %q", status, got)
		}
	}
	want := `{"data":[{"type":"model","id":"opus","display_name":"opus","created_at":"1970-01-01T00:00:00Z","max_input_tokens":9,"max_tokens":3}],"has_more":false,"first_id":"opus","last_id":"opus"}`
	if one := string(m.Model(gateway.Pin{ID: "opus", Name: "secret-name", Context: 9, MaxOutput: 3})); !strings.Contains(want, "["+one+"]") {
		t.Errorf("one model: %s", one)
	}
	if got := string(m.Models(gateway.Pin{ID: "opus", Name: "secret-name", Context: 9, MaxOutput: 3})); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func BenchmarkRead(b *testing.B) {
	m := dialect(b)
	small, err := os.ReadFile("testdata/claude-code-tool-result.json")
	if err != nil {
		b.Fatal(err)
	}
	code, err := json.Marshal(strings.Repeat("func main() {\n\tfmt.Println(\"hello\")\n}\n", 50))
	if err != nil {
		b.Fatal(err)
	}
	turn := `{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"Read","input":{"file_path":"/a"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":` + string(code) + `}]}`
	large := []byte(`{"model":"m","max_tokens":5,"messages":[` + strings.Repeat(turn+",", 220) + turn + `]}`)
	for name, body := range map[string][]byte{"small": small, "large": large} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				c, err := m.Read(gateway.Generate, target, http.Header{}, body, pin)
				if err != nil {
					b.Fatal(err)
				}
				c.Body.AppendTo(make([]byte, 0, len(body)))
			}
		})
	}
}

// The gateway's process starts with each run, and loads the list then.
func BenchmarkLoad(b *testing.B) {
	list, err := os.ReadFile("messages.json")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := shape.Load(list, nil); err != nil {
			b.Fatal(err)
		}
	}
}
