package plants

// Plant is a sort of file that makes something run later for whoever has it in
// a work tree, or changes what a program or an agent there does.
type Plant struct {
	Kind string
	Why  string
	// Names are patterns of path.Match: one without a slash is of the last part
	// of a path, one that ends in a slash of a folder on the way, and one that
	// begins with a slash of the whole path.
	Names []string
}

// List is the list of attacks C070 and C072.
func List() []Plant {
	return []Plant{
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
}
