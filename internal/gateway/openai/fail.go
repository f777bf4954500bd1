package openai

import (
	"encoding/json"
	"net/http"

	"github.com/bailey-dev/bailey/internal/gateway"
)

// envelope is how OpenAI says that something went wrong.
type envelope struct {
	Error failure `json:"error"`
}

type failure struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    string  `json:"code"`
}

// spent is the code that clients know to mean that trying again is no use.
const spent = "insufficient_quota"

func render(f gateway.Failure) failure {
	out := failure{Message: f.Message, Type: "invalid_request_error", Code: f.Code}
	switch {
	case f.Status == http.StatusPaymentRequired:
		out.Type, out.Code = spent, spent
	case f.Status == http.StatusUnauthorized:
		out.Type = "authentication_error"
	case f.Status == http.StatusForbidden:
		out.Type = "permission_error"
	case f.Status == http.StatusTooManyRequests:
		out.Type = "rate_limit_error"
	case f.Status >= http.StatusInternalServerError:
		out.Type = "server_error"
	}
	return out
}

// fail renders a failure before an answer has begun. Clients of OpenAI's try
// again after most of them unless they are told not to.
func fail(f gateway.Failure) (int, http.Header, []byte) {
	h := http.Header{"Content-Type": {"application/json"}}
	if f.Status < http.StatusInternalServerError && f.Status != http.StatusTooManyRequests {
		h.Set("X-Should-Retry", "false")
	}
	if f.Status == http.StatusUpgradeRequired {
		h.Set("Upgrade", "HTTP/1.1")
		h.Set("Connection", "Upgrade")
	}
	return f.Status, h, encode(envelope{Error: render(f)})
}

// Fail renders a failure as OpenAI does.
func (r *Responses) Fail(f gateway.Failure) (int, http.Header, []byte) { return fail(f) }

// Fail renders a failure as OpenAI does.
func (c *Chat) Fail(f gateway.Failure) (int, http.Header, []byte) { return fail(f) }

// FailStream ends a stream as Responses does, with an event that holds a failed
// response.
func (r *Responses) FailStream(f gateway.Failure) []byte {
	type told struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	out := render(f)
	if out.Type == "server_error" {
		out.Code = "server_error" // of the closed list of codes that SDKs know
	}
	data := encode(map[string]any{
		"type":            "response.failed",
		"sequence_number": 0,
		"response": map[string]any{
			"id": "resp_gateway", "object": "response", "created_at": 0, "status": "failed",
			"error": told{Code: out.Code, Message: out.Message}, "output": []string{}, "usage": nil,
		},
	})
	return append(append([]byte("event: response.failed\ndata: "), data...), "\n\n"...)
}

// FailStream ends a stream as Chat Completions does, with an error in the place
// of a chunk and without its last mark, so that nothing takes it for complete.
func (c *Chat) FailStream(f gateway.Failure) []byte {
	data := encode(envelope{Error: render(f)})
	return append(append([]byte("data: "), data...), "\n\n"...)
}

// Models renders the list of models.
func (r *Responses) Models(pin gateway.Pin) []byte { return modelList(pin) }

// Models renders the list of models.
func (c *Chat) Models(pin gateway.Pin) []byte { return modelList(pin) }

// Model renders one of it.
func (r *Responses) Model(pin gateway.Pin) []byte { return encode(modelOf(pin)) }

// Model renders one of it.
func (c *Chat) Model(pin gateway.Pin) []byte { return encode(modelOf(pin)) }

// model is one of the list.
type model struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
	Context int64  `json:"max_model_len,omitempty"` // as vLLM names it; OpenAI tells none
}

func modelOf(pin gateway.Pin) model {
	return model{ID: pin.ID, Object: "model", OwnedBy: "bailey", Context: pin.Context}
}

func modelList(pin gateway.Pin) []byte {
	return encode(struct {
		Object string  `json:"object"`
		Data   []model `json:"data"`
	}{"list", []model{modelOf(pin)}})
}

// encode writes what this package has made, which always can be written.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		return []byte("{}")
	}
	return b
}
