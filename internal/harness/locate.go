package harness

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/sandbox"
)

// installed is an agent that was found.
type installed struct {
	argv   []string
	mounts []bailey.Mount
	dir    string
}

// locate finds the agent that the caller's own shell would start, and behind
// its links and wrappers the program that does the work. After PATH come the
// places where installers put agents without touching it.
func locate(a agent, h Host) (installed, bool) {
	for _, dir := range slices.Concat(h.Path, binFolders(h)) {
		if inst, ok := fromFolder(a, h, dir); ok {
			return inst, true
		}
	}
	for _, p := range a.native {
		if h.Home == "" {
			break
		}
		if inst, ok := fromCommand(a, h, path.Join(h.Home, p)); ok {
			return inst, true
		}
	}
	for _, root := range moduleRoots(a, h) {
		if inst, ok := fromPackage(a, h, path.Join(root, a.wrapper)); ok {
			return inst, true
		}
	}
	return installed{}, false
}

// fromFolder looks for the command in a folder of PATH.
func fromFolder(a agent, h Host, dir string) (installed, bool) {
	if !path.IsAbs(dir) {
		return installed{}, false // it would run what the workspace holds
	}
	command := path.Join(dir, a.name)
	if inst, ok := fromCommand(a, h, command); ok {
		return inst, true
	}
	if !exists(h.Files, command) {
		return installed{}, false
	}
	// The command may be a shim of a version manager or a shell wrapper; the
	// package then lies where npm puts it, beside the bin folder.
	return fromPackage(a, h, path.Join(path.Dir(dir), "lib/node_modules", a.wrapper))
}

// binFolders are usual places of commands that may be missing from PATH, as
// it is under cron, sudo or a desktop.
func binFolders(h Host) []string {
	dirs := []string{"/usr/local/bin", "/usr/bin", "/opt/bin"}
	if h.Home == "" {
		return dirs
	}
	for _, d := range []string{".local/bin", ".npm-global/bin", ".bun/bin", ".local/share/pnpm", "bin"} {
		dirs = append(dirs, path.Join(h.Home, d))
	}
	for _, v := range nvmVersions(h) {
		dirs = append(dirs, path.Join(v, "bin"))
	}
	return dirs
}

// moduleRoots are the global node_modules folders of the package managers.
func moduleRoots(a agent, h Host) []string {
	roots := []string{"/usr/local/lib/node_modules", "/usr/lib/node_modules", "/opt/node_modules"}
	if h.Home == "" {
		return roots
	}
	for _, d := range []string{
		".npm-global/lib/node_modules", ".local/lib/node_modules",
		".claude/local/node_modules",
		path.Join(".volta/tools/image/packages", a.wrapper, "lib/node_modules"),
		".bun/install/global/node_modules",
		".local/share/pnpm/global/5/node_modules",
		".config/yarn/global/node_modules",
	} {
		roots = append(roots, path.Join(h.Home, d))
	}
	for _, v := range nvmVersions(h) {
		roots = append(roots, path.Join(v, "lib/node_modules"))
	}
	return roots
}

// nvmVersions lists nvm's node installations, newest first.
func nvmVersions(h Host) []string {
	base := path.Join(h.Home, ".nvm/versions/node")
	entries, err := h.Files.ReadDir(base)
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "v") {
			names = append(names, e.Name())
		}
	}
	slices.SortFunc(names, func(x, y string) int { return compareVersions(y, x) })
	for i, n := range names {
		names[i] = path.Join(base, n)
	}
	return names
}

// compareVersions orders v1.2.3 forms by their numbers; what is no number
// counts as zero.
func compareVersions(x, y string) int {
	number := func(s string) []int {
		var out []int
		for part := range strings.SplitSeq(strings.TrimPrefix(s, "v"), ".") {
			n, _ := strconv.Atoi(part)
			out = append(out, n)
		}
		return out
	}
	return slices.Compare(number(x), number(y))
}

// fromCommand follows a command in a PATH folder to the agent's program.
func fromCommand(a agent, h Host, command string) (installed, bool) {
	file, err := h.follow(command)
	if err != nil {
		return installed{}, false
	}
	if pkg, ok := packageOf(file, a.wrapper); ok {
		return fromPackage(a, h, pkg)
	}
	// A version manager's shim is a program too, under its own name: what is
	// taken must be called like the agent, or lie in a folder that is (the
	// native installer names the file by version: …/claude/versions/2.1.0).
	named := strings.HasPrefix(path.Base(file), a.name) || strings.Contains(path.Dir(file)+"/", "/"+a.name+"/")
	if !named || !isELF(h.Files, file) {
		return installed{}, false
	}
	return native(a, h, file), true
}

// errLeaves is why a link of the workspace is not followed.
var errLeaves = errors.New("a link of the workspace leads out of it")

// follow returns what a path names, without links. What lies in the workspace
// may be an agent's work, and may not name what lies elsewhere.
func (h Host) follow(p string) (string, error) {
	real, err := h.Files.EvalSymlinks(p)
	if err != nil {
		return "", fmt.Errorf("follow %s: %w", p, err)
	}
	if h.Workspace != "" && sandbox.Within(p, h.Workspace) && !sandbox.Within(real, h.Workspace) {
		return "", fmt.Errorf("follow %s: %w", p, errLeaves)
	}
	return real, nil
}

// packageOf returns the folder of an npm package that a file lies in.
func packageOf(file, pkg string) (string, bool) {
	mark := "/node_modules/" + pkg + "/"
	i := strings.LastIndex(file, mark)
	if i < 0 {
		return "", false
	}
	return file[:i+len(mark)-1], true
}

// fromPackage finds the program of an installed npm package: in the package
// itself, where the installer put the one that fits this processor, or in one
// of the packages for this platform, inside it or beside it.
func fromPackage(a agent, h Host, dir string) (installed, bool) {
	dir, err := h.follow(dir)
	if err != nil || !strings.HasSuffix(dir, "/node_modules/"+a.wrapper) {
		// A link to any other folder would show that folder to the sandbox,
		// and a project's node_modules may be in PATH.
		return installed{}, false
	}
	for _, b := range a.bins {
		if file, err := h.follow(path.Join(dir, b)); err == nil && isELF(h.Files, file) {
			return native(a, h, file), true
		}
	}
	modules := strings.TrimSuffix(dir, "/"+a.wrapper)
	for _, p := range a.programs(h) {
		for _, file := range []string{
			path.Join(dir, "node_modules", p.pkg, p.file),
			path.Join(modules, p.pkg, p.file),
			path.Join(dir, p.file),
		} {
			if file, err := h.follow(file); err == nil && isELF(h.Files, file) {
				return native(a, h, file), true
			}
		}
	}
	return fromScript(a, h, dir)
}

// programs are where the agent's own program may lie, for this processor.
func (a agent) programs(h Host) []program {
	if a.platform == nil {
		return nil
	}
	return a.platform(h.Arch, hasMusl(h))
}

// fromScript takes an agent, or an older release of one, that is JavaScript in
// one package, with the node of the caller's PATH.
func fromScript(a agent, h Host, dir string) (installed, bool) {
	script := path.Join(dir, cmp.Or(a.script, "cli.js"))
	head, err := h.Files.Head(script, 64)
	if err != nil || !bytes.HasPrefix(head, []byte("#!")) || !bytes.Contains(head, []byte("node")) {
		return installed{}, false
	}
	modules := strings.TrimSuffix(dir, "/"+a.wrapper)
	// One that was installed with the package fits it; another may be too old.
	beside := []string{path.Join(modules, ".bin"), path.Join(modules, "../../bin")}
	for _, d := range slices.Concat(beside, h.Path, binFolders(h)) {
		node, err := h.follow(path.Join(d, "node"))
		if err != nil || path.Base(node) != "node" || !isELF(h.Files, node) {
			continue
		}
		inst := installed{argv: slices.Concat([]string{node}, a.node, []string{script}), dir: path.Dir(node)}
		inst.see(h, node, "node for "+a.name)
		inst.see(h, dir, a.title)
		return inst, true
	}
	return installed{}, false
}

// native is an agent that is one program, alone or in a folder it needs.
func native(a agent, h Host, file string) installed {
	inst := installed{argv: []string{file}, dir: path.Dir(file)}
	seen := file
	if a.root != nil {
		if r := a.root(h.Files, file); r != "" {
			seen = r
		}
	}
	inst.see(h, seen, a.title)
	return inst
}

// see mounts a path at its own place, unless every sandbox sees it anyway.
func (i *installed) see(h Host, p, why string) {
	if sandbox.Within(p, "/usr") || (h.Workspace != "" && sandbox.Within(p, h.Workspace)) {
		return
	}
	i.mounts = append(i.mounts, bailey.Mount{Source: p, Target: p, Why: why})
}

func exists(f Files, p string) bool {
	_, err := f.Stat(p)
	return err == nil
}

func isELF(f Files, p string) bool {
	head, err := f.Head(p, 4)
	return err == nil && string(head) == "\x7fELF"
}

// hasMusl reports whether this is a musl system (Alpine), which cannot run
// programs linked for glibc.
func hasMusl(h Host) bool {
	for _, f := range []string{"/lib/ld-musl-x86_64.so.1", "/lib/ld-musl-aarch64.so.1"} {
		if exists(h.Files, f) && !exists(h.Files, "/lib64/ld-linux-x86-64.so.2") && !exists(h.Files, "/lib/ld-linux-aarch64.so.1") {
			return true
		}
	}
	return false
}

// npmArch is npm's name of a processor.
func npmArch(goarch string) string {
	if goarch == "amd64" {
		return "x64"
	}
	return goarch
}
