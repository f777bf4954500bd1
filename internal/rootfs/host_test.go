package rootfs_test

import (
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/rootfs"
)

// machine lays out a small host below a temporary folder. A name that ends in
// "/" is a folder, a text that begins with "-> " a link, one that begins with
// "!0600 " a file that only its owner may read, and "#!" or "\x7fELF" makes a
// program.
func machine(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for name := range files {
			if !yield(name) {
				return
			}
		}
	}) {
		path, text := filepath.Join(dir, name), files[name]
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		switch {
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(path, 0o755)
		case strings.HasPrefix(text, "-> "):
			err = os.Symlink(text[3:], path)
		case strings.HasPrefix(text, "!0600 "):
			err = os.WriteFile(path, []byte(text[6:]), 0o600)
		case strings.HasPrefix(text, "#!"), strings.HasPrefix(text, "\x7fELF"):
			err = os.WriteFile(path, []byte(text), 0o755)
		default:
			err = os.WriteFile(path, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func environment(vars map[string]string) func(string) string {
	return func(name string) string { return vars[name] }
}

func merged() map[string]string {
	return map[string]string{
		"usr/bin/bash": "\x7fELF", "usr/bin/sh": "-> bash", "usr/lib/x": "", "usr/lib64/y": "", "usr/sbin/z": "",
		"bin": "-> usr/bin", "sbin": "-> usr/sbin", "lib": "-> /usr/lib", "lib64": "-> usr/lib64",
		"usr/share/zoneinfo/Europe/Paris": "tz", "usr/lib/os-release": "os", "usr/lib/terminfo/x/xterm": "ti",
		"usr/lib/locale/de_DE.utf8/": "",
		"etc/localtime":              "-> ../usr/share/zoneinfo/Europe/Paris",
		"etc/os-release":             "-> ../usr/lib/os-release",
		"etc/services":               "ssh 22/tcp\n",
		"etc/protocols":              "!0600 secret\n",
		"etc/ld.so.conf.d/a.conf":    "/usr/local/lib\n",
		"etc/ld.so.conf.d/b.conf":    "-> /root/private\n",
		"etc/magic":                  "-> /root/private",
		"etc/shadow":                 "root:x\n",
		"etc/passwd":                 "caller:x:1001:1001::/home/caller:/bin/zsh\n",
		"etc/gitconfig":              "[credential]\nhelper = x\n",
		"etc/npmrc":                  "token\n",
		"etc/machine-id":             "0123\n",
		"etc/alternatives/vi":        "-> /usr/bin/vim",
		"etc/ssl/certs/a.pem":        "ca",
		"etc/ssl/private/key.pem":    "key",
		"etc/ssl/openssl.cnf":        "conf\n",
		"etc/java-17-openjdk/x":      "",
		"root/private":               "private\n",
	}
}

func host(dir string) rootfs.Host {
	return rootfs.Host{
		Dir: dir, UID: 1001, GID: 1002, Hostname: "yard", Nameserver: netip.Addr{},
		Env: environment(map[string]string{"PATH": "/usr/bin:/bin"}), Workspace: "/home/caller/w",
		GitName: "", GitEmail: "", SafeDirs: nil, Tools: nil, TmpBytes: 1 << 20,
	}
}

func plan(t *testing.T, h rootfs.Host) rootfs.Plan {
	t.Helper()
	p, err := rootfs.FromHost(h)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func mounts(p rootfs.Plan) []string {
	var list []string
	for _, m := range p.Mounts {
		if m.Writable {
			list = append(list, "WRITABLE "+m.Target)
			continue
		}
		list = append(list, m.Target)
	}
	return list
}

func links(list []bailey.Link) []string {
	var out []string
	for _, l := range list {
		out = append(out, l.Path+" -> "+l.Target)
	}
	return out
}

func file(t *testing.T, p rootfs.Plan, path string) string {
	t.Helper()
	for _, f := range p.Files {
		if f.Path == path {
			return string(f.Data)
		}
	}
	t.Fatalf("no file %s", path)
	return ""
}

func TestFromHost_ShowsTheSystemAndNothingElse(t *testing.T) {
	t.Parallel()
	dir := machine(t, merged())
	p := plan(t, host(dir))
	want := []string{"/etc/alternatives", "/etc/java-17-openjdk", "/etc/ssl/certs", "/usr"}
	if diff := cmp.Diff(want, mounts(p)); diff != "" {
		t.Errorf("mounts:\n%s", diff)
	}
	for _, m := range p.Mounts {
		if m.Source != dir+m.Target {
			t.Errorf("mount %s comes from %s", m.Target, m.Source)
		}
	}
	wantLinks := []string{
		"/bin -> usr/bin", "/etc/localtime -> /usr/share/zoneinfo/Europe/Paris", "/etc/mtab -> /proc/self/mounts",
		"/etc/os-release -> /usr/lib/os-release", "/lib -> usr/lib", "/lib64 -> usr/lib64", "/sbin -> usr/sbin",
		"/var/lock -> /run/lock", "/var/run -> /run",
	}
	if diff := cmp.Diff(wantLinks, links(p.Links)); diff != "" {
		t.Errorf("links:\n%s", diff)
	}
	var files []string
	for _, f := range p.Files {
		files = append(files, f.Path)
		if f.Mode != 0o644 {
			t.Errorf("%s has mode %o", f.Path, f.Mode)
		}
	}
	wantFiles := []string{
		"/etc/bash.bashrc", "/etc/brave/policies/managed/sandbox.json", "/etc/chromium-browser/policies/managed/sandbox.json", "/etc/chromium/policies/managed/sandbox.json", "/etc/firefox/policies/policies.json", "/etc/gitconfig", "/etc/group", "/etc/hostname", "/etc/hosts", "/etc/ld.so.conf.d/a.conf",
		"/etc/nsswitch.conf", "/etc/opt/chrome/policies/managed/sandbox.json", "/etc/opt/chrome_for_testing/policies/managed/sandbox.json", "/etc/opt/edge/policies/managed/sandbox.json",
		"/etc/passwd", "/etc/profile", "/etc/resolv.conf", "/etc/services", "/etc/ssl/openssl.cnf",
	}
	if diff := cmp.Diff(wantFiles, files); diff != "" {
		t.Errorf("files:\n%s", diff)
	}
}

// Debian's chromium sources what is in a folder of /etc and ends where there is
// nothing: it gets a file, and none of the host's.
func TestFromHost_ChromiumStarts(t *testing.T) {
	t.Parallel()
	files := merged()
	files["etc/chromium.d/apikeys"] = "export GOOGLE_API_KEY=canary\n"
	p := plan(t, host(machine(t, files)))
	if text := file(t, p, "/etc/chromium.d/sandbox"); strings.Contains(text, "canary") {
		t.Errorf("the host's settings: %s", text)
	}
	for _, f := range p.Files {
		if f.Path == "/etc/chromium.d/apikeys" {
			t.Error("the host's keys are inside")
		}
	}
	for _, f := range plan(t, host(machine(t, merged()))).Files { // twin
		if strings.HasPrefix(f.Path, "/etc/chromium.d/") {
			t.Errorf("%s on a machine without Chromium", f.Path)
		}
	}
}

func TestFromHost_MountsWhatIsNotMerged(t *testing.T) {
	t.Parallel()
	p := plan(t, host(machine(t, map[string]string{
		"usr/bin/env": "", "bin/sh": "\x7fELF", "lib/libc.so": "", "sbin/": "", "lib64": "-> lib", "etc/": "", "nix/store/x": "",
	})))
	if diff := cmp.Diff([]string{"/bin", "/lib", "/nix/store", "/sbin", "/usr"}, mounts(p)); diff != "" {
		t.Error(diff)
	}
	if !slices.Contains(links(p.Links), "/lib64 -> lib") {
		t.Errorf("no link for lib64: %v", links(p.Links))
	}
}

func TestFromHost_MountsALinkedFolderWhereItIs(t *testing.T) {
	t.Parallel()
	p := plan(t, host(machine(t, map[string]string{
		"usr/bin/env": "", "etc/ssl/certs": "-> ../pki/tls/certs", "etc/pki/tls/certs/x.pem": "", "etc/fonts": "-> /root/fonts", "root/fonts/": "",
	})))
	if diff := cmp.Diff([]string{"/etc/pki/tls/certs", "/usr"}, mounts(p)); diff != "" {
		t.Error(diff)
	}
	if !slices.Contains(links(p.Links), "/etc/ssl/certs -> /etc/pki/tls/certs") {
		t.Errorf("no link for the certificates: %v", links(p.Links))
	}
}

func TestFromHost_Identity(t *testing.T) {
	t.Parallel()
	dir := machine(t, merged())
	for _, tt := range []struct {
		name             string
		uid, gid         int
		wantUID, wantGID int
	}{
		{"a user keeps the numbers", 1001, 1002, 1001, 1002},
		{"root is 1000", 0, 0, 1000, 1000},
		{"a user of group 0", 1001, 0, 1001, 1001},
	} {
		h := host(dir)
		h.UID, h.GID = tt.uid, tt.gid
		p := plan(t, h)
		if p.UID != tt.wantUID || p.GID != tt.wantGID {
			t.Errorf("%s: %d:%d", tt.name, p.UID, p.GID)
		}
		if strings.Contains(file(t, p, "/etc/passwd"), "caller") {
			t.Errorf("%s: the host's users are visible", tt.name)
		}
	}
	p := plan(t, host(dir))
	if !strings.Contains(file(t, p, "/etc/passwd"), "\nagent:x:1001:1002::/home/agent:/bin/bash\n") {
		t.Errorf("passwd: %s", file(t, p, "/etc/passwd"))
	}
	if !strings.Contains(file(t, p, "/etc/hosts"), "127.0.0.1\tyard\n") {
		t.Errorf("hosts: %s", file(t, p, "/etc/hosts"))
	}
}

func TestFromHost_Resolver(t *testing.T) {
	t.Parallel()
	h := host(machine(t, merged()))
	if p := plan(t, h); strings.Contains(file(t, p, "/etc/resolv.conf"), "nameserver") || !strings.Contains(file(t, p, "/etc/nsswitch.conf"), "hosts: files\n") {
		t.Error("without a resolver one is named")
	}
	h.Nameserver = netip.MustParseAddr("10.200.0.1")
	if p := plan(t, h); file(t, p, "/etc/resolv.conf") != "nameserver 10.200.0.1\n" || !strings.Contains(file(t, p, "/etc/nsswitch.conf"), "hosts: files dns\n") {
		t.Error("the resolver is not named")
	}
}

func TestFromHost_RefusesWhatCannotBeWritten(t *testing.T) {
	t.Parallel()
	dir := machine(t, merged())
	for name, change := range map[string]func(*rootfs.Host){
		"host name with a line": func(h *rootfs.Host) { h.Hostname = "a\nb" },
		"empty host name":       func(h *rootfs.Host) { h.Hostname = "" },
		"relative workspace":    func(h *rootfs.Host) { h.Workspace = "w" },
		"folder with a line":    func(h *rootfs.Host) { h.SafeDirs = []string{"/a\n[core]"} },
		"zero host (no fields)": func(h *rootfs.Host) { *h = rootfs.Host{} },
	} {
		h := host(dir)
		change(&h)
		if _, err := rootfs.FromHost(h); bailey.KindOf(err) != bailey.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := rootfs.FromHost(host(t.TempDir())); bailey.KindOf(err) != bailey.Unsupported {
		t.Errorf("host without /usr: %v", err)
	}
}

func TestFromHost_GitConfigReadsBackInGit(t *testing.T) {
	t.Parallel()
	h := host(machine(t, merged()))
	h.GitName, h.GitEmail, h.Workspace = `A "B" \ #C`, "a@b.example", "/home/caller/my \"w\""
	h.SafeDirs = []string{"/home/caller/my \"w\"/sub"}
	path := filepath.Join(t.TempDir(), "gitconfig")
	if err := os.WriteFile(path, []byte(file(t, plan(t, h), "/etc/gitconfig")), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "git", "config", "--file", path, "--list").Output()
	if err != nil {
		t.Fatal(err)
	}
	want := `core.checkstat=minimal
core.trustctime=false
core.preloadindex=false
core.untrackedcache=true
user.name=A "B" \ #C
user.email=a@b.example
safe.directory=/home/caller/my "w"
safe.directory=/home/caller/my "w"/*
safe.directory=/home/caller/my "w"/sub
safe.directory=/home/caller/my "w"/sub/*
`
	if diff := cmp.Diff(want, string(out)); diff != "" {
		t.Error(diff)
	}
}

func TestFromHost_Environment(t *testing.T) {
	t.Parallel()
	dir := machine(t, merged())
	for _, tt := range []struct {
		name string
		env  map[string]string
		want []string // beyond the fixed ones
	}{
		{"nothing", nil, []string{"LANG=C.UTF-8"}},
		{
			"all known",
			map[string]string{"TERM": "xterm", "COLORTERM": "truecolor", "LANG": "de_DE.UTF-8", "LC_TIME": "C", "TZ": "Europe/Paris"},
			[]string{"COLORTERM=truecolor", "LANG=de_DE.UTF-8", "LC_TIME=C", "TERM=xterm", "TZ=Europe/Paris"},
		},
		{
			"nothing known",
			map[string]string{"TERM": "xterm-kitty", "LANG": "fr_FR.UTF-8", "LC_ALL": "../../x", "TZ": ":/etc/shadow"},
			[]string{"LANG=C.UTF-8", "TERM=xterm-256color"},
		},
		{"posix zone", map[string]string{"TZ": "CET-1CEST"}, []string{"LANG=C.UTF-8", "TZ=CET-1CEST"}},
		{"zone out of its folder", map[string]string{"TZ": "../../../etc/services"}, []string{"LANG=C.UTF-8"}},
		{
			"secrets and proxies stay out",
			map[string]string{"HTTPS_PROXY": "http://p", "AWS_SECRET_ACCESS_KEY": "k", "SSH_AUTH_SOCK": "/run/x", "SSL_CERT_FILE": "/x"},
			[]string{"LANG=C.UTF-8"},
		},
		{"control characters", map[string]string{"TERM": "xterm\n", "COLORTERM": "a\x1b"}, []string{"LANG=C.UTF-8"}},
	} {
		h := host(dir)
		h.Env = environment(tt.env)
		want := append([]string{
			"GOTOOLCHAIN=local", "HOME=/home/agent", "LOGNAME=agent", "SHELL=/bin/bash", "TMPDIR=/tmp", "USER=agent",
			"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		}, tt.want...)
		slices.Sort(want)
		if diff := cmp.Diff(want, plan(t, h).Env); diff != "" {
			t.Errorf("%s:\n%s", tt.name, diff)
		}
	}
}

func TestFromHost_PathKeepsTheCallersOrder(t *testing.T) {
	t.Parallel()
	h := host(machine(t, merged()))
	h.Env = environment(map[string]string{"PATH": "/home/caller/w/bin:/root/.x/shims:/opt/gone:.:/bin:/usr/bin::/usr/gone"})
	h.Tools = []rootfs.Tool{{Name: "x", From: "/root/.x/shims", Path: []string{"/root/.x/1/bin"}}}
	want := "PATH=/home/caller/w/bin:/root/.x/1/bin:/bin:/usr/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin"
	if p := plan(t, h); !slices.Contains(p.Env, want) {
		t.Errorf("got %v", p.Env)
	}
}

// TestFromHost_LongPath: a PATH of any length keeps its order, and a folder in
// it that cannot be written down takes no other with it.
func TestFromHost_LongPath(t *testing.T) {
	t.Parallel()
	h := host(machine(t, merged()))
	h.Env = environment(map[string]string{"PATH": "/opt/a\nb:/bin:" + strings.Repeat("/opt/gone:", 2000) + "/home/caller/w/bin:/usr/bin"})
	want := "PATH=/bin:/home/caller/w/bin:/usr/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin"
	if p := plan(t, h); !slices.Contains(p.Env, want) {
		t.Errorf("got %v", p.Env)
	}
}

// TestFromHost_RealArchive asks the real localedef for an archive and looks
// its names up.
func TestFromHost_RealArchive(t *testing.T) {
	t.Parallel()
	files := merged()
	delete(files, "usr/lib/locale/de_DE.utf8/")
	files["usr/lib/locale/"] = ""
	dir := machine(t, files)
	for _, args := range [][]string{{"en_US", "-f", "ISO-8859-1", "en_US.ISO-8859-1"}, {"fr_FR", "-f", "ISO-8859-15", "fr_FR@euro"}} {
		cmd := exec.CommandContext(t.Context(), "localedef", append([]string{"--prefix=" + dir, "-i"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil && !errors.As(err, new(*exec.ExitError)) {
			t.Fatalf("%v: %s", err, out)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "usr/lib/locale/locale-archive")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"en_US.ISO-8859-1": true, "en_US.iso88591": true, "fr_FR@euro": true, "fr_FR.ISO-8859-15@euro": true,
		"en_US.UTF-8": false, "it_IT@euro": false, "en_US.ISO-8859-2": false,
	} {
		h := host(dir)
		h.Env = environment(map[string]string{"LANG": name})
		if got := slices.Contains(plan(t, h).Env, "LANG="+name); got != want {
			t.Errorf("%s taken over: %t", name, got)
		}
	}
}

func TestFromHost_ThisMachine(t *testing.T) {
	t.Parallel()
	h := host("/")
	h.UID = 0
	h.Env = os.Getenv
	start := time.Now()
	p := plan(t, h)
	t.Logf("%d mounts, %d files, %d links in %v", len(p.Mounts), len(p.Files), len(p.Links), time.Since(start))
	total := 0
	for _, f := range p.Files {
		total += len(f.Data)
	}
	if total > 2<<20 {
		t.Errorf("%d bytes of files", total)
	}
	for _, m := range p.Mounts {
		if real, err := filepath.EvalSymlinks(m.Source); err != nil || real != m.Source {
			t.Errorf("mount source %s is really %s (%v)", m.Source, real, err)
		}
	}
}

func BenchmarkFromHost(b *testing.B) {
	h := host("/")
	h.Env = os.Getenv
	for b.Loop() {
		if _, err := rootfs.FromHost(h); err != nil {
			b.Fatal(err)
		}
	}
}
