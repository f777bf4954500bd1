package mirror_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey/internal/mirror"
)

// machine makes a machine out of files; paths that begin with ~ are the
// caller's, "ws/…" the workspace's.
func machine(t *testing.T, files, env map[string]string) mirror.Host {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h := mirror.Host{
		Root: filepath.Join(dir, "root"), Home: filepath.Join(dir, "home"), Workspace: filepath.Join(dir, "ws"),
		Env: func(name string) string { return strings.ReplaceAll(env[name], "DIR", dir) },
	}
	for path, text := range files {
		path = filepath.Join(dir, strings.NewReplacer("~", "home").Replace(path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

func TestFind(t *testing.T) {
	t.Parallel()
	const npmSource = "define('registry', {\n  default: 'https://default.example.com/',\n  type: url,\n})\n"
	for _, c := range []struct {
		manager    string
		files, env map[string]string
		want       string // rules, or part of an error
	}{
		{"apt", map[string]string{
			"root/etc/apt/sources.list":                 "# deb http://no.example.com x\ndeb [arch=amd64 signed-by=/x] http://one.example.com/debian stable main\ndeb-src https://two.example.com:8443/ x\ndeb cdrom:[x] y\ndeb file:///srv x\n",
			"root/etc/apt/sources.list.d/three.sources": "Types: deb\nURIs: https://three.example.com/debian http://one.example.com\nSuites: x\n",
		}, nil, "one.example.com:80 two.example.com:8443 three.example.com:443"},
		{"apt", nil, nil, "names no host"},
		{"cargo", map[string]string{"~/.cargo/config.toml": "[source.crates-io]\nreplace-with = \"m\"\n[source.m]\nregistry = \"sparse+https://m.example.com/index/\"\n[registries.own]\nindex = 'https://own.example.com/git'\n"}, nil, "m.example.com:443 own.example.com:443"},
		{"cargo", map[string]string{"~/.cargo/registry/index/index.example.com-0123abcd/config.json": `{"dl":"https://static.example.com/crates"}`}, nil, "index.example.com:443 static.example.com:443"},
		{"cargo", map[string]string{"other/config.toml": "[registries.own]\nindex = \"https://own.example.com/git\"\n"}, map[string]string{"CARGO_HOME": "DIR/other"}, "own.example.com:443"},
		{"go", nil, map[string]string{"GOPROXY": "https://a.example.com|http://b.example.com/x,direct", "GOSUMDB": "off"}, "a.example.com:443 b.example.com:80"},
		{"go", map[string]string{"~/.config/go/env": "GOPROXY=https://user.example.com\n", "go/bin/go": "", "go/go.env": "# defaults\nGOPROXY=https://tool.example.com,direct\nGOSUMDB=sum.example.com\n"}, map[string]string{"PATH": "DIR/nothing:DIR/go/bin"}, "user.example.com:443 sum.example.com:443"},
		{"go", nil, map[string]string{"GOPROXY": "direct", "GOSUMDB": "sum.example.com+0123+key"}, "sum.example.com:443"},
		{"npm", map[string]string{"~/.npmrc": "//r.example.com/:_authToken=secret\nregistry = https://r.example.com/npm/\n@own:registry=https://own.example.com:4873\n"}, nil, "r.example.com:443 own.example.com:4873"},
		{"npm", map[string]string{"~/.npmrc": "registry=https://${HOST}/\n"}, map[string]string{"HOST": "v.example.com"}, "v.example.com:443"},
		{"npm", map[string]string{"~/.npmrc": "registry=https://file.example.com/\n"}, map[string]string{"npm_config_registry": "https://env.example.com"}, "env.example.com:443"},
		{"npm", map[string]string{"n/bin/npm": "", "n/node_modules/@npmcli/config/lib/definitions/definitions.js": npmSource}, map[string]string{"PATH": "DIR/n/bin"}, "default.example.com:443"},
		{"pip", map[string]string{"~/.config/pip/pip.conf": "[global]\nindex-url = https://own.example.com/simple\nextra-index-url =\n\thttps://x.example.com/simple\n"}, nil, "own.example.com:443 x.example.com:443"},
		{"npm", map[string]string{"~/.npmrc": "registry=https://secret.token:12/3@npm.example.com/\n@a:registry=https://a.example.com/\n"}, nil, "a.example.com:443"}, // a slash in a password: what is before it is no host
		{"pip", map[string]string{"root/etc/pip.conf": "[global]\nindex-url = https://etc.example.com/simple\n", "~/.config/pip/pip.conf": "[global]\nindex-url = https://user:secret@own.example.com/simple\nextra-index-url =\n    https://x.example.com/simple\n    http://y.example.com/simple\n"}, nil, "own.example.com:443 x.example.com:443 y.example.com:80"},
		{"pip", nil, map[string]string{"PIP_INDEX_URL": "https://env.example.com/simple"}, "env.example.com:443"},
		{"pip", map[string]string{"root/usr/lib/python3/dist-packages/pip/_internal/models/index.py": "PyPI = PackageIndex(\n    \"https://p.example.com/\", file_storage_domain=\"f.example.com\"\n)\n"}, nil, "p.example.com:443 f.example.com:443"},
		{"yum", nil, nil, "unknown package manager"},

		// What a sandbox could have written is not read (EGR-13).
		{"npm", map[string]string{"ws/.npmrc": "registry=https://evil.example.com\n"}, map[string]string{"NPM_CONFIG_USERCONFIG": "DIR/ws/.npmrc"}, "names no host"},
		{"npm", map[string]string{"ws/n/bin/npm": "", "ws/n/node_modules/@npmcli/config/lib/definitions/definitions.js": npmSource}, map[string]string{"PATH": "DIR/ws/n/bin"}, "names no host"},
		{"go", map[string]string{"ws/go/bin/go": "", "ws/go/go.env": "GOPROXY=https://evil.example.com\n"}, map[string]string{"PATH": "DIR/ws/go/bin"}, "names no host"},
		{"cargo", map[string]string{"ws/config.toml": "[registries.x]\nindex = \"https://evil.example.com\"\n"}, map[string]string{"CARGO_HOME": "DIR/ws"}, "names no host"},
		{"pip", map[string]string{"ws/pip.conf": "[global]\nindex-url = https://evil.example.com\n"}, map[string]string{"PIP_CONFIG_FILE": "DIR/ws/pip.conf"}, "names no host"},
	} {
		rules, err := mirror.Find(c.manager, machine(t, c.files, c.env))
		if err != nil {
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s %v %v: %v, want %q", c.manager, c.files, c.env, err, c.want)
			}
			continue
		}
		if diff := cmp.Diff(c.want, strings.Join(rules, " ")); diff != "" {
			t.Errorf("%s %v %v: %s", c.manager, c.files, c.env, diff)
		}
	}
}

// A link out of the caller's files into the workspace is one of the workspace.
// What the workspace holds is not read either by a relative path, or as the
// names of folders.
func TestFind_ReadsNothingOfTheWorkspace(t *testing.T) {
	for _, c := range []struct {
		manager    string
		files, env map[string]string
		link       string // to ws/index
	}{
		{"pip", map[string]string{"ws/pip.conf": "[global]\nindex-url = https://evil.example.com/\n"}, map[string]string{"PIP_CONFIG_FILE": "pip.conf"}, ""},
		{"npm", map[string]string{"ws/npmrc": "registry=https://evil.example.com/\n"}, map[string]string{"NPM_CONFIG_USERCONFIG": "npmrc"}, ""},
		{"go", map[string]string{"ws/env": "GOPROXY=https://evil.example.com\n"}, map[string]string{"GOENV": "./env"}, ""},
		{"cargo", map[string]string{"ws/c/config.toml": "[registries.x]\nindex = \"https://evil.example.com/\"\n"}, map[string]string{"CARGO_HOME": "c"}, ""},
		{"cargo", map[string]string{"ws/c/registry/index/evil.example.com-01/x": ""}, map[string]string{"CARGO_HOME": "c"}, ""},
		{"cargo", map[string]string{"ws/c/registry/index/evil.example.com-01/x": ""}, map[string]string{"CARGO_HOME": "DIR/ws/c"}, ""},
		{"cargo", map[string]string{"ws/index/evil.example.com-01/x": "", "~/.cargo/registry/x": ""}, nil, "home/.cargo/registry/index"},
		{"cargo", map[string]string{"ws/index/x": "", "~/.cargo/registry/index/x": ""}, nil, "home/.cargo/registry/index/evil.example.com-01"},
		{"npm", map[string]string{"~/.npmrc": "registry=https://*.example.com/\n"}, nil, ""},
	} {
		h := machine(t, c.files, c.env)
		if err := os.MkdirAll(h.Workspace, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Chdir(h.Workspace)
		if c.link != "" {
			if err := os.Symlink(filepath.Join(h.Workspace, "index"), filepath.Join(filepath.Dir(h.Workspace), c.link)); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := mirror.Find(c.manager, h); err == nil {
			t.Errorf("%s %v %s: %v", c.manager, c.env, c.link, got)
		}
	}
}

func TestFind_FollowsNoLinkIntoTheWorkspace(t *testing.T) {
	t.Parallel()
	h := machine(t, map[string]string{"ws/npmrc": "registry=https://evil.example.com\n", "home/x": ""}, nil)
	if err := os.Symlink(filepath.Join(h.Workspace, "npmrc"), filepath.Join(h.Home, ".npmrc")); err != nil {
		t.Fatal(err)
	}
	if got, err := mirror.Find("npm", h); err == nil {
		t.Errorf("found %v", got)
	}
}

// A pipe in the place of a file has no writer: nothing waits for one.
func TestFind_WaitsForNoPipe(t *testing.T) {
	t.Parallel()
	h := machine(t, map[string]string{"~/x": ""}, nil)
	if err := syscall.Mkfifo(filepath.Join(h.Home, ".npmrc"), 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = mirror.Find("npm", h)
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("it waits for a writer")
	}
}

// TestSourceOf: what a manager inside is told, and that no credential is in it.
func TestSourceOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		manager    string
		files, env map[string]string
		want       string
	}{
		{
			"pip",
			map[string]string{"~/.config/pip/pip.conf": "[global]\nindex-url = https://user:canary@own.example.com/simple\nextra-index-url =\n    https://x.example.com/simple\n    http://y.example.com/simple\ntrusted-host = y.example.com\n"},
			nil,
			"PIP_INDEX_URL=https://own.example.com/simple PIP_EXTRA_INDEX_URL=https://x.example.com/simple http://y.example.com/simple PIP_TRUSTED_HOST=y.example.com",
		},
		{"pip", map[string]string{"root/usr/lib/python3/dist-packages/pip/_internal/models/index.py": "PyPI = PackageIndex(\n    \"https://p.example.com/\", file_storage_domain=\"f.example.com\"\n)\n"}, nil, ""},
		{"pip", nil, map[string]string{"PIP_INDEX_URL": "file:///etc"}, ""},
		{
			"npm",
			map[string]string{"~/.npmrc": "//r.example.com/:_authToken=canary\nregistry = https://me:canary@r.example.com/npm/\n@own:registry=https://own.example.com:4873\n@e\nvil:registry=https://evil.example.com\n"},
			nil,
			"registry=https://r.example.com/npm/\n@own:registry=https://own.example.com:4873\nvil:registry=https://evil.example.com\n",
		},
		{"npm", nil, map[string]string{"npm_config_registry": "https://env.example.com"}, "registry=https://env.example.com\n"},
		{"npm", map[string]string{"~/.npmrc": "@a;b:registry=https://a.example.com\nregistry=https://canary:12/3@npm.example.com/\n"}, nil, ""},
		{
			"go", nil,
			map[string]string{"GOPROXY": "https://me:canary@a.example.com|http://b.example.com/x,direct", "GOSUMDB": "off", "GONOSUMDB": "x.example.com"},
			"GOPROXY=https://a.example.com|http://b.example.com/x,direct GOSUMDB=off GONOSUMDB=x.example.com",
		},
		{"go", map[string]string{"~/.config/go/env": "GOPROXY=https://user.example.com\nGOPRIVATE=*.own.example.com\n"}, nil, "GOPROXY=https://user.example.com GOPRIVATE=*.own.example.com"},
		{"go", map[string]string{"ws/env": "GOPROXY=https://evil.example.com\n"}, map[string]string{"GOENV": "DIR/ws/env"}, ""},
		{"apt", nil, nil, ""},
	} {
		s := mirror.SourceOf(c.manager, machine(t, c.files, c.env))
		got := strings.Join(s.Env, " ") + s.NPMRC
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s %v %v: %s", c.manager, c.files, c.env, diff)
		}
		if strings.Contains(got, "canary") {
			t.Errorf("%s: a credential: %s", c.manager, got)
		}
	}
}
