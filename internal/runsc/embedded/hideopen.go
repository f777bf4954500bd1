package embedded

import (
	"path"

	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/context"
	"gvisor.dev/gvisor/pkg/errors/linuxerr"
	"gvisor.dev/gvisor/pkg/sentry/kernel/auth"
	"gvisor.dev/gvisor/pkg/sentry/vfs"

	"github.com/bailey-dev/bailey/internal/hide"
)

// OpenAt implements vfs.FilesystemImpl.
func (h *hiding) OpenAt(ctx context.Context, rp *vfs.ResolvingPath, opts vfs.OpenOptions) (fd *vfs.FileDescription, err error) {
	if opts.Flags&linux.O_CREAT != 0 && !rp.Done() {
		return h.create(ctx, rp, opts)
	}
	err = h.found(ctx, rp, func(rp *vfs.ResolvingPath) error {
		var err error
		fd, err = h.open(ctx, rp, opts)
		return err
	})
	return fd, err
}

// open opens what a walked path leads to. Devices and sockets cannot be opened
// in a workspace anyway, whose mount has no devices; gVisor's own answer would
// be of a file that a file system other than its own may not have.
func (h *hiding) open(ctx context.Context, rp *vfs.ResolvingPath, opts vfs.OpenOptions) (*vfs.FileDescription, error) {
	mode, err := h.mode(ctx, rp)
	if err != nil {
		return nil, err
	}
	switch mode {
	case linux.S_IFCHR, linux.S_IFBLK:
		return nil, linuxerr.EACCES
	case linux.S_IFSOCK:
		return nil, linuxerr.ENXIO
	}
	fd, err := h.inner.OpenAt(ctx, rp, opts)
	if err != nil {
		return nil, err
	}
	switch mode {
	case linux.S_IFREG:
		return h.wrap(ctx, fd, rp.Credentials(), opts.Flags, &openFile{FileDescriptionImpl: fd.Impl(), fs: h, fd: fd})
	case linux.S_IFDIR:
		return h.wrap(ctx, fd, rp.Credentials(), opts.Flags, &openFolder{openFile{FileDescriptionImpl: fd.Impl(), fs: h, fd: fd}})
	}
	return fd, nil
}

// attempts is how often an open may find that what it looked for was made or
// removed meanwhile.
const attempts = 40

// create opens a file that need not be there. It is either found, or made by an
// open that only makes: neither follows a link that was put there meanwhile.
func (h *hiding) create(ctx context.Context, rp *vfs.ResolvingPath, opts vfs.OpenOptions) (*vfs.FileDescription, error) {
	for range attempts {
		fd, err := h.openThere(ctx, rp, opts)
		if !linuxerr.Equals(linuxerr.ENOENT, err) {
			return fd, err
		}
		fd, leads, err := h.openNew(ctx, rp, opts)
		switch {
		case err == nil, !linuxerr.Equals(linuxerr.EEXIST, err), opts.Flags&linux.O_EXCL != 0:
			return fd, err
		case leads != "":
			return h.openDangling(ctx, rp, opts, leads)
		}
	}
	return nil, linuxerr.EAGAIN
}

// openThere opens a file that is there. rp is left as it is for ENOENT.
func (h *hiding) openThere(ctx context.Context, rp *vfs.ResolvingPath, opts vfs.OpenOptions) (fd *vfs.FileDescription, err error) {
	look := rp.Copy()
	d, err := h.inner.GetDentryAt(ctx, look, vfs.GetDentryOptions{})
	look.Release(ctx)
	if linuxerr.Equals(linuxerr.ENOENT, err) {
		return nil, err
	}
	if err != nil { // once more, with the path that the answer is for: it may go on elsewhere
		if d, err = h.inner.GetDentryAt(ctx, rp, vfs.GetDentryOptions{}); err != nil {
			return nil, err
		}
	}
	defer d.DecRef(ctx)
	if opts.Flags&linux.O_EXCL != 0 {
		return nil, linuxerr.EEXIST
	}
	err = h.use(ctx, rp, d, func(rp *vfs.ResolvingPath) error {
		var err error
		fd, err = h.open(ctx, rp, opts)
		return err
	})
	if linuxerr.Equals(linuxerr.ENOENT, err) {
		err = linuxerr.EACCES
	}
	return fd, err
}

// openNew makes a file and opens it. With EEXIST it says where the link leads
// that is there, if it is one, in the folder it lies in.
func (h *hiding) openNew(ctx context.Context, rp *vfs.ResolvingPath, opts vfs.OpenOptions) (fd *vfs.FileDescription, leads string, err error) {
	opts.Flags |= linux.O_EXCL
	last := rp.Copy()
	defer last.Release(ctx)
	err = h.entry(ctx, last, h.making(false), func(rp *vfs.ResolvingPath) error {
		same := rp.Copy()
		defer same.Release(ctx)
		var err error
		if fd, err = h.inner.OpenAt(ctx, rp, opts); err != nil {
			if target, isLink := h.inner.ReadlinkAt(ctx, same); isLink == nil {
				leads, _ = h.child(ctx, same.Start(), target)
			}
			return err
		}
		fd, err = h.wrap(ctx, fd, rp.Credentials(), opts.Flags, &openFile{FileDescriptionImpl: fd.Impl(), fs: h, fd: fd})
		return err
	})
	return fd, leads, err
}

// openDangling makes the file that a link leads to, unless that would be
// hidden. The link may lead elsewhere meanwhile: then an empty file of a hidden
// name may be left there, but nothing is cut off and nothing opened.
func (h *hiding) openDangling(ctx context.Context, rp *vfs.ResolvingPath, opts vfs.OpenOptions, leads string) (*vfs.FileDescription, error) {
	if err := h.making(false)(leads); err != nil {
		return nil, err
	}
	opts.Flags &^= linux.O_TRUNC
	fd, err := h.inner.OpenAt(ctx, rp, opts)
	if err != nil {
		return nil, err
	}
	err = h.use(ctx, rp, fd.Dentry(), func(rp *vfs.ResolvingPath) error {
		mode, err := h.mode(ctx, rp)
		if err == nil && mode == linux.S_IFREG {
			fd, err = h.wrap(ctx, fd, rp.Credentials(), opts.Flags, &openFile{FileDescriptionImpl: fd.Impl(), fs: h, fd: fd})
		}
		return err
	})
	if err != nil {
		fd.DecRef(ctx)
		return nil, linuxerr.EACCES
	}
	return fd, nil
}

// openFile is an open file of a hiding file system. All that its owner's does
// it does, but for what asks the mount for that file system.
type openFile struct {
	vfs.FileDescriptionImpl

	fs *hiding
	fd *vfs.FileDescription
}

// wrap has an open file answer by impl, which wraps what it answered by. The
// description is initialised once more, which is all that sets it: so what it
// then holds twice is let go of once.
func (*hiding) wrap(ctx context.Context, fd *vfs.FileDescription, creds *auth.Credentials, flags uint32, impl vfs.FileDescriptionImpl) (*vfs.FileDescription, error) {
	_, isFolder := impl.(*openFolder)
	mnt, d := fd.Mount(), fd.Dentry()
	if err := fd.Init(impl, flags, creds, mnt, d, &vfs.FileDescriptionOptions{AllowDirectIO: !isFolder}); err != nil {
		fd.DecRef(ctx)
		return nil, err
	}
	mnt.DecRef(ctx)
	d.DecRef(ctx)
	if fd.IsWritable() {
		mnt.EndWrite()
	}
	return fd, nil
}

// SetStat implements vfs.FileDescriptionImpl.
func (f *openFile) SetStat(ctx context.Context, opts vfs.SetStatOptions) error {
	here := f.fd.VirtualDentry()
	var err error = linuxerr.EIO
	s := &step{Context: ctx, do: func(rp *vfs.ResolvingPath) { err = f.fs.inner.SetStatAt(ctx, rp, opts) }}

	_, _ = here.Mount().Filesystem().VirtualFilesystem().GetDentryAt(s, auth.CredentialsFromContext(ctx), &vfs.PathOperation{Root: here, Start: here}, &vfs.GetDentryOptions{})
	return err
}

// openFolder is an open folder: what is hidden is not in it.
type openFolder struct{ openFile }

// IterDirents implements vfs.FileDescriptionImpl. Offsets are those of the
// whole folder, so that telldir and seekdir find the same places.
func (f *openFolder) IterDirents(ctx context.Context, cb vfs.IterDirentsCallback) error {
	name, ok := f.fs.name(ctx, f.fd.Dentry())
	if !ok {
		return linuxerr.ENOENT
	}
	return f.FileDescriptionImpl.IterDirents(ctx, &shown{IterDirentsCallback: cb, rules: f.fs.rules, folder: name})
}

// shown passes on what is not hidden of a folder's entries.
type shown struct {
	vfs.IterDirentsCallback

	rules  *hide.Rules
	folder string
}

// Handle implements vfs.IterDirentsCallback. An entry of no known type is left
// out when it is hidden as any.
func (s *shown) Handle(d vfs.Dirent) error {
	if d.Name != "." && d.Name != ".." {
		name := path.Join(s.folder, d.Name)
		if d.Type != linux.DT_DIR && s.rules.Hidden(name, false) || (d.Type == linux.DT_DIR || d.Type == linux.DT_UNKNOWN) && s.rules.Hidden(name, true) {
			return nil
		}
	}
	return s.IterDirentsCallback.Handle(d)
}
