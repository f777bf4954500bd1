package gemini

import (
	_ "embed"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/bailey-dev/bailey/internal/gateway"
	"github.com/bailey-dev/bailey/internal/gateway/document"
	"github.com/bailey-dev/bailey/internal/gateway/shape"
)

//go:embed gemini.json
var listFile []byte

var compiled = sync.OnceValues(func() (*shape.Shape, error) {
	return shape.Load(listFile, map[string]shape.Check{"base64": base64, "media_type": mediaType})
})

// Dialect speaks generateContent. It is a gateway.Protocol.
type Dialect struct {
	list *shape.Shape
}

var _ gateway.Protocol = (*Dialect)(nil)

// New returns the dialect. An error is one of the list that is part of it.
func New() (*Dialect, error) {
	list, err := compiled()
	if err != nil {
		return nil, fmt.Errorf("load the list of generateContent: %w", err)
	}
	return &Dialect{list: list}, nil
}

// List is the list that requests are judged by, for tests that hold it to the
// types of the provider's own SDK.
func List() (*shape.Shape, error) { return compiled() }

// base64 is a check for bytes that stand in the request. Both alphabets are in
// use.
func base64(s string) *gateway.Refusal {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case c == '+', c == '/', c == '-', c == '_', c == '=', c == '\r', c == '\n':
		default:
			return &gateway.Refusal{Status: http.StatusBadRequest, Code: "value_not_allowed", Detail: "this must be base64"}
		}
	}
	return nil
}

// mediaType is a check for what may stand in the request: sound and films have
// prices of their own, which nobody told.
func mediaType(s string) *gateway.Refusal {
	lower := strings.ToLower(s)
	for _, kind := range []string{"audio/", "video/"} {
		if strings.HasPrefix(lower, kind) {
			return &gateway.Refusal{
				Status: http.StatusForbidden, Code: "content_not_allowed",
				Detail: strings.TrimSuffix(kind, "/") + " has a price of its own, which bailey does not know",
			}
		}
	}
	return nil
}

// state is what the dialect keeps of a call.
type state struct{ count bool }

// Read judges a request and makes it one for the pinned model, which stands in
// the target.
func (d *Dialect) Read(e gateway.Endpoint, to string, _ http.Header, body []byte, pin gateway.Pin) (*gateway.Call, error) {
	v, err := gateway.ParseBody(body)
	if err != nil {
		return nil, err //nolint:wrapcheck // it is a *gateway.Refusal
	}
	call := gateway.NewCall(state{count: e == gateway.Count})
	typ, what := "request", generate
	switch {
	case e == gateway.Count:
		typ, what = "count", count
	case verb(to) == stream:
		what = stream
	}
	call.Endpoint, call.Body, call.Target = e, v, target(pin.Name, what)
	call.Stream = what == stream
	found, err := d.list.Walk(typ, v)
	if err != nil {
		return nil, err //nolint:wrapcheck // it is a *gateway.Refusal
	}
	call.Input, call.Bound, call.Removed = found.Tokens, found.Bound, found.Removed
	settle(call, v)
	if inner := v.Get("generateContentRequest"); inner != nil {
		settle(call, inner)
		inner.Set("model", document.NewString(resource(pin.Name)))
	}
	removed, err := pin.Apply(v)
	call.Removed = append(call.Removed, removed...)
	if err != nil {
		return nil, err //nolint:wrapcheck // it is a *gateway.Refusal
	}
	if e == gateway.Count {
		return call, nil
	}
	call.Output, _ = v.Get("generationConfig").Get(maxOutput).Int()
	if pin.MaxOutput > 0 {
		d.SetOutput(call, pin.MaxOutput)
	}
	return call, nil
}

const maxOutput = "maxOutputTokens"

// settle makes a request whole again from which things were taken, and has it
// ask for one answer.
func settle(call *gateway.Call, v *document.Value) {
	if v.Get("tools") == nil && v.Delete("toolConfig") != nil {
		call.Removed = append(call.Removed, "toolConfig: no tool is left")
	}
	config := v.Get("generationConfig")
	if n := config.Get("candidateCount"); n != nil && n.Text != "1" {
		config.Delete("candidateCount")
		call.Removed = append(call.Removed, "generationConfig.candidateCount: "+document.Quote(n.Text)+" answers")
	}
}

// SetOutput lowers maxOutputTokens to n.
func (d *Dialect) SetOutput(c *gateway.Call, n int64) {
	if st, ok := c.State().(state); !ok || st.count || c.Body == nil {
		return
	}
	config := c.Body.Get("generationConfig")
	if config == nil || config.Kind != document.Object {
		config = document.NewObject()
		c.Body.Set("generationConfig", config)
	}
	n = max(n, 1)
	if asked, ok := config.Get(maxOutput).Int(); ok && asked > 0 && asked < n {
		n = asked
	}
	config.Set(maxOutput, document.NewInt(n))
	c.Output = n
}
