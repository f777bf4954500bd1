package workspace

import (
	"fmt"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
)

// Scratch lays out a folder that was made for one sandbox and that nobody else
// looks at before it is over: all of it is the sandbox's, at the place inside,
// and nothing in it is guarded. Whatever lies in it afterwards is to be read as
// data: git must not be run there. dir is absolute, without a link in it.
func Scratch(dir, inside string) (*Workspace, error) {
	at, err := placeAt(dir)
	if err != nil {
		return nil, err
	}
	defer at.Close()
	if at.path != dir {
		return nil, bailey.NewError(bailey.Invalid, fmt.Sprintf("the folder %s is, or lies behind, a link", dir), "name the folder itself")
	}
	info, err := beneath.Lstat(at.dir, "")
	if err != nil {
		return nil, bailey.WrapError(bailey.Internal, fmt.Sprintf("look at the folder %s", dir), err, "")
	}
	if !beneath.Writable(at.dir) {
		return nil, bailey.NewError(bailey.Forbidden, fmt.Sprintf("you may not write to %s (it belongs to user %d)", dir, info.UID), "")
	}
	is, err := idOf(at.dir)
	if err != nil {
		return nil, moving(dir, err)
	}
	return &Workspace{
		Path: dir, Inside: inside, UID: info.UID, GID: info.GID,
		Mounts: []bailey.Mount{{Source: dir, Target: inside, Writable: true, Owned: true, Is: is}},
	}, nil
}

// Seen is where the workspace is inside.
func (w *Workspace) Seen() string {
	if w.Inside != "" {
		return w.Inside
	}
	return w.Path
}
