package rootfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
)

// maxLinks is how many symbolic links one path may go through, as in the
// kernel (path_resolution(7)).
const maxLinks = 40

// stickyAll is the mode of a temporary folder that everybody may write to.
const stickyAll = fs.ModeSticky | 0o777

// hiddenBytes is the size of the empty memory file system that covers a
// folder which a toolchain's mount would show and should not.
const hiddenBytes = 4096

// errLoop is what resolving a path through too many links ends with.
var errLoop = errors.New("too many symbolic links")

// tree is the host's file system. Paths are absolute and clean, as the host
// names them; dir is where its root folder lies ("" in use). One tree serves
// one look at the host: folders once seen to be no links are remembered.
type tree struct {
	dir     string
	folders map[string]bool
}

func newTree(dir string) tree {
	if dir == "/" {
		dir = ""
	}
	return tree{dir: dir, folders: make(map[string]bool)}
}

// host returns where a path of the tree really is.
func (t tree) host(path string) string { return t.dir + path }

func (t tree) lstat(path string) (fs.FileInfo, error) { return os.Lstat(t.host(path)) }

// isDir reports whether path itself is a folder, without following a link.
func (t tree) isDir(path string) bool {
	if t.folders[path] {
		return true
	}
	info, err := t.lstat(path)
	return err == nil && info.IsDir()
}

// isFile reports whether path itself is a regular file.
func (t tree) isFile(path string) bool {
	info, err := t.lstat(path)
	return err == nil && info.Mode().IsRegular()
}

// exists reports whether path itself is there, whatever it is.
func (t tree) exists(path string) bool {
	_, err := t.lstat(path)
	return err == nil
}

// resolve returns the path that p names once every symbolic link on the way
// is followed inside the tree, and those links in the order they were met.
func (t tree) resolve(p string) (real string, links []bailey.Link, err error) {
	rest, real := strings.Split(p, "/"), "/"
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			real = filepath.Dir(real)
			continue
		}
		next := strings.TrimSuffix(real, "/") + "/" + name
		target, err := t.linkTarget(next)
		if err != nil {
			return "", links, fmt.Errorf("resolve %s: %w", p, err)
		}
		if target == "" {
			real = next
			continue
		}
		if links = append(links, bailey.Link{Path: next, Target: target}); len(links) > maxLinks {
			return "", links, fmt.Errorf("resolve %s: %w", p, errLoop)
		}
		if filepath.IsAbs(target) {
			real = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return real, links, nil
}

// linkTarget returns what the link at path holds, or "" if it is no link.
func (t tree) linkTarget(path string) (string, error) {
	if t.folders[path] {
		return "", nil
	}
	info, err := t.lstat(path)
	if err != nil {
		return "", err //nolint:wrapcheck // resolve says what it was for
	}
	if info.Mode()&fs.ModeSymlink == 0 {
		if info.IsDir() {
			t.folders[path] = true
		}
		return "", nil
	}
	return os.Readlink(t.host(path))
}

// read returns the regular file at a path without links; one longer than
// limit, or one that misses a permission bit of need, is an error.
func (t tree) read(path string, limit int64, need fs.FileMode) ([]byte, error) {
	data, info, err := beneath.Head(t.host(path), limit)
	if err != nil {
		return nil, fmt.Errorf("read file: %w", err)
	}
	if info.Mode&need != need || info.Size > limit {
		return nil, fmt.Errorf("read %s: %w", path, fs.ErrInvalid)
	}
	return data, nil
}

// head returns the first bytes of the regular file at a path without links,
// fewer than n if it is shorter, and nothing if it cannot be read.
func (t tree) head(path string, n int64) []byte {
	data, _, err := beneath.Head(t.host(path), n)
	if err != nil {
		return nil
	}
	return data
}

// maxListed bounds the entries looked at of one folder.
const maxListed = 1 << 16

// list returns the entries of the folder at a path without links. One with too
// many is an error.
func (t tree) list(path string) ([]beneath.Entry, error) {
	dir, err := beneath.Dir(t.host(path))
	if err != nil {
		return nil, fmt.Errorf("list folder: %w", err)
	}
	defer func() { _ = dir.Close() }() // O_PATH: nothing to lose
	entries, err := beneath.ReadDir(dir, "", maxListed)
	if err != nil {
		return nil, fmt.Errorf("list folder %s: %w", path, err)
	}
	return entries, nil
}
