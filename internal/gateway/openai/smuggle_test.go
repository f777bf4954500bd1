package openai_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey/internal/gateway"
)

// plants are what makes a provider act, each as an item of a list and as a
// member of an object.
func plants() (items []any, members map[string]any) {
	mcp := map[string]any{"type": "mcp", "server_label": "x", "server_url": "https://evil.test"}
	image := map[string]any{"type": "input_image", "image_url": "https://evil.test"}
	items = []any{
		mcp, image,
		map[string]any{"type": "web_search", "filters": map[string]any{"allowed_domains": []any{"evil.test"}}},
		map[string]any{"type": "image_url", "image_url": map[string]any{"url": "https://evil.test"}},
		map[string]any{"type": "input_file", "file_url": "https://evil.test"},
		map[string]any{"type": "shell", "environment": map[string]any{"type": "container_auto", "file_ids": []any{"evil.test"}}},
		map[string]any{"type": "additional_tools", "tools": []any{mcp}},
		map[string]any{"type": "namespace", "name": "n", "tools": []any{mcp}},
		map[string]any{"type": "item_reference", "id": "evil.test"},
		map[string]any{"role": "user", "content": []any{image}},
		map[string]any{"role": "tool", "tool_call_id": "c", "content": []any{map[string]any{"type": "image_url", "image_url": map[string]any{"url": "https://evil.test"}}}},
	}
	members = map[string]any{
		"tools": []any{mcp}, "tool": mcp, "mcp_servers": []any{mcp}, "image_url": "https://evil.test",
		"file_url": "https://evil.test", "file_id": "evil.test", "server_url": "https://evil.test",
		"previous_response_id": "evil.test", "conversation": "evil.test", "prompt": map[string]any{"id": "evil.test"},
		"web_search_options": map[string]any{"user_location": "evil.test"}, "environment": map[string]any{"type": "container_reference", "container_id": "evil.test"},
		"metadata": map[string]any{"x": "evil.test"}, "service_tier": "evil.test", "models": []any{"evil.test"},
	}
	return items, members
}

// Wherever in a request of a harness something is planted, it is refused or does
// not arrive. Schemas of tools, and what a tool was called with, are the
// client's own, and mean nothing to the provider.
func TestRead_NothingIsSmuggled(t *testing.T) {
	t.Parallel()
	items, members := plants()
	for dialect, p := range map[string]gateway.Protocol{"responses": responses(t), "chat": chat(t)} {
		files, err := filepath.Glob("testdata/" + dialect + "/*.json")
		if err != nil || len(files) < 5 {
			t.Fatalf("%d fixtures of %s: %v", len(files), dialect, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			t.Run(dialect+"/"+filepath.Base(file), func(t *testing.T) {
				t.Parallel()
				g := grove{t: t, p: p, items: items, members: members}
				if err := json.Unmarshal(data, &g.root); err != nil {
					t.Fatal(err)
				}
				g.walk("", g.root, func(any) {})
				if g.sent == 0 || g.refused == 0 {
					t.Errorf("%d were sent and %d refused: nothing was tried", g.sent, g.refused)
				}
			})
		}
	}
}

// grove plants everything everywhere in one request.
type grove struct {
	t             *testing.T
	p             gateway.Protocol
	root          any
	items         []any
	members       map[string]any
	sent, refused int
}

func (g *grove) walk(path string, v any, put func(any)) {
	switch v := v.(type) {
	case map[string]any:
		for name, plant := range g.members {
			before, had := v[name]
			v[name] = plant
			g.try(path + "." + name)
			if delete(v, name); had {
				v[name] = before
			}
		}
		for name, value := range v {
			if name != "parameters" {
				g.walk(path+"."+name, value, func(x any) { v[name] = x })
			}
		}
	case []any:
		for _, plant := range g.items {
			put(append(slices.Clip(v), plant))
			g.try(path + "[]")
			put(v)
		}
		for i, value := range v {
			g.walk(path+"[]", value, func(x any) { v[i] = x })
		}
	}
}

func (g *grove) try(path string) {
	body, err := json.Marshal(g.root)
	if err != nil {
		g.t.Fatal(err)
	}
	call, err := g.p.Read(gateway.Generate, "", nil, body, pin())
	if err != nil {
		g.refused++
		return
	}
	g.sent++
	if sent := string(call.Body.AppendTo(nil)); strings.Contains(sent, "evil.test") {
		g.t.Errorf("%s: what was planted is sent, in %s", path, sent[max(0, strings.Index(sent, "evil.test")-200):])
	}
}
