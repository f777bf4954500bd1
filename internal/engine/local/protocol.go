package local

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/linux/mount"
	"github.com/bailey-dev/bailey/internal/sandbox"
)

// HelperArgv0 is the name under which the binary plays this role.
const HelperArgv0 = "bailey-helper"

// Descriptors that a helper is born with, after the standard three.
const (
	ControlFD = 3 // Unix stream socket to the parent
	WireFD    = 4 // the sandbox's end of the wire
	ExtraFD   = 5 // the proxy's socket if Settings.Proxy, then the prepared mounts
)

// maxSettings bounds the document that the parent sends. Private copies of a
// repository's hooks travel in it.
const maxSettings = 64 << 20

// Settings is what the parent tells the helper, once, over the control socket.
type Settings struct {
	Spec     sandbox.Spec `json:"spec"`
	Proxy    bool         `json:"proxy"`     // a proxy waits for listeners
	MountFDs []int        `json:"mount_fds"` // one for each of Spec.Mounts: a descriptor, or -1 to open Source here
	DebugDir string       `json:"debug_dir"` // a folder of the host for gVisor's own logs; empty for none
}

// Report is one line from the helper to the parent.
type Report struct {
	Event   string      `json:"event"` // started, failed, exited
	Layer   string      `json:"layer,omitempty"`
	Message string      `json:"message,omitempty"`
	Hint    string      `json:"hint,omitempty"`
	Kind    bailey.Kind `json:"kind,omitempty"`
	Code    int         `json:"code,omitempty"`
	Log     string      `json:"log,omitempty"` // the end of gVisor's messages
}

// The events of a Report.
const (
	Started = "started" // gVisor runs; carries the private folder's descriptor if there is one
	Failed  = "failed"  // nothing runs
	Exited  = "exited"  // gVisor ended
)

// WriteSettings sends s, length first.
func WriteSettings(w io.Writer, s *Settings) error {
	b, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode helper settings: %w", err)
	}
	if len(b) > maxSettings {
		return fmt.Errorf("helper settings: %d bytes, at most %d", len(b), maxSettings)
	}
	msg := binary.BigEndian.AppendUint32(make([]byte, 0, len(b)+4), uint32(len(b)))
	_, err = w.Write(append(msg, b...))
	return err
}

// ReadSettings reads and checks what WriteSettings sent.
func ReadSettings(r io.Reader) (*Settings, error) {
	var n [4]byte
	if _, err := io.ReadFull(r, n[:]); err != nil {
		return nil, fmt.Errorf("read helper settings: %w", err)
	}
	size := binary.BigEndian.Uint32(n[:])
	if size > maxSettings {
		return nil, errors.New("helper settings: too long")
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, fmt.Errorf("read helper settings: %w", err)
	}
	var s Settings
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, fmt.Errorf("decode helper settings: %w", err)
	}
	if err := s.Spec.Validate(); err != nil {
		return nil, err
	}
	if len(s.MountFDs) != len(s.Spec.Mounts) {
		return nil, fmt.Errorf("helper settings: %d mounts, %d descriptors", len(s.Spec.Mounts), len(s.MountFDs))
	}
	return &s, nil
}

// Restrict says how a mount of the sandbox is restricted on the host's side.
func Restrict(m bailey.Mount) mount.Attr {
	return mount.Attr{ReadOnly: !m.Writable, NoSuid: true, NoDev: true}
}
