package gemini_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey/internal/gateway"
)

// plants are the members that make the provider act, in both ways to write them.
func plants() map[string]any {
	file := map[string]any{"fileUri": "https://evil.test"}
	all := map[string]any{
		"fileData": file, "fileUri": "https://evil.test", "cachedContent": "evil.test", "labels": map[string]any{"x": "evil.test"},
		"mcpServers":   []any{map[string]any{"name": "x", "streamableHttpTransport": map[string]any{"url": "https://evil.test"}}},
		"googleSearch": map[string]any{"x": "evil.test"}, "urlContext": map[string]any{"x": "evil.test"},
		"fileSearch": map[string]any{"fileSearchStoreNames": []any{"evil.test"}}, "serviceTier": "evil.test", "model": "evil.test",
		"routingConfig": map[string]any{"manualMode": map[string]any{"modelName": "evil.test"}},
		"tools":         []any{map[string]any{"googleMaps": map[string]any{"x": "evil.test"}}},
		"parts":         []any{map[string]any{"fileData": file}},
	}
	for _, name := range slices.Collect(maps.Keys(all)) {
		var snake strings.Builder
		for _, c := range name {
			if c >= 'A' && c <= 'Z' {
				snake.WriteByte('_')
			}
			snake.WriteString(strings.ToLower(string(c)))
		}
		all[snake.String()] = all[name]
	}
	return all
}

// Wherever in a request of a harness something is planted, it is refused or does
// not arrive. Schemas, and what a tool was called with and answered, are the
// client's own, and mean nothing to the provider.
func TestRead_NothingIsSmuggled(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) < 4 {
		t.Fatalf("%d fixtures: %v", len(files), err)
	}
	d, members := dialect(t), plants()
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			var root any
			if err := json.Unmarshal(data, &root); err != nil {
				t.Fatal(err)
			}
			sent, refused := 0, 0
			everywhere(root, members, func() {
				body, err := json.Marshal(root)
				if err != nil {
					t.Fatal(err)
				}
				call, err := d.Read(gateway.Generate, stream, nil, body, pin())
				if err != nil {
					refused++
					return
				}
				sent++
				if got := string(call.Body.AppendTo(nil)); strings.Contains(got, "evil.test") {
					t.Errorf("what was planted is sent, in %s", got[max(0, strings.Index(got, "evil.test")-200):])
				}
			})
			if sent == 0 || refused == 0 {
				t.Errorf("%d were sent and %d refused: nothing was tried", sent, refused)
			}
		})
	}
}

// everywhere gives each object each member in turn.
func everywhere(v any, members map[string]any, try func()) {
	switch v := v.(type) {
	case map[string]any:
		for name, plant := range members {
			before, had := v[name]
			v[name] = plant
			try()
			if delete(v, name); had {
				v[name] = before
			}
		}
		for name, value := range v {
			switch name {
			case "args", "response", "parameters", "parametersJsonSchema":
			default:
				everywhere(value, members, try)
			}
		}
	case []any:
		for _, item := range v {
			everywhere(item, members, try)
		}
	}
}
