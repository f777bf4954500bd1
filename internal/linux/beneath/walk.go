package beneath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// LedError is the refusal to follow a link in a guarded folder, one that
// somebody hostile may write to.
type LedError struct{ Link string }

// Error names the link.
func (e *LedError) Error() string {
	return e.Link + " is a link in a folder that agents write to, and is not followed"
}

// Walked is what a person's name led to, as Named has it.
type Walked struct {
	At   *os.File // a place (O_PATH); the caller closes it
	Path string   // absolute, without links, and checked to lead there again
	Info Info
	Link string // the first link in a guarded folder that was followed: where it lies; or ""

	// Links are those that were followed and lie in a folder, other than the
	// root, that the caller may write to: agents could have made them, where one
	// has run there. Where the system has put one (/home, /var/run) is none's.
	Links []string
}

// Walk is Named link by link: it notices when the way goes by a link that lies
// in one of the guarded folders, by whatever path it came there. Names are
// compared as the kernel has them, and the folders themselves by device and
// inode, so that another name for a guarded folder, a link to it or a mount of
// it, is no way round.
func Walk(name string, guarded ...string) (Walked, error) {
	if !strings.HasPrefix(name, "/") {
		return Walked{}, fmt.Errorf("open %s: %w", name, fs.ErrInvalid)
	}
	w := walker{rest: strings.Split(name, "/"), guards: guardsOf(guarded)}
	return w.walk(name)
}

// WalkHome is Walk from a home, whatever links lead to that: those are not among
// Links, nor where the target of a link names the home by the same path.
func WalkHome(home, rel string) (Walked, error) {
	at, real, _, err := Named(home)
	if err != nil {
		return Walked{}, err
	}
	_ = at.Close() // O_PATH: nothing to lose
	w := walker{rest: strings.Split(real+"/"+rel, "/"), home: strings.TrimSuffix(home, "/"), real: real}
	return w.walk(home + "/" + rel)
}

func (w *walker) walk(name string) (Walked, error) {
	err := w.root()
	for err == nil && len(w.rest) > 0 {
		err = w.step()
	}
	if err == nil {
		w.out.Path, w.out.Info, err = whereIs(w.out.At)
	}
	if err == nil && strings.HasSuffix(name, "/") && !w.out.Info.Mode.IsDir() {
		err = unix.ENOTDIR
	}
	if err != nil {
		_ = w.out.At.Close() // O_PATH: nothing to lose
		return Walked{Link: w.out.Link, Links: w.out.Links}, fmt.Errorf("open %s: %w", name, err)
	}
	return w.out, nil
}

// Folder opens the folder that a person named. A link in one of the guarded
// folders is a LedError. The caller closes it.
func Folder(name string, guarded ...string) (*os.File, error) {
	w, err := Walk(name, guarded...)
	if w.Link != "" { // also where it leads to nothing
		if err == nil {
			_ = w.At.Close() // O_PATH: nothing to lose
		}
		return nil, &LedError{w.Link}
	}
	if err != nil {
		return nil, err
	}
	if !w.Info.Mode.IsDir() {
		_ = w.At.Close() // likewise
		return nil, fmt.Errorf("open folder %s: %w", name, unix.ENOTDIR)
	}
	return w.At, nil
}

// guard is a folder that links are looked for in.
type guard struct {
	path     string
	dev, ino uint64
}

func guardsOf(paths []string) (out []guard) {
	for _, p := range paths {
		if !strings.HasPrefix(p, "/") {
			continue
		}
		g := guard{path: p}
		if at, path, info, err := Named(p); err == nil {
			_ = at.Close() // O_PATH: nothing to lose
			g = guard{path, info.Dev, info.Ino}
		}
		out = append(out, g)
	}
	return out
}

// walker goes a path by one name after the other. Where it is it asks the
// kernel each time: who renames folders meanwhile does not mislead it.
type walker struct {
	out    Walked
	path   string // of out.At
	inside bool   // out.At is a guarded folder, or lies in one
	top    bool   // it is one itself
	rest   []string
	links  int
	guards []guard
	home   string // as links may name it, and
	real   string // where it is
}

func (w *walker) root() error {
	at, err := Dir("/")
	if err != nil {
		return err
	}
	return w.move(at, false)
}

// move makes at the place; kept: it lies below a guarded folder by the way that
// led to it.
func (w *walker) move(at *os.File, kept bool) error {
	if w.out.At != nil {
		_ = w.out.At.Close() // O_PATH: nothing to lose
	}
	w.out.At = at
	info, err := stat(at)
	if err != nil {
		return err
	}
	if w.path, err = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", at.Fd())); err != nil {
		return fmt.Errorf("find %s: %w", at.Name(), err)
	}
	w.inside, w.top = kept, false
	for _, g := range w.guards {
		w.top = w.top || w.path == g.path || g.ino != 0 && info.Dev == g.dev && info.Ino == g.ino
		w.inside = w.inside || w.top || g.path == "/" || strings.HasPrefix(w.path, g.path+"/")
	}
	return nil
}

func (w *walker) step() error {
	name := w.rest[0]
	w.rest = w.rest[1:]
	if name == "" || name == "." {
		return nil
	}
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Mode: 0, Resolve: unix.RESOLVE_NO_MAGICLINKS}
	fd, err := openat2(int(w.out.At.Fd()), name, &how)
	if err != nil {
		return err
	}
	next := os.NewFile(uintptr(fd), name)
	if name == ".." {
		return w.move(next, w.inside && !w.top)
	}
	info, err := stat(next)
	if err == nil && info.Mode&fs.ModeSymlink == 0 {
		return w.move(next, w.inside)
	}
	var to string
	if err == nil {
		to, err = readlink(next)
	}
	_ = next.Close() // O_PATH: nothing to lose
	if err != nil {
		return err
	}
	return w.follow(name, to)
}

// mostLinks is how many the kernel follows (path_resolution(7)).
const mostLinks = 40

func (w *walker) follow(name, to string) error {
	if w.links++; w.links > mostLinks {
		return unix.ELOOP
	}
	if w.inside && w.out.Link == "" {
		w.out.Link = strings.TrimSuffix(w.path, "/") + "/" + name
	}
	if w.path != "/" && MayWrite(w.out.At) {
		w.out.Links = append(w.out.Links, strings.TrimSuffix(w.path, "/")+"/"+name)
	}
	if w.home != "" && strings.HasPrefix(to+"/", w.home+"/") {
		to = w.real + to[len(w.home):]
	}
	w.rest = append(strings.Split(to, "/"), w.rest...)
	if strings.HasPrefix(to, "/") {
		return w.root()
	}
	return nil
}

// readlink reads a link that is open as a place.
func readlink(at *os.File) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(at.Fd()), "", buf)
	if err != nil {
		return "", fmt.Errorf("read link %s: %w", at.Name(), err)
	}
	if n == 0 || n == len(buf) {
		return "", fmt.Errorf("read link %s: %w", at.Name(), ErrStrange)
	}
	return string(buf[:n]), nil
}

// IsLed reports whether an error is, or wraps, a LedError.
func IsLed(err error) bool {
	_, ok := errors.AsType[*LedError](err)
	return ok
}
