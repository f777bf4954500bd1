package workspace

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/sandbox"
)

// systemTrees are never a workspace, nor is anything in them.
func systemTrees() []string {
	return []string{
		"/bin", "/boot", "/dev", "/etc", "/gnu", "/lib", "/lib32", "/lib64", "/libx32", "/lost+found", "/nix", "/proc", "/run",
		"/sbin", "/snap", "/sys", "/usr", "/var/backups", "/var/cache", "/var/lock", "/var/log", "/var/mail", "/var/run", "/var/spool",
		"/System", "/Library",
	}
}

// systemFolders are never a workspace themselves; folders in them may be.
func systemFolders() []string {
	return []string{
		"/", "/home", "/media", "/mnt", "/opt", "/root", "/srv", "/tmp", "/var", "/var/home", "/var/lib", "/var/opt", "/var/tmp", "/Users",
	}
}

// secretTrees are folders of a home, and all below them, that hold keys.
func secretTrees() []string {
	return []string{".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".password-store", ".mozilla", ".config/gcloud"}
}

// refuse says why a folder may not be a workspace, or nil. path has no link in
// it.
func (r Request) refuse(path string) error {
	why := systemReason(path)
	if why == "" {
		why = r.homeReason(path)
	}
	if why == "" {
		why = r.ownReason(path)
	}
	if why == "" {
		return nil
	}
	return bailey.NewError(bailey.Invalid, fmt.Sprintf("%s may not be a workspace: %s", path, why),
		"run bailey in the folder of one project")
}

func systemReason(path string) string {
	if slices.Contains(systemFolders(), path) {
		return "it holds more than one project"
	}
	if withinAny(path, systemTrees()) {
		return "it belongs to the system"
	}
	if filepath.Dir(path) == "/var/lib" {
		return "it belongs to the system"
	}
	return ""
}

// homeReason refuses homes, what holds homes, and folders of keys.
func (r Request) homeReason(path string) string {
	if parent := filepath.Dir(path); parent == "/home" || parent == "/var/home" || parent == "/Users" {
		return "it is a home folder"
	}
	for _, home := range r.homes() {
		switch {
		case path == home:
			return "it is a home folder"
		case sandbox.Within(home, path):
			return "the home folder " + home + " lies in it"
		}
	}
	for _, home := range spellings(r.Home) {
		if why := insideHomeReason(path, home); why != "" {
			return why
		}
	}
	return ""
}

func insideHomeReason(path, home string) string {
	for _, dir := range secretTrees() {
		if withinAny(path, spellings(filepath.Join(home, dir))) {
			return "it holds keys"
		}
	}
	for _, dir := range []string{".config", ".local", ".local/share", ".cache"} {
		if slices.Contains(spellings(filepath.Join(home, dir)), path) {
			return "it holds more than one project"
		}
	}
	return ""
}

func (r Request) ownReason(path string) string {
	for _, own := range r.Own {
		if own == "" {
			continue
		}
		for _, dir := range spellings(own) {
			if sandbox.Within(path, dir) || sandbox.Within(dir, path) {
				return "bailey's own folder " + dir + " is or lies in it, or holds it"
			}
		}
	}
	return ""
}

// homes lists the homes of the caller and of the host's people: root, and ids
// from 1000 up (login.defs(5), UID_MIN). Homes of services that lie in a
// project (a database's, say) do not count.
func (r Request) homes() []string {
	homes := spellings(r.Home)
	file := r.Passwd
	if file == "" {
		file = "/etc/passwd"
	}
	const maxPasswd = 1 << 20
	info, err := os.Stat(file)
	if err != nil || info.Size() > maxPasswd {
		return homes
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return homes
	}
	for line := range strings.Lines(string(data)) {
		field := strings.Split(line, ":")
		if len(field) < 7 || !filepath.IsAbs(field[5]) {
			continue
		}
		uid, err := strconv.Atoi(field[2])
		if home := filepath.Clean(field[5]); err == nil && (uid == 0 || uid >= 1000) && home != "/" && home != "/nonexistent" {
			homes = append(homes, spellings(home)...)
		}
	}
	return homes
}

// spellings returns a path as given and without links, if it exists. A relative
// one is what it names from the current folder.
func spellings(path string) []string {
	if path == "" {
		return nil
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil
	}
	list := []string{path}
	if real, err := filepath.EvalSymlinks(path); err == nil && real != list[0] {
		list = append(list, real)
	}
	return list
}
