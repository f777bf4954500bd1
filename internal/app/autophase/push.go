package autophase

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/config"
	"github.com/bailey-dev/bailey/internal/gitdata"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
	"github.com/bailey-dev/bailey/internal/terminal"
)

// userGit is what a person's git is set to, read before the first unit: who they
// are, and all that a push needs.
type userGit struct {
	name, email string
	settings    []setting
	remote      string   // of the push; empty for none
	branch      string   // there; empty for the one that is checked out
	urls        []string // of the remote
}

// setting is one of git's.
type setting struct{ key, value string }

// readUserGit asks git for them. A value that a file of the work tree holds, as
// an included one may, is left out: an agent writes those.
func (d *Driver) readUserGit(ctx context.Context) error {
	// Its settings would be asked for in vain, or be those of a repository above.
	if _, err := os.Lstat(filepath.Join(d.Workspace, ".git")); errors.Is(err, os.ErrNotExist) {
		return bailey.NewError(bailey.NotFound, d.Workspace+" is not the top of a git repository's work tree", "change to the folder that has .git, or `git init` and commit here")
	}
	cmd := exec.CommandContext(ctx, d.gitProgram(), "config", "--list", "--includes", "--show-origin", "-z")
	cmd.Dir, cmd.Env = d.Workspace, d.gitEnvironment()
	out, err := cmd.Output()
	if err != nil {
		return bailey.WrapError(bailey.Invalid, "git does not say its configuration", err, "`git config --list` shows what is wrong")
	}
	fields := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	for i := 0; i+1 < len(fields); i += 2 {
		if d.fromTree(fields[i]) {
			continue
		}
		key, value, _ := strings.Cut(fields[i+1], "\n")
		d.user.settings = append(d.user.settings, setting{key, value})
	}
	d.user.name = d.who("GIT_AUTHOR_NAME", "user.name")
	d.user.email = d.who("GIT_AUTHOR_EMAIL", "user.email")
	if d.user.name == "" || d.user.email == "" || strings.ContainsAny(d.user.name+d.user.email, "<>\n") {
		return bailey.NewError(bailey.Invalid, "git does not know who commits", "git config --global user.name NAME; git config --global user.email ADDRESS")
	}
	return nil
}

func (d *Driver) who(variable, key string) string {
	if v := d.Env.Get(variable); v != "" {
		return strings.TrimSpace(v)
	}
	return strings.TrimSpace(d.user.get(key))
}

// get is the last value of a setting.
func (u *userGit) get(key string) string {
	for _, s := range slices.Backward(u.settings) {
		if s.key == key {
			return s.value
		}
	}
	return ""
}

// fromTree reports whether an origin is a file of the work tree that is none of
// its git folder.
func (d *Driver) fromTree(origin string) bool {
	path, ok := strings.CutPrefix(origin, "file:")
	if !ok {
		return false
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(d.Workspace, path)
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return within(path, d.Workspace) && !within(path, filepath.Join(d.Workspace, ".git"))
}

func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// gitEnvironment is the person's, without what names another repository or its
// parts, and without programs of the work tree in PATH.
func (d *Driver) gitEnvironment(more ...string) []string {
	var out []string
	for _, pair := range config.Pairs() {
		name, value, _ := strings.Cut(pair, "=")
		switch name {
		case "PATH":
			out = append(out, "PATH="+d.safePath(value))
		case "GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSH_VARIANT", "GIT_ASKPASS", "GIT_PROXY_COMMAND", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "GIT_SSL_NO_VERIFY", "GIT_TRACE", "GIT_CURL_VERBOSE":
			if !strings.Contains(value, d.Workspace+"/") {
				out = append(out, pair)
			}
		default:
			if !strings.HasPrefix(name, "GIT_") {
				out = append(out, pair)
			}
		}
	}
	return append(out, more...)
}

// safePath is a PATH without folders that lie in the work tree, or that are
// looked for from the current one.
func (d *Driver) safePath(path string) string {
	return strings.Join(slices.DeleteFunc(filepath.SplitList(path), func(dir string) bool {
		real := dir
		if r, err := filepath.EvalSymlinks(dir); err == nil {
			real = r
		}
		return !filepath.IsAbs(dir) || within(dir, d.Workspace) || within(real, d.Workspace)
	}), ":")
}

// preparePush finds out where to, and refuses what an agent could have a hand in.
func (d *Driver) preparePush() error {
	if d.Push == "" {
		return nil
	}
	remote, branch, named := strings.Cut(d.Push, ":")
	branch = strings.TrimPrefix(branch, "refs/heads/")
	if named && !gitdata.ValidBranch(branch) {
		return bailey.NewError(bailey.Invalid, fmt.Sprintf("--push: %q cannot be the name of a branch", branch), "--push REMOTE or --push REMOTE:BRANCH, with a name that `git check-ref-format --branch` takes")
	}
	d.user.remote, d.user.branch = remote, branch
	d.user.urls = d.user.all("remote." + d.user.remote + ".pushurl")
	if len(d.user.urls) == 0 {
		d.user.urls = d.user.all("remote." + d.user.remote + ".url")
	}
	if len(d.user.urls) == 0 {
		return bailey.NewError(bailey.NotFound, fmt.Sprintf("--push: git knows no remote %q", d.user.remote), "`git remote -v` lists those that it knows")
	}
	for i, url := range d.user.urls {
		place, local := d.place(url)
		if local {
			d.user.urls[i] = place
		}
		if local && within(place, d.Workspace) {
			return bailey.NewError(bailey.Forbidden, "--push: the remote "+d.user.remote+" lies in the workspace, where agents write: its hooks would run", "push to a repository elsewhere")
		}
	}
	for _, s := range d.user.settings {
		if pushes(s.key) && runs(s.key) && d.names(s.value) {
			return bailey.NewError(bailey.Forbidden, "--push: git's setting "+s.key+" names a file in the workspace, which agents write", "put the program elsewhere")
		}
	}
	return nil
}

// place is the folder of a remote on this machine.
func (d *Driver) place(url string) (path string, local bool) {
	path, isFile := strings.CutPrefix(url, "file://")
	if !isFile && strings.Contains(url, ":") && !strings.HasPrefix(url, "/") {
		return "", false
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(d.Workspace, path)
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return path, true
}

// names reports whether a command line names a file of the work tree.
func (d *Driver) names(value string) bool { return strings.Contains(value, d.Workspace+"/") }

func (u *userGit) all(key string) []string {
	var out []string
	for _, s := range u.settings {
		if s.key == key {
			out = append(out, s.value)
		}
	}
	return out
}

// pushes reports whether a setting is one that a push needs.
func pushes(key string) bool {
	section, _, _ := strings.Cut(key, ".")
	switch section {
	case "credential", "http", "url", "ssh", "protocol", "user":
		return true
	case "core":
		return runs(key)
	case "remote":
		return strings.HasSuffix(key, ".proxy") || strings.HasSuffix(key, ".proxyauthmethod") || strings.HasSuffix(key, ".receivepack")
	}
	return false
}

// runs reports whether git runs the value of a setting, or believes it.
func runs(key string) bool {
	switch last := key[strings.LastIndexByte(key, '.')+1:]; last {
	case "sshcommand", "askpass", "gitproxy", "helper", "receivepack", "sslcert", "sslkey", "sslcainfo", "sslcapath", "cookiefile":
		return true
	}
	return false
}

// pushTime is how long a push may take.
const pushTime = 10 * time.Minute

// push pushes a commit with the person's git, which sees no repository but one
// of bailey's own: that borrows the objects, has the settings of before the first
// unit, and neither hooks nor attributes.
func (d *Driver) push(ctx context.Context, commit, branch string) (string, error) {
	dot := filepath.Join(d.folder, "push.git")
	if err := d.makePushDir(dot); err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dot) }() // the next push does it otherwise
	if d.user.branch != "" {
		branch = "refs/heads/" + d.user.branch
	}
	ctx, cancel := context.WithTimeout(ctx, pushTime)
	defer cancel()
	for _, url := range d.user.urls {
		args := []string{"-c", "core.hooksPath=/dev/null", "push", "--porcelain", "--no-verify", "--no-follow-tags", "--recurse-submodules=no", "--signed=no", "--", url, commit + ":" + branch}
		cmd := exec.CommandContext(ctx, d.gitProgram(), args...)
		cmd.Dir = dot
		cmd.Env = d.gitEnvironment("GIT_DIR="+dot, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1", "GIT_NO_REPLACE_OBJECTS=1", "LC_ALL=C", "GIT_TERMINAL_PROMPT=0")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no terminal to ask at
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
		cmd.WaitDelay = killPatience
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		if err := cmd.Run(); err != nil {
			return "", bailey.WrapError(bailey.Unavailable, fmt.Sprintf("push to %s: %s", d.user.remote, terminal.Sanitize(lastLines(said.String()))), err,
				"the commit is made; the same command again pushes it")
		}
	}
	return d.user.remote + " " + strings.TrimPrefix(branch, "refs/heads/"), nil
}

func lastLines(s string) string {
	const most = 600
	s = strings.TrimSpace(s)
	if len(s) > most {
		s = "…" + s[len(s)-most:]
	}
	return strings.ReplaceAll(s, "\n", "; ")
}

// gitProgram is the git of a PATH without the work tree.
func (d *Driver) gitProgram() string {
	for _, dir := range filepath.SplitList(d.safePath(d.Env.Get("PATH"))) {
		path := filepath.Join(dir, "git")
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return "/usr/bin/git"
}

// makePushDir makes the git folder of a push.
func (d *Driver) makePushDir(dot string) error {
	if err := os.RemoveAll(dot); err != nil {
		return fmt.Errorf("make git folder of the push: %w", err)
	}
	for _, dir := range []string{"objects/info", "objects/pack", "refs/heads", "info"} {
		if err := os.MkdirAll(filepath.Join(dot, dir), privateDir); err != nil {
			return fmt.Errorf("make git folder of the push: %w", err)
		}
	}
	stores, format, err := d.stores()
	if err != nil {
		return err
	}
	var text strings.Builder
	text.WriteString(format)
	for _, s := range d.user.settings {
		if pushes(s.key) {
			text.WriteString(line(s))
		}
	}
	// What git reads last of a list holds, and it is read first of these files.
	files := map[string]string{"HEAD": "ref: refs/heads/none\n", "config": text.String(), "objects/info/alternates": strings.Join(stores, "\n") + "\n", "info/attributes": "* -text -filter\n"}
	if shallow, err := os.ReadFile(filepath.Join(d.git(), "own.git", "shallow")); err == nil {
		files["shallow"] = string(shallow)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dot, name), []byte(text), privateFile); err != nil {
			return fmt.Errorf("make git folder of the push: %w", err)
		}
	}
	return nil
}

// line writes a setting as a file of git's has it.
func line(s setting) string {
	section, rest, _ := strings.Cut(s.key, ".")
	sub, key := "", rest
	if i := strings.LastIndexByte(rest, '.'); i >= 0 {
		sub, key = rest[:i], rest[i+1:]
	}
	head := "[" + section + "]\n"
	if sub != "" {
		head = "[" + section + " " + gitdata.QuoteConfigValue(sub) + "]\n"
	}
	return head + "\t" + key + " = " + gitdata.QuoteConfigValue(s.value) + "\n"
}

// stores are the object stores that the repository had before the unit, and how
// it names objects.
func (d *Driver) stores() (list []string, format string, err error) {
	var was struct {
		Objects []string `json:"objects"`
		Head    string   `json:"head"`
	}
	if err := readJSON(filepath.Join(d.git(), "begin.json"), &was); err != nil {
		return nil, "", errors.Join(errors.New("read what was kept of the repository"), err)
	}
	format = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"
	const sha256 = 64
	if len(was.Head) == sha256 {
		format = "[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectFormat = sha256\n"
	}
	for _, path := range was.Objects {
		if strings.ContainsAny(path, "\n\"") {
			return nil, "", bailey.NewError(bailey.Unsupported, "the path of the repository cannot be pushed from", "")
		}
		dir, err := beneath.Dir(path)
		if err != nil {
			return nil, "", fmt.Errorf("open objects: %w", err)
		}
		_ = dir.Close() // O_PATH: nothing to lose
	}
	return was.Objects, format, nil
}
