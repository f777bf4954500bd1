package helper

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/engine/handoff"
	"github.com/bailey-dev/bailey/internal/linux/mount"
	"github.com/bailey-dev/bailey/internal/ocispec"
	"github.com/bailey-dev/bailey/internal/sandbox"
)

// The helper's own file system: a tmpfs in its mount namespace that holds the
// generated root, the sources of the sandbox's mounts, gVisor's bundle and its
// state, and nothing else of the host. It goes away with the namespace.
const (
	stageDir   = "/tmp" // covered by the tmpfs; any folder that always exists would do
	rootDir    = "/root"
	sourceDir  = "/mnt"
	privateDir = "/private"
	linkDir    = "/links"
	gitDir     = "/git"
	bundleDir  = "/bundle"
	stateDir   = "/state"
	netnsFile  = "/netns"
	debugDir   = "/debug"
	maskFile   = "/mask"
)

// pin opens every source before anything is covered, each exactly once.
func pin(s *handoff.Settings, given []*os.File) ([]*os.File, error) {
	files := make([]*os.File, len(s.Spec.Mounts))
	for i, m := range s.Spec.Mounts {
		if k := s.MountFDs[i]; k >= 0 {
			files[i] = given[k]
			continue
		}
		f, err := handoff.Clone(m)
		if err != nil {
			return nil, err
		}
		if err := mount.SetAttr(f, handoff.Restrict(m)); err != nil {
			return nil, err
		}
		files[i] = f
	}
	return files, nil
}

// pinDebug does the same for the folder of gVisor's logs; nil if there is none.
func pinDebug(s *handoff.Settings, given []*os.File) (*os.File, error) {
	switch {
	case s.DebugDir == "":
		return nil, nil //nolint:nilnil // none was asked for
	case s.DebugFD >= 0:
		return given[s.DebugFD], nil
	}
	return mount.Clone(s.DebugDir)
}

// stage builds the helper's file system and enters it.
func stage(s *handoff.Settings, sources []*os.File, debug *os.File) (*ocispec.Staged, error) {
	if err := mount.Private(); err != nil {
		return nil, err
	}
	if err := mount.Tmpfs(stageDir, fmt.Sprintf("mode=0700,size=%d", stageBytes(s.Spec.Limits.MemoryBytes))); err != nil {
		return nil, err
	}
	for _, d := range []string{rootDir, sourceDir, privateDir, linkDir, gitDir, debugDir, bundleDir, stateDir, "/proc", "/dev", "/tmp"} {
		if err := os.Mkdir(stageDir+d, 0o755); err != nil {
			return nil, err
		}
	}
	// A new /proc must be mounted while an unmasked one is still in sight.
	if err := mount.Proc(stageDir + "/proc"); err != nil {
		return nil, layerError("proc", err, "run outside of containers that mask /proc")
	}
	if err := devices(s.Spec.Runtime); err != nil {
		return nil, err
	}
	if debug != nil {
		if err := errors.Join(mount.Attach(debug, stageDir+debugDir), debug.Close()); err != nil {
			return nil, layerError("debug folder", err, "")
		}
	}
	if err := mount.Pivot(stageDir); err != nil {
		return nil, err
	}
	st := &ocispec.Staged{Root: rootDir}
	if err := attach(s, sources, st); err != nil {
		return nil, err
	}
	if err := skeleton(&s.Spec, s.CopySelf); err != nil {
		return nil, err
	}
	if err := privateCopies(&s.Spec, st); err != nil {
		return nil, err
	}
	return st, mask(&s.Spec, st)
}

// stageBytes is the size of the helper's file system. A sandbox can fill it,
// by what it writes into its private copies, and where there is no cgroup the
// limit on memory does not know of that: so it is a part of the limit, as far
// as the least that a start needs allows.
func stageBytes(memory int64) int64 {
	const most, least = 256 << 20, 48 << 20
	return min(most, max(least, memory/4))
}

// devices gives runsc the few device nodes it opens, or a sandbox without
// gVisor those that it has.
func devices(r bailey.Runtime) error {
	names := []string{"null", "zero", "urandom", "random"}
	if r == bailey.RuntimeNative {
		names = append(names, "full", "tty")
	}
	for _, name := range names {
		if err := bindDevice("/dev/"+name, stageDir+"/dev/"+name, mount.Attr{}); err != nil {
			return err
		}
	}
	return nil
}

// attach puts every source where gVisor takes it from. What is read-only and
// lies in the generated root itself is mounted right there: gVisor then serves
// it with the root, as one tree that it need not look at again and again,
// instead of through a mount and a server of its own.
func attach(s *handoff.Settings, sources []*os.File, st *ocispec.Staged) error {
	st.Sources = make([]string, len(sources))
	for i, f := range sources {
		m := s.Spec.Mounts[i]
		isDir, err := isDirectory(f)
		if err != nil {
			return err
		}
		point := rootDir + m.Target
		if err := makePoint(point, isDir); err != nil {
			return fmt.Errorf("mount point %s: %w", m.Target, err)
		}
		if !inRoot(&s.Spec, i) {
			point = filepath.Join(sourceDir, strconv.Itoa(i))
			st.Sources[i] = point
			if err := makePoint(point, isDir); err != nil {
				return err
			}
		}
		if err := errors.Join(mount.Attach(f, point), f.Close()); err != nil {
			return fmt.Errorf("mount %s: %w", m.Source, err)
		}
	}
	return nil
}

// inRoot reports whether mount i is read-only and lies in no other mount. One of
// which files are hidden is served by itself.
func inRoot(s *sandbox.Spec, i int) bool {
	m := s.Mounts[i]
	if m.Writable || m.Target == s.Hidden {
		return false
	}
	for k, o := range s.Mounts {
		if k != i && sandbox.Within(m.Target, o.Target) {
			return false
		}
	}
	return !slices.ContainsFunc(s.Tmpfs, func(t bailey.Tmpfs) bool { return sandbox.Within(m.Target, t.Target) })
}

func isDirectory(f *os.File) (bool, error) {
	fi, err := f.Stat()
	if err != nil {
		return false, fmt.Errorf("look at mount %s: %w", f.Name(), err)
	}
	return fi.IsDir(), nil
}

func makePoint(path string, isDir bool) error {
	if isDir {
		return os.MkdirAll(path, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// skeleton writes the generated part of the sandbox's root file system.
func skeleton(s *sandbox.Spec, copySelf bool) error { //nolint:gocognit // steps in a row
	for _, d := range []string{"/proc", "/sys", "/dev", sandbox.ShadowDir} {
		if err := os.MkdirAll(rootDir+d, 0o755); err != nil {
			return err
		}
	}
	if err := firstProcess(copySelf); err != nil {
		return err
	}
	for _, t := range s.Tmpfs {
		if err := os.MkdirAll(rootDir+t.Target, 0o755); err != nil {
			return err
		}
	}
	for _, f := range s.Files {
		if err := os.MkdirAll(filepath.Dir(rootDir+f.Path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(rootDir+f.Path, f.Data, f.Mode.Perm()); err != nil {
			return err
		}
	}
	for _, l := range s.Links {
		if err := os.MkdirAll(filepath.Dir(rootDir+l.Path), 0o755); err != nil {
			return err
		}
		if err := os.Symlink(l.Target, rootDir+l.Path); err != nil {
			return err
		}
	}
	return nil
}

// firstProcess writes the program of the sandbox's first process.
func firstProcess(copySelf bool) error {
	if !copySelf {
		return nil // bailey's own binary is mounted there
	}
	src, err := os.Open("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("read the first process: %w", err)
	}
	f, err := os.OpenFile(rootDir+sandbox.FirstPath, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return fmt.Errorf("write the first process: %w", errors.Join(err, src.Close()))
	}
	_, err = io.Copy(f, src)
	return errors.Join(err, f.Close(), src.Close())
}

// privateCopies puts the sandbox's own copies over the paths of the workspace
// that the host keeps for itself (docs/adr/0005). A git directory becomes a
// mount of its own, composed here; a copy outside of any is mounted by gVisor.
func privateCopies(s *sandbox.Spec, st *ocispec.Staged) error {
	bases, err := guard(s, st)
	if err != nil {
		return err
	}
	for i, sh := range s.Shadows {
		if err := privateCopy(s, st, bases, i); err != nil {
			return fmt.Errorf("private copy of %s: %w", sh.Path, err)
		}
	}
	if len(s.Shadows) > 0 {
		st.Binds = append(st.Binds, ocispec.Bind{Source: privateDir, Target: sandbox.ShadowDir, Writable: true})
	}
	return nil
}

// guard makes each git directory a guarded mount and returns where each lies
// here.
func guard(s *sandbox.Spec, st *ocispec.Staged) ([]string, error) {
	st.Guarded = make([]bool, len(s.Mounts))
	bases := make([]string, len(s.GitDirs))
	for k, dir := range s.GitDirs {
		i := s.WritableMount(dir)
		if i >= 0 && s.Mounts[i].Target == dir {
			st.Guarded[i] = true
			bases[k] = st.Sources[i]
			continue
		}
		bases[k] = filepath.Join(gitDir, strconv.Itoa(k))
		if err := os.Mkdir(bases[k], 0o755); err != nil {
			return nil, err
		}
		if err := bindOver(stagedPath(s, dir), bases[k]); err != nil {
			return nil, fmt.Errorf("git directory %s: %w", dir, err)
		}
		st.Binds = append(st.Binds, ocispec.Bind{Source: bases[k], Target: dir, Writable: true, Guarded: true})
	}
	return bases, nil
}

func privateCopy(s *sandbox.Spec, st *ocispec.Staged, bases []string, i int) error {
	sh := s.Shadows[i]
	copyPath := filepath.Join(privateDir, strconv.Itoa(i))
	if err := writeCopy(copyPath, sh); err != nil {
		return err
	}
	k := innermost(s.GitDirs, sh.Path)
	switch {
	case k < 0 && sh.Dir:
		st.Binds = append(st.Binds, ocispec.Bind{Source: copyPath, Target: sh.Path, Writable: true})
		return nil
	case k < 0:
		// A pointer such as a worktree's .git file: nothing inside has a reason to
		// change it, so its copy is read-only.
		file := filepath.Join(copyPath, filepath.Base(sh.Path))
		st.Binds = append(st.Binds, ocispec.Bind{Source: file, Target: sh.Path})
		return nil
	}
	target := filepath.Join(bases[k], strings.TrimPrefix(sh.Path, s.GitDirs[k]))
	if sh.Dir {
		return bindOver(copyPath, target)
	}
	return linkOver(i, target)
}

// innermost returns the index of the longest of dirs that holds p, or -1.
func innermost(dirs []string, p string) int {
	best := -1
	for i, d := range dirs {
		if sandbox.Within(p, d) && (best < 0 || len(d) > len(dirs[best])) {
			best = i
		}
	}
	return best
}

// stagedPath is where a path of the sandbox lies in the helper.
func stagedPath(s *sandbox.Spec, p string) string {
	i := s.WritableMount(p)
	return filepath.Join(sourceDir, strconv.Itoa(i), strings.TrimPrefix(p, s.Mounts[i].Target))
}

func bindOver(source, target string) error {
	f, err := mount.Clone(source)
	if err != nil {
		return err
	}
	return errors.Join(mount.Attach(f, target), f.Close())
}

// linkOver covers a file with a symbolic link to its copy. Unlike a bind mount
// of the file this leaves lock-and-rename working, since programs follow the
// link and rename within the copy's folder.
func linkOver(i int, target string) error {
	// The same path must hold inside, where the private folder is mounted.
	inside := filepath.Join(sandbox.ShadowDir, strconv.Itoa(i), filepath.Base(target))
	link := filepath.Join(linkDir, strconv.Itoa(i))
	if err := os.Symlink(inside, link); err != nil {
		return err
	}
	f, err := mount.Clone(link)
	if err != nil {
		return err
	}
	return errors.Join(mount.Attach(f, target), f.Close())
}

// writeCopy writes a shadow's contents into a folder of its own: a Dir as that
// folder, a file as the one file in it.
func writeCopy(dir string, sh bailey.Shadow) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	for _, f := range sh.Files {
		rel := f.Path
		if !sh.Dir {
			rel = filepath.Base(sh.Path)
		}
		p := filepath.Join(dir, rel)
		if !sandbox.Within(p, dir) {
			return fmt.Errorf("file %q is outside of the copy", f.Path)
		}
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(p, f.Data, f.Mode.Perm()|0o600); err != nil {
			return err
		}
	}
	return nil
}

func writeBundle(s *handoff.Settings, st *ocispec.Staged) error {
	spec, err := ocispec.Build(&s.Spec, *st)
	if err != nil {
		return err
	}
	b, err := json.Marshal(spec)
	if err != nil {
		return fmt.Errorf("encode bundle: %w", err)
	}
	return os.WriteFile(bundleDir+"/config.json", b, 0o600)
}

// netnsPath makes a network namespace reachable by path in the helper's own
// mount namespace.
func netnsPath(ns *os.File) (string, error) {
	if err := os.WriteFile(netnsFile, nil, 0o600); err != nil {
		return "", err
	}
	src := "/proc/self/fd/" + strconv.Itoa(int(ns.Fd()))
	if err := unix.Mount(src, netnsFile, "", unix.MS_BIND, ""); err != nil {
		return "", fmt.Errorf("bind network namespace: %w", err)
	}
	return netnsFile, nil
}
