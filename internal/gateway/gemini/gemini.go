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
	"github.com/bailey-dev/bailey/internal/pricing"
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

// mediaType is a check for what may stand in the request: pictures and documents.
// Sound and films have prices of their own, which nobody told.
func mediaType(s string) *gateway.Refusal {
	if isPicture(s) || isDocument(s) {
		return nil
	}
	return &gateway.Refusal{
		Status: http.StatusForbidden, Code: "content_not_allowed",
		Detail: document.Quote(s) + " is no picture and no document that bailey knows; audio and video have a price of their own",
	}
}

// plainType is a media type in small letters and without the encoding of its
// text, which is all that may follow it.
func plainType(s string) string {
	s = strings.ToLower(s)
	if kind, charset, ok := strings.Cut(s, ";"); ok && strings.HasPrefix(strings.TrimLeft(charset, " "), "charset=") {
		return strings.TrimRight(kind, " ")
	}
	return s
}

// isPicture reports whether a media type is one of a picture, which costs by its
// area.
func isPicture(s string) bool {
	switch plainType(s) {
	case "image/png", "image/jpeg", "image/jpg", "image/webp", "image/heic", "image/heif", "image/gif", "image/bmp", "image/avif":
		return true
	}
	return false
}

// isDocument reports whether a media type is one of a document, which costs by
// its pages or its text.
func isDocument(s string) bool {
	s = plainType(s)
	kind, sub, _ := strings.Cut(s, "/")
	if kind == "text" {
		return sub != "" && len(s) < 100 && !strings.ContainsFunc(sub, func(c rune) bool {
			return c != '-' && c != '.' && c != '+' && (c < 'a' || c > 'z') && (c < '0' || c > '9')
		})
	}
	switch s {
	case "application/pdf", "application/json", "application/xml", "application/javascript", "application/x-javascript",
		"application/x-python", "application/x-python-code", "application/typescript", "application/x-typescript",
		"application/yaml", "application/x-yaml", "application/rtf", "application/x-sh", "image/svg+xml":
		return true
	}
	return false
}

// mostOfMedia is the most of the weight "media" in the list, and mostOfDocument
// what a document costs at most whose pages cannot be counted: all of a context.
const (
	mostOfMedia    = 10_000
	mostOfDocument = 1_000_000
	perToken       = 20 // bytes of a document that is compressed, for an estimate
)

// documents returns what the documents in a request cost beyond what the list
// makes of them, which takes each for a picture. What does not begin as a picture
// is none, whatever it is called.
func documents(v *document.Value) (input, bound int64) {
	if kind, data := v.Get("mimeType").Str(), v.Get("data"); data != nil && (isDocument(kind) || !shape.IsPicture(data.Text)) {
		n := int64(len(data.Text))
		input = n / perToken
		if isDocument(kind) && plainType(kind) != "application/pdf" {
			input = n / 4 // three bytes of text are a token, and four letters three bytes
		}
		bound = max(mostOfDocument, n) - mostOfMedia
	}
	add := func(w *document.Value) {
		i, b := documents(w)
		input, bound = pricing.Add(input, i), pricing.Add(bound, b)
	}
	for _, item := range v.Items {
		add(item)
	}
	for _, m := range v.Members {
		add(m.Value)
	}
	return input, bound
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
	input, bound := documents(v)
	call.Input, call.Bound, call.Removed = pricing.Add(found.Tokens, input), pricing.Add(found.Bound, bound), found.Removed
	settle(call, v)
	call.UnseenOf(unseenUsual, unseenMost, v.Get("tools"))
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

// What the API tells a model about tools, in tokens: nobody says how many.
const (
	unseenUsual = 100
	unseenMost  = 1000
)

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
