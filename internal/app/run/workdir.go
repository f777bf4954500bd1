package run

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/gitdata"
	"github.com/bailey-dev/bailey/internal/sandbox"
	"github.com/bailey-dev/bailey/internal/workspace"
)

// openWorkspace decides which folder is the workspace and where in it the
// command starts: --workdir names a folder of the current one, or another
// workspace. Folders are found once, by descriptor: a shell's word for the
// current one, and any path, may lead elsewhere a moment later, where another
// sandbox has the folder above.
//
// h.Dir is a path of the current folder from then on.
func openWorkspace(h *Host, r *Request) (*workspace.Workspace, string, error) {
	if r.Task != nil {
		return openScratch(h, r.Task)
	}
	here, err := workspace.Here()
	if err != nil {
		return nil, "", err
	}
	defer here.Close()
	typed := h.Dir
	h.Dir = here.Path()
	open := func(typed string, at *workspace.Place) (*workspace.Workspace, error) {
		return workspace.Open(workspace.Request{
			Dir: typed, At: at, UID: h.UID, Home: h.Home, Own: slices.Concat(h.Dirs.All(), h.Vault().Files()), ReadOnly: r.ReadOnly,
			GitConfigs: gitdata.UserFiles(h.Home, h.Env.Get("XDG_CONFIG_HOME"), h.Env.Get("GIT_CONFIG_GLOBAL")),
		})
	}
	if r.Workdir == "" {
		ws, err := open(typed, here)
		return ws, here.Path(), err
	}
	start, err := workdir(here, typed, r.Workdir)
	if err != nil {
		return nil, "", err
	}
	defer start.Close()
	if start.Within(here) {
		if ws, err := open(typed, here); err == nil {
			return ws, start.Path(), nil
		}
	}
	ws, err := open(start.Path(), start)
	return ws, start.Path(), err
}

// workdir finds the folder that --workdir names. A name below the current
// folder means a folder there, as does any relative one where its dots say: a
// link on the way, which a repository may bring along, is not to choose what
// the sandbox may write to.
func workdir(here *workspace.Place, typed, name string) (*workspace.Place, error) {
	start, err := here.Folder(name)
	if err != nil {
		if !filepath.IsAbs(name) {
			name = filepath.Join(typed, name)
		}
		return nil, bailey.NewError(bailey.NotFound, fmt.Sprintf("--workdir: there is no folder %s", name), "check the path, or create it")
	}
	below := !filepath.IsAbs(name) || sandbox.Within(filepath.Clean(name), here.Path()) || sandbox.Within(filepath.Clean(name), typed)
	if !below || start.Within(here) || !here.Led(name, start) {
		return start, nil
	}
	defer start.Close()
	return nil, bailey.NewError(bailey.Invalid, fmt.Sprintf("--workdir %s is, or lies behind, a link that leads out of the current folder, to %s", name, start.Path()),
		"if that folder is meant, name it: --workdir "+start.Path())
}
