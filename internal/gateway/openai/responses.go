package openai

import (
	"net/http"
	"slices"

	"github.com/bailey-dev/bailey/internal/gateway"
	"github.com/bailey-dev/bailey/internal/gateway/document"
)

const (
	responsesPath = "/v1/responses"
	countPath     = "/v1/responses/input_tokens"

	// leastOutput is the least max_output_tokens that the API takes.
	leastOutput = 16
)

// responsesState is what Responses keeps of a call.
type responsesState struct {
	count bool
	limit string // the name under which max_output_tokens is sent
}

// Route tells the endpoint of a request. Everything of the API that is kept at
// the provider's is another target, and not served.
func (r *Responses) Route(method, target string) gateway.Endpoint {
	return route(method, target, responsesPath, countPath)
}

// Read judges a request and makes it one for the pinned model, of which nothing
// is stored.
func (r *Responses) Read(e gateway.Endpoint, _ string, _ http.Header, body []byte, pin gateway.Pin) (*gateway.Call, error) {
	st := responsesState{count: e == gateway.Count, limit: pin.Sent("max_output_tokens")}
	typ, target := "request", responsesPath
	if st.count {
		typ, target = "count", countPath
	}
	call, err := begin(r.list, typ, body, st)
	if err != nil {
		return nil, err
	}
	call.Endpoint, call.Target = e, target
	call.Removed = append(call.Removed, hollowItems(call.Body)...)
	unseen(call, call.Body.Get("text").Get("format"))
	if !st.count {
		if call.Body.Get("store").IsTrue() {
			call.Removed = append(call.Removed, "store: true")
		}
		call.Body.Set("store", document.NewBool(false))
		cacheKey(call.Body, r.salt)
	}
	if !call.Body.Get("stream").IsTrue() {
		call.Body.Delete("stream_options")
	}
	if err := pinned(call, pin); err != nil {
		return nil, err
	}
	if st.count {
		return call, nil
	}
	if call.Output = bound(call.Body, st.limit); pin.MaxOutput > 0 {
		r.SetOutput(call, pin.MaxOutput)
	}
	return call, nil
}

// substance is what an item of a kind has to have some of: else it is the id of
// what the provider keeps.
func substance(kind string) []string {
	switch kind {
	case "message", "agent_message", "":
		return []string{"content"}
	case "reasoning":
		return []string{"encrypted_content", "content"}
	case "compaction", "compaction_summary", "context_compaction":
		return []string{"encrypted_content"}
	case "configuration_update":
		return []string{"reasoning", "text"}
	case "function_call", "custom_tool_call":
		return []string{"name", "arguments", "input"}
	case "additional_tools":
		return []string{"tools"}
	case "tool_search_output":
		return []string{"tools", "call_id"}
	case "apply_patch_call":
		return []string{"operation"}
	case "local_shell_call", "shell_call":
		return []string{"action"}
	case "computer_call":
		return []string{"action", "actions"}
	case "tool_search_call":
		return []string{"arguments", "call_id"}
	}
	return nil
}

// hollow names what an item has only the id of: the provider would look for the
// rest in what it keeps. Empty: it has something.
func hollow(item *document.Value) string {
	kind := item.Get("type").Str()
	names := substance(kind)
	if names == nil || slices.ContainsFunc(names, func(name string) bool { return says(item.Get(name)) }) {
		return ""
	}
	if kind == "" {
		kind = "message"
	}
	return kind
}

// says reports whether there is anything in a value.
func says(v *document.Value) bool {
	return v != nil && (v.Text != "" || len(v.Members) > 0 || slices.ContainsFunc(v.Items, func(part *document.Value) bool {
		return part.Get("type").Str() != "reasoning_text" || part.Get("text").Str() != ""
	}))
}

// hollowItems takes out items that are hollow.
func hollowItems(v *document.Value) (removed []string) {
	input := v.Get("input")
	if input == nil {
		return nil
	}
	kept := input.Items[:0]
	for _, item := range input.Items {
		if what := hollow(item); what != "" {
			removed = append(removed, "input: "+what+" that is not in the request")
			continue
		}
		kept = append(kept, item)
	}
	input.Items = kept
	return removed
}

// SetOutput lowers max_output_tokens to n.
func (r *Responses) SetOutput(c *gateway.Call, n int64) {
	st, ok := c.State().(responsesState)
	if !ok || st.count || c.Body == nil {
		return
	}
	c.Output = lower(c.Body, max(n, leastOutput), st.limit)
}
