package gitdata

import (
	"path/filepath"
	"strings"

	"github.com/bailey-dev/bailey/internal/linux/beneath"
)

// Identity is who commits are by: what a sandbox is told of the caller's git
// configuration, and all it is told.
type Identity struct {
	Name  string
	Email string
}

// maxIdentity bounds a name or an address, in bytes.
const maxIdentity = 256

// ReadIdentity reads user.name and user.email from $XDG_CONFIG_HOME/git/config
// (xdg; empty means home/.config) and then home/.gitconfig, which wins, as
// git does. Includes are not followed. A file that is absent, unreadable or
// broken counts as empty: a missing name is git's to complain of.
func ReadIdentity(home, xdg string) Identity {
	id := Identity{Name: "", Email: ""}
	for _, file := range userFiles(home, xdg) {
		cfg, _ := ParseConfig(readUserFile(file)) // what stands before a syntax error still counts
		if v, ok := cfg.Get("user", "name"); ok {
			id.Name = printable(v)
		}
		if v, ok := cfg.Get("user", "email"); ok {
			id.Email = printable(v)
		}
	}
	return id
}

func userFiles(home, xdg string) []string {
	if xdg == "" {
		xdg = filepath.Join(home, ".config")
	}
	return []string{filepath.Join(xdg, "git", "config"), filepath.Join(home, ".gitconfig")}
}

// UserFiles lists the configuration files that git reads for each repository
// of the caller's: the system's, and the caller's own, in whose place global
// (GIT_CONFIG_GLOBAL) stands if it is not empty.
func UserFiles(home, xdg, global string) []string {
	const system = "/etc/gitconfig"
	if global != "" {
		return []string{system, global}
	}
	return append([]string{system}, userFiles(home, xdg)...)
}

// readUserFile reads a file of the caller's own. Links are followed here:
// dotfiles are often links, and nothing but two short values leaves.
func readUserFile(path string) []byte {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil
	}
	data, info, err := beneath.Head(real, MaxConfigBytes)
	if err != nil || info.Size > MaxConfigBytes {
		return nil
	}
	return data
}

// printable drops control characters and cuts an overlong value.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, s)
	if len(s) > maxIdentity {
		return ""
	}
	return s
}

// ReadUserIgnore reads the rules that a person has for all repositories:
// core.excludesFile of the configuration in the home, or
// $XDG_CONFIG_HOME/git/ignore. What cannot be read counts as empty.
func ReadUserIgnore(home, xdg string) Ignore {
	if home == "" {
		return nil
	}
	files := userFiles(home, xdg)
	path := filepath.Join(filepath.Dir(files[0]), "ignore")
	for _, file := range files {
		cfg, _ := ParseConfig(readUserFile(file)) // what stands before a syntax error still counts
		if v, ok := cfg.Get("core", "excludesfile"); ok {
			path = v
		}
	}
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		path = filepath.Join(home, rest)
	}
	if !filepath.IsAbs(path) {
		return nil
	}
	return ParseIgnore(readUserFile(path))
}
