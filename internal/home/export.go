package home

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
)

// inTar is the folder of an archive that a home's files lie in.
const inTar = "files"

// maxEntries bounds one folder, maxDeep how deeply folders nest, in an archive
// and in what is counted.
const (
	maxEntries = 1_000_000
	maxDeep    = 200
)

// Exported says what an export holds, and what it does not.
type Exported struct {
	Files   int64    `json:"files"`
	Bytes   int64    `json:"bytes"`
	LeftOut []string `json:"left_out"` // logins
	Closed  []string `json:"closed"`   // what cannot be read, as the agent has left it
	Special int      `json:"special"`  // sockets, pipes and devices, which are left out
}

// Export writes a home as a tar archive of at most so many bytes. Logins are left
// out unless asked for, under whatever name a hard link gives them, and wherever
// links lead to them. Links are written as links. What cannot be read is left
// out: an agent could make any home one that cannot be exported.
func (h *Home) Export(w io.Writer, logins bool, most int64) (Exported, error) {
	x := exporter{tar: tar.NewWriter(w), home: h, hidden: map[fileID]bool{}, names: map[string]bool{}, left: most}
	if !logins {
		for _, l := range h.Logins() {
			x.hidden[l.id], x.names[l.real] = true, true
		}
	}
	err := x.folder("", 0)
	if err == nil {
		err = x.tar.Close()
	}
	if _, ok := errors.AsType[*bailey.Error](err); ok {
		return x.out, err
	}
	if err != nil {
		return x.out, fmt.Errorf("export home %s: %w", h.Name, err)
	}
	return x.out, nil
}

type exporter struct {
	tar    *tar.Writer
	home   *Home
	hidden map[fileID]bool
	names  map[string]bool // of the same, for one that is written anew meanwhile
	left   int64
	out    Exported
}

// header writes the header of an entry, if there is room for that and what
// follows.
func (x *exporter) header(head *tar.Header) error {
	const block = 512
	if head.Size > x.left-2*block {
		return bailey.NewError(bailey.Forbidden, "home "+x.home.Name+" holds more than may be written", "--max-size raises the limit; a sparse file counts as what it is read as")
	}
	x.left -= head.Size + 2*block
	if err := x.tar.WriteHeader(head); err != nil {
		return fmt.Errorf("write %s: %w", head.Name, err)
	}
	return nil
}

func (x *exporter) folder(rel string, depth int) error {
	nodes, dir, err := x.list(rel, depth)
	if errors.Is(err, fs.ErrNotExist) && rel != "" {
		return nil // it went meanwhile
	}
	if err != nil {
		x.out.Closed = append(x.out.Closed, path.Join(".", rel)+"/")
		return nil
	}
	defer dir.Close()
	for _, n := range nodes {
		if err := x.node(dir, n, path.Join(rel, n.Name), depth); err != nil {
			return err
		}
	}
	return nil
}

func (x *exporter) list(rel string, depth int) ([]beneath.Node, *os.File, error) {
	if depth >= maxDeep { // what import takes
		return nil, nil, fmt.Errorf("%s: folders nest more than %d deep", rel, maxDeep)
	}
	dir, err := beneath.OpenDir(x.home.Files, rel)
	if err != nil {
		return nil, nil, fmt.Errorf("open %s: %w", rel, err)
	}
	nodes, err := beneath.List(dir, maxEntries)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("list %s: %w", rel, err), dir.Close())
	}
	return nodes, dir, nil
}

func (x *exporter) node(dir *os.File, n beneath.Node, rel string, depth int) error {
	head := &tar.Header{Name: inTar + "/" + rel, Mode: int64(n.Mode.Perm()), ModTime: n.Modified.Truncate(1e9), Format: tar.FormatPAX}
	switch {
	case n.Mode.IsDir():
		head.Typeflag, head.Name = tar.TypeDir, head.Name+"/"
		if err := x.header(head); err != nil {
			return err
		}
		return x.folder(rel, depth+1)
	case n.Mode&fs.ModeSymlink != 0:
		to, err := beneath.Readlink(dir, n.Name)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EINVAL) { // it is another thing by now
			return nil
		}
		if err != nil {
			return fmt.Errorf("read link %s: %w", rel, err)
		}
		head.Typeflag, head.Linkname = tar.TypeSymlink, to
		if err := x.header(head); err != nil {
			return err
		}
		x.out.Files++
		return nil
	case n.Mode.IsRegular():
		return x.file(dir, n.Name, rel, head)
	}
	x.out.Special++
	return nil
}

func (x *exporter) file(dir *os.File, name, rel string, head *tar.Header) error {
	f, info, err := beneath.OpenFile(dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it went meanwhile
	}
	if err != nil {
		x.out.Closed = append(x.out.Closed, rel)
		return nil
	}
	defer f.Close()
	if x.names[rel] || x.hidden[fileID{info.Dev, info.Ino}] { // as it was opened, whatever its name was for
		x.out.LeftOut = append(x.out.LeftOut, rel)
		return nil
	}
	head.Typeflag, head.Size = tar.TypeReg, info.Size
	if err := x.header(head); err != nil {
		return err
	}
	if _, err := io.CopyN(x.tar, f, info.Size); err != nil {
		return fmt.Errorf("write %s, which may have become shorter meanwhile: %w", rel, err)
	}
	x.out.Files++
	x.out.Bytes += info.Size
	return nil
}

// Size counts the files of a home and their bytes on disk; false: there is more.
func (h *Home) Size() (files, bytes int64, whole bool) {
	c := counter{left: maxEntries}
	c.folder(h.Files, "", 0)
	return c.files, c.bytes, c.left > 0 && !c.failed
}

type counter struct {
	files, bytes int64
	left         int
	failed       bool
}

func (c *counter) folder(root *os.File, rel string, depth int) {
	dir, err := beneath.OpenDir(root, rel)
	if err != nil || depth > maxDeep {
		if err == nil {
			_ = dir.Close()
		}
		c.failed = true
		return
	}
	defer dir.Close()
	nodes, err := beneath.List(dir, max(c.left, 1))
	c.failed = c.failed || err != nil
	for _, n := range nodes {
		if c.left--; c.left <= 0 {
			return
		}
		c.files++
		if n.Mode.IsDir() {
			c.folder(dir, n.Name, depth+1)
			continue
		}
		c.bytes += n.Size
	}
}
