package proxy

import (
	"fmt"
	"io"

	"github.com/bailey-dev/bailey/internal/gate"
	"github.com/bailey-dev/bailey/internal/linux/inherit"
)

// readSettings reads and checks the document.
func readSettings(r io.Reader) (gate.Settings, error) {
	var s gate.Settings
	if err := inherit.Document(r, gate.MaxMessage, &s); err != nil {
		return gate.Settings{}, err
	}
	if !s.Sandbox.Valid() {
		return gate.Settings{}, fmt.Errorf("read settings: sandbox id %q is not valid", s.Sandbox)
	}
	if err := s.Policy.Validate(); err != nil {
		return gate.Settings{}, fmt.Errorf("read settings: %w", err)
	}
	return s, nil
}
