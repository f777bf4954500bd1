package gateway

import (
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/bailey-dev/bailey/internal/gateway/document"
)

// Apply does to a request what the operator wants of this model: top-level
// members are dropped, then renamed, then added. It returns what was dropped,
// told as Call.Removed is. The error is a *Refusal.
func (p Pin) Apply(body *document.Value) (removed []string, err error) {
	for _, name := range p.Drop {
		if body.Delete(name) != nil {
			removed = append(removed, name+": not for this model")
		}
	}
	for _, from := range slices.Sorted(maps.Keys(p.Rename)) {
		to := p.Rename[from]
		asked, bound := body.Get(from).Int()
		other, both := body.Get(to).Int()
		body.Rename(from, to)
		// Where both names of a bound of the output are there, the smaller one holds
		// under the name that is sent; 0 is no bound to some servers.
		if bound && both && other < asked && other > 0 {
			body.Set(to, document.NewInt(other))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Extra)) {
		value, err := document.Parse(p.Extra[name], document.Limits{})
		if err != nil {
			return nil, &Refusal{
				Status: http.StatusInternalServerError,
				Code:   "bad_model_settings",
				Detail: fmt.Sprintf("the parameter %q that the model's settings add is no JSON: %v", name, err),
			}
		}
		body.Set(name, value)
	}
	return removed, nil
}

// Sent is the name under which a top-level member is sent.
func (p Pin) Sent(name string) string {
	if to := p.Rename[name]; to != "" {
		return to
	}
	return name
}

// ParseBody reads a request's body. The error is a *Refusal.
func ParseBody(body []byte) (*document.Value, error) {
	v, err := document.Parse(body, document.Limits{})
	if err == nil {
		return v, nil
	}
	refusal := &Refusal{Status: http.StatusBadRequest, Code: "invalid_json", Detail: err.Error()}
	if e, ok := err.(*document.Error); ok { //nolint:errorlint // Parse returns nothing else
		refusal.Path, refusal.Detail = e.Path, fmt.Sprintf("%s (at byte %d)", e.Reason, e.Offset)
	}
	return nil, refusal
}
