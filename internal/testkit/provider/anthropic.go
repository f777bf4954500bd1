package provider

import (
	"encoding/json"
	"fmt"
	"strings"
)

// anthropic is the Messages dialect (POST /v1/messages).
type anthropic struct{}

// textOrParts is a string, or a list of parts of which those with a text count.
type textOrParts string

// UnmarshalJSON reads either form.
func (t *textOrParts) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) == nil {
		*t = textOrParts(s)
		return nil
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(b, &parts); err != nil {
		return fmt.Errorf("read content: %w", err)
	}
	texts := make([]string, 0, len(parts))
	for _, p := range parts {
		texts = append(texts, p.Text)
	}
	*t = textOrParts(strings.Join(texts, "\n"))
	return nil
}

type anthropicBlock struct {
	Type      string          `json:"type"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
}

func (anthropic) parse(body []byte) (ask, error) {
	var req struct {
		Model  string `json:"model"`
		Stream bool   `json:"stream"`
		Tools  []struct {
			Name        string `json:"name"`
			InputSchema schema `json:"input_schema"`
		} `json:"tools"`
		Messages []struct {
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(body, &req); err != nil {
		return ask{}, fmt.Errorf("read messages request: %w", err)
	}
	a := ask{Model: req.Model, Stream: req.Stream, Results: map[string]Result{}}
	for _, t := range req.Tools {
		a.Tools = append(a.Tools, tool{Name: t.Name, Params: t.InputSchema.names()})
	}
	for _, m := range req.Messages {
		if err := anthropicResults(m.Content, a.Results); err != nil {
			return ask{}, err
		}
	}
	return a, nil
}

// anthropicResults adds the tool results of one message.
func anthropicResults(content json.RawMessage, to map[string]Result) error {
	var blocks []anthropicBlock
	if json.Unmarshal(content, &blocks) != nil {
		return nil //nolint:nilerr // plain text
	}
	for _, b := range blocks {
		if b.Type != "tool_result" {
			continue
		}
		var text textOrParts
		if len(b.Content) > 0 {
			if err := json.Unmarshal(b.Content, &text); err != nil {
				return fmt.Errorf("read tool result: %w", err)
			}
		}
		to[b.ToolUseID] = Result{Output: string(text), IsError: b.IsError}
	}
	return nil
}

func (u Usage) anthropic() map[string]any {
	if u.Missing {
		return nil
	}
	m := map[string]any{
		"input_tokens": u.Input, "output_tokens": u.Output,
		"cache_creation_input_tokens": u.CacheWrite, "cache_read_input_tokens": u.CacheRead,
	}
	if u.Reasoning != 0 {
		m["output_tokens_details"] = map[string]any{"thinking_tokens": u.Reasoning}
	}
	return m
}

// with adds the usage to an object, unless there is nothing to say.
func with(m, usage map[string]any) map[string]any {
	if usage != nil {
		m["usage"] = usage
	}
	return m
}

func (anthropic) send(w *stream, a ask, t spoken) error {
	stop := "end_turn"
	if len(t.calls) > 0 {
		stop = "tool_use"
	}
	message := map[string]any{
		"id": "msg_scripted", "type": "message", "role": "assistant", "model": a.Model,
		"content": []any{}, "stop_reason": nil, "stop_sequence": nil,
	}
	blocks := anthropicBlocks(t.calls, t.text)
	if !a.Stream {
		message["content"], message["stop_reason"] = blocks, stop
		reply(w, with(message, t.usage.anthropic()))
		return w.err
	}
	w.event("message_start", map[string]any{"type": "message_start", "message": with(message, t.usage.first().anthropic())})
	for i, b := range blocks {
		anthropicStream(w, i, b)
	}
	w.event("message_delta", with(map[string]any{
		"type": "message_delta", "delta": map[string]any{"stop_reason": stop, "stop_sequence": nil},
	}, t.usage.anthropic()))
	w.end("message_stop", map[string]any{"type": "message_stop"})
	return w.err
}

func anthropicBlocks(calls []toolCall, text string) []map[string]any {
	var blocks []map[string]any
	if text != "" {
		blocks = append(blocks, map[string]any{"type": "text", "text": text})
	}
	for _, c := range calls {
		blocks = append(blocks, map[string]any{
			"type": "tool_use", "id": c.ID, "name": c.Name, "input": json.RawMessage(c.Input),
		})
	}
	return blocks
}

// anthropicStream sends one block as start, deltas and stop.
func anthropicStream(w *stream, i int, block map[string]any) {
	delta := func(d map[string]any) {
		w.event("content_block_delta", map[string]any{"type": "content_block_delta", "index": i, "delta": d})
	}
	start := map[string]any{"type": "text", "text": ""}
	input, isCall := block["input"].(json.RawMessage)
	if isCall {
		start = map[string]any{"type": "tool_use", "id": block["id"], "name": block["name"], "input": map[string]any{}}
	}
	w.event("content_block_start", map[string]any{"type": "content_block_start", "index": i, "content_block": start})
	if isCall {
		half := len(input) / 2 // clients must join the parts
		for _, part := range []string{string(input[:half]), string(input[half:])} {
			delta(map[string]any{"type": "input_json_delta", "partial_json": part})
		}
	} else {
		delta(map[string]any{"type": "text_delta", "text": block["text"]})
	}
	w.event("content_block_stop", map[string]any{"type": "content_block_stop", "index": i})
}
