package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/gitdata"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
	"github.com/bailey-dev/bailey/internal/sandbox"
)

// Named is a file or folder of the host that a user names to be shown beside
// the workspace, and by whom.
type Named struct {
	Name      string   // absolute, as named; links are followed, once
	Target    string   // where it is inside: absolute and clean
	Writable  bool     // the sandbox may change it
	Workspace string   // Path of the workspace: what lies in it is shown there
	Written   []string // folders that the sandbox writes beside it: absolute
	Kept      []string // what no sandbox may change, whatever is named: absolute, without links

	UID        int
	Home       string
	Passwd     string   // as in Request
	Own        []string // likewise
	GitConfigs []string // likewise
}

// Beside is what a sandbox sees of it. Of a writable folder it is guarded what
// is guarded of a workspace.
type Beside struct {
	Path     string // absolute, no link in it
	Writable bool
	Dir      bool
	Mounts   []bailey.Mount  // of the sandbox; the file or folder itself first
	Shadows  []bailey.Shadow // private copies, at their paths inside
	GitDirs  []string        // at their paths inside
	SafeDirs []string        // likewise: work trees that git inside must trust
	Guard    Guard           // by paths of the host; of what is only read, or no folder, it guards nothing
	Notes    []string
}

// OpenBeside checks what was named and lays out what a sandbox sees of it.
// Errors are as those of Open.
func OpenBeside(n Named) (*Beside, error) {
	if !filepath.IsAbs(n.Name) || !isText(n.Name) {
		return nil, refused(n.Name, "its path is not usable", "use a path in UTF-8 without control characters")
	}
	w, err := beneath.Walk(n.Name, append([]string{n.Workspace}, n.Written...)...)
	at, path, info := w.At, w.Path, w.Info
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return nil, bailey.NewError(bailey.NotFound, "there is nothing at "+n.Name, "check the path, or create it")
	case err != nil:
		return nil, bailey.WrapError(bailey.Invalid, "find "+n.Name, err, "check the path, and let nobody rename folders there")
	}
	defer func() { _ = at.Close() }() // O_PATH: nothing to lose
	if !isText(path) {
		return nil, refused(path, "its path is not usable", "use a path in UTF-8 without control characters")
	}
	if err := n.check(w); err != nil {
		return nil, err
	}
	b := &Beside{Path: path, Writable: n.Writable, Dir: info.Mode.IsDir()}
	is := bailey.FileID{Dev: info.Dev, Ino: info.Ino}
	b.Mounts = []bailey.Mount{{Source: path, Target: n.Target, Writable: n.Writable, Owned: !withinAny(path, systemTrees()), Is: is}}
	if !n.Writable {
		return b, nil
	}
	if !beneath.MayWrite(at) {
		return nil, bailey.NewError(bailey.Forbidden, fmt.Sprintf("you may not write to %s (it belongs to user %d)", path, info.UID), "name what is yours, or leave :rw out")
	}
	if !b.Dir {
		return b, nil
	}
	return b, b.guard(n, is)
}

func refused(path, why, hint string) error {
	return bailey.NewError(bailey.Invalid, fmt.Sprintf("%s is not shown to a sandbox: %s", path, why), hint)
}

// check says why what lies at a path may not be shown, or not be written to.
func (n Named) check(w beneath.Walked) error {
	path, info := w.Path, w.Info
	if !info.Mode.IsDir() && !info.Mode.IsRegular() {
		return refused(path, "it is "+kindOf(info.Mode), "name a file or a folder; --host-service lets a sandbox reach a port of this machine")
	}
	if why, hint := n.never(path); why != "" {
		return refused(path, why, hint)
	}
	if err := n.led(w); err != nil {
		return err
	}
	if !n.Writable {
		return nil
	}
	if why, hint := n.neverWritable(path); why != "" {
		return bailey.NewError(bailey.Invalid, fmt.Sprintf("%s is not given to a sandbox to write to: %s", path, why), hint)
	}
	return nil
}

func kindOf(m fs.FileMode) string {
	switch {
	case m&fs.ModeSocket != 0:
		return "a socket, and whoever speaks to one acts outside of the sandbox"
	case m&fs.ModeNamedPipe != 0:
		return "a pipe, whose other end is outside of the sandbox"
	}
	return "a device"
}

const ownHint = "name the one folder in it that the command needs"

// never says what no sandbox sees, in whatever way (ISO-03), and what to do.
func (n Named) never(path string) (why, hint string) { //nolint:gocognit // one check after the other
	r := Request{UID: n.UID, Home: n.Home, Passwd: n.Passwd, Own: n.Own}
	switch {
	case slices.Contains(systemFolders(), path):
		return "it holds more than one project", ownHint
	case withinAny(path, unseenTrees()):
		return "it is the system's own", "no part of it is to be had inside"
	case slices.Contains([]string{"/etc", "/usr", "/var/lib/docker", "/var/lib/containers", "/var/lib/containerd"}, path):
		return "it belongs to the system", ownHint
	case withinAny(path, []string{"/etc/shadow", "/etc/gshadow", "/etc/shadow-", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d", "/etc/ssh", "/etc/ssl/private"}):
		return "it holds keys or passwords", "lend a secret by its name: bailey run --secret NAME"
	}
	if why := r.homeReason(path); why != "" {
		if why == "it holds keys" {
			return why, "lend a secret by its name: bailey run --secret NAME"
		}
		return why, ownHint
	}
	if why := r.ownReason(path); why != "" {
		return why, "what bailey keeps is seen by no sandbox"
	}
	for _, home := range spellings(n.Home) {
		for _, p := range privateParts() {
			for _, part := range spellings(filepath.Join(home, p.name)) {
				if sandbox.Within(path, part) || sandbox.Within(part, path) {
					return part + " is " + p.what, ownHint
				}
			}
		}
	}
	return "", ""
}

// unseenTrees hold what talks to the host: processes, devices, and the sockets
// of its services (docker's, podman's, D-Bus', of agents for keys, of displays).
func unseenTrees() []string {
	return []string{"/proc", "/sys", "/dev", "/run", "/var/run", "/boot", "/lost+found", "/tmp/.X11-unix", "/tmp/.ICE-unix", "/var/spool", "/var/backups", "/var/mail"}
}

// privatePart is a part of a home that no sandbox sees, beside secretTrees.
type privatePart struct{ name, what string }

func privateParts() []privatePart {
	var list []privatePart
	for _, name := range []string{".config/google-chrome", ".config/chromium", ".config/BraveSoftware", ".config/microsoft-edge", ".config/vivaldi", ".thunderbird", ".librewolf", ".var/app"} {
		list = append(list, privatePart{name, "the profile of a browser or of mail"})
	}
	for _, name := range []string{".bash_history", ".zsh_history", ".histfile", ".python_history", ".psql_history", ".mysql_history", ".sqlite_history", ".node_repl_history", ".local/share/fish/fish_history"} {
		list = append(list, privatePart{name, "the history of a shell"})
	}
	for _, name := range []string{".netrc", ".git-credentials", ".pypirc", ".vault-token", ".databrickscfg", ".config/gh", ".config/op", ".local/share/keyrings", ".terraform.d/credentials.tfrc.json", ".cargo/credentials.toml", ".cargo/credentials"} {
		list = append(list, privatePart{name, "where keys are kept"})
	}
	return list
}

// led refuses a name that a link in the workspace leads out of it, by whatever
// path it came there: whoever wrote the link, which may have been a sandbox, is
// not to choose what is shown. So it is with what is written beside it.
func (n Named) led(w beneath.Walked) error {
	if w.Link == "" {
		return nil
	}
	for _, dir := range append([]string{n.Workspace}, n.Written...) {
		real, err := filepath.EvalSymlinks(dir)
		if err == nil && sandbox.Within(w.Link, real) && sandbox.Within(w.Path, real) {
			return nil
		}
	}
	what := "the workspace"
	if !sandbox.Within(w.Link, n.Workspace) {
		what = "what the sandbox may write to"
	}
	return refused(n.Name, fmt.Sprintf("it is, or lies behind, a link that leads out of %s: %s, to %s", what, w.Link, w.Path), "if that is meant, name it: "+w.Path)
}

// neverWritable says what a sandbox may see and not change: what the host
// would act upon, and what other guards rest on.
func (n Named) neverWritable(path string) (why, hint string) { //nolint:gocognit // one check after the other
	if sandbox.Within(path, n.Workspace) {
		return "it lies in the workspace, which the sandbox has already", "leave it out"
	}
	if sandbox.Within(n.Workspace, path) {
		return "the workspace lies in it", "leave :rw out, or run bailey in that folder"
	}
	if withinAny(path, systemTrees()) || filepath.Dir(path) == "/var/lib" {
		return "it belongs to the system", "leave :rw out"
	}
	for _, kept := range n.Kept {
		if sandbox.Within(path, kept) || sandbox.Within(kept, path) {
			return kept + ", which agents are told by, is read-only in every sandbox", "leave :rw out; work on it in a copy"
		}
	}
	for _, home := range spellings(n.Home) {
		for _, name := range actedUpon() {
			for _, part := range spellings(filepath.Join(home, name)) {
				if sandbox.Within(path, part) || sandbox.Within(part, path) {
					return part + " is run or obeyed by programs of yours", "leave :rw out, or name a folder that holds data alone"
				}
			}
		}
	}
	if i := strings.Index(path+"/", "/.git/"); i >= 0 || gitdata.IsGitDir(path) || aboveGitDir(path) != "" {
		return "it is, or lies in, a git folder, from which git on this side takes commands", "name the work tree"
	}
	return "", ""
}

// aboveGitDir is the git folder of any name that a path lies in, or "".
func aboveGitDir(path string) string {
	for dir := filepath.Dir(path); dir != "/"; dir = filepath.Dir(dir) {
		if gitdata.IsGitDir(dir) {
			return dir
		}
	}
	return ""
}

// actedUpon are parts of a home that shells, desktops, editors, git and agents
// on the host run something from, or take orders from.
func actedUpon() []string {
	return []string{
		".agents", ".claude", ".claude.json", ".codex", ".gemini", ".qwen", ".copilot", ".pi", ".config/opencode", ".config/github-copilot", ".cursor", ".windsurf",
		".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".inputrc", ".pam_environment", ".xprofile", ".xsessionrc", ".xinitrc",
		".config/fish", ".config/zsh", ".config/nushell", ".config/environment.d", ".config/autostart", ".config/systemd", ".config/direnv", ".config/mise",
		".local/bin", "bin", ".local/share/applications", ".local/share/systemd", ".local/share/bash-completion",
		".gitconfig", ".config/git", ".config/hub", ".vimrc", ".vim", ".config/nvim", ".emacs", ".emacs.d", ".config/emacs", ".vscode", ".vscode-server", ".config/Code", ".config/zed",
		".tmux.conf", ".screenrc", ".gdbinit", ".lldbinit", ".npmrc", ".yarnrc", ".yarnrc.yml", ".config/pip", ".pip", ".condarc", ".cargo/bin", ".cargo/config.toml", ".cargo/config", ".cargo/env", "go/bin",
		".nvm", ".pyenv", ".rbenv", ".asdf", ".volta", ".bun/bin", ".deno/bin", ".rustup", ".sdkman", ".terraformrc", ".m2/settings.xml", ".m2/extensions.xml", ".gradle/init.d", ".gradle/init.gradle", ".gradle/gradle.properties",
	}
}

// guard lays out the git folders of a writable folder as those of a workspace.
// One whose .git leads elsewhere is refused: what that names is not to be shown
// for a folder that was named.
func (b *Beside) guard(n Named, is bailey.FileID) error { //nolint:gocognit // one check after the other
	repo, err := gitdata.Find(b.Path)
	if err != nil || repo.Kind == gitdata.Linked || repo.Kind == gitdata.Submodule || repo.Kind == gitdata.Broken {
		return bailey.NewError(bailey.Invalid, fmt.Sprintf("%s is not given to a sandbox to write to: its .git leads elsewhere", b.Path), "run bailey in it, or leave :rw out")
	}
	dir, err := beneath.Dir(b.Path)
	if err != nil {
		return moving(b.Path, err)
	}
	defer func() { _ = dir.Close() }() // O_PATH: nothing to lose
	if got, err := idOf(dir); err != nil || got != is {
		return moving(b.Path, fs.ErrNotExist)
	}
	ws, err := layOut(Request{Dir: b.Path, At: nil, UID: n.UID, Home: n.Home, Passwd: n.Passwd, Own: n.Own, ReadOnly: false, GitConfigs: n.GitConfigs}, b.Path, dir)
	if err != nil {
		return err
	}
	inside := func(path string) string { return n.Target + strings.TrimPrefix(path, b.Path) }
	for i, m := range ws.Mounts {
		if !sandbox.Within(m.Source, b.Path) {
			return bailey.NewError(bailey.Invalid, fmt.Sprintf("%s is not given to a sandbox to write to: its repository has a part in %s", b.Path, m.Source), "run bailey in it, or leave :rw out")
		}
		if i == 0 {
			continue // it is the folder itself
		}
		m.Target, m.Why = inside(m.Target), ""
		b.Mounts = append(b.Mounts, m)
	}
	for _, s := range ws.Shadows {
		if !sandbox.Within(s.Path, b.Path) {
			return bailey.NewError(bailey.Invalid, fmt.Sprintf("%s is not given to a sandbox to write to: its repository has a part in %s", b.Path, s.Path), "run bailey in it, or leave :rw out")
		}
		s.Path = inside(s.Path)
		b.Shadows = append(b.Shadows, s)
	}
	for _, d := range ws.Guard.GitDirs {
		b.GitDirs = append(b.GitDirs, inside(d))
	}
	b.SafeDirs = append(b.SafeDirs, n.Target)
	for _, d := range ws.SafeDirs {
		b.SafeDirs = append(b.SafeDirs, inside(d))
	}
	b.Guard, b.Notes = ws.Guard, nil
	for _, note := range ws.Notes {
		if !strings.HasPrefix(note, "git does not work here") {
			b.Notes = append(b.Notes, note)
		}
	}
	return nil
}

// With adds what another guard guards. Root stays: what HostRun and NewGitDirs
// look through is one folder.
func (g Guard) With(o Guard) Guard {
	g.GitDirs, g.Parts, g.Absent = slices.Concat(g.GitDirs, o.GitDirs), slices.Concat(g.Parts, o.Parts), slices.Concat(g.Absent, o.Absent)
	all := make(map[string]uint64, len(g.Inodes)+len(o.Inodes))
	for _, from := range []map[string]uint64{g.Inodes, o.Inodes} {
		maps.Copy(all, from)
	}
	g.Inodes = all
	return g
}

// Touched says whether a single file that may be written to was changed.
func (b *Beside) Touched(since time.Time) []Finding {
	at, err := beneath.Path(b.Path)
	if err != nil {
		return []Finding{open(b.Path, "is not there any more")}
	}
	defer func() { _ = at.Close() }() // O_PATH: nothing to lose
	info, err := beneath.Lstat(at, "")
	if err != nil || info.Changed.Before(since) {
		return nil
	}
	return []Finding{finding(b.Path, "was changed during the run")}
}
