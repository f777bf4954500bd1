package spec_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// inspection is what the tests read of `bailey inspect --json`.
type inspection struct {
	Workspace struct {
		Path     string
		Writable bool
	}
	Network struct {
		Mode  string
		Allow []string
	}
	Mounts []struct {
		Source, Target string
		Writable       bool
	}
	Memory    []struct{ Target string }
	Files     []string
	Variables struct{ Passed, Set []string }
	Home      struct {
		Kept bool
		Name string
		New  bool
	}
	Hidden []struct{ What string }
	Limits struct {
		Processes int64
		OpenFiles int64 `json:"open_files"`
	}
	Notes []string
}

func inspectAs(t *testing.T, y *yard.Yard, change func(*exec.Cmd), args ...string) inspection {
	t.Helper()
	var in inspection
	r := y.RunWith(t, change, append([]string{"inspect", "--json"}, args...)...).OK(t)
	if err := json.Unmarshal([]byte(r.Stdout), &in); err != nil {
		t.Fatalf("%v\n%s", err, r.Stdout)
	}
	if strings.Contains(r.Stdout, ": null") {
		t.Errorf("a list that is null:\n%s", r.Stdout)
	}
	return in
}

// TestISO02_InspectSaysWhatARunHas: what inspect says beforehand is what the run
// then has, in mounts, variables, generated files, rules and limits, and its
// header says the same; and inspect has made nothing.
func TestISO02_InspectSaysWhatARunHas(t *testing.T) {
	t.Attr("claim", "ISO-02")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		y.Host(t, "git", "init", "-q")
		with := func(c *exec.Cmd) { c.Env = append(c.Env, "PASSED=canary-value") }
		for _, flags := range [][]string{
			{"--env", "PASSED"},
			{"--home", "h", "--env", "PASSED", "--allow", "example.com", "--pids", "100", "--nofile", "512", "--read-only"},
		} {
			before := everything(t, y)
			in := inspectAs(t, y, with, append(slices.Clone(flags), "--", "sh")...)
			if after := everything(t, y); !slices.Equal(before, after) {
				t.Errorf("inspect has made something: %v, %v", before, after)
			}
			r := y.RunWith(t, with, append(append([]string{"run"}, flags...), "--", "sh", "-c",
				`cat /proc/mounts; echo ==; env; echo ==; for f in $FILES; do :; done; ulimit -u; ulimit -n; echo ==; find /etc /home/agent -type f 2>/dev/null`)...).OK(t)
			parts := strings.Split(r.Stdout, "==\n")
			if len(parts) != 4 {
				t.Fatalf("%q", r.Stdout)
			}
			checkMounts(t, in, parts[0])
			checkVariables(t, in, parts[1])
			if want := []string{"512"}; flags[0] == "--home" && (in.Limits.Processes != 100 || in.Limits.OpenFiles != 512 || !strings.Contains(parts[2], want[0])) {
				t.Errorf("%+v %q", in.Limits, parts[2])
			}
			for _, f := range in.Files {
				if (strings.HasPrefix(f, "/etc/") || strings.HasPrefix(f, "/home/")) && !strings.Contains(parts[3], f+"\n") {
					t.Errorf("the run has no %s", f)
				}
			}
			for _, note := range in.Notes {
				hasAll(t, r.Stderr, note)
			}
			if strings.Contains(strings.Join(in.Notes, ""), "canary-value") {
				t.Error("a value is said")
			}
		}
	})
}

// everything lists the identity's home and runtime folder on the host.
func everything(t *testing.T, y *yard.Yard) (out []string) {
	t.Helper()
	for _, root := range []string{y.Home, y.Dir, y.Variable("XDG_RUNTIME_DIR")} {
		err := filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
			out = append(out, path)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// checkMounts: each place that may be written to outside of the generated root
// is one that was said, and each that was said is there.
func checkMounts(t *testing.T, in inspection, table string) {
	t.Helper()
	said := map[string]bool{}
	for _, m := range in.Mounts {
		said[m.Target] = m.Writable
	}
	for _, m := range in.Memory {
		said[m.Target] = true
	}
	own := []string{"/", "/proc", "/sys", "/dev", "/dev/pts", "/.bailey/private"}
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		at, ro := f[1], slices.Contains(strings.Split(f[3], ","), "ro")
		if slices.Contains(own, at) || slices.ContainsFunc(in.Hidden, func(h struct{ What string }) bool { return strings.HasPrefix(h.What, at) }) {
			continue
		}
		writable, ok := said[at]
		if !ok || writable == ro {
			t.Errorf("%s (read-only: %v) was not said so: %+v", at, ro, in.Mounts)
		}
	}
	for at, writable := range said {
		if writable && !strings.Contains(table, " "+at+" ") {
			t.Errorf("%s is not mounted:\n%s", at, table)
		}
	}
}

func checkVariables(t *testing.T, in inspection, env string) {
	t.Helper()
	var have []string
	for line := range strings.Lines(env) {
		if name, _, ok := strings.Cut(line, "="); ok && name != "PWD" && name != "SHLVL" && name != "_" && name != "OLDPWD" {
			have = append(have, name)
		}
	}
	slices.Sort(have)
	want := slices.Concat(in.Variables.Passed, in.Variables.Set)
	slices.Sort(want)
	if !slices.Equal(have, want) {
		t.Errorf("the run has %v, and inspect said %v", have, want)
	}
	if !slices.Equal(in.Variables.Passed, []string{"PASSED"}) {
		t.Errorf("%v", in.Variables.Passed)
	}
}

// TestInspect_SaysWhatTheHeaderSays: the limits that nothing enforces, and that
// there is no such command. Twin: one that there is.
func TestInspect_SaysWhatTheHeaderSays(t *testing.T) {
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		header := y.Run(t, "run", "--", "true").OK(t).Stderr
		said := y.Run(t, "inspect", "--", "true").OK(t).Stdout
		if strings.Contains(said, "the run would end with") {
			t.Errorf("twin: %s", said)
		}
		for line := range strings.Lines(header) {
			if limit, ok := strings.CutPrefix(strings.TrimSpace(line), "bailey: limit "); ok && !strings.Contains(said, limit) {
				t.Errorf("%q is not in %s", limit, said)
			}
		}
		if said := y.Run(t, "inspect", "--", "no-such-program").OK(t).Stdout; !strings.Contains(said, "command no-such-program not found in the sandbox's PATH: the run would end with exit code 127") {
			t.Error(said)
		}
		if r := y.Run(t, "run", "--quiet", "--", "no-such-program"); r.Code != 127 {
			t.Errorf("%+v", r)
		}
	})
}

// TestInspect_RefusesAsARunDoes: what a run refuses, inspect does.
func TestInspect_RefusesAsARunDoes(t *testing.T) {
	t.Parallel()
	y := yard.Unprivileged(t)
	for _, args := range [][]string{
		{"--env", "NOT_SET", "--", "true"}, {"--allow", "*", "--", "true"}, {"--home", "..", "--", "true"}, {"--memory", "0", "--", "true"}, {},
	} {
		in, r := y.Run(t, append([]string{"inspect"}, args...)...), y.Run(t, append([]string{"run"}, args...)...)
		if in.Code != 125 || r.Code != 125 || in.Stdout != "" {
			t.Errorf("%v: %+v %+v", args, in, r)
		}
	}
}

// TestInspect_SaysWhatIsShown: a file that --show names is not told of as hidden,
// and everything that is shown is told of as less than the default.
func TestInspect_SaysWhatIsShown(t *testing.T) {
	t.Parallel()
	y := yard.Unprivileged(t)
	type item struct{ What, Why string }
	look := func(show ...string) (in struct{ Hidden, Weakened []item }) {
		t.Helper()
		r := y.Run(t, slices.Concat([]string{"inspect", "--json"}, show, []string{"--", "true"})...).OK(t)
		if err := json.Unmarshal([]byte(r.Stdout), &in); err != nil {
			t.Fatal(err)
		}
		return in
	}
	why := func(list []item) (all string) {
		for _, x := range list {
			if x.What == ".env" {
				all += x.Why
			}
		}
		return all
	}
	if got := why(look().Hidden); !strings.HasPrefix(got, "usually holds secrets") {
		t.Errorf("without --show: %q", got)
	}
	if got := why(look("--show", ".env").Hidden); !strings.HasPrefix(got, "not hidden") {
		t.Errorf("with it: %q", got)
	}
	if in := look("--show", "*"); len(in.Weakened) != 1 || why(in.Hidden) != "" {
		t.Errorf("with everything: %+v", in)
	}
	if in := look(); len(in.Weakened) != 0 {
		t.Errorf("by default: %+v", in.Weakened)
	}
}

// TestNative_RefusesWhatIsGvisors: a flag that nothing but gVisor can follow is
// no word of the header of a sandbox that has it not.
func TestNative_RefusesWhatIsGvisors(t *testing.T) {
	t.Parallel()
	y := yard.Unprivileged(t)
	for _, flag := range []string{"--allow-nested-userns", "--insecure-keep-root", "--runtime-arg=strace"} {
		r := y.Run(t, "run", "--runtime", "native", flag, "--", "true").Exit(t, 125)
		hasAll(t, r.Stderr, "is about gVisor", "hint: ")
	}
}

// TestHome_PinOfNothing: a pin that names no setting is told of.
func TestHome_PinOfNothing(t *testing.T) {
	t.Parallel()
	y := yard.Unprivileged(t)
	const told = "neither the host's settings"
	r := y.RunWith(t, withAgents(t), "inspect", "--pin", "no.such.key", "claude").OK(t)
	hasAll(t, r.Stdout, told)
	y.WriteHome(t, ".claude/settings.json", `{"model": "m"}`)
	r = y.RunWith(t, withAgents(t), "inspect", "--pin", "model", "claude").OK(t)
	hasNone(t, r.Stdout, told)
}
