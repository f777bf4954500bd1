package settings_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/mirror"
	"github.com/bailey-dev/bailey/internal/policy"
	"github.com/bailey-dev/bailey/internal/settings"
)

func nowhere() mirror.Host {
	return mirror.Host{Root: "/nonexistent", Home: "/nonexistent", Env: func(string) string { return "" }}
}

// state is what holds, in one line.
func state(e settings.Effective) string {
	parts := []string{e.Mode.Value.String()}
	if e.DNS.Value == bailey.DNSOpen {
		parts = append(parts, "dns-open")
	}
	if e.Ask.Value {
		parts = append(parts, "ask")
	}
	for _, h := range e.Allow {
		parts = append(parts, "+"+h.Text())
	}
	for _, h := range e.Deny {
		parts = append(parts, "-"+h.Text())
	}
	for _, w := range e.Widens {
		parts = append(parts, "!"+w.What)
	}
	return strings.Join(parts, " ")
}

// SEC-04: the host of a secret is let through with it, and no more of it than
// other rules say.
func TestResolve_SecretsWidenNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ what, user, host, want string }{
		{"nothing else is said", "", "s.test:443", "allow +s.test:443 inspected"},
		{"another host", "net: {allow: [{host: u.test, paths: [/a]}]}", "s.test:443", "allow +u.test /a +s.test:443 inspected"},
		{"all of the host", "net: {allow: [s.test]}", "s.test:443", "allow +s.test +s.test:443 inspected"},
		{"some paths", "net: {allow: [{host: s.test, paths: [/a]}]}", "s.test:443", "allow +s.test /a"},
		{"some methods below", "net: {allow: [{host: '*.u.test', methods: [GET]}]}", "s.u.test:443", "allow +*.u.test GET"},
		{"another port", "net: {allow: [{host: s.test, ports: [8443], paths: [/a]}]}", "s.test:443", "allow +s.test:8443 /a +s.test:443 inspected"},
		{"a name below the secret's", "net: {allow: [{host: a.s.test, paths: [/a]}]}", "*.s.test:443", "allow +a.s.test /a"},
		{"all of a name below the secret's", "net: {allow: [a.s.test]}", "*.s.test:443", "allow +a.s.test +*.s.test:443 inspected"},
		{"some addresses", "net: {allow: [{host: s.test, addresses: [10.0.0.0/8]}]}", "s.test:443", "allow +s.test at 10.0.0.0/8 +s.test:443 at 10.0.0.0/8 inspected"},
		{"some addresses of all below", "net: {allow: [{host: '*.u.test', addresses: [10.0.0.0/8]}]}", "s.u.test:443", "allow +*.u.test at 10.0.0.0/8 +s.u.test:443 at 10.0.0.0/8 inspected"},
		{"some addresses of a name below the secret's", "net: {allow: [{host: a.s.test, addresses: [10.0.0.0/8]}]}", "*.s.test:443", "allow +a.s.test at 10.0.0.0/8"},
		{"it is denied", "net: {deny: [s.test]}", "s.test:443", "allow +s.test:443 inspected -s.test"},
	} {
		r, err := policy.ParseRule(c.host)
		if err != nil {
			t.Fatal(err)
		}
		r.Narrow = &policy.Narrow{Inspect: true}
		s := settings.Sources{Flags: settings.Flags{Secrets: []settings.SecretHost{{Secret: "s", Rule: r}}}}
		if c.user != "" {
			s.User = parse(t, c.user)
		}
		if e, err := settings.Resolve(s, nowhere()); err != nil || state(e) != c.want {
			t.Errorf("%s: %q, %v; want %q", c.what, state(e), err, c.want)
		}
	}
}

// EGR-13: what a project's file can do, with trust and without.
func TestResolve(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what          string
		user, project string
		flags         settings.Flags
		agent         []string
		without, with string // not trusted, trusted
	}{
		{what: "nothing", without: "none"},
		{what: "flags alone", flags: settings.Flags{Allow: []string{"a.test"}, Deny: []string{"b.test"}}, without: "allow +a.test -b.test"},
		{what: "agent alone", agent: []string{"api.test:443"}, without: "allow +api.test:443"},
		{what: "user alone", user: "net: {allow: [u.test], deny: [x.test]}", without: "allow +u.test -x.test"},
		{what: "user's none keeps an agent in", user: "net: {mode: none}", agent: []string{"api.test:443"}, without: "none +api.test:443"},
		{what: "a flag opens the user's none", user: "net: {mode: none}", flags: settings.Flags{Allow: []string{"a.test"}}, without: "allow +a.test"},
		{what: "--net none closes the user's list", user: "net: {allow: [u.test]}", flags: settings.Flags{Net: "none"}, without: "none +u.test"},
		{what: "a mode of the environment", flags: settings.Flags{Net: "open", Weak: true}, without: "open"},
		{what: "a rule beats it", flags: settings.Flags{Net: "open", Weak: true, Allow: []string{"a.test"}}, without: "allow +a.test"},
		{
			what: "a flag opens the user's none, and no file does more", user: "net: {mode: none}", flags: settings.Flags{Allow: []string{"a.test"}},
			project: "net: {mode: full, dns: open}", without: "allow +a.test !mode full !dns open", with: "allow dns-open +a.test",
		},
		{
			what: "so does a service", user: "net: {mode: none}", flags: settings.Flags{Services: []string{"80"}},
			project: "net: {mode: open}", without: "allow +host-service 80 !mode open", with: "allow +host-service 80",
		},
		{what: "a service by flag", flags: settings.Flags{Services: []string{"5432"}}, without: "allow +host-service 5432"},

		{what: "project denies", user: "net: {allow: ['*.u.test']}", project: "net: {deny: [x.u.test]}", without: "allow +*.u.test -x.u.test", with: "allow +*.u.test -x.u.test"},
		{what: "project allows", user: "net: {allow: [u.test]}", project: "net: {allow: [p.test]}", without: "allow +u.test !allow p.test", with: "allow +u.test +p.test"},
		{what: "project alone", project: "net: {allow: [p.test]}", without: "none !allow p.test", with: "allow +p.test"},
		{what: "what is allowed already", user: "net: {allow: ['*.u.test']}", project: "net: {allow: [x.u.test]}", without: "allow +*.u.test", with: "allow +*.u.test +x.u.test"},
		{what: "a flag that covers it", project: "net: {allow: [p.test]}", flags: settings.Flags{Allow: []string{"p.test"}}, without: "allow +p.test", with: "allow +p.test +p.test"},
		{what: "narrower", user: "net: {allow: [u.test]}", project: "net: {allow: [{host: u.test, ports: [80], paths: [/a]}]}", without: "allow +u.test", with: "allow +u.test +u.test:80 /a"},
		{what: "another port", user: "net: {allow: [u.test]}", project: "net: {allow: ['u.test:22']}", without: "allow +u.test !allow u.test:22", with: "allow +u.test +u.test:22"},
		{what: "private addresses", user: "net: {mode: open}", project: "net: {allow: [{host: p.test, addresses: [10.0.0.0/8]}]}", without: "open !allow p.test at 10.0.0.0/8", with: "open +p.test at 10.0.0.0/8"},
		{what: "a service", user: "net: {mode: full}", project: "net: {allow: [{host-service: 80}]}", without: "full !allow host-service 80", with: "full +host-service 80"},
		{what: "a wider mode", user: "net: {allow: [u.test]}", project: "net: {mode: open}", without: "allow +u.test !mode open", with: "open +u.test"},
		{what: "a narrower mode", user: "net: {mode: open}", project: "net: {mode: none}", without: "none", with: "none"},
		{what: "a list in place of open", user: "net: {mode: open}", project: "net: {mode: allow, allow: [p.test]}", without: "allow +p.test", with: "allow +p.test"},
		{what: "none beside a list", project: "net: {mode: none, allow: [p.test], presets: [claude], ask: true, dns: open, deny: [d.test]}", without: "none -d.test", with: "none dns-open ask +p.test +api.anthropic.com:443 -d.test"},
		{what: "open in place of full", user: "net: {mode: full}", project: "net: {mode: open}", without: "open", with: "open"},
		{what: "names", user: "net: {allow: [u.test]}", project: "net: {dns: open}", without: "allow +u.test !dns open", with: "allow dns-open +u.test"},
		{what: "names closed", user: "net: {allow: [u.test], dns: open}", project: "net: {dns: rules}", without: "allow +u.test", with: "allow +u.test"},
		{what: "ask", user: "net: {allow: [u.test]}", project: "net: {ask: true}", without: "allow +u.test !ask", with: "allow ask +u.test"},
		{what: "no ask", user: "net: {allow: [u.test], ask: true}", project: "net: {ask: false}", without: "allow +u.test", with: "allow +u.test"},
		{what: "a preset of the project", project: "net: {presets: [claude]}", without: "none !allow api.anthropic.com:443", with: "allow +api.anthropic.com:443"},
		{what: "deny-all stays, user", user: "net: {mode: none}", project: "net: {mode: full, allow: [p.test], deny: [d.test]}", without: "none -d.test", with: "none -d.test"},
		{what: "deny-all stays, flag", flags: settings.Flags{Net: "none"}, project: "net: {mode: full, presets: [npm]}", without: "none", with: "none"},
		{what: "a flag is stronger than trust", flags: settings.Flags{Net: "open"}, project: "net: {mode: full}", without: "open !mode full", with: "open"},
	} {
		for _, trusted := range []bool{false, true} {
			s := settings.Sources{Flags: c.flags, Agent: c.agent}
			if c.user != "" {
				s.User = parse(t, c.user)
			}
			if c.project != "" {
				s.Project, s.Trusted = parse(t, c.project), trusted
			}
			e, err := settings.Resolve(s, nowhere())
			want := c.without
			if trusted && c.project != "" {
				want = c.with
			}
			if err != nil || state(e) != want {
				t.Errorf("%s, trusted %v: %q, %v; want %q", c.what, trusted, state(e), err, want)
			}
			if refused := e.Refusal() != nil; refused != strings.ContainsAny(want, "!") {
				t.Errorf("%s, trusted %v: refusal %v", c.what, trusted, e.Refusal())
			}
		}
	}
}

// A flag that asks for a network, and a project's file that says there is none:
// neither is passed over.
func TestEffective_RefusesFlagsAgainstAProjectsNone(t *testing.T) {
	t.Parallel()
	for want, f := range map[string]settings.Flags{
		"":               {},
		"--allow and":    {Allow: []string{"a.test"}},
		"--host-service": {Services: []string{"80"}},
		"--preset and":   {Presets: []string{"claude"}},
		"--ask and":      {Ask: true},
	} {
		for _, trusted := range []bool{false, true} {
			s := settings.Sources{Flags: f, Files: settings.Files{Project: parse(t, "net: {mode: none}"), Trusted: trusted}}
			e, err := settings.Resolve(s, nowhere())
			if err != nil || e.Mode.Value != bailey.NetNone || e.ClosedBy() != "bailey.yaml:1:13" {
				t.Fatalf("%+v: %+v, %q, %v", f, e.Mode, e.ClosedBy(), err)
			}
			err = e.Refusal()
			if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "bailey.yaml:1:13")) {
				t.Errorf("%+v: %v, want %q", f, err, want)
			}
		}
	}
	weak := settings.Sources{Flags: settings.Flags{Net: "open", Weak: true}, Files: settings.Files{Project: parse(t, "net: {mode: none}")}}
	if e, err := settings.Resolve(weak, nowhere()); err != nil || e.Refusal() != nil || e.Mode.Value != bailey.NetNone {
		t.Errorf("the environment's mode: %+v, %v, %v", e.Mode, err, e.Refusal())
	}
}

func TestEffective_RefusesWhatCannotBeKept(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"net: {allow: [{host: a.test, paths: [/a], inspect: true}]}":                  "",
		"net: {allow: [a.test], deny: [{host: a.test, methods: [GET]}]}":              "",
		"net: {allow: [{host: a.test, ports: [80, 8080], paths: [/a]}]}":              "",
		"net: {allow: [a.test], deny: [{host: a.test, ports: [80], methods: [PUT]}]}": "",
		"net: {mode: none, ask: true, allow: [{host: a.test, paths: [/a]}]}":          "",
		"net: {mode: full, dns: open}":                                                "",
	} {
		e, err := settings.Resolve(settings.Sources{Files: settings.Files{User: parse(t, text)}}, nowhere())
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Refusal(); (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "bailey.yaml:1:")) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestResolve_FlagsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	for want, f := range map[string]settings.Flags{
		"--net: unknown":      {Net: "opne"},
		"BAILEY_NET in the":   {Net: "opne", Weak: true},
		"--dns: unknown":      {DNS: "all"},
		"--allow: ":           {Allow: []string{"https://a.test"}},
		"--deny: ":            {Deny: []string{"*"}},
		"--preset: there is":  {Presets: []string{"nmp"}},
		"--host-service: ":    {Services: []string{"ssh"}},
		"contradict":          {Net: "none", Allow: []string{"a.test"}},
		"names no host":       {Presets: []string{"npm"}},
		"--preset: preset np": {Presets: []string{"npm"}},
	} {
		if _, err := settings.Resolve(settings.Sources{Flags: f}, nowhere()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", f, err, want)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func place(t *testing.T) settings.Place {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := settings.Place{ConfigDir: filepath.Join(dir, "config"), DataDir: filepath.Join(dir, "data"), Dir: filepath.Join(dir, "project"), Mirror: nowhere()}
	if err := os.MkdirAll(p.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return p
}

func load(t *testing.T, p settings.Place) settings.Files {
	t.Helper()
	f, err := settings.Load(p)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Trust is in the content: any edit ends it, and the same file elsewhere has none.
func TestTrust(t *testing.T) {
	t.Parallel()
	p := place(t)
	path := filepath.Join(p.Dir, settings.ProjectFile)
	write(t, path, "net: {allow: [p.test]}\n")
	if load(t, p).Trusted {
		t.Fatal("trusted before anybody said so")
	}
	f, err := p.ReadProject()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Trust().Give(f.Path, f.Data); err != nil {
		t.Fatal(err)
	}
	if !load(t, p).Trusted {
		t.Fatal("not trusted")
	}
	for _, edit := range []string{"net: {allow: [p.test]}\n\n", "net: {allow: [p.test]}", "net: {allow: [q.test]}\n", ""} {
		write(t, path, edit)
		if load(t, p).Trusted {
			t.Errorf("trusted after an edit to %q", edit)
		}
	}
	write(t, path, "net: {allow: [p.test]}\n")
	if !load(t, p).Trusted {
		t.Error("the very content that was trusted is not")
	}
	other := p
	other.Dir = filepath.Join(filepath.Dir(p.Dir), "other")
	write(t, filepath.Join(other.Dir, settings.ProjectFile), "net: {allow: [p.test]}\n")
	if load(t, other).Trusted {
		t.Error("a copy elsewhere is trusted")
	}
	if err := p.Trust().Take(f.Path); err != nil || load(t, p).Trusted {
		t.Errorf("revoked: %v", err)
	}
	records, _ := filepath.Glob(filepath.Join(p.DataDir, "trust", "*"))
	if len(records) != 0 {
		t.Errorf("left over: %v", records)
	}
}

func TestTrust_ABrokenRecordIsAnError(t *testing.T) {
	t.Parallel()
	p := place(t)
	write(t, filepath.Join(p.Dir, settings.ProjectFile), "net: {deny: [p.test]}\n")
	f, err := p.ReadProject()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Trust().Give(f.Path, f.Data); err != nil {
		t.Fatal(err)
	}
	records, err := filepath.Glob(filepath.Join(p.DataDir, "trust", "*"))
	if err != nil || len(records) != 1 {
		t.Fatal(records, err)
	}
	write(t, records[0], "{")
	if _, err := settings.Load(p); err == nil {
		t.Error("a record that cannot be read was passed over")
	}
}

func TestLoad_FindsFiles(t *testing.T) {
	t.Parallel()
	p := place(t)
	if f := load(t, p); f.User != nil || f.Project != nil {
		t.Fatalf("%+v", f)
	}
	write(t, filepath.Join(p.ConfigDir, "config.yaml"), "net: {allow: [u.test]}")
	write(t, filepath.Join(p.Dir, settings.ProjectFile), "net: {deny: [d.test]}")
	below := p
	below.Dir = filepath.Join(p.Dir, "a", "b")
	if err := os.MkdirAll(below.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if f := load(t, below); f.User == nil || f.Project != nil {
		t.Errorf("no repository, and a file above it: %+v", f)
	}
	write(t, filepath.Join(p.Dir, ".git", "HEAD"), "")
	if f := load(t, below); f.Project == nil || f.Project.Path != filepath.Join(p.Dir, settings.ProjectFile) {
		t.Errorf("in a repository: %+v", f)
	}
	write(t, filepath.Join(below.Dir, settings.ProjectFile), "net: {deny: [nearer.test]}")
	if f := load(t, below); f.Project == nil || !strings.HasPrefix(f.Project.Path, below.Dir) {
		t.Errorf("the nearest: %+v", f)
	}
}

// A project's file is opened as what somebody hostile wrote.
func TestLoad_RefusesStrangeFiles(t *testing.T) {
	t.Parallel()
	for what, put := range map[string]func(path string) error{
		"a link":   func(path string) error { return os.Symlink("/etc/hostname", path) },
		"a folder": func(path string) error { return os.Mkdir(path, 0o755) },
		"a pipe":   func(path string) error { return unix.Mkfifo(path, 0o644) },
		"too long": func(path string) error { return os.WriteFile(path, make([]byte, settings.MaxFile+1), 0o644) },
		"invalid":  func(path string) error { return os.WriteFile(path, []byte("net: {mod: none}"), 0o644) },
	} {
		p := place(t)
		if err := put(filepath.Join(p.Dir, settings.ProjectFile)); err != nil {
			t.Fatal(err)
		}
		_, err := settings.Load(p)
		if err == nil {
			t.Errorf("%s is accepted", what)
		}
		if what != "invalid" && !strings.Contains(err.Error(), "it is a link, and none is followed") && !strings.Contains(err.Error(), "it is no plain file of at most") {
			t.Errorf("%s: what is wrong is not said: %v", what, err)
		}
	}
	p := place(t) // the user's own may be a link, and must be readable
	elsewhere := filepath.Join(filepath.Dir(p.Dir), "elsewhere.yaml")
	write(t, elsewhere, "net: {allow: [u.test]}")
	if err := os.MkdirAll(p.ConfigDir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, filepath.Join(p.ConfigDir, "config.yaml")); err != nil {
		t.Fatal(err)
	}
	if f := load(t, p); f.User == nil || len(f.User.Net.Allow) != 1 {
		t.Errorf("the user's file behind a link: %+v", f.User)
	}
	write(t, elsewhere, "net: {alow: [u.test]}")
	if _, err := settings.Load(p); err == nil {
		t.Error("a wrong file of the user's is accepted")
	}
}

func TestPresets(t *testing.T) {
	t.Parallel()
	want := []string{"apt", "cargo", "claude", "codex", "gemini", "git", "go", "npm", "opencode", "pi", "pip"}
	if diff := cmp.Diff(want, settings.PresetNames()); diff != "" {
		t.Error(diff)
	}
	for _, name := range settings.PresetNames() {
		p, err := settings.ReadPreset(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if p.About == "" || (p.From == "") == (len(p.Allow) == 0) {
			t.Errorf("%s: %+v", name, p)
		}
		for _, h := range p.Allow {
			if h.Wildcard || h.Port == 0 {
				t.Errorf("%s: %s is broader than one port of one host", name, h.Text())
			}
		}
	}
}

func TestChanges(t *testing.T) {
	t.Parallel()
	resolve := func(text string) settings.Effective {
		e, err := settings.Resolve(settings.Sources{Files: settings.Files{User: parse(t, text)}}, nowhere())
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	gone, come := settings.Changes(resolve("net: {allow: [a.test, b.test]}"), resolve("net: {allow: [b.test, c.test], deny: [d.test]}"))
	if len(gone) != 1 || !strings.HasPrefix(gone[0], "allow a.test ") || len(come) != 2 || !strings.HasPrefix(come[1], "deny d.test ") {
		t.Errorf("%q %q", gone, come)
	}
}

// What a file says is shown also where the user's own mode none keeps it out.
func TestDiff(t *testing.T) {
	t.Parallel()
	user := parse(t, "net: {mode: none}")
	now := parse(t, "net: {mode: full, dns: open, allow: [a.test]}")
	before, after, err := settings.Diff(user, nil, now, nowhere())
	if err != nil || state(before) != "none" || state(after) != "full dns-open +a.test" {
		t.Errorf("%q, %q, %v", state(before), state(after), err)
	}
	before, after, err = settings.Diff(user, []byte("net: {allow: [b.test]}"), now, nowhere())
	if gone, come := settings.Changes(before, after); err != nil || len(gone) != 3 || len(come) != 3 {
		t.Errorf("%q %q %v", gone, come, err)
	}
}

// Nothing that says what the user allows is reached by way of the folder that
// is worked in.
func TestLoad_RefusesLinksIntoTheWorkspace(t *testing.T) {
	t.Parallel()
	for what, link := range map[string]func(p settings.Place) (from, to string){
		"the file": func(p settings.Place) (string, string) {
			return filepath.Join(p.ConfigDir, "config.yaml"), filepath.Join(p.Dir, "cfg.yaml")
		},
		"missing": func(p settings.Place) (string, string) {
			return filepath.Join(p.ConfigDir, "config.yaml"), filepath.Join(p.Dir, "no.yaml")
		},
		"a folder": func(p settings.Place) (string, string) { return p.ConfigDir, p.Dir },
		"trust":    func(p settings.Place) (string, string) { return filepath.Join(p.DataDir, "trust"), p.Dir },
		"by a link": func(p settings.Place) (string, string) {
			return filepath.Join(p.ConfigDir, "config.yaml"), filepath.Join(p.Dir, "out", "cfg.yaml")
		},
		"relative": func(p settings.Place) (string, string) {
			return filepath.Join(p.ConfigDir, "config.yaml"), "../x/../project/cfg.yaml"
		},
	} {
		p := place(t)
		write(t, filepath.Join(p.Dir, "cfg.yaml"), "net: {mode: full}")
		write(t, filepath.Join(filepath.Dir(p.Dir), "x", "cfg.yaml"), "net: {mode: full}")
		from, to := link(p)
		if err := os.MkdirAll(filepath.Dir(from), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.Symlink(to, from), os.Symlink("../x", filepath.Join(p.Dir, "out"))); err != nil {
			t.Fatal(err)
		}
		if _, err := settings.Load(p); err == nil || !strings.Contains(err.Error(), "in the folder that is worked in") {
			t.Errorf("%s: %v", what, err)
		}
	}
	p := place(t) // the twin: a record of trust, and one that is a link
	path := filepath.Join(p.Dir, settings.ProjectFile)
	write(t, path, "net: {allow: [p.test]}\n")
	if err := p.Trust().Give(path, []byte("net: {allow: [p.test]}\n")); err != nil {
		t.Fatal(err)
	}
	if !load(t, p).Trusted {
		t.Error("not trusted")
	}
	records, _ := filepath.Glob(filepath.Join(p.DataDir, "trust", "*"))
	if err := errors.Join(os.Rename(records[0], filepath.Join(p.Dir, "record")), os.Symlink(filepath.Join(p.Dir, "record"), records[0])); err != nil {
		t.Fatal(err)
	}
	if f, err := settings.Load(p); err == nil {
		t.Errorf("a record in the folder: %+v", f)
	}
}

func TestTrust_FolderOfOthers(t *testing.T) {
	t.Parallel()
	p := place(t)
	if err := errors.Join(p.Trust().Give("/x", nil), os.Chmod(p.Trust().Dir, 0o777)); err != nil {
		t.Fatal(err)
	}
	if _, err := settings.Load(p); err == nil {
		t.Error("what everybody can write is believed")
	}
}

// The user's own file holds in every project: one that somebody else of the
// machine could have written stops a start.
func TestLoad_UsersFileOfOthers(t *testing.T) {
	t.Parallel()
	made := func(t *testing.T) (p settings.Place, path string) {
		t.Helper()
		p = place(t)
		path = filepath.Join(p.ConfigDir, "config.yaml")
		write(t, path, "net: {allow: [u.test]}\n")
		return p, path
	}
	refused := func(p settings.Place, words string) {
		t.Helper()
		if _, err := settings.Load(p); bailey.KindOf(err) != bailey.Forbidden || !strings.Contains(err.Error(), words) {
			t.Errorf("want %q, got %v", words, err)
		}
	}
	p, path := made(t)
	for at, mode := range map[string]os.FileMode{path: 0o666, p.ConfigDir: 0o777} {
		fi, err := os.Stat(at)
		if err = errors.Join(err, os.Chmod(at, mode)); err != nil {
			t.Fatal(err)
		}
		refused(p, "everybody on this machine can write "+at+",")
		if err := os.Chmod(at, fi.Mode()); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chmod(path, 0o664), os.Chmod(p.ConfigDir, 0o777|os.ModeSticky)); err != nil { // a group of one; no one else's to replace
		t.Fatal(err)
	}
	if load(t, p).User == nil {
		t.Error("the user's own is not read")
	}

	shared := filepath.Join(filepath.Dir(p.Dir), "shared", "c.yaml") // behind a link
	write(t, shared, "net: {allow: [u.test]}\n")
	if err := errors.Join(os.Remove(path), os.Symlink(shared, path), os.Chmod(filepath.Dir(shared), 0o777)); err != nil {
		t.Fatal(err)
	}
	refused(p, "everybody on this machine can write "+filepath.Dir(shared)+",")
	if os.Getuid() != 0 {
		return // only root gives files away
	}
	p, path = made(t)
	if err := os.Chown(path, 4321, 4321); err != nil {
		t.Fatal(err)
	}
	refused(p, "is not yours")
}

// What takes a tightening away is said: at the start and after a run.
func TestPlace_SaysWhatBecameOfTheFile(t *testing.T) {
	t.Parallel()
	p := place(t)
	path := filepath.Join(p.Dir, settings.ProjectFile)
	write(t, filepath.Join(p.Dir, ".git", "HEAD"), "")
	none := p.Look()
	write(t, path, "net: {deny: [d.test]}\n")
	first := p.Look()
	if err := p.Trust().Give(path, []byte("net: {deny: [d.test]}\n")); err != nil {
		t.Fatal(err)
	}
	if f := load(t, p); len(f.Doubts) != 0 || p.Look().Since(first) != "" {
		t.Errorf("nothing happened: %q", f.Doubts)
	}
	below := p
	below.Dir = filepath.Join(p.Dir, "sub")
	write(t, filepath.Join(below.Dir, "x"), "")
	inherited := below.Look()
	write(t, path, "net: {deny: []}\n")
	changed := p.Look()
	expect := func(what, got, want string) {
		t.Helper()
		if !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	doubt := func(p settings.Place) string { return strings.Join(load(t, p).Doubts, " ") }
	expect("made", first.Since(none), "was made")
	expect("changed", changed.Since(first), "was changed")
	expect("changed, at the start", doubt(p), "not as it was")
	write(t, filepath.Join(below.Dir, ".git", "HEAD"), "")
	expect("a repository between", below.Look().Since(inherited), "was deleted")
	expect("a repository between, at the start", doubt(below), "passed over")
	write(t, filepath.Join(below.Dir, settings.ProjectFile), "")
	expect("a nearer one", below.Look().Since(inherited), "in place of")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	expect("deleted", p.Look().Since(changed), "was deleted")
	expect("deleted, at the start", doubt(p), "is gone")
	if got, err := p.Forget(); err != nil || got != path {
		t.Errorf("forget: %q, %v", got, err)
	}
	expect("forgotten", doubt(p), "")
	if _, err := p.Forget(); err == nil {
		t.Error("forgotten twice")
	}
}

// Above the folder that is worked in, a file of another user's says nothing.
func TestLoad_FilesOfOthersAbove(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root gives files away")
	}
	p := place(t)
	path := filepath.Join(p.Dir, settings.ProjectFile)
	write(t, path, "net: {deny: [d.test]}\n")
	write(t, filepath.Join(p.Dir, ".git", "HEAD"), "")
	below := p
	below.Dir = filepath.Join(p.Dir, "sub")
	write(t, filepath.Join(below.Dir, "x"), "")
	if load(t, below).Project == nil {
		t.Error("the caller's own is not read")
	}
	if err := os.Chown(path, 4321, 4321); err != nil {
		t.Fatal(err)
	}
	if f := load(t, below); f.Project != nil {
		t.Errorf("another user's: %s", f.Project.Path)
	}
	if load(t, p).Project == nil {
		t.Error("in the folder itself it is not read")
	}
}

// A preset that names a host where anybody can have a place lets data out to
// anybody.
func TestPresets_NameNoHostOfManyTenants(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("presets/*.yaml")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d presets: %v", len(files), err)
	}
	shared := []string{"amazonaws.com", "storage.googleapis.com", "githubusercontent.com", "gist.github.com", "github.io", "workers.dev", "pages.dev", "blob.core.windows.net", "*."}
	names := func(text string) (found []string) {
		for _, host := range shared {
			if strings.Contains(text, host) {
				found = append(found, host)
			}
		}
		return found
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if found := names(string(text)); len(found) > 0 {
			t.Errorf("A045 %s names %v", f, found)
		}
	}
	if len(names("allow:\n  - s3.amazonaws.com:443\n")) == 0 { // twin
		t.Error("A045 twin: a bucket's host is not found")
	}
}
