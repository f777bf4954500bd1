package gemini

import (
	"encoding/json"
	"net/http"

	"github.com/bailey-dev/bailey/internal/gateway"
)

// status is how Google names a status of HTTP (google.rpc.Code).
func status(code int) string {
	switch code {
	case http.StatusUnauthorized:
		return "UNAUTHENTICATED"
	case http.StatusPaymentRequired, http.StatusTooManyRequests:
		return "RESOURCE_EXHAUSTED"
	case http.StatusForbidden:
		return "PERMISSION_DENIED"
	case http.StatusNotFound:
		return "NOT_FOUND"
	case http.StatusConflict:
		return "ABORTED"
	case http.StatusNotImplemented:
		return "UNIMPLEMENTED"
	case http.StatusBadGateway, http.StatusServiceUnavailable:
		return "UNAVAILABLE"
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return "DEADLINE_EXCEEDED"
	}
	if code >= http.StatusInternalServerError {
		return "INTERNAL"
	}
	return "INVALID_ARGUMENT"
}

// render writes a failure as Google does, with bailey's own code in the detail
// that is for such.
func render(f gateway.Failure) []byte {
	type detail struct {
		Type   string `json:"@type"`
		Reason string `json:"reason"`
		Domain string `json:"domain"`
	}
	type failure struct {
		Code    int      `json:"code"`
		Message string   `json:"message"`
		Status  string   `json:"status"`
		Details []detail `json:"details,omitempty"`
	}
	out := failure{Code: f.Status, Message: f.Message, Status: status(f.Status)}
	if f.Code != "" {
		out.Details = []detail{{"type.googleapis.com/google.rpc.ErrorInfo", f.Code, "bailey"}}
	}
	return encode(struct {
		Error failure `json:"error"`
	}{out})
}

// Fail renders a failure before an answer has begun.
func (d *Dialect) Fail(f gateway.Failure) (int, http.Header, []byte) {
	return f.Status, http.Header{"Content-Type": {"application/json; charset=UTF-8"}}, render(f)
}

// FailStream ends a stream with an error that stands bare between the events.
// That is where Google's clients look for one; in an event, the one for
// JavaScript takes it for an answer without content and goes on.
func (d *Dialect) FailStream(f gateway.Failure) []byte { return append(render(f), "\n\n"...) }

// Models renders the list of models.
func (d *Dialect) Models(pin gateway.Pin) []byte {
	return encode(struct {
		Models []model `json:"models"`
	}{[]model{modelOf(pin)}})
}

// Model renders one of it.
func (d *Dialect) Model(pin gateway.Pin) []byte { return encode(modelOf(pin)) }

// model is one of the list.
type model struct {
	Name    string   `json:"name"`
	Title   string   `json:"displayName"`
	Input   int64    `json:"inputTokenLimit,omitempty"`
	Output  int64    `json:"outputTokenLimit,omitempty"`
	Methods []string `json:"supportedGenerationMethods"`
}

func modelOf(pin gateway.Pin) model {
	return model{
		Name: "models/" + pin.ID, Title: pin.ID, Input: pin.Context, Output: pin.MaxOutput,
		Methods: []string{"generateContent", "countTokens"},
	}
}

// encode writes what this package has made, which always can be written.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		return []byte("{}")
	}
	return b
}
