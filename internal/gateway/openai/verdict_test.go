package openai_test

import (
	"strings"
	"testing"
)

const fn = `{"type":"function","name":"f","parameters":{"type":"object","properties":{"type":{"type":"mcp"}}}}`

// ask is a request of Responses with more members.
func ask(more string) string {
	if more != "" {
		more = "," + more
	}
	return `{"model":"x","input":"hi"` + more + `}`
}

// say is a request of Responses with items after the first.
func say(items string) string {
	return `{"model":"x","input":[{"role":"user","content":"hi"},` + items + `]}`
}

func TestResponses_Read(t *testing.T) {
	t.Parallel()
	hosted := []string{
		"web_search", "web_search_2025_08_26", "web_search_preview", "web_search_preview_2025_03_11",
		"file_search", "code_interpreter", "image_generation", "programmatic_tool_calling",
	}
	cases := []verdict{
		{name: "positive: a question", body: ask(""), sent: []string{`"store":false`, `"model":"gpt-pinned"`, `"input":"hi"`}},
		{name: "positive: tools of the client's", body: ask(`"tools":[` + fn + `,{"type":"custom","name":"g"},{"type":"apply_patch"},{"type":"local_shell"},{"type":"shell","environment":{"type":"local"}},{"type":"tool_search","execution":"client","parameters":{}},{"type":"computer"}],"tool_choice":{"type":"function","name":"f"}`), sent: []string{fn, `{"type":"function","name":"f"}`, `"local"`, `"apply_patch"`, `"client"`}},

		{name: "D002 a type that nobody knows", body: ask(`"tools":[{"type":"web_search_20991231"}]`), refused: "tool_type_not_allowed", path: "tools[0].type"},
		{name: "D002 upper case", body: ask(`"tools":[{"type":"FUNCTION","name":"f"}]`), refused: "tool_type_not_allowed"},
		{name: "D002 a space", body: ask(`"tools":[{"type":"function ","name":"f"}]`), refused: "tool_type_not_allowed"},
		{name: "D002 a list of types", body: ask(`"tools":[{"type":["function"],"name":"f"}]`), refused: "tool_type_not_allowed"},
		{name: "D002 null", body: ask(`"tools":[{"type":null,"name":"f"}]`), refused: "tool_type_not_allowed"},
		{name: "D002 no type", body: ask(`"tools":[{"name":"f"}]`), refused: "missing_field"},
		{name: "D002 escaped", body: ask(`"tools":[` + fn + `,{"type":"web\u005fsearch"}]`), removed: []string{"tools[1]: web_search"}, sent: []string{fn}, gone: []string{"web"}},
		{name: "D006 MCP", body: ask(`"tools":[` + fn + `,{"type":"mcp","server_label":"x","server_url":"https://evil.test","require_approval":"never","headers":{"Authorization":"x"}}]`), removed: []string{"tools[1]: mcp"}, sent: []string{fn}, gone: []string{"evil", `"mcp","server`}},
		{name: "D006 a connector", body: ask(`"tools":[{"type":"mcp","connector_id":"connector_gmail"}],"tool_choice":{"type":"mcp","server_label":"x"}`), removed: []string{"tools[0]: mcp", "tool_choice: mcp"}, gone: []string{"tool"}},
		{name: "D004 a hosted shell", body: ask(`"tools":[{"type":"shell","environment":{"type":"container_auto","network_policy":{"type":"allowlist","domains":["evil.test"]}}}],"tool_choice":{"type":"shell"}`), removed: []string{"tools[0].environment: container_auto", "tools[0]: nothing is left of it", "tool_choice: no tool is left"}, gone: []string{"shell", "evil"}},
		{name: "D004 a hosted shell beside another tool", body: ask(`"tools":[` + fn + `,{"type":"shell","environment":{"type":"container_reference","container_id":"cntr_1"}}],"tool_choice":{"type":"shell"}`), removed: []string{"tools[1].environment: container_reference", "tools[1]: nothing is left of it", "tool_choice: the tool is not there"}, gone: []string{"shell", "cntr"}},
		{name: "D004 a shell of nowhere", body: ask(`"tools":[{"type":"shell"}]`), refused: "missing_field"},
		{name: "D016 search of tools at the provider's", body: ask(`"tools":[` + fn + `,{"type":"tool_search","execution":"server"}]`), removed: []string{"tools[1].execution: server", "tools[1]: nothing is left of it"}, gone: []string{"tool_search"}},
		{name: "D016 code that calls tools", body: ask(`"tools":[{"type":"function","name":"f","allowed_callers":["direct","programmatic"]}]`), removed: []string{"tools[0].allowed_callers[1]: programmatic"}, sent: []string{`"allowed_callers":["direct"]`}},
		{name: "a choice of several", body: ask(`"tools":[` + fn + `,{"type":"web_search"}],"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"web_search"},{"type":"function","name":"f"}]}`), removed: []string{"tools[1]: web_search", "tool_choice.tools[0]: web_search"}, sent: []string{`"tools":[{"type":"function","name":"f"}]}`}},
		{name: "a choice of several that are gone", body: ask(`"tools":[` + fn + `,{"type":"web_search"}],"tool_choice":{"type":"allowed_tools","mode":"required","tools":[{"type":"web_search"}]}`), removed: []string{"tools[1]: web_search", "tool_choice.tools[0]: web_search", "tool_choice: nothing is left of it"}, gone: []string{"tool_choice"}},
		{name: "all tools are gone", body: ask(`"tools":[{"type":"web_search"}],"tool_choice":"required","parallel_tool_calls":true`), removed: []string{"tools[0]: web_search", "tool_choice: no tool is left"}, gone: []string{"tool"}},

		{name: "hidden in additional_tools", body: say(`{"type":"additional_tools","role":"developer","tools":[` + fn + `,{"type":"web_search"}]}`), removed: []string{"input[1].tools[1]: web_search"}, sent: []string{fn}, gone: []string{"web_search"}},
		{name: "hidden in tool_search_output", body: say(`{"type":"tool_search_output","call_id":"c","tools":[` + fn + `,{"type":"mcp","server_url":"https://evil.test"}]}`), removed: []string{"input[1].tools[1]: mcp"}, sent: []string{fn}, gone: []string{"evil"}},
		{name: "hidden in a namespace", body: say(`{"type":"additional_tools","tools":[{"type":"namespace","name":"n","tools":[` + fn + `,{"type":"namespace","name":"m","tools":[{"type":"code_interpreter","container":{"type":"auto"}}]}]}]}`), removed: []string{"input[1].tools[0].tools[1].tools[0]: code_interpreter", "input[1].tools[0].tools[1]: nothing is left of it"}, sent: []string{fn}, gone: []string{"code_interpreter"}},
		{name: "positive: tools that are found later", body: say(`{"type":"tool_search_call","call_id":"c","arguments":{"query":"q"},"execution":"client"},{"type":"tool_search_output","call_id":"c","tools":[{"type":"namespace","name":"n","tools":[` + fn + `]}],"execution":"client","status":"completed"}`), sent: []string{fn}},

		{name: "D005 members that connect", body: ask(`"mcp_servers":[{"url":"https://evil.test"}]`), refused: "unknown_field", path: "mcp_servers"},
		{name: "D008 a file by its id", body: say(`{"role":"user","content":[{"type":"input_file","file_id":"file_1"}]}`), refused: "file_not_allowed"},
		{name: "D008 an image by its id", body: say(`{"role":"user","content":[{"type":"input_image","file_id":"file_1"}]}`), refused: "file_not_allowed"},
		{name: "D001 a file that would be fetched", body: say(`{"role":"user","content":[{"type":"input_file","file_url":"https://evil.test/?d=x"}]}`), refused: "remote_url_not_allowed"},
		{name: "D001 a file's bytes are an address", body: say(`{"role":"user","content":[{"type":"input_file","file_data":"https://evil.test/?d=x"}]}`), refused: "remote_url_not_allowed"},
		{name: "D001 an image that would be fetched", body: say(`{"role":"user","content":[{"type":"input_image","image_url":"https://evil.test/?d=x"}]}`), refused: "remote_url_not_allowed", path: "input[1].content[0].image_url"},
		{name: "D001 an address in the place of the bytes' type", body: say(`{"role":"user","content":[{"type":"input_image","image_url":"data:http://evil.test/,x"}]}`), refused: "remote_url_not_allowed"},
		{name: "D001 in the output of a tool", body: say(`{"type":"function_call_output","call_id":"c","output":[{"type":"input_image","image_url":"http://evil.test"}]}`), refused: "remote_url_not_allowed"},
		{name: "D001 in the output of a custom tool", body: say(`{"type":"custom_tool_call_output","call_id":"c","output":[{"type":"input_image","image_url":"http://evil.test"}]}`), refused: "remote_url_not_allowed"},
		{name: "D001 in the picture of a screen", body: say(`{"type":"computer_call_output","call_id":"c","output":{"type":"computer_screenshot","image_url":"http://evil.test"}}`), refused: "remote_url_not_allowed"},
		{name: "positive: an image that is there", body: say(`{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,AAAA"},{"type":"input_file","file_data":"AAAA","filename":"x.pdf"}]}`), sent: []string{"data:image/png;base64,AAAA", `"file_data":"AAAA"`}},
		{name: "sound has a price of its own", body: say(`{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"AAAA","format":"mp3"}}]}`), refused: "content_not_allowed"},

		{name: "a reference to what is kept", body: say(`{"type":"item_reference","id":"msg_1"}`), refused: "server_state_not_allowed"},
		{name: "reasoning that is not there", body: say(`{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"s"}]}`), removed: []string{"input: reasoning that is not in the request"}, gone: []string{"rs_1"}},
		{name: "reasoning of which there is nothing", body: say(`{"type":"reasoning","id":"rs_1","summary":[],"content":[]}`), removed: []string{"input: reasoning that is not in the request"}, gone: []string{"rs_1"}},
		{name: "items of which there is little but the id", body: say(`{"type":"reasoning","id":"x_1","summary":[],"content":[{"type":"reasoning_text","text":""}]},{"type":"message","id":"x_2","role":"assistant","content":[]},{"type":"shell_call","id":"x_3","call_id":"c"},{"type":"apply_patch_call","id":"x_4","call_id":"c","status":"completed"}`), removed: []string{"input: reasoning that is not in the request", "input: message that is not in the request", "input: shell_call that is not in the request", "input: apply_patch_call that is not in the request"}, gone: []string{"x_1", "x_2", "x_3", "x_4"}},
		{name: "other items of which there is little but the id", body: say(`{"type":"agent_message","id":"x_1","content":[]},{"type":"function_call","id":"x_2","call_id":"","name":"","arguments":""},{"type":"additional_tools","id":"x_3","tools":[]}`), removed: []string{"input: agent_message that is not in the request", "input: function_call that is not in the request", "input: additional_tools that is not in the request"}, gone: []string{"x_1", "x_2", "x_3"}},
		{name: "a schema that is elsewhere", body: ask(`"tools":[{"type":"function","name":"f","parameters":{"$schema":"http://evil.test/s","$id":"http://evil.test/","anyOf":[{"$ref":"evil"},{"$ref":" //evil.test"},{"$ref":"/etc/passwd"},{"$ref":"#a"}]}}]`), removed: []string{`tools[0].parameters."$schema": of what is elsewhere`, `tools[0].parameters.anyOf[0]."$ref": of what is elsewhere`, `tools[0].parameters.anyOf[1]."$ref": of what is elsewhere`, `tools[0].parameters.anyOf[2]."$ref": of what is elsewhere`}, sent: []string{`"$ref":"#a"`}, gone: []string{"passwd", "evil.test/s"}},
		{name: "a schema at an address", body: ask(`"tools":[{"type":"function","name":"f","parameters":{"$schema":"http://json-schema.org/draft-07/schema#","$ref":"https://evil.test/s","properties":{"$ref":{"$ref":"#/$defs/a"},"b":{"$dynamicRef":"//evil.test"}}}}]`), removed: []string{`tools[0].parameters."$ref": of what is elsewhere`, `tools[0].parameters.properties.b."$dynamicRef": of what is elsewhere`}, sent: []string{`"$ref":"#/$defs/a"`, "draft-07"}, gone: []string{"evil.test"}},
		{name: "items of which the id is there alone", body: say(`{"type":"context_compaction","id":"x_1"},{"type":"compaction","id":"x_2","encrypted_content":""},{"type":"local_shell_call","id":"x_3"},{"type":"computer_call","id":"x_4","actions":[]},{"type":"tool_search_call","id":"x_5","execution":"server"},{"type":"compaction_trigger","id":"x_6"}`), removed: []string{"input[6]: compaction_trigger", "input: context_compaction that is not in the request", "input: compaction that is not in the request", "input: local_shell_call that is not in the request", "input: computer_call that is not in the request", "input: tool_search_call that is not in the request"}, gone: []string{"x_"}},
		{name: "positive: items that are there", body: say(`{"type":"compaction","id":"x_2","encrypted_content":"AAAA"},{"type":"local_shell_call","id":"x_3","call_id":"c","action":{"type":"exec","command":["ls"]}},{"type":"tool_search_call","id":"x_5","call_id":"c","arguments":{"q":1}}`), sent: []string{"x_2", "x_3", "x_5"}},
		{name: "positive: reasoning that is there", body: say(`{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"AAAA"},{"type":"reasoning","id":"rs_2","summary":[],"content":[{"type":"reasoning_text","text":"t"}]}`), sent: []string{"rs_1", "rs_2"}},
		{name: "what hosted tools left", body: say(`{"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search","query":"q"}},{"type":"mcp_approval_response","approval_request_id":"a","approve":true}`), removed: []string{"input[1]: web_search_call", "input[2]: mcp_approval_response"}, gone: []string{"search", "mcp"}},
		{name: "an item that nobody knows", body: say(`{"type":"web_search_call_2"}`), refused: "unknown_item_type"},
		{name: "a shell's call on a hosted machine", body: say(`{"type":"shell_call","call_id":"c","action":{"commands":["ls"]},"environment":{"type":"container_reference","container_id":"cntr_1"}}`), removed: []string{"input[1].environment: container_reference"}, gone: []string{"cntr"}},
		{name: "a program's call", body: say(`{"type":"function_call","call_id":"c","name":"f","arguments":"{}","caller":{"type":"program","caller_id":"p"}}`), removed: []string{"input[1].caller: program"}, gone: []string{"caller"}},
		{name: "D042 roles", body: say(`{"role":"root","content":"x"}`), refused: "value_not_allowed"},

		{name: "D018 names and notes", body: ask(`"user":"u","metadata":{"a":"b"},"safety_identifier":"s","client_metadata":{"x":"y"}`), removed: []string{"user", "metadata", "safety_identifier", "client_metadata"}, gone: []string{`"u"`, `"b"`, `"s"`, `"y"`}},
		{name: "D018 the name of a cache", body: ask(`"prompt_cache_key":"secret words"`), sent: []string{"prompt_cache_key"}, gone: []string{"secret"}},
		{name: "state at the provider's", body: ask(`"store":true,"background":true,"previous_response_id":"resp_1","conversation":"conv_1","prompt":{"id":"p"},"context_management":[{"type":"compaction"}]`), removed: []string{"background", "previous_response_id", "conversation", "prompt", "context_management", "store: true"}, sent: []string{`"store":false`}, gone: []string{"resp_1", "conv_1", "background"}},
		{name: "D041 prices", body: ask(`"service_tier":"priority","moderation":{"model":"m"},"multi_agent":{"enabled":true},"access_programs":{"cyber":"x"},"reasoning":{"effort":"high","mode":"pro"}`), removed: []string{"service_tier", "moderation", "multi_agent", "access_programs", "reasoning.mode: pro"}, sent: []string{`"reasoning":{"effort":"high"}`}},
		{name: "D041 other providers' fallbacks", body: ask(`"models":["dear"]`), refused: "unknown_field"},
		{name: "D036 steering", body: ask(`"api_base":"https://evil.test"`), refused: "unknown_field"},
		{name: "what else is told", body: ask(`"include":["reasoning.encrypted_content","web_search_call.results"]`), removed: []string{"include[1]: web_search_call.results"}, sent: []string{`["reasoning.encrypted_content"]`}},
		{name: "a cache without an answer", body: ask(`"prompt_cache_options":{"mode":"explicit","ttl":"12h","prewarm":true,"comparison_response_id":"resp_1"}`), removed: []string{"prompt_cache_options.prewarm", "prompt_cache_options.comparison_response_id"}, sent: []string{`"ttl":"12h"`}},

		{name: "D020 two models", body: `{"model":"cheap","model":"dear","input":"hi"}`, refused: "invalid_json"},
		{name: "D020 two lists of tools", body: ask(`"tools":[],"tools":[{"type":"web_search"}]`), refused: "invalid_json"},
		{name: "D020 twice at depth", body: say(`{"role":"user","role":"user","content":"x"}`), refused: "invalid_json"},
		{name: "D021 other case", body: ask(`"MODEL":"b"`), refused: "unknown_field"},
		{name: "D021 a long s", body: ask(`"toolſ":[]`), refused: "unknown_field"},
		{name: "D022 escaped names", body: `{"mo\u0064el":"dear","input":"hi"}`, sent: []string{`"model":"gpt-pinned"`}, gone: []string{"dear"}},
		{name: "D022 an escaped name twice", body: ask(`"mo\u0064el":"dear"`), refused: "invalid_json"},
		{name: "D024 more after the end", body: ask("") + `{"model":"b"}`, refused: "invalid_json"},
		{name: "D025 a byte order mark", body: "\ufeff" + ask(""), refused: "invalid_json"},
		{name: "D025 invalid UTF-8", body: `{"model":"x","input":"` + "a\xff" + `"}`, refused: "invalid_json"},
		{name: "D025 a lone surrogate", body: `{"model":"x","input":"\ud800"}`, refused: "invalid_json"},
		{name: "D026 null for a model", body: `{"model":null,"input":"hi"}`, refused: "missing_field"},
		{name: "D026 a list for a model", body: `{"model":["a"],"input":"hi"}`, refused: "wrong_type"},
		{name: "D026 a word for stream", body: ask(`"stream":"true"`), refused: "wrong_type"},
		{name: "D026 a number for stream", body: ask(`"stream":1`), refused: "wrong_type"},
		{name: "D026 no number", body: ask(`"temperature":NaN`), refused: "invalid_json"},
		{name: "D026 a list for a document", body: `[]`, refused: "wrong_type"},
		{name: "D028 depth", body: ask(`"tools":` + strings.Repeat("[", 100) + strings.Repeat("]", 100)), refused: "invalid_json"},
		{name: "D040 any model", body: `{"model":"openai/https://evil.test","input":"hi"}`, sent: []string{`"model":"gpt-pinned"`}, gone: []string{"evil"}},
	}
	for _, kind := range hosted {
		cases = append(cases,
			verdict{name: "D012 hosted " + kind, body: ask(`"tools":[` + fn + `,{"type":"` + kind + `","x":1}],"tool_choice":{"type":"` + kind + `"}`), removed: []string{"tools[1]: " + kind, "tool_choice: " + kind}, sent: []string{fn}, gone: []string{kind, "tool_choice"}})
	}
	p := responses(t)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.check(t, p)
		})
	}
}

const chatFn = `{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}`

// talk is a request of Chat Completions with more members.
func talk(more string) string {
	if more != "" {
		more = "," + more
	}
	return `{"model":"x","messages":[{"role":"user","content":"hi"}]` + more + `}`
}

// tell is a request of Chat Completions with more messages.
func tell(messages string) string {
	return `{"model":"x","messages":[{"role":"user","content":"hi"},` + messages + `]}`
}

func TestChat_Read(t *testing.T) {
	t.Parallel()
	cases := []verdict{
		{name: "positive: a question", body: talk(""), sent: []string{`"model":"gpt-pinned"`, `"content":"hi"`}, gone: []string{"stream_options", "store"}},
		{name: "positive: tools", body: talk(`"tools":[` + chatFn + `,{"type":"custom","custom":{"name":"g","format":{"type":"grammar","grammar":{"syntax":"lark","definition":"x"}}}}],"tool_choice":{"type":"function","function":{"name":"f"}},"parallel_tool_calls":true`), sent: []string{chatFn, `"tool_choice":{"type":"function"`, "lark"}},
		{name: "positive: a talk with tools", body: tell(`{"role":"assistant","content":null,"reasoning_content":"r","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"t"}]}`), sent: []string{`"reasoning_content":"r"`, `"tool_call_id":"c"`}},

		{name: "D002 a type that nobody knows", body: talk(`"tools":[{"type":"browser_search"}]`), refused: "tool_type_not_allowed"},
		{name: "D002 no string", body: talk(`"tools":[{"type":["function"]}]`), refused: "tool_type_not_allowed"},
		{name: "D006 MCP", body: talk(`"tools":[` + chatFn + `,{"type":"mcp","server_url":"https://evil.test"}]`), removed: []string{"tools[1]: mcp"}, sent: []string{chatFn}, gone: []string{"evil"}},
		{name: "all tools are gone", body: talk(`"tools":[{"type":"web_search"}],"tool_choice":"auto","parallel_tool_calls":true`), removed: []string{"tools[0]: web_search", "tool_choice: no tool is left"}, gone: []string{"tool"}},
		{name: "D001 a search", body: talk(`"web_search_options":{"user_location":{}}`), removed: []string{"web_search_options"}, gone: []string{"web"}},
		{name: "D001 an image that would be fetched", body: tell(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://evil.test"}}]}`), refused: "remote_url_not_allowed", path: "messages[1].content[0].image_url.url"},
		{name: "positive: an image alone", body: tell(`{"role":"user","content":[{"type":"image_url","image_url":"data:image/png;base64,AAAA"}]}`), sent: []string{`"image_url":"data:image/png;base64,AAAA"`}},
		{name: "D001 an image alone that would be fetched", body: tell(`{"role":"user","content":[{"type":"image_url","image_url":"https://evil.test"}]}`), refused: "remote_url_not_allowed", path: "messages[1].content[0].image_url"},
		{name: "no image", body: tell(`{"role":"user","content":[{"type":"image_url","image_url":null}]}`), refused: "missing_field"},
		{name: "positive: a tool that says nothing", body: tell(`{"role":"tool","tool_call_id":"c","content":null}`), sent: []string{`"tool_call_id":"c","content":null`}},
		{name: "a tool without content", body: tell(`{"role":"tool","tool_call_id":"c"}`), refused: "missing_field"},
		{name: "a tool without a type, which the API refuses", body: talk(`"tools":[{"function":{"name":"f"}}]`), refused: "missing_field"},
		{name: "what servers add of their own", body: talk(`"keep_alive":"5m","cache_prompt":true,"timings_per_token":true,"skip_special_tokens":false,"request_id":"mine","transforms":["x"],"usage":{"include":true}`), removed: []string{"keep_alive", "cache_prompt", "timings_per_token", "skip_special_tokens", "request_id", "transforms", "usage"}, gone: []string{"keep_alive", "mine", "include\":"}},
		{name: "D001 an image in the answer of a tool", body: tell(`{"role":"tool","tool_call_id":"c","content":[{"type":"image_url","image_url":{"url":"ftp://evil.test"}}]}`), refused: "remote_url_not_allowed"},
		{name: "positive: an image that is there", body: tell(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA","detail":"low"}},{"type":"file","file":{"file_data":"data:application/pdf;base64,AAAA","filename":"x.pdf"}}]}`), sent: []string{"data:image/png", "data:application/pdf"}},
		{name: "D008 a file by its id", body: tell(`{"role":"user","content":[{"type":"file","file":{"file_id":"file_1"}}]}`), refused: "file_not_allowed"},
		{name: "a film", body: tell(`{"role":"user","content":[{"type":"video_url","video_url":{"url":"https://evil.test"}}]}`), refused: "content_not_allowed"},
		{name: "sound", body: talk(`"modalities":["text","audio"],"audio":{"voice":"x","format":"mp3"}`), removed: []string{"modalities[1]: audio", "audio"}, sent: []string{`"modalities":["text"]`}},
		{name: "an answer that is kept", body: tell(`{"role":"assistant","content":"x","audio":{"id":"audio_1"}}`), removed: []string{"messages[1].audio"}, gone: []string{"audio"}},

		{name: "D041 many answers", body: talk(`"n":128`), removed: []string{`n: "128" answers`}, gone: []string{`"n"`}},
		{name: "positive: one answer", body: talk(`"n":1`), sent: []string{`"n":1`}},
		{name: "D041 prices", body: talk(`"service_tier":"priority","prediction":{"type":"content","content":"x"},"moderation":{"model":"m"},"logit_bias":{"50256":-100}`), removed: []string{"service_tier", "prediction", "moderation", "logit_bias"}, gone: []string{"priority", "prediction", "50256"}},
		{name: "D041 other providers' fallbacks", body: talk(`"models":["dear"]`), refused: "unknown_field"},
		{name: "D041 other providers' routes", body: talk(`"provider":{"order":["x"]}`), refused: "unknown_field"},
		{name: "D041 other providers' plugins", body: talk(`"plugins":[{"id":"web"}]`), refused: "unknown_field"},
		{name: "D041 best_of", body: talk(`"best_of":20`), refused: "unknown_field"},
		{name: "D036 steering", body: talk(`"custom_llm_provider":"x"`), refused: "unknown_field"},
		{name: "D018 names and notes", body: talk(`"user":"u","metadata":{"a":"b"},"safety_identifier":"s","store":true`), removed: []string{"user", "metadata", "safety_identifier", "store: true"}, gone: []string{`"u"`, `"b"`, `"s"`, "store"}},
		{name: "D053 the usage is asked for", body: talk(`"stream":true,"stream_options":{"include_usage":false}`), sent: []string{`"include_usage":true`}},
		{name: "D053 the usage is asked for though nothing was said", body: talk(`"stream":true`), sent: []string{`"stream_options":{"include_usage":true}`}},
		{name: "usage all the time", body: talk(`"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}`), removed: []string{"stream_options.continuous_usage_stats"}, sent: []string{`"stream_options":{"include_usage":true}`}},
		{name: "D041 a longer life in the cache", body: talk(`"prompt_cache_options":{"mode":"explicit","ttl":"12h"},"tools":[{"type":"function","function":{"name":"f"},"cache_control":{"type":"ephemeral","ttl":"1h"}}]`), removed: []string{"prompt_cache_options.ttl: 12h", "tools[0].cache_control.ttl: 1h"}, sent: []string{`"prompt_cache_options":{"mode":"explicit"}`, `"cache_control":{"type":"ephemeral"}`}},
		{name: "D042 roles", body: tell(`{"role":"root","content":"x"}`), refused: "value_not_allowed"},
		{name: "D042 no role", body: tell(`{"content":"x"}`), refused: "missing_field"},

		{name: "D020 twice", body: talk(`"tools":[],"tools":[]`), refused: "invalid_json"},
		{name: "D021 other case", body: talk(`"Tools":[]`), refused: "unknown_field"},
		{name: "D026 an object for messages", body: `{"model":"x","messages":{}}`, refused: "wrong_type"},
		{name: "D026 a fraction of tokens", body: talk(`"max_tokens":1.5`), refused: "wrong_type"},
		{name: "D026 negative tokens", body: talk(`"max_tokens":-1`), refused: "wrong_type"},
	}
	p := chat(t)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.check(t, p)
		})
	}
}
