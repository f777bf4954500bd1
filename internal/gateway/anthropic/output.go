package anthropic

import (
	"github.com/bailey-dev/bailey/internal/gateway"
	"github.com/bailey-dev/bailey/internal/gateway/document"
)

// leastThinking is the least budget_tokens that the API takes.
const leastThinking = 1024

// SetOutput lowers max_tokens to n, and a budget of thinking with it.
func (m *Messages) SetOutput(c *gateway.Call, n int64) {
	st, ok := c.State().(*state)
	if !ok || st.count || c.Body == nil {
		return
	}
	c.Removed = append(c.Removed, lower(c.Body, st.maxTokens, max(n, 1))...)
	c.Output, _ = c.Body.Get(st.maxTokens).Int()
}

// lower sets the member that bounds the output to n, if it is there and above.
// Nothing, by which a cache is warmed, becomes the least there is: some servers
// take it for no bound.
// Thinking has to stay below it, and goes when it cannot.
func lower(v *document.Value, member string, n int64) (removed []string) {
	asked, ok := v.Get(member).Int()
	if !ok || asked > 0 && asked <= n {
		return nil
	}
	if asked == 0 {
		n = 1
	}
	v.Set(member, document.NewInt(n))
	thinking := v.Get("thinking")
	budget, ok := thinking.Get("budget_tokens").Int()
	if !ok || budget < n {
		return nil
	}
	if n > leastThinking {
		thinking.Set("budget_tokens", document.NewInt(n-1))
		return nil
	}
	v.Delete("thinking")
	removed = append(removed, "thinking: there is no room for it in max_tokens")
	return append(removed, withoutThinking(v)...)
}

// withoutThinking takes out what the API only takes together with thinking.
func withoutThinking(v *document.Value) (removed []string) {
	management := v.Get("context_management")
	edits := management.Get("edits")
	if edits == nil {
		return nil
	}
	kept := make([]*document.Value, 0, len(edits.Items))
	for _, edit := range edits.Items {
		if edit.Get("type").Str() != "clear_thinking_20251015" {
			kept = append(kept, edit)
		}
	}
	if len(kept) == len(edits.Items) {
		return nil
	}
	edits.Items = kept
	if len(kept) == 0 {
		v.Delete("context_management")
	}
	return []string{"context_management: clear_thinking_20251015"}
}
