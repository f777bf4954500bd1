package spec_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// toolCall is one call of a tool that a page shows, on a line.
type toolCall struct {
	Name      string         `json:"name"`
	Arguments map[string]any `json:"arguments"`
}

// toolCalls reads a block of calls; it is empty if the block is something else.
func toolCalls(body string) []toolCall {
	var out []toolCall
	for line := range strings.Lines(body) {
		var c toolCall
		if json.Unmarshal([]byte(line), &c) != nil || c.Name == "" {
			return nil
		}
		out = append(out, c)
	}
	return out
}

// TestDocumentationToolCalls holds the calls of MCP tools that the pages show
// to the tools' own schemas.
func TestDocumentationToolCalls(t *testing.T) {
	t.Parallel()
	y := yard.Unprivileged(t)
	session, err := sdk.NewClient(&sdk.Implementation{Name: "reader"}, nil).Connect(t.Context(), &sdk.CommandTransport{Command: y.Command(t.Context(), "mcp")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	list, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	schemas := map[string]*jsonschema.Resolved{}
	for _, tool := range list.Tools {
		text, err := json.Marshal(tool.InputSchema)
		if err != nil {
			t.Fatal(err)
		}
		var s jsonschema.Schema
		if err := json.Unmarshal(text, &s); err != nil {
			t.Fatal(err)
		}
		if schemas[tool.Name], err = s.Resolve(nil); err != nil {
			t.Fatal(err)
		}
	}
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for i, part := range strings.Split(string(text), "```json\n") {
			body, _, _ := strings.Cut(part, "```")
			if i == 0 {
				continue
			}
			for _, c := range toolCalls(body) {
				seen++
				if s := schemas[c.Name]; s == nil {
					t.Errorf("%s: there is no tool %s", page, c.Name)
				} else if err := s.Validate(c.Arguments); err != nil {
					t.Errorf("%s: %s: %v", page, c.Name, err)
				}
			}
		}
	}
	if seen < 6 {
		t.Errorf("%d calls were found", seen)
	}
	if s := schemas["delegate_task"]; s.Validate(map[string]any{"task": "x", "repo_path": "/r", "max_turn": 3.0}) == nil {
		t.Error("a call that is wrong is not found")
	}
}
