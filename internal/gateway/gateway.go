// Package gateway governs model calls: it speaks to a harness in the dialect
// that the harness knows, lets nothing through that makes a provider act for
// the agent, pins the model, and accounts for every token before and after.
//
// A request is parsed strictly, rebuilt from what is known, and sent as that;
// an answer is passed on as it comes, while its usage is read. The dialects are
// packages below this one, and pure; only the server dials.
package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/bailey-dev/bailey/internal/gateway/document"
	"github.com/bailey-dev/bailey/internal/pricing"
)

// Dialect names the protocol that a harness speaks.
type Dialect string

// The dialects.
const (
	Anthropic       Dialect = "anthropic"        // Messages
	OpenAIResponses Dialect = "openai-responses" // Responses
	OpenAIChat      Dialect = "openai-chat"      // Chat Completions
	Gemini          Dialect = "gemini"           // generateContent
)

// Pin is the one model that requests are for, whatever they say.
type Pin struct {
	ID        string                     `json:"id"`   // bailey's
	Name      string                     `json:"name"` // the provider's, which is sent
	Dialect   Dialect                    `json:"dialect"`
	MaxOutput int64                      `json:"max_output,omitempty"`
	Context   int64                      `json:"context,omitempty"`
	Drop      []string                   `json:"drop,omitempty"`   // top-level parameters that are removed
	Rename    map[string]string          `json:"rename,omitempty"` // or sent under another name
	Extra     map[string]json.RawMessage `json:"extra,omitempty"`  // or added; they win
}

// Endpoint is what a request asks for.
type Endpoint uint8

// The endpoints.
const (
	None     Endpoint = iota // it is not served
	Generate                 // a model call; it is reserved and settled
	Count                    // the count of a request's tokens: free, and judged alike
	Models                   // the list of models, which the gateway answers
	Model                    // one of that list, likewise: whatever it is called, it is the pinned one
	Hello                    // a probe of the connection, which the gateway answers: 200, no body
)

// Call is a request as it was understood. It holds nothing of the client's
// bytes but what a dialect's list knows.
type Call struct {
	Endpoint Endpoint
	Stream   bool
	Body     *document.Value // rebuilt: the model is the pin's
	Target   string          // the path and query to send, from the provider's base, beginning with "/"
	Header   http.Header     // the dialect's own fields to send, never a credential

	Input  int64 // the estimate of its tokens
	Bound  int64 // what they are at most
	Output int64 // the most that it asks for; 0: it does not say

	Removed []string // what was taken out, each as "tools[3]: web_search_20250305", for the log

	state any // the dialect's own, from Read to SetOutput and Meter
}

// NewCall is for dialects: state is theirs.
func NewCall(state any) *Call { return &Call{state: state, Header: http.Header{}} }

// State is what NewCall was given.
func (c *Call) State() any { return c.state }

// Protocol is one dialect. It is pure and safe for concurrent use.
type Protocol interface { //nolint:interfacebloat // a dialect is one thing, and its methods are of no use apart
	// Route tells the endpoint of a request by its method and its exact request
	// target, as it stood in the request line.
	Route(method, target string) Endpoint
	// Read judges a request of Generate or Count and rebuilds it for the pin.
	// The error is a *Refusal. It does not keep body.
	Read(e Endpoint, target string, h http.Header, body []byte, pin Pin) (*Call, error)
	// SetOutput lowers the call to at most n tokens of output.
	SetOutput(c *Call, n int64)
	// Meter returns what reads the answer to a call.
	Meter(c *Call) Meter
	// Fail renders a refusal, or a failure of the gateway's, as the provider
	// would have said it, so that harnesses of the dialect understand.
	Fail(f Failure) (status int, h http.Header, body []byte)
	// FailStream renders it as events of a stream that has begun.
	FailStream(f Failure) []byte
	// Models renders the list that holds the pinned model alone.
	Models(pin Pin) []byte
	// Model renders that model by itself.
	Model(pin Pin) []byte
}

// Meter reads one answer, to learn what it used. It is not safe for concurrent
// use.
type Meter interface {
	// Event takes one server-sent event: its name (empty where it has none) and
	// its data, lines joined by "\n". It reports whether the client gets to see
	// it: a dialect hides what the gateway alone has asked for.
	Event(name string, data []byte) (pass bool)
	// Whole takes the body of an answer that is no stream, and returns what the
	// client gets to see.
	Whole(body []byte) []byte
	// Result is what is known so far.
	Result() Result
}

// Result is what an answer said of itself.
type Result struct {
	Usage  pricing.Usage
	Known  bool   // the provider said what was used, and for the whole call
	Ended  bool   // the dialect's last event was seen
	Failed bool   // the provider said that it could not go on
	Output int64  // the estimate of output tokens from what was seen, for answers that say nothing
	Served string // the model that the provider says answered
	Odd    string // what was odd about it (negative, decreasing or unknown counts), for the log
}

// Unseen counts what a provider tells a model about what a request has, such as
// tools, and which stands in no request: so many tokens mostly, and at most.
func (c *Call) Unseen(usual, most int64) {
	c.Input = pricing.Add(c.Input, usual)
	c.Bound = pricing.Add(c.Bound, most)
}

// UnseenOf counts that for each part of a request that is there, such as its
// tools or the format of an answer. A list of nothing is not there.
func (c *Call) UnseenOf(usual, most int64, parts ...*document.Value) {
	for _, part := range parts {
		if part != nil && (part.Kind != document.Array || len(part.Items) > 0) {
			c.Unseen(usual, most)
		}
	}
}

// Failure is why a call is answered by the gateway itself.
type Failure struct {
	Status  int    // of HTTP
	Code    string // stable and machine-readable, such as "tool_type_not_allowed"
	Message string // one sentence, then what to do
}

// Refusal is a request that the gateway does not send.
type Refusal struct { //nolint:errname // it is what is said to the harness, and an error besides
	Status int    // 400, 403, 404, 411, 413, 415
	Code   string // such as "unknown_field"
	Path   string // in the document, such as "messages[2].content[0].type"; empty if it is none of its
	Detail string
}

// Error makes it an error.
func (r *Refusal) Error() string {
	if r.Path == "" {
		return r.Detail
	}
	return fmt.Sprintf("%s: %s", r.Path, r.Detail)
}
