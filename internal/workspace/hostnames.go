package workspace

import (
	"path/filepath"
	"strings"

	"github.com/bailey-dev/bailey/internal/plants"
)

// What would run a file that a sandbox wrote (Finding.By), in the order of a
// report.
const (
	byGit    = "git and its hooks"
	byShell  = "your shell"
	byEditor = "an editor or a debugger"
	byAgent  = "a coding agent"
	byBuild  = "a build or a test"
	byPacks  = "a package manager"
	byCI     = "CI or a container"
	byOthers = "a deployment, the desktop or another program"
)

// Runners lists what would run a file, in the order of a report.
func Runners() []string {
	return []string{byGit, byShell, byEditor, byAgent, byBuild, byPacks, byCI, byOthers, ""}
}

// hostName is a file, or a folder whose files, make a tool of the host run
// something, often by just being opened. One with slashes is looked for as it
// is, a pattern (path/filepath.Match) among the names of a folder.
type hostName struct {
	name    string
	by      string
	pattern bool
}

func (n hostName) what() string {
	if n.name == policyFile { // it runs nothing, and says what the next sandbox there may do
		return "is a policy that bailey reads in its folder: changed during the run"
	}
	return "runs on the host: changed during the run"
}

// policyFile is a project's policy, as internal/settings looks for it.
const policyFile = "bailey.yaml"

// runner says what would run a plant.
func runner(kind string) string {
	switch kind {
	case "git-hook", "git-config":
		return byGit
	case "direnv", "tool-versions", "shell-startup":
		return byShell
	case "editor-task":
		return byEditor
	case "agent-settings", "agent-instructions":
		return byAgent
	case "build", "tool-config":
		return byBuild
	case "package-config", "package-script":
		return byPacks
	case "ci", "container", "review-rules":
		return byCI
	}
	return byOthers
}

// planted are the names of the list that is held to what tasks bring back too,
// as far as they are not in this one's already. A pattern of a path is not
// looked for: names of a folder are compared.
func planted(known []hostName) []hostName {
	there := make(map[string]bool, len(known))
	for _, n := range known {
		there[n.name] = true
	}
	var list []hostName
	for _, p := range plants.List() {
		for _, pattern := range p.Names {
			name := strings.Trim(pattern, "/")
			isPattern := strings.ContainsAny(name, "*")
			if there[name] || isPattern && strings.Contains(name, "/") {
				continue
			}
			there[name] = true
			list = append(list, hostName{name: name, by: runner(p.Kind), pattern: isPattern})
		}
	}
	return list
}

// hostNames lists what is looked for: at the top of a workspace, and in the
// folders below it.
func hostNames() []hostName {
	var list []hostName
	for _, group := range []struct{ by, names string }{
		{byGit, `.gitattributes .gitmodules .gitconfig .lfsconfig .husky .githooks .git-hooks .pre-commit-config.yaml .pre-commit-config.yml
			lefthook*.y*ml .lefthook*.y*ml lefthook*.toml .lefthook*.toml .overcommit.yml .huskyrc*`},
		{byShell, `.env .envrc .env.* .tool-versions mise.toml .mise.toml mise.*.toml .mise.*.toml .mise .miserc* .Rprofile .Renviron .irbrc .pryrc .autoenv*
			.bashrc .bash_profile .profile .zshrc .zshenv shell.nix default.nix flake.nix devenv.nix devbox.json`},
		{byEditor, `.vscode *.code-workspace .idea .zed .fleet .helix .nvim .nvim.lua .nvimrc .exrc .lvimrc .vimrc .vim .vim.lua .projections.json
			.dir-locals.el .dir-locals-2.el .editorconfig .sublime-project *.sublime-project .gdbinit .lldbinit .gdbinit.py`},
		{byAgent, `.claude .codex .cursor .cursorrules .cursorignore .gemini .opencode opencode.json opencode.jsonc .mcp.json mcp.json CLAUDE.md CLAUDE.local.md
			AGENTS.md AGENT.md AGENTS.override.md GEMINI.md .aider.conf.yml .aider* .clinerules .roo .roomodes .kilocode .windsurf .windsurfrules .continue .junie
			.goosehints .amazonq .kiro ` + policyFile + ` .github/copilot-instructions.md .github/instructions .github/prompts`},
		{byBuild, `Makefile makefile GNUmakefile *.mk justfile Justfile .justfile Taskfile.y*ml Taskfile.dist.y*ml taskfile.y*ml CMakeLists.txt CMakePresets.json
			CMakeUserPresets.json configure configure.ac autogen.sh meson.build Rakefile rakefile Gemfile *.gemspec build.gradle build.gradle.kts settings.gradle
			settings.gradle.kts init.gradle gradlew gradlew.bat gradle.properties gradle/wrapper mvnw mvnw.cmd .mvn pom.xml build.xml build.sbt project/plugins.sbt
			build.zig BUILD BUILD.bazel WORKSPACE WORKSPACE.bazel MODULE.bazel .bazelrc .bazelversion SConstruct wscript build.rs .cargo rust-toolchain
			rust-toolchain.toml pyproject.toml setup.py setup.cfg tox.ini noxfile.py conftest.py pytest.ini .pytest.ini .coveragerc tasks.py dodo.py fabfile.py
			manage.py sitecustomize.py usercustomize.py .pth *.pth .venv/bin venv/bin .python-version .ruby-version .rspec .golangci.y*ml .goreleaser.y*ml
			eslint.config.* .eslintrc* .prettierrc* prettier.config.* .stylelintrc* stylelint.config.* .babelrc* babel.config.* vite.config.* vitest.config.*
			vitest.workspace.* webpack.config.* rollup.config.* rspack.config.* esbuild.config.* next.config.* nuxt.config.* svelte.config.* astro.config.*
			postcss.config.* tailwind.config.* jest.config.* karma.conf.* playwright.config.* cypress.config.* .mocharc* .lintstagedrc* lint-staged.config.*
			commitlint.config.* .commitlintrc* .releaserc* release.config.* tsup.config.* gulpfile.* Gruntfile.* turbo.json nx.json metro.config.* mix.exs .iex.exs
			deno.json deno.jsonc bunfig.toml`},
		{byPacks, `package.json .npmrc .yarnrc* .yarn/releases .yarn/plugins .pnpmfile.cjs .pnpmfile.mjs pnpm-workspace.yaml composer.json Pipfile
			requirements*.txt .pypirc pip.conf uv.toml .bundle`},
		{byCI, `.github/workflows .github/actions action.yml action.yaml .gitlab-ci.yml .gitlab .circleci .travis.yml azure-pipelines.yml .azure-pipelines Jenkinsfile
			Jenkinsfile.* .drone.yml .woodpecker .woodpecker.yml .buildkite .forgejo .gitea bitbucket-pipelines.yml appveyor.yml .cirrus.yml Dockerfile
			Dockerfile.* *.Dockerfile Containerfile .devcontainer .devcontainer.json docker-compose*.y*ml compose*.y*ml Vagrantfile Procfile Tiltfile
			skaffold.yaml .gitpod.yml .gitpod.Dockerfile`},
	} {
		for name := range strings.FieldsSeq(group.names) {
			list = append(list, hostName{name: name, by: group.by, pattern: strings.ContainsAny(name, "*")})
		}
	}
	return append(list, planted(list)...)
}

// hostIndex finds what a name of a folder may be, without a comparison with
// each.
type hostIndex struct {
	byFirst  map[string][]hostName // by the first file or folder of the name
	patterns map[byte][]hostName   // by the first byte
}

func newHostIndex() hostIndex {
	x := hostIndex{byFirst: make(map[string][]hostName), patterns: make(map[byte][]hostName)}
	for _, n := range hostNames() {
		if n.pattern {
			x.patterns[n.name[0]] = append(x.patterns[n.name[0]], n)
			continue
		}
		first, _, _ := strings.Cut(n.name, "/")
		x.byFirst[first] = append(x.byFirst[first], n)
	}
	return x
}

// matching returns a pattern that a name fits.
func (x hostIndex) matching(name string) (hostName, bool) {
	for _, first := range []byte{name[0], '*'} {
		for _, n := range x.patterns[first] {
			if !strings.HasSuffix(name, n.name[strings.LastIndexByte(n.name, '*')+1:]) {
				continue // most names, and much cheaper to tell
			}
			if ok, _ := filepath.Match(n.name, name); ok { // a pattern of ours is well-formed
				return n, true
			}
		}
	}
	return hostName{}, false
}
