package environment

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
)

// The names in an environment's folder.
const (
	manifestName = "env.json"
	treeName     = "root"
)

// Environment is one that is there and whole.
type Environment struct {
	Manifest Manifest
	Folder   string // of it in the store, absolute

	tree bailey.FileID
	hold *os.File // the folder, locked against its removal
}

// Open reads the environment in a folder (Store.Find knows the folders) and
// keeps it from being removed until Close. uid is the user whose it has to be.
// Errors are of type *bailey.Error.
func Open(folder string, uid int) (*Environment, error) {
	e, err := open(folder, uid)
	if err != nil {
		return nil, bailey.WrapError(bailey.Invalid, fmt.Sprintf("the environment in %s is not usable", folder), err, "build it again: bailey env build --rebuild")
	}
	return e, nil
}

func open(folder string, uid int) (*Environment, error) {
	const tries = 4
	for range tries {
		hold, err := lockFolder(folder, syscall.LOCK_SH)
		if err != nil {
			return nil, err
		}
		if at, err := beneath.Where(hold); err != nil || at != folder {
			_ = hold.Close() // another was put in its place meanwhile
			continue
		}
		e, err := read(folder, hold, uid)
		if err != nil {
			return nil, errors.Join(err, hold.Close())
		}
		return e, nil
	}
	return nil, errors.New("it is replaced again and again, or there is a link in its path")
}

func read(folder string, hold *os.File, uid int) (*Environment, error) {
	dir, err := beneath.Dir(folder)
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }() // a place, no contents
	data, info, err := beneath.ReadFile(dir, manifestName, maxManifest)
	if err != nil {
		return nil, err
	}
	if info.UID != uid {
		return nil, fmt.Errorf("%s belongs to user %d", manifestName, info.UID)
	}
	m, err := ParseManifest(data)
	if err != nil {
		return nil, err
	}
	tree, err := beneath.Lstat(dir, treeName)
	if err != nil {
		return nil, err
	}
	if !tree.Mode.IsDir() || tree.UID != uid {
		return nil, fmt.Errorf("%s is not a folder of the user's", treeName)
	}
	return &Environment{Manifest: m, Folder: folder, tree: bailey.FileID{Dev: tree.Dev, Ino: tree.Ino}, hold: hold}, nil
}

// Close lets the environment be removed and replaced again. Twice does no harm.
func (e *Environment) Close() error {
	if e == nil || e.hold == nil {
		return nil
	}
	err := e.hold.Close()
	e.hold = nil
	return err
}

// Tree is the folder of the host that a sandbox sees at MountPath.
func (e *Environment) Tree() string { return filepath.Join(e.Folder, treeName) }

// Use is what a sandbox gets of an environment. It holds as long as the
// environment is not closed.
type Use struct {
	Mounts   []bailey.Mount // the tree, read-only
	Links    []bailey.Link  // of the root file system
	Path     []string       // folders for the front of PATH
	Env      []string       // NAME=VALUE
	Programs []string       // of the machine, that have to be shown as if the command were one of them
}

// In returns what a sandbox gets whose work tree, or a part of it, is at root.
// The project's folder is the one that Manifest.Folder names below root, if
// there is such a folder (exists says so of an absolute path), else root itself.
func (e *Environment) In(root string, exists func(path string) bool) Use {
	m := &e.Manifest
	project := root
	if m.Folder != "" && exists(path.Join(root, m.Folder)) {
		project = path.Join(root, m.Folder)
	}
	u := Use{
		Mounts:   []bailey.Mount{{Source: e.Tree(), Target: MountPath, Owned: true, Why: "environment " + m.Name, Is: e.tree}},
		Links:    []bailey.Link{{Path: RepoPath, Target: project}},
		Path:     m.Path,
		Programs: m.Programs,
	}
	for _, v := range m.Variables {
		u.Env = append(u.Env, v.Name+"="+v.Value)
	}
	for _, k := range m.Kinds {
		switch k {
		case Python:
			u.Env = append(u.Env, "PYTHONPATH="+path.Join(project, m.Source))
		case Node:
			u.Links = append(u.Links, bailey.Link{Path: modulesPath, Target: MountPath + "/node/node_modules"})
		case Go:
		}
	}
	return u
}

// Exists reports whether there is a folder at a path; it follows no link at its
// end.
func Exists(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// lockFolder opens a folder and locks it: shared to use it, exclusively to take
// it away. It does not wait: a lock that is held is EWOULDBLOCK.
func lockFolder(path string, how int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("open folder: %w", err)
	}
	for {
		err = syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock folder %s: %w", path, err), f.Close())
	}
	return f, nil
}

func held(err error) bool { return errors.Is(err, syscall.EWOULDBLOCK) }

func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// notFound is the error of a name or path that is none of the store's.
func notFound(asked string, known []string) error {
	hint := "bailey env build makes one"
	if len(known) > 0 {
		hint = "there are: " + strings.Join(known, ", ")
	}
	return bailey.NewError(bailey.NotFound, fmt.Sprintf("there is no environment %q", asked), hint)
}
