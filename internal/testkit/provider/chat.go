package provider

import (
	"encoding/json"
	"fmt"
)

// chat is the OpenAI Chat Completions dialect (POST /v1/chat/completions).
type chat struct{}

func (chat) parse(body []byte) (ask, error) {
	var req struct {
		Model  string `json:"model"`
		Stream bool   `json:"stream"`
		Tools  []struct {
			Function struct {
				Name string `json:"name"`
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
	a := ask{Model: req.Model, Stream: req.Stream, Results: map[string]Result{}}
	for _, t := range req.Tools {
		a.Tools = append(a.Tools, tool{Name: t.Function.Name})
	}
	for _, m := range req.Messages {
		if m.Role == "tool" {
			a.Results[m.ToolCallID] = Result{Output: string(m.Content)}
		}
	}
	return a, nil
}

func (chat) send(w *stream, a ask, calls []toolCall, text string) error {
	usage := map[string]any{"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
	stop := "stop"
	message := map[string]any{"role": "assistant", "content": text}
	if len(calls) > 0 {
		stop = "tool_calls"
		list := make([]any, len(calls))
		for i, c := range calls {
			list[i] = map[string]any{
				"index": i, "id": c.ID, "type": "function",
				"function": map[string]any{"name": c.Name, "arguments": c.Input},
			}
		}
		message["tool_calls"] = list
	}
	if !a.Stream {
		reply(w.w, map[string]any{
			"id": "chatcmpl_scripted", "object": "chat.completion", "created": 1764000000, "model": a.Model, "usage": usage,
			"choices": []any{map[string]any{"index": 0, "message": message, "finish_reason": stop}},
		})
		return nil
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
	chunk(choice(map[string]any{}, stop), nil)
	chunk([]any{}, usage)
	w.event("", "[DONE]")
	return w.err
}
