package home

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
)

// Bounds of an import.
type Bounds struct {
	Bytes int64
	Files int64
}

// Import makes a home out of an archive that Export wrote, or somebody else:
// nothing of it lies or leads outside of the new home, and what cannot be kept
// is refused, with nothing left behind. A home of that name is fs.ErrExist's
// Conflict.
func (s Store) Import(name string, r io.Reader, b Bounds, now time.Time) (files, bytes int64, err error) {
	if err := CheckName(name); err != nil {
		return 0, 0, err
	}
	store, err := s.folder(true)
	if err != nil {
		return 0, 0, err
	}
	defer store.Close()
	if _, err := beneath.Lstat(store, name); err == nil {
		return 0, 0, bailey.NewError(bailey.Conflict, "there is a home "+name, "bailey home rm "+name+" removes it; or take another name")
	}
	sweep(store, now)
	tmp := draft + name + "-" + string(bailey.NewSandboxID())
	if err := beneath.MkdirPrivate(store, tmp); err != nil {
		return 0, 0, fmt.Errorf("make home %s: %w", name, err)
	}
	head := bufio.NewReader(r)
	i := importer{head: head, tar: tar.NewReader(head), bounds: b}
	err = furnish(store, tmp, Meta{Created: now.UTC()})
	if err == nil {
		i.files, err = beneath.Sub(store, tmp+"/"+filesName)
	}
	if err == nil {
		err = errors.Join(i.run(), i.files.Close())
	}
	if err == nil {
		err = beneath.Rename(store, tmp, name)
	}
	if err != nil {
		_ = beneath.Remove(store, tmp, maxRemoved)
		return 0, 0, refused(name, err)
	}
	return i.count, i.bytes, nil
}

// abandonedAfter is how old a draft is that nobody works on any more.
const abandonedAfter = 24 * time.Hour

// sweep removes what imports that were killed have left.
func sweep(store *os.File, now time.Time) {
	list, err := beneath.OpenDir(store, "")
	if err != nil {
		return
	}
	defer list.Close() // read only
	nodes, err := beneath.List(list, maxEntries)
	if err != nil {
		return
	}
	for _, n := range nodes {
		if strings.HasPrefix(n.Name, draft) && now.Sub(n.Modified) > abandonedAfter {
			_ = beneath.Remove(store, n.Name, maxRemoved) // the next import tries again
		}
	}
}

func refused(name string, err error) error {
	if _, ok := errors.AsType[*bailey.Error](err); ok {
		return err
	}
	if errors.Is(err, errNoTar) {
		hint := "bailey home export writes one"
		if errors.Is(err, errGzip) {
			hint = "unpack it first, as by gunzip -c FILE | bailey home import " + name
		}
		return bailey.NewError(bailey.Invalid, fmt.Sprintf("import home %s: %v", name, err), hint)
	}
	return bailey.WrapError(bailey.Invalid, "import home "+name, err, "only what bailey home export writes is taken: files, folders and symbolic links below "+inTar+"/")
}

// What is given instead of an archive.
var (
	errNoTar = errors.New("this is no tar archive")
	errEmpty = fmt.Errorf("%w: it is empty", errNoTar)
	errGzip  = fmt.Errorf("%w: it is compressed with gzip", errNoTar)
)

type importer struct {
	head   *bufio.Reader // below tar
	tar    *tar.Reader
	files  *os.File
	bounds Bounds
	count  int64
	bytes  int64
}

func (i *importer) run() error {
	start, _ := i.head.Peek(2) // an error comes again with the first entry
	for first := true; ; first = false {
		head, err := i.tar.Next()
		switch {
		case errors.Is(err, io.EOF) && len(start) == 0:
			return errEmpty
		case errors.Is(err, io.EOF):
			return nil
		case first && string(start) == "\x1f\x8b":
			return errGzip
		case first && (errors.Is(err, tar.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF)):
			return errNoTar
		case errors.Is(err, io.ErrUnexpectedEOF):
			return errors.New("the archive ends too early")
		case err != nil:
			return fmt.Errorf("read archive: %w", err)
		}
		if err := i.entry(head); err != nil {
			return fmt.Errorf("entry %.200q: %w", head.Name, err)
		}
	}
}

// below is the path of an entry below the home; "" is the home itself.
func below(name string) (string, error) {
	clean := strings.TrimSuffix(name, "/")
	rel, ok := strings.CutPrefix(clean, inTar+"/")
	if clean == inTar {
		return "", nil
	}
	if !ok || path.Clean(rel) != rel || !filepath.IsLocal(rel) || rel == "." || strings.ContainsRune(rel, 0) || strings.Count(rel, "/") >= maxDeep {
		return "", errors.New("its name does not lie below " + inTar + "/")
	}
	return rel, nil
}

func (i *importer) entry(head *tar.Header) error {
	rel, err := below(head.Name)
	if err != nil {
		return err
	}
	if err := i.another(); err != nil {
		return err
	}
	if rel == "" {
		if head.Typeflag != tar.TypeDir {
			return errors.New("it is no folder, and the home is one")
		}
		return nil
	}
	dir, name := path.Split(rel)
	parent, err := i.parent(strings.TrimSuffix(dir, "/"))
	if err != nil {
		return err
	}
	defer parent.Close()
	switch head.Typeflag {
	case tar.TypeDir:
		if err := beneath.MkdirPrivate(parent, name); err != nil && !errors.Is(err, fs.ErrExist) {
			return err //nolint:wrapcheck // the caller says what it is about
		}
		return beneath.SetMode(parent, name, fs.FileMode(head.Mode).Perm()|0o700) //nolint:wrapcheck // likewise
	case tar.TypeSymlink:
		return link(parent, name, head.Linkname)
	case tar.TypeReg:
		return i.file(parent, name, head)
	}
	return errors.New("it is neither a file, nor a folder, nor a symbolic link")
}

// another counts a file or folder.
func (i *importer) another() error {
	if i.count++; i.count > i.bounds.Files {
		return fmt.Errorf("more than %d files and folders", i.bounds.Files)
	}
	return nil
}

// parent opens the folder of an entry, and makes what is missing. A link on the
// way is refused.
func (i *importer) parent(rel string) (*os.File, error) {
	if rel == "" {
		return beneath.Sub(i.files, ".") //nolint:wrapcheck // the caller says what it is about
	}
	at := ""
	for name := range strings.SplitSeq(rel, "/") {
		at = path.Join(at, name)
		err := beneath.Mkdir(i.files, at)
		if err == nil { // the archive does not name it
			err = i.another()
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	return beneath.Sub(i.files, rel) //nolint:wrapcheck // likewise
}

// link makes a symbolic link. Where it leads is the sandbox's business: nobody
// on this side follows it.
func link(parent *os.File, name, to string) error {
	if to == "" || len(to) >= unix.PathMax || strings.ContainsRune(to, 0) {
		return errors.New("it leads nowhere")
	}
	if err := unix.Symlinkat(to, int(parent.Fd()), name); err != nil {
		return fmt.Errorf("make link: %w", err)
	}
	return nil
}

func (i *importer) file(parent *os.File, name string, head *tar.Header) error {
	if head.Size < 0 || head.Size > i.bounds.Bytes-i.bytes {
		return fmt.Errorf("more than %d bytes", i.bounds.Bytes)
	}
	if err := beneath.Create(parent, name, nil); err != nil {
		return err //nolint:wrapcheck // the caller says what it is about
	}
	f, err := beneath.OpenAppend(parent, name)
	if err != nil {
		return err //nolint:wrapcheck // likewise
	}
	n, err := io.Copy(f, io.LimitReader(i.tar, head.Size))
	i.bytes += n
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return beneath.SetMode(parent, name, fs.FileMode(head.Mode).Perm()|0o400) //nolint:wrapcheck // likewise
}
