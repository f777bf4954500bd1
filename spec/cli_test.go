package spec_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// refused asserts what every refusal of ours is: exit 125, nothing on stdout,
// one message that names the words, a hint, and nothing done.
func refused(t *testing.T, y *yard.Yard, r yard.Result, words ...string) {
	t.Helper()
	if r.Code != 125 || r.Stdout != "" {
		t.Errorf("exit code %d, stdout %q; want 125 and nothing", r.Code, r.Stdout)
	}
	lines := strings.Split(strings.TrimSuffix(r.Stderr, "\n"), "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "bailey: ") || !strings.HasPrefix(lines[1], "hint: ") {
		t.Errorf("not one message and one hint: %q", r.Stderr)
	}
	for _, w := range words {
		if !strings.Contains(r.Stderr, w) {
			t.Errorf("%q does not say %q", r.Stderr, w)
		}
	}
	if _, err := os.Stat(filepath.Join(y.Dir, "started")); err == nil {
		t.Error("the command ran all the same")
	}
}

// TestRun_RefusesBadFlags: every flag, with values it cannot have.
func TestRun_RefusesBadFlags(t *testing.T) {
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		clean := nothingLeft(t, y)
		y.Write(t, "env", "# comment\n\nGOOD=1\n  9bad line with a secret\n")
		y.Write(t, "env2", "NOT_SET_HERE\n")
		for _, tc := range []struct {
			flags string
			words []string
		}{
			{"--memory 4Q", []string{"--memory", `"4Q"`, "512M"}},
			{"--memory 0", []string{"--memory"}},
			{"--memory=-1", []string{"--memory"}},
			{"--memory -1", []string{"--memory", "-1 is no value", "--memory=VALUE"}},
			{"--memory 1K", []string{"--memory", "96M"}},
			{"--memory 1e99", []string{"--memory"}},
			{"--cpus 0", []string{"--cpus"}},
			{"--cpus x", []string{"--cpus", "0.5"}},
			{"--cpus NaN", []string{"--cpus"}},
			{"--pids 0", []string{"--pids"}},
			{"--pids 3", []string{"--pids", "16"}},
			{"--pids 9223372036854775807", []string{"--pids"}},
			{"--nofile 1.5", []string{"--nofile"}},
			{"--nofile 3", []string{"--nofile", "32"}},
			{"--nofile 99999999999", []string{"--nofile"}},
			{"--tmp-size lots", []string{"--tmp-size"}},
			{"--disk 9999999T", []string{"--disk"}},
			{"--disk 0", []string{"--disk"}},
			{"--inodes 0", []string{"--inodes"}},
			{"--timeout 30", []string{"--timeout", "30m"}},
			{"--timeout=-1s", []string{"--timeout"}},
			{"--net bogus", []string{"--net", "none, allow, open or full"}},
			{"--net allow", []string{"allow", "--allow example.com"}},
			{"--net none --allow example.com", []string{"--net none", "--allow"}},
			{"--allow 1.2.3.4.5", []string{"--allow", "1.2.3.4.5"}},
			{"--allow https://example.com", []string{"--allow", "bare host"}},
			{"--allow example.com:0", []string{"--allow", "65535"}},
			{"--allow [2600:11::10]:80", []string{"--allow", "IPv6", "IPv4 address"}},
			{"--allow 2600:11::10", []string{"--allow", "IPv6"}},
			{"--allow 11.0.0.10:53", []string{"--allow", "port 53", "leave the rule out"}},
			{"--allow allow.test:53", []string{"--allow", "port 53"}},
			{"--allow *.run.app", []string{"--allow", "anyone can have a host below run.app"}},
			{"--allow=", []string{"--allow"}},
			{"--allow *.com.*", []string{"--allow"}},
			{"--deny bad_host!", []string{"--deny", "bad_host!"}},
			{"--env 1A=2", []string{"--env", "1A"}},
			{"--env =x", []string{"--env"}},
			{"--env NOT_SET_HERE", []string{"--env NOT_SET_HERE", "not set"}},
			{"--env-file absent", []string{"--env-file", "absent"}},
			{"--env-file .", []string{"--env-file", "regular file"}},
			{"--env-file env", []string{"env:4:", "NAME=VALUE"}},
			{"--env-file env2", []string{"env2:1:", "NOT_SET_HERE", "file of the workspace", "--env NOT_SET_HERE"}},
			{"--workdir absent", []string{"--workdir", "absent"}},
			{"--workdir env", []string{"--workdir"}},
			{"--workdir /", []string{"may not be a workspace"}},
			{"--name UPPER", []string{"--name", "UPPER", "lower-case"}},
			{"--name a/../b", []string{"--name"}},
			{"--name=", []string{"--name", "empty"}},
			{"--tool no-such-tool", []string{"--tool", "no-such-tool"}},
			{"--bogus", []string{"--bogus"}},
			{"--read-only=maybe", []string{"--read-only"}},
		} {
			t.Run(tc.flags, func(t *testing.T) {
				args := append(append([]string{"run"}, strings.Fields(tc.flags)...), "--", "touch", "started")
				r := y.Run(t, args...)
				refused(t, y, r, tc.words...)
				if strings.Contains(r.Stderr, "secret") {
					t.Error("a line that may hold a secret is repeated")
				}
			})
		}
		t.Run("no command", func(t *testing.T) {
			for _, args := range [][]string{{"run"}, {"run", "--"}, {"run", "--memory", "1G"}} {
				refused(t, y, y.Run(t, args...), "no command", "bailey run -- bash")
			}
			refused(t, y, y.Run(t, "run", "--memory"), "--memory", "missing")
			refused(t, y, y.Run(t, "bogus"), "bogus")
			refused(t, y, y.Run(t, "exec"), "no sandbox")
			refused(t, y, y.Run(t, "stop"), "no sandbox")
			refused(t, y, y.Run(t, "exec", "absent", "--", "true"), "absent", "bailey ps")
			refused(t, y, y.Run(t, "stop", "absent"), "absent", "bailey ps")
		})
		t.Run("json", func(t *testing.T) {
			for _, flags := range []string{"--memory 4Q", "--env NOT_SET_HERE", "--bogus", "--workdir absent"} {
				r := y.Run(t, append(append([]string{"run", "--json"}, strings.Fields(flags)...), "--", "touch", "started")...)
				list := events(t, r.Stderr)
				if r.Code != 125 || len(list) != 1 || list[0].Type != "error" || list[0].ExitCode == nil || *list[0].ExitCode != 125 {
					t.Errorf("%s: %+v", flags, r)
				}
			}
		})
		clean()
		// The twin: the same path with nothing wrong runs the command.
		y.Run(t, "run", "-q", "--", "touch", "started").OK(t)
		if _, err := os.Stat(filepath.Join(y.Dir, "started")); err != nil {
			t.Error("twin: the command did not run")
		}
	})
}

// TestRun_RefusesWorkspaces: folders that hold more than a project.
func TestRun_RefusesWorkspaces(t *testing.T) {
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		base := filepath.Dir(y.Dir)
		own := filepath.Join(base, "own")
		env := []string{"XDG_CONFIG_HOME=" + own + "/c", "XDG_DATA_HOME=" + own + "/d", "XDG_STATE_HOME=" + own + "/s"}
		for _, dir := range []string{own, own + "/c/bailey/x", own + "/d/bailey", own + "/s/bailey/y/z", own + "/c/other"} {
			mkdirFor(t, y, base, dir)
		}
		if err := os.Symlink(own+"/c/bailey", filepath.Join(base, "link")); err != nil {
			t.Fatal(err)
		}
		homeLink := filepath.Join(base, "homelink")
		if err := os.Symlink(y.Home, homeLink); err != nil {
			t.Fatal(err)
		}
		mkdirFor(t, y, base, y.Home+"/project")
		clean := nothingLeft(t, y)
		in := func(dir string) yard.Result {
			return y.RunWith(t, func(c *exec.Cmd) { c.Dir, c.Env = dir, append(c.Env, env...) }, "run", "-q", "--", "touch", "started")
		}
		for _, dir := range []string{
			"/", "/usr", "/usr/share", "/etc", "/tmp", "/home", "/var/lib", "/proc", "/dev",
			y.Home, homeLink, base, own, own + "/c", own + "/c/bailey", own + "/c/bailey/x", own + "/d/bailey", own + "/s/bailey/y/z", filepath.Join(base, "link"), base + "/run",
		} {
			r := in(dir)
			refused(t, y, r, "may not be a workspace", "folder of one project")
			if t.Failed() {
				t.Fatalf("in %s: %+v", dir, r)
			}
			_ = os.Remove(filepath.Join(dir, "started"))
		}
		clean()
		for _, dir := range []string{own + "/c/other", y.Home + "/project", y.Dir} {
			if r := in(dir); r.Code != 0 {
				t.Errorf("twin: in %s: %+v", dir, r)
			}
		}
	})
}

func mkdirFor(t *testing.T, y *yard.Yard, base, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for ; dir != base && len(dir) > len(base); dir = filepath.Dir(dir) {
		if err := os.Chown(dir, y.UID, y.GID); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRun_Flags: what each flag does, in as few sandboxes as will do.
func TestRun_Flags(t *testing.T) {
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		clean := nothingLeft(t, y)
		y.Write(t, "sub/file", "in sub")
		vars := y.WriteHome(t, "vars", "# c\nFROM_FILE=a b=c\nPASSED\n\nBOTH=file\n")
		with := func(c *exec.Cmd) {
			c.Env = append(c.Env, "PASSED=of the caller", "NAMED=named", "HIDDEN=hidden")
		}
		t.Run("environment", func(t *testing.T) {
			r := y.RunWith(t, with, "run", "-q", "--env", "NAMED", "--env", "GIVEN=x=y ", "--env", "EMPTY=", "--env-file", vars, "--env", "BOTH=flag", "--", "env").OK(t)
			lines := strings.Split(r.Stdout, "\n")
			for _, want := range []string{"NAMED=named", "GIVEN=x=y ", "EMPTY=", "FROM_FILE=a b=c", "PASSED=of the caller", "BOTH=flag"} {
				if !slices.Contains(lines, want) {
					t.Errorf("no %q in %q", want, lines)
				}
			}
			if strings.Contains(r.Stdout, "HIDDEN") || strings.Contains(r.Stdout, "hidden") {
				t.Error("a variable entered that was not named")
			}
		})
		t.Run("network mode of the environment", func(t *testing.T) {
			// A host that is named now beats a mode that was set for all runs.
			for _, mode := range []string{"open", "none", "allow"} {
				with := func(c *exec.Cmd) { c.Env = append(c.Env, "BAILEY_NET="+mode) }
				r := y.RunWith(t, with, "run", "--allow", "one.test", "--", "true").OK(t)
				if !strings.Contains(r.Stderr, "network: one.test\n") {
					t.Errorf("BAILEY_NET=%s: %s", mode, r.Stderr)
				}
			}
			open := func(c *exec.Cmd) { c.Env = append(c.Env, "BAILEY_NET=open") }
			refused(t, y, y.RunWith(t, func(c *exec.Cmd) { c.Env = append(c.Env, "BAILEY_NET=bogus") }, "run", "--allow", "one.test", "--", "touch", "started"), `"bogus"`)
			for _, flags := range []string{"", "--deny one.test", "--net open --allow one.test"} {
				r := y.RunWith(t, open, append(append([]string{"run"}, strings.Fields(flags)...), "--", "true")...).OK(t)
				if !strings.Contains(r.Stderr, "network: open") || strings.Contains(flags, "deny") != strings.Contains(r.Stderr, "; denied: one.test\n") {
					t.Errorf("twin: BAILEY_NET=open %s: %s", flags, r.Stderr)
				}
			}
		})
		t.Run("workdir", func(t *testing.T) {
			if r := y.Sh(t, "pwd; cat file; echo ../x > ../up", "-q", "--workdir", "sub").OK(t); r.Stdout != y.Dir+"/sub\nin sub" {
				t.Errorf("a folder of the current one: %q", r.Stdout)
			}
			other := filepath.Join(filepath.Dir(y.Dir), "other")
			mkdirFor(t, y, filepath.Dir(y.Dir), other)
			if r := y.Sh(t, "pwd; touch here; ls "+y.Dir, "-q", "--workdir", other); !strings.HasPrefix(r.Stdout, other+"\n") || r.Code == 0 {
				t.Errorf("another workspace: %+v", r)
			}
			// A link that the repository brings along does not choose another
			// folder to write to; a person who names that folder does.
			for name, target := range map[string]string{"leads": "../other", "far": other, "sub/up": "../../other"} {
				if err := os.Symlink(target, filepath.Join(y.Dir, name)); err != nil {
					t.Fatal(err)
				}
				for _, dir := range []string{name, "./" + name, y.Dir + "/" + name} {
					refused(t, y, y.Run(t, "run", "--workdir", dir, "--", "touch", "started"), "--workdir "+dir, other)
				}
				if err := os.Remove(filepath.Join(y.Dir, name)); err != nil {
					t.Fatal(err)
				}
			}
			if r := y.Sh(t, "pwd", "-q", "--workdir", "../other").OK(t); r.Stdout != other+"\n" {
				t.Errorf("twin: named by its dots: %q", r.Stdout)
			}
			if err := os.Symlink("sub", filepath.Join(y.Dir, "within")); err != nil {
				t.Fatal(err)
			}
			if r := y.Sh(t, "pwd", "-q", "--workdir", "within").OK(t); r.Stdout != y.Dir+"/sub\n" {
				t.Errorf("twin: a link that stays: %q", r.Stdout)
			}
		})
		t.Run("read-only", func(t *testing.T) {
			r := y.Sh(t, "cat sub/file; touch new; echo $?", "-q", "--read-only").OK(t)
			if r.Stdout != "in sub1\n" {
				t.Errorf("got %q", r.Stdout)
			}
			if _, err := os.Stat(filepath.Join(y.Dir, "new")); err == nil {
				t.Error("a file was made")
			}
		})
		t.Run("quiet and header", func(t *testing.T) {
			if r := y.Run(t, "run", "--quiet", "--", "true").OK(t); r.Stderr != "" {
				t.Errorf("--quiet says %q", r.Stderr)
			}
			if r := y.Run(t, "run", "--quiet", "--ask", "--name", "asked", "--", "true").OK(t); r.Stderr != "bailey: asks: a host that no rule names waits 30 seconds for an answer: bailey net pending --sandbox asked\n" {
				t.Errorf("--quiet says of --ask: %q", r.Stderr)
			}
			r := y.Run(t, "run", "--name", "my-name", "--", "true").OK(t)
			for _, want := range []string{"my-name", "gvisor", y.Dir, "network: none", "--allow"} {
				if !strings.Contains(r.Stderr, want) {
					t.Errorf("the header does not say %q: %s", want, r.Stderr)
				}
			}
			if r.Stdout != "" {
				t.Errorf("stdout %q", r.Stdout)
			}
		})
		t.Run("json", func(t *testing.T) {
			r := y.Run(t, "run", "--json", "--name", "eve", "--", "sh", "-c", "kill -TERM $$").Exit(t, 143)
			list := events(t, r.Stderr)
			var types []string
			for _, e := range list {
				types = append(types, e.Type)
				if !regexp.MustCompile(`^sbx_[0-9a-f]{16}$`).MatchString(e.Sandbox) || e.Sandbox != list[0].Sandbox {
					t.Errorf("sandbox id %q", e.Sandbox)
				}
			}
			if got := strings.Join(types, " "); got != "sandbox.starting sandbox.started sandbox.exited" {
				t.Errorf("events: %s", got)
			}
			first, last := list[0], list[len(list)-1]
			if first.Name != "eve" || !slices.Equal(first.Command, []string{"sh", "-c", "kill -TERM $$"}) || !strings.Contains(first.Message, "network: none") {
				t.Errorf("first event %+v", first)
			}
			if last.ExitCode == nil || *last.ExitCode != 143 || last.Signal != "SIGTERM" {
				t.Errorf("last event %+v", last)
			}
			page, err := os.ReadFile("../docs/events.md")
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(r.Stderr) {
				var fields map[string]any
				_ = json.Unmarshal([]byte(line), &fields)
				for name := range fields {
					if !strings.Contains(string(page), "`"+name+"`") {
						t.Errorf("docs/events.md does not know the field %s", name)
					}
				}
			}
		})
		t.Run("timeout", func(t *testing.T) {
			for _, script := range []string{"sleep 60", "trap '' TERM; sleep 60; sleep 60", "trap 'exit 3' TERM; sleep 60 & wait"} {
				began := time.Now()
				r := y.Sh(t, script, "-q", "--timeout", "700ms").Exit(t, 124)
				if !strings.Contains(r.Stderr, "deadline of 700ms") || time.Since(began) > 8*time.Second {
					t.Errorf("%s: after %v: %+v", script, time.Since(began), r)
				}
			}
			y.Sh(t, "exit 3", "-q", "--timeout", "1m").Exit(t, 3)
		})
		clean()
	})
}

// TestRun_DefaultNames: a hundred in one folder have as many names, whatever
// the folder is called.
func TestRun_DefaultNames(t *testing.T) {
	t.Parallel()
	y := yard.Unprivileged(t)
	for folder, want := range map[string]string{
		"plain":                            `^plain-[0-9a-f]{8}$`,
		"A long Name, of a folder é which": `^a-long-name--of-a-folde-[0-9a-f]{8}$`,
		"---":                              `^sandbox-[0-9a-f]{8}$`,
	} {
		y.Write(t, folder+"/file", "")
		there := func(c *exec.Cmd) { c.Dir = filepath.Join(y.Dir, folder) }
		name := strings.TrimSpace(y.RunWith(t, there, "run", "-q", "--", "sh", "-c", "echo $BAILEY_SANDBOX").OK(t).Stdout)
		if !bailey.ValidSandboxName(name) || !regexp.MustCompile(want).MatchString(name) {
			t.Errorf("%q: the sandbox is called %q, want %s", folder, name, want)
		}
	}
}

// TestSEC08_OnlyNamedVariablesEnter: what neither the caller nor
// docs/configuration.md (terminal, language, time zone) names is nowhere inside, and
// the value of what was named is in the argument list and environment of no
// process that bailey starts, nor in a file of its.
func TestSEC08_OnlyNamedVariablesEnter(t *testing.T) {
	t.Attr("claim", "SEC-08")
	const canary, other = "canary-7f3a-value", "canary-5c1d-other"
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		y.Wrap = func(c *exec.Cmd) { c.Env = append(c.Env, "TOKEN="+canary, "OTHER_TOKEN="+other) }
		const look = `cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' '\n'; env`
		r := y.Start(t, "run", "-q", "--env", "TOKEN", "--name", "held", "--", "sh", "-c", look+`; echo "up $TOKEN"; cat; :`)
		r.Await(t, "up "+canary)
		inside, _ := r.Output()
		for where, text := range map[string]string{
			"the command": inside,
			"exec":        y.Run(t, "exec", "held", "--", "sh", "-c", look).OK(t).Stdout,
			"exec, named": y.Run(t, "exec", "--env", "TOKEN", "held", "--", "sh", "-c", look).OK(t).Stdout,
		} {
			if !strings.Contains(text, "TOKEN="+canary) {
				t.Errorf("twin: %s does not have the named one either: %s", where, text)
			}
			if strings.Contains(text, other) || strings.Contains(text, "OTHER_TOKEN") {
				t.Errorf("%s has a variable that was not named: %s", where, text)
			}
		}
		others := 0
		for _, pid := range processesOf(y) {
			if strings.Contains(readProc(t, pid, "cmdline"), canary) {
				t.Errorf("the value is in the arguments of process %d", pid)
			}
			if pid == r.Cmd.Process.Pid {
				if env := readProc(t, pid, "environ"); !strings.Contains(env, canary) || !strings.Contains(env, other) {
					t.Error("twin: bailey's own environment does not have them either")
				}
				continue
			}
			others++
			if strings.Contains(readProc(t, pid, "environ"), canary) {
				t.Errorf("the value is in the environment of process %d: %s", pid, readProc(t, pid, "cmdline"))
			}
		}
		if others < 4 {
			t.Errorf("only %d other processes were found", others)
		}
		_ = r.Stdin.Close()
		r.Wait(t, 20*time.Second)
		left := exec.CommandContext(t.Context(), "grep", "-rlF", canary, filepath.Dir(y.Dir), "/run/bailey", "/dev/shm")
		if out, _ := left.Output(); len(out) > 0 {
			t.Errorf("the value is in files: %s", out)
		}
	})
}

// TestSEC08_FilesOfTheWorkspaceNameNoVariables: what a repository or an earlier
// agent left in the workspace chooses neither a variable of the caller's nor,
// by a link, a file of the host's.
func TestSEC08_FilesOfTheWorkspaceNameNoVariables(t *testing.T) {
	t.Attr("claim", "SEC-08")
	t.Parallel()
	const canary = "canary-3b9d-value"
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		y.Wrap = func(c *exec.Cmd) { c.Env = append(c.Env, "TOKEN="+canary) }
		secrets := y.WriteHome(t, "secrets", "SECRET="+canary+"\n")
		names := y.WriteHome(t, "names", "TOKEN\n")
		y.Write(t, "values", "MINE=1\n")
		y.Sh(t, "echo TOKEN > names; ln -s names names2; ln -s '"+secrets+"' secrets; ln -s '"+filepath.Dir(secrets)+"' home", "-q").OK(t)
		read := func(file string) yard.Result { return y.Run(t, "run", "-q", "--env-file", file, "--", "env") }
		for file, says := range map[string]string{
			"names": "--env TOKEN", "./names": "--env TOKEN", y.Dir + "/names": "--env TOKEN",
			"secrets": "symbolic link", "home/secrets": "symbolic link", "names2": "symbolic link",
		} {
			r := read(file)
			refused(t, y, r, filepath.Base(file), says)
			if strings.Contains(r.Stderr, canary) {
				t.Errorf("%s: the value is printed: %s", file, r.Stderr)
			}
		}
		for file, want := range map[string]string{"values": "MINE=1", secrets: "SECRET=" + canary, names: "TOKEN=" + canary} {
			if r := read(file).OK(t); !strings.Contains(r.Stdout, want+"\n") {
				t.Errorf("twin: %s: no %s in %s", file, want, r.Stdout)
			}
		}
	})
}

// TestRun_ExitCodes: the command's own, and docker's.
func TestRun_ExitCodes(t *testing.T) {
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		clean := nothingLeft(t, y)
		y.Write(t, "plain", "#!/bin/sh\necho no\n")
		y.Host(t, "sh", "-c", `mkdir folder; printf '#!/no/such/interpreter\n' > script; printf 'not a program' > garbage; chmod 755 script garbage`)
		for _, tc := range []struct {
			argv []string
			code int
			says string
		}{
			{argv: []string{"true"}, code: 0},
			{argv: []string{"sh", "-c", "exit 1"}, code: 1},
			{argv: []string{"sh", "-c", "exit 124"}, code: 124},
			{argv: []string{"sh", "-c", "exit 255"}, code: 255},
			{argv: []string{"sh", "-c", "kill -TERM $$"}, code: 143},
			{argv: []string{"sh", "-c", "kill -KILL $$"}, code: 137},
			{argv: []string{"sh", "-c", "kill -SEGV $$"}, code: 139},
			{argv: []string{"sh", "-c", "kill -INT $$"}, code: 130},
			{argv: []string{"./plain"}, code: 126, says: "plain is not executable"},
			{argv: []string{"./folder"}, code: 126, says: "folder is not executable"},
			{argv: []string{"./garbage"}, code: 126, says: "garbage"},
			{argv: []string{"./script"}, code: 127, says: "interpreter"},
			{argv: []string{"./absent"}, code: 127, says: "absent"},
			{argv: []string{"no-such-command"}, code: 127, says: "no-such-command"},
			{argv: []string{"./plain", "x"}, code: 126, says: "chmod +x"},
			{argv: []string{"ls -la"}, code: 127, says: "sh -c '…'"},
			{argv: []string{"sh", "-c", "exit 126"}, code: 126},
		} {
			t.Run(strings.Join(tc.argv, " "), func(t *testing.T) {
				r := y.Run(t, append([]string{"run", "-q", "--"}, tc.argv...)...).Exit(t, tc.code)
				if !strings.Contains(r.Stderr, tc.says) || r.Stdout != "" || (tc.says == "" && r.Stderr != "") {
					t.Errorf("got %+v", r)
				}
				if strings.Contains(r.Stderr, "out of memory") {
					t.Error("the memory limit is blamed")
				}
			})
		}
		if r := y.Run(t, "run", "claud").Exit(t, 127); !strings.Contains(r.Stderr, "bailey: if the agent claude is meant: bailey run claude\n") {
			t.Errorf("an agent's name with a letter wrong: %s", r.Stderr)
		}
		clean()
	})
}

// TestRun_Streams: bytes come and go as with the command itself.
func TestRun_Streams(t *testing.T) {
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		data := make([]byte, 10<<20)
		for i := range data {
			data[i] = byte(i*7 + i>>8 + i>>16)
		}
		t.Run("stdin to stdout", func(t *testing.T) {
			var out bytes.Buffer
			r := y.RunWith(t, func(c *exec.Cmd) { c.Stdin, c.Stdout = bytes.NewReader(data), &out }, "run", "--", "sh", "-c", "cat; echo to stderr >&2").OK(t)
			if sha256.Sum256(out.Bytes()) != sha256.Sum256(data) {
				t.Errorf("%d bytes came back for %d, or others", out.Len(), len(data))
			}
			if !strings.Contains(r.Stderr, "to stderr\n") {
				t.Errorf("stderr: %q", r.Stderr)
			}
		})
		t.Run("from and to a file", func(t *testing.T) {
			from := y.Write(t, "from", string(data))
			to, err := os.Create(filepath.Join(filepath.Dir(y.Dir), "to"))
			if err != nil {
				t.Fatal(err)
			}
			in, err := os.Open(from)
			if err != nil {
				t.Fatal(err)
			}
			y.RunWith(t, func(c *exec.Cmd) { c.Stdin, c.Stdout = in, to }, "run", "-q", "--", "sh", "-c", "head -c 3; cat").OK(t)
			got, err := os.ReadFile(to.Name())
			if err != nil || sha256.Sum256(got) != sha256.Sum256(data) {
				t.Errorf("%d bytes in the file for %d, or others: %v", len(got), len(data), err)
			}
			_, _ = in.Close(), to.Close()
		})
		t.Run("no input", func(t *testing.T) {
			if r := y.Run(t, "run", "-q", "--", "wc", "-c").OK(t); strings.TrimSpace(r.Stdout) != "0" {
				t.Errorf("from /dev/null: %q", r.Stdout)
			}
		})
		t.Run("a closed pipe", func(t *testing.T) {
			sh := exec.CommandContext(t.Context(), "bash", "-c", `"$1" run -q -- sh -c 'yes; echo "yes $?" >&2; exit 0' | head -c 4; echo " ${PIPESTATUS[0]}"; timeout 30 yes | head -c 4; echo " ${PIPESTATUS[0]}"; "$1" run -q -- yes | head -c 4; echo " ${PIPESTATUS[0]}"`, "-", y.Bin)
			c := y.Command(t.Context())
			sh.Dir, sh.Env, sh.SysProcAttr = c.Dir, c.Env, c.SysProcAttr
			var stderr bytes.Buffer
			sh.Stderr = &stderr
			out, err := sh.Output()
			// The native command dies of SIGPIPE, and so does the one inside.
			if string(out) != "y\ny\n 0\ny\ny\n 141\ny\ny\n 141\n" || strings.TrimSpace(stderr.String()) != "yes 141" || err != nil {
				t.Errorf("got %q, stderr %q, %v", out, stderr.String(), err)
			}
		})
	})
}

// TestExecPsStop is the life of a sandbox as others see it.
func TestExecPsStop(t *testing.T) {
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		clean := nothingLeft(t, y)
		if r := y.Run(t, "ps", "--json").OK(t); strings.TrimSpace(r.Stdout) != "[]" || r.Stderr != "" {
			t.Errorf("no sandboxes: %+v", r)
		}
		y.Write(t, "sub/file", "in sub")
		began := time.Now()
		run := y.Start(t, "run", "-q", "--name", "life", "--env", "OWN=own", "--workdir", "sub", "--", "sh", "-c", "trap '' TERM HUP; echo up; while :; do sleep 1; done")
		run.Await(t, "up")
		t.Run("ps", func(t *testing.T) {
			r := y.Run(t, "ps", "--json").OK(t)
			var rows []map[string]any
			if err := json.Unmarshal([]byte(r.Stdout), &rows); err != nil || len(rows) != 1 {
				t.Fatalf("%v: %s", err, r.Stdout)
			}
			row := rows[0]
			started, err := time.Parse(time.RFC3339, fmt.Sprint(row["started"]))
			if err != nil || started.Before(began.Add(-time.Second)) || started.After(time.Now()) {
				t.Errorf("started %v: %v", row["started"], err)
			}
			if id := fmt.Sprint(row["id"]); !regexp.MustCompile(`^sbx_[0-9a-f]{16}$`).MatchString(id) {
				t.Errorf("id %s", id)
			}
			delete(row, "started")
			delete(row, "id")
			got, _ := json.Marshal(row)
			want := fmt.Sprintf(`{"command":["sh","-c","trap '' TERM HUP; echo up; while :; do sleep 1; done"],"name":"life","net":"none","pid":%d,"runtime":"gvisor","status":"running","workspace":%q}`, run.Cmd.Process.Pid, y.Dir)
			if string(got) != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			if r := y.Run(t, "ps").OK(t); !strings.Contains(r.Stdout, "life") || !strings.Contains(r.Stdout, "NAME") {
				t.Errorf("for people: %q", r.Stdout)
			}
		})
		t.Run("a name is taken once", func(t *testing.T) {
			refused(t, y, y.Run(t, "run", "-q", "--name", "life", "--", "touch", "started"), "life", "--name", "bailey stop life")
		})
		t.Run("exec", func(t *testing.T) {
			execs(t, y)
		})
		t.Run("stop", func(t *testing.T) {
			began := time.Now()
			if r := y.Run(t, "stop", "life").OK(t); r.Stdout != "life\n" {
				t.Errorf("got %+v", r)
			}
			if took := time.Since(began); took > 3500*time.Millisecond {
				t.Errorf("a command that ignores SIGTERM took %v to stop", took)
			}
			if r := run.Wait(t, 5*time.Second); r.Code != 137 && r.Code != 143 {
				t.Errorf("the run ended with %+v", r)
			}
			refused(t, y, y.Run(t, "exec", "life", "--", "true"), "life", "bailey ps")
			if r := y.Run(t, "ps", "--json").OK(t); strings.TrimSpace(r.Stdout) != "[]" {
				t.Errorf("ps: %s", r.Stdout)
			}
		})
		clean()
		t.Run("kill -9 of the holder", func(t *testing.T) {
			r := y.Start(t, "run", "-q", "--name", "killed", "--", "sh", "-c", "echo up; sleep 90 & sleep 90")
			r.Await(t, "up")
			x := y.Start(t, "exec", "killed", "--", "sh", "-c", "echo up; sleep 90")
			x.Await(t, "up")
			if err := r.Cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			r.Wait(t, 5*time.Second)
			if x := x.Wait(t, 5*time.Second); x.Code != 125 || !strings.HasPrefix(x.Stderr, "bailey: the sandbox ended before its command did\nhint: ") {
				t.Errorf("exec: %+v", x)
			}
			if r := y.Run(t, "ps", "--json").OK(t); strings.TrimSpace(r.Stdout) != "[]" {
				t.Errorf("ps: %s", r.Stdout)
			}
			clean()
			y.Run(t, "run", "-q", "--name", "killed", "--", "true").OK(t)
		})
		clean()
	})
}

func execs(t *testing.T, y *yard.Yard) {
	t.Helper()
	in := func(args ...string) yard.Result { return y.Run(t, append([]string{"exec", "life"}, args...)...) }
	for term, want := range map[string]string{"xterm": "xterm", "xterm-unheard-of": "xterm-256color", "../../x": "xterm-256color", "a\x1b]b": "xterm-256color"} { // the last: the sandbox's own
		r := y.RunWith(t, func(c *exec.Cmd) { c.Env = append(c.Env, "TERM="+term) }, "exec", "life", "--", "sh", "-c", "echo $TERM").OK(t)
		if r.Stdout != want+"\n" {
			t.Errorf("TERM %q is %q inside, want %q", term, r.Stdout, want)
		}
	}
	for code, script := range map[int]string{0: "true", 7: "exit 7", 255: "exit 255", 143: "kill -TERM $$", 139: "kill -SEGV $$"} {
		if r := in("--", "sh", "-c", script).Exit(t, code); r.Stderr != "" {
			t.Errorf("%s: %+v", script, r)
		}
	}
	if r := in("--", "no-such-command").Exit(t, 127); !strings.Contains(r.Stderr, "no-such-command") {
		t.Errorf("got %+v", r)
	}
	if r := in("--", "/etc").Exit(t, 126); !strings.Contains(r.Stderr, "/etc") {
		t.Errorf("got %+v", r)
	}
	if r := in("--", "sh", "-c", "pwd; echo $OWN; echo err >&2; [ -t 0 ] || [ -t 1 ] || echo no tty").OK(t); r.Stdout != y.Dir+"/sub\nown\nno tty\n" || r.Stderr != "err\n" {
		t.Errorf("got %+v", r)
	}
	if r := in("--workdir", "/tmp", "--env", "OWN=new", "--env", "MORE=m", "--", "sh", "-c", "pwd; echo $OWN $MORE").OK(t); r.Stdout != "/tmp\nnew m\n" {
		t.Errorf("got %+v", r)
	}
	for _, args := range [][]string{
		{"exec", "life", "--", "printf", "[%s]", "a", "--", "b"},
		{"exec", "life", "printf", "[%s]", "a", "--", "b"},
		{"exec", "--", "life", "printf", "[%s]", "a", "--", "b"},
		{"exec", "--", "life", "--", "printf", "[%s]", "a", "--", "b"},
	} {
		if r := y.Run(t, args...).OK(t); r.Stdout != "[a][--][b]" {
			t.Errorf("%q: got %+v", args, r)
		}
	}
	refused(t, y, in("--env", "NOT_SET_HERE", "--", "true"), "NOT_SET_HERE")
	refused(t, y, in(), "no command")
	if r := in("--workdir", "/no/such/folder", "--", "true").Exit(t, 125); !strings.Contains(r.Stderr, "/no/such/folder") {
		t.Errorf("got %+v", r)
	}
	var out bytes.Buffer
	data := bytes.Repeat([]byte("binary\x00\xff\n"), 200_000)
	y.RunWith(t, func(c *exec.Cmd) { c.Stdin, c.Stdout = bytes.NewReader(data), &out }, "exec", "life", "--", "cat").OK(t)
	if !bytes.Equal(out.Bytes(), data) {
		t.Errorf("%d bytes came back for %d, or others", out.Len(), len(data))
	}
	var wg sync.WaitGroup
	for i := range 24 {
		wg.Go(func() {
			c := y.Command(t.Context(), "exec", "life", "--", "sh", "-c", fmt.Sprintf("echo %d; exit %d", i, i))
			out, _ := c.Output()
			if string(out) != fmt.Sprintf("%d\n", i) || c.ProcessState.ExitCode() != i {
				t.Errorf("parallel exec %d: %q, exit %d", i, out, c.ProcessState.ExitCode())
			}
		})
	}
	wg.Wait()
}

func TestVersion(t *testing.T) {
	t.Parallel()
	y := yard.Unprivileged(t)
	var v map[string]string
	if err := json.Unmarshal([]byte(y.Run(t, "version", "--json").OK(t).Stdout), &v); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"version", "gvisor", "go", "platform"} {
		if v[name] == "" {
			t.Errorf("no %s in %v", name, v)
		}
	}
	if r := y.Run(t, "version").OK(t); !strings.HasPrefix(r.Stdout, "bailey "+v["version"]+" ") {
		t.Errorf("got %q", r.Stdout)
	}
	for _, args := range [][]string{{"--help"}, {"run", "--help"}, {"exec", "--help"}, {}} {
		if r := y.Run(t, args...).OK(t); !strings.Contains(r.Stdout, "bailey") || r.Stderr != "" {
			t.Errorf("%v: %+v", args, r)
		}
	}
}

// TestReportA5_SignalsAreNotIgnoredInside: the caller ignores SIGINT and
// SIGQUIT; the command does not inherit that.
func TestReportA5_SignalsAreNotIgnoredInside(t *testing.T) {
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		const ask = `grep SigIgn /proc/self/status; grep SigBlk /proc/self/status`
		sh := func(program string) string {
			c := y.Command(t.Context())
			cmd := exec.CommandContext(t.Context(), "bash", "-c", `trap '' INT QUIT TERM HUP; exec `+program, "-", y.Bin)
			cmd.Dir, cmd.Env, cmd.SysProcAttr = c.Dir, c.Env, c.SysProcAttr
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			return string(out)
		}
		native := sh(`sh -c '` + ask + `'`)
		if strings.Contains(native, "SigIgn:\t0000000000000000") {
			t.Fatalf("twin: the signals are not ignored natively: %s", native)
		}
		// gVisor's /proc says nothing of signals: try them.
		script := `for s in INT QUIT TERM HUP; do sh -c "kill -$s \$\$; sleep 0; echo survived $s"; echo $?; done`
		if out := sh(`"$1" run -q -- sh -c '` + script + `' 2>/dev/null`); out != "130\n131\n143\n129\n" {
			t.Errorf("inside: %q", out)
		}
	})
}

// TestReportA6_NothingOutlivesTheCommandLine: each signal to bailey while
// there is a process in the background inside.
func TestReportA6_NothingOutlivesTheCommandLine(t *testing.T) {
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGKILL} {
			for _, stubborn := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v stubborn=%t", sig, stubborn), func(t *testing.T) {
					clean := nothingLeft(t, y)
					script := "(sleep 90 &) ; sleep 91 & echo up; wait"
					if stubborn && sig != syscall.SIGINT { // an interrupt is the command's to ignore
						script = "trap '' TERM HUP; " + script + "; while :; do sleep 1; done"
					}
					r := y.Start(t, "run", "--json", "--", "sh", "-c", script)
					r.Await(t, "up")
					if len(processesOf(y)) < 4 {
						t.Fatal("the processes are not seen")
					}
					if err := r.Cmd.Process.Signal(sig); err != nil {
						t.Fatal(err)
					}
					began := time.Now()
					res := r.Wait(t, 5*time.Second)
					clean()
					t.Logf("gone after %v", time.Since(began))
					if time.Since(began) > 3500*time.Millisecond {
						t.Errorf("took %v", time.Since(began))
					}
					if sig == syscall.SIGKILL {
						return
					}
					if last := eventOf(events(t, res.Stderr), "sandbox.exited"); last.ExitCode == nil || *last.ExitCode != res.Code || res.Code != 128+int(sig) {
						t.Errorf("exit code %d, final record %+v", res.Code, last)
					}
				})
			}
		}
	})
}

// TestReportA7_OrphansAreReaped: hundreds of processes whose parent is gone, and
// the codes of the parents.
func TestReportA7_OrphansAreReaped(t *testing.T) {
	t.Parallel()
	y := yard.Unprivileged(t)
	const script = `import os, time
bad = 0
for i in range(10):
    if os.fork() == 0:
        for j in range(25):
            if os.fork() == 0:
                time.sleep(0.1)
                os._exit(0)
        os._exit(i)
    _, status = os.wait()
    bad += os.waitstatus_to_exitcode(status) != i
end = time.time() + 10
while True:
    zombies = 0
    for p in filter(str.isdigit, os.listdir("/proc")):
        try:
            zombies += open("/proc/%s/stat" % p).read().rsplit(")", 1)[1].split()[0] == "Z"
        except OSError:
            pass
    if zombies == 0 or time.time() > end:
        break
    time.sleep(0.1)
print("bad", bad, "zombies", zombies)
`
	y.Write(t, "orphans.py", script)
	if r := y.Run(t, "run", "-q", "--", "python3", "orphans.py").OK(t); r.Stdout != "bad 0 zombies 0\n" {
		t.Errorf("got %q", r.Stdout)
	}
}

// TestReportA9_OutputIsExact at sizes around a round number.
func TestReportA9_OutputIsExact(t *testing.T) {
	t.Parallel()
	y := yard.Unprivileged(t)
	for _, n := range []int{10 << 20, 10<<20 + 1} {
		r := y.Sh(t, fmt.Sprintf("head -c %d /dev/zero; head -c %d /dev/zero >&2", n, n), "-q").OK(t)
		if len(r.Stdout) != n || len(r.Stderr) != n {
			t.Errorf("%d and %d bytes, want %d", len(r.Stdout), len(r.Stderr), n)
		}
	}
}

// TestReportA11_BackgroundLivesAsLongAsTheSandbox and no longer.
func TestReportA11_BackgroundLivesAsLongAsTheSandbox(t *testing.T) {
	y := yard.Unprivileged(t)
	clean := nothingLeft(t, y)
	r := y.Start(t, "run", "-q", "--name", "dev", "--", "sh", "-c", "echo up; cat")
	r.Await(t, "up")
	y.Run(t, "exec", "dev", "--", "sh", "-c", "setsid sh -c 'while :; do date > beat; sleep 0.1; done' >/dev/null 2>&1 </dev/null &").OK(t)
	first := ""
	yard.Eventually(t, yard.Timeout, func() bool {
		b, err := os.Stat(filepath.Join(y.Dir, "beat"))
		if err != nil {
			return false
		}
		now := b.ModTime().String()
		if first == "" {
			first = now
		}
		return now != first
	}, func() string { return "the server of an ended command does not live" })
	_ = r.Stdin.Close()
	r.Wait(t, 10*time.Second).Exit(t, 0)
	clean()
	last := beat(t, y, "beat")
	<-time.After(300 * time.Millisecond)
	if beat(t, y, "beat") != last {
		t.Error("it lives after the sandbox")
	}
}

// TestReportF1_NoUserNamespaces: where the system forbids them nothing runs,
// and the message has the mend.
func TestReportF1_NoUserNamespaces(t *testing.T) {
	t.Parallel()
	y := yard.Unprivileged(t)
	forbid := exec.CommandContext(t.Context(), "unshare", "-Ur", "sh", "-c", `echo 0 > /proc/sys/user/max_user_namespaces; exec "$1" run -q -- touch started`, "-", y.Bin)
	c := y.Command(t.Context())
	forbid.Dir, forbid.Env, forbid.SysProcAttr = c.Dir, c.Env, c.SysProcAttr
	var stderr bytes.Buffer
	forbid.Stderr = &stderr
	out, _ := forbid.Output()
	refused(t, y, yard.Result{Code: forbid.ProcessState.ExitCode(), Stdout: string(out), Stderr: stderr.String()}, "namespace", "max_user_namespaces")
}

// TestReportF5_WorksOffline: without any network there is nothing to miss.
func TestReportF5_WorksOffline(t *testing.T) {
	t.Parallel()
	y := yard.Root(t)
	c := exec.CommandContext(t.Context(), "unshare", "-n", y.Bin, "run", "-q", "--", "echo", "offline")
	own := y.Command(t.Context())
	c.Dir, c.Env = own.Dir, own.Env
	if out, err := c.Output(); err != nil || string(out) != "offline\n" {
		t.Errorf("%q, %v", out, err)
	}
}

// TestReportF11_AHundredAtOnce all succeed.
func TestReportF11_AHundredAtOnce(t *testing.T) {
	y := yard.Unprivileged(t)
	clean := nothingLeft(t, y)
	if err := os.Mkdir(filepath.Join(y.Dir, "go"), 0o755); err != nil {
		t.Fatal(err)
	}
	const count = 100
	var wg sync.WaitGroup
	for i := range count {
		wg.Go(func() {
			c := y.Command(t.Context(), "run", "-q", "--memory", "256M", "--read-only", "--", "echo", "ok")
			var stderr bytes.Buffer
			c.Stderr = &stderr
			out, err := c.Output()
			if err != nil || string(out) != "ok\n" {
				t.Errorf("run %d: %q, %v: %s", i, out, err, stderr.String())
			}
		})
	}
	wg.Wait()
	clean()
}
