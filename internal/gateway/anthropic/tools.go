package anthropic

import (
	"strings"

	"github.com/bailey-dev/bailey/internal/gateway/document"
)

// toolset is what a request offered as tools before any were taken out.
type toolset struct {
	any    bool
	names  map[string]bool
	search bool // one of the provider's that finds deferred tools
}

func toolsOf(v *document.Value) toolset {
	t := toolset{names: map[string]bool{}}
	tools := v.Get("tools")
	if tools == nil {
		return t
	}
	t.any = true
	for _, tool := range tools.Items {
		t.names[tool.Get("name").Str()] = true
		t.search = t.search || strings.HasPrefix(tool.Get("type").Str(), "tool_search_tool_")
	}
	return t
}

// settle makes a request whole again from which tools were taken: the provider
// refuses a choice of a tool that is not there, and a choice without tools.
func (t toolset) settle(v *document.Value) (removed []string) {
	tools := v.Get("tools")
	choice := v.Get("tool_choice")
	if tools == nil {
		if t.any && choice != nil {
			v.Delete("tool_choice")
			removed = append(removed, "tool_choice: no tool is left")
		}
		return removed
	}
	if t.search {
		show(tools)
	}
	if choice.Get("type").Str() != "tool" {
		return nil
	}
	name := choice.Get("name").Str()
	if t.names[name] && !toolsOf(v).names[name] {
		choice.Set("type", document.NewString("auto"))
		choice.Delete("name")
		removed = append(removed, "tool_choice: the tool is not there")
	}
	return removed
}

// show undoes the deferring of tools, which nothing would find: the tool that
// searches them runs at the provider.
func show(tools *document.Value) {
	for _, tool := range tools.Items {
		tool.Delete("defer_loading")
	}
}
