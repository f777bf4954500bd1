package local

import (
	"fmt"
	"os"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/engine/handoff"
	"github.com/bailey-dev/bailey/internal/launch"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
	"github.com/bailey-dev/bailey/internal/linux/mount"
	"github.com/bailey-dev/bailey/internal/linux/userns"
	"github.com/bailey-dev/bailey/internal/sandbox"
)

// A root caller's sandboxes run as ids that own nothing, each as one of its
// own (package launch), and the files of the caller are shown to that id
// through an id-mapped mount (docs/adr/0008).

// preparer opens the sources of mounts with root's rights, so that the helper
// need not reach them.
type preparer struct {
	pending *Pending
	maps    map[launch.IDs]*os.File
}

func (p *preparer) open(m bailey.Mount) (*os.File, error) {
	f, err := handoff.Clone(m)
	if err != nil {
		return nil, err
	}
	attr := handoff.Restrict(m)
	if p.belongsToCaller(m) {
		if attr.IDMap, err = p.idMap(f); err != nil {
			return nil, err
		}
	}
	if err := mount.SetAttr(f, attr); err != nil {
		if attr.IDMap != nil {
			return nil, bailey.WrapError(bailey.Unsupported, "map the ids of "+m.Source, err,
				"its file system cannot be id-mapped (needs ext4, xfs, btrfs, f2fs or tmpfs, or Linux 6.x for others); run bailey as an ordinary user")
		}
		return nil, err
	}
	return f, nil
}

// belongsToCaller holds for what is the caller's own: the workspace and what
// lies in the home. The system's folders keep their owners, so that files
// which only root may read stay unreadable.
func (p *preparer) belongsToCaller(m bailey.Mount) bool {
	return m.Owned || (p.pending.caller.Home != "" && sandbox.Within(m.Source, p.pending.caller.Home))
}

// idMap makes the owner of what is mounted the sandbox's own id.
func (p *preparer) idMap(source *os.File) (*os.File, error) {
	info, err := beneath.Lstat(source, "")
	if err != nil {
		return nil, fmt.Errorf("look at %s: %w", source.Name(), err)
	}
	o := launch.IDs{UID: info.UID, GID: info.GID}
	if f, ok := p.maps[o]; ok {
		return f, nil
	}
	seen := p.pending.helper.Host
	f, err := userns.MapFD(o.UID, seen.UID, o.GID, seen.GID)
	if err != nil {
		return nil, err
	}
	p.maps[o] = f
	return f, nil
}
