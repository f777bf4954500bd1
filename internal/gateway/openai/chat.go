package openai

import (
	"fmt"
	"net/http"

	"github.com/bailey-dev/bailey/internal/gateway"
	"github.com/bailey-dev/bailey/internal/gateway/document"
)

const chatPath = "/v1/chat/completions"

// chatState is what Chat keeps of a call.
type chatState struct {
	limits    []string // the names that bound the output, the one to set first
	hideUsage bool     // the client had not asked for the chunk of usage
}

// Route tells the endpoint of a request.
func (c *Chat) Route(method, target string) gateway.Endpoint {
	return route(method, target, chatPath, "")
}

// Read judges a request and makes it one for the pinned model, whose stream ends
// with what was used.
func (c *Chat) Read(e gateway.Endpoint, _ string, _ http.Header, body []byte, pin gateway.Pin) (*gateway.Call, error) {
	// OpenAI's models want max_completion_tokens; where a server knows only the
	// older name, the model's settings rename it.
	st := &chatState{limits: []string{pin.Sent("max_completion_tokens"), pin.Sent("max_tokens")}}
	call, err := begin(c.list, "request", body, st)
	if err != nil {
		return nil, err
	}
	call.Endpoint, call.Target = e, chatPath
	v := call.Body
	if n := v.Get("n"); n != nil && n.Text != "1" {
		v.Delete("n")
		call.Removed = append(call.Removed, fmt.Sprintf("n: %s answers", document.Quote(n.Text)))
	}
	if v.Delete("store").IsTrue() {
		call.Removed = append(call.Removed, "store: true")
	}
	cacheKey(v, c.salt)
	st.hideUsage = askUsage(v)
	if err := pinned(call, pin); err != nil {
		return nil, err
	}
	if call.Output = bound(v, st.limits...); pin.MaxOutput > 0 {
		c.SetOutput(call, pin.MaxOutput)
	}
	return call, nil
}

// askUsage asks for the chunk of usage at the end of a stream. It reports
// whether the client had not.
func askUsage(v *document.Value) (added bool) {
	if !v.Get("stream").IsTrue() {
		v.Delete("stream_options") // it is an error without a stream
		return false
	}
	options := v.Get("stream_options")
	if options == nil {
		options = document.NewObject()
		v.Set("stream_options", options)
	}
	added = !options.Get("include_usage").IsTrue()
	options.Set("include_usage", document.NewBool(true))
	return added
}

// SetOutput lowers what bounds the output to n.
func (c *Chat) SetOutput(call *gateway.Call, n int64) {
	st, ok := call.State().(*chatState)
	if !ok || call.Body == nil {
		return
	}
	call.Output = lower(call.Body, max(n, 1), st.limits...)
	// Some servers count thoughts beside the answer.
	for _, t := range []struct {
		of   *document.Value
		name string
	}{{call.Body, "thinking_budget"}, {call.Body.Get("thinking"), "budget_tokens"}, {call.Body.Get("reasoning"), "max_tokens"}} {
		if asked, ok := t.of.Get(t.name).Int(); ok && asked > call.Output {
			t.of.Set(t.name, document.NewInt(call.Output))
		}
	}
}
