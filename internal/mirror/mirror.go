package mirror

import (
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/bailey-dev/bailey"
)

// Host is the machine whose configuration is read.
type Host struct {
	Root      string                   // of the system's files; "" is /
	Home      string                   // of the caller; absolute
	Workspace string                   // absolute; nothing below it is read
	Env       func(name string) string // the caller's environment; "" is not set
}

// Managers lists the package managers that Find knows.
func Managers() []string { return []string{"apt", "cargo", "go", "npm", "pip"} }

// Find returns the rules, as --allow takes them, for what a package manager
// fetches from on this machine. None is an error that says where it looked.
func Find(manager string, h Host) ([]string, error) {
	var urls []string
	switch manager {
	case "apt":
		urls = h.apt()
	case "cargo":
		urls = h.cargo()
	case "go":
		urls = h.golang()
	case "npm":
		urls = h.npm()
	case "pip":
		urls = h.pip()
	default:
		return nil, bailey.NewError(bailey.Invalid, fmt.Sprintf("unknown package manager %q", manager), "known: "+strings.Join(Managers(), ", "))
	}
	var rules []string
	for _, u := range urls {
		if r := ruleOf(u); r != "" && !slices.Contains(rules, r) {
			rules = append(rules, r)
		}
	}
	if len(rules) == 0 {
		return nil, bailey.NewError(bailey.NotFound, fmt.Sprintf("preset %s: the configuration of %s on this machine names no host", manager, manager),
			"set one there, or allow the host by name in place of the preset")
	}
	return rules, nil
}

// ruleOf makes a rule of a URL, or "" of what is none that a proxy sees.
func ruleOf(text string) string {
	u, err := url.Parse(strings.TrimSpace(text))
	if err != nil || u.Hostname() == "" || strings.Contains(u.Hostname(), "*") { // a rule's star is no host
		return ""
	}
	port := u.Port()
	switch {
	case u.User == nil && strings.Contains(text, "@"): // a password with a slash: what is before that is no host
		return ""
	case u.Scheme != "http" && u.Scheme != "https":
		return ""
	case port == "" && u.Scheme == "http":
		port = "80"
	case port == "":
		port = "443"
	}
	host := u.Hostname()
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + port
}

// maxFile bounds what is read of one file.
const maxFile = 1 << 20

// read returns the text of a file, or "" if there is none that may be read.
func (h Host) read(path string) string {
	real, ok := h.outside(path)
	if !ok {
		return ""
	}
	f, err := os.OpenFile(real, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe would wait for its writer
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return ""
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return ""
	}
	return string(data)
}

// outside returns a path without links, if there is such a file and it is not
// the workspace's. A relative one is: whoever starts bailey is in the workspace.
func (h Host) outside(path string) (string, bool) {
	if !filepath.IsAbs(path) || h.inWorkspace(filepath.Clean(path)) {
		return "", false
	}
	real, err := filepath.EvalSymlinks(path)
	return real, err == nil && filepath.IsAbs(real) && !h.inWorkspace(real)
}

func (h Host) inWorkspace(path string) bool {
	return h.Workspace != "" && (path == h.Workspace || strings.HasPrefix(path, strings.TrimSuffix(h.Workspace, "/")+"/"))
}

// system is the path of a file of the system's.
func (h Host) system(path string) string { return filepath.Join("/", h.Root, path) }

// glob lists the files outside of the workspace that a pattern names, sorted.
func (h Host) glob(pattern string) []string {
	found, _ := filepath.Glob(pattern) // the patterns are ours
	return slices.DeleteFunc(found, func(path string) bool {
		_, base := h.outside(filepath.Dir(path))
		_, file := h.outside(path)
		return !base || !file
	})
}

// program finds a program of the caller's PATH, as the file that it is.
func (h Host) program(name string) string {
	for _, dir := range filepath.SplitList(h.Env("PATH")) {
		if real, ok := h.outside(filepath.Join(dir, name)); ok {
			return real
		}
	}
	return ""
}

// configHome is where the caller's settings are (XDG base directories).
func (h Host) configHome() string {
	if v := h.Env("XDG_CONFIG_HOME"); filepath.IsAbs(v) {
		return v
	}
	return filepath.Join(h.Home, ".config")
}

// setting is one line KEY = VALUE of a file, and the section it stands in.
type setting struct{ section, key, value string }

// settings reads the lines of an INI file or a simple TOML one. A value that
// goes on in indented lines is joined by spaces.
func settings(text string) []setting {
	var out []setting
	section := ""
	for line := range strings.SplitSeq(text, "\n") {
		bare := strings.TrimSpace(line)
		key, value, isSetting := strings.Cut(bare, "=")
		switch {
		case bare == "" || bare[0] == '#' || bare[0] == ';':
		case bare[0] == '[' && strings.HasSuffix(bare, "]"):
			section = strings.Trim(bare, "[]")
		case (line[0] == ' ' || line[0] == '\t') && len(out) > 0 && strings.Contains(bare, "://") && !strings.Contains(key, " ") && strings.Contains(key, "://"):
			out[len(out)-1].value += " " + bare
		case isSetting:
			value = strings.Trim(strings.TrimSpace(value), `"'`)
			out = append(out, setting{section, strings.Trim(strings.TrimSpace(key), `"'`), value})
		}
	}
	return out
}
