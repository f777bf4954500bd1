package helper

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/bailey-dev/bailey/internal/linux/mount"
	"github.com/bailey-dev/bailey/internal/ocispec"
	"github.com/bailey-dev/bailey/internal/sandbox"
)

// mask covers files of the sandbox's mounts with one that is empty and that
// nobody may read or execute. A link is covered itself. What is not there any
// more, since the host has taken it away meanwhile, need not be covered.
func mask(s *sandbox.Spec, st *ocispec.Staged) error {
	if len(s.Masks) == 0 {
		return nil
	}
	if err := os.WriteFile(maskFile, nil, 0); err != nil {
		return fmt.Errorf("make the mask: %w", err)
	}
	for _, path := range s.Masks {
		if err := cover(staged(s, st, path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("mask %s: %w", path, err)
		}
	}
	return nil
}

func cover(target string) error {
	f, err := mount.Clone(maskFile)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // attached, or gone
	if err := mount.SetAttr(f, mount.Attr{ReadOnly: true, NoSuid: true, NoDev: true, NoExec: true}); err != nil {
		return err
	}
	return mount.Attach(f, target)
}

// staged is where a path in a read-only mount lies in the helper.
func staged(s *sandbox.Spec, st *ocispec.Staged, path string) string {
	at := rootDir + path
	best := -1
	for i, m := range s.Mounts {
		if sandbox.Within(path, m.Target) && (best < 0 || len(m.Target) > len(s.Mounts[best].Target)) {
			best = i
		}
	}
	if best >= 0 && st.Sources[best] != "" {
		at = st.Sources[best] + strings.TrimPrefix(path, s.Mounts[best].Target)
	}
	return at
}
