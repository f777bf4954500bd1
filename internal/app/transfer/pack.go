package transfer

import (
	"archive/tar"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/bailey-dev/bailey/internal/linux/beneath"
)

// filter is a sink that writes the good entries as an archive again.
type filter struct{ to *tar.Writer }

func (f filter) head(e entry, size int64, link string) error {
	return f.to.WriteHeader(&tar.Header{
		Typeflag: e.head.Typeflag, Name: rename(e), Mode: int64(permissions(e)), Size: size, Linkname: link, ModTime: e.head.ModTime,
	})
}

// rename is the name as the archive had it, but clean.
func rename(e entry) string {
	name := path.Clean(e.head.Name)
	if e.head.Typeflag == tar.TypeDir {
		name += "/"
	}
	return name
}

func (f filter) dir(e entry) error { return f.head(e, 0, "") }

func (f filter) file(e entry) error {
	if err := f.head(e, e.head.Size, ""); err != nil {
		return err
	}
	_, err := io.Copy(f.to, e.body)
	return err
}

func (f filter) symlink(e entry) error { return f.head(e, 0, e.head.Linkname) }

func (f filter) hardlink(e entry) error { return f.head(e, 0, path.Clean(e.head.Linkname)) }

// packer makes an archive of what is below a folder of the host. It follows no
// link.
type packer struct {
	to   *tar.Writer
	skip func(name, why string)
}

// pack writes what is at name in dir under the name as; "." stands for the
// contents of a folder.
func (p *packer) pack(dir *os.File, name, as string) error {
	info, err := beneath.Lstat(dir, name)
	if err != nil {
		return err
	}
	return p.node(dir, beneath.Node{Name: name, Info: info}, as)
}

func (p *packer) node(dir *os.File, n beneath.Node, as string) error {
	h := &tar.Header{Name: as, Mode: int64(n.Mode.Perm()), ModTime: n.Modified}
	switch {
	case n.Mode.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, as+"/"
		if err := p.to.WriteHeader(h); err != nil {
			return err
		}
		return p.folder(dir, n, as)
	case n.Mode.IsRegular():
		return p.file(dir, n, h)
	case n.Mode&fs.ModeSymlink != 0:
		target, err := beneath.Readlink(dir, n.Name)
		if err != nil {
			return err
		}
		h.Typeflag, h.Linkname = tar.TypeSymlink, target
		return p.to.WriteHeader(h)
	}
	p.skip(as, "is neither a file nor a folder nor a link")
	return nil
}

func (p *packer) folder(dir *os.File, n beneath.Node, as string) error {
	sub, err := beneath.OpenDir(dir, n.Name)
	if beneath.IsOtherMount(err) {
		sub, err = beneath.Sub(dir, n.Name) // a mount point of the host's own is named by who owns it
		if err == nil {
			defer sub.Close()
			sub, err = beneath.OpenDir(sub, "")
		}
	}
	if err != nil {
		return err
	}
	defer sub.Close()
	nodes, err := beneath.List(sub, maxNodes)
	if err != nil {
		return err
	}
	for _, child := range nodes {
		if err := p.node(sub, child, path.Join(as, child.Name)); err != nil {
			return err
		}
	}
	return nil
}

func (p *packer) file(dir *os.File, n beneath.Node, h *tar.Header) error {
	f, info, err := beneath.OpenFile(dir, n.Name)
	if err != nil {
		return err
	}
	defer f.Close()
	h.Typeflag, h.Size = tar.TypeReg, info.Size
	if err := p.to.WriteHeader(h); err != nil {
		return err
	}
	if _, err := io.CopyN(p.to, f, info.Size); err != nil {
		return fmt.Errorf("read %s, which became shorter meanwhile: %w", h.Name, err)
	}
	return nil
}
