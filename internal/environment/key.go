package environment

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey/internal/linux/beneath"
)

const keyDigits = 2 * sha256.Size

// Bounds of what a repository may have us look at for a key.
const (
	maxNames    = 200_000 // files and folders
	maxPerDir   = 50_000
	maxKeyFile  = 64 << 20 // lock files of large projects have some
	maxKeyBytes = 256 << 20
)

// Detect says which kinds a project is of, by the names in its folder.
func Detect(dir *os.File) ([]Kind, error) {
	list, err := beneath.ReadDir(dir, "", maxPerDir)
	if err != nil {
		return nil, fmt.Errorf("look for a project: %w", err)
	}
	var out []Kind
	for _, k := range Kinds() {
		if slices.ContainsFunc(list, func(e beneath.Entry) bool { return k.marks(e) }) {
			out = append(out, k)
		}
	}
	return out, nil
}

// marks reports whether a name at the top of a project says that it is of this
// kind.
func (k Kind) marks(e beneath.Entry) bool {
	if !e.Type.IsRegular() {
		return false
	}
	switch k {
	case Python:
		return slices.Contains([]string{"pyproject.toml", "setup.py", "setup.cfg"}, e.Name) || isRequirements(e.Name)
	case Node:
		return e.Name == "package.json"
	case Go:
		return e.Name == "go.mod" || e.Name == "go.work"
	}
	return false
}

func isRequirements(name string) bool {
	return strings.HasSuffix(name, ".txt") && (strings.Contains(name, "require") || strings.Contains(name, "constraint"))
}

// decides reports whether a file, anywhere in a project, decides what an
// environment of this kind holds.
func (k Kind) decides(rel string) bool {
	dir, name := path.Split(rel)
	switch k {
	case Python:
		in := path.Base(path.Clean(dir))
		return slices.Contains([]string{"pyproject.toml", "setup.py", "setup.cfg", "poetry.lock", "uv.lock"}, name) || isRequirements(name) ||
			strings.HasSuffix(name, ".txt") && (in == "requirements" || in == "constraints")
	case Node:
		return slices.Contains([]string{"package.json", "package-lock.json", "npm-shrinkwrap.json", ".npmrc"}, name)
	case Go:
		return slices.Contains([]string{"go.mod", "go.sum", "go.work", "go.work.sum"}, name)
	}
	return false
}

// Ingredients are what an environment is built from, beside files.
type Ingredients struct {
	Kinds    []Kind
	Tools    []string // versions
	Packages []string
	Arch     string
}

// Key is a digest of all that decides what an environment holds: the kinds, the
// versions of the tools, the packages asked for, the recipes, and the files of
// the project in which packages and their versions are named. A link is a name
// with a target: what it leads to is not looked at.
func Key(project *os.File, in Ingredients) (string, error) {
	h := sha256.New()
	put(h, "version", fmt.Sprint(FormatVersion), in.Arch)
	for _, k := range in.Kinds {
		put(h, "kind", string(k), recipe(string(k)))
	}
	put(h, append([]string{"tools"}, in.Tools...)...)
	put(h, append([]string{"packages"}, in.Packages...)...)
	w := keyWalk{dir: project, kinds: in.Kinds, to: h, names: maxNames, bytes: maxKeyBytes}
	if err := w.folder(""); err != nil {
		return "", fmt.Errorf("look at the project: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// put adds a record that no other record can be taken for.
func put(h hash.Hash, words ...string) {
	_, _ = fmt.Fprintf(h, "%d\n", len(words))
	for _, w := range words {
		_, _ = fmt.Fprintf(h, "%d:%s", len(w), w)
	}
}

type keyWalk struct {
	dir   *os.File
	kinds []Kind
	to    hash.Hash
	names int
	bytes int64
}

func (w *keyWalk) folder(rel string) error {
	list, err := beneath.ReadDir(w.dir, rel, maxPerDir)
	if err != nil {
		return err
	}
	if w.names -= len(list); w.names < 0 {
		return fmt.Errorf("more than %d files: %w", maxNames, beneath.ErrStrange)
	}
	for _, e := range list {
		at := path.Join(rel, e.Name)
		switch {
		case e.Type.IsDir():
			err = w.folder(at)
		case slices.ContainsFunc(w.kinds, func(k Kind) bool { return k.decides(at) }):
			err = w.file(at, e.Type)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *keyWalk) file(rel string, kind fs.FileMode) error {
	if kind&fs.ModeSymlink != 0 {
		target, err := beneath.Readlink(w.dir, rel)
		put(w.to, "link", rel, target)
		return err
	}
	data, _, err := beneath.ReadFile(w.dir, rel, maxKeyFile)
	if err != nil {
		return err
	}
	if w.bytes -= int64(len(data)); w.bytes < 0 {
		return errors.New("lock and requirement files are too large together")
	}
	sum := sha256.Sum256(data)
	put(w.to, "file", rel, hex.EncodeToString(sum[:]))
	return nil
}
