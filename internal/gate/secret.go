package gate

import (
	"github.com/bailey-dev/bailey/internal/inject"
	"github.com/bailey-dev/bailey/internal/seal"
	"github.com/bailey-dev/bailey/internal/secret"
)

// Secret is a secret on its way to the proxy, through a pipe or a socket pair
// and nothing else: Value is in the clear.
type Secret struct {
	ID          secret.ID     `json:"id"`
	Name        string        `json:"name"`
	Placeholder string        `json:"placeholder"`
	Value       []byte        `json:"value"` // empty: it was withdrawn
	Rules       []secret.Rule `json:"rules"`
}

// String keeps the value from being printed.
func (Secret) String() string { return "[secret]" }

// GoString keeps %#v from printing it.
func (s Secret) GoString() string { return s.String() }

// Reveal puts a secret in the form for the way.
func Reveal(h inject.Held) Secret {
	return Secret{ID: h.ID, Name: h.Name, Placeholder: h.Placeholder, Value: h.Value.Reveal(), Rules: h.Rules}
}

// Held returns the secret as it is held, which takes its bytes over.
func (s Secret) Held() inject.Held {
	return inject.Held{ID: s.ID, Name: s.Name, Placeholder: s.Placeholder, Value: seal.NewSecret(s.Value), Rules: s.Rules}
}
