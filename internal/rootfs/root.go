package rootfs

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey/internal/linux/beneath"
	"github.com/bailey-dev/bailey/internal/sandbox"
)

// toolchain is a folder in which a version manager keeps whole toolchains.
type toolchain struct {
	env  string // the variable that moves base, if any
	base string // below the home
	sub  string // below base: names and "*" for any one name
}

// toolchains are the folders that hold nothing but programs, one toolchain
// each. These alone are opened on the word of a file in the workspace.
func toolchains() []toolchain {
	return []toolchain{
		{"PYENV_ROOT", ".pyenv", "versions/*"},
		{"RBENV_ROOT", ".rbenv", "versions/*"},
		{"NODENV_ROOT", ".nodenv", "versions/*"},
		{"GOENV_ROOT", ".goenv", "versions/*"},
		{"PLENV_ROOT", ".plenv", "versions/*"},
		{"PHPENV_ROOT", ".phpenv", "versions/*"},
		{"NVM_DIR", ".nvm", "versions/node/*"},
		{"NVM_DIR", ".config/nvm", "versions/node/*"},
		{"FNM_DIR", ".local/share/fnm", "node-versions/*/installation"},
		{"FNM_DIR", ".fnm", "node-versions/*/installation"},
		{"VOLTA_HOME", ".volta", "tools/image/packages/*"},
		{"VOLTA_HOME", ".volta", "tools/image/*/*"},
		{"ASDF_DATA_DIR", ".asdf", "installs/*/*"},
		{"MISE_DATA_DIR", ".local/share/mise", "installs/*/*"},
		{"RUSTUP_HOME", ".rustup", "toolchains/*"},
		{"UV_TOOL_DIR", ".local/share/uv/tools", "*"},
		{"UV_PYTHON_INSTALL_DIR", ".local/share/uv/python", "*"},
		{"PIPX_HOME", ".local/share/pipx", "venvs/*"},
		{"PIPX_HOME", ".local/pipx", "venvs/*"},
		{"PNPM_HOME", ".local/share/pnpm", ""},
		{"BUN_INSTALL", ".bun", "install/global/node_modules"},
		{"SDKMAN_DIR", ".sdkman", "candidates/*/*"},
		{"", "sdk", "*"},
		{"", ".jdks", "*"},
		{"", ".dotnet", ""},
		{"", ".ghcup", ""},
		{"", "miniconda3", ""},
		{"", "anaconda3", ""},
		{"", "miniforge3", ""},
		{"", ".local/share/claude/versions", "*"},
		{"", "/home/linuxbrew/.linuxbrew", ""},
	}
}

// shown is what a sandbox may see for a program.
type shown struct {
	root  string // the smallest sensible file or folder; "" if it is visible anyway
	whole string // the project that is not shown, of which root is but one file; "" usually
	deny  string // why nothing may be shown, as half a sentence; "" if something may
}

// root decides what to show for a program at real (no link in it). Of what is
// not trusted only the toolchains above count.
func (s *search) root(real string, f found) shown {
	if isSystem(real) || s.inWorkspace(real) {
		return shown{root: "", whole: "", deny: ""}
	}
	if root := s.known(real); root != "" && s.harmless(root) {
		return shown{root: root, whole: "", deny: ""}
	}
	if s.inSecrets(real) {
		return shown{root: "", whole: "", deny: real + " lies where keys are kept"}
	}
	if f.untrusted {
		return shown{root: "", whole: "", deny: "a file of the workspace leads to " + real}
	}
	whole := ""
	for _, guess := range []func(string) string{s.nodeModules, s.venv, optional, s.prefix} {
		root := guess(real)
		if root == "" || !s.harmless(root) {
			continue
		}
		if whole = s.project(root); whole == "" {
			return shown{root: root, whole: "", deny: ""}
		}
	}
	return shown{root: real, whole: whole, deny: ""}
}

// projectSigns are names that a folder has when people work on it: then it is
// no installation, and what else lies there (a deploy key, a history with its
// remote's password) is nobody's business inside.
func projectSigns() []string {
	return []string{".git", ".hg", ".svn", ".jj", ".bzr", ".env", ".envrc", ".env.local", ".idea", ".vscode"}
}

// project returns the project that a folder is, or lies in, or "". What is
// above a home is not looked at, nor the home itself, in which people keep
// their settings under version control. Packages and Python environments are
// apart from the project that they lie in.
func (s *search) project(root string) string {
	apart := filepath.Base(root) == "node_modules" || s.tree.isFile(filepath.Join(root, "pyvenv.cfg"))
	for dir := root; dir != "/" && dir != s.Home; dir = filepath.Dir(dir) {
		for _, name := range projectSigns() {
			if s.tree.exists(filepath.Join(dir, name)) {
				return dir
			}
		}
		if apart {
			break
		}
	}
	return ""
}

// known returns the toolchain that path lies in, or "".
func (s *search) known(path string) string {
	for _, tc := range toolchains() {
		bases := []string{filepath.Join(s.Home, tc.base)}
		if filepath.IsAbs(tc.base) {
			bases[0] = tc.base
		}
		if dir := s.Env(tc.env); tc.env != "" && s.Home != "" && filepath.IsAbs(dir) {
			if dir = s.real(dir); sandbox.Within(dir, s.Home) {
				bases = append(bases, dir)
			}
		}
		for _, base := range bases {
			if root := match(base, tc.sub, path); root != "" {
				return root
			}
		}
	}
	return ""
}

// match returns the part of path that base and the pattern sub cover, or "".
func match(base, sub, path string) string {
	rest, ok := strings.CutPrefix(path, base+"/")
	if !ok {
		return ""
	}
	if sub == "" {
		return base
	}
	want, have := strings.Split(sub, "/"), strings.Split(rest, "/")
	if len(have) < len(want) {
		return ""
	}
	for i, name := range want {
		if name != "*" && name != have[i] {
			return ""
		}
	}
	return filepath.Join(base, filepath.Join(have[:len(want)]...))
}

// nodeModules returns the outermost node_modules that path lies in: packages
// there find each other. One that belongs to an installation of node is that
// installation.
func (s *search) nodeModules(path string) string {
	before, _, ok := strings.Cut(path, "/node_modules/")
	if !ok {
		return ""
	}
	if prefix, ok := strings.CutSuffix(before, "/lib"); ok && s.tree.isFile(filepath.Join(prefix, "bin/node")) {
		return prefix
	}
	return before + "/node_modules"
}

// venv returns the Python environment whose bin holds path, or "".
func (s *search) venv(path string) string {
	bin := filepath.Dir(path)
	if root := filepath.Dir(bin); filepath.Base(bin) == "bin" && s.tree.isFile(filepath.Join(root, "pyvenv.cfg")) {
		return root
	}
	return ""
}

// optional returns the package below /opt that path lies in, or "".
func optional(path string) string { return match("/opt", "*", path) }

// prefix returns the folder above bin if it looks like the installation of
// one program: it has libraries or data beside bin.
func (s *search) prefix(path string) string {
	bin := filepath.Dir(path)
	root := filepath.Dir(bin)
	if filepath.Base(bin) != "bin" {
		return ""
	}
	for _, name := range []string{"lib", "lib64", "libexec", "share", "pkg", "jre", "conda-meta"} {
		if s.tree.isDir(filepath.Join(root, name)) {
			return root
		}
	}
	return ""
}

// shared lists folders of a home that hold many programs' data. They are
// never shown as a whole.
func shared() []string {
	return []string{
		".cache", ".cargo", ".claude", ".codex", ".config", ".local", ".local/bin", ".local/lib", ".local/share", ".local/state",
		".mozilla", ".npm", ".rustup", ".var", "bin", "go", "go/bin", "Documents", "Desktop", "Downloads", "snap",
	}
}

// secrets lists names in a home, or in a folder, that hold credentials.
func secrets() []string {
	return []string{
		".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".password-store", ".netrc", ".npmrc", ".pypirc", ".git-credentials",
		".config/gcloud", ".config/gh", ".config/op", ".claude", ".codex", ".gem/credentials", ".cargo/credentials.toml", ".cargo/credentials",
		".local/share/keyrings", ".env", ".vault-token", ".terraform.d", ".databrickscfg",
	}
}

// inSecrets reports whether a path is, or lies in, a place of credentials.
func (s *search) inSecrets(path string) bool {
	return slices.ContainsFunc(s.ofHome(secrets()), func(place string) bool { return sandbox.Within(path, place) })
}

// ofHome returns where names of the home really are: each may be a link.
func (s *search) ofHome(names []string) []string {
	if s.Home == "" {
		return nil
	}
	places := make([]string, 0, len(names))
	for _, name := range names {
		places = append(places, s.real(filepath.Join(s.Home, name)))
	}
	return places
}

// harmless reports whether a folder may be shown as a whole: it is, and holds,
// no home, no folder shared by many programs, no place of credentials and not
// the workspace, and has no credentials in its top.
func (s *search) harmless(root string) bool {
	if root == "/" || s.Home != "" && sandbox.Within(s.Home, root) || s.Workspace != "" && sandbox.Within(s.Workspace, root) || s.inSecrets(root) {
		return false
	}
	switch filepath.Dir(root) {
	case "/", "/home", "/var/home", "/Users":
		return false
	}
	if slices.ContainsFunc(s.ofHome(slices.Concat(shared(), secrets())), func(place string) bool { return sandbox.Within(place, root) }) {
		return false
	}
	entries, err := s.tree.list(root)
	if err != nil { // a file, or one the caller may not list
		return s.tree.isFile(root)
	}
	return !slices.ContainsFunc(entries, func(e beneath.Entry) bool { return slices.Contains(secrets(), e.Name) })
}
