package carry

import (
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey/internal/plants"
)

func TestBadName(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]bool{
		".git": true, ".GIT": true, ".git.": true, ".git ": true, ".git::$INDEX_ALLOCATION": true, "git~1": true, "GIT~4": true, ".g\u200cit": true, ".git\u200f": true,
		"\ufeff.git": true, `a\.git`: true, "-x": true, "a\x7f": true, "a\u0085": true, "\u202ea": true, "a\U000e0041": true, "a\xffb": true, "a\tb": true,
		".gitignore": false, ".github": false, "git": false, "git~": false, "git~12": false, "x-y": false, "é": false, "日本": false, "a b": false, "CON": false, "x.git": false,
		"👩\u200d💻": false,
	} {
		if got := badName(name); (got != "") != bad {
			t.Errorf("%q: %q", name, got)
		}
	}
}

func TestBadLink(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		at, target string
		bad        bool
	}{
		{"l", "a", false},
		{"l", "./a/b", false},
		{"d/l", "../a", false},
		{"d/e/l", "../../a", false},
		{"d/l", "..", false},
		{"l", ".", false},
		{"l", "", true},
		{"l", "/etc", true},
		{"l", "..", true},
		{"d/l", "../../a", true},
		{"d/l", "./../../a", true},
		{"l", "a/../b", true},
		{"l", "a/../../b", true},
		{"l", `..\x`, true},
		{"l", `\x`, true},
		{"l", "C:x", true},
		{"l", ".git/config", true},
		{"l", "a/.GIT/config", true},
		{"l", "git~1", true},
		{"d/l", "../.git", true},
		{".gitattributes", "a", true},
		{"d/.gitmodules", "a", true},
		{".GITIGNORE", "a", true},
		{"gitmod~1", "a", true},
		{".mailmap", "a", true},
		{"l", "a\x1bb", true},
		{"l", "a\nb", true},
	} {
		if got := badLink(c.at, c.target); (got != "") != c.bad {
			t.Errorf("%s -> %q: %q", c.at, c.target, got)
		}
	}
}

func FuzzBadLink(f *testing.F) {
	f.Add("d/l", "../a")
	f.Add("l", "a/../../b")
	f.Add("d/e/l", "./.././../../x")
	f.Fuzz(func(t *testing.T, at, target string) {
		if at == "" || strings.HasPrefix(at, "/") || path.Clean(at) != at || strings.HasPrefix(at, "..") {
			return
		}
		if badLink(at, target) != "" {
			return
		}
		if to := path.Join(path.Dir(at), target); strings.HasPrefix(target, "/") || to == ".." || strings.HasPrefix(to, "../") {
			t.Errorf("%s -> %s leads to %s", at, target, to)
		}
	})
}

func FuzzBadModules(f *testing.F) {
	f.Add([]byte("[submodule \"x\"]\n\tpath = x\n\turl = -u./x\n"))
	f.Add([]byte("[submodule \"a\\\\..\\\\b\"]\n\tupdate = !x\n"))
	f.Fuzz(func(_ *testing.T, data []byte) {
		badModules(data)
		badAttributes(data)
	})
}

// TestPlants is the list of attack C070, each made and, where only a part of it
// matters, each left as it was.
func TestPlants(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]string{
		".gitattributes": "git-config", "sub/.gitmodules": "git-config", ".githooks/pre-commit": "git-hook", ".husky/pre-push": "git-hook", ".pre-commit-config.yaml": "git-hook",
		"lefthook.yml": "git-hook", "hooks/post-checkout": "git-hook", ".envrc": "direnv", "a/b/.envrc": "direnv", ".env": "direnv", ".env.local": "direnv", ".tool-versions": "tool-versions", "mise.toml": "tool-versions",
		".python-version": "tool-versions", ".npmrc": "package-config", ".yarnrc.yml": "package-config", "binding.gyp": "package-script", "setup.py": "package-script", "tests/conftest.py": "package-script",
		"sitecustomize.py": "package-script", "x.pth": "package-script", "Makefile": "build", "sub/Makefile": "build", "build.rs": "build", ".cargo/config.toml": "build", "go.work": "build",
		"gradle.properties": "build", "gradle/wrapper/gradle-wrapper.jar": "build", ".mvn/maven.config": "build", ".bazelrc": "build", "Dockerfile": "container", "compose.yaml": "container",
		".devcontainer/devcontainer.json": "container", ".vscode/settings.json": "editor-task", ".vscode/tasks.json": "editor-task", ".vscode/launch.json": "editor-task", ".VSCode/extensions.json": "editor-task",
		"x.code-workspace": "editor-task", ".idea/workspace.xml": "editor-task", ".vimrc": "editor-task", ".exrc": "editor-task", ".nvim.lua": "editor-task", ".emacs": "editor-task", ".dir-locals.el": "editor-task", ".editorconfig": "editor-task",
		".ssh/authorized_keys": "ssh", ".bashrc": "shell-startup", "home/.zshrc": "shell-startup", "x.desktop": "system-start", "crontab": "system-start", "x.service": "system-start",
		".github/workflows/ci.yml": "ci", ".gitlab-ci.yml": "ci", "Jenkinsfile": "ci", ".circleci/config.yml": "ci", "action.yml": "ci", "CODEOWNERS": "review-rules", ".github/CODEOWNERS": "review-rules",
		"x.ipynb": "notebook", "x.docm": "macro", ".claude/settings.json": "agent-settings", ".mcp.json": "agent-settings", ".codex/config.toml": "agent-settings", ".cursor/mcp.json": "agent-settings",
		"AGENTS.md": "agent-instructions", "sub/CLAUDE.md": "agent-instructions", ".cursorrules": "agent-instructions", ".github/copilot-instructions.md": "agent-instructions",
		"README.md": "", "main.go": "", "src/index.ts": "", "git/hooks.go": "", "docs/makefile.md": "", "vscode/x": "", "package.jsonx": "", "environment": "", "lib/action.yml": "",
	} {
		p := plantedAt(name, modeFile, []byte("x\n"), func() []byte { return nil })
		if p.Kind != kind || (kind != "") != (p.Why != "" && p.Path == name) {
			t.Errorf("%s: %+v, want %q", name, p, kind)
		}
	}
	for _, p := range plants.List() {
		for _, pattern := range p.Names {
			if _, err := path.Match(strings.TrimPrefix(pattern, "/"), "x"); err != nil {
				t.Errorf("%s: %v", pattern, err)
			}
		}
	}
	for _, p := range portions() {
		for _, pattern := range p.names {
			if _, err := path.Match(pattern, "x"); err != nil || pattern != strings.ToLower(pattern) {
				t.Errorf("%s: %v", pattern, err)
			}
		}
	}
}

// TestPlants_OfTools goes through the tools that run or load a file of a work
// tree. Each row has a neighbour that none of them looks at.
func TestPlants_OfTools(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ kind, planted, neighbours string }{
		{"tool-config", "vite.config.ts web/webpack.config.cjs jest.config.mjs eslint.config.js tailwind.config.cts next.config.mts playwright.config.json docs/astro.config.mjs karma.conf.js wdio.conf.ts", "config.js src/config.ts vite.configs.txt webpack.md confs.js"},
		{"tool-config", ".eslintrc.cjs .prettierrc.js .mocharc.yml .babelrc .swcrc .stylelintrc.json .lintrc.mjs .releaserc nodemon.json nx.json turbo.json", "rc.js eslintrc.md src/turbo.ts .rc.jsx"},
		{"tool-config", "mypy.ini docs/conf.py .pylintrc .flake8 .coveragerc .rspec .rubocop.yml .golangci.yml phpunit.xml", "mypy.txt docs/conf.pyi config.py rspec.rb golangci.md"},
		{"package-script", "Cargo.toml crates/a/Cargo.toml manage.py setup.cfg pyproject.toml hatch_build.py tests/conftest.py fabfile.py conanfile.py Rakefile lib/tasks/x.rake Fastfile Setup.hs", "Cargo.lock manager.py setup.pyi conftest.txt rake.rb src/fast.rs"},
		{"package-config", "Gemfile pnpm-workspace.yaml .pnpmfile.mjs uv.toml .terraformrc Podfile Brewfile", "Gemfile.lock Podfile.lock workspace.yaml"},
		{"build", "Makefile justfile build.just Taskfile.yml Taskfile.dist.yaml gradlew app/build.gradle.kts scripts/x.gradle gradle/wrapper/gradle-wrapper.properties mvnw CMakeLists.txt CMakePresets.json build.rs magefile.go .goreleaser.yaml x.targets Snakefile", "make.md just.txt task.yml gradle.md cmake.txt build.go targets.go"},
		{"deployment", "main.tf infra/net.tf x.tf.json terragrunt.hcl Pulumi.yaml serverless.yml cdk.json ansible.cfg wrangler.toml", "main.tfvars.md tf.go server.yml ansible.md"},
		{"container", "Dockerfile api.Dockerfile compose.yaml compose.prod.yml docker-compose.ci.yaml docker-bake.hcl", "docker.md composer.go"},
		{"git-hook", ".pre-commit-config.yaml lefthook.yml lefthook-local.yml .husky/pre-push .hooks/x", "hooks.go lefthook.md"},
		{"ci", ".gitlab-ci.yml .circleci/config.yml Jenkinsfile", "gitlab.yml jenkins.go"},
		{"editor-task", ".vscode/tasks.json .idea/runConfigurations/x.xml", "vscode.json idea.xml"},
		{"direnv", ".envrc sub/.envrc.local .env.production", "env.go envrc"},
		{"tool-versions", ".tool-versions mise.toml mise.local.toml .mise.dev.toml devbox.json", "versions tools.toml"},
		{"agent-settings", ".claude/settings.local.json .codex/config.toml .gemini/settings.json .cursor/hooks.json .mcp.json .qwen/x .agents/x .kiro/steering/x.md .claude-plugin/plugin.json", "claude.go cursor.txt mcp.go agents/x.go"},
		{"agent-instructions", "AGENTS.md CLAUDE.md sub/CLAUDE.local.md GEMINI.md docs/x.mdc x.chatmode.md review.agent.md .rules WARP.md", "AGENTS.txt agent.go claude.txt rules.txt"},
	} {
		for name := range strings.FieldsSeq(c.planted) {
			if p := plantedAt(name, modeFile, []byte("x\n"), func() []byte { return nil }); p.Kind != c.kind || p.Why == "" || p.Path != name {
				t.Errorf("%s: %+v, want %q", name, p, c.kind)
			}
		}
		for name := range strings.FieldsSeq(c.neighbours) {
			if p := plantedAt(name, modeFile, []byte("x\n"), func() []byte { return nil }); p.Kind != "" {
				t.Errorf("the neighbour %s: %+v", name, p)
			}
		}
	}
}

func TestPlants_OnlyWhatChanged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file, was, now, kind string
	}{
		"scripts added":       {"package.json", `{"name":"a"}`, `{"name":"a","scripts":{"postinstall":"x"}}`, "package-script"},
		"script changed":      {"web/package.json", `{"scripts":{"a":"x"}}`, `{"scripts":{"a":"y"}}`, "package-script"},
		"scripts alike":       {"package.json", `{"scripts":{"a":"x"},"version":"1"}`, `{"version":"2","scripts": {"a": "x"}}`, ""},
		"dependency":          {"package.json", `{"scripts":{"a":"x"}}`, `{"scripts":{"a":"x"},"dependencies":{"b":"1"}}`, ""},
		"new with scripts":    {"package.json", "", `{"scripts":{"a":"x"}}`, "package-script"},
		"new without":         {"package.json", "", `{"name":"a"}`, ""},
		"broken":              {"package.json", `{}`, `{`, "package-script"},
		"tool's settings":     {"package.json", `{"jest":{"verbose":true}}`, `{"jest":{"setupFiles":["./x.js"]}}`, "package-script"},
		"in any case":         {"Package.JSON", `{}`, `{"scripts":{"a":"x"}}`, "package-script"},
		"in an agent's":       {".claude/package.json", `{}`, `{"version":"2"}`, "agent-settings"},
		"plugin":              {"tsconfig.json", `{"compilerOptions":{"strict":true}}`, `{"compilerOptions":{"strict":true,"plugins":[{"transform":"./x.js"}]}}`, "tool-config"},
		"plugin in comments":  {"web/tsconfig.app.json", "{// a\n\"compilerOptions\": {/* \" */}}", "{// a\n\"compilerOptions\": {\"plugins\": [1,],},\n}", "tool-config"},
		"extends":             {"tsconfig.json", `{}`, `{"extends":"./x.json"}`, "tool-config"},
		"option":              {"tsconfig.json", "{// a\n\"compilerOptions\": {\"plugins\": [1]}}", "{\"compilerOptions\": {\"plugins\": [ 1, ], \"strict\": true,},\n}", ""},
		"no plugin":           {"tsconfig.json", "", `{"compilerOptions":{"strict":true,"paths":{"a//b":["\"plugins\": [1]"]}}}`, ""},
		"not of a compiler":   {"src/config.json", `{}`, `{"extends":"./x.json"}`, ""},
		"deno task":           {"deno.jsonc", `{"tasks":{"a":"x"}}`, `{"tasks":{"a":"y"}, }`, "build"},
		"deno option":         {"deno.json", `{"tasks":{"a":"x"}}`, `{"tasks":{"a":"x"},"fmt":{"lineWidth":80}}`, ""},
		"hidden by two keys":  {"package.json", `{"scripts":{"a":"x"}}`, `{"scripts":{"a":"x"},"scripts":{"a":"y"}}`, "package-script"},
		"go generate":         {"a.go", "package a\n", "package a\n//go:generate sh -c x\n", "go-generate"},
		"go generate stays":   {"a.go", "package a\n//go:generate x\n", "package a\n//go:generate x\nvar b int\n", ""},
		"script in a picture": {"a.svg", "<svg/>", "<svg><SCRIPT>x</SCRIPT></svg>", "active-document"},
		"picture":             {"a.svg", "", "<svg/>", ""},
		"modeline":            {"a.md", "", "x\n<!-- vim: set foldexpr=system('x') -->\n", "editor-task"},
		"prose on vim":        {"a.md", "", "vim: a program\n", ""},
	} {
		p := plantedAt(c.file, modeFile, []byte(c.now), func() []byte {
			if c.was == "" {
				return nil
			}
			return []byte(c.was)
		})
		if p.Kind != c.kind {
			t.Errorf("%s: %+v, want %q", name, p, c.kind)
		}
	}
}

// TestOddities is about the attacks: C077.
func TestOddities(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"plain\ttext\r\n": nil,
		"é 日本 👩\u200d💻 naïve — “quoted”": nil,
		"// \u202e } if x {":                  {oddDirection},
		"a\u2066b":                            {oddDirection},
		"x\U000e0041\U000e0042":               {oddTag},
		"\x1b]52;c;eA==\x07":                  {oddEscape},
		"\x1b[2J":                             {oddEscape},
		"a\x9bb":                              {oddEscape},
		"a\u009bb":                            {oddEscape},
		"abc\b\b\bxyz":                        {oddEscape},
		"p\u0430ypal":                         {oddScript},
		"имя name":                            nil,
		"µs Δx αβγ":                           nil,
		"func \u0435val() \u202d \x1b[0m x":   {oddScript, oddDirection, oddEscape},
		"שלום \u200f עולם":                    nil,
		"caf\xe9 in Latin-1, \xff\xfe binary": nil,
	} {
		if diff := cmp.Diff(want, oddities([]byte(text))); diff != "" {
			t.Errorf("%q:\n%s", text, diff)
		}
	}
}

func FuzzOddities(f *testing.F) {
	f.Add([]byte("a\u202eb \x9b \xe2\x80"))
	f.Fuzz(func(t *testing.T, data []byte) {
		odd := oddities(data)
		if slices.Max(append([]byte{0}, data...)) < 0x7f && !slices.Contains(data, 0x1b) && !slices.Contains(data, '\b') && len(odd) > 0 {
			t.Errorf("%q: %q", data, odd)
		}
	})
}

// TestNewSources is about the attacks: C073.
func TestNewSources(t *testing.T) {
	t.Parallel()
	was := `{"resolved": "https://registry.example.com/a/-/a-1.tgz"}`
	for now, want := range map[string][]string{
		was: {},
		strings.ReplaceAll(was, "a-1.tgz", "a-2.tgz"):                {},
		strings.ReplaceAll(was, "registry.example.com", "evil.test"): {"https://evil.test"},
		was + `"git+ssh://git@github.test/x/y.git#abc"`:              {"git+ssh://github.test"},
		was + `"git@github.test:x/y.git"`:                            {"git@github.test:"},
		was + `"http://registry.example.com/x"`:                      {"http://registry.example.com"},
		was + `"https://registry.example.com@evil.test/x"`:           {"https://evil.test"},
		was + `"file:///etc/passwd"`:                                 {"file:///etc/passwd"},
	} {
		if diff := cmp.Diff(want, newSources([]byte(was), []byte(now))); diff != "" {
			t.Errorf("%s:\n%s", now, diff)
		}
	}
}

func FuzzSources(f *testing.F) {
	f.Add([]byte("https://a.test/x git@b.test:c"))
	f.Fuzz(func(_ *testing.T, data []byte) { newSources(nil, data) })
}

func FuzzPortion(f *testing.F) {
	f.Add([]byte(`{"scripts":{"a":1}}`), []byte(`{`))
	f.Add([]byte(`{"compilerOptions":{"plugins":[1,/* */],},} // x`), []byte(`{"a":"//","b":"\\"`))
	f.Fuzz(func(t *testing.T, was, now []byte) {
		for _, p := range portions() {
			if p.differs(now, now) {
				if _, ok := p.of(now); ok && now != nil {
					t.Errorf("%q differs from itself", now)
				}
			}
			p.differs(was, now)
		}
	})
}

func TestPrintable(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"a\nb\tc": "a b c", "\x1b[31m": "?[31m", "\u202e": "?", "\xff": "?", " é ": "é", strings.Repeat("x", 600): strings.Repeat("x", 512) + "…",
	} {
		if got := printable(in); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
}

func FuzzListing(f *testing.F) {
	const id = "0123456789012345678901234567890123456789"
	f.Add([]byte("100644 blob "+id+"       7\ta\x00040000 tree "+id+"       -\td\x00160000 commit "+id+"       -\td/m\x00"), 40)
	f.Fuzz(func(t *testing.T, data []byte, cut int) {
		const most = 4
		l := &listing{hash: 20, most: most, files: map[string]*file{}}
		cut = max(0, min(cut, len(data)))
		for _, part := range [][]byte{data[:cut], data[cut:]} {
			if _, err := l.Write(part); err != nil {
				break
			}
		}
		if len(l.files) > most {
			t.Errorf("%d files", len(l.files))
		}
	})
}

func TestBeginsAsText(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]bool{
		"#!/bin/sh\necho EVIL\nexit\n\x00\x00": true, "a line of words\nmore\x00": true,
		"\x7fELF\x02\x01\x01\x00": false, "\x89PNG\r\n\x1a\n\x00\x00": false, "short\n\x00": false, "GIF89a\x01\x00\x01": false,
	} {
		if beginsAsText([]byte(data)) != want {
			t.Errorf("%q: %v", data, !want)
		}
	}
}
