package leak

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/bailey-dev/bailey/internal/linux/beneath"
	"github.com/bailey-dev/bailey/internal/spell"
)

// What bounds a look through a folder.
const (
	MaxFile    = 1 << 20 // bytes of a file that is looked at
	maxEntries = 1_000_000
	maxFolder  = 100_000 // entries of one folder
)

// Seen is what a look through a folder looked at, and what it left out.
type Seen struct {
	Files      int // that were looked at
	Large      int // over MaxFile
	Binary     int // with a zero byte in their first 8 KiB
	Folders    int // whose contents come from elsewhere: node_modules, git's objects
	Links      int // symbolic links, which are not followed
	Special    int // pipes, sockets, devices and other mounts, which are not opened
	Unreadable int // files and folders that should have been looked at, and could not be
	Incomplete bool
}

// Folder looks through all files below an open folder, whoever made them:
// ignored ones too, since a sandbox sees them. No link is followed, nothing
// outside is opened. Each is called with what is found, in the order of
// paths; step after each file.
func Folder(ctx context.Context, root *os.File, each func(Finding), step func(Seen)) (Seen, error) {
	w := walk{root: root, each: each, step: step, left: maxEntries}
	err := w.folder(ctx, "")
	return w.seen, err
}

// File looks at one file of an open folder, as Folder does.
func File(root *os.File, name string, each func(Finding)) (Seen, error) {
	w := walk{root: root, each: each, step: func(Seen) {}, left: 1}
	err := w.file(name)
	return w.seen, err
}

type walk struct {
	root *os.File
	each func(Finding)
	step func(Seen)
	left int
	seen Seen
}

// folder looks through one folder and what is in it. How deep that goes is
// bounded by the length of paths that the kernel takes.
func (w *walk) folder(ctx context.Context, rel string) error {
	entries, err := beneath.ReadDirSameDevice(w.root, rel, min(maxFolder, w.left))
	switch {
	case err == nil, errors.Is(err, beneath.ErrStrange):
	case rel == "":
		w.seen.Unreadable++
		return err
	case beneath.IsOtherMount(err):
		w.seen.Special++
	case !isGone(err):
		w.seen.Unreadable++
	}
	w.seen.Incomplete = w.seen.Incomplete || errors.Is(err, beneath.ErrStrange)
	w.left -= len(entries)
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := w.entry(ctx, rel, e); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) entry(ctx context.Context, dir string, e beneath.Entry) error {
	rel := filepath.Join(dir, e.Name)
	switch {
	case e.Type.IsDir() && fromElsewhere(dir, e.Name):
		w.seen.Folders++
	case e.Type.IsDir():
		return w.folder(ctx, rel)
	case e.Type&fs.ModeSymlink != 0:
		w.seen.Links++
	case !e.Type.IsRegular():
		w.seen.Special++
	default:
		return w.file(rel)
	}
	return nil
}

// fromElsewhere names folders that hold what tools have fetched or packed.
func fromElsewhere(dir, name string) bool {
	if filepath.Base(dir) == ".git" {
		return name == "objects" || name == "lfs"
	}
	return name == "node_modules"
}

func (w *walk) file(rel string) error {
	defer func() { w.step(w.seen) }()
	found, err := Path(rel)
	if err != nil {
		return err
	}
	data, info, err := beneath.ReadFile(w.root, rel, MaxFile)
	switch {
	case err != nil && info.Mode.IsRegular() && info.Size > MaxFile:
		w.seen.Large++
	case errors.Is(err, beneath.ErrStrange):
		w.seen.Special++
	case err != nil && isGone(err):
	case err != nil:
		w.seen.Unreadable++
	case isBinary(data):
		w.seen.Binary++
	default:
		w.seen.Files++
		more, err := Text(rel, string(data))
		if err != nil {
			return err
		}
		found = append(found, more...)
	}
	for _, f := range found {
		w.each(f)
	}
	return nil
}

// isGone reports whether a file went away, or became a link, between the listing
// of its folder and the look at it: a sandbox that works there does that.
func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ELOOP) }

// isBinary tells files that are no text as git does.
func isBinary(data []byte) bool {
	const head = 8 << 10
	return bytes.IndexByte(data[:min(len(data), head)], 0) >= 0
}

// LeftOut says for a person what was not looked at, or "".
func (s Seen) LeftOut() string {
	var list []string
	for _, part := range []struct {
		n    int
		what string
	}{
		{s.Large, fmt.Sprintf("%d over 1 MiB", s.Large)},
		{s.Binary, fmt.Sprintf("%d binary", s.Binary)},
		{s.Links, spell.Count(s.Links, "link")},
		{s.Special, fmt.Sprintf("%d that is no plain file", s.Special)},
		{s.Unreadable, fmt.Sprintf("%d not readable", s.Unreadable)},
		{s.Folders, spell.Count(s.Folders, "folder") + " of fetched things"},
	} {
		if part.n > 0 {
			list = append(list, part.what)
		}
	}
	return strings.Join(list, ", ")
}
