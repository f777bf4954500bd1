package rootfs

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/launch"
	"github.com/bailey-dev/bailey/internal/sandbox"
)

// HomeDir is the home folder inside every sandbox.
const HomeDir = "/home/agent"

// UserName is the name of the one user inside.
const UserName = "agent"

// Host is all that FromHost knows of the machine, its caller and the run.
type Host struct {
	Dir        string                   // where the host's root folder is; "" or "/" in use, a folder in tests
	UID, GID   int                      // of the caller
	Hostname   string                   // of the sandbox: letters, digits, hyphens
	Nameserver netip.Addr               // the sandbox's resolver; the zero value means that names fail at once
	Env        func(name string) string // the caller's environment; nil is an empty one
	Workspace  string                   // absolute, as inside
	GitName    string                   // user.name for commits; may be empty
	GitEmail   string                   // user.email for commits; may be empty
	SafeDirs   []string                 // folders with a git folder that git must trust; Workspace is always one
	Tools      []Tool                   // what Resolver found for the command and for --tool
	TmpBytes   int64                    // size of each memory file system
	AsRoot     bool                     // the one user is number 0 inside
	Root       []byte                   // a certificate (DER) that programs inside are to trust too; nil: none
	Extra      [][]byte                 // further ones, of the user's network
}

// Plan is what the sandbox sees of the host's system.
type Plan struct {
	UID, GID int            // inside; never 0
	Mounts   []bailey.Mount // read-only, sorted by target, none below another of the same source
	Tmpfs    []bailey.Tmpfs // memory file systems, sorted by target
	Files    []bailey.File  // generated, world-readable, none below a mount
	Home     []bailey.File  // generated, below HomeDir, for the user alone
	Links    []bailey.Link  // generated, none below a mount
	Env      []string       // NAME=VALUE, each name once, sorted
	Notes    []string       // sentences for the header, such as a toolchain that could not be found
}

// FromHost lays out the root file system for one run. It fails with a
// bailey.Error of kind Invalid for a host name or workspace that cannot be
// written into a generated file, and Unsupported where the host has no /usr.
func FromHost(h Host) (Plan, error) {
	if err := h.check(); err != nil {
		return Plan{}, err
	}
	t := newTree(h.Dir)
	uid, gid := InsideIDs(h.UID, h.GID)
	b := &builder{tree: t, plan: Plan{UID: uid, GID: gid, Mounts: nil, Tmpfs: nil, Files: nil, Home: nil, Links: nil, Env: nil, Notes: nil}}
	if err := b.system(); err != nil {
		return Plan{}, err
	}
	trust, err := newTrust(b, h.Root, h.Extra)
	if err != nil {
		return Plan{}, err
	}
	if err := b.etc(trust); err != nil {
		return Plan{}, err
	}
	b.identity(h)
	b.memory(h.TmpBytes)
	for _, tool := range h.Tools {
		b.tool(tool)
	}
	var trusted map[string]string
	if trust != nil {
		if trusted, err = trust.finish(h.Tools); err != nil {
			return Plan{}, err
		}
	}
	b.plan.Env = environment(t, h, b.shell(), trusted)
	b.settle()
	return b.plan, nil
}

// InsideIDs returns the user and group number inside for a caller's (package
// launch decides).
func InsideIDs(uid, gid int) (insideUID, insideGID int) {
	in := launch.Inside(uid, gid)
	return in.UID, in.GID
}

func (h Host) check() error {
	if h.Hostname == "" || len(h.Hostname) > 63 || strings.Trim(strings.ToLower(h.Hostname), "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return bailey.NewError(bailey.Invalid, fmt.Sprintf("host name %q is not usable", h.Hostname), "use 1 to 63 letters, digits and hyphens")
	}
	for _, dir := range append([]string{h.Workspace}, h.SafeDirs...) {
		if !filepath.IsAbs(dir) || hasControl(dir) {
			return bailey.NewError(bailey.Invalid, fmt.Sprintf("folder %q is not usable", dir), "use an absolute path without control characters")
		}
	}
	return nil
}

// path returns the folders of the caller's PATH. However many: only those that
// are visible inside are kept.
func (h Host) path() []string {
	if h.Env == nil {
		return nil
	}
	return filepath.SplitList(h.Env("PATH"))
}

// env returns the caller's value of a variable, or "" when it is overlong or
// holds control characters, which no variable taken over here has a use for.
func (h Host) env(name string) string {
	if h.Env == nil {
		return ""
	}
	v := h.Env(name)
	if hasControl(v) || len(v) > 4096 {
		return ""
	}
	return v
}

func hasControl(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

type builder struct {
	tree tree
	plan Plan
}

func (b *builder) mount(path string) {
	b.plan.Mounts = append(b.plan.Mounts, bailey.Mount{
		Source: b.tree.host(path), Target: path, Writable: false, Dcache: 0, Why: "",
	})
}

func (b *builder) file(path, text string) {
	b.plan.Files = append(b.plan.Files, bailey.File{Path: path, Mode: 0o644, Data: []byte(text)})
}

func (b *builder) link(path, target string) {
	b.plan.Links = append(b.plan.Links, bailey.Link{Path: path, Target: target})
}

// system adds /usr and what belongs to it at the top: links where the host
// has merged them into /usr, mounts where it has not, and the stores of Nix
// and Guix, which hold the programs of their systems and are world-readable
// by design.
func (b *builder) system() error {
	if !b.tree.isDir("/usr") {
		return bailey.NewError(bailey.Unsupported, "this host has no /usr folder to show a sandbox", "run bailey doctor")
	}
	b.mount("/usr")
	for _, dir := range []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"} {
		real, _, err := b.tree.resolve(dir)
		switch {
		case err != nil || !b.tree.isDir(real):
		case real == dir:
			b.mount(dir)
		case isSystem(real):
			b.link(dir, strings.TrimPrefix(real, "/"))
		}
	}
	for _, dir := range []string{"/nix/store", "/gnu/store"} {
		if b.tree.isDir(dir) {
			b.mount(dir)
		}
	}
	return nil
}

// memory adds the file systems that live and die with the sandbox.
func (b *builder) memory(size int64) {
	b.plan.Tmpfs = append(b.plan.Tmpfs,
		bailey.Tmpfs{Target: "/dev/shm", Bytes: size, Mode: stickyAll},
		bailey.Tmpfs{Target: HomeDir, Bytes: size, Mode: 0o700},
		bailey.Tmpfs{Target: "/run", Bytes: size, Mode: 0o755},
		bailey.Tmpfs{Target: "/tmp", Bytes: size, Mode: stickyAll},
		bailey.Tmpfs{Target: "/var/tmp", Bytes: size, Mode: stickyAll},
	)
	b.link("/var/run", "/run")
	b.link("/var/lock", "/run/lock")
	b.link("/etc/mtab", "/proc/self/mounts")
}

func (b *builder) tool(t Tool) {
	b.plan.Mounts = append(b.plan.Mounts, t.Mounts...)
	b.plan.Links = append(b.plan.Links, t.Links...)
	for _, dir := range t.Hidden {
		b.plan.Tmpfs = append(b.plan.Tmpfs, bailey.Tmpfs{Target: dir, Bytes: hiddenBytes, Mode: 0o555})
	}
	b.plan.Notes = append(b.plan.Notes, t.Notes...)
}

// settle sorts the lists, drops repetitions and whatever a mount covers.
func (b *builder) settle() {
	p := &b.plan
	slices.SortStableFunc(p.Mounts, func(x, y bailey.Mount) int { return strings.Compare(x.Target, y.Target) })
	var mounts []bailey.Mount
	for _, m := range p.Mounts {
		if !coveredBy(mounts, m.Target) {
			mounts = append(mounts, m)
		}
	}
	p.Mounts = mounts
	slices.SortStableFunc(p.Links, func(x, y bailey.Link) int { return strings.Compare(x.Path, y.Path) })
	p.Links = slices.DeleteFunc(slices.CompactFunc(p.Links, func(x, y bailey.Link) bool { return x.Path == y.Path }),
		func(l bailey.Link) bool { return coveredBy(mounts, l.Path) })
	slices.SortStableFunc(p.Files, func(x, y bailey.File) int { return strings.Compare(x.Path, y.Path) })
	p.Files = slices.DeleteFunc(slices.CompactFunc(p.Files, func(x, y bailey.File) bool { return x.Path == y.Path }),
		func(f bailey.File) bool { return coveredBy(mounts, f.Path) })
	slices.SortStableFunc(p.Tmpfs, func(x, y bailey.Tmpfs) int { return strings.Compare(x.Target, y.Target) })
	p.Tmpfs = slices.CompactFunc(p.Tmpfs, func(x, y bailey.Tmpfs) bool { return x.Target == y.Target })
}

// coveredBy reports whether path is, or lies below, the target of a mount.
// Every mount here shows the host's own path, so what lies below is there.
func coveredBy(mounts []bailey.Mount, path string) bool {
	return slices.ContainsFunc(mounts, func(m bailey.Mount) bool { return sandbox.Within(path, m.Target) })
}
