package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/bailey-dev/bailey/internal/linux/beneath"
	"github.com/bailey-dev/bailey/internal/mirror"
	"github.com/bailey-dev/bailey/internal/yamlfile"
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
	Edited  bool     // the project's was trusted, and not as it is now
	Doubts  []string // files that were trusted and do not hold as they were, or are not read: a sentence each
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
		out.Trusted, out.Edited, project = p.Trust().state(out.Project)
	}
	return out, project, nil
}

// what a policy file is called where one cannot be read.
const what = "policy file"

// readUser reads the user's own file, which may be a link to wherever they
// keep it.
func readUser(path string) (*File, error) {
	data, err := yamlfile.ReadOwn(path, what)
	if err != nil || data == nil {
		return nil, err
	}
	return Parse(path, data)
}

// ReadFile reads a policy file that a person names.
func ReadFile(path string) (*File, error) {
	data, err := yamlfile.Read(path, what)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

func unreadable(path string, err error) error { return yamlfile.Unreadable(path, what, err) }

// ReadProject reads the project's file: that of the folder, or of the nearest
// folder above it up to the root of its git repository.
func (p Place) ReadProject() (*File, error) {
	path, data, err := p.find()
	if err != nil || data == nil {
		return nil, err
	}
	return parse(path, data, true)
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
