package workspace

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/gitdata"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
)

// maxNamed is how many names one summary lists.
const maxNamed = 8

// Copy is what a private copy holds after the run. Its bytes are hostile.
type Copy struct {
	Files []bailey.File `json:"files"` // as in bailey.Shadow
	Gone  bool          `json:"gone"`  // nothing is there
	Odd   bool          `json:"odd"`   // something could not be read: a link, a special file, too much
}

// Observe reads the private copy of s that lies at rel below dir. It never
// fails: what cannot be read makes the copy Odd. It may run in the helper, and
// its result may be sent.
func Observe(s bailey.Shadow, dir *os.File, rel string) Copy {
	c := observer{dir: dir, rel: rel, left: maxHooksBytes, copy: Copy{Files: nil, Gone: false, Odd: false}}
	info, err := beneath.Lstat(dir, rel)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.copy.Gone = true
	case err != nil || info.Mode.IsDir() != s.Dir:
		c.copy.Odd = true
	case s.Dir:
		c.folder("", 0)
	default:
		c.file("")
	}
	return c.copy
}

type observer struct {
	dir  *os.File
	rel  string
	left int64
	copy Copy
}

func (c *observer) folder(sub string, depth int) {
	entries, err := beneath.ReadDir(c.dir, filepath.Join(c.rel, sub), maxHookFiles)
	c.copy.Odd = c.copy.Odd || err != nil || depth > maxShadowDepth
	if depth > maxShadowDepth {
		return
	}
	for _, e := range entries {
		path := filepath.Join(sub, e.Name)
		switch {
		case e.Type.IsDir():
			c.folder(path, depth+1)
		case e.Type.IsRegular():
			c.file(path)
		default:
			c.copy.Odd = true
		}
	}
}

func (c *observer) file(sub string) {
	data, info, err := beneath.ReadFile(c.dir, filepath.Join(c.rel, sub), c.left)
	if err != nil || len(c.copy.Files) >= maxHookFiles {
		c.copy.Odd = true
		return
	}
	c.left -= int64(len(data))
	c.copy.Files = append(c.copy.Files, bailey.File{Path: sub, Mode: info.Mode.Perm(), Data: data})
}

// Compare says what the sandbox did to a private copy: at most one Finding,
// with the names that were added, changed or removed. For a configuration file
// these are its variables, without their values. The host's file is as it was.
func Compare(s bailey.Shadow, after Copy) []Finding {
	var what []string
	if after.Gone {
		what = append(what, "was removed")
	} else {
		before := names(s, s.Files)
		what = difference(before, names(s, after.Files))
	}
	if after.Odd {
		what = append(what, "holds what cannot be read")
	}
	if len(what) == 0 {
		return nil
	}
	return []Finding{finding(s.Path, strings.Join(what, "; "))}
}

// names maps each name that a copy holds to its contents.
func names(s bailey.Shadow, files []bailey.File) map[string]string {
	m := make(map[string]string, len(files))
	for _, f := range files {
		switch {
		case s.Dir:
			m[f.Path] = fmt.Sprintf("%o %s", f.Mode, f.Data)
		case strings.HasPrefix(filepath.Base(s.Path), "config"):
			configNames(m, f.Data)
		default:
			m["contents"] = string(bytes.TrimSpace(f.Data))
		}
	}
	return m
}

// configNames maps each variable to a digest of its values, which a hostile
// file may give many of, and shortens a section that it would repeat for each:
// what is kept grows with the file and no faster.
func configNames(m map[string]string, data []byte) {
	cfg, err := gitdata.ParseConfig(data)
	var last, short gitdata.Entry // a section is looked at once, not with each of its variables
	for _, e := range cfg {
		if e.Section != last.Section || e.Subsection != last.Subsection {
			last = e
			short.Section, short.Subsection = shorten(e.Section), shorten(e.Subsection)
		}
		short.Key = e.Key
		name := short.Name()
		sum := sha256.Sum256([]byte(m[name] + "\x00" + e.Value))
		m[name] = string(sum[:])
	}
	if err != nil {
		m["(not git configuration)"] = ""
	}
}

// shorten cuts a long name and puts a digest of it behind, so that two that
// begin alike stay two.
func shorten(name string) string {
	const most = 100
	if len(name) <= most {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return fmt.Sprintf("%s…%x", name[:most], sum[:8])
}

// difference lists what changed between two maps, in a fixed order.
func difference(before, after map[string]string) []string {
	var added, changed, removed []string
	for name, value := range after {
		old, ok := before[name]
		switch {
		case !ok:
			added = append(added, name)
		case old != value:
			changed = append(changed, name)
		}
	}
	for name := range before {
		if _, ok := after[name]; !ok {
			removed = append(removed, name)
		}
	}
	var out []string
	for _, part := range []struct {
		verb  string
		names []string
	}{{"added ", added}, {"changed ", changed}, {"removed ", removed}} {
		if len(part.names) == 0 {
			continue
		}
		slices.Sort(part.names)
		text := part.verb + strings.Join(part.names[:min(len(part.names), maxNamed)], ", ")
		if more := len(part.names) - maxNamed; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		out = append(out, text)
	}
	return out
}
