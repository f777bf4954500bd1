package run

import (
	"path/filepath"
	"slices"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/environment"
	"github.com/bailey-dev/bailey/internal/rootfs"
	"github.com/bailey-dev/bailey/internal/workspace"
)

// Work is what a run of bailey's own has in the place of a workspace to change:
// a folder that it fills. The workspace is read-only beside it, or not shown at
// all; whose rules hold, and what a search for programs may not follow, is
// decided by it either way.
type Work struct {
	Hidden   bool           // the workspace is not shown
	Output   bailey.Mount   // writable; the limits of disk and inodes are on its growth
	Mounts   []bailey.Mount // read-only
	Programs []string       // to be shown as if the command were one of them
}

// into puts a run's own folders in the workspace's place, and beside it what is
// shown as well.
func (w *Work) into(ws *workspace.Workspace, own []bailey.Mount) {
	ws.Mounts = append(ws.Mounts, own...)
	if w == nil {
		return
	}
	if w.Hidden {
		ws.Mounts, ws.Links, ws.SafeDirs, ws.Notes = nil, nil, nil, nil
	}
	out := w.Output
	out.Dcache = dcache()
	ws.Mounts = append(ws.Mounts, out)
	ws.Mounts = append(ws.Mounts, w.Mounts...)
}

// dir is where the command starts.
func (w *Work) dir(start string) string {
	if w != nil && w.Hidden {
		return w.Output.Target
	}
	return start
}

// openEnvironment opens the environment that a run uses, if it uses one.
func (p *plan) openEnvironment(h Host, r *Request, ws *workspace.Workspace) error {
	if r.Environment == "" {
		return nil
	}
	e, err := environment.In(h.Dirs.Data, h.UID).Open(r.Environment)
	if err != nil {
		return err
	}
	p.environment = e
	p.use = e.In(ws.Seen(), func(path string) bool {
		rel, err := filepath.Rel(ws.Seen(), path)
		return err == nil && environment.Exists(filepath.Join(ws.Path, rel))
	})
	return nil
}

// environmentTools are what a sandbox needs for its environment, as tools: the
// programs of the machine that its packages are for, and the environment.
func (p *plan) environmentTools(finder rootfs.Resolver, known []string) ([]rootfs.Tool, error) {
	if p.environment == nil {
		return nil, nil
	}
	out, err := programs(finder, p.use.Programs, known)
	if err != nil {
		return nil, err
	}
	return append(out, rootfs.Tool{
		Name: "environment " + p.environment.Manifest.Name, File: "", From: "", Path: p.use.Path,
		Mounts: p.use.Mounts, Links: p.use.Links, Hidden: nil, Env: p.use.Env, Notes: nil,
	}), nil
}

// programs finds programs as a command is found: with what they need to run,
// and none of what --tool shows beside them.
func programs(finder rootfs.Resolver, names, known []string) ([]rootfs.Tool, error) {
	var out []rootfs.Tool
	for _, name := range names {
		if slices.Contains(known, name) {
			continue
		}
		found, err := finder.Command(name)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}
