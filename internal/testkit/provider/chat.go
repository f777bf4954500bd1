package provider

import (
	"encoding/json"
	"fmt"
)

// chat is the OpenAI Chat Completions dialect (POST /v1/chat/completions).
type chat struct{}

func (chat) parse(body []byte) (ask, error) {
	var req struct {
		Model   string `json:"model"`
		Stream  bool   `json:"stream"`
		Options struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
		Tools []struct {
			Function struct {
				Name       string `json:"name"`
				Parameters schema `json:"parameters"`
			} `json:"function"`
		} `json:"tools"`
		Messages []struct {
			Role       string      `json:"role"`
			ToolCallID string      `json:"tool_call_id"`
			Content    textOrParts `json:"content"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(body, &req); err != nil {
		return ask{}, fmt.Errorf("read chat request: %w", err)
	}
	a := ask{Model: req.Model, Stream: req.Stream, Usage: req.Options.IncludeUsage, Results: map[string]Result{}}
	for _, t := range req.Tools {
		a.Tools = append(a.Tools, tool{Name: t.Function.Name, Params: t.Function.Parameters.names()})
	}
	for _, m := range req.Messages {
		if m.Role == "tool" {
			a.Results[m.ToolCallID] = Result{Output: string(m.Content)}
		}
	}
	return a, nil
}

func (u Usage) chat() map[string]any {
	if u.Missing {
		return nil
	}
	prompt := u.Input + u.CacheRead + u.CacheWrite
	return map[string]any{
		"prompt_tokens": prompt, "completion_tokens": u.Output, "total_tokens": prompt + u.Output,
		"prompt_tokens_details":     map[string]any{"cached_tokens": u.CacheRead},
		"completion_tokens_details": map[string]any{"reasoning_tokens": u.Reasoning},
	}
}

func (chat) send(w *stream, a ask, t spoken) error {
	stop := "stop"
	message := map[string]any{"role": "assistant", "content": t.text}
	if len(t.calls) > 0 {
		stop = "tool_calls"
		list := make([]any, len(t.calls))
		for i, c := range t.calls {
			list[i] = map[string]any{
				"index": i, "id": c.ID, "type": "function",
				"function": map[string]any{"name": c.Name, "arguments": c.Input},
			}
		}
		message["tool_calls"] = list
	}
	if !a.Stream {
		reply(w, with(map[string]any{
			"id": "chatcmpl_scripted", "object": "chat.completion", "created": 1764000000, "model": a.Model,
			"choices": []any{map[string]any{"index": 0, "message": message, "finish_reason": stop}},
		}, t.usage.chat()))
		return w.err
	}
	chunk := func(choices []any, usage any) {
		w.event("", map[string]any{
			"id": "chatcmpl_scripted", "object": "chat.completion.chunk", "created": 1764000000,
			"model": a.Model, "choices": choices, "usage": usage,
		})
	}
	choice := func(delta, stop any) []any {
		return []any{map[string]any{"index": 0, "delta": delta, "finish_reason": stop}}
	}
	chunk(choice(message, nil), nil)
	if t.usage.First != nil { // some servers count along
		chunk(choice(map[string]any{}, nil), t.usage.First.chat())
	}
	chunk(choice(map[string]any{}, stop), nil)
	if a.Usage && !t.usage.Missing {
		chunk([]any{}, t.usage.chat())
	}
	w.end("", "[DONE]")
	return w.err
}
