package gemini

import (
	"net/http"
	"strings"

	"github.com/bailey-dev/bailey/internal/gateway"
)

// The prefix of models, and the methods that are served. A stream without
// alt=sse is a JSON array, which no client in use asks for.
const (
	models   = "/v1beta/models"
	generate = ":generateContent"
	stream   = ":streamGenerateContent?alt=sse"
	count    = ":countTokens"
)

// Route tells the endpoint of a request. Any model may be named; the pinned one
// is asked. A query of a call other than alt=sse of a stream is none of the
// dialect's, not even a key.
func (d *Dialect) Route(method, target string) gateway.Endpoint {
	switch method {
	case http.MethodGet:
		return gateway.RouteModels(models, target)
	case http.MethodPost:
		switch verb(target) {
		case generate, stream:
			return gateway.Generate
		case count:
			return gateway.Count
		}
	}
	return gateway.None
}

// verb returns what is asked of a model, from the colon on, or "" if the target
// is none of a model.
func verb(target string) string {
	rest, ok := strings.CutPrefix(target, models+"/")
	if !ok {
		return ""
	}
	i := strings.IndexByte(rest, ':')
	if i < 0 || !gateway.IsModelName(rest[:i]) {
		return ""
	}
	return rest[i:]
}

// target is where a request goes: to the pinned model, by the same method.
func target(model, verb string) string { return "/v1beta/" + resource(model) + verb }

// resource is a model's full name, which the settings may have without its kind.
func resource(model string) string {
	if strings.Contains(model, "/") {
		return model
	}
	return "models/" + model
}
