package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/config"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
	"github.com/bailey-dev/bailey/internal/sandbox"
	"github.com/bailey-dev/bailey/internal/workspace"
)

// givenVariables collects what --env-file and --env name, later ones winning.
func givenVariables(h Host, r *Request, ws *workspace.Workspace) ([]string, error) {
	roots := shared(ws)
	var pairs []string
	for _, f := range r.EnvFiles {
		got, err := readEnvFile(h, f, roots)
		if err != nil {
			return nil, err
		}
		pairs = append(pairs, got...)
	}
	got, err := config.ExpandEnv(r.Env, h.Env)
	if err != nil {
		return nil, err
	}
	return merge(pairs, got), nil
}

// shared are the folders whose files a sandbox has written, or whoever made
// the repository: what they say is not the caller's word.
func shared(ws *workspace.Workspace) []string {
	roots := []string{ws.Path}
	for _, m := range ws.Mounts {
		roots = append(roots, m.Source)
	}
	return roots
}

// readEnvFile reads one file of --env-file. A file of the workspace may set
// variables, and neither choose one of the caller's nor, by a link, a file of
// the host's.
func readEnvFile(h Host, path string, roots []string) ([]string, error) {
	full := path
	if !filepath.IsAbs(full) {
		full = h.Dir + "/" + full // not cleaned: the folder may be reached by a link
	}
	root, real := follow(full, roots)
	if root == "" {
		return config.ReadEnvFile(path, real, h.Env)
	}
	dir, err := beneath.Dir(root)
	if err != nil {
		return nil, bailey.WrapError(bailey.Invalid, "--env-file", err, "check the path")
	}
	defer func() { _ = dir.Close() }() // a place, no contents
	rel, err := filepath.Rel(root, real)
	if err != nil {
		return nil, bailey.WrapError(bailey.Invalid, "--env-file", err, "check the path")
	}
	data, _, err := beneath.ReadFile(dir, rel, config.MaxEnvFile)
	switch {
	case errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EXDEV):
		return nil, bailey.NewError(bailey.Invalid, fmt.Sprintf("--env-file %s: there is a symbolic link on its way, and links of the workspace are not followed", path),
			"name the file itself")
	case errors.Is(err, beneath.ErrStrange):
		return nil, config.NotAnEnvFile(path)
	case errors.Is(err, fs.ErrNotExist):
		return nil, bailey.NewError(bailey.Invalid, fmt.Sprintf("--env-file %s: there is no such file", path), "check the path")
	case err != nil:
		return nil, bailey.WrapError(bailey.Invalid, "--env-file", err, "check the path")
	}
	return config.ParseEnvFile(path, data, nil)
}

// maxLinks is how many links the kernel follows, too (path_resolution(7)).
const maxLinks = 40

// follow resolves a path link by link, as far as its folders are the caller's
// own. Where it comes into one of the roots it ends, and returns that root: no
// link below it is looked at, so that nobody can exchange one meanwhile.
func follow(path string, roots []string) (root, real string) {
	real = "/"
	left := strings.Split(path, "/")
	for links := 0; len(left) > 0; {
		next := filepath.Join(real, left[0])
		left = left[1:]
		if root = rootOf(next, roots); root != "" {
			whole := filepath.Join(append([]string{next}, left...)...)
			if sandbox.Within(whole, root) || links == maxLinks {
				return root, whole
			}
			real, left, links = "/", strings.Split(whole, "/"), links+1 // by ".." it is out of it again
			continue
		}
		target, err := os.Readlink(next)
		if err != nil || strings.Contains(target, ":[") || links == maxLinks { // no link, or a pipe in /proc; opening it tells
			real = next
			continue
		}
		if filepath.IsAbs(target) {
			real = "/"
		}
		left, links = append(strings.Split(target, "/"), left...), links+1
	}
	return "", real
}

func rootOf(path string, roots []string) string {
	if i := slices.IndexFunc(roots, func(root string) bool { return sandbox.Within(path, root) }); i >= 0 {
		return roots[i]
	}
	return ""
}
