package vault

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/bailey-dev/bailey"
)

// noted says how new the store has to be. It lies in another folder than the
// store, so that one that was put back from an older copy is noticed.
type noted struct {
	Version    int    `json:"bailey_vault_mark"`
	Vault      string `json:"vault"`
	Generation uint64 `json:"generation"` // 0: nothing was written yet
	MAC        string `json:"mac"`        // of the store of that generation
}

const acceptHint = "if you put it back yourself, bailey secret check --accept takes it as it is; else restore the newest copy"

// readNoted returns nil where there is none.
func (p Place) readNoted() (*noted, error) {
	if err := p.closed(filepath.Dir(p.markPath())); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil //nolint:nilnil // none is an answer
		}
		return nil, err
	}
	data, _, err := p.read(p.markPath(), maxSmall)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // none is an answer
	}
	if err != nil {
		return nil, err
	}
	var n noted
	if err := strictly(data, &n); err != nil || n.Version != storeVersion {
		return nil, bailey.NewError(bailey.Unavailable, fmt.Sprintf("%s, which says how new the vault is, cannot be read", p.markPath()), acceptHint)
	}
	return &n, nil
}

func (p Place) writeNoted(n noted) error {
	if err := p.makeClosed(filepath.Dir(p.markPath())); err != nil {
		return err
	}
	n.Version = storeVersion
	data, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("bug: a mark cannot be written: %w", err)
	}
	return p.write(p.markPath(), append(data, '\n'))
}

// old says what is wrong with the age of a store, "" for nothing. The store may
// be newer than the note: a writer was killed between the two.
func (n *noted) old(s *store) string {
	switch {
	case n == nil:
		return "nothing says how new it has to be"
	case n.Generation == 0:
		return ""
	case n.Vault != s.Vault:
		return "it is another vault than the one that was here"
	case s.Generation < n.Generation:
		return fmt.Sprintf("it was rolled back: it is of generation %d, the newest had %d", s.Generation, n.Generation)
	case s.Generation == n.Generation && s.mac != n.MAC:
		return fmt.Sprintf("it is another of generation %d than the one that was here", s.Generation)
	}
	return ""
}

// behind reports whether the note has to follow the store.
func (n *noted) behind(s *store) bool { return n != nil && n.Generation < s.Generation }
