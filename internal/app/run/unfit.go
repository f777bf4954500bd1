package run

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/rootfs"
	"github.com/bailey-dev/bailey/internal/sandbox"
)

// unfit says why the command would not start, with the exit code that it would
// end with, in the words of who starts it inside. It says so only where that is
// sure before there is a sandbox: "" promises nothing.
func (p *plan) unfit() (why string, code int) {
	name := p.exec.Argv[0]
	if p.agent != "" { // it was found already
		return "", 0
	}
	if strings.Contains(name, "/") {
		if !path.IsAbs(name) {
			name = path.Join(p.exec.Dir, name)
		}
		switch mode, is := p.foresee(name, mostLinks); {
		case is == absent:
			return name + " does not exist in the sandbox", bailey.ExitNotFound
		case is == present && mode.IsRegular() && mode.Perm()&0o111 == 0:
			return name + " is not executable", bailey.ExitCannotRun
		}
		return "", 0
	}
	for _, pair := range p.exec.Env {
		list, ok := strings.CutPrefix(pair, "PATH=")
		if !ok {
			continue
		}
		for dir := range strings.SplitSeq(list, ":") {
			if _, is := p.foresee(path.Join(dir, name), mostLinks); is != absent {
				return "", 0
			}
		}
		return "command " + name + " not found in the sandbox's PATH", bailey.ExitNotFound
	}
	return "", 0
}

// foreseen is what is known of a file before there is the sandbox that it is in.
type foreseen uint8

const (
	unsure foreseen = iota
	absent
	present
)

// mostLinks is how many of the sandbox's own links are followed on one way.
const mostLinks = 8

// foresee looks for a file of the sandbox to be: in what bailey puts there, and
// behind the mount that it lies in.
func (p *plan) foresee(file string, links int) (fs.FileMode, foreseen) {
	if !path.IsAbs(file) || links == 0 {
		return 0, unsure
	}
	for _, l := range p.spec.Links {
		if !sandbox.Within(file, l.Path) {
			continue
		}
		target := l.Target
		if !path.IsAbs(target) {
			target = path.Join(path.Dir(l.Path), target)
		}
		return p.foresee(path.Join(target, strings.TrimPrefix(file, l.Path)), links-1)
	}
	if p.isMade(file) {
		return 0, unsure
	}
	if m := p.mountOf(file); m != nil {
		return lookBehind(m.Source, strings.TrimPrefix(strings.TrimPrefix(file, m.Target), "/"))
	}
	if p.home != nil && sandbox.Within(file, rootfs.HomeDir) {
		return 0, unsure
	}
	if slices.ContainsFunc([]string{"/dev", "/proc", "/run", "/sys"}, func(dir string) bool { return sandbox.Within(file, dir) }) {
		return 0, unsure
	}
	return 0, absent
}

// mountOf is the mount that a file lies in, the innermost one, or nil.
func (p *plan) mountOf(file string) (in *bailey.Mount) {
	for i, m := range p.spec.Mounts {
		if sandbox.Within(file, m.Target) && (in == nil || len(m.Target) > len(in.Target)) {
			in = &p.spec.Mounts[i]
		}
	}
	return in
}

// isMade reports whether a file is, or lies behind, one that bailey makes.
func (p *plan) isMade(file string) bool {
	for _, f := range p.spec.Files {
		if sandbox.Within(file, f.Path) {
			return true
		}
	}
	for _, f := range p.files {
		if sandbox.Within(file, f.Path) {
			return true
		}
	}
	return false
}

// lookBehind looks below a folder, or at a file, of the host. A link on the way
// leads elsewhere inside.
func lookBehind(source, rel string) (fs.FileMode, foreseen) {
	at, rest := source, rel
	for {
		info, err := os.Lstat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return 0, absent
		case err != nil || info.Mode()&fs.ModeSymlink != 0:
			return 0, unsure
		case rest == "":
			return info.Mode(), present
		case !info.IsDir():
			return 0, absent
		}
		var next string
		next, rest, _ = strings.Cut(rest, "/")
		at = filepath.Join(at, next)
	}
}
