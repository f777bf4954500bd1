package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/bailey-dev/bailey/internal/gate"
)

// The descriptors the role is started with.
const (
	FDSettings = gate.FDSettings
	FDPeer     = gate.FDPeer
	FDEvents   = gate.FDEvents
)

// maxSettings bounds what is read from FDSettings, in bytes.
const maxSettings = 4 << 20

// Settings is what the role has to know.
type Settings = gate.Settings

// readSettings reads and checks the document.
func readSettings(r io.Reader) (Settings, error) {
	dec := json.NewDecoder(io.LimitReader(r, maxSettings))
	dec.DisallowUnknownFields()
	var s Settings
	if err := dec.Decode(&s); err != nil {
		return Settings{}, fmt.Errorf("read settings: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Settings{}, errors.New("read settings: something follows the document")
	}
	if !s.Sandbox.Valid() {
		return Settings{}, fmt.Errorf("read settings: sandbox id %q is not valid", s.Sandbox)
	}
	if err := s.Policy.Validate(); err != nil {
		return Settings{}, fmt.Errorf("read settings: %w", err)
	}
	return s, nil
}
