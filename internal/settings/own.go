package settings

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/yamlfile"
)

// keptOut refuses a place where what the user allows is reached by way of the
// folder that is worked in: a sandbox could rewrite it there. Where the folder
// holds bailey's own folders themselves it is no workspace at all, which is
// internal/workspace's to say.
func (p Place) keptOut() error {
	trust := p.Trust()
	paths := []string{filepath.Join(p.ConfigDir, userFile), trust.Dir}
	for _, dir := range ancestors(p.Dir) {
		paths = append(paths, trust.record(filepath.Join(dir, ProjectFile)))
	}
	for _, path := range paths {
		at := yamlfile.Through(path, p.Dir)
		if at == "" {
			continue
		}
		return bailey.NewError(bailey.Forbidden,
			fmt.Sprintf("%s is reached by way of %s, in the folder that is worked in: a sandbox could rewrite there what you allow", path, at),
			fmt.Sprintf("put the file itself in %s in place of the link, or work in another folder", filepath.Dir(path)))
	}
	return nil
}

// ancestors lists a folder and those above it.
func ancestors(dir string) []string {
	list := []string{dir}
	for ; dir != filepath.Dir(dir); list = append(list, dir) {
		dir = filepath.Dir(dir)
	}
	return list
}

// Misnamed returns a file in the folder whose name is nearly that of the
// project's, where that is not there; or "".
func (p Place) Misnamed() string {
	if _, err := os.Lstat(filepath.Join(p.Dir, ProjectFile)); err == nil {
		return ""
	}
	for _, name := range []string{"bailey.yml", ".bailey.yaml", ".bailey.yml"} {
		if _, err := os.Lstat(filepath.Join(p.Dir, name)); err == nil {
			return filepath.Join(p.Dir, name)
		}
	}
	return ""
}

// doubts says which files were trusted and are gone, changed or passed over:
// what they took away does not hold any more. And which is not read, by its name.
func (p Place) doubts() ([]string, error) {
	var out []string
	if name := p.Misnamed(); name != "" {
		out = append(out, name+" is not read: the file is named "+ProjectFile)
	}
	here, _, _ := p.find() // an error is the reader's to say
	for _, dir := range ancestors(p.Dir) {
		path := filepath.Join(dir, ProjectFile)
		was, err := p.Trust().Last(path)
		if err != nil {
			return nil, err
		}
		if was == nil {
			continue
		}
		switch now, err := p.readProjectIn(dir); {
		case err != nil || now == nil:
			out = append(out, path+" was trusted and is gone: what it may have denied is denied no more (bailey policy trust --revoke forgets it)")
		case path != here:
			out = append(out, path+" was trusted and is passed over here: another one is nearer, or a git repository begins below it")
		case !bytes.Equal(now, was):
			out = append(out, path+" is not as it was when it was trusted (bailey policy diff)")
		}
	}
	return out, nil
}

// Seen is the project's file at one time, to tell whether it changed.
type Seen struct {
	path    string
	content string // its digest, or why it cannot be read
}

// Look says what the project's file is now.
func (p Place) Look() Seen {
	path, data, err := p.find()
	switch {
	case err != nil:
		return Seen{path, "unreadable: " + err.Error()}
	case data == nil:
		return Seen{}
	}
	return Seen{path, digest(data)}
}

// Since says in a sentence what became of the file, or "" if it is the same.
func (s Seen) Since(before Seen) string {
	switch {
	case s == before:
		return ""
	case before.path == "":
		return s.path + " was made during the run: it has a word in the next one"
	case s.path == "":
		return before.path + " was deleted during the run: what it denied is denied no more in the next one"
	case s.path != before.path:
		return s.path + " is read in place of " + before.path + " from now on: it was made, or the other deleted, during the run"
	}
	return s.path + " was changed during the run: look at it (bailey policy diff) before the next one"
}

// Forget ends the trust in the project's file, or in one that was there and is
// gone, and returns its path. Nothing is read of it.
func (p Place) Forget() (string, error) {
	trust := p.Trust()
	for _, dir := range ancestors(p.Dir) {
		path := filepath.Join(dir, ProjectFile)
		if _, err := os.Lstat(trust.record(path)); err == nil {
			return path, trust.Take(path)
		}
	}
	return "", bailey.NewError(bailey.NotFound, "no "+ProjectFile+" is trusted here", "change to the folder of the one that is")
}
