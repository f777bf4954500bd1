package sandbox

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey"
)

// Spec is everything an engine is told about the sandbox it makes. It is a
// closed list: no field names a capability or a namespace, and none a runtime
// flag but what a person loosened by name.
// It never holds the command, its environment or a secret; those go to the
// sandbox's first process over the wire.
type Spec struct {
	ID        bailey.SandboxID `json:"id"`
	Hostname  string           `json:"hostname"`
	UID       int              `json:"uid"` // inside; never 0
	GID       int              `json:"gid"` // inside; never 0
	Runtime   bailey.Runtime   `json:"runtime"`
	Net       bailey.NetMode   `json:"net"`
	Mounts    []bailey.Mount   `json:"mounts"`
	Tmpfs     []bailey.Tmpfs   `json:"tmpfs"`
	Files     []bailey.File    `json:"files"` // of the root file system
	Links     []bailey.Link    `json:"links"`
	Shadows   []bailey.Shadow  `json:"shadows"`
	GitDirs   []string         `json:"git_dirs"`  // git directories inside writable mounts that hold Shadows: served so that no private copy can be moved away
	Masks     []string         `json:"masks"`     // files of read-only mounts that nobody inside may read or execute
	Covers    []string         `json:"covers"`    // files of mounts that cannot be reached inside; of the native runtime alone
	Hidden    string           `json:"hidden"`    // target of the mount of which files are hidden, which is served by itself then; empty for none
	Exclusive bool             `json:"exclusive"` // nobody else changes the mounts while the sandbox lives: gVisor need not look at the host again for what it knows
	Limits    bailey.Limits    `json:"limits"`
	Loose     Loose            `json:"loose"`
	FirstArgs []string         `json:"first_args"` // argv of the first process, whose binary is mounted at FirstPath
}

// Loose is what a person has loosened by a flag of its own. The zero value is
// nothing.
type Loose struct {
	// Root makes the command user 0 inside, with the capabilities over files
	// that a package manager needs and a throw-away layer over the root file
	// system. Both are gVisor's: on the host it has the ids of any sandbox.
	Root bool `json:"root"`

	// UserNamespaces lets programs inside make namespaces, which are gVisor's.
	UserNamespaces bool `json:"user_namespaces"`

	// RuntimeArgs are gVisor's flags, of the list of runsc.CheckArg.
	RuntimeArgs []string `json:"runtime_args"`
}

// FirstPath is where the first process's binary is mounted inside.
const FirstPath = "/.bailey/bailey"

// FirstArg is the one argument that makes the binary the first process.
const FirstArg = "sandboxd"

// OpenArg is the first of two arguments that make the binary ask for an address
// to be opened in the person's browser: the second.
const OpenArg = "open"

// OpenPath is the program inside that does it.
const OpenPath = "/.bailey/open"

// ShadowDir is the folder inside that holds the private copies.
const ShadowDir = "/.bailey/private"

// Validate reports the first thing in s that no engine may accept.
func (s *Spec) Validate() error { //nolint:gocognit // one check after the other
	if !s.ID.Valid() {
		return fmt.Errorf("sandbox id %q is not valid", s.ID)
	}
	if s.UID <= 0 || s.GID <= 0 {
		return fmt.Errorf("sandbox id map: uid %d, gid %d: neither may be 0", s.UID, s.GID)
	}
	mounted := make(map[string]bool, len(s.Mounts))
	for _, m := range s.Mounts {
		if mounted[m.Target] { // a second one would cover the first, and what guards it
			return fmt.Errorf("mount target %s: named twice", m.Target)
		}
		mounted[m.Target] = true
		if err := cleanAbs(m.Source); err != nil {
			return fmt.Errorf("mount source: %w", err)
		}
		if err := cleanAbs(m.Target); err != nil {
			return fmt.Errorf("mount target: %w", err)
		}
	}
	for _, f := range s.Files {
		if err := cleanAbs(f.Path); err != nil {
			return fmt.Errorf("generated file: %w", err)
		}
	}
	for _, m := range s.Masks {
		if err := cleanAbs(m); err != nil {
			return fmt.Errorf("mask: %w", err)
		}
		if !s.readOnly(m) {
			return fmt.Errorf("mask %s: not inside a read-only mount", m)
		}
	}
	if err := s.validateCovers(); err != nil {
		return err
	}
	if s.Hidden != "" && !mounted[s.Hidden] {
		return fmt.Errorf("hidden files of %s: no mount", s.Hidden)
	}
	copied := make(map[string]bool, len(s.Shadows))
	for _, sh := range s.Shadows {
		if copied[sh.Path] {
			return fmt.Errorf("private copy %s: named twice", sh.Path)
		}
		copied[sh.Path] = true
		if err := cleanAbs(sh.Path); err != nil {
			return fmt.Errorf("private copy: %w", err)
		}
		if s.WritableMount(sh.Path) < 0 {
			return fmt.Errorf("private copy %s: not inside a writable mount", sh.Path)
		}
	}
	return nil
}

// validateCovers checks what only the native runtime does.
func (s *Spec) validateCovers() error {
	if s.Runtime != bailey.RuntimeGvisor && s.Runtime != bailey.RuntimeNative {
		return fmt.Errorf("unknown runtime %d", s.Runtime)
	}
	for _, c := range s.Covers {
		if err := cleanAbs(c); err != nil {
			return fmt.Errorf("cover: %w", err)
		}
		if s.Runtime != bailey.RuntimeNative || !slices.ContainsFunc(s.Mounts, func(m bailey.Mount) bool { return Within(c, m.Target) }) {
			return fmt.Errorf("cover %s: not inside a mount of the native runtime", c)
		}
	}
	return nil
}

// WritableMount returns the index of the innermost writable mount whose
// target holds p, or -1.
func (s *Spec) WritableMount(p string) int {
	best := -1
	for i, m := range s.Mounts {
		if !m.Writable || !Within(p, m.Target) {
			continue
		}
		if best < 0 || len(m.Target) > len(s.Mounts[best].Target) {
			best = i
		}
	}
	return best
}

// readOnly reports whether a path lies in a mount that is read-only, and in no
// other.
func (s *Spec) readOnly(p string) bool {
	found := false
	for _, m := range s.Mounts {
		if !Within(p, m.Target) {
			continue
		}
		if m.Writable || p == m.Target {
			return false
		}
		found = true
	}
	return found
}

// Within reports whether the clean absolute path p is dir or lies below it.
func Within(p, dir string) bool {
	return p == dir || dir == "/" || strings.HasPrefix(p, dir+"/")
}

func cleanAbs(p string) error {
	if !path.IsAbs(p) || path.Clean(p) != p || strings.ContainsRune(p, 0) {
		return fmt.Errorf("path %q is not absolute and clean", p)
	}
	return nil
}
