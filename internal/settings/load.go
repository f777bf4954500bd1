package settings

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
	"github.com/bailey-dev/bailey/internal/mirror"
)

// Names of the files.
const (
	ProjectFile = "bailey.yaml"
	userFile    = "config.yaml"
)

// Place is where files are looked for, and the machine that presets ask.
type Place struct {
	ConfigDir string // of the user's file
	DataDir   string // of what is trusted
	Dir       string // the folder that is worked in; absolute
	Mirror    mirror.Host
}

// Trust is the record of trust at this place.
func (p Place) Trust() Trust { return Trust{filepath.Join(p.DataDir, "trust")} }

// UserFile is where the user's own file is, if there is one.
func (p Place) UserFile() string { return filepath.Join(p.ConfigDir, userFile) }

// Files are the policy files that there are. Nil: there is none.
type Files struct {
	User    *File
	Project *File
	Trusted bool     // the project's, as it is now
	Doubts  []string // files that were trusted and do not hold as they were, a sentence each
}

// Load reads the files of a place. A file that is there and cannot be read, or
// is wrong, is an error: nothing is started by half of a policy.
func Load(p Place) (Files, error) {
	out, project, err := LoadApart(p)
	if err == nil {
		err = project
	}
	return out, err
}

// LoadApart is Load with the error about the project's file apart: a sandbox
// can make one at any time, and it is no reason not to read the user's.
func LoadApart(p Place) (out Files, project, err error) {
	if err = p.keptOut(); err != nil {
		return out, nil, err
	}
	if out.Doubts, err = p.doubts(); err != nil {
		return out, nil, err
	}
	if out.User, err = readUser(p.UserFile()); err != nil {
		return out, nil, err
	}
	if out.Project, project = p.ReadProject(); project == nil && out.Project != nil {
		out.Trusted, project = p.Trust().Holds(out.Project.Path, out.Project.Data)
	}
	return out, project, nil
}

// readUser reads the user's own file, which may be a link to wherever they
// keep it.
func readUser(path string) (*File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe would wait for its writer
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // none is an answer
	}
	if err != nil {
		return nil, unreadable(path, err)
	}
	defer func() { _ = f.Close() }()
	if err := ownFile(path, f); err != nil {
		return nil, err
	}
	return parseOpen(path, f)
}

// ownFile refuses a user's own file that somebody else of the machine could
// have written, or could put another in the place of: what it allows holds in
// every project.
func ownFile(path string, f *os.File) error {
	fi, err := f.Stat()
	if err != nil {
		return unreadable(path, err)
	}
	stat, ok := fi.Sys().(*syscall.Stat_t)
	if !ok || int(stat.Uid) != os.Getuid() && stat.Uid != 0 {
		return bailey.NewError(bailey.Forbidden, fmt.Sprintf("the policy file %s is not yours, and what it says would hold", path), fmt.Sprintf("make it yours: chown %d %s", os.Getuid(), path))
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return unreadable(path, err)
	}
	for _, at := range []string{real, filepath.Dir(path), filepath.Dir(real)} {
		fi, err := os.Stat(at)
		if err != nil {
			return unreadable(path, err)
		}
		if fi.Mode()&0o002 != 0 && (!fi.IsDir() || fi.Mode()&fs.ModeSticky == 0) {
			return bailey.NewError(bailey.Forbidden, fmt.Sprintf("everybody on this machine can write %s, and what the policy file there says would hold", at), "make it yours to write: chmod o-w "+at)
		}
	}
	return nil
}

// ReadFile reads a policy file that a person names.
func ReadFile(path string) (*File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe would wait for its writer
	if err != nil {
		return nil, unreadable(path, err)
	}
	defer func() { _ = f.Close() }()
	return parseOpen(path, f)
}

func parseOpen(path string, f *os.File) (*File, error) {
	data, err := readBounded(f)
	if err != nil {
		return nil, unreadable(path, err)
	}
	return Parse(path, data)
}

func unreadable(path string, err error) error {
	return bailey.WrapError(bailey.Invalid, "read policy file "+path, err, "make it a readable file, or remove it")
}

// ReadProject reads the project's file: that of the folder, or of the nearest
// folder above it up to the root of its git repository.
func (p Place) ReadProject() (*File, error) {
	path, data, err := p.find()
	if err != nil || data == nil {
		return nil, err
	}
	return Parse(path, data)
}

// find returns the project's file as it is; no data is none.
func (p Place) find() (path string, data []byte, err error) {
	for _, dir := range folders(p.Dir) {
		path := filepath.Join(dir, ProjectFile)
		if data, err := p.readProjectIn(dir); err != nil || data != nil {
			return path, data, err
		}
	}
	return "", nil, nil
}

// folders lists where a project's file may be, nearest first.
func folders(dir string) []string {
	var list []string
	for at := dir; ; at = filepath.Dir(at) {
		list = append(list, at)
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			return list
		}
		if at == filepath.Dir(at) {
			return []string{dir} // no repository: the folder alone
		}
	}
}

// readProjectIn reads the file of one folder; nil is none. Whoever wrote it may
// have been hostile: no link is followed, and nothing that is no plain file is
// opened. Above the folder that is worked in, one of another user's is none.
func (p Place) readProjectIn(dir string) ([]byte, error) {
	path := filepath.Join(dir, ProjectFile)
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, unreadable(path, err)
	}
	d, err := beneath.Dir(real)
	if err != nil {
		return nil, unreadable(path, err)
	}
	defer func() { _ = d.Close() }()
	foreign, err := ofStranger(d)
	if err != nil {
		return nil, unreadable(path, err)
	}
	if foreign && dir != p.Dir {
		return nil, nil
	}
	data, _, err := beneath.ReadFile(d, ProjectFile, MaxFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil //nolint:nilnil // none is an answer
	case errors.Is(err, syscall.ELOOP):
		err = errors.New("it is a link, and none is followed in a project")
	case errors.Is(err, beneath.ErrStrange), errors.Is(err, syscall.ENXIO):
		err = fmt.Errorf("it is no plain file of at most %d bytes", MaxFile)
	}
	if err != nil {
		return nil, unreadable(path, err)
	}
	if data == nil {
		data = []byte{} // nil is no file
	}
	return data, nil
}

// ofStranger reports whether the project's file of a folder is neither the
// caller's nor root's. None is nobody's.
func ofStranger(dir *os.File) (bool, error) {
	file, err := beneath.Lstat(dir, ProjectFile)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look at %s: %w", ProjectFile, err)
	}
	return file.UID != os.Getuid() && file.UID != 0, nil
}

func readBounded(f *os.File) ([]byte, error) {
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
