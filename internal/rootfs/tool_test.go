package rootfs_test

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/rootfs"
)

const elf = "\x7fELF"

// caller is a resolver for a machine with one user, me.
func caller(dir, path string, env map[string]string) rootfs.Resolver {
	vars := map[string]string{"PATH": strings.ReplaceAll(path, "~", "/home/me")}
	maps.Copy(vars, env)
	return rootfs.Resolver{Dir: dir, Home: "/home/me", Cwd: "/home/me/w", Workspace: "/home/me/w", Env: environment(vars)}
}

// system has what each host has, so that looking on after a miss finds it.
func system(files map[string]string) map[string]string {
	all := map[string]string{
		"usr/bin/node": elf, "usr/bin/python3": elf, "usr/bin/env": elf, "usr/bin/bash": elf, "usr/bin/sh": "-> bash", "bin": "-> usr/bin",
		"etc/": "", "home/me/.ssh/id": "!0600 key", "home/me/w/file": "",
	}
	maps.Copy(all, files)
	return all
}

// seen describes what a list of tools shows and where PATH leads.
func seen(tools []rootfs.Tool, dir string) []string {
	var out []string
	for _, tool := range tools {
		for _, m := range tool.Mounts {
			line := "mount " + m.Target + " (" + m.Why + ")"
			if m.Source != dir+m.Target || m.Writable {
				line = "BAD " + line
			}
			out = append(out, line)
		}
		for _, l := range links(tool.Links) {
			out = append(out, "link "+l)
		}
		for _, h := range tool.Hidden {
			out = append(out, "hide "+h)
		}
		if tool.From != "" && !strings.HasPrefix(tool.From, "/usr/") {
			out = append(out, "path "+tool.From+" = "+strings.Join(tool.Path, ":"))
		}
		for range tool.Notes {
			out = append(out, "note on "+tool.Name)
		}
	}
	return out
}

func TestResolver_Command(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		files map[string]string
		path  string
		env   map[string]string
		argv0 string
		want  []string
	}{
		{name: "of the system", argv0: "node", want: nil},
		{name: "not there", argv0: "gone", want: nil},
		{
			name: "pyenv", path: "~/.pyenv/shims:/usr/bin", argv0: "python3",
			files: map[string]string{
				"home/me/.pyenv/shims/python3": "#!/usr/bin/env bash\n", "home/me/.pyenv/version": "3.11.7\n",
				"home/me/.pyenv/versions/3.11.7/bin/python3": "-> python3.11", "home/me/.pyenv/versions/3.11.7/bin/python3.11": elf,
			},
			want: []string{"mount /home/me/.pyenv/versions/3.11.7 (the command)", "path /home/me/.pyenv/shims = /home/me/.pyenv/versions/3.11.7/bin"},
		},
		{
			name: "pyenv, by the beginning of a version in the tree", path: "~/.pyenv/shims:/usr/bin", argv0: "python3",
			files: map[string]string{
				"home/me/.pyenv/shims/python3": "#!/usr/bin/env bash\n", "home/me/.pyenv/version": "3.9.1\n", "home/me/w/.python-version": "3.11\n",
				"home/me/.pyenv/versions/3.11.9/bin/python3": elf, "home/me/.pyenv/versions/3.11.10/bin/python3": elf, "home/me/.pyenv/versions/3.9.1/bin/python3": elf,
			},
			want: []string{"mount /home/me/.pyenv/versions/3.11.10 (the command)", "path /home/me/.pyenv/shims = /home/me/.pyenv/versions/3.11.10/bin"},
		},
		{
			name: "pyenv, a version that climbs", path: "~/.pyenv/shims:/usr/bin", argv0: "python3",
			files: map[string]string{
				"home/me/.pyenv/shims/python3": "#!/usr/bin/env bash\n", "home/me/w/.python-version": "../../other\n",
				"home/me/.pyenv/versions/x/": "", "home/me/other/bin/python3": elf,
			},
			want: nil,
		},
		{
			name: "pyenv, the system's version", path: "~/.pyenv/shims:/usr/bin", argv0: "python3", env: map[string]string{"PYENV_VERSION": "system"},
			files: map[string]string{"home/me/.pyenv/shims/python3": "#!/usr/bin/env bash\n", "home/me/.pyenv/versions/3.1/bin/python3": elf},
			want:  nil,
		},
		{
			name: "nvm and a script of npm's", path: "~/.nvm/versions/node/v20.1.0/bin:/usr/bin", argv0: "codex",
			files: map[string]string{
				"home/me/.nvm/versions/node/v20.1.0/bin/node": elf, "home/me/.nvm/versions/node/v20.1.0/etc/npmrc": "token",
				"home/me/.nvm/versions/node/v20.1.0/bin/codex":                                   "-> ../lib/node_modules/@openai/codex/bin/codex.js",
				"home/me/.nvm/versions/node/v20.1.0/lib/node_modules/@openai/codex/bin/codex.js": "#!/usr/bin/env node\n",
			},
			want: []string{
				"mount /home/me/.nvm/versions/node/v20.1.0 (the command)", "hide /home/me/.nvm/versions/node/v20.1.0/etc",
				"path /home/me/.nvm/versions/node/v20.1.0/bin = /home/me/.nvm/versions/node/v20.1.0/bin",
				"mount /home/me/.nvm/versions/node/v20.1.0 (interpreter of codex)", "hide /home/me/.nvm/versions/node/v20.1.0/etc",
				"path /home/me/.nvm/versions/node/v20.1.0/bin = /home/me/.nvm/versions/node/v20.1.0/bin",
			},
		},
		{
			name: "npm with a prefix of its own, node of the system", path: "~/.npm-global/bin:/usr/bin", argv0: "codex",
			files: map[string]string{
				"home/me/.npm-global/bin/codex":                                   "-> ../lib/node_modules/@openai/codex/bin/codex.js",
				"home/me/.npm-global/lib/node_modules/@openai/codex/bin/codex.js": "#!/usr/bin/env node\n",
			},
			want: []string{
				"mount /home/me/.npm-global/lib/node_modules (the command)",
				"link /home/me/.npm-global/bin/codex -> ../lib/node_modules/@openai/codex/bin/codex.js",
				"path /home/me/.npm-global/bin = /home/me/.npm-global/bin",
			},
		},
		{
			name: "volta", path: "~/.volta/bin:/usr/bin", argv0: "tsc",
			files: map[string]string{
				"home/me/.volta/bin/tsc": "-> volta-shim", "home/me/.volta/bin/node": "-> volta-shim", "home/me/.volta/bin/volta-shim": elf,
				"home/me/.volta/tools/user/bins/tsc.json": `{"name":"tsc","package":"typescript"}`, "home/me/.volta/tools/user/platform.json": `{"node":{"runtime":"20.1.0"}}`,
				"home/me/.volta/tools/image/packages/typescript/bin/tsc":                             "-> ../lib/node_modules/typescript/bin/tsc",
				"home/me/.volta/tools/image/packages/typescript/lib/node_modules/typescript/bin/tsc": "#!/usr/bin/env node\n",
				"home/me/.volta/tools/image/node/20.1.0/bin/node":                                    elf,
			},
			want: []string{
				"mount /home/me/.volta/tools/image/packages/typescript (the command)", "path /home/me/.volta/bin = /home/me/.volta/tools/image/packages/typescript/bin",
				"mount /home/me/.volta/tools/image/node/20.1.0 (interpreter of tsc)", "path /home/me/.volta/bin = /home/me/.volta/tools/image/node/20.1.0/bin",
			},
		},
		{
			name: "asdf", path: "~/.asdf/shims:/usr/bin", argv0: "node",
			files: map[string]string{
				"home/me/.asdf/shims/node": "#!/usr/bin/env bash\n# asdf-plugin: nodejs 18.0.0\n# asdf-plugin: nodejs 20.0.0\n", "home/me/.tool-versions": "nodejs 20.0.0\n",
				"home/me/.asdf/installs/nodejs/18.0.0/bin/node": elf, "home/me/.asdf/installs/nodejs/20.0.0/bin/node": elf,
			},
			want: []string{"mount /home/me/.asdf/installs/nodejs/20.0.0 (the command)", "path /home/me/.asdf/shims = /home/me/.asdf/installs/nodejs/20.0.0/bin"},
		},
		{
			name: "mise", path: "~/.local/share/mise/shims:/usr/bin", argv0: "node",
			files: map[string]string{
				"home/me/.local/share/mise/shims/node": "-> ../../../bin/mise", "home/me/.local/bin/mise": elf, "home/me/w/mise.toml": "[tools]\nnode = \"20\"\n",
				"home/me/.local/share/mise/installs/node/20": "-> ./20.9.0", "home/me/.local/share/mise/installs/node/20.9.0/bin/node": elf,
			},
			want: []string{
				"mount /home/me/.local/share/mise/installs/node/20.9.0 (the command)", "link /home/me/.local/share/mise/installs/node/20 -> ./20.9.0",
				"path /home/me/.local/share/mise/shims = /home/me/.local/share/mise/installs/node/20.9.0/bin",
			},
		},
		{
			name: "rustup", path: "~/.cargo/bin:/usr/bin", argv0: "cargo",
			files: map[string]string{
				"home/me/.cargo/bin/cargo": "-> rustup", "home/me/.cargo/bin/rustup": elf, "home/me/.cargo/credentials.toml": "token",
				"home/me/.rustup/settings.toml":                                        "default_toolchain = \"nightly-x86_64-unknown-linux-gnu\"\n",
				"home/me/w/rust-toolchain.toml":                                        "[toolchain]\nchannel = \"stable\"\n",
				"home/me/.rustup/toolchains/stable-x86_64-unknown-linux-gnu/bin/cargo": elf, "home/me/.rustup/toolchains/nightly-x86_64-unknown-linux-gnu/bin/cargo": elf,
			},
			want: []string{
				"mount /home/me/.rustup/toolchains/stable-x86_64-unknown-linux-gnu (the command)", "mount /home/me/.cargo/bin (the command)",
				"path /home/me/.cargo/bin = /home/me/.rustup/toolchains/stable-x86_64-unknown-linux-gnu/bin:/home/me/.cargo/bin",
			},
		},
		{
			name: "uv tool: a script with a Python of uv's", path: "~/.local/bin:/usr/bin", argv0: "ruff",
			files: map[string]string{
				"home/me/.local/bin/ruff":                                      "-> ../share/uv/tools/ruff/bin/ruff",
				"home/me/.local/share/uv/tools/ruff/bin/ruff":                  "#!/home/me/.local/share/uv/tools/ruff/bin/python\n",
				"home/me/.local/share/uv/tools/ruff/bin/python":                "-> /home/me/.local/share/uv/python/cpython-3.12/bin/python3.12",
				"home/me/.local/share/uv/tools/ruff/pyvenv.cfg":                "",
				"home/me/.local/share/uv/python/cpython-3.12":                  "-> cpython-3.12.5",
				"home/me/.local/share/uv/python/cpython-3.12.5/bin/python3.12": elf,
			},
			want: []string{
				"mount /home/me/.local/share/uv/tools/ruff (the command)", "link /home/me/.local/bin/ruff -> ../share/uv/tools/ruff/bin/ruff",
				"path /home/me/.local/bin = /home/me/.local/bin",
				"mount /home/me/.local/share/uv/tools/ruff (interpreter of ruff)", "mount /home/me/.local/share/uv/python/cpython-3.12.5 (interpreter of ruff)",
				"link /home/me/.local/share/uv/python/cpython-3.12 -> cpython-3.12.5",
			},
		},
		{
			name: "one file among many", path: "~/.local/bin:~/bin:/usr/bin", argv0: "claude",
			files: map[string]string{
				"home/me/.local/bin/claude": "-> /home/me/.local/share/claude/versions/2.1", "home/me/.local/share/claude/versions/2.1": elf, "home/me/.local/bin/other": elf,
			},
			want: []string{
				"mount /home/me/.local/share/claude/versions/2.1 (the command)", "link /home/me/.local/bin/claude -> /home/me/.local/share/claude/versions/2.1",
				"path /home/me/.local/bin = /home/me/.local/bin",
			},
		},
		{
			name: "a program of go's", path: "~/go/bin:/usr/bin", argv0: "gopls",
			files: map[string]string{"home/me/go/bin/gopls": elf, "home/me/go/pkg/mod/x": ""},
			want:  []string{"mount /home/me/go/bin/gopls (the command)", "path /home/me/go/bin = /home/me/go/bin"},
		},
		{
			name: "a home that looks like an installation", path: "~/bin:/usr/bin", argv0: "x",
			files: map[string]string{"home/me/bin/x": elf, "home/me/lib/y": "", "home/me/share/y": ""},
			want:  []string{"mount /home/me/bin/x (the command)", "path /home/me/bin = /home/me/bin"},
		},
		{
			name: "an installation with credentials in it", path: "~/app/bin:/usr/bin", argv0: "x",
			files: map[string]string{"home/me/app/bin/x": elf, "home/me/app/lib/y": "", "home/me/app/.npmrc": "token"},
			want:  []string{"mount /home/me/app/bin/x (the command)", "path /home/me/app/bin = /home/me/app/bin"},
		},
		{
			name: "an installation", path: "~/app/bin:/usr/bin", argv0: "x",
			files: map[string]string{"home/me/app/bin/x": elf, "home/me/app/lib/y": ""},
			want:  []string{"mount /home/me/app (the command)", "path /home/me/app/bin = /home/me/app/bin"},
		},
		{
			name: "a package below /opt", path: "/opt/thing/bin:/usr/bin", argv0: "thing",
			files: map[string]string{"opt/thing/bin/thing": elf, "opt/other/x": ""},
			want:  []string{"mount /opt/thing (the command)", "path /opt/thing/bin = /opt/thing/bin"},
		},
		{
			name: "a wrapper of pnpm's", path: "~/.local/share/pnpm:/usr/bin", argv0: "tool",
			files: map[string]string{"home/me/.local/share/pnpm/tool": "#!/bin/sh\nif x; then\n  exec \"$basedir/node\" x\nelse\n  exec node  x\nfi\n"},
			want:  []string{"mount /home/me/.local/share/pnpm (the command)", "path /home/me/.local/share/pnpm = /home/me/.local/share/pnpm"},
		},
		{
			name: "linked into the system", argv0: "thing",
			files: map[string]string{"usr/bin/thing": "-> /opt/thing/bin/thing", "opt/thing/bin/thing": elf},
			want:  []string{"mount /opt/thing (the command)"},
		},
		{
			name: "by path", argv0: "/home/me/app/bin/x",
			files: map[string]string{"home/me/app/bin/x": elf, "home/me/app/lib/y": ""},
			want:  []string{"mount /home/me/app (the command)"},
		},
		{name: "in the workspace", argv0: "./run", files: map[string]string{"home/me/w/run": "#!/usr/bin/env python3\n"}, want: nil},
		{
			name: "in the workspace, with a toolchain for it", path: "~/.pyenv/shims:/usr/bin", argv0: "./.venv/bin/pytest",
			files: map[string]string{
				"home/me/w/.venv/bin/pytest": "#!/home/me/w/.venv/bin/python\n", "home/me/w/.venv/bin/python": "-> /home/me/.pyenv/versions/3.12.1/bin/python3",
				"home/me/w/.venv/pyvenv.cfg": "", "home/me/.pyenv/versions/3.12.1/bin/python3": elf,
			},
			want: []string{"mount /home/me/.pyenv/versions/3.12.1 (interpreter of pytest)"},
		},
		{
			name: "the workspace links to another project", argv0: "./run",
			files: map[string]string{"home/me/w/run": "-> ../other/bin/x", "home/me/other/bin/x": elf, "home/me/other/lib/secret": ""},
			want:  []string{"note on run"},
		},
		{
			name: "the workspace names another project", argv0: "./run",
			files: map[string]string{"home/me/w/run": "#!/home/me/other/bin/x\n", "home/me/other/bin/x": elf, "home/me/other/lib/secret": ""},
			want:  []string{"note on x"},
		},
		{
			name: "the workspace names another project by env", argv0: "./run",
			files: map[string]string{"home/me/w/run": "#!/usr/bin/env -S /home/me/other/bin/x y\n", "home/me/other/bin/x": elf, "home/me/other/lib/secret": ""},
			want:  []string{"note on x"},
		},
		{
			name: "the workspace names a program of the PATH", path: "~/other/bin:/usr/bin", argv0: "./run",
			files: map[string]string{"home/me/w/run": "#!/usr/bin/env x\n", "home/me/other/bin/x": elf, "home/me/other/lib/secret": ""},
			want:  []string{"note on x"},
		},
		{
			name: "the workspace has a node_modules that leads out", argv0: "./node_modules/.bin/x",
			files: map[string]string{"home/me/w/node_modules/.bin/x": "-> ../../../other/node_modules/x/x", "home/me/other/node_modules/x/x": elf},
			want:  []string{"note on x"},
		},
		{
			name: "a key is not a program", argv0: "/home/me/.ssh/id", want: nil,
		},
		{
			name: "an endless link", path: "~/loop:/usr/bin", argv0: "x", files: map[string]string{"home/me/loop/x": "-> x"}, want: nil,
		},
		{
			name: "interpreters in a circle", argv0: "/home/me/a/x", files: map[string]string{"home/me/a/x": "#!/home/me/a/y\n", "home/me/a/y": "#!/home/me/a/x\n"},
			want: []string{"mount /home/me/a/x (the command)", "mount /home/me/a/y (interpreter of x)"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := machine(t, system(tt.files))
			if tt.path == "" {
				tt.path = "/usr/bin"
			}
			tools, err := caller(dir, tt.path, tt.env).Command(tt.argv0)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, seen(tools, dir)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestResolver_FollowsNoLinkOfTheWorkspace: what an agent may have made in the
// workspace says which version is wanted only if it is a plain file there.
func TestResolver_FollowsNoLinkOfTheWorkspace(t *testing.T) {
	t.Parallel()
	const outside, pipe = "-> ../other/version", ""
	for _, tt := range []struct {
		name, file, text, want string
	}{
		{"a plain file", "home/me/w/.python-version", "3.9.1\n", "3.9.1"},
		{"a link in the workspace", "home/me/w/.python-version", "-> inner", "3.9.1"},
		{"a link out", "home/me/w/.python-version", outside, "3.12.1"},
		{"a link to a link out", "home/me/w/.python-version", "-> to-outside", "3.12.1"},
		{"a pipe", "home/me/w/.python-version", pipe, "3.12.1"},
		{"above the workspace", "home/me/.python-version", "-> other/version", "3.9.1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{
				"home/me/.pyenv/shims/python3": "#!/usr/bin/env bash\n", "home/me/.pyenv/version": "3.12.1\n", "home/me/other/version": "3.9.1\n",
				"home/me/.pyenv/versions/3.9.1/bin/python3": elf, "home/me/.pyenv/versions/3.12.1/bin/python3": elf,
				"home/me/w/inner": "3.9.1\n", "home/me/w/to-outside": outside,
			}
			if tt.text != pipe {
				files[tt.file] = tt.text
			}
			dir := machine(t, system(files))
			if tt.text == pipe {
				if err := syscall.Mkfifo(filepath.Join(dir, tt.file), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			tools, err := caller(dir, "~/.pyenv/shims", nil).Command("python3")
			if err != nil {
				t.Fatal(err)
			}
			want := "mount /home/me/.pyenv/versions/" + tt.want + " (the command)"
			if got := seen(tools, dir); !slices.Contains(got, want) {
				t.Errorf("want %s, got %v", want, got)
			}
		})
	}
}

// TestResolver_ListsNoFolderBehindALinkOfTheWorkspace: a shim in the workspace
// names versions by a folder there.
func TestResolver_ListsNoFolderBehindALinkOfTheWorkspace(t *testing.T) {
	t.Parallel()
	for link, want := range map[string]int{"-> ../kept": 1, "-> ../../../other": 0} {
		dir := machine(t, system(map[string]string{
			"home/me/w/mise/shims/x": elf, "home/me/w/mise/installs/t": link,
			"home/me/w/mise/kept/latest.1/bin/x": elf, "home/me/other/latest.1/bin/x": elf,
		}))
		tools, err := caller(dir, "~/w/mise/shims", nil).Command("x")
		if err != nil || len(tools) != want {
			t.Errorf("%s: %v %v", link, seen(tools, dir), err)
		}
	}
}

// TestResolver_HomeBehindALink looks for programs in a home of which a part is
// reached through a link: no rule for homes may miss it. Where the same home is
// reached without one the same is shown.
func TestResolver_HomeBehindALink(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, link, real string // link, of the host, leads to real
	}{
		{"no link", "", ""},
		{"the home", "home/me", "/data/me"},
		{"what holds homes", "home", "/data/homes"},
		{"the folder of programs", "home/me/.local", "/data/dot-local"},
		{"cargo's", "home/me/.cargo", "/data/cargo"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			at := func(path string) string { // where a path of the home really is
				if rest, ok := strings.CutPrefix(path, "/"+tt.link+"/"); ok && tt.link != "" {
					return tt.real + "/" + rest
				}
				return path
			}
			files := map[string]string{"usr/bin/env": elf, "etc/": ""}
			for _, name := range []string{".local/bin/tool", ".cargo/bin/cargo-x", ".pyenv/versions/3.1/bin/python3", "secret-app/bin/app"} {
				files[at("/home/me/" + name)[1:]] = elf
			}
			for _, name := range []string{
				".local/share/keyrings/login.keyring", ".local/lib/x", ".cargo/credentials.toml", ".cargo/lib/x", ".pyenv/versions/3.1/lib/x", "secret-app/lib/x", "secret-app/.npmrc",
			} {
				files[at("/home/me/" + name)[1:]] = "secret"
			}
			if tt.link != "" {
				files[tt.link] = "-> " + tt.real
			}
			dir := machine(t, files)
			r := caller(dir, "~/.local/bin:~/.cargo/bin:~/.pyenv/versions/3.1/bin:~/secret-app/bin", map[string]string{"PYENV_ROOT": "/home/me/.pyenv"})
			for name, want := range map[string]string{
				"tool": "/home/me/.local/bin/tool", "cargo-x": "/home/me/.cargo/bin", "python3": "/home/me/.pyenv/versions/3.1", "app": "/home/me/secret-app/bin/app",
			} {
				tools, err := r.Command(name)
				if err != nil || len(tools) != 1 {
					t.Fatalf("%s: %v, %v", name, tools, err)
				}
				var shown []string
				for _, m := range tools[0].Mounts {
					shown = append(shown, m.Target)
				}
				want := []string{at(want)}
				if name == "cargo-x" { // the program first, then its folder
					want = []string{at("/home/me/.cargo/bin/cargo-x"), want[0]}
				}
				if diff := cmp.Diff(want, shown); diff != "" {
					t.Errorf("%s (-want +got):\n%s", name, diff)
				}
			}
		})
	}
}

func TestResolver_Refuses(t *testing.T) {
	t.Parallel()
	dir := machine(t, system(map[string]string{"snap/bin/code": "-> /usr/bin/snap", "usr/bin/snap": elf}))
	r := caller(dir, "/snap/bin:/usr/bin", nil)
	_, err := r.Command("code")
	if e, ok := errors.AsType[*bailey.Error](err); !ok || e.Kind != bailey.Unsupported || e.Hint == "" {
		t.Errorf("a snap: %v", err)
	}
	_, err = r.Named("gone")
	if e, ok := errors.AsType[*bailey.Error](err); !ok || e.Kind != bailey.NotFound || e.Hint == "" {
		t.Errorf("a tool that is not there: %v", err)
	}
	if tools, err := r.Named("node"); err != nil || len(tools) != 1 {
		t.Errorf("a tool that is there: %v, %v", tools, err)
	}
}

// A program that lies in a project is shown without the project.
func TestResolver_OpensNoProject(t *testing.T) {
	t.Parallel()
	const project, installed, venv = "home/me/dev/tool", "home/me/opt/tool", "home/me/dev/env"
	for _, tt := range []struct {
		name, bin string
		files     map[string]string
		want      []string
	}{
		{
			name: "with a history", bin: "/" + project + "/bin",
			files: map[string]string{project + "/bin/mytool": elf, project + "/lib/x": "", project + "/.git/config": "token", project + "/deploy/id_rsa": "key"},
			want:  []string{"mount /" + project + "/bin/mytool (the command)", "path /" + project + "/bin = /" + project + "/bin", "note on mytool"},
		},
		{
			name: "in a part of one", bin: "/" + project + "/app/bin",
			files: map[string]string{project + "/app/bin/mytool": elf, project + "/app/lib/x": "", project + "/.git": "gitdir: x"},
			want:  []string{"mount /" + project + "/app/bin/mytool (the command)", "path /" + project + "/app/bin = /" + project + "/app/bin", "note on mytool"},
		},
		{
			name: "a Python environment on top of one", bin: "/" + venv + "/bin",
			files: map[string]string{venv + "/bin/mytool": elf, venv + "/pyvenv.cfg": "", venv + "/.envrc": "token"},
			want:  []string{"mount /" + venv + "/bin/mytool (the command)", "path /" + venv + "/bin = /" + venv + "/bin", "note on mytool"},
		},
		{
			name: "twin: a Python environment in one", bin: "/" + venv + "/.venv/bin",
			files: map[string]string{venv + "/.venv/bin/mytool": elf, venv + "/.venv/pyvenv.cfg": "", venv + "/.git/config": ""},
			want:  []string{"mount /" + venv + "/.venv (the command)", "path /" + venv + "/.venv/bin = /" + venv + "/.venv/bin"},
		},
		{
			name: "twin: an installation, in a home under version control", bin: "/" + installed + "/bin",
			files: map[string]string{installed + "/bin/mytool": elf, installed + "/lib/x": "", "home/me/.git/config": ""},
			want:  []string{"mount /" + installed + " (the command)", "path /" + installed + "/bin = /" + installed + "/bin"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := machine(t, system(tt.files))
			tools, err := caller(dir, tt.bin+":/usr/bin", nil).Command("mytool")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, seen(tools, dir)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What --tool asks for is shown, or nothing runs and the reason is true.
func TestResolver_NamedSaysWhy(t *testing.T) {
	t.Parallel()
	dir := machine(t, system(map[string]string{
		"home/me/.ssh/run": elf, "etc/shadow": "x", "home/me/bin/mine": elf, "home/me/w/leads": "-> /home/me/bin/mine",
	}))
	r := caller(dir, "/usr/bin", nil)
	for name, want := range map[string]string{
		"/home/me/.ssh/run": "lies where keys are kept", "/etc/shadow": "nobody may execute", "/etc": "no file", "./gone": "no such file", "gone": "on your PATH",
		"./leads": "a file of the workspace leads to /home/me/bin/mine",
	} {
		_, err := r.Named(name)
		if e, ok := errors.AsType[*bailey.Error](err); !ok || !strings.Contains(e.Message, "--tool "+name) || !strings.Contains(e.Message, want) || e.Hint == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if tools, err := r.Named("/home/me/bin/mine"); err != nil || len(tools) != 1 || len(tools[0].Notes) != 0 {
		t.Errorf("twin: %v %v", tools, err)
	}
}

// TestFromHost_PlansTheTools puts a toolchain into a plan.
func TestFromHost_PlansTheTools(t *testing.T) {
	t.Parallel()
	dir := machine(t, system(map[string]string{
		"home/me/.nvm/versions/node/v1/bin/node": elf, "home/me/.nvm/versions/node/v1/etc/npmrc": "token", "home/me/.nvm/versions/node/v1/bin/x": "#!/usr/bin/env node\n",
	}))
	r := caller(dir, "~/.nvm/versions/node/v1/bin:/usr/bin", nil)
	tools, err := r.Command("x")
	if err != nil {
		t.Fatal(err)
	}
	h := host(dir)
	h.Env, h.Tools = r.Env, tools
	p := plan(t, h)
	if diff := cmp.Diff([]string{"/home/me/.nvm/versions/node/v1", "/usr"}, mounts(p)); diff != "" {
		t.Error(diff)
	}
	want := "PATH=/home/me/.nvm/versions/node/v1/bin:/usr/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin:/bin"
	if !slices.Contains(p.Env, want) {
		t.Errorf("%v", p.Env)
	}
	if !slices.ContainsFunc(p.Tmpfs, func(f bailey.Tmpfs) bool { return f.Target == "/home/me/.nvm/versions/node/v1/etc" && f.Mode == 0o555 }) {
		t.Errorf("npm's configuration is not hidden: %v", p.Tmpfs)
	}
}

// TestResolver_ThisMachine follows the shims of the machine the test runs on,
// if it has any.
func TestResolver_ThisMachine(t *testing.T) {
	t.Parallel()
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	r := rootfs.Resolver{Dir: "/", Home: home, Cwd: t.TempDir(), Workspace: "", Env: os.Getenv}
	for _, name := range []string{"python3", "node", "cargo", "git", "go", "sh"} {
		tools, err := r.Command(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		t.Logf("%s: %v", name, seen(tools, ""))
		for _, tool := range tools {
			for _, m := range tool.Mounts {
				if rel, err := filepath.Rel(m.Target, home); err == nil && filepath.IsLocal(rel) {
					t.Errorf("%s shows the home: %s", name, m.Target)
				}
				if _, err := os.Lstat(m.Source); errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s shows what is not there: %s", name, m.Source)
				}
			}
		}
	}
}

func BenchmarkResolver(b *testing.B) {
	r := rootfs.Resolver{Dir: "/", Home: "/root", Cwd: "/", Workspace: "", Env: os.Getenv}
	for b.Loop() {
		if _, err := r.Command("python3"); err != nil {
			b.Fatal(err)
		}
	}
}
