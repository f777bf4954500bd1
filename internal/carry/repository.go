package carry

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/gitdata"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
)

// repository is a user's repository as its files describe it.
type repository struct {
	Repository
	root       string   // of the work tree
	subdir     string   // of the path that was named, below root
	gitDir     string   // this work tree's own
	common     string   // what it shares with others
	objects    []string // object stores: its own, and the alternates
	hash       int      // bytes of an object id
	config     gitdata.Config
	worktree   gitdata.Config // config.worktree
	commonDir  *os.File
	gitDirFile *os.File
	rootDir    *os.File
}

// open finds the repository that a path lies in. It reads files of it and
// starts nothing.
func open(at Repository) (*repository, error) {
	if !at.allows(at.Path) {
		return nil, at.outside()
	}
	dir, err := beneath.Dir(at.Path)
	if err != nil {
		return nil, notFolder(at.Path, err)
	}
	_ = dir.Close() // O_PATH: nothing to lose
	root, found, err := at.walkUp()
	if err != nil {
		return nil, err
	}
	subdir, err := filepath.Rel(root, at.Path)
	if err != nil {
		return nil, fmt.Errorf("find %s in its repository: %w", at.Path, err)
	}
	if subdir == "." {
		subdir = ""
	}
	r := &repository{Repository: at, root: root, subdir: subdir, gitDir: found.GitDir, common: found.CommonDir}
	return r, r.look()
}

// outside says that a path is not to be worked on, or that there is no such
// path, which is the better thing to know.
func (at Repository) outside() error {
	dir, err := beneath.Dir(at.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return notFolder(at.Path, err)
	}
	if err == nil {
		_ = dir.Close() // O_PATH: nothing to lose
	}
	return bailey.NewError(bailey.Forbidden, at.Path+" lies outside of the folders that tasks may work in", "they are "+strings.Join(at.Roots, ", ")+at.From)
}

// notFolder says why the folder that was named cannot be opened.
func notFolder(path string, err error) error {
	switch {
	case errors.Is(err, syscall.ELOOP):
		return bailey.NewError(bailey.Forbidden, path+" has a symbolic link in it", "repo_path (--repo) is the folder by its own path, as `pwd -P` prints it")
	case errors.Is(err, fs.ErrNotExist):
		return bailey.NewError(bailey.NotFound, path+" does not exist", "repo_path (--repo) is a folder in a git repository")
	case errors.Is(err, syscall.ENOTDIR):
		return bailey.NewError(bailey.Invalid, path+" is not a folder", "repo_path (--repo) is a folder in a git repository")
	case errors.Is(err, fs.ErrPermission):
		return bailey.NewError(bailey.Forbidden, path+" cannot be opened", "repo_path (--repo) is a folder of your own")
	}
	return fmt.Errorf("open %s: %w", path, err)
}

// allows reports whether a path lies in one of the roots.
func (at Repository) allows(path string) bool {
	return slices.ContainsFunc(at.Roots, func(root string) bool {
		return filepath.IsAbs(root) && (path == root || root == "/" || strings.HasPrefix(path, root+"/"))
	})
}

// walkUp looks for the work tree that a path lies in, no higher than the roots.
func (at Repository) walkUp() (string, gitdata.Repo, error) {
	none := gitdata.Repo{}
	for dir := at.Path; at.allows(dir); dir = filepath.Dir(dir) {
		found, err := gitdata.Find(dir)
		if err != nil {
			return "", none, refuse(dir, "its .git is a link or a special file")
		}
		switch found.Kind {
		case gitdata.Broken:
			return "", none, refuse(dir, found.Reason)
		case gitdata.None:
			if gitdata.IsGitDir(dir) {
				return "", none, bailey.NewError(bailey.Invalid, dir+" is a bare repository, or the inside of one", "name a work tree: `git worktree add` makes one")
			}
		case gitdata.Plain, gitdata.Linked, gitdata.Submodule:
			return dir, found, nil
		}
		if dir == "/" {
			break
		}
	}
	return "", none, bailey.NewError(bailey.NotFound, at.Path+" is not in a git repository that tasks may work in", "name a folder of one with repo_path (--repo), or make this one: `git init`, and commit something")
}

// refuse says what is wrong with a repository.
func refuse(repo, why string) error {
	return bailey.NewError(bailey.Forbidden, "the repository "+repo+" is refused: "+why, "")
}

// look checks who the parts of a repository belong to, and how it is to be read.
func (r *repository) look() error {
	var err error
	if r.rootDir, err = r.mine(r.root); err != nil {
		return err
	}
	if r.commonDir, err = r.mine(r.common); err != nil {
		return err
	}
	if r.gitDirFile, err = r.mine(r.gitDir); err != nil {
		return err
	}
	if _, err := beneath.Lstat(r.commonDir, "commondir"); err == nil {
		return refuse(r.root, "its git folder leads to another")
	}
	if r.config, err = r.readConfig(r.commonDir, "config"); err != nil {
		return err
	}
	if r.worktree, err = r.readConfig(r.gitDirFile, "config.worktree"); err != nil {
		return err
	}
	if err := r.format(); err != nil {
		return err
	}
	return r.store(filepath.Join(r.common, "objects"), 0)
}

// mine opens a folder that belongs to the owner and lies in the roots.
func (r *repository) mine(path string) (*os.File, error) {
	if !r.allows(path) {
		return nil, refuse(r.root, path+" lies outside of the folders that tasks may work in")
	}
	dir, err := beneath.Dir(path)
	if err != nil {
		return nil, refuse(r.root, "the folder "+path+" cannot be opened, or has a link in its path")
	}
	info, err := beneath.Lstat(dir, "")
	if err == nil && info.UID != r.Owner {
		err = bailey.NewError(bailey.Forbidden, fmt.Sprintf("%s does not belong to you but to the user %d", path, info.UID), "name a repository of your own")
	}
	if err != nil {
		_ = dir.Close() // O_PATH: nothing to lose
		return nil, err
	}
	return dir, nil
}

func (r *repository) readConfig(dir *os.File, name string) (gitdata.Config, error) {
	data, _, err := beneath.ReadFile(dir, name, gitdata.MaxConfigBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, refuse(r.root, "its file "+name+" cannot be read, or is a link")
	}
	cfg, err := gitdata.ParseConfig(data)
	if err != nil {
		return nil, refuse(r.root, "its file "+name+" is broken: "+err.Error())
	}
	return cfg, nil
}

// set reports whether a variable of the repository's configuration is true.
func (r *repository) set(section, key string) bool {
	v, ok := r.worktree.Get(section, key)
	if !ok {
		v, ok = r.config.Get(section, key)
	}
	return ok && !slices.Contains([]string{"false", "no", "off", "0", ""}, strings.ToLower(v))
}

// format understands the extensions of a repository (gitrepository-layout(5),
// git-config(1)) and refuses those that it does not know.
func (r *repository) format() error {
	const sha1, sha256 = 20, 32
	r.hash = sha1
	for _, e := range r.config {
		if e.Section != "extensions" || e.Subsection != "" {
			continue
		}
		value := strings.ToLower(e.Value)
		switch e.Key {
		case "objectformat":
			switch value {
			case "sha1":
			case "sha256":
				r.hash = sha256
			default:
				return refuse(r.root, "its objects are named by "+printable(e.Value)+", which is not known")
			}
		case "refstorage":
			if value != "files" {
				return bailey.NewError(bailey.Unsupported, "the repository "+r.root+" keeps its branches as "+printable(e.Value), "`git refs migrate --ref-format=files` keeps them in files")
			}
		case "noop", "noop-v1", "partialclone", "preciousobjects", "worktreeconfig", "relativeworktrees", "compatobjectformat":
		default:
			return refuse(r.root, "it has the extension "+printable(e.Key)+", which is not known")
		}
	}
	return nil
}

// partial reports whether the repository fetches objects when it needs them.
func (r *repository) partial() bool {
	return slices.ContainsFunc(r.config, func(e gitdata.Entry) bool {
		return e.Section == "extensions" && e.Key == "partialclone" || e.Section == "remote" && e.Key == "promisor" && e.Value != "false"
	})
}

// Limits of alternates; git itself follows five levels.
const (
	maxAlternateDepth = 5
	maxStores         = 16
	maxAlternateBytes = 64 << 10
)

// store adds an object store and those that it borrows from.
func (r *repository) store(path string, depth int) error {
	if slices.Contains(r.objects, path) {
		return nil
	}
	if depth > maxAlternateDepth || len(r.objects) >= maxStores {
		return refuse(r.root, "it borrows objects from too many others")
	}
	dir, err := r.mine(path)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }() // O_PATH: nothing to lose
	r.objects = append(r.objects, path)
	text, _, err := beneath.ReadFile(dir, "info/alternates", maxAlternateBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return refuse(r.root, path+"/info/alternates cannot be read, or is a link")
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		if err := r.alternate(path, line, depth); err != nil {
			return err
		}
	}
	return nil
}

func (r *repository) alternate(of, line string, depth int) error {
	if line[0] == '"' {
		return refuse(r.root, "it borrows objects from a folder whose name is quoted")
	}
	path := line
	if !filepath.IsAbs(path) {
		path = filepath.Join(of, path)
	}
	path = filepath.Clean(path)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil // git passes it over too
	}
	if err := r.store(path, depth+1); err != nil {
		return bailey.WrapError(bailey.Forbidden, "the repository "+r.root+" borrows objects from "+printable(path), err, "`git repack -a -d` and removing objects/info/alternates make it whole")
	}
	return nil
}

// alternates is the variable that has a git of bailey's own read the stores.
func (r *repository) alternates() string {
	quoted := make([]string, len(r.objects))
	for i, path := range r.objects {
		quoted[i] = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(path) + `"`
	}
	return "GIT_ALTERNATE_OBJECT_DIRECTORIES=" + strings.Join(quoted, ":")
}

// shallow returns the commits whose parents a shallow clone does not have, as
// the file that says so.
func (r *repository) shallow() ([]byte, error) {
	const most = 16 << 20
	data, _, err := beneath.ReadFile(r.commonDir, "shallow", most)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(data) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, refuse(r.root, "its file shallow cannot be read, or is a link")
	}
	for line := range strings.Lines(string(data)) {
		if !isID(strings.TrimSuffix(line, "\n"), r.hash) {
			return nil, refuse(r.root, "its file shallow is broken")
		}
	}
	return data, nil
}

// isID reports whether s is a whole object id in lower case.
func isID(s string, hash int) bool {
	if len(s) != 2*hash {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
