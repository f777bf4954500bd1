package carry

import (
	"bytes"
	"context"
	"slices"

	"github.com/bailey-dev/bailey/internal/task"
)

// inspector is a sink that looks at what a commit adds, and hands it on. It
// leaves out what git would refuse to deliver.
type inspector struct {
	to      sink
	refused *refusals
	ctx     context.Context //nolint:containedctx // of the process that reads the base
	git     git
	files   map[string]*file // of the base
	planted []task.Planted
	found   map[string][]string // what is odd, and in which files
	more    int
}

// Limits of what is said.
const (
	maxPlanted   = 500
	maxOdd       = 20
	maxInspected = 8 << 20
)

func newInspector(ctx context.Context, g git, files map[string]*file, to sink) *inspector {
	return &inspector{to: to, ctx: ctx, git: g, files: files, planted: []task.Planted{}, found: map[string][]string{}}
}

func (i *inspector) put(path string, mode uint32, data []byte) error {
	if why := badContents(path, data); why != "" {
		i.refused.add(path, why)
		return nil
	}
	i.look(path, mode, data)
	return i.to.put(path, mode, data)
}

func (i *inspector) mode(path string, mode uint32, id string) error {
	if mode == modeProgram {
		i.odd("files can be executed that could not before", path)
	}
	return i.to.mode(path, mode, id)
}

func (i *inspector) remove(path string) error { return i.to.remove(path) }

// look sees a file that is new or changed.
func (i *inspector) look(path string, mode uint32, data []byte) {
	base := i.files[path]
	if p := plantedAt(path, mode, data, func() []byte { return i.base(base) }); p.Kind != "" {
		i.plant(p)
	}
	if mode == modeProgram && (base == nil || base.mode != modeProgram) {
		i.odd("files can be executed that could not before", path)
	}
	if mode == modeLink || len(data) > maxInspected {
		return
	}
	if isBinary(data) {
		if beginsAsText(data) {
			i.odd("a text holds a NUL, which hides its change from the diff", path)
		}
		return
	}
	odd := oddities(data)
	if len(odd) > 0 && base != nil {
		was := oddities(i.base(base))
		odd = slices.DeleteFunc(odd, func(s string) bool { return slices.Contains(was, s) })
	}
	for _, what := range odd {
		i.odd(what, path)
	}
	if isLockfile(path) {
		for _, source := range newSources(i.base(base), data) {
			i.odd("a lockfile fetches from "+printable(source)+", which it did not before", path)
		}
	}
}

func (i *inspector) plant(p task.Planted) {
	if len(i.planted) >= maxPlanted {
		i.more++
		return
	}
	i.planted = append(i.planted, p)
}

func (i *inspector) odd(what, path string) {
	if len(i.found) < maxOdd || i.found[what] != nil {
		i.found[what] = append(i.found[what], quoted(path))
	}
}

// base reads what a file was; nil if it was not, or is too large.
func (i *inspector) base(f *file) []byte {
	if f == nil || f.mode == modeModule {
		return nil
	}
	data, err := i.git.run(i.ctx, nil, maxInspected, "cat-file", "blob", f.id)
	if err != nil {
		return nil
	}
	return data
}

// isBinary judges as git does: by a NUL among the first bytes.
func isBinary(data []byte) bool {
	const first = 8000
	return bytes.IndexByte(data[:min(len(data), first)], 0) >= 0
}

// beginsAsText reports whether data that passes for binary has lines of plain
// text before its first NUL: a shell, for one, runs them.
func beginsAsText(data []byte) bool {
	const least = 8
	text, _, _ := bytes.Cut(data, []byte{0})
	first, _, _ := bytes.Cut(text, []byte("\n"))
	if len(text) < least || len(first) == len(text) {
		return false
	}
	return !bytes.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\n' && r != '\r' && r != '\t' || r == '\uFFFD' })
}

// warnings are one line for each thing that is odd.
func (i *inspector) warnings() []string {
	list := []string{}
	for what, paths := range i.found {
		list = append(list, what+": "+someOf(paths))
	}
	slices.Sort(list)
	if i.more > 0 {
		list = append(list, "more files than are named would run something on this machine later")
	}
	return list
}
