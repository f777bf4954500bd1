package spec_test

import (
	"encoding/json"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/engine/local"
	"github.com/bailey-dev/bailey/internal/posture"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// TestISO15_Posture compares everything that the kernel tells about each
// process of a run with what it must be: root and not, with a network and
// without. The twin of every field is in internal/posture, where one deviation
// at a time is made and found.
func TestISO15_Posture(t *testing.T) {
	t.Attr("claim", "ISO-15")
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		for _, net := range []bailey.NetMode{bailey.NetNone, bailey.NetAllow} {
			t.Run(net.String(), func(t *testing.T) {
				r, inside := startPosture(t, y, net)
				list, err := posture.Reader{}.Run(r.Cmd.Process.Pid)
				if err != nil {
					t.Fatal(err)
				}
				c := expectedOf(t, y, list, net)
				for _, d := range posture.Judge(append(list, inside.Self, inside.First), c) {
					t.Error(d)
				}
				hidden(t, list)
				_ = r.Stdin.Close()
				r.Wait(t, yard.Timeout)
			})
		}
	})
}

// hidden fails if this reader, which is root, could not see everything: the
// comparison would not be exhaustive.
func hidden(t *testing.T, list []posture.Posture) {
	t.Helper()
	for _, p := range list {
		if len(p.Hidden) > 0 {
			t.Errorf("%s: %v could not be read", p.Role, p.Hidden)
		}
	}
}

// startPosture starts a sandbox whose command tells its posture and stays. The
// caller has a descriptor open that it would pass on, and variables.
func startPosture(t *testing.T, y *yard.Yard, net bailey.NetMode) (*yard.Running, posture.Report) {
	t.Helper()
	args := []string{"run", "--quiet", "--name", "posture-" + net.String(), "--env", "NAMED=value"}
	if net == bailey.NetAllow {
		args = append(args, "--allow", "example.com")
	}
	wrap := y.Wrap
	y.Wrap = func(cmd *exec.Cmd) {
		if wrap != nil {
			wrap(cmd)
		}
		cmd.Env = append(cmd.Env, "CALLER_SECRET=value")
		leaked, other, err := pipeFiles()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = leaked.Close(); _ = other.Close() })
		cmd.ExtraFiles = append(cmd.ExtraFiles, nil, leaked) // descriptor 4, as a careless supervisor would
	}
	t.Cleanup(func() { y.Wrap = wrap })
	r := y.Start(t, append(args, "--", "/.bailey/bailey", posture.Arg)...)
	r.Await(t, "\n")
	out, _ := r.Output()
	var report posture.Report
	if err := json.NewDecoder(strings.NewReader(out)).Decode(&report); err != nil {
		t.Fatalf("posture inside: %v\n%s", err, out)
	}
	return r, report
}

func expectedOf(t *testing.T, y *yard.Yard, list []posture.Posture, net bailey.NetMode) posture.Config {
	t.Helper()
	id := sandboxID(t, list)
	source, err := posture.Reader{}.Source(list[0].PID, y.Dir)
	if err != nil {
		t.Fatal(err)
	}
	c := posture.Config{
		Caller: list[0], Sandbox: posture.IDs{UID: y.UID, GID: y.GID}, Proxy: posture.IDs{UID: y.UID, GID: y.GID},
		Inside: posture.IDs{UID: y.UID, GID: y.GID}, Writable: []string{source}, Proxied: net != bailey.NetNone,
		AllCaps: posture.Reader{}.AllCaps(), Names: []string{"NAMED"}, Own: []string{y.Dir}, Cwd: y.Dir,
	}
	if y.UID == 0 {
		c.Root, c.Grouped = true, true
		n := local.UnusedID(id)
		c.Sandbox, c.Proxy = posture.IDs{UID: n, GID: n}, posture.IDs{UID: n ^ 0x800000, GID: n ^ 0x800000}
		c.Inside = posture.IDs{UID: 1000, GID: 1000}
	}
	return c
}

// sandboxID finds the id of the run in the argv of gVisor's processes.
func sandboxID(t *testing.T, list []posture.Posture) bailey.SandboxID {
	t.Helper()
	for _, p := range list {
		if p.Role != posture.Runsc {
			continue
		}
		args := strings.Split(readProc(t, p.PID, "cmdline"), "\x00")
		for _, a := range args {
			if id := bailey.SandboxID(filepath.Base(a)); id.Valid() {
				return id
			}
		}
	}
	t.Fatal("no runsc process with a sandbox id")
	return ""
}

var _ = io.EOF
var _ = time.Second
