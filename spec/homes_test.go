package spec_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/bailey-dev/bailey/internal/testkit/agents"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// homeFiles is where on the host a home's files are.
func homeFiles(y *yard.Yard, name string) string {
	return filepath.Join(y.Home, ".local/share/bailey/homes", name, "files")
}

// withAgents puts the real agents into PATH, and variables into the environment.
func withAgents(t *testing.T, variables ...string) func(*exec.Cmd) {
	t.Helper()
	bin := agents.Bin(t)
	return func(cmd *exec.Cmd) {
		for i, kv := range cmd.Env {
			if path, ok := strings.CutPrefix(kv, "PATH="); ok {
				cmd.Env[i] = "PATH=" + bin + ":" + path
			}
		}
		cmd.Env = append(cmd.Env, variables...)
	}
}

func hasAll(t *testing.T, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
}

func hasNone(t *testing.T, text string, unwanted ...string) {
	t.Helper()
	for _, not := range unwanted {
		if strings.Contains(text, not) {
			t.Errorf("%q in:\n%s", not, text)
		}
	}
}

// TestISO02_HomesAreKeptApart: a home is its own name's alone, lies in a folder
// of the user's alone, and no other home nor the user's own is in sight.
func TestISO02_HomesAreKeptApart(t *testing.T) {
	t.Attr("claim", "ISO-02")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		y.WriteHome(t, "mine.txt", "canary-of-the-host\n")
		r := y.Sh(t, "echo canary-of-one > ~/left; cat "+y.Home+"/mine.txt", "--home", "one").Exit(t, 1)
		hasAll(t, r.Stderr, "home: one (kept, new)")
		hasNone(t, r.Stdout, "canary")
		look := "cat ~/left " + homeFiles(y, "one") + "/left; find /home /tmp /root /var /run /opt /.bailey -name left 2>/dev/null; ls -A ~"
		for _, flags := range [][]string{{"--home", "two"}, {}, {"--ephemeral-home"}} {
			r := y.Sh(t, look, flags...)
			hasNone(t, r.Stdout, "canary", "left")
		}
		if r := y.Sh(t, look, "--home", "one"); !strings.Contains(r.Stdout, "canary-of-one") { // the twin
			t.Errorf("the home was not kept: %s", r.Stdout)
		}
		for _, dir := range []string{"", "one", "one/files"} {
			fi, err := os.Stat(filepath.Join(y.Home, ".local/share/bailey/homes", dir))
			if err != nil || fi.Mode().Perm() != 0o700 {
				t.Errorf("%s: %v %v", dir, fi.Mode(), err)
			}
		}
		y.Run(t, "run", "--home", "one", "--ephemeral-home", "--", "true").Exit(t, 125)
		y.Run(t, "run", "--home", "../one", "--", "true").Exit(t, 125)
	})
}

// TestISO12_HomeLeadsNoWriteOutside: what a run has planted in its home does not
// have the next one's start, nor any command of bailey's, write or read
// elsewhere.
func TestISO12_HomeLeadsNoWriteOutside(t *testing.T) {
	t.Attr("claim", "ISO-12")
	t.Parallel()
	plants := map[string]string{
		"the settings are a link":   "mkdir -p ~/.claude; ln -sf OUT/victim ~/.claude/settings.json",
		"their folder is a link":    "ln -s OUT ~/.claude",
		"the state is a link":       "ln -s OUT/victim ~/.claude.json",
		"the state is a pipe":       "mkfifo ~/.claude.json",
		"the name beside is a link": "mkdir -p ~/.claude; ln -sf OUT/victim ~/.claude/.settings.json.new; ln -s OUT/victim ~/..claude.json.new",
		"the login is a link":       "mkdir -p ~/.claude; ln -s OUT/victim ~/.claude/.credentials.json",
		"deep settings":             `mkdir -p ~/.claude; head -c 2000000 /dev/zero | tr '\0' '[' > ~/.claude/settings.json`,
	}
	i := 0
	for name, plant := range plants {
		i++
		t.Run(name, func(t *testing.T) {
			yard.InTurn(t, i, func(t *testing.T, y *yard.Yard) {
				victim := y.WriteHome(t, "out/victim", "{\"as\": \"it was\"}\n")
				out := filepath.Dir(victim)
				y.Sh(t, strings.ReplaceAll(plant, "OUT", out), "--home", "h").OK(t)
				r := y.RunWith(t, withAgents(t), "run", "--home", "h", "claude", "--version").OK(t)
				hasNone(t, r.Stderr, "logged in")
				if b, err := os.ReadFile(victim); err != nil || string(b) != "{\"as\": \"it was\"}\n" {
					t.Errorf("the victim: %q %v", b, err)
				}
				if list, _ := os.ReadDir(out); len(list) != 1 {
					t.Errorf("outside: %v", list)
				}
				got := y.Sh(t, "cat ~/.claude/settings.json", "--home", "h")
				hasAll(t, got.Stdout, "skipWebFetchPreflight")
				hasNone(t, y.Run(t, "home", "export", "h").OK(t).Stdout, "it was")
			})
		})
	}
	t.Run("twin", func(t *testing.T) { // who follows the link, writes the victim
		y := yard.Unprivileged(t)
		victim := y.WriteHome(t, "out/victim", "as it was\n")
		y.Sh(t, "mkdir -p ~/.claude; ln -sf "+victim+" ~/.claude/settings.json", "--home", "h").OK(t)
		if err := os.WriteFile(filepath.Join(homeFiles(y, "h"), ".claude/settings.json"), []byte("new"), 0o600); err != nil {
			t.Fatal(err)
		}
		if b, _ := os.ReadFile(victim); string(b) != "new" {
			t.Errorf("the link leads nowhere: %q", b)
		}
	})
}

// TestSEC11_LoginMadeInside: a login is told of at the end of its run, at the
// start of the next, and wherever a home is looked at; an export has it under no
// name; without a home that is kept it is gone.
func TestSEC11_LoginMadeInside(t *testing.T) {
	t.Attr("claim", "SEC-11")
	t.Parallel()
	files := map[string]string{
		"claude": ".claude/.credentials.json", "codex": ".codex/auth.json", "gemini": ".gemini/oauth_creds.json",
		"opencode": ".local/share/opencode/auth.json", "pi": ".pi/agent/auth.json",
	}
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		for agent, file := range files {
			login := `mkdir -p ~/` + filepath.Dir(file) + `; echo '{"token": "canary-login"}' > ~/` + file + `; ln ~/` + file + ` ~/harmless-` + agent + `; ln -s ` + file + ` ~/pointer`
			r := y.Sh(t, login, "--home", agent).OK(t)
			hasAll(t, r.Stderr, "login made inside: "+agent+" ("+file+")", "bailey home rm "+agent)
			r = y.Sh(t, "cat ~/"+file, "--home", agent).OK(t)
			hasAll(t, r.Stdout, "canary-login")
			hasAll(t, r.Stderr, "logged in: "+agent)
			hasNone(t, r.Stderr, "login made inside")
			hasAll(t, y.Run(t, "home", "inspect", agent).OK(t).Stdout, "logins made inside", file)
			hasAll(t, y.Run(t, "inspect", "--home", agent, "--", "true").OK(t).Stdout, "login made inside: "+file)
			r = y.Run(t, "home", "export", agent).OK(t)
			hasNone(t, r.Stdout, "canary-login")
			hasAll(t, r.Stderr, "left out, since it holds a login: "+file, "harmless-"+agent)
			hasAll(t, y.Run(t, "home", "export", "--with-logins", agent).OK(t).Stdout, "canary-login") // the twin
		}
		y.Sh(t, "mkdir ~/.claude; echo '{\"a\": 1}' > ~/.claude/.credentials.json", "--ephemeral-home").OK(t)
		r := y.Sh(t, "ls -A ~/.claude", "--ephemeral-home")
		hasNone(t, r.Stdout, "credentials")
		y.Run(t, "home", "rm", "claude").OK(t)
		r = y.Sh(t, "ls -A ~", "--home", "claude").OK(t)
		hasNone(t, r.Stdout+r.Stderr, ".claude/.credentials", "logged in")
	})
}

// TestSEC11_LoginBehindLinks: a login is one wherever links of the home lead its
// program to it, and an export has it under no name.
func TestSEC11_LoginBehindLinks(t *testing.T) {
	t.Attr("claim", "SEC-11")
	t.Parallel()
	const login = `echo '{"token": "canary-login"}' > `
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		i := 0
		for name, c := range map[string]struct{ script, file, lies string }{
			"file":     {`mkdir -p ~/.claude ~/c; ` + login + `~/c/x; ln -s ../c/x ~/.claude/.credentials.json`, ".claude/.credentials.json", "c/x"},
			"folder":   {`mkdir -p ~/store; ` + login + `~/store/.credentials.json; ln -s store ~/.claude`, ".claude/.credentials.json", "store/.credentials.json"},
			"deeper":   {`mkdir -p ~/.config ~/gh; ` + login + `~/gh/hosts.yml; ln -s ../gh ~/.config/gh`, ".config/gh/hosts.yml", "gh/hosts.yml"},
			"absolute": {`mkdir -p ~/.codex ~/a; ln -s ~/a ~/b; ` + login + `~/a/f; ln -s /home/agent/b/f ~/.codex/auth.json`, ".codex/auth.json", "a/f"},
			"by root":  {`mkdir -p ~/.codex ~/a; ` + login + `~/a/f; ln -s /proc/self/root/home/../home/agent/a/f ~/.codex/auth.json`, ".codex/auth.json", "a/f"},
			"by above": {`mkdir -p ~/.codex ~/a; ` + login + `~/a/f; ln -s ../../agent/a/f ~/.codex/auth.json; ln ~/a/f ~/other`, ".codex/auth.json", "a/f"},
		} {
			if i++; !y.Turn(i) {
				continue
			}
			home := strings.ReplaceAll(name, " ", "-")
			r := y.Sh(t, c.script+"; cat ~/"+c.file+"; echo plain-work > ~/work", "--home", home).OK(t)
			hasAll(t, r.Stdout, "canary-login")
			hasAll(t, r.Stderr, "login made inside: ", c.file)
			hasAll(t, y.Run(t, "home", "inspect", home).OK(t).Stdout, "logins made inside", c.file)
			r = y.Run(t, "home", "export", home).OK(t)
			hasNone(t, r.Stdout, "canary-login")
			hasAll(t, r.Stdout, "plain-work")
			hasAll(t, r.Stderr, "left out, since it holds a login: "+c.lies)
			hasAll(t, y.Run(t, "home", "export", "--with-logins", home).OK(t).Stdout, "canary-login") // the twin
		}
		// A link out of the home shows nothing of the host's, and a round of links ends.
		secret := y.WriteHome(t, "secret", "{\"token\": \"canary-host\"}")
		r := y.Sh(t, "mkdir ~/.codex ~/.claude; ln -s "+secret+" ~/.codex/auth.json; ln -s .credentials.json ~/.claude/.credentials.json; ln -s ../../../../../../../secret ~/.netrc", "--home", "out").OK(t)
		hasNone(t, r.Stderr, "login made inside")
		hasNone(t, y.Run(t, "home", "export", "out").OK(t).Stdout, "canary-host")
	})
}

// TestISO08_HomeExportIsBounded: no home makes an export that fills the disk,
// and none one that cannot be made; a file is whole or not there.
func TestISO08_HomeExportIsBounded(t *testing.T) {
	t.Attr("claim", "ISO-08")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		y.Sh(t, "truncate -s 3G ~/sparse; echo work > ~/work", "--home", "sparse").OK(t)
		out := filepath.Join(y.Home, "out.tar")
		r := y.Run(t, "home", "export", "--max-size", "1M", "sparse", out).Exit(t, 125)
		hasAll(t, r.Stderr, "home sparse holds more than may be written", "--max-size raises the limit")
		if left, _ := os.ReadDir(y.Home); slices.ContainsFunc(left, func(e os.DirEntry) bool { return e.Name() == "out.tar" || strings.HasPrefix(e.Name(), ".bailey-") }) {
			t.Errorf("left: %v", left)
		}
		toldAmid(t, y.Start(t, "home", "export", "sparse", out), syscall.SIGTERM, 143, filepath.Join(y.Home, ".bailey-*"))
		if _, err := os.Lstat(out); err == nil {
			t.Error("an export that was told to end is there")
		}
		y.Sh(t, "truncate -s 100K ~/sparse", "--home", "sparse").OK(t)
		y.Run(t, "home", "export", "--max-size", "1M", "sparse", out).OK(t) // the twin
		y.Sh(t, "mkdir -p ~/shut/in; echo x > ~/closed; echo work-is-here > ~/work; chmod 000 ~/shut ~/closed", "--home", "shut").OK(t)
		r = y.Run(t, "home", "export", "shut").OK(t)
		hasAll(t, r.Stdout, "files/shut/", "work-is-here")
		if y.UID != 0 { // root reads all
			hasAll(t, r.Stderr, "left out, since it cannot be read: shut/", "left out, since it cannot be read: closed")
		}
	})
}

// toldAmid waits for what a command makes while it works, tells it to end, and
// looks that it does, with this code, and leaves nothing.
func toldAmid(t *testing.T, r *yard.Running, sig syscall.Signal, code int, drafts string) {
	t.Helper()
	there := func() bool { found, _ := filepath.Glob(drafts); return len(found) > 0 }
	yard.Eventually(t, yard.Timeout, there, func() string { return "nothing began" })
	if err := r.Cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	if res := r.Wait(t, yard.Timeout); res.Code != code || there() {
		t.Errorf("told %v: %+v, a draft is left: %v", sig, res, there())
	}
}

// TestISO02_SettingsOfAnEarlierRun: what an agent has changed in its settings
// holds and is told of; what keeps a run safe and quiet is as it was, and so is
// what the user has pinned.
func TestISO02_SettingsOfAnEarlierRun(t *testing.T) {
	t.Attr("claim", "ISO-02")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		y.WriteHome(t, ".claude/settings.json", `{"model": "host-model", "language": "host-language"}`)
		y.WriteHome(t, ".config/bailey/config.yaml", "home: {pin: [language]}\n")
		claude := func(flags ...string) yard.Result {
			return y.RunWith(t, withAgents(t), append(append([]string{"run"}, flags...), "claude", "--version")...).OK(t)
		}
		read := func() string { return y.Sh(t, "cat ~/.claude/settings.json", "--home", "h").OK(t).Stdout }
		r := claude("--home", "h")
		hasAll(t, r.Stderr, "carried from", "model")
		hasAll(t, read(), "host-model", "host-language")
		y.Sh(t, `sed -i -e 's/host-model/inside-model/' -e 's/host-language/inside-language/' -e 's/"skipWebFetchPreflight": true/"skipWebFetchPreflight": false, "added": 1/' ~/.claude/settings.json`, "--home", "h").OK(t)
		in := y.RunWith(t, withAgents(t), "inspect", "--home", "h", "claude").OK(t)
		hasAll(t, in.Stdout, "changed inside, holds: .claude/settings.json: model", "changed inside, does not hold: .claude/settings.json: skipWebFetchPreflight", "changed inside, does not hold: .claude/settings.json: language")
		hasAll(t, read(), "inside-language") // it has changed nothing
		r = claude("--home", "h")
		hasAll(t, r.Stderr, "settings that were changed inside hold: .claude/settings.json: added, .claude/settings.json: model", "do not hold: .claude/settings.json: language, .claude/settings.json: skipWebFetchPreflight")
		hasAll(t, read(), "inside-model", "host-language", `"skipWebFetchPreflight": true`, `"added"`)
		y.WriteHome(t, ".claude/settings.json", `{"model": "new-model"}`)
		claude("--home", "h", "--pin", "model")
		hasAll(t, read(), "new-model")
		hasNone(t, read(), "inside-model", "host-language")
		y.Sh(t, "echo garbage > ~/.claude/settings.json", "--home", "h").OK(t)
		claude("--home", "h")
		hasAll(t, read(), "new-model", "skipWebFetchPreflight")
		claude("--home", "h", "--no-bridge")
		hasNone(t, read(), "new-model")
		// What an agent reads over its settings is moved aside, behind links as well.
		y.Sh(t, `mkdir ~/x ~/.config; echo '{"model": "evil-model"}' | tee ~/.claude/remote-settings.json > ~/x/opencode.json; ln -s x ~/.opencode`, "--home", "h").OK(t)
		in = y.RunWith(t, withAgents(t), "inspect", "--home", "h", "claude").OK(t)
		hasAll(t, in.Stdout, "moved aside in the home", "~/.claude/remote-settings.json")
		hasAll(t, claude("--home", "h").Stderr, "moved aside in the home, since the agent would read it over its settings: ~/.claude/remote-settings.json")
		hasAll(t, y.RunWith(t, withAgents(t), "run", "--home", "h", "opencode", "--version").OK(t).Stderr, "~/.opencode/opencode.json")
		y.Sh(t, "test ! -e ~/.claude/remote-settings.json && test ! -e ~/.opencode && cat ~/.claude/remote-settings.json.moved-by-bailey-*", "--home", "h").OK(t)
		hasNone(t, claude("--home", "h").Stderr, "moved aside")
		// A key that has an agent use other settings does not hold; one beside it does.
		codex := func() yard.Result {
			return y.RunWith(t, withAgents(t), "run", "--home", "h", "codex", "--version").OK(t)
		}
		codex()
		y.Sh(t, `sed -i '1i profile = "p"\nmodel = "inside-model"' ~/.codex/config.toml; printf '[profiles.p]\nmodel = "evil-model"\n' >> ~/.codex/config.toml`, "--home", "h").OK(t)
		hasAll(t, codex().Stderr, "hold: .codex/config.toml: model", "do not hold: .codex/config.toml: profile")
		hasNone(t, y.Sh(t, "grep ^profile ~/.codex/config.toml; true", "--home", "h").OK(t).Stdout, "profile")
	})
}

// TestISO02_DefaultHomes: an agent by name has a home for each workspace, and
// the next of its runs there finds it; a key's traces are there while a run
// lasts.
func TestISO02_DefaultHomes(t *testing.T) {
	t.Attr("claim", "ISO-02")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		const key = "sk-ant-canary-0123456789-abcdefghijklmnop"
		with := withAgents(t, "ANTHROPIC_API_KEY="+key)
		y.RunWith(t, with, "run", "--env", "ANTHROPIC_API_KEY", "claude", "--version").OK(t)
		var list []struct {
			Name, Workspace, Agent string
			InUse                  bool `json:"in_use"`
		}
		if err := json.Unmarshal([]byte(y.Run(t, "home", "ls", "--json").OK(t).Stdout), &list); err != nil || len(list) != 1 {
			t.Fatalf("%v %v", list, err)
		}
		if one := list[0]; one.Workspace != y.Dir || one.Agent != "claude" || one.InUse || !strings.HasPrefix(one.Name, "work-claude-") {
			t.Errorf("%+v", one)
		}
		out, err := exec.CommandContext(t.Context(), "grep", "-rl", key[len(key)-20:], filepath.Join(y.Home, ".local/share/bailey")).Output()
		if err == nil || len(out) > 0 {
			t.Errorf("the end of the key stays in %s", out)
		}
		r := y.RunWith(t, with, "run", "--env", "ANTHROPIC_API_KEY", "claude", "--version").OK(t)
		hasAll(t, r.Stderr, "home: "+list[0].Name+" (kept)")
		r = y.RunWith(t, with, "run", "--ephemeral-home", "--env", "ANTHROPIC_API_KEY", "claude", "--version").OK(t)
		hasNone(t, r.Stderr, "home:")
	})
}

// TestISO02_HomeInUse: two runs may have one home, are told of it, and nobody
// removes it under them.
func TestISO02_HomeInUse(t *testing.T) {
	t.Attr("claim", "ISO-02")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		first := y.Start(t, "run", "--home", "h", "--", "sh", "-c", "echo one > ~/one; echo ready; read x; cat ~/two")
		first.Await(t, "ready")
		r := y.Sh(t, "cat ~/one; echo two > ~/two", "--home", "h").OK(t)
		hasAll(t, r.Stdout, "one")
		hasAll(t, r.Stderr, "in use by another run")
		y.Run(t, "home", "rm", "h").Exit(t, 125)
		hasAll(t, y.Run(t, "home", "inspect", "h").OK(t).Stdout, "in use")
		_, _ = first.Stdin.Write([]byte("\n"))
		if r := first.Wait(t, yard.Timeout); !strings.Contains(r.Stdout, "two") {
			t.Errorf("%+v", r)
		}
		hasAll(t, y.Run(t, "home", "rm", "h").OK(t).Stdout, "h: removed")
		y.Run(t, "home", "inspect", "h").Exit(t, 125)
		killed := y.Start(t, "run", "--home", "k", "--", "sh", "-c", "echo ready; sleep 60")
		killed.Await(t, "ready")
		if err := killed.Cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		yard.Eventually(t, yard.Timeout, func() bool { return y.Run(t, "home", "rm", "k").Code == 0 }, func() string { return "a killed run holds its home" })
	})
}

// TestISO08_HomeIsBounded: a home that grows over its limit ends the run, which
// says so; the twin has more room.
func TestISO08_HomeIsBounded(t *testing.T) {
	t.Attr("claim", "ISO-08")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		fill := "head -c 40000000 /dev/zero > ~/big; for i in 1 2 3 4 5 6 7 8; do sleep 1; done; echo over"
		r := y.Sh(t, fill, "--home", "h", "--home-disk", "10M").Exit(t, 137)
		hasAll(t, r.Stderr, "the home has grown by", "--home-disk raises it")
		hasNone(t, r.Stdout, "over")
		r = y.Sh(t, fill, "--home", "twin", "--home-disk", "100M").OK(t)
		hasAll(t, r.Stdout, "over")
	})
}

// TestISO12_HomeImport: an archive of somebody else's makes nothing outside of
// the new home, and a refused one leaves nothing.
func TestISO12_HomeImport(t *testing.T) {
	t.Attr("claim", "ISO-12")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		y.Sh(t, "echo kept > ~/file; mkdir ~/d; ln -s ../file ~/d/link; chmod 700 ~/file", "--home", "one").OK(t)
		tar := filepath.Join(y.Dir, "one.tar")
		y.Run(t, "home", "export", "one", tar).OK(t)
		y.Run(t, "home", "export", "one", tar).Exit(t, 125)
		y.Run(t, "home", "import", "one", tar).Exit(t, 125)
		y.Run(t, "home", "import", "two", tar).OK(t)
		r := y.Sh(t, "cat ~/d/link; stat -c %a ~/file", "--home", "two").OK(t)
		if r.Stdout != "kept\n700\n" {
			t.Errorf("%q", r.Stdout)
		}
		out := filepath.Join(filepath.Dir(y.Dir), "home", "out")
		if err := os.Mkdir(out, 0o777); err != nil {
			t.Fatal(err)
		}
		make := "mkdir -p files && ln -s " + out + " files/a && tar cf evil.tar files && rm files/a && mkdir files/a && echo x > files/a/evil && tar rf evil.tar files/a/evil"
		y.Host(t, "sh", "-c", make)
		y.Run(t, "home", "import", "evil", "evil.tar").Exit(t, 125)
		if list, _ := os.ReadDir(out); len(list) != 0 {
			t.Errorf("outside: %v", list)
		}
		if list, _ := os.ReadDir(filepath.Join(y.Home, ".local/share/bailey/homes")); slices.ContainsFunc(list, func(e os.DirEntry) bool { return strings.Contains(e.Name(), "evil") }) {
			t.Errorf("left behind: %v", list)
		}
		// One that is waiting for the rest of the archive, and is told to end.
		data, err := os.ReadFile(tar)
		if err != nil {
			t.Fatal(err)
		}
		for sig, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
			half := y.Start(t, "home", "import", "half")
			if _, err := half.Stdin.Write(data[:1024]); err != nil {
				t.Fatal(err)
			}
			toldAmid(t, half, sig, code, filepath.Join(y.Home, ".local/share/bailey/homes/.draft-half*"))
		}
		y.Run(t, "home", "import", "--disk", "1K", "small", tar).OK(t)
		y.Run(t, "home", "import", "--inodes", "1", "few", tar).Exit(t, 125)
	})
}
