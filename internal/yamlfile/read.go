package yamlfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/bailey-dev/bailey"
)

// ReadOwn reads a file of the user's own, which may be a link to wherever they
// keep it. Nil is none. One that somebody else of the machine could have
// written, or could put another in the place of, is refused: what it says holds
// everywhere. what names it for messages, such as "policy file".
func ReadOwn(path, what string) ([]byte, error) {
	f, err := open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, Unreadable(path, what, err)
	}
	defer func() { _ = f.Close() }()
	if err := own(path, what, f); err != nil {
		return nil, err
	}
	return readBounded(path, what, f)
}

// Read reads a file that a person names.
func Read(path, what string) ([]byte, error) {
	f, err := open(path)
	if err != nil {
		return nil, Unreadable(path, what, err)
	}
	defer func() { _ = f.Close() }()
	return readBounded(path, what, f)
}

// Unreadable is the error of a file that cannot be read.
func Unreadable(path, what string, err error) error {
	hint := "make it a readable file, or remove it"
	if errors.Is(err, fs.ErrNotExist) {
		hint = "check the path"
	}
	if at, ok := errors.AsType[*fs.PathError](err); ok && at.Path == path { // it is named once
		err = at.Err
	}
	return bailey.WrapError(bailey.Invalid, "read "+what+" "+path, err, hint)
}

func open(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe would wait for its writer
}

func own(path, what string, f *os.File) error {
	fi, err := f.Stat()
	if err != nil {
		return Unreadable(path, what, err)
	}
	stat, ok := fi.Sys().(*syscall.Stat_t)
	if !ok || int(stat.Uid) != os.Getuid() && stat.Uid != 0 {
		return bailey.NewError(bailey.Forbidden, fmt.Sprintf("the %s %s is not yours, and what it says would hold", what, path), fmt.Sprintf("make it yours: chown %d %s", os.Getuid(), path))
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return Unreadable(path, what, err)
	}
	var open, mend []string
	for _, at := range []string{real, filepath.Dir(path), filepath.Dir(real)} {
		fi, err := os.Stat(at)
		if err != nil {
			return Unreadable(path, what, err)
		}
		if !openToAll(fi) || slices.Contains(open, at) {
			continue
		}
		fix := "chmod 600 " + at
		if fi.IsDir() {
			fix = "chmod go-w " + at
		}
		open, mend = append(open, at), append(mend, fix)
	}
	if open != nil {
		return bailey.NewError(bailey.Forbidden, fmt.Sprintf("everybody on this machine can write %s, and what the %s there says would hold", strings.Join(open, " and "), what), "make it yours to write: "+strings.Join(mend, " && "))
	}
	return nil
}

// openToAll reports whether everybody can write a file, or put another into a
// folder in the place of one.
func openToAll(fi fs.FileInfo) bool {
	return fi.Mode()&0o002 != 0 && (!fi.IsDir() || fi.Mode()&fs.ModeSticky == 0)
}

func readBounded(path, what string, f *os.File) ([]byte, error) {
	data, err := readAll(f)
	if err != nil {
		return nil, Unreadable(path, what, err)
	}
	return data, nil
}

func readAll(f *os.File) ([]byte, error) {
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if fi.IsDir() {
		return nil, errors.New("it is a folder")
	}
	if fi.Mode()&fs.ModeNamedPipe != 0 {
		return nil, errors.New("it is a pipe")
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read it: %w", err)
	}
	return data, nil
}

func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// maxLinks is how many links the kernel follows on a path (path_resolution(7)).
const maxLinks = 40

// Through walks a path as the kernel does, and returns the first place in dir
// that it comes by, whether there is something yet or not; empty: none. A path
// that begins in dir comes by nothing else.
func Through(path, dir string) string {
	if within(filepath.Clean(path), dir) {
		return ""
	}
	at, rest, links := "/", path, 0
	for rest != "" {
		var name string
		name, rest, _ = strings.Cut(strings.TrimLeft(rest, "/"), "/")
		if name == "" || name == "." {
			continue
		}
		next := filepath.Join(at, name)
		if within(next, dir) && name != ".." {
			return next
		}
		target, err := os.Readlink(next)
		if err != nil { // no link
			at = next
			continue
		}
		if links++; links > maxLinks {
			return ""
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = target + "/" + rest
	}
	return ""
}
