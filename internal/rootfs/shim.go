package rootfs

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// maxVersionFile bounds the small files that say which version is wanted.
const maxVersionFile = 64 << 10

// behind is the program that a version manager's shim would start.
type behind struct {
	file string   // empty if it would start none
	also []string // further folders for PATH
}

// shim reports whether dir is a folder of a version manager's shims, and what
// the one called name would start.
func (s *search) shim(dir, name string) (b behind, isShim bool) {
	root := filepath.Dir(dir)
	switch filepath.Base(dir) {
	case "shims":
		switch {
		case s.tree.isDir(filepath.Join(root, "versions")):
			return behind{file: s.env(root, name), also: nil}, true
		case filepath.Base(root) == "mise" && s.tree.isDir(filepath.Join(root, "installs")):
			return behind{file: s.mise(root, name), also: nil}, true
		case s.tree.isDir(filepath.Join(root, "installs")):
			return behind{file: s.asdf(root, name), also: nil}, true
		}
		return behind{file: "", also: nil}, s.tree.isFile(filepath.Join(dir, name)) && strings.Contains(dir, "/plugins/")
	case "bin":
		switch {
		case s.tree.isDir(filepath.Join(root, "tools/image")) && s.leadsTo(filepath.Join(dir, name), "volta-shim"):
			return behind{file: s.volta(root, name), also: nil}, true
		case s.tree.exists(filepath.Join(dir, "rustup")) && isRustup(name):
			return behind{file: s.rustup(name), also: []string{dir}}, true
		}
	}
	return behind{file: "", also: nil}, false
}

func (s *search) leadsTo(path, name string) bool {
	real, _, err := s.tree.resolve(path)
	return err == nil && filepath.Base(real) == name
}

// text returns a small file of the caller's or of the workspace, "" if there
// is none.
func (s *search) text(path string) string {
	real, ok := s.follow(path)
	if !ok {
		return ""
	}
	data, err := s.tree.read(real, maxVersionFile, 0)
	if err != nil {
		return ""
	}
	return string(data)
}

// names lists a folder, sorted; nothing if it cannot be read.
func (s *search) names(dir string) []string {
	real, ok := s.follow(dir)
	if !ok {
		return nil
	}
	entries, err := s.tree.list(real)
	if err != nil {
		return nil
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name
	}
	return names
}

// follow returns what a path names. A link of the workspace, which an agent may
// have made, is followed inside the workspace only.
func (s *search) follow(path string) (real string, ok bool) {
	real, links, err := s.tree.resolve(path)
	if err != nil || s.fromWorkspace(path, links) && !s.inWorkspace(real) {
		return "", false
	}
	return real, true
}

// upwards calls visit for the current folder and each above it, until visit
// returns true.
func (s *search) upwards(visit func(dir string) bool) {
	for dir := filepath.Clean(s.Cwd); filepath.IsAbs(dir); dir = filepath.Dir(dir) {
		if visit(dir) || dir == "/" {
			return
		}
	}
}

// env finds a program of pyenv or one of its kin: the version is that of the
// variable, of the nearest version file, or of root/version; several may be
// named, and "system" means none of them.
func (s *search) env(root, name string) string {
	kind := strings.TrimPrefix(filepath.Base(root), ".")
	file := map[string]string{
		"pyenv": ".python-version", "rbenv": ".ruby-version", "nodenv": ".node-version", "goenv": ".go-version", "plenv": ".perl-version", "phpenv": ".php-version",
	}[kind]
	want := s.Env(strings.ToUpper(kind) + "_VERSION")
	if want == "" && file != "" {
		s.upwards(func(dir string) bool {
			want = strings.TrimSpace(s.text(filepath.Join(dir, file)))
			return want != ""
		})
	}
	if want == "" {
		want = s.text(filepath.Join(root, "version"))
	}
	versions := filepath.Join(root, "versions")
	for _, v := range strings.FieldsFunc(want, func(r rune) bool { return r == ':' || r <= ' ' }) {
		if v = s.installed(versions, v); v == "" {
			continue
		}
		if path := filepath.Join(versions, v, "bin", name); s.executable(path) {
			return path
		}
	}
	return ""
}

// installed returns the name of the version v in dir, or of the highest one
// that v is the beginning of ("3.11" for 3.11.7), or "".
func (s *search) installed(dir, v string) string {
	if !isPlainName(v) {
		return ""
	}
	if s.tree.exists(filepath.Join(dir, v)) {
		return v
	}
	best := ""
	for _, name := range s.names(dir) {
		if strings.HasPrefix(name, v+".") || strings.HasPrefix(name, v+"-") {
			if best == "" || newer(name, best) {
				best = name
			}
		}
	}
	return best
}

// newer compares two versions by their numbers, part by part.
func newer(a, b string) bool {
	x, y := strings.FieldsFunc(a, notDigit), strings.FieldsFunc(b, notDigit)
	for i := range min(len(x), len(y)) {
		m, _ := strconv.Atoi(x[i]) // digits; too long a number counts as the largest
		n, _ := strconv.Atoi(y[i])
		if m != n {
			return m > n
		}
	}
	return len(x) > len(y)
}

func notDigit(r rune) bool { return r < '0' || r > '9' }

// toolVersions reads .tool-versions upwards and in the home: the first word of
// that tool.
func (s *search) toolVersions(tool string) string {
	read := func(dir string) string {
		for line := range strings.Lines(s.text(filepath.Join(dir, ".tool-versions"))) {
			if w := strings.Fields(line); len(w) > 1 && w[0] == tool {
				return w[1]
			}
		}
		return ""
	}
	v := ""
	s.upwards(func(dir string) bool { v = read(dir); return v != "" })
	if v == "" {
		v = read(s.Home)
	}
	return v
}

// asdf finds a program by what its shim says: lines "# asdf-plugin: TOOL
// VERSION" name all that have it.
func (s *search) asdf(root, name string) string {
	for line := range strings.Lines(s.text(filepath.Join(root, "shims", name))) {
		rest, ok := strings.CutPrefix(line, "# asdf-plugin: ")
		w := strings.Fields(rest)
		if !ok || len(w) != 2 || !isPlainName(w[0]) || !isPlainName(w[1]) {
			continue
		}
		want := s.Env("ASDF_" + strings.ToUpper(strings.ReplaceAll(w[0], "-", "_")) + "_VERSION")
		if want == "" {
			want = s.toolVersions(w[0])
		}
		if want != w[1] {
			continue
		}
		for _, bin := range []string{"bin", "go/bin", "packages/bin"} {
			if path := filepath.Join(root, "installs", w[0], w[1], bin, name); s.executable(path) {
				return path
			}
		}
	}
	return ""
}

// mise finds a program among the installed tools, in the version that the
// settings ask for, else the latest.
func (s *search) mise(root, name string) string {
	installs := filepath.Join(root, "installs")
	for _, tool := range s.names(installs) {
		v := s.Env("MISE_" + strings.ToUpper(strings.ReplaceAll(tool, "-", "_")) + "_VERSION")
		for _, look := range []func(string) string{s.miseToml, s.toolVersions} {
			if v == "" {
				v = look(tool)
			}
		}
		if v == "" {
			v = "latest"
		}
		if v = s.installed(filepath.Join(installs, tool), v); v == "" {
			continue
		}
		if path := filepath.Join(installs, tool, v, "bin", name); s.executable(path) {
			return path
		}
	}
	return ""
}

// miseToml reads `tool = "version"` lines of mise.toml upwards and of the
// user's own settings. Other forms are not read.
func (s *search) miseToml(tool string) string {
	v := ""
	read := func(path string) {
		for line := range strings.Lines(s.text(path)) {
			if key, value, ok := strings.Cut(line, "="); ok && v == "" && strings.Trim(key, " \t\"'") == tool {
				if quoted := strings.TrimSpace(value); len(quoted) > 2 && quoted[0] == '"' {
					v, _, _ = strings.Cut(quoted[1:], "\"")
				}
			}
		}
	}
	s.upwards(func(dir string) bool {
		read(filepath.Join(dir, "mise.toml"))
		read(filepath.Join(dir, ".mise.toml"))
		return v != ""
	})
	read(filepath.Join(s.Home, ".config/mise/config.toml"))
	return v
}

// volta finds node and its kin by the nearest package.json that pins them, else
// by the user's own platform; other programs by the note volta keeps of each.
func (s *search) volta(root, name string) string {
	tool := name
	if name == "npx" || name == "npm" {
		tool = "node"
	}
	if slices.Contains([]string{"node", "yarn", "pnpm"}, tool) {
		if v := s.voltaVersion(root, tool); isPlainName(v) {
			return s.ifExecutable(filepath.Join(root, "tools/image", tool, v, "bin", name))
		}
		return ""
	}
	var bin struct {
		Package string `json:"package"`
	}
	_ = json.Unmarshal([]byte(s.text(filepath.Join(root, "tools/user/bins", name+".json"))), &bin) // nothing means none
	if !filepath.IsLocal(bin.Package) {
		return ""
	}
	return s.ifExecutable(filepath.Join(root, "tools/image/packages", bin.Package, "bin", name))
}

func (s *search) voltaVersion(root, tool string) string {
	v := ""
	s.upwards(func(dir string) bool {
		var pkg struct {
			Volta map[string]string `json:"volta"`
		}
		_ = json.Unmarshal([]byte(s.text(filepath.Join(dir, "package.json"))), &pkg) // nothing means none
		v = pkg.Volta[tool]
		return v != ""
	})
	if v != "" {
		return v
	}
	var platform struct {
		Node struct {
			Runtime string `json:"runtime"`
		} `json:"node"`
		Yarn string `json:"yarn"`
		Pnpm string `json:"pnpm"`
	}
	_ = json.Unmarshal([]byte(s.text(filepath.Join(root, "tools/user/platform.json"))), &platform) // nothing means none
	return map[string]string{"node": platform.Node.Runtime, "yarn": platform.Yarn, "pnpm": platform.Pnpm}[tool]
}

func (s *search) ifExecutable(path string) string {
	if s.executable(path) {
		return path
	}
	return ""
}

// isRustup lists the programs for which rustup stands in.
func isRustup(name string) bool {
	switch name {
	case "cargo", "cargo-clippy", "cargo-fmt", "cargo-miri", "clippy-driver", "rls", "rust-analyzer", "rust-gdb", "rust-gdbgui",
		"rust-lldb", "rustc", "rustdoc", "rustfmt":
		return true
	}
	return false
}

// rustup finds a program in the toolchain that rustup would choose: by
// variable, by the nearest rust-toolchain file, or the default.
func (s *search) rustup(name string) string {
	home := s.Env("RUSTUP_HOME")
	if !filepath.IsAbs(home) {
		home = filepath.Join(s.Home, ".rustup")
	}
	want := s.Env("RUSTUP_TOOLCHAIN")
	if want == "" {
		s.upwards(func(dir string) bool {
			want = channel(s.text(filepath.Join(dir, "rust-toolchain.toml")))
			if want == "" {
				want = channel(s.text(filepath.Join(dir, "rust-toolchain")))
			}
			return want != ""
		})
	}
	if want == "" {
		want = setting(s.text(filepath.Join(home, "settings.toml")), "default_toolchain")
	}
	v := s.installed(filepath.Join(home, "toolchains"), want)
	if v == "" {
		return ""
	}
	return s.ifExecutable(filepath.Join(home, "toolchains", v, "bin", name))
}

// channel reads a rust-toolchain file: TOML with a channel, or just the name.
func channel(text string) string {
	if v := setting(text, "channel"); v != "" {
		return v
	}
	if text = strings.TrimSpace(text); !strings.ContainsAny(text, "\n=[ ") {
		return text
	}
	return ""
}

// setting returns the string of a line `key = "value"`.
func setting(text, key string) string {
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(line, "="); ok && strings.TrimSpace(k) == key {
			return strings.Trim(strings.TrimSpace(v), `"'`)
		}
	}
	return ""
}
