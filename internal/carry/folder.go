package carry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// settings are what a git folder of bailey's own is configured with. Nothing
// in it names a program, and nothing tidies up by itself.
const settings = `[core]
	repositoryformatversion = %[1]d
	bare = %[2]t
	filemode = true
	symlinks = true
	hooksPath = /dev/null
	fsmonitor = false
	attributesFile = /dev/null
	excludesFile = /dev/null
	untrackedCache = false
	commitGraph = false
	multiPackIndex = false
	logAllRefUpdates = false
	protectHFS = true
	protectNTFS = true
	autocrlf = false
	safecrlf = false
	quotePath = true
	compression = 1
	fsync = none
	packedGitWindowSize = 64m
	packedGitLimit = 1g
	bigFileThreshold = 64m
[index]
	version = 2
[pack]
	readReverseIndex = false
	useBitmaps = false
	threads = 2
	deltaCacheSize = 64m
	windowMemory = 256m
[checkout]
	workers = 0
	thresholdForParallelism = 200
[fastimport]
	unpackLimit = 0
[gc]
	auto = 0
[maintenance]
	auto = false
[protocol]
	allow = never
[diff]
	ignoreSubmodules = all
	renameLimit = 1000
[submodule]
	recurse = false
[fetch]
	recurseSubmodules = false
[advice]
	detachedHead = false
`

// cloneSettings are what the agent's clone has: what makes git quick in a
// sandbox whose kernel invents inode numbers, and what keeps it from tidying
// up.
const cloneSettings = `[core]
	repositoryformatversion = %[1]d
	bare = %[2]t
	filemode = true
	logAllRefUpdates = true
	checkStat = minimal
	trustctime = false
	preloadIndex = false
[gc]
	auto = 0
[maintenance]
	auto = false
[advice]
	detachedHead = false
`

// plainFiles has git take no file for anything but bytes, whatever the
// .gitattributes of a commit say: info/attributes is the last word
// (gitattributes(5)).
const plainFiles = "* -text -crlf -ident -filter !eol !working-tree-encoding !diff !merge -export-subst -export-ignore !conflict-marker-size !whitespace !delta\n"

const (
	privateDir  = 0o700
	privateFile = 0o600
	sha256Bytes = 32
)

// makeGitDir makes a git folder at a path that does not exist.
func makeGitDir(path, config string, bare bool, hash int) error {
	if err := os.Mkdir(path, privateDir); err != nil {
		return fmt.Errorf("make git folder: %w", err)
	}
	for _, dir := range []string{"objects", "objects/info", "objects/pack", "refs", "refs/heads", "refs/heads/agent", "refs/tags", "info"} {
		if err := os.Mkdir(filepath.Join(path, dir), privateDir); err != nil {
			return fmt.Errorf("make git folder: %w", err)
		}
	}
	version := 0
	if hash == sha256Bytes {
		version = 1
		config += "[extensions]\n\tobjectFormat = sha256\n"
	}
	for name, text := range map[string]string{
		"config":          fmt.Sprintf(config, version, bare),
		"HEAD":            "ref: refs/heads/none\n",
		"info/attributes": plainFiles,
	} {
		if err := os.WriteFile(filepath.Join(path, name), []byte(text), privateFile); err != nil {
			return fmt.Errorf("make git folder: %w", err)
		}
	}
	return nil
}

// writeRef sets a reference of a git folder that bailey made.
func writeRef(gitDir, name, id string) error {
	path := filepath.Join(gitDir, name)
	if err := os.WriteFile(path+".new", []byte(id+"\n"), privateFile); err != nil {
		return fmt.Errorf("write reference: %w", err)
	}
	return os.Rename(path+".new", path)
}

// readRef reads one; "" if there is none.
func readRef(gitDir, name string, hash int) (string, error) {
	text, err := os.ReadFile(filepath.Join(gitDir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read reference: %w", err)
	}
	id := strings.TrimSuffix(string(text), "\n")
	if !isID(id, hash) {
		return "", fmt.Errorf("read reference %s: broken", name)
	}
	return id, nil
}

// pack writes what is reachable from commits, but not from others, as a pack of
// the git folder into: of the stores that g has, and of nothing else of them.
func pack(ctx context.Context, g git, into string, wanted ...string) error {
	base := filepath.Join(into, "objects", "pack", "pack")
	_, err := g.run(ctx, strings.NewReader(strings.Join(wanted, "\n")+"\n"), maxComplaint,
		"pack-objects", "--revs", "--delta-base-offset", "--quiet", "--no-write-bitmap-index", base)
	return err
}

// copyPacks copies the packs of one git folder to another. They are copies of
// bytes and never links: what is in the agent's hands is another file.
func copyPacks(from, to string) error {
	const folder = "objects/pack"
	entries, err := os.ReadDir(filepath.Join(from, folder))
	if err != nil {
		return fmt.Errorf("list packs: %w", err)
	}
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); ext != ".pack" && ext != ".idx" && ext != ".rev" {
			continue
		}
		if err := copyFile(filepath.Join(from, folder, e.Name()), filepath.Join(to, folder, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// copyFile copies a regular file; where the file system can, the two share
// their blocks until one is written to.
func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("copy file: %w", err)
	}
	defer func() { _ = in.Close() }() // read only: nothing to lose
	const readOnly = 0o400
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, readOnly)
	if err != nil {
		return fmt.Errorf("copy file: %w", err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if _, err = io.Copy(out, in); err != nil {
		return fmt.Errorf("copy file: %w", err)
	}
	return nil
}

// populate makes clone a work tree with a git folder of its own, on a branch at
// a commit of the git folder from, with the files as they were committed.
func (w *Worker) populate(ctx context.Context, from, clone, branch, commit string) error {
	dot := filepath.Join(clone, ".git")
	// Git works with bailey's settings, and the agent later with its own.
	if err := makeGitDir(dot, settings, false, w.repo.hash); err != nil {
		return err
	}
	if err := copyPacks(from, dot); err != nil {
		return err
	}
	if err := w.copyShallow(dot); err != nil {
		return err
	}
	g := w.git.of(dot, "GIT_WORK_TREE="+clone)
	if _, err := g.run(ctx, nil, maxComplaint, "read-tree", "-m", "-u", commit); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dot, "refs/heads", filepath.Dir(branch)), privateDir); err != nil {
		return fmt.Errorf("make branch: %w", err)
	}
	if err := writeRef(dot, "refs/heads/"+branch, commit); err != nil {
		return err
	}
	version := 0
	text := cloneSettings
	if w.repo.hash == sha256Bytes {
		version = 1
		text += "[extensions]\n\tobjectFormat = sha256\n"
	}
	if err := os.WriteFile(filepath.Join(dot, "config"), fmt.Appendf(nil, text, version, false), privateFile); err != nil {
		return fmt.Errorf("write settings of the clone: %w", err)
	}
	return os.WriteFile(filepath.Join(dot, "HEAD"), []byte("ref: refs/heads/"+branch+"\n"), privateFile)
}

func (w *Worker) copyShallow(gitDir string) error {
	data, err := w.repo.shallow()
	if err != nil || data == nil {
		return err
	}
	return os.WriteFile(filepath.Join(gitDir, "shallow"), data, privateFile)
}
