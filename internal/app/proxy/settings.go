package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/bailey-dev/bailey/internal/gate"
)

// readSettings reads and checks the document.
func readSettings(r io.Reader) (gate.Settings, error) {
	dec := json.NewDecoder(io.LimitReader(r, gate.MaxMessage))
	dec.DisallowUnknownFields()
	var s gate.Settings
	if err := dec.Decode(&s); err != nil {
		return gate.Settings{}, fmt.Errorf("read settings: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return gate.Settings{}, errors.New("read settings: something follows the document")
	}
	if !s.Sandbox.Valid() {
		return gate.Settings{}, fmt.Errorf("read settings: sandbox id %q is not valid", s.Sandbox)
	}
	if err := s.Policy.Validate(); err != nil {
		return gate.Settings{}, fmt.Errorf("read settings: %w", err)
	}
	return s, nil
}
