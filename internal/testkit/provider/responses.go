package provider

import (
	"encoding/json"
	"fmt"
	"maps"
)

// responses is the OpenAI Responses dialect (POST /v1/responses).
type responses struct{}

type responsesTool struct {
	Type  string          `json:"type"`
	Name  string          `json:"name"`
	Tools []responsesTool `json:"tools"` // of a namespace

	Parameters schema `json:"parameters"`
}

type responsesItem struct {
	Type   string          `json:"type"`
	CallID string          `json:"call_id"`
	Output textOrParts     `json:"output"`
	Tools  []responsesTool `json:"tools"` // of additional_tools and tool_search_output
}

func (responses) parse(body []byte) (ask, error) {
	var req struct {
		Model  string            `json:"model"`
		Stream bool              `json:"stream"`
		Tools  []responsesTool   `json:"tools"`
		Input  []json.RawMessage `json:"input"`
		Text   struct {
			Format struct {
				Type string `json:"type"`
			} `json:"format"`
		} `json:"text"`
	}
	if err := json.Unmarshal(body, &req); err != nil {
		return ask{}, fmt.Errorf("read responses request: %w", err)
	}
	a := ask{Model: req.Model, Stream: req.Stream, Results: map[string]Result{}}
	a.Form = req.Text.Format.Type == "json_schema"
	a.Tools = collectTools(a.Tools, "", req.Tools, 0)
	for _, raw := range req.Input {
		var it responsesItem
		if err := json.Unmarshal(raw, &it); err != nil {
			continue // an item whose output is no text
		}
		a.Tools = collectTools(a.Tools, "", it.Tools, 0)
		if it.Type == "function_call_output" || it.Type == "custom_tool_call_output" {
			a.Results[it.CallID] = Result{Output: string(it.Output)}
		}
	}
	return a, nil
}

// collectTools walks the namespaces that newer clients nest tools in.
func collectTools(out []tool, namespace string, in []responsesTool, depth int) []tool {
	for _, t := range in {
		switch t.Type {
		case "function", "custom":
			out = append(out, tool{Name: t.Name, Namespace: namespace, Custom: t.Type == "custom", Params: t.Parameters.names()})
		case "namespace":
			if depth < 4 {
				out = collectTools(out, t.Name, t.Tools, depth+1)
			}
		}
	}
	return out
}

func (u Usage) responses() map[string]any {
	if u.Missing {
		return nil
	}
	input := u.Input + u.CacheRead + u.CacheWrite
	return map[string]any{
		"input_tokens": input, "output_tokens": u.Output, "total_tokens": input + u.Output,
		"input_tokens_details":  map[string]any{"cached_tokens": u.CacheRead},
		"output_tokens_details": map[string]any{"reasoning_tokens": u.Reasoning},
	}
}

func (responses) send(w *stream, a ask, t spoken) error {
	items := responsesItems(t.calls, t.text)
	resp := map[string]any{
		"id": "resp_scripted", "object": "response", "created_at": 1764000000, "status": "in_progress",
		"model": a.Model, "output": []any{}, "error": nil, "incomplete_details": nil,
	}
	done := map[string]any{
		"id": "resp_scripted", "object": "response", "created_at": 1764000000, "status": "completed",
		"model": a.Model, "output": items, "error": nil, "incomplete_details": nil,
	}
	with(done, t.usage.responses())
	if !a.Stream {
		reply(w, done)
		return w.err
	}
	seq := 0
	send := func(kind string, fields map[string]any) {
		fields["type"], fields["sequence_number"] = kind, seq
		seq++
		w.event(kind, fields)
	}
	if t.usage.First != nil {
		with(resp, t.usage.First.responses())
	}
	send("response.created", map[string]any{"response": resp})
	for i, it := range items {
		responsesStream(send, i, it)
	}
	w.ending = true
	send("response.completed", map[string]any{"response": done})
	return w.err
}

func responsesItems(calls []toolCall, text string) []map[string]any {
	items := []map[string]any{}
	if text != "" {
		items = append(items, map[string]any{
			"type": "message", "id": "msg_scripted", "role": "assistant", "status": "completed",
			"content": []any{map[string]any{"type": "output_text", "text": text, "annotations": []any{}, "logprobs": []any{}}},
		})
	}
	for _, c := range calls {
		it := map[string]any{"id": "item_" + c.ID, "call_id": c.ID, "name": c.Name, "status": "completed"}
		if c.Namespace != "" {
			it["namespace"] = c.Namespace
		}
		if c.Custom {
			it["type"], it["input"] = "custom_tool_call", c.Input
		} else {
			it["type"], it["arguments"] = "function_call", c.Input
		}
		items = append(items, it)
	}
	return items
}

// responsesStream sends one item as added, deltas and done.
func responsesStream(send func(string, map[string]any), i int, it map[string]any) {
	added := maps.Clone(it)
	added["status"] = "in_progress"
	at := func(fields map[string]any) map[string]any {
		fields["item_id"], fields["output_index"] = it["id"], i
		return fields
	}
	switch it["type"] {
	case "message":
		added["content"] = []any{}
		content, _ := it["content"].([]any)
		part, _ := content[0].(map[string]any)
		empty := map[string]any{"type": "output_text", "text": "", "annotations": []any{}, "logprobs": []any{}}
		send("response.output_item.added", map[string]any{"output_index": i, "item": added})
		send("response.content_part.added", at(map[string]any{"content_index": 0, "part": empty}))
		send("response.output_text.delta", at(map[string]any{"content_index": 0, "delta": part["text"], "logprobs": []any{}}))
		send("response.output_text.done", at(map[string]any{"content_index": 0, "text": part["text"], "logprobs": []any{}}))
		send("response.content_part.done", at(map[string]any{"content_index": 0, "part": part}))
	case "custom_tool_call":
		added["input"] = ""
		send("response.output_item.added", map[string]any{"output_index": i, "item": added})
		send("response.custom_tool_call_input.delta", at(map[string]any{"delta": it["input"]}))
		send("response.custom_tool_call_input.done", at(map[string]any{"input": it["input"]}))
	default:
		added["arguments"] = ""
		send("response.output_item.added", map[string]any{"output_index": i, "item": added})
		send("response.function_call_arguments.delta", at(map[string]any{"delta": it["arguments"]}))
		send("response.function_call_arguments.done", at(map[string]any{"name": it["name"], "arguments": it["arguments"]}))
	}
	send("response.output_item.done", map[string]any{"output_index": i, "item": it})
}
