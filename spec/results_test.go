package spec_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey/internal/testkit/carrying"
)

// TestPRV06_TheHelperCanDoNothingElse puts a program in the place of git that
// tries what it may do. The twin is the same program without the role.
func TestPRV06_TheHelperCanDoNothingElse(t *testing.T) {
	t.Attr("claim", "PRV-06")
	t.Parallel()
	carrying.Each(t, func(t *testing.T, d *carrying.Desk) {
		p := newPlanted(t, d)
		ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = ln.Close() }()
		local, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", d.Home+"/socket")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = local.Close() }()
		if err := os.WriteFile(d.Home+"/secret", []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		d.Own(t, d.Home)
		d.Take(t)
		p.do(t, d.Clone(), "echo work > work")
		target := []byte(ln.Addr().String() + " " + d.Home)
		for _, at := range []string{d.Shadow() + "/target", d.Folder + "/target"} {
			if err := os.WriteFile(at, target, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want := fmt.Sprintf("uid=%d caps=0 nnp=1 seccomp=2 first=true net=no links=no passwd=no proc=no home=no exec=no mkdir=no repo=no raw=no unix=no", d.UID)
		d.Git = carrying.OwnProgram(t)
		place := d.Place()
		for name, r := range map[string]carrying.Request{
			"snapshot": {Snapshot: &carrying.Snapshot{Repository: place, ID: "t2", Shadow: d.Folder + "/s2", Clone: d.Folder + "/c2"}},
			"collect":  {Collect: &carrying.Collect{ID: "t1", Shadow: d.Shadow(), Clone: d.Clone()}},
		} {
			_, err := d.Do(t, r)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v\nwant %s", name, err, want)
			}
		}
		if err := errors.Join(os.Mkdir(d.Dir+"/probe", 0o755), os.WriteFile(d.Dir+"/probe/target", target, 0o644)); err != nil {
			t.Fatal(err)
		}
		out := d.Host(t, "bash", "-c", "exec 2>&1; GIT_DIR="+d.Dir+"/probe; export GIT_DIR; (exec -a git "+d.Git+" x) || true")
		for _, can := range []string{"net=yes", "links=yes", "passwd=yes", "home=yes", "exec=yes", "mkdir=yes", "repo=yes", "unix=yes"} {
			if !strings.Contains(out, can) {
				t.Errorf("twin: %s, want %s", out, can)
			}
		}
	})
}

// TestPRV06_UnsuitablePathsAreRefused: and none is made.
// Of the attacks: C068.
func TestPRV06_UnsuitablePathsAreRefused(t *testing.T) {
	t.Attr("claim", "PRV-06")
	t.Parallel()
	carrying.Each(t, func(t *testing.T, d *carrying.Desk) {
		newPlanted(t, d)
		d.Host(t, "sh", "-ec", "cd "+d.Dir+"; ln -s repo link; mkdir plain; git init -q unborn; git clone -q --bare repo bare; git clone -q repo foreign")
		stranger := d.UID + 1
		if err := filepath.WalkDir(d.Dir+"/foreign/.git", func(path string, _ os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Lchown(path, stranger, stranger)
		}); err != nil {
			t.Fatal(err)
		}
		for path, says := range map[string]string{
			"repo":    "",
			"absent":  "does not exist",
			"link":    "symbolic link",
			"plain":   "is not in a git repository",
			"unborn":  "has no commit yet",
			"bare":    "is a bare repository",
			"foreign": "does not belong to you",
			"..":      "not absolute and clean",
		} {
			place := d.Place()
			place.Path = d.Dir + "/" + path
			_, err := d.Do(t, carrying.Request{Snapshot: &carrying.Snapshot{Repository: place, ID: "t1", Shadow: d.Folder + "/s-" + path, Clone: d.Folder + "/c-" + path}})
			if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v, want %q", path, err, says)
			}
		}
		place := d.Place()
		place.Roots = []string{d.Dir + "/plain"}
		if _, err := d.Do(t, carrying.Request{Snapshot: &carrying.Snapshot{Repository: place, ID: "t1", Shadow: d.Shadow(), Clone: d.Clone()}}); err == nil || !strings.Contains(err.Error(), "outside of the folders") {
			t.Errorf("outside of the roots: %v", err)
		}
		if _, err := os.Lstat(d.Dir + "/absent"); !os.IsNotExist(err) {
			t.Error("the absent folder was made")
		}
	})
}

// hostileTree makes what must not come back, each with its name in what the
// result says is left out.
func hostileTree() map[string]struct{ make, says string } {
	return map[string]struct{ make, says string }{
		"C060 option":         {"echo x > ./-rf", "-rf: a name that a program may take for an option"},
		"C053 git file":       {"mkdir a; echo 'gitdir: /etc' > a/.git", "a/.git: a name that a file system may take for .git"},
		"C056 nested":         {"git init -q nested; echo x > nested/file", "nested/.git: a name"},
		"case":                {"mkdir .GIT; echo x > .GIT/config", ".GIT: a name"},
		"NTFS":                {"mkdir git~1 '.git.'; echo x > git~1/config; echo x > .git./config", "\"git~1\": a name"},
		"HFS+":                {"mkdir \"$(printf '.g\\342\\200\\214it')\"; echo x > \"$(printf '.g\\342\\200\\214it')\"/config", `it": a name that a file system may take`},
		"C001 absolute link":  {"ln -s /etc/passwd out.txt", "out.txt: a link to an absolute path"},
		"C001 relative link":  {"ln -s ../../../../etc/shadow dir/up", "dir/up: a link that may lead out"},
		"C001 linked folder":  {"ln -s /etc d", "d: a link to an absolute path"},
		"C010 pipe":           {"mkfifo README.md", "README.md: a device, pipe or socket"},
		"C013 line feed":      {"touch \"$(printf 'a\\nb')\"", "\"a b\": a name with a control character"},
		"C013 escape":         {"touch \"$(printf '\\033]0;x\\007')\"", "a name with a control character"},
		"C013 direction":      {"touch \"$(printf 'gpj.\\342\\200\\256exe')\"", "a name with a control character"},
		"C014 sparse":         {"truncate -s 1T huge", "huge: a file of more than 100 MiB"},
		"C014 deep":           {"mkdir -p $(python3 -c 'print(\"/\".join([\"d\"]*230))'); touch $(python3 -c 'print(\"/\".join([\"d\"]*230))')/f", "folders that are too deep"},
		"C018 whiteout":       {"mknod gone c 0 0", "gone: a device, pipe or socket"},
		"unreadable file":     {"echo x > shut; chmod 0 shut", "shut: a file that cannot be read"},
		"unreadable folder":   {"mkdir shut; echo x > shut/file; chmod 0 shut", "shut: a folder that cannot be read"},
		"C056 modules":        {"printf '[submodule \"x\"]\\n\\tpath = x\\n\\turl = -u./payload\\n' > .gitmodules", ".gitmodules: settings of submodules"},
		"C064 file of a link": {"ln -s .git/hooks hooks", "hooks: a link into a git folder"},
	}
}

// TestRES03_OnlyDataComesBack: what could act or mislead is left out and named;
// the rest of the work comes back.
func TestRES03_OnlyDataComesBack(t *testing.T) {
	t.Attr("claim", "RES-03")
	t.Parallel()
	for id, c := range hostileTree() {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			carrying.Each(t, func(t *testing.T, d *carrying.Desk) {
				p := newPlanted(t, d)
				d.Take(t)
				p.do(t, d.Clone(), "echo work > work")
				d.Gather(t)
				want := p.do(t, d.Shadow(), "git ls-tree -r --name-only refs/heads/agent/t1")
				p.do(t, d.Clone(), c.make)
				got, diff := d.Gather(t)
				if !slices.ContainsFunc(got.Refused, func(s string) bool { return strings.Contains(s, c.says) }) {
					t.Errorf("left out: %q, want %q", got.Refused, c.says)
				}
				if strings.ContainsAny(strings.Join(got.Refused, ""), "\x1b\n\u202e") {
					t.Errorf("the names are raw: %q", got.Refused)
				}
				names := p.do(t, d.Shadow(), "git ls-tree -r --name-only refs/heads/agent/t1")
				names = strings.Replace(names, "nested/file\n", "", 1)
				if names != want {
					t.Errorf("the commit has %q, want %q\n%s", names, want, diff)
				}
				if err := d.Send(t); err != nil {
					t.Error(err)
				}
				p.do(t, d.Repo, "git fsck --strict")
			})
		})
	}
	t.Run("twin", func(t *testing.T) {
		carrying.Each(t, func(t *testing.T, d *carrying.Desk) {
			p := newPlanted(t, d)
			d.Take(t)
			p.do(t, d.Clone(), "ln -s /etc/passwd out.txt; echo x > ./-rf; touch \"$(printf 'a\\nb')\"; git init -q nested; git -C nested commit -q --allow-empty -m x; git add -A 2>/dev/null")
			if got := p.do(t, d.Clone(), "git diff --cached --name-only"); !strings.Contains(got, "out.txt") || !strings.Contains(got, "-rf") || !strings.Contains(got, `a\nb`) || !strings.Contains(got, "nested") {
				t.Errorf("plain git leaves out more: %q", got)
			}
		})
	})
}

// TestRES03_NamesThatLookLikeOptions never reach git, and no branch but one of
// a task is deleted or replaced.
func TestRES03_NamesThatLookLikeOptions(t *testing.T) {
	t.Attr("claim", "RES-03")
	t.Parallel()
	carrying.Each(t, func(t *testing.T, d *carrying.Desk) {
		p := newPlanted(t, d)
		place := d.Place()
		before := p.do(t, d.Repo, "git for-each-ref")
		for _, name := range []string{"--output=" + p.canary, "-rf", "agent/--force", "agent/../main", "main", "refs/heads/main", "agent/a;touch x", "agent/$(id)", "agent/", "agent/A"} {
			if _, err := d.Do(t, carrying.Request{DeleteBranch: &carrying.DeleteBranch{Repository: place, Branch: name}}); err == nil {
				t.Errorf("delete %q: no error", name)
			}
			if name == "main" {
				continue
			}
			if _, err := d.Do(t, carrying.Request{Checkout: &carrying.Checkout{Repository: place, Branch: name, Clone: d.Folder + "/check"}}); err == nil {
				t.Errorf("check out %q: no error", name)
			}
			if name == "refs/heads/main" {
				continue
			}
			if _, err := d.Do(t, carrying.Request{Snapshot: &carrying.Snapshot{Repository: place, ID: "t1", Ref: name, Shadow: d.Shadow(), Clone: d.Clone()}}); err == nil {
				t.Errorf("snapshot of %q: no error", name)
			}
		}
		for _, id := range []string{"../x", "-x", "A", "a/b", ""} {
			if _, err := d.Do(t, carrying.Request{Snapshot: &carrying.Snapshot{Repository: place, ID: carrying.ID(id), Shadow: d.Shadow(), Clone: d.Clone()}}); err == nil {
				t.Errorf("id %q: no error", id)
			}
		}
		if after := p.do(t, d.Repo, "git for-each-ref"); after != before || p.ran(t) != "" {
			t.Errorf("references changed:\n%s", after)
		}
		// C061: a word that could be two things is none.
		p.do(t, d.Repo, "git tag main $(git commit-tree -m tagged HEAD^{tree})")
		_, err := d.Do(t, carrying.Request{Snapshot: &carrying.Snapshot{Repository: place, ID: "t1", Ref: "main", Shadow: d.Shadow(), Clone: d.Clone()}})
		if err == nil || !strings.Contains(err.Error(), "main could be refs/tags/main or refs/heads/main") {
			t.Errorf("ambiguous: %v", err)
		}
		if twin := p.do(t, d.Repo, "git rev-parse -q --verify main 2>/dev/null; git rev-parse refs/heads/main"); twin[:40] == twin[41:81] {
			t.Error("twin: plain git takes the branch")
		}
		// Twin: a task's branch is made, and deleted.
		d.Take(t)
		p.do(t, d.Clone(), "echo work > work")
		d.Gather(t)
		if err := d.Send(t); err != nil {
			t.Fatal(err)
		}
		answer, err := d.Do(t, carrying.Request{DeleteBranch: &carrying.DeleteBranch{Repository: place, Branch: "agent/t1"}})
		if err != nil || !strings.Contains(string(answer), `"deleted":true`) {
			t.Errorf("%s %v", answer, err)
		}
	})
}

// TestRES06_PlantedFilesOfABranchAreNamed: attack C070, and what misleads a
// reader (C072 to C077).
// Of the attacks: C069.
func TestRES06_PlantedFilesOfABranchAreNamed(t *testing.T) {
	t.Attr("claim", "RES-06")
	t.Parallel()
	files := map[string]string{
		".gitattributes": "git-config", ".gitmodules": "git-config", ".githooks/pre-commit": "git-hook", ".husky/pre-push": "git-hook", ".pre-commit-config.yaml": "git-hook", "lefthook.yml": "git-hook",
		".envrc": "direnv", ".env": "direnv", ".tool-versions": "tool-versions", "mise.toml": "tool-versions", ".python-version": "tool-versions", ".npmrc": "package-config", ".yarnrc.yml": "package-config",
		"binding.gyp": "package-script", "setup.py": "package-script", "conftest.py": "package-script", "sitecustomize.py": "package-script", "x.pth": "package-script", "Makefile": "build", "build.rs": "build",
		".cargo/config.toml": "build", "go.work": "build", "gradle.properties": "build", ".mvn/jvm.config": "build", ".bazelrc": "build", "Dockerfile": "container", "compose.yaml": "container", ".devcontainer/devcontainer.json": "container",
		".vscode/settings.json": "editor-task", ".vscode/tasks.json": "editor-task", ".vscode/launch.json": "editor-task", ".vscode/extensions.json": "editor-task", "x.code-workspace": "editor-task", ".idea/x.xml": "editor-task",
		".vimrc": "editor-task", ".exrc": "editor-task", ".nvim.lua": "editor-task", ".dir-locals.el": "editor-task", ".editorconfig": "editor-task", ".ssh/config": "ssh", ".bashrc": "shell-startup", "x.desktop": "system-start",
		"crontab": "system-start", "x.service": "system-start", ".github/workflows/x.yml": "ci", ".gitlab-ci.yml": "ci", "CODEOWNERS": "review-rules", "x.ipynb": "notebook", "x.docm": "macro",
		".claude/settings.json": "agent-settings", ".mcp.json": "agent-settings", "AGENTS.md": "agent-instructions", "CLAUDE.md": "agent-instructions", "web/package.json": "package-script",
		"vite.config.ts": "tool-config", ".prettierrc.cjs": "tool-config", "mypy.ini": "tool-config", "docs/conf.py": "tool-config", "Cargo.toml": "package-script", "manage.py": "package-script", "main.tf": "deployment", "web/tsconfig.json": "tool-config", "deno.json": "build",
	}
	carrying.Each(t, func(t *testing.T, d *carrying.Desk) {
		p := newPlanted(t, d)
		p.do(t, d.Repo, `echo '{"scripts":{"test":"x"}}' > package.json; echo 'package a' > a.go; echo '<svg/>' > a.svg
echo '{"resolved":"https://registry.example.com/a.tgz"}' > package-lock.json; echo '{"compilerOptions":{"plugins":[]}}' > tsconfig.json; git add -A; git commit -q -m second`)
		d.Take(t)
		for name := range files {
			text := "x\n"
			switch filepath.Base(name) {
			case "package.json":
				text = `{"scripts":{"postinstall":"x"}}`
			case "tsconfig.json":
				text = `{"compilerOptions":{"plugins":[{"transform":"./x.js"}]}}`
			case "deno.json":
				text = `{"tasks":{"test":"x"}}`
			}
			path := filepath.Join(d.Clone(), name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		p.do(t, d.Clone(), `: > .gitmodules
echo '{"scripts":{"test":"x"},"dependencies":{"a":"1"}}' > package.json
echo '{"compilerOptions":{"plugins":[],"strict":true}}' > tsconfig.json
echo '//go:generate sh' >> a.go; echo '<svg><script>x</script></svg>' > a.svg
echo '{"resolved":"git+ssh://git@evil.test/a"}' > package-lock.json
printf 'x \342\200\256 y\n' > bidi.c; printf '\033]52;c;eA==\007\n' > escape.txt; printf 'p\320\260ypal\n' > alike.js; printf 'a\363\240\201\201b\n' > tag.md
chmod +x file; echo plain > src.txt`)
		got, _ := d.Gather(t)
		kinds := map[string]string{}
		for _, one := range got.Planted {
			kinds[one.Path] = one.Kind
			if one.Why == "" {
				t.Errorf("%+v does not say why", one)
			}
		}
		for name, kind := range files {
			if kinds[name] != kind {
				t.Errorf("%s is %q, want %q", name, kinds[name], kind)
			}
		}
		for name, kind := range map[string]string{"a.go": "go-generate", "a.svg": "active-document", "package.json": "", "tsconfig.json": "", "src.txt": "", "file": ""} {
			if kinds[name] != kind {
				t.Errorf("%s is %q, want %q", name, kinds[name], kind)
			}
		}
		all := strings.Join(got.Warnings, "\n")
		for _, want := range []string{
			"the direction it is read in: bidi.c", "a terminal obeys: escape.txt", "look alike: alike.js", "not seen: tag.md", "fetches from git+ssh://evil.test", "can be executed that could not before: file",
		} {
			if !strings.Contains(all, want) {
				t.Errorf("no %q in\n%s", want, all)
			}
		}
		if strings.Contains(all, "src.txt") {
			t.Errorf("twin: %s", all)
		}
	})
}

// TestRES06_ADiffHidesNothing: attack C076. The twin is git's own diff, which
// obeys the attributes of the tree.
func TestRES06_ADiffHidesNothing(t *testing.T) {
	t.Attr("claim", "RES-06")
	t.Parallel()
	carrying.Each(t, func(t *testing.T, d *carrying.Desk) {
		p := newPlanted(t, d)
		p.do(t, d.Repo, "ln -s file link; git add -A; git commit -q -m second")
		d.Take(t)
		p.do(t, d.Clone(), "echo '* -diff linguist-generated binary' > .gitattributes; rm .git/info/attributes; echo hidden >> file; chmod +x dir/other; ln -sfn dir/other link; git add -A; git -c user.name=x -c user.email=x commit -q -m mine")
		got, diff := d.Gather(t)
		for _, want := range []string{"+hidden\n", "old mode 100644\nnew mode 100755\n", "-file\n\\ No newline at end of file\n+dir/other\n"} {
			if !strings.Contains(diff, want) {
				t.Errorf("no %q in\n%s", want, diff)
			}
		}
		if !strings.Contains(got.DiffStat, "mode change 100644 => 100755 dir/other") {
			t.Error(got.DiffStat)
		}
		if twin := p.do(t, d.Clone(), "git diff HEAD~1"); strings.Contains(twin, "+hidden") {
			t.Error("twin: git's own diff shows it")
		}
	})
}
