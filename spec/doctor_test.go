package spec_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey/internal/posture"
	"github.com/bailey-dev/bailey/internal/role"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// TestDoctor_OfAHealthyMachine: on a machine that has every layer it says so of
// each, starts what it says it started, and leaves nothing.
func TestDoctor_OfAHealthyMachine(t *testing.T) {
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		y.Host(t, "git", "init", "-q", ".")
		clean := nothingLeft(t, y)
		var report struct {
			OK     bool `json:"ok"`
			Layers []struct{ Layer, Status, Detail, Fix string }
		}
		r := y.Run(t, "doctor", "--json").OK(t)
		if err := json.Unmarshal([]byte(r.Stdout), &report); err != nil || !report.OK {
			t.Fatalf("%v: %s", err, r.Stdout)
		}
		seen := map[string]string{}
		for _, l := range report.Layers {
			seen[l.Layer] = l.Detail
			warns := l.Layer == "cgroups" && y.UID != 0 || l.Layer == "landlock" // an ordinary user has no cgroup here
			if l.Status != "ok" && (l.Status != "warn" || !warns) {
				t.Errorf("%s is %s: %s", l.Layer, l.Status, l.Detail)
			}
		}
		for layer, says := range map[string]string{
			"kernel": "Linux", "user namespaces": "one was made", "mount api": "mount_setattr", "proc": "whole", "seccomp": "trap",
			"cgroups": "", "terminal": "", "airlock": "read back", "gvisor": "started and ended", "posture": "what it must be", "workspace": "clean",
		} {
			if detail, ok := seen[layer]; !ok || !strings.Contains(detail, says) {
				t.Errorf("%s: %q, want %q", layer, detail, says)
			}
		}
		clean()
		y.Write(t, "new", "x")
		if r := y.Run(t, "doctor").OK(t); !strings.Contains(r.Stdout, "uncommitted changes in 1 files") {
			t.Errorf("twin: a changed checkout: %s", r.Stdout)
		}
		// Where bailey run would refuse the folder the machine is sound and the
		// answer is no.
		for _, dir := range []string{y.Home, "/"} {
			r := y.RunWith(t, func(c *exec.Cmd) { c.Dir = dir }, "doctor").Exit(t, 1)
			for _, says := range []string{"workspace        missing", dir + " may not be a workspace", "started and ended", "fix: run bailey in the folder of one project"} {
				if !strings.Contains(r.Stdout, says) {
					t.Errorf("in %s: no %q in %s", dir, says, r.Stdout)
				}
			}
		}
	})
}

// live is what `bailey doctor --live` says as JSON.
type live struct {
	OK         bool                `json:"ok"`
	Processes  []posture.Posture   `json:"processes"`
	Deviations []posture.Deviation `json:"deviations"`
}

func liveOf(t *testing.T, y *yard.Yard, code int) live {
	t.Helper()
	var report live
	r := y.Run(t, "doctor", "--live", "seen", "--json").Exit(t, code)
	if err := json.Unmarshal([]byte(r.Stdout), &report); err != nil || report.OK != (code == 0) {
		t.Fatalf("%v: %s", err, r.Stdout)
	}
	return report
}

// TestISO15_DoctorLive compares a running sandbox: a sound one is found sound,
// TestISO15_DoctorLiveOfWhatIsOpened: what a person opened by a flag is
// expected, in both runtimes, and nothing beside it.
func TestISO15_DoctorLiveOfWhatIsOpened(t *testing.T) {
	t.Attr("claim", "ISO-15")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		file, folder := y.WriteHome(t, "given/file", "x\n"), filepath.Dir(y.WriteHome(t, "folder/x", ""))
		opened := []string{"--home", "kept", "--mount", folder + ":/mnt/folder:rw", "--mount", file + ":/mnt/file:rw"}
		for _, flags := range [][]string{opened, append(opened, "--insecure-keep-root"), append(opened, "--runtime", "native")} {
			r := y.Start(t, slices.Concat([]string{"run", "-q", "--name", "seen"}, flags, []string{"--", "sh", "-c", "echo up; cat"})...)
			r.Await(t, "up")
			report := liveOf(t, y, 0)
			if c := find(t, report.Processes, posture.Command); len(c.Mounts) == 0 {
				t.Errorf("%q: nothing is known of mounts", flags)
			}
			_ = r.Stdin.Close()
			r.Wait(t, yard.Timeout).OK(t)
		}
	})
}

// with every role looked at, and one whose process was changed is not.
func TestISO15_DoctorLive(t *testing.T) {
	t.Attr("claim", "ISO-15")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		for _, net := range [][]string{{"--net", "none"}, {"--allow", "example.com"}} {
			r := y.Start(t, slices.Concat([]string{"run", "-q", "--name", "seen"}, net, []string{"--", "sh", "-c", "echo up; cat"})...)
			r.Await(t, "up")
			report := liveOf(t, y, 0)
			roles := []posture.Role{posture.CLI, posture.Watchdog, posture.Helper, posture.Runsc, posture.Gofer, posture.Sentry, posture.First, posture.Command}
			if net[0] == "--allow" {
				roles = append(roles, posture.Proxy)
			}
			for _, role := range roles {
				find(t, report.Processes, role)
			}
			if human := y.Run(t, "doctor", "--live", "seen").OK(t).Stdout; strings.Count(human, "what it must be") < len(roles) {
				t.Errorf("for a person it says:\n%s", human)
			}
			if y.UID == 0 { // an ordinary user's has no cgroup here
				outOfItsGroup(t, childNamed(t, r.Cmd.Process.Pid, role.Helper))
				isFound(t, liveOf(t, y, 1), posture.Helper, "InGroup")
			}
			_ = r.Stdin.Close()
			r.Wait(t, yard.Timeout).OK(t)
		}
		// One that keeps gVisor's logs has a folder mounted that doctor, not told
		// of it, does not expect.
		debug := filepath.Join(filepath.Dir(y.Dir), "debug")
		mkdirFor(t, y, filepath.Dir(y.Dir), debug)
		wrap := y.Wrap
		y.Wrap = func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, "BAILEY_DEBUG="+debug) }
		r := y.Start(t, "run", "-q", "--name", "seen", "--", "sh", "-c", "echo up; cat")
		y.Wrap = wrap
		r.Await(t, "up")
		isFound(t, liveOf(t, y, 1), posture.Helper, "Mounts")
		_ = r.Stdin.Close()
		r.Wait(t, yard.Timeout).OK(t)
		var many strings.Builder // names, which are told, take more than a pipe holds
		for i := range 5000 {
			fmt.Fprintf(&many, "A_VARIABLE_WITH_A_NAME_%d=x\n", i)
		}
		r = y.Start(t, "run", "-q", "--name", "seen", "--env-file", y.Write(t, "many", many.String()), "--", "sh", "-c", "echo up; cat")
		r.Await(t, "up")
		if n := len(find(t, liveOf(t, y, 0).Processes, posture.Command).Env); n < 5000 {
			t.Errorf("%d variables are told", n)
		}
	})
}

// isFound fails unless a field of a role is a deviation.
func isFound(t *testing.T, report live, role posture.Role, field string) {
	t.Helper()
	if !slices.ContainsFunc(report.Deviations, func(d posture.Deviation) bool { return d.Role == role && d.Field == field }) {
		t.Errorf("%s of the %s is not found to be changed: %+v", field, role, report.Deviations)
	}
}

// outOfItsGroup moves a process of root's sandbox to the root of every cgroup.
func outOfItsGroup(t *testing.T, pid int) {
	t.Helper()
	for line := range strings.Lines(readProc(t, pid, "cgroup")) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 || !strings.Contains(f[2], "sbx_") {
			continue
		}
		if err := os.WriteFile("/sys/fs/cgroup/"+f[1]+"/cgroup.procs", []byte(strconv.Itoa(pid)), 0); err != nil {
			t.Fatal(err)
		}
	}
}
