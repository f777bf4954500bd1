package carry

import (
	"bytes"
	"encoding/json"
	"maps"
	"path"
	"strings"
	"sync"

	"github.com/bailey-dev/bailey/internal/task"
)

// plant is a sort of file that makes something run later for whoever has it in
// a work tree, or changes what a program or an agent there does.
type plant struct {
	kind string
	why  string
	// names are patterns of path.Match: one without a slash is of the last part
	// of a path, one that ends in a slash of a folder on the way, and one that
	// begins with a slash of the whole path.
	names []string
}

// plants is the list of attacks C070 and C072.
var plants = sync.OnceValue(func() []plant {
	return []plant{
		{"git-hook", "git runs hooks from it once core.hooksPath or a hook manager leads there", []string{
			".githooks/", ".husky/", "hooks/pre-commit", "hooks/post-*", "hooks/pre-*", ".pre-commit-config.yaml", ".pre-commit-config.yml", ".pre-commit-hooks.yaml",
			"lefthook.yml", "lefthook.yaml", "lefthook.toml", "lefthook.json", ".lefthook.yml", ".lefthook/", ".overcommit.yml", ".huskyrc", ".huskyrc.*", ".simple-git-hooks.*", ".lintstagedrc*", "lefthook-local.yml", ".hooks/", "captainhook.json", "grumphp.yml",
		}},
		{"git-config", "git takes filters, attributes, submodules or names from it", []string{
			".gitattributes", ".gitmodules", ".gitconfig", ".lfsconfig", ".mailmap", ".git-blame-ignore-revs",
		}},
		{"direnv", "a shell loads it when it enters the folder", []string{".envrc", ".envrc.*", ".env", ".env.*", ".direnv/"}},
		{"tool-versions", "a version manager downloads and runs what it names", []string{
			".tool-versions", "mise.toml", ".mise.toml", "mise.*.toml", ".mise.*.toml", "mise/", ".mise/", ".rtx.toml", ".asdfrc", "devbox.json", "devenv.nix", "devenv.yaml", ".prototools", ".pkgx.yaml", ".python-version", ".node-version", ".nvmrc", ".ruby-version", ".java-version", ".sdkmanrc", "rust-toolchain", "rust-toolchain.toml", ".go-version",
		}},
		{"package-config", "a package manager takes its registry, scripts or plugins from it", []string{
			".npmrc", ".yarnrc", ".yarnrc.yml", ".yarn/", ".pnpmfile.cjs", ".pnpmfile.mjs", "pnpm-workspace.yaml", "bunfig.toml", ".bundle/", "pip.conf", ".pypirc", ".condarc", "NuGet.Config", "nuget.config", ".gemrc", "Gemfile", "composer.json", "auth.json", "uv.toml", ".uv.toml", "pixi.toml", "poetry.toml", "Podfile", "Brewfile", ".terraformrc", "conanfile.txt",
		}},
		{"package-script", "installing or building the package runs it", []string{
			"binding.gyp", "setup.py", "setup.cfg", "pyproject.toml", "conftest.py", "sitecustomize.py", "usercustomize.py", "*.pth", "noxfile.py", "tox.ini", "pytest.ini", ".pytest.ini", "tasks.py", "manage.py", "fabfile.py", "dodo.py", "hatch_build.py", "conanfile.py", "Cargo.toml", "*.rockspec", "*.nimble", "Setup.hs", "project.clj", "Build.PL", "Makefile.PL", "extconf.rb", "Rakefile", "*.rake", "Thorfile", "Guardfile", "Capfile", "Fastfile", "Dangerfile", "*.gemspec", "mix.exs", "configure", "configure.ac", "postinstall.*", "preinstall.*",
		}},
		{"build", "building runs it", []string{
			"Makefile", "makefile", "GNUmakefile", "*.mk", "justfile", "Justfile", ".justfile", "*.just", "Taskfile.yml", "Taskfile.yaml", "Taskfile.dist.yml", "Taskfile.dist.yaml", "Makefile.am", "Makefile.in", "Makefile.toml", "magefile.go", ".air.toml", "bacon.toml", "CMakeLists.txt", "CMakePresets.json", "CMakeUserPresets.json", "*.cmake", "meson.build", "build.rs", ".cargo/", "go.work", "*.gradle", "*.gradle.kts", "gradle.properties", "gradlew", "gradlew.bat", "gradle-wrapper.jar", "gradle-wrapper.properties",
			".mvn/", "mvnw", "mvnw.cmd", "pom.xml", "build.xml", "*.sbt", ".bazelrc", ".bazeliskrc", "WORKSPACE", "WORKSPACE.bazel", "MODULE.bazel", "BUILD", "BUILD.bazel", "*.bzl", "SConstruct", "wscript", "Package.swift", "build.zig", "*.csproj", "*.fsproj", "*.vbproj", "*.vcxproj", "*.props", "*.targets", "build.sc", "xmake.lua", "premake5.lua", "build.ninja", "Tupfile", "Earthfile", "Snakefile", "dune", "build.clj", "bb.edn", "deps.edn", "buf.gen.yaml", ".goreleaser.yml", ".goreleaser.yaml",
			"gulpfile.*", "Gruntfile.*", "ember-cli-build.js", "flake.nix", "shell.nix", "default.nix",
		}},
		{"tool-config", "a bundler, a linter, a test runner or a documentation tool loads what it names, or runs it itself", []string{
			"*.config.js", "*.config.cjs", "*.config.mjs", "*.config.jsx", "*.config.ts", "*.config.cts", "*.config.mts", "*.config.tsx", "*.conf.js", "*.conf.cjs", "*.conf.mjs", "*.conf.ts",
			".*rc.js", ".*rc.cjs", ".*rc.mjs", ".*rc.ts", "webpack.config.*", "vite.config.*", "rollup.config.*", "next.config.*", "babel.config.*", "jest.config.*", "vitest.config.*", "playwright.config.*", "eslint.config.*", "prettier.config.*", "tsup.config.*", "release.config.*", "commitlint.config.*",
			".babelrc*", ".swcrc", ".eslintrc*", ".prettierrc*", ".stylelintrc*", ".commitlintrc*", ".postcssrc*", ".mocharc*", ".nycrc*", ".releaserc*", ".remarkrc*", ".parcelrc", "nodemon.json", "angular.json", "nx.json", "project.json", "turbo.json", "lerna.json", "rush.json",
			"mypy.ini", ".mypy.ini", ".pylintrc", "pylintrc", ".flake8", ".coveragerc", "conf.py", ".rspec", ".rubocop.yml", ".rubocop.yaml", ".golangci.*", ".custom-gcl.*", "phpunit.xml", "phpunit.xml.dist", "phpstan.neon", "phpstan.neon.dist", "rector.php", ".php-cs-fixer.php", ".php-cs-fixer.dist.php", ".formatter.exs", ".credo.exs", "config.nims",
		}},
		{"deployment", "a tool of deployment runs it, with the credentials of whoever calls the tool", []string{
			"*.tf", "*.tf.json", "*.tofu", "*.tofu.json", "terragrunt.hcl", "*.pkr.hcl", "*.nomad", "Pulumi.yaml", "serverless.yml", "serverless.yaml", "cdk.json", "ansible.cfg", "helmfile.yaml", "wrangler.toml", "wrangler.json", "wrangler.jsonc", "firebase.json",
		}},
		{"container", "a container is built or started from it, with what it mounts of this machine", []string{
			"Dockerfile", "Dockerfile.*", "*.Dockerfile", "Containerfile", "compose.yaml", "compose.yml", "compose.*.yaml", "compose.*.yml", "docker-bake.hcl", "docker-compose.yml", "docker-compose.yaml", "docker-compose.*.yml", "docker-compose.*.yaml", ".devcontainer/", ".devcontainer.json", "Vagrantfile", "skaffold.yaml", "Tiltfile",
		}},
		{"editor-task", "an editor runs or obeys it when the folder is opened", []string{
			".vscode/", "*.code-workspace", ".idea/", "*.iml", ".fleet/", ".zed/", ".vimrc", ".exrc", ".gvimrc", ".nvim.lua", ".nvimrc", ".lvimrc", ".vim/", ".emacs", ".dir-locals.el", ".dir-locals-2.el", ".editorconfig", ".sublime-project", "*.sublime-project", ".nova/", ".helix/", ".projectile",
		}},
		{"agent-settings", "an agent runs hooks, tools or servers that it names, or is allowed more by it", []string{
			".claude/", ".claude.json", ".mcp.json", "mcp.json", ".codex/", ".gemini/", ".cursor/", ".windsurf/", ".opencode/", "opencode.json", "opencode.jsonc", ".aider*", ".continue/", ".roo/", ".cline/", ".kilocode/", ".amazonq/", ".pi/", ".goose/", ".crush.json", "crush.json", ".codeium/", ".qwen/", ".copilot/", ".agents/", ".agent/", ".kiro/", ".trae/", ".augment/", ".factory/", ".serena/", ".claude-plugin/", "gemini-extension.json", ".vibe/",
		}},
		{"agent-instructions", "the next agent that works here takes it for its instructions", []string{
			"AGENTS.md", "AGENT.md", "AGENTS.override.md", "CLAUDE.md", "CLAUDE.local.md", "GEMINI.md", "QWEN.md", ".cursorrules", ".windsurfrules", ".clinerules", ".clinerules/", ".roorules", "copilot-instructions.md", "*.instructions.md", "*.prompt.md", "*.chatmode.md", "*.agent.md", "*.mdc", ".rules", "WARP.md", "SKILL.md", ".goosehints", ".junie/", "CONVENTIONS.md", "llms.txt",
		}},
		{"ci", "the forge runs it, with the secrets of the project, once it is pushed", []string{
			".github/workflows/", ".github/actions/", "/action.yml", "/action.yaml", ".github/dependabot.yml", ".gitlab-ci.yml", ".gitlab-ci.yaml", ".gitlab/", ".circleci/", "Jenkinsfile", "Jenkinsfile.*", "azure-pipelines.yml", ".azure-pipelines/", ".travis.yml", "appveyor.yml", ".appveyor.yml", "bitbucket-pipelines.yml", ".drone.yml", ".woodpecker.yml", ".woodpecker/", ".buildkite/", ".forgejo/", ".gitea/", ".teamcity/", "cloudbuild.yaml", "buildspec.yml", ".cirrus.yml", "renovate.json", ".renovaterc*", "netlify.toml", "vercel.json", "Procfile", "app.json", "fly.toml",
		}},
		{"review-rules", "it says who has to review what", []string{"CODEOWNERS"}},
		{"shell-startup", "a shell or a login runs it", []string{
			".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".inputrc", ".xprofile", ".xinitrc", ".xsession", ".pam_environment", "config.fish", ".tmux.conf", ".screenrc", ".gdbinit", ".lldbinit", ".pdbrc", ".Rprofile", ".Renviron", ".irbrc", ".iex.exs", ".pryrc", ".psqlrc", ".curlrc", ".wgetrc", ".netrc",
		}},
		{"ssh", "ssh takes keys, hosts or commands from it", []string{".ssh/", "authorized_keys", "known_hosts"}},
		{"system-start", "the desktop or the system starts it", []string{
			"*.desktop", "crontab", "*.crontab", "cron.d/", "*.service", "*.timer", "*.socket", "*.path", "*.mount", "autostart/", "*.plist", "*.udev", "*.rules", "*.bat", "*.cmd", "*.ps1", "*.lnk", "*.reg", "*.scr", "*.vbs", "*.hta", "autorun.inf", "desktop.ini", "*.url", "*.webloc",
		}},
		{"notebook", "opening or running the notebook runs its cells", []string{"*.ipynb"}},
		{"macro", "an office program may run macros in it", []string{"*.docm", "*.xlsm", "*.pptm", "*.dotm", "*.xltm", "*.xlam", "*.ppam", "*.doc", "*.xls", "*.ppt", "*.odt", "*.ods"}},
	}
})

// portion is a sort of JSON file of which only some members make something run.
type portion struct {
	kind string
	why  string
	// names are patterns of path.Match for the last part of a path, in lower case.
	names []string
	// members are those that count, the way to one within another with dots.
	members []string
}

var portions = sync.OnceValue(func() []portion {
	return []portion{
		{"package-script", "its scripts or its tools' settings changed; a package manager runs the ones, and the others name programs to load", []string{"package.json"}, []string{
			"scripts", "husky", "lint-staged", "simple-git-hooks", "pre-commit", "bin", "gypfile", "packageManager", "workspaces", "gitHooks", "wireit",
			"jest", "mocha", "ava", "nyc", "babel", "eslintConfig", "prettier", "stylelint", "commitlint", "release", "postcss", "nodemonConfig", "ts-node",
		}},
		{"tool-config", "an editor or the compiler loads the plugins that it names, or that what it extends does", []string{"tsconfig.json", "tsconfig.*.json", "tsconfig-*.json", "jsconfig.json"}, []string{
			"compilerOptions.plugins", "extends", "references", "ts-node",
		}},
		{"build", "deno runs its tasks and loads its plugins, with the permissions that it gives", []string{"deno.json", "deno.jsonc"}, []string{
			"tasks", "lint.plugins", "allowScripts", "permissions",
		}},
	}
})

// plantedAt judges a file that is new or changed. The base is read where only a
// part of a file matters.
func plantedAt(name string, mode uint32, data []byte, base func() []byte) task.Planted {
	if p := finder().find(name); p != nil {
		return task.Planted{Path: name, Kind: p.kind, Why: p.why}
	}
	if p := portionOf(name); p != nil {
		if p.differs(base(), data) {
			return task.Planted{Path: name, Kind: p.kind, Why: p.why}
		}
		return task.Planted{}
	}
	return plantedText(name, mode, data, base)
}

// portionOf returns what counts of a file, or nil if that is told otherwise.
func portionOf(name string) *portion {
	last := strings.ToLower(path.Base(name))
	list := portions()
	for i := range list {
		for _, pattern := range list[i].names {
			if matched, _ := path.Match(pattern, last); matched { // the patterns are well formed; a test tries each
				return &list[i]
			}
		}
	}
	return nil
}

// plantFinder is the list made ready for many paths: most are told by one look
// at each of their parts. Everything in it is lower case, as some file systems
// do not tell the cases apart. The numbers are places in the list, of which the
// first that matches is told.
type plantFinder struct {
	list    []plant
	bases   map[string]int // whole last parts
	endings map[string]int // of last parts, from one of their dots on
	stems   map[string]int // of last parts, up to one of their dots
	folders map[string]int // parts on the way
	rest    []plantPattern
}

type plantPattern struct {
	pattern string
	plant   int
}

var finder = sync.OnceValue(func() *plantFinder {
	f := &plantFinder{list: plants(), bases: map[string]int{}, endings: map[string]int{}, stems: map[string]int{}, folders: map[string]int{}, rest: nil}
	for i, p := range f.list {
		for _, pattern := range p.names {
			f.add(strings.ToLower(pattern), i)
		}
	}
	return f
})

func (f *plantFinder) add(pattern string, i int) {
	folder, isFolder := strings.CutSuffix(pattern, "/")
	ending, isEnding := strings.CutPrefix(pattern, "*")
	stem, isStem := strings.CutSuffix(pattern, ".*")
	to, key := f.bases, pattern
	switch {
	case isFolder && !strings.ContainsAny(folder, "/*?["):
		to, key = f.folders, folder
	case isEnding && strings.HasPrefix(ending, ".") && !strings.ContainsAny(ending, "/*?["):
		to, key = f.endings, ending
	case isStem && !strings.ContainsAny(stem, "/*?["):
		to, key = f.stems, stem
	case strings.ContainsAny(pattern, "/*?["):
		f.rest = append(f.rest, plantPattern{pattern, i})
		return
	}
	if _, there := to[key]; !there {
		to[key] = i
	}
}

// find returns the first of the list that a path is, or nil.
func (f *plantFinder) find(name string) *plant {
	name = strings.ToLower(name)
	first := len(f.list)
	take := func(i int, there bool) {
		if there {
			first = min(first, i)
		}
	}
	dir, base := path.Split(name)
	i, there := f.bases[base]
	take(i, there)
	for at := range len(base) {
		if base[at] != '.' {
			continue
		}
		i, there = f.endings[base[at:]]
		take(i, there)
		i, there = f.stems[base[:at]]
		take(i, there)
	}
	for part := range strings.SplitSeq(dir, "/") {
		i, there = f.folders[part]
		take(i, there)
	}
	for _, r := range f.rest {
		if r.plant < first && matchesPlant(r.pattern, name) {
			first = r.plant
		}
	}
	if first == len(f.list) {
		return nil
	}
	return &f.list[first]
}

// matchesPlant compares a path with a pattern of a plant.
func matchesPlant(pattern, name string) bool {
	if folder, ok := strings.CutSuffix(pattern, "/"); ok {
		return strings.HasPrefix(name, folder+"/") || strings.Contains(name, "/"+folder+"/")
	}
	if whole, ok := strings.CutPrefix(pattern, "/"); ok {
		return name == whole
	}
	from := len(name)
	for range strings.Count(pattern, "/") + 1 { // as many last parts as the pattern has
		if from = strings.LastIndexByte(name[:max(from, 0)], '/'); from < 0 {
			break
		}
	}
	matched, _ := path.Match(pattern, name[from+1:]) // the patterns are well formed; a test tries each
	return matched
}

// plantedText judges by what a file says.
func plantedText(name string, _ uint32, data []byte, base func() []byte) task.Planted {
	grew := func(words ...string) bool {
		var n, was int
		lower := bytes.ToLower(data)
		for _, word := range words {
			n += bytes.Count(lower, []byte(word))
		}
		if n == 0 {
			return false
		}
		old := bytes.ToLower(base())
		for _, word := range words {
			was += bytes.Count(old, []byte(word))
		}
		return n > was
	}
	switch strings.ToLower(path.Ext(name)) {
	case ".go":
		if grew("//go:generate") {
			return task.Planted{Path: name, Kind: "go-generate", Why: "`go generate` runs the command that it names"}
		}
	case ".svg", ".html", ".htm", ".xhtml":
		if grew("<script", "javascript:", "onload=", "onerror=", "onclick=") {
			return task.Planted{Path: name, Kind: "active-document", Why: "a browser that opens it runs its script"}
		}
	case ".tex", ".vim", ".c", ".h", ".py", ".md", ".txt", ".sh":
		if grew("vim: set", "vim:set", "-*- eval:", "-*- mode: eval", "# eval:") && grew("eval", "modeline", "foldexpr", "shell") {
			return task.Planted{Path: name, Kind: "editor-task", Why: "an editor obeys the settings in its text"}
		}
	}
	return task.Planted{}
}

// differs compares what counts of two versions of a file. What cannot be read
// differs.
func (p *portion) differs(was, now []byte) bool {
	old, ok := p.of(was)
	next, ok2 := p.of(now)
	if was == nil {
		return !ok2 || len(next) > 0
	}
	return !ok || !ok2 || !maps.Equal(old, next)
}

// of returns the members that count, as JSON without spaces.
func (p *portion) of(data []byte) (map[string]string, bool) {
	if len(data) == 0 {
		return nil, true
	}
	data = withoutComments(data)
	list := map[string]string{}
	for _, member := range p.members {
		raw, there, ok := memberOf(data, member)
		if !ok {
			return nil, false
		}
		var b bytes.Buffer
		if there && json.Compact(&b, raw) != nil {
			return nil, false
		}
		if there {
			list[member] = b.String()
		}
	}
	return list, true
}

// memberOf finds a member by the way to it. ok is false for what is no object
// where one has to be.
func memberOf(data []byte, way string) (raw json.RawMessage, there, ok bool) {
	raw = data
	for part := range strings.SplitSeq(way, ".") {
		var doc map[string]json.RawMessage
		if json.Unmarshal(raw, &doc) != nil {
			return nil, false, false
		}
		if raw, there = doc[part]; !there {
			return nil, false, true
		}
	}
	return raw, true, true
}

// withoutComments makes JSON of what compilers and editors take for it: with
// comments, and commas behind the last value. What is no such text stays none.
func withoutComments(data []byte) []byte {
	out := make([]byte, 0, len(data))
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	for i := 0; i < len(data); {
		size := 1
		switch rest := data[i:]; {
		case rest[0] == '"':
			size = stringSize(rest)
		case bytes.HasPrefix(rest, []byte("//")):
			i += endOf(rest, "\n")
			continue
		case bytes.HasPrefix(rest, []byte("/*")):
			i += endOf(rest[1:], "*/") + 1
			out = append(out, ' ')
			continue
		case rest[0] == '}' || rest[0] == ']':
			out = bytes.TrimSuffix(bytes.TrimRight(out, " \t\r\n"), []byte(","))
		}
		out = append(out, data[i:i+size]...)
		i += size
	}
	return out
}

// stringSize is how long the string at the front is, with its quotes.
func stringSize(s []byte) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(s)
}

// endOf is where what ends with a mark is over.
func endOf(s []byte, mark string) int {
	if i := bytes.Index(s, []byte(mark)); i >= 0 {
		return i + len(mark)
	}
	return len(s)
}
