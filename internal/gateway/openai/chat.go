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
	unseen(call, v.Get("response_format"))
	st.hideUsage = askUsage(v)
	if err := pinned(call, pin); err != nil {
		return nil, err
	}
	if call.Output = bound(v, st.limits...); call.Output > 0 && thinksBeside(v) {
		call.Output += thoughts(v, call.Output)
	}
	if pin.MaxOutput > 0 {
		c.SetOutput(call, pin.MaxOutput)
	}
	return call, nil
}

// unseen counts the prompts of servers' own: templates of chats have one where
// the request has none (of Mistral's and of gpt-oss, some hundred tokens), and
// explain tools and the format of an answer.
func unseen(call *gateway.Call, format *document.Value) {
	const usual, most = 100, 1000
	call.Unseen(0, most)
	call.UnseenOf(usual, most, call.Body.Get("tools"), format)
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
	n = max(n, 1)
	beside := int64(0)
	if thinksBeside(call.Body) {
		answer := bound(call.Body, st.limits...)
		if answer == 0 {
			answer = n
		}
		beside = max(1, min(thoughts(call.Body, answer), n/2))
		call.Body.Set(thinkingBudget, document.NewInt(beside))
	}
	answer := lower(call.Body, max(1, n-beside), st.limits...)
	thinkWithin(call.Body, answer)
	call.Output = answer + beside
}

// thinkingBudget bounds thoughts that are made beside the answer, and which the
// bounds of that do not count: enable_thinking asks for them (Qwen's API).
const thinkingBudget = "thinking_budget"

// thinksBeside reports whether a request asks for such thoughts.
func thinksBeside(v *document.Value) bool {
	return v.Get("enable_thinking").IsTrue() || v.Get(thinkingBudget) != nil && v.Get("enable_thinking") == nil
}

// thoughts is how many tokens of them may be made: what is asked for, else as
// many as the answer may have.
func thoughts(v *document.Value, answer int64) int64 {
	if n, ok := v.Get(thinkingBudget).Int(); ok && n > 0 {
		return n
	}
	return answer
}

// thinkWithin lowers to n what bounds thoughts as a part of the answer, each in a
// member of the request's.
func thinkWithin(v *document.Value, n int64) {
	for _, m := range [][2]string{{"thinking", "budget_tokens"}, {"reasoning", "max_tokens"}} {
		of := v.Get(m[0])
		if asked, ok := of.Get(m[1]).Int(); ok && asked > n {
			of.Set(m[1], document.NewInt(n))
		}
	}
}
