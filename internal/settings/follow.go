package settings

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/mirror"
)

// Follow says what holds in a run that began by some sources when the files
// are as they are now. The user's file and a project's file that is trusted as
// it is hold as they are. Any other change of the project's file may be the
// sandbox's own: what the run began with is then taken as untrusted, and what
// holds is what both that and the file of now let through. So no edit, and no
// removal, opens anything. Widens is of the file of now.
func Follow(start, now Sources, h mirror.Host) (Effective, error) {
	after, err := Resolve(now, h)
	if err != nil || now.Trusted || start.Project == nil {
		return after, err
	}
	floor := now
	floor.Project, floor.Trusted = start.Project, false
	before, err := Resolve(floor, h)
	if err != nil {
		return after, err
	}
	if start.Trusted { // what it denied as the user's own stays that
		before.Deny = slices.Concat(start.Project.Net.Deny, before.Deny)
	}
	return meet(before, after), nil
}

// meet is what two policies both let through, as far as rules can say it;
// where they cannot it is less. Both have the same user's rules.
func meet(a, b Effective) Effective {
	out := b
	out.Mode = lower(a.Mode, b.Mode)
	out.DNS = lower(a.DNS, b.DNS)
	if !a.Ask.Value {
		out.Ask = a.Ask
	}
	out.Allow = nil
	known := saidSet{}
	for _, pair := range [][2]Effective{{a, b}, {b, a}} {
		other, same := pair[1].Policy(), saidBy(pair[1].Allow)
		for _, h := range pair[0].Allow {
			both := same.has(h, true) || same.has(h, false)
			if s := (said{h.Text(), h.Fenced}); !known[s] && (both && other.Mode != bailey.NetNone || other.Covers(h.Rule)) {
				known[s] = true
				out.Allow = append(out.Allow, h)
			}
		}
	}
	out.Deny = slices.Clone(b.Deny)
	known = saidBy(b.Deny)
	for _, h := range a.Deny {
		if !known.has(h, false) && (!h.Fenced || !known.has(h, true)) {
			known[said{h.Text(), h.Fenced}] = true
			out.Deny = append(out.Deny, h)
		}
	}
	return out
}

// said is what a rule says, to be found again: a project's file, which a
// sandbox can write, has thousands of them.
type said struct {
	text   string
	fenced bool
}

type saidSet map[said]bool

func saidBy(list []Held) saidSet {
	out := make(saidSet, len(list))
	for _, h := range list {
		out[said{h.Text(), h.Fenced}] = true
	}
	return out
}

// has reports whether a rule that says the same is there, fenced or not.
func (s saidSet) has(h Held, fenced bool) bool { return s[said{h.Text(), fenced}] }

func lower[T ~uint8](a, b Setting[T]) Setting[T] {
	if a.Value < b.Value {
		return a
	}
	return b
}

// Mark is what can be seen of policy files without reading them: when it is
// the same, so are they. It is empty for none.
type Mark []fileMark

type fileMark struct {
	path         string
	shared       bool // a sandbox can write it
	dev, ino     uint64
	size         int64
	mtime, ctime syscall.Timespec
}

// Equal reports whether nothing was touched between two marks.
func (m Mark) Equal(o Mark) bool { return slices.Equal(m, o) }

// Empties reports whether a file is empty now that was not before, as one is
// for a moment that is being written in place.
func (m Mark) Empties(before Mark) bool {
	return slices.ContainsFunc(m, func(f fileMark) bool {
		return f.size == 0 && slices.ContainsFunc(before, func(o fileMark) bool { return o.path == f.path && o.size > 0 })
	})
}

// Own is the part of a mark that no sandbox can change: that of the user's
// file, and of the records of trust.
func (m Mark) Own() Mark {
	return slices.DeleteFunc(slices.Clone(m), func(f fileMark) bool { return f.shared })
}

// GivenSince reports whether trust in a project's file was given, or given
// anew, since a mark.
func (p Place) GivenSince(path string, m Mark) bool {
	record := p.Trust().record(path)
	is := func(f fileMark) bool { return f.path == record }
	now := p.Mark()
	i, j := slices.IndexFunc(now, is), slices.IndexFunc(m, is)
	return i >= 0 && (j < 0 || now[i] != m[j])
}

// Mark looks at all that Load reads at this place: the user's file, where a
// link to it leads, the project's, and the records of trust.
func (p Place) Mark() Mark {
	var out Mark
	add := func(path string, shared bool, look func(string) (fs.FileInfo, error)) {
		fi, err := look(path)
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				out = append(out, fileMark{path: path + ": " + err.Error(), shared: shared})
			}
			return
		}
		if st, ok := fi.Sys().(*syscall.Stat_t); ok {
			out = append(out, fileMark{path, shared, st.Dev, st.Ino, st.Size, st.Mtim, st.Ctim})
		}
	}
	add(filepath.Join(p.ConfigDir, userFile), false, os.Stat)
	for _, dir := range folders(p.Dir) {
		add(filepath.Join(dir, ProjectFile), true, os.Lstat)
	}
	for _, dir := range ancestors(p.Dir) {
		add(p.Trust().record(filepath.Join(dir, ProjectFile)), false, os.Lstat)
	}
	return out
}
