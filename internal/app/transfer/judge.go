package transfer

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/bailey-dev/bailey"
)

// Limits bound what is taken out of a sandbox.
type Limits struct {
	Bytes int64 // of the contents of files
	Files int64 // files, folders and links
}

// Bounds of names.
const (
	maxName  = 4096
	maxDepth = 256
)

// entry is one of an archive that was judged. Its name is relative and clean;
// "" is the root of what is copied.
type entry struct {
	name string
	head *tar.Header
	body io.Reader // of a file
	link string    // of a hard link: the name of another entry
}

// sink takes the entries of an archive.
type sink interface {
	dir(e entry) error
	file(e entry) error
	symlink(e entry) error
	hardlink(e entry) error
}

// judge reads an archive whose entries lie below root, the first part of all
// names, or "." for none, and hands on what is good. Of what is left out, and
// why, it tells skip. A stream that no tar makes of honest files is an error.
func judge(r io.Reader, root string, limits Limits, to sink, skip func(name, why string)) error { //nolint:gocognit // one kind of entry after the other
	in := tar.NewReader(r)
	left := limits
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) { // names are judged below
			return fmt.Errorf("read what the sandbox sends: %w", err)
		}
		if left.Files--; left.Files < 0 {
			return tooMuch(fmt.Sprintf("more than %d files", limits.Files), "--max-files")
		}
		e, err := named(h, root)
		if err != nil {
			return err
		}
		if h.Typeflag == tar.TypeReg {
			if left.Bytes -= h.Size; left.Bytes < 0 {
				return tooMuch(fmt.Sprintf("more than %d bytes", limits.Bytes), "--max-size")
			}
		}
		e.body = in
		if err := pass(e, root, to, skip); err != nil {
			return err
		}
	}
}

// named gives an entry its name below the root.
func named(h *tar.Header, root string) (entry, error) {
	name, err := below(h.Name, root)
	return entry{name: name, head: h}, err
}

// below returns a name of the archive as one below its root.
func below(name, root string) (string, error) {
	if name == "" || len(name) > maxName || strings.HasPrefix(name, "/") || strings.ContainsRune(name, 0) || strings.Count(name, "/") > maxDepth {
		return "", insecure(name)
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", insecure(name)
		}
	}
	name = path.Clean(name)
	if root != "." {
		rest, ok := strings.CutPrefix(name+"/", root+"/")
		if !ok {
			return "", insecure(name)
		}
		name = strings.TrimSuffix(rest, "/")
	}
	if name == "." {
		name = ""
	}
	return name, nil
}

// pass hands one entry on.
func pass(e entry, root string, to sink, skip func(name, why string)) (err error) {
	switch e.head.Typeflag {
	case tar.TypeDir:
		return to.dir(e)
	case tar.TypeReg:
		return to.file(e)
	case tar.TypeSymlink:
		if !staysInside(e.name, e.head.Linkname) {
			skip(e.name, "is a link to "+e.head.Linkname+", which is not among what is copied")
			return nil
		}
		return to.symlink(e)
	case tar.TypeLink:
		if e.link, err = below(e.head.Linkname, root); err != nil {
			return err
		}
		if e.link == "" || e.name == "" {
			return insecure(e.head.Linkname)
		}
		return to.hardlink(e)
	case tar.TypeXGlobalHeader:
		return nil
	}
	skip(e.name, "is neither a file nor a folder nor a link")
	return nil
}

// staysInside reports whether a link leads to something below the root of what
// is copied, whatever other such links are on its way: it goes up first, no
// further than the root, and then down.
func staysInside(name, target string) bool {
	if name == "" || target == "" || len(target) > maxName || strings.HasPrefix(target, "/") {
		return false
	}
	up, down := 0, false
	for part := range strings.SplitSeq(target, "/") {
		switch part {
		case "", ".":
		case "..":
			if up++; down {
				return false
			}
		default:
			down = true
		}
	}
	return up <= strings.Count(name, "/")
}

func insecure(name string) error {
	return bailey.NewError(bailey.Forbidden, fmt.Sprintf("the sandbox sent a name that leads out of what is copied, or is none: %.200q", name),
		"nothing was copied: look at what is there with bailey shell")
}

func tooMuch(what, flag string) error {
	return bailey.NewError(bailey.Forbidden, "the sandbox sends "+what+"; nothing was copied", flag+" raises the limit")
}
