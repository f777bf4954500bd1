package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/policy"
)

// The descriptors the role is started with.
const (
	FDSettings = 3 // read: Settings as one JSON document, to its end
	FDPeer     = 4 // Unix stream socket: the listeners arrive here; its end is ours
	FDEvents   = 5 // write: events as JSON lines
)

// maxSettings bounds what is read from FDSettings, in bytes.
const maxSettings = 4 << 20

// Settings is what the role has to know. The zero value is not valid.
type Settings struct {
	Sandbox  bailey.SandboxID `json:"sandbox"`
	Policy   policy.Policy    `json:"policy"`
	MaxConns int              `json:"max_conns,omitempty"` // at once; 0 is the default of egress
}

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
