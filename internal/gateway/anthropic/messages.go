package anthropic

import (
	_ "embed"
	"net/http"
	"strings"
	"sync"

	"github.com/bailey-dev/bailey/internal/gateway"
	"github.com/bailey-dev/bailey/internal/gateway/document"
	"github.com/bailey-dev/bailey/internal/gateway/shape"
)

//go:embed messages.json
var list []byte

var compiled = sync.OnceValues(func() (*shape.Shape, error) { return shape.Load(list, nil) })

// Messages speaks the Messages API. It is a gateway.Protocol.
type Messages struct {
	shape *shape.Shape
}

var _ gateway.Protocol = (*Messages)(nil)

// List is the list that requests are judged by, for tests that hold it to the
// types of the provider's own SDK.
func List() (*shape.Shape, error) { return compiled() }

// New returns the dialect. An error is one of the list that is part of it.
func New() (*Messages, error) {
	s, err := compiled()
	if err != nil {
		return nil, err
	}
	return &Messages{shape: s}, nil
}

const (
	messagesPath = "/v1/messages"
	countPath    = "/v1/messages/count_tokens"
	betaQuery    = "?beta=true"
)

// Route knows a handful of request targets, each byte for byte: an encoded
// spelling, a dot segment or another query is another resource to someone.
func (m *Messages) Route(method, target string) gateway.Endpoint {
	switch method {
	case http.MethodPost:
		switch target {
		case messagesPath, messagesPath + betaQuery:
			return gateway.Generate
		case countPath, countPath + betaQuery:
			return gateway.Count
		}
	case http.MethodGet:
		return gateway.RouteModels("/v1/models", target)
	case http.MethodHead:
		if target == "/" || target == "/api/hello" {
			return gateway.Hello
		}
	}
	return gateway.None
}

// state is the dialect's own part of a call.
type state struct {
	count     bool
	maxTokens string // the name under which max_tokens is sent
}

// Read judges a request against the list and makes it one for the pinned model.
func (m *Messages) Read(e gateway.Endpoint, target string, h http.Header, body []byte, pin gateway.Pin) (*gateway.Call, error) {
	v, err := gateway.ParseBody(body)
	if err != nil {
		return nil, err
	}
	st := &state{count: e == gateway.Count, maxTokens: pin.Sent("max_tokens")}
	call := gateway.NewCall(st)
	call.Endpoint, call.Body, call.Target = e, v, messagesPath
	typ := "request"
	if st.count {
		typ, call.Target = "count", countPath
	}
	if strings.HasSuffix(target, betaQuery) {
		call.Target += betaQuery
	}

	before := toolsOf(v)
	found, err := m.shape.Walk(typ, v)
	if err != nil {
		return nil, err
	}
	call.Input, call.Bound, call.Removed = found.Tokens, found.Bound, found.Removed
	call.Removed = append(call.Removed, before.settle(v)...)
	unseen(call)
	call.Removed = append(call.Removed, m.header(call.Header, h)...)
	if err := pinned(call, st, pin); err != nil {
		return nil, err
	}
	return call, nil
}

// unseen counts the prompts that the API adds itself: 159 to 530 tokens with
// tools, by the model and the choice (Anthropic's page on the pricing of tool
// use), and some for a format of the answer.
func unseen(call *gateway.Call) {
	const usual, most = 350, 1000
	call.UnseenOf(usual, most, call.Body.Get("tools"), call.Body.Get("output_config").Get("format"))
}

// pinned makes the call one for the pinned model.
func pinned(call *gateway.Call, st *state, pin gateway.Pin) error {
	v := call.Body
	v.Set("model", document.NewString(pin.Name))
	if pin.MaxOutput > 0 {
		call.Removed = append(call.Removed, lower(v, "max_tokens", pin.MaxOutput)...)
	}
	removed, err := pin.Apply(v)
	if err != nil {
		return err
	}
	call.Removed = append(call.Removed, removed...)
	call.Stream = v.Get("stream").IsTrue()
	if !st.count {
		call.Output, _ = v.Get(st.maxTokens).Int()
	}
	return nil
}

// header sends the version and the betas, and nothing else of the client's.
func (m *Messages) header(to, from http.Header) (removed []string) {
	to.Set("Anthropic-Version", version(from.Values("Anthropic-Version")))
	var kept []string
	seen := map[string]bool{}
	for _, line := range from.Values("Anthropic-Beta") {
		for beta := range strings.SplitSeq(line, ",") {
			beta = strings.Trim(beta, " \t")
			if beta == "" || seen[beta] {
				continue
			}
			seen[beta] = true
			if m.shape.Judge("beta", beta) == shape.Keep {
				kept = append(kept, beta)
				continue
			}
			if len(removed) < 32 {
				removed = append(removed, "anthropic-beta: "+document.Quote(beta))
			}
		}
	}
	if len(kept) > 0 {
		to.Set("Anthropic-Beta", strings.Join(kept, ","))
	}
	return removed
}

// version is the client's, if it is one date; the API has had no other form.
func version(values []string) string {
	const oldest = "2023-06-01"
	if len(values) != 1 || len(values[0]) != len(oldest) {
		return oldest
	}
	for i := range len(oldest) {
		c := values[0][i]
		if digit := c >= '0' && c <= '9'; digit == (oldest[i] == '-') || (!digit && c != '-') {
			return oldest
		}
	}
	return values[0]
}
