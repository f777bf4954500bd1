package harness

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/gateway"
)

// Model is the one model that a run is for, as the agent is to find it: at an
// address inside the sandbox, behind a token that a variable holds. Find never
// learns the token.
type Model struct {
	ID        string // bailey's name of it, which the agent asks for
	Dialect   gateway.Dialect
	BaseURL   string // http://127.0.0.1:PORT, without a path
	TokenVar  string // the variable that holds the token; it is passed by the caller
	Context   int64  // in tokens; 0: not known
	MaxOutput int64  // in tokens; 0: not known
	// Others are the models that could be named in its place, for the message
	// that an agent does not speak this one's dialect.
	Others map[string]gateway.Dialect
}

// origin is the base URL for clients that add the version themselves.
func (m Model) origin() string {
	return strings.TrimSuffix(strings.TrimSuffix(m.BaseURL, "/"), "/v1")
}

// versioned is the base URL for clients that do not.
func (m Model) versioned() string { return m.origin() + "/v1" }

// provider is what the agents' settings call the gateway.
const provider = "bailey"

// speaks reports whether an agent can work with a dialect.
func (a agent) speaks(d gateway.Dialect) bool { return slices.Contains(a.dialects, d) }

// checkModel refuses a model whose dialect the agent does not speak.
func checkModel(a agent, m Model) error {
	if a.speaks(m.Dialect) {
		return nil
	}
	var names, fit []string
	for _, d := range a.dialects {
		names = append(names, string(d))
	}
	for id, d := range m.Others {
		if a.speaks(d) {
			fit = append(fit, id)
		}
	}
	slices.Sort(fit)
	hint := "write dialect: " + names[0] + " in models.yaml for a model whose provider speaks that"
	if len(fit) > 0 {
		hint = "name one that it does with --model: " + strings.Join(fit, ", ") + "; or " + hint
	}
	return bailey.NewError(bailey.Invalid,
		fmt.Sprintf("%s does not speak %s, the dialect of model %q; it speaks %s", a.title, m.Dialect, m.ID, strings.Join(names, ", ")), hint)
}

// limits adds to an object what is known of the model's limits.
func (m Model) limits(to map[string]any, context, output string) map[string]any {
	if m.Context > 0 {
		to[context] = m.Context
	}
	if m.MaxOutput > 0 {
		to[output] = m.MaxOutput
	}
	return to
}
