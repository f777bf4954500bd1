package spec_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/posture"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// TestISO15_Posture compares everything that the kernel tells about each
// process of a run with what it must be: root and not, with a network, and
// with a model and without a network. The twin of every field is in internal/posture, where one deviation
// at a time is made and found.
func TestISO15_Posture(t *testing.T) {
	t.Attr("claim", "ISO-15")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		for _, net := range []bailey.NetMode{bailey.NetNone, bailey.NetAllow} {
			t.Run(net.String(), func(t *testing.T) {
				if net == bailey.NetNone {
					newModelWorld(t, y, "anthropic", nil, answered)
				}
				r, inside, leaked := startPosture(t, y, net)
				list := confinedRoles(t, r.Cmd.Process.Pid)
				c := expectedOf(t, y, list, net)
				for _, d := range posture.Judge(append(list, inside.Self, inside.First), c) {
					t.Error(d)
				}
				compared(t, list, inside)
				for _, p := range list {
					if p.Role != posture.CLI && slices.Contains(openFDs(t, p.PID), leaked) {
						t.Errorf("%s holds a descriptor that the caller had open", p.Role)
					}
				}
				if !slices.Contains(openFDs(t, r.Cmd.Process.Pid), leaked) {
					t.Error("twin: the caller did not hand on a descriptor")
				}
				_ = r.Stdin.Close()
				r.Wait(t, yard.Timeout)
			})
		}
	})
}

// confinedRoles returns the processes of a run once those that face strangers
// are confined, which they are before they serve anybody.
func confinedRoles(t *testing.T, holder int) (list []posture.Posture) {
	t.Helper()
	yard.Eventually(t, yard.Timeout, func() bool {
		var err error
		if list, err = (posture.Reader{}).Run(holder); err != nil {
			t.Fatal(err)
		}
		return !slices.ContainsFunc(list, func(p posture.Posture) bool {
			return (p.Role == posture.Proxy || p.Role == posture.Gateway) && p.Seccomp == 0
		})
	}, func() string { return "a role that faces strangers has no filter" })
	return list
}

// compared fails if something was not: what a reader cannot see is passed over.
// This one is root, so only the first process keeps something from it, which
// the command inside may not read; that this is so is the point there.
func compared(t *testing.T, list []posture.Posture, inside posture.Report) {
	t.Helper()
	for _, p := range append(slices.Clone(list), inside.Self) {
		if len(p.Hidden) > 0 {
			t.Errorf("%s: %v could not be read", p.Role, p.Hidden)
		}
		if p.Dumpable == posture.Unseen && p.UIDs[1] != 0 { // of root's own it cannot be told
			t.Errorf("%s: whether it can be traced was not seen", p.Role)
		}
		if len(p.FDs) == 0 || p.Cwd == "" || p.CoreBytes == "" || len(p.UIDs) != 4 || p.Threads == 0 {
			t.Errorf("%s is half read: %+v", p.Role, p)
		}
	}
	if want := []string{"FDs", "Root", "Cwd", "Env"}; !slices.Equal(inside.First.Hidden, want) || inside.First.Dumpable != posture.No {
		t.Errorf("the first process hides %v from a command, want %v; dumpable: %s", inside.First.Hidden, want, inside.First.Dumpable)
	}
}

// startPosture starts a sandbox whose command tells its posture and stays. The
// caller has a descriptor open that it would pass on, and variables.
func startPosture(t *testing.T, y *yard.Yard, net bailey.NetMode) (r *yard.Running, report posture.Report, leaked string) {
	t.Helper()
	args := []string{"run", "--quiet", "--name", "posture-" + net.String(), "--env", "NAMED=value"}
	if net == bailey.NetAllow {
		args = append(args, "--allow", "example.com")
	} else {
		args = append(args, "--model", "small")
	}
	wrap := y.Wrap
	y.Wrap = func(cmd *exec.Cmd) {
		if wrap != nil {
			wrap(cmd)
		}
		cmd.Env = append(cmd.Env, "CALLER_SECRET=value")
		end, other, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = end.Close(); _ = other.Close() })
		leaked = link(t, os.Getpid(), fmt.Sprintf("fd/%d", end.Fd()))
		cmd.ExtraFiles = append(cmd.ExtraFiles, nil, end) // descriptor 4, as a careless supervisor would
	}
	t.Cleanup(func() { y.Wrap = wrap })
	r = y.Start(t, append(args, "--", "/.bailey/bailey", posture.Arg)...)
	r.Await(t, "\n")
	out, _ := r.Output()
	if err := json.NewDecoder(strings.NewReader(out)).Decode(&report); err != nil {
		t.Fatalf("posture inside: %v\n%s", err, out)
	}
	return r, report, leaked
}

func expectedOf(t *testing.T, y *yard.Yard, list []posture.Posture, net bailey.NetMode) posture.Config {
	t.Helper()
	id := sandboxID(t, y)
	source, err := posture.Reader{}.Source(list[0].PID, y.Dir)
	if err != nil {
		t.Fatal(err)
	}
	c := posture.Config{
		Caller: list[0], Sandbox: posture.IDs{UID: y.UID, GID: y.GID}, Proxy: posture.IDs{UID: y.UID, GID: y.GID}, Gateway: posture.IDs{UID: y.UID, GID: y.GID},
		Inside: posture.IDs{UID: y.UID, GID: y.GID}, Writable: []string{source}, Proxied: net != bailey.NetNone,
		Modelled: net == bailey.NetNone,
		AllCaps:  posture.Reader{}.AllCaps(), Names: []string{"NAMED", "ANTHROPIC_BASE_URL", "ANTHROPIC_AUTH_TOKEN"}, Own: []string{y.Dir}, Cwd: y.Dir,
	}
	if y.UID == 0 {
		c.Root, c.Grouped = true, true
		n := unusedID(t, id)
		c.Sandbox, c.Proxy = posture.IDs{UID: n, GID: n}, posture.IDs{UID: n ^ 0x800000, GID: n ^ 0x800000}
		c.Gateway = posture.IDs{UID: n ^ 0x400000, GID: n ^ 0x400000}
		c.Inside = posture.IDs{UID: 1000, GID: 1000}
	}
	return c
}

// sandboxID asks bailey for the id of its one sandbox.
func sandboxID(t *testing.T, y *yard.Yard) bailey.SandboxID {
	t.Helper()
	var rows []struct {
		ID bailey.SandboxID `json:"id"`
	}
	out := y.Run(t, "ps", "--json").OK(t).Stdout
	if err := json.Unmarshal([]byte(out), &rows); err != nil || len(rows) != 1 || !rows[0].ID.Valid() {
		t.Fatalf("bailey ps: %v\n%s", err, out)
	}
	return rows[0].ID
}

// unusedID is the id that a root caller's sandbox has on the host: the last 24
// bits of its own id above a range that nobody gives out.
func unusedID(t *testing.T, id bailey.SandboxID) int {
	t.Helper()
	n, err := strconv.ParseInt(string(id[len(id)-6:]), 16, 32)
	if err != nil {
		t.Fatal(err)
	}
	return 0x70000000 + int(n)
}
