package cgroup_test

import (
	"errors"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey/internal/linux/cgroup"
)

// fake is a made-up machine with cgroups of version 2: a folder tree with the
// kernel's file names. It stands in for a kernel that this machine is not; it
// shows what is written where, not that a kernel obeys.
type fake struct {
	t    *testing.T
	root string // the mount
	proc string
}

func newFake(t *testing.T, own string) fake {
	t.Helper()
	f := fake{t: t, root: path.Join(t.TempDir(), "cgroup fs"), proc: t.TempDir()}
	f.write(path.Join(f.proc, "self/mountinfo"),
		"21 1 0:5 / /proc rw,relatime - proc proc rw\n"+
			"30 21 0:26 / "+strings.ReplaceAll(f.root, " ", `\040`)+" rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n")
	f.write(path.Join(f.proc, "self/cgroup"), "0::"+own+"\n")
	f.group("/", "cpu memory pids", "memory pids")
	return f
}

func (f fake) write(name, text string) {
	f.t.Helper()
	if err := os.MkdirAll(path.Dir(name), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

func (f fake) read(name string) string {
	b, err := os.ReadFile(path.Join(f.root, name))
	if err != nil {
		return "none"
	}
	return string(b)
}

// group makes a group with its files; the controllers are those it has and
// those it hands down.
func (f fake) group(name, has, handsDown string) {
	f.t.Helper()
	dir := path.Join(f.root, name)
	for file, text := range map[string]string{
		"cgroup.procs": "", "cgroup.controllers": has, "cgroup.subtree_control": handsDown,
	} {
		f.write(path.Join(dir, file), text)
	}
	for _, file := range map[string][]string{
		"memory": {"memory.max", "memory.swap.max", "memory.events"}, "cpu": {"cpu.max"}, "pids": {"pids.max"},
	} {
		if strings.Contains(has, strings.SplitN(file[0], ".", 2)[0]) {
			for _, name := range file {
				f.write(path.Join(dir, name), "")
			}
		}
	}
}

// mkdir makes a group as the kernel does: it has what its parent hands down.
// A group of bailey's own hands nothing down yet.
func (f fake) mkdir(has string) func(string) error {
	return func(dir string) error {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		f.group(strings.TrimPrefix(dir, f.root), has, "")
		return nil
	}
}

func (f fake) find(cfg cgroup.Config) *cgroup.Group {
	f.t.Helper()
	cfg.ID, cfg.Proc = "sbx_1", f.proc
	cfg.Limits = cgroup.Limits{MemoryBytes: 1 << 30, MilliCPUs: 1500, Tasks: 4096}
	g, err := cgroup.Find(cfg)
	if err != nil {
		f.t.Fatal(err)
	}
	return g
}

func TestVersion2_AllDelegated(t *testing.T) {
	t.Parallel()
	f := newFake(t, "/user.slice/app.slice/terminal.scope")
	f.group("/user.slice", "cpu memory pids", "cpu memory pids")
	f.group("/user.slice/app.slice", "cpu memory pids", "memory pids")
	f.group("/user.slice/app.slice/terminal.scope", "memory pids", "")
	g := f.find(cgroup.Config{})
	at := "/user.slice/app.slice/bailey/sbx_1"
	if diff := cmp.Diff(cgroup.Place{Version: 2, Dirs: []string{f.root + at}}, g.Place()); diff != "" {
		t.Fatal(diff)
	}
	if _, err := os.Stat(f.root + path.Dir(at)); err == nil {
		t.Error("Find made a folder")
	}
	g.SetMakeDir(f.mkdir("cpu memory pids"))
	if err := g.Create(); err != nil {
		t.Fatal(err)
	}
	if err := g.AddProcess(4242); err != nil {
		t.Error(err)
	}
	got := map[string]string{}
	for _, file := range []string{"memory.max", "memory.swap.max", "cpu.max", "pids.max", "cgroup.procs"} {
		got[file] = f.read(at + "/" + file)
	}
	want := map[string]string{
		"memory.max": "1073741824", "memory.swap.max": "0", "cpu.max": "150000 100000", "pids.max": "4096", "cgroup.procs": "4242",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, s := range g.Statuses() {
		if !s.Enforced || s.Why != "" {
			t.Errorf("%+v", s)
		}
	}
	f.write(f.root+at+"/memory.events", "low 0\nhigh 0\nmax 7\noom 2\noom_kill 3\noom_group_kill 1\n")
	if n, err := g.OOMKills(); n != 3 || err != nil {
		t.Errorf("out-of-memory kills: %d, %v; want 3", n, err)
	}
}

func TestVersion2_AControllerIsNotDelegated(t *testing.T) {
	t.Parallel()
	f := newFake(t, "/user.slice/terminal.scope")
	f.group("/user.slice", "cpu memory pids", "memory pids")
	f.group("/user.slice/terminal.scope", "memory pids", "")
	g := f.find(cgroup.Config{})
	g.SetMakeDir(f.mkdir("memory pids"))
	if err := g.Create(); err != nil {
		t.Fatal(err)
	}
	want := []cgroup.Status{
		{Limit: cgroup.Memory, Enforced: true},
		{Limit: cgroup.CPU, Why: "the cpu controller is not delegated to " + f.root + "/user.slice"},
		{Limit: cgroup.Tasks, Enforced: true},
	}
	if diff := cmp.Diff(want, g.Statuses()); diff != "" {
		t.Error(diff)
	}
}

func TestVersion2_AHint(t *testing.T) {
	t.Parallel()
	f := newFake(t, "/other")
	f.group("/given", "memory", "memory")
	g := f.find(cgroup.Config{Parent: f.root + "/given"})
	if diff := cmp.Diff([]string{f.root + "/given/bailey/sbx_1"}, g.Place().Dirs); diff != "" {
		t.Error(diff)
	}
	g = f.find(cgroup.Config{Parent: f.root + "/absent"})
	if g.Place().Version != 0 || !strings.Contains(g.Statuses()[0].Why, "/absent is not delegated") {
		t.Errorf("a hint that does not exist: %+v, %+v", g.Place(), g.Statuses())
	}
}

func TestNoCgroupAtAll(t *testing.T) {
	t.Parallel()
	f := newFake(t, "/")
	f.write(f.proc+"/self/mountinfo", "21 1 0:5 / /proc rw - proc proc rw\nnonsense\n\n - \n")
	g := f.find(cgroup.Config{})
	if err := errors.Join(g.Create(), g.AddProcess(1), g.Kill(), g.Remove()); err != nil {
		t.Fatal(err)
	}
	for _, s := range g.Statuses() {
		if s.Enforced || s.Why != "this machine mounts no cgroup" {
			t.Errorf("%+v", s)
		}
	}
	if n, err := g.OOMKills(); n != 0 || err != nil {
		t.Errorf("out-of-memory kills: %d, %v", n, err)
	}
}

func TestFind_RefusesAnIDThatIsNoName(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", ".", "..", "a/b", "/", "a\x00", "a\n"} {
		if _, err := cgroup.Find(cgroup.Config{ID: id}); err == nil {
			t.Errorf("%q was taken", id)
		}
	}
}

// TestFind_ForAnotherProcess: what is delegated depends on where the process
// is that makes the group.
func TestFind_ForAnotherProcess(t *testing.T) {
	t.Parallel()
	f := newFake(t, "/../elsewhere") // out of sight: nothing is delegated there
	f.group("/scope", "cpu memory pids", "cpu memory pids")
	f.group("/scope/shell", "cpu memory pids", "")
	mounts, err := os.ReadFile(path.Join(f.proc, "self/mountinfo"))
	if err != nil {
		t.Fatal(err)
	}
	f.write(path.Join(f.proc, "7/mountinfo"), string(mounts))
	f.write(path.Join(f.proc, "7/cgroup"), "0::/scope/shell\n")
	if g := f.find(cgroup.Config{PID: 7}); g.Place().Version != 2 || !strings.HasPrefix(g.Place().Dirs[0], f.root+"/scope/") {
		t.Errorf("of the process in the scope: %+v", g.Place())
	}
	if g := f.find(cgroup.Config{}); g.Place().Version != 0 {
		t.Errorf("of this one: %+v", g.Place())
	}
}
