package embedded

import (
	"path"

	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/context"
	"gvisor.dev/gvisor/pkg/errors/linuxerr"
	"gvisor.dev/gvisor/pkg/fspath"
	"gvisor.dev/gvisor/pkg/sentry/kernel/auth"
	"gvisor.dev/gvisor/pkg/sentry/socket/unix/transport"
	"gvisor.dev/gvisor/pkg/sentry/vfs"

	"github.com/bailey-dev/bailey/internal/hide"
)

// hiding is a file system with some of another's files. Every operation is the
// other's; what has a path is resolved first, to a file or to the folder that
// something is made in, and the operation is then one on what was found. So
// what is looked at is what is used, whatever a link on the way leads to and
// however often it is exchanged meanwhile, and the path is walked once.
//
// An operation whose path is already walked is one on a file that somebody
// holds: whoever got it was allowed to.
type hiding struct {
	inner vfs.FilesystemImpl
	rules *hide.Rules
}

var _ vfs.FilesystemImpl = (*hiding)(nil)

// step is the context of a look-up that exists for its ResolvingPath alone,
// which nobody but gVisor's VFS can make: GetDentryAt hands it to do.
type step struct {
	context.Context

	do func(rp *vfs.ResolvingPath)
}

// at calls do with a path that starts at d and has name as its only component
// (or none, and with a slash behind it where that has to be a folder). What do returns is handed on, but for the errors by which a path is
// continued elsewhere: here there is nothing more to walk.
func (h *hiding) at(ctx context.Context, rp *vfs.ResolvingPath, d *vfs.Dentry, name string, do func(rp *vfs.ResolvingPath) error) error {
	here := vfs.MakeVirtualDentry(rp.Mount(), d)
	p := fspath.Parse(name)
	var done error = linuxerr.EIO
	s := &step{Context: ctx, do: func(rp *vfs.ResolvingPath) { done = do(rp) }}

	_, _ = rp.VirtualFilesystem().GetDentryAt(s, rp.Credentials(), &vfs.PathOperation{Root: here, Start: here, Path: p}, &vfs.GetDentryOptions{})
	return done
}

// name is d's path in the file system. That of a mount would not do: it begins
// wherever somebody mounted it.
func (h *hiding) name(ctx context.Context, d *vfs.Dentry) (string, bool) {
	var b fspath.Builder
	err := h.inner.PrependPath(ctx, vfs.VirtualDentry{}, vfs.MakeVirtualDentry(nil, d), &b)
	_, whole := err.(vfs.PrependPathAtNonMountRootError) //nolint:errorlint // as gVisor compares it
	return b.String(), whole
}

// visible returns ENOENT for a path, which is walked already, that leads to
// what is hidden.
func (h *hiding) visible(ctx context.Context, rp *vfs.ResolvingPath) error {
	name, ok := h.name(ctx, rp.Start())
	if !ok {
		return linuxerr.ENOENT
	}
	file, dir := h.rules.Hidden(name, false), h.rules.Hidden(name, true)
	if !file && !dir {
		return nil
	}
	mode, err := h.mode(ctx, rp)
	if err != nil {
		return err
	}
	if isDir := mode == linux.S_IFDIR; isDir && dir || !isDir && file {
		return linuxerr.ENOENT
	}
	return nil
}

// mode is the type of the file that a walked path leads to.
func (h *hiding) mode(ctx context.Context, rp *vfs.ResolvingPath) (linux.FileMode, error) {
	st, err := h.inner.StatAt(ctx, rp, vfs.StatOptions{Mask: linux.STATX_TYPE, Sync: linux.AT_STATX_DONT_SYNC})
	return linux.FileMode(st.Mode) & linux.S_IFMT, err
}

// found resolves rp and calls do with what was found.
func (h *hiding) found(ctx context.Context, rp *vfs.ResolvingPath, do func(rp *vfs.ResolvingPath) error) error {
	if rp.Done() {
		return do(rp)
	}
	d, err := h.inner.GetDentryAt(ctx, rp, vfs.GetDentryOptions{})
	if err != nil {
		return err
	}
	defer d.DecRef(ctx)
	return h.use(ctx, rp, d, do)
}

// use calls do with d, unless it is hidden.
func (h *hiding) use(ctx context.Context, rp *vfs.ResolvingPath, d *vfs.Dentry, do func(rp *vfs.ResolvingPath) error) error {
	return h.at(ctx, rp, d, "", func(rp *vfs.ResolvingPath) error {
		if err := h.visible(ctx, rp); err != nil {
			return err
		}
		return do(rp)
	})
}

// entry resolves rp but for its last component, and calls do with that one
// alone, whose link is not followed, unless refuse has an error for the path
// that it makes.
func (h *hiding) entry(ctx context.Context, rp *vfs.ResolvingPath, refuse func(name string) error, do func(rp *vfs.ResolvingPath) error) error {
	judged := func(rp *vfs.ResolvingPath) error {
		name, err := h.child(ctx, rp.Start(), rp.Component())
		if err == nil {
			err = refuse(name)
		}
		if err != nil {
			return err
		}
		return do(rp)
	}
	d, err := h.inner.GetParentDentryAt(ctx, rp)
	if err != nil {
		return err
	}
	defer d.DecRef(ctx)
	last := rp.Component()
	if rp.MustBeDir() {
		last += "/"
	}
	return h.at(ctx, rp, d, last, judged)
}

// child is the path of a folder's entry.
func (h *hiding) child(ctx context.Context, d *vfs.Dentry, component string) (string, error) {
	name, ok := h.name(ctx, d)
	if !ok {
		return "", linuxerr.ENOENT
	}
	return path.Join(name, component), nil
}

// making refuses to make what would be hidden.
func (h *hiding) making(dir bool) func(string) error {
	return func(name string) error {
		if h.rules.Hidden(name, dir) {
			return linuxerr.EACCES
		}
		return nil
	}
}

// removing refuses to remove what is not there to be seen.
func (h *hiding) removing(dir bool) func(string) error {
	return func(name string) error {
		if h.rules.Hidden(name, dir) {
			return linuxerr.ENOENT
		}
		return nil
	}
}

// Release implements vfs.FilesystemImpl.
func (h *hiding) Release(ctx context.Context) { h.inner.Release(ctx) }

// Sync implements vfs.FilesystemImpl.
func (h *hiding) Sync(ctx context.Context) error { return h.inner.Sync(ctx) }

// AccessAt implements vfs.FilesystemImpl.
func (h *hiding) AccessAt(ctx context.Context, rp *vfs.ResolvingPath, creds *auth.Credentials, ats vfs.AccessTypes) error {
	return h.found(ctx, rp, func(rp *vfs.ResolvingPath) error { return h.inner.AccessAt(ctx, rp, creds, ats) })
}

// GetDentryAt implements vfs.FilesystemImpl.
func (h *hiding) GetDentryAt(ctx context.Context, rp *vfs.ResolvingPath, opts vfs.GetDentryOptions) (*vfs.Dentry, error) {
	if s, ok := ctx.(*step); ok {
		s.do(rp)
		return nil, linuxerr.ENOENT
	}
	if rp.Done() {
		return h.inner.GetDentryAt(ctx, rp, opts)
	}
	d, err := h.inner.GetDentryAt(ctx, rp, opts)
	if err != nil {
		return nil, err
	}
	if err := h.use(ctx, rp, d, func(*vfs.ResolvingPath) error { return nil }); err != nil {
		d.DecRef(ctx)
		return nil, err
	}
	return d, nil
}

// GetParentDentryAt implements vfs.FilesystemImpl. Of what lies in a hidden
// folder nothing is found either.
func (h *hiding) GetParentDentryAt(ctx context.Context, rp *vfs.ResolvingPath) (*vfs.Dentry, error) {
	d, err := h.inner.GetParentDentryAt(ctx, rp)
	if err != nil {
		return nil, err
	}
	if err := h.use(ctx, rp, d, func(*vfs.ResolvingPath) error { return nil }); err != nil {
		d.DecRef(ctx)
		return nil, err
	}
	return d, nil
}

// LinkAt implements vfs.FilesystemImpl. What vd is was found by GetDentryAt.
func (h *hiding) LinkAt(ctx context.Context, rp *vfs.ResolvingPath, vd vfs.VirtualDentry) error {
	return h.entry(ctx, rp, h.making(false), func(rp *vfs.ResolvingPath) error { return h.inner.LinkAt(ctx, rp, vd) })
}

// MkdirAt implements vfs.FilesystemImpl.
func (h *hiding) MkdirAt(ctx context.Context, rp *vfs.ResolvingPath, opts vfs.MkdirOptions) error {
	return h.entry(ctx, rp, h.making(true), func(rp *vfs.ResolvingPath) error { return h.inner.MkdirAt(ctx, rp, opts) })
}

// MknodAt implements vfs.FilesystemImpl.
func (h *hiding) MknodAt(ctx context.Context, rp *vfs.ResolvingPath, opts vfs.MknodOptions) error {
	return h.entry(ctx, rp, h.making(false), func(rp *vfs.ResolvingPath) error { return h.inner.MknodAt(ctx, rp, opts) })
}

// ReadlinkAt implements vfs.FilesystemImpl.
func (h *hiding) ReadlinkAt(ctx context.Context, rp *vfs.ResolvingPath) (target string, err error) {
	err = h.found(ctx, rp, func(rp *vfs.ResolvingPath) error {
		var err error
		target, err = h.inner.ReadlinkAt(ctx, rp)
		return err
	})
	return target, err
}

// RenameAt implements vfs.FilesystemImpl. Whatever is moved is judged as if it
// were a folder too: what a name is may change until it is moved. A folder that
// a rule speaks of stays; EXDEV has programs copy it instead, and a copy has
// what can be read.
func (h *hiding) RenameAt(ctx context.Context, rp *vfs.ResolvingPath, oldParentVD vfs.VirtualDentry, oldName string, opts vfs.RenameOptions) error {
	from, err := h.child(ctx, oldParentVD.Dentry(), oldName)
	if err != nil {
		return err
	}
	if h.rules.Hidden(from, false) || h.rules.Hidden(from, true) {
		if err := h.movable(ctx, rp, oldParentVD.Dentry(), oldName); err != nil {
			return err
		}
	}
	exchange := opts.Flags&linux.RENAME_EXCHANGE != 0
	refuse := func(to string) error {
		switch {
		case h.rules.Hidden(to, false) || h.rules.Hidden(to, true),
			exchange && (h.rules.Hidden(from, false) || h.rules.Hidden(from, true)):
			return linuxerr.EACCES
		case h.rules.Pinned(from, to) || exchange && h.rules.Pinned(to, from):
			return linuxerr.EXDEV
		}
		return nil
	}
	return h.entry(ctx, rp, refuse, func(rp *vfs.ResolvingPath) error {
		return h.inner.RenameAt(ctx, rp, oldParentVD, oldName, opts)
	})
}

// movable returns ENOENT unless what has a name that rules hide is there, and is
// of the kind that they do not: what is made there a moment later may be hidden.
func (h *hiding) movable(ctx context.Context, rp *vfs.ResolvingPath, parent *vfs.Dentry, name string) error {
	return h.at(ctx, rp, parent, name, func(rp *vfs.ResolvingPath) error {
		d, err := h.inner.GetDentryAt(ctx, rp, vfs.GetDentryOptions{})
		if err != nil {
			return linuxerr.ENOENT
		}
		defer d.DecRef(ctx)
		return h.use(ctx, rp, d, func(*vfs.ResolvingPath) error { return nil })
	})
}

// RmdirAt implements vfs.FilesystemImpl.
func (h *hiding) RmdirAt(ctx context.Context, rp *vfs.ResolvingPath) error {
	return h.entry(ctx, rp, h.removing(true), func(rp *vfs.ResolvingPath) error { return h.inner.RmdirAt(ctx, rp) })
}

// SetStatAt implements vfs.FilesystemImpl.
func (h *hiding) SetStatAt(ctx context.Context, rp *vfs.ResolvingPath, opts vfs.SetStatOptions) error {
	return h.found(ctx, rp, func(rp *vfs.ResolvingPath) error { return h.inner.SetStatAt(ctx, rp, opts) })
}

// StatAt implements vfs.FilesystemImpl.
func (h *hiding) StatAt(ctx context.Context, rp *vfs.ResolvingPath, opts vfs.StatOptions) (st linux.Statx, err error) {
	err = h.found(ctx, rp, func(rp *vfs.ResolvingPath) error {
		var err error
		st, err = h.inner.StatAt(ctx, rp, opts)
		return err
	})
	return st, err
}

// StatFSAt implements vfs.FilesystemImpl.
func (h *hiding) StatFSAt(ctx context.Context, rp *vfs.ResolvingPath) (st linux.Statfs, err error) {
	err = h.found(ctx, rp, func(rp *vfs.ResolvingPath) error {
		var err error
		st, err = h.inner.StatFSAt(ctx, rp)
		return err
	})
	return st, err
}

// SymlinkAt implements vfs.FilesystemImpl.
func (h *hiding) SymlinkAt(ctx context.Context, rp *vfs.ResolvingPath, target string) error {
	return h.entry(ctx, rp, h.making(false), func(rp *vfs.ResolvingPath) error { return h.inner.SymlinkAt(ctx, rp, target) })
}

// UnlinkAt implements vfs.FilesystemImpl.
func (h *hiding) UnlinkAt(ctx context.Context, rp *vfs.ResolvingPath) error {
	return h.entry(ctx, rp, h.removing(false), func(rp *vfs.ResolvingPath) error { return h.inner.UnlinkAt(ctx, rp) })
}

// ListXattrAt implements vfs.FilesystemImpl.
func (h *hiding) ListXattrAt(ctx context.Context, rp *vfs.ResolvingPath, size uint64) (names []string, err error) {
	err = h.found(ctx, rp, func(rp *vfs.ResolvingPath) error {
		var err error
		names, err = h.inner.ListXattrAt(ctx, rp, size)
		return err
	})
	return names, err
}

// GetXattrAt implements vfs.FilesystemImpl.
func (h *hiding) GetXattrAt(ctx context.Context, rp *vfs.ResolvingPath, opts vfs.GetXattrOptions) (value string, err error) {
	err = h.found(ctx, rp, func(rp *vfs.ResolvingPath) error {
		var err error
		value, err = h.inner.GetXattrAt(ctx, rp, opts)
		return err
	})
	return value, err
}

// SetXattrAt implements vfs.FilesystemImpl.
func (h *hiding) SetXattrAt(ctx context.Context, rp *vfs.ResolvingPath, opts vfs.SetXattrOptions) error {
	return h.found(ctx, rp, func(rp *vfs.ResolvingPath) error { return h.inner.SetXattrAt(ctx, rp, opts) })
}

// RemoveXattrAt implements vfs.FilesystemImpl.
func (h *hiding) RemoveXattrAt(ctx context.Context, rp *vfs.ResolvingPath, name string) error {
	return h.found(ctx, rp, func(rp *vfs.ResolvingPath) error { return h.inner.RemoveXattrAt(ctx, rp, name) })
}

// GetPosixACLAt implements vfs.FilesystemImpl.
func (h *hiding) GetPosixACLAt(ctx context.Context, rp *vfs.ResolvingPath, t vfs.ACLType) (acl *vfs.PosixACL, err error) {
	err = h.found(ctx, rp, func(rp *vfs.ResolvingPath) error {
		var err error
		acl, err = h.inner.GetPosixACLAt(ctx, rp, t)
		return err
	})
	return acl, err
}

// SetPosixACLAt implements vfs.FilesystemImpl.
func (h *hiding) SetPosixACLAt(ctx context.Context, rp *vfs.ResolvingPath, t vfs.ACLType, acl *vfs.PosixACL, clearSGID bool) (set *vfs.PosixACL, mode linux.FileMode, err error) {
	err = h.found(ctx, rp, func(rp *vfs.ResolvingPath) error {
		var err error
		set, mode, err = h.inner.SetPosixACLAt(ctx, rp, t, acl, clearSGID)
		return err
	})
	return set, mode, err
}

// BoundEndpointAt implements vfs.FilesystemImpl.
func (h *hiding) BoundEndpointAt(ctx context.Context, rp *vfs.ResolvingPath, opts vfs.BoundEndpointOptions) (end transport.BoundEndpoint, err error) {
	err = h.found(ctx, rp, func(rp *vfs.ResolvingPath) error {
		var err error
		end, err = h.inner.BoundEndpointAt(ctx, rp, opts)
		return err
	})
	return end, err
}

// PrependPath implements vfs.FilesystemImpl.
func (h *hiding) PrependPath(ctx context.Context, vfsroot, vd vfs.VirtualDentry, b *fspath.Builder) error {
	return h.inner.PrependPath(ctx, vfsroot, vd, b)
}

// IsDescendant implements vfs.FilesystemImpl.
func (h *hiding) IsDescendant(vfsroot, vd vfs.VirtualDentry) bool {
	return h.inner.IsDescendant(vfsroot, vd)
}

// MountOptions implements vfs.FilesystemImpl.
func (h *hiding) MountOptions() string { return h.inner.MountOptions() }
