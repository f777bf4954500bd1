package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
)

// answered is the provider's name of the model.
const answered = "real-1"

// ask is the body of a request. The large one has what an agent for code sends
// after some turns: a long system prompt in blocks, some twenty tools with
// their schemas, and the files and outputs of tools that were read, which are
// full of escapes.
func ask(k kind) []byte {
	if k.Large {
		return large()[index(k.Stream)]
	}
	return small()[index(k.Stream)]
}

func index(b bool) int {
	if b {
		return 1
	}
	return 0
}

var (
	small = sync.OnceValue(func() [2][]byte { return both(smallAsk) })
	large = sync.OnceValue(func() [2][]byte { return both(largeAsk) })
)

func both(f func(stream bool) map[string]any) (out [2][]byte) {
	for i, stream := range []bool{false, true} {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false) // as agents' own do not
		if err := enc.Encode(f(stream)); err != nil {
			panic("bug: a request of the benchmark cannot be encoded: " + err.Error())
		}
		out[i] = bytes.TrimSpace(b.Bytes())
	}
	return out
}

func smallAsk(stream bool) map[string]any {
	return map[string]any{
		"model": "any", "max_tokens": 1024, "stream": stream, "system": prose(300),
		"messages": []any{map[string]any{"role": "user", "content": prose(500)}},
	}
}

func largeAsk(stream bool) map[string]any {
	const tools, turns = 20, 12
	var list, messages []any
	for i := range tools {
		properties := map[string]any{}
		for j := range 5 {
			properties[fmt.Sprintf("field_%d", j)] = map[string]any{"type": "string", "description": prose(120)}
		}
		list = append(list, map[string]any{
			"name": fmt.Sprintf("Tool%d", i), "description": prose(700),
			"input_schema": map[string]any{"type": "object", "properties": properties, "required": []string{"field_0"}, "additionalProperties": false},
		})
	}
	cache := map[string]any{"type": "ephemeral"}
	messages = append(messages, map[string]any{"role": "user", "content": []any{map[string]any{"type": "text", "text": prose(2000)}}})
	for i := range turns {
		id := fmt.Sprintf("toolu_%024d", i)
		messages = append(messages,
			map[string]any{"role": "assistant", "content": []any{
				map[string]any{"type": "text", "text": prose(200)},
				map[string]any{"type": "tool_use", "id": id, "name": "Tool0", "input": map[string]any{"field_0": "/src/main.go"}},
			}},
			map[string]any{"role": "user", "content": []any{
				map[string]any{"type": "tool_result", "tool_use_id": id, "content": code(4000)},
			}})
	}
	return map[string]any{
		"model": "any", "max_tokens": 32000, "stream": stream, "tools": list, "messages": messages,
		"metadata": map[string]any{"user_id": "user_" + strings.Repeat("0", 64)},
		"system": []any{
			map[string]any{"type": "text", "text": prose(60), "cache_control": cache},
			map[string]any{"type": "text", "text": prose(14000), "cache_control": cache},
		},
	}
}

// prose and code are n bytes of text, one with few characters that JSON
// escapes and one with many.
func prose(n int) string {
	return fill(n, "Before it changes a file it reads the file, and says in one line what it is about to do. ")
}

func code(n int) string {
	return fill(n, "   12\tif err := run(ctx, \"all\"); err != nil && n > 0 {\n   13\t\treturn fmt.Errorf(\"run <%s>: %w\", name, err)\n   14\t}\n")
}

func fill(n int, text string) string { return strings.Repeat(text, n/len(text)+1)[:n] }
