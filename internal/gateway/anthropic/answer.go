package anthropic

import (
	"net/http"

	"github.com/bailey-dev/bailey/internal/gateway"
	"github.com/bailey-dev/bailey/internal/gateway/document"
)

// Fail renders a failure in the API's envelope. What no repetition changes is
// marked so: some clients repeat a 401 or 402 otherwise.
func (m *Messages) Fail(f gateway.Failure) (status int, h http.Header, body []byte) {
	h = http.Header{}
	h.Set("Content-Type", "application/json")
	if f.Status == http.StatusUnauthorized || f.Status == http.StatusPaymentRequired {
		h.Set("X-Should-Retry", "false")
	}
	return f.Status, h, envelope(f).AppendTo(nil)
}

// FailStream renders it as the event that ends a stream.
func (m *Messages) FailStream(f gateway.Failure) []byte {
	b := envelope(f).AppendTo([]byte("event: error\ndata: "))
	return append(b, "\n\n"...)
}

func envelope(f gateway.Failure) *document.Value {
	return document.NewObject(
		document.Member{Name: "type", Value: document.NewString("error")},
		document.Member{Name: "error", Value: document.NewObject(
			document.Member{Name: "type", Value: document.NewString(errorType(f.Status))},
			document.Member{Name: "message", Value: document.NewString(f.Message)},
			document.Member{Name: "details", Value: document.NewObject(
				document.Member{Name: "error_code", Value: document.NewString(f.Code)},
			)},
		)},
	)
}

func errorType(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusPaymentRequired:
		return "billing_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusConflict:
		return "conflict_error"
	case http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case http.StatusGatewayTimeout:
		return "timeout_error"
	case http.StatusServiceUnavailable, 529:
		return "overloaded_error"
	}
	if status >= http.StatusInternalServerError {
		return "api_error"
	}
	return "invalid_request_error"
}

// Models renders the list with the one model.
func (m *Messages) Models(pin gateway.Pin) []byte {
	return document.NewObject(
		document.Member{Name: "data", Value: document.NewArray(model(pin))},
		document.Member{Name: "has_more", Value: document.NewBool(false)},
		document.Member{Name: "first_id", Value: document.NewString(pin.ID)},
		document.Member{Name: "last_id", Value: document.NewString(pin.ID)},
	).AppendTo(nil)
}

// Model renders the one model.
func (m *Messages) Model(pin gateway.Pin) []byte { return model(pin).AppendTo(nil) }

func model(pin gateway.Pin) *document.Value {
	model := document.NewObject(
		document.Member{Name: "type", Value: document.NewString("model")},
		document.Member{Name: "id", Value: document.NewString(pin.ID)},
		document.Member{Name: "display_name", Value: document.NewString(pin.ID)},
		document.Member{Name: "created_at", Value: document.NewString("1970-01-01T00:00:00Z")}, // as the API has it where it does not know
	)
	if pin.Context > 0 {
		model.Set("max_input_tokens", document.NewInt(pin.Context))
	}
	if pin.MaxOutput > 0 {
		model.Set("max_tokens", document.NewInt(pin.MaxOutput))
	}
	return model
}
