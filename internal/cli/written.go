package cli

import (
	"os"
	"path/filepath"

	"github.com/bailey-dev/bailey/internal/sandbox"
)

// written is where agents may have put links, as far as a command that names no
// workspace can tell: the current folder, or the work tree that it is in. A
// home, and what homes lie in, are no workspace (bailey run refuses them).
func (a *app) written() []string {
	dir, err := a.here()
	if err != nil {
		return nil
	}
	home, err := filepath.EvalSymlinks(a.host.Home)
	if err != nil {
		home = a.host.Home
	}
	top := ""
	for up := dir; up != "/" && (home == "" || !sandbox.Within(home, up)); up = filepath.Dir(up) {
		if _, err := os.Lstat(filepath.Join(up, ".git")); err == nil || top == "" {
			top = up
		}
	}
	if top == "" {
		return nil
	}
	return []string{top}
}
