package rootfs

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey/internal/sandbox"
)

// systemPath is what PATH ends with inside, in this order.
func systemPath() []string {
	return []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}
}

// environment makes the variables of a sandbox: where it is (HOME, USER,
// LOGNAME, SHELL, PATH, TMPDIR), how the caller's terminal and language are
// (TERM, COLORTERM, NO_COLOR, LANG, LC_*, LANGUAGE, TZ; each only if it can
// be used inside), and GOTOOLCHAIN=local, because go would otherwise try to
// download one that the network refuses. Nothing else of the caller's
// environment is taken over; proxies in particular are not, as the sandbox
// has its own way out. What trusted holds, by name, is added.
func environment(t tree, h Host, shell string, trusted map[string]string) []string {
	env := map[string]string{
		"HOME": HomeDir, "USER": UserName, "LOGNAME": UserName, "SHELL": shell,
		"PATH": strings.Join(searchPath(t, h), ":"), "TMPDIR": "/tmp", "GOTOOLCHAIN": "local",
	}
	if h.AsRoot {
		env["USER"], env["LOGNAME"] = "root", "root"
	}
	terminal(t, h, env)
	language(t, h, env)
	if tz := h.env("TZ"); tz != "" && knownZone(t, tz) {
		env["TZ"] = tz
	}
	for _, tool := range h.Tools {
		for _, pair := range tool.Env {
			name, value, _ := strings.Cut(pair, "=")
			env[name] = value
		}
	}
	maps.Copy(env, trusted)
	list := make([]string, 0, len(env))
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	slices.Sort(list)
	return list
}

// searchPath builds PATH: the caller's own order as far as its folders are
// visible inside, with the folders of the resolved tools where the caller's
// PATH had them (or at the front if it had not), and the system's own at the
// end. A shim's folder is not visible, so what it would have hidden is found.
func searchPath(t tree, h Host) []string {
	var path []string
	at := make(map[string][]string) // folder of the caller's PATH → folders that stand for it inside
	for _, tool := range h.Tools {
		if tool.From == "" {
			path = append(path, tool.Path...)
			continue
		}
		at[tool.From] = append(at[tool.From], tool.Path...)
	}
	for _, dir := range h.path() {
		if !filepath.IsAbs(dir) || hasControl(dir) {
			continue
		}
		dir = filepath.Clean(dir)
		path = append(path, at[dir]...)
		if isSystem(dir) && t.exists(dir) || sandbox.Within(dir, h.Workspace) {
			path = append(path, dir)
		}
	}
	path = append(path, systemPath()...)
	seen := make(map[string]bool, len(path))
	return slices.DeleteFunc(path, func(dir string) bool {
		drop := seen[dir] || strings.Contains(dir, ":")
		seen[dir] = true
		return drop
	})
}

// terminal takes over the kind of terminal if programs inside will know it.
func terminal(t tree, h Host, env map[string]string) {
	term := kind(t, h)
	if term == "" {
		return
	}
	env["TERM"] = term
	for _, name := range []string{"COLORTERM", "NO_COLOR"} {
		if v := h.env(name); v != "" {
			env[name] = v
		}
	}
}

// Terminal returns the TERM of a command that joins a running sandbox: the
// caller's, judged as that of the sandbox's own command was, or "" for none.
func Terminal(env func(name string) string) string {
	return kind(newTree("/"), Host{Env: env})
}

// kind returns the caller's kind of terminal, or one that every program knows
// in the place of one that the sandbox does not.
func kind(t tree, h Host) string {
	term := h.env("TERM")
	if term != "" && !knownTerminal(t, term) {
		return "xterm-256color"
	}
	return term
}

// knownTerminal reports whether the terminal's description is visible
// inside. term(5): the folder is named by the first letter, or by its code in
// hexadecimal on file systems that ignore case.
func knownTerminal(t tree, term string) bool {
	if term == "dumb" {
		return true
	}
	if !isPlainName(term) {
		return false
	}
	for _, dir := range []string{"/etc/terminfo", "/lib/terminfo", "/usr/lib/terminfo", "/usr/share/terminfo"} {
		for _, sub := range []string{term[:1], hex(term[0])} {
			if _, _, err := t.resolve(filepath.Join(dir, sub, term)); err == nil {
				return true
			}
		}
	}
	return false
}

func hex(c byte) string {
	const digits = "0123456789abcdef"
	return string([]byte{digits[c>>4], digits[c&15]})
}

// knownZone accepts a POSIX zone ("CET-1CEST") or a name from the system's
// zone files, without a leading colon and without a path out of them.
func knownZone(t tree, tz string) bool {
	if strings.HasPrefix(tz, "/") || strings.HasPrefix(tz, ":") || strings.Contains(tz, "..") {
		return false
	}
	if _, _, err := t.resolve(filepath.Join("/usr/share/zoneinfo", tz)); err == nil {
		return true
	}
	return !strings.Contains(tz, "/") && strings.ContainsAny(tz, "0123456789") && len(tz) < 64
}

// isPlainName reports whether s can be one component of a path and nothing
// else: a version, a program, a terminal.
func isPlainName(s string) bool {
	if s == "" || len(s) > 255 || s[0] == '.' || s[0] == '-' {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == '/' || r == 0x7f || r == ':' })
}
