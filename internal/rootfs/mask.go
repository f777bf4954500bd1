package rootfs

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey"
)

// Managers are the names of programs that install system packages, or give
// somebody the rights of another: they are masked in a task's sandbox. A task has no use for them, and nothing they could do
// would work; they are out of its reach all the same.
func Managers() []string {
	return []string{
		"apk", "apt", "apt-get", "aptitude", "dnf", "dnf-3", "dnf5", "dpkg", "emerge", "eopkg", "flatpak", "guix", "microdnf", "nix-env",
		"opkg", "pacman", "pamac", "pkcon", "pkgctl", "rpm", "rpm-ostree", "slackpkg", "snap", "swupd", "synaptic", "tdnf", "urpmi", "xbps-install",
		"yum", "zypper",
		"chsh", "chfn", "doas", "machinectl", "newgrp", "newgidmap", "newuidmap", "pkexec", "run0", "runuser", "sg", "su", "sudo", "sudo-rs",
		"sudoedit", "visudo",
	}
}

// IsManager reports whether a program of that name is masked in a task's
// sandbox wherever the system has it.
func IsManager(name string) bool { return slices.Contains(Managers(), name) }

// commandFolders are those of the system's commands.
func commandFolders() []string {
	return []string{"/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"}
}

// helperFolders are those of programs that others start, in which the setuid
// ones among them lie, here or not far below.
func helperFolders() []string {
	return []string{"/lib", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec", "/usr/local/lib", "/usr/local/libexec", "/usr/games"}
}

// helperDepth is how far below.
const helperDepth = 2

// Masks lists the files of read-only mounts that a task's sandbox may neither
// read nor execute: package managers and what gives another's rights, by their
// names in the folders of commands, and setuid and setgid programs there and in
// the folders of helpers. dir is where the host's root folder is, as for Host.
// The list is sorted. A setuid program elsewhere is harmless for other reasons
// (nosuid, no new privileges, one id); `bailey doctor --task` looks for one.
func Masks(dir string, mounts []bailey.Mount) []string {
	t := newTree(dir)
	var out []string
	seen := func(path string) bool {
		return slices.ContainsFunc(mounts, func(m bailey.Mount) bool { return !m.Writable && strings.HasPrefix(path, m.Target+"/") })
	}
	for _, folder := range commandFolders() {
		if t.isDir(folder) {
			out = append(out, t.masked(folder, 0, true)...)
		}
	}
	for _, folder := range helperFolders() {
		if t.isDir(folder) {
			out = append(out, t.masked(folder, helperDepth, false)...)
		}
	}
	out = slices.DeleteFunc(out, func(path string) bool { return !seen(path) })
	slices.Sort(out)
	return slices.Compact(out)
}

// masked lists those of one folder, and of depth levels below it.
func (t tree) masked(folder string, depth int, commands bool) []string {
	entries, err := os.ReadDir(t.host(folder))
	if err != nil {
		return nil // what cannot be listed here cannot be found inside
	}
	var out []string
	for _, e := range entries {
		path := filepath.Join(folder, e.Name())
		switch {
		case e.IsDir():
			if depth > 0 && !isLibrary(e.Name()) {
				out = append(out, t.masked(path, depth-1, commands)...)
			}
		case commands && IsManager(e.Name()), e.Type().IsRegular() && t.isSetID(path):
			out = append(out, path)
		}
	}
	return out
}

// isSetID reports whether a regular file gives who runs it other ids.
func (t tree) isSetID(path string) bool {
	info, err := t.lstat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0
}

// isLibrary holds for folders of languages' own packages, of which there are
// thousands, and which hold no such program.
func isLibrary(name string) bool {
	for _, prefix := range []string{"python", "perl", "ruby", "node_modules", "go-", "gcc", "jvm", "llvm", "modules", "firmware", "locale", "google-cloud-sdk", "rustlib", "php"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// SetIDs lists the setuid and setgid files of the system's folders, wherever in
// them they are. dir is as for Masks. It takes a second or more.
func SetIDs(dir string) []string {
	t := newTree(dir)
	var out []string
	for _, top := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64"} {
		if !t.isDir(top) {
			continue // a link into /usr
		}
		_ = filepath.WalkDir(t.host(top), func(path string, e fs.DirEntry, err error) error {
			name := strings.TrimPrefix(path, t.dir)
			if err == nil && e.Type().IsRegular() && t.isSetID(name) {
				out = append(out, name)
			}
			return nil // what cannot be read here cannot be read inside
		})
	}
	return out
}
