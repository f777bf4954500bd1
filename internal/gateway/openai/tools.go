package openai

import "github.com/bailey-dev/bailey/internal/gateway/document"

// toolset holds the tools of a request, each by its type and name.
type toolset map[string]bool

// toolsOf looks wherever a request may offer tools. What it looks at may be of
// any shape.
func toolsOf(v *document.Value) toolset {
	t := toolset{}
	t.add(v.Get("tools"))
	if functions := v.Get("functions"); functions != nil {
		for _, f := range functions.Items {
			t["function "+f.Get("name").Str()] = true
		}
	}
	if input := v.Get("input"); input != nil {
		for _, item := range input.Items {
			switch item.Get("type").Str() {
			case "additional_tools", "tool_search_output":
				t.add(item.Get("tools"))
			}
		}
	}
	return t
}

func (t toolset) add(tools *document.Value) {
	if tools == nil {
		return
	}
	for _, tool := range tools.Items {
		t[key(tool)] = true
		if tool.Get("type").Str() == "namespace" {
			t.add(tool.Get("tools"))
		}
	}
}

// key names a tool, and what chooses it, alike. Chat Completions has the name
// one level lower than Responses.
func key(v *document.Value) string {
	kind := v.Get("type").Str()
	name := v.Get("name").Str()
	if inner := v.Get(kind); kind != "" && inner != nil {
		name = inner.Get("name").Str()
	}
	return kind + " " + name
}

// settle makes a request whole again from which tools were taken: the provider
// refuses a choice of a tool that is not there, and a choice without tools.
func (t toolset) settle(v *document.Value) (removed []string) {
	left := toolsOf(v)
	choice := v.Get("tool_choice")
	switch {
	case len(t) > 0 && len(left) == 0:
		v.Delete("parallel_tool_calls")
		if v.Delete("tool_choice") != nil {
			removed = append(removed, "tool_choice: no tool is left")
		}
	case choice != nil && t.gone(left, choice):
		v.Delete("tool_choice")
		removed = append(removed, "tool_choice: the tool is not there")
	}
	return removed
}

// gone reports whether a choice is of tools that were taken out; it takes those
// out of a choice of several.
func (t toolset) gone(left toolset, choice *document.Value) bool {
	several := choice.Get("tools")
	if inner := choice.Get("allowed_tools"); inner != nil {
		several = inner.Get("tools")
	}
	if several == nil {
		k := key(choice)
		return t[k] && !left[k]
	}
	kept := several.Items[:0]
	for _, one := range several.Items {
		if k := key(one); left[k] || !t[k] {
			kept = append(kept, one)
		}
	}
	several.Items = kept
	return len(kept) == 0
}
