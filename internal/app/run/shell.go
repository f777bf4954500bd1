package run

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/control"
)

// shells are looked for, in this order, after the user's own.
func shells() []string { return []string{"/bin/bash", "/usr/bin/bash", "/bin/sh"} }

// firstShell starts the first of its arguments that is there.
const firstShell = `for s; do [ -x "$s" ] && exec "$s"; done; exec sh`

// ShellRequest is one `bailey shell`.
type ShellRequest struct {
	Name string // empty is the only one of this workspace
	Env  []string
}

// Shell runs an interactive shell in a sandbox that another bailey holds: the
// user's own if it is there.
func Shell(ctx context.Context, h Host, r ShellRequest) (int, error) {
	name, workdir, err := Choose(ctx, h, r.Name)
	if err != nil {
		return 0, err
	}
	argv := []string{"/bin/sh", "-c", firstShell, "shell"}
	if own := h.Env.Get("SHELL"); isShell(own) {
		argv = append(argv, own)
	}
	return Exec(ctx, h, ExecRequest{Name: name, Command: append(argv, shells()...), Env: r.Env, Workdir: workdir})
}

// isShell is false of those that let nobody in.
func isShell(path string) bool {
	return filepath.IsAbs(path) && !slices.Contains([]string{"nologin", "false", "true"}, filepath.Base(path))
}

// Choose returns the named sandbox or, without a name, the only one whose
// workspace the current folder is in. dir is the current folder where that is
// in the workspace, since it is the same inside.
func Choose(ctx context.Context, h Host, name string) (chosen, dir string, err error) {
	infos, err := control.List(ctx, h.Dirs.Runtime)
	if err != nil {
		return "", "", err
	}
	here := h.Dir
	if real, err := filepath.EvalSymlinks(here); err == nil {
		here = real
	}
	var own []control.Info
	for _, i := range infos {
		inside := i.Workspace != "" && (here == i.Workspace || strings.HasPrefix(here, strings.TrimSuffix(i.Workspace, "/")+"/"))
		if name != "" && i.Name == name {
			if inside {
				dir = here
			}
			return name, dir, nil
		}
		if inside {
			own = append(own, i)
		}
	}
	switch {
	case name != "":
		return name, "", nil // who is asked says that it is not there
	case len(own) == 1:
		return own[0].Name, here, nil
	case len(own) > 1:
		return "", "", bailey.NewError(bailey.Invalid, fmt.Sprintf("%d sandboxes of this workspace run", len(own)), "name one: "+nameList(own))
	case len(infos) > 0:
		return "", "", bailey.NewError(bailey.NotFound, "no sandbox of this workspace runs", "name one of another: "+nameList(infos))
	}
	return "", "", bailey.NewError(bailey.NotFound, "no sandbox runs", "bailey run starts one")
}

// nameList lists sandboxes to choose from.
func nameList(infos []control.Info) string {
	const most = 8
	var parts []string
	for _, i := range infos[:min(len(infos), most)] {
		parts = append(parts, fmt.Sprintf("%s (%s)", i.Name, strings.Join(i.Command[:min(len(i.Command), 3)], " ")))
	}
	if more := len(infos) - most; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, ", ")
}
