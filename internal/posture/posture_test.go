package posture_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey/internal/posture"
)

// deviants is, for every field that is compared, one value that must be found.
func deviants() map[string]any {
	return map[string]any{
		"UIDs": []int{0, 0, 0, 0}, "GIDs": []int{0, 0, 0, 0}, "Groups": []int{27},
		"Caps": posture.Caps{Effective: 1}, "NoNewPrivs": false, "Seccomp": 0, "Dumpable": posture.No,
		"Namespaces": map[string]string{"user": "shared"}, "FDs": []string{"host:/etc/shadow"},
		"Mounts": []string{"/mnt/9 8:1:/home rw"}, "Cwd": "/home", "Env": []string{"SECRET"},
		"CoreBytes": "unlimited", "InGroup": false, "Uniform": false,
	}
}

func config() posture.Config {
	caller := posture.Posture{UIDs: []int{1000, 1000, 1000, 1000}, GIDs: []int{1000, 1000, 1000, 1000}, Groups: []int{}}
	return posture.Config{
		Caller: caller, Sandbox: posture.IDs{UID: 1000, GID: 1000}, Grouped: true,
		Writable: []string{"8:1:/home/u/project"},
	}
}

// TestDiff_FindsEachField makes one deviation at a time. A field that is
// neither compared nor marked as information fails, so that none is forgotten.
func TestDiff_FindsEachField(t *testing.T) {
	want := posture.Expected(posture.Sentry, config())
	if found := posture.Diff(want, want); len(found) > 0 {
		t.Fatalf("the expected posture differs from itself: %v", found)
	}
	bad := deviants()
	typ := reflect.TypeFor[posture.Posture]()
	for i := range typ.NumField() {
		field := typ.Field(i)
		if field.Tag.Get("posture") == "info" {
			continue
		}
		value, ok := bad[field.Name]
		if !ok {
			t.Errorf("field %s is compared and has no deviant here", field.Name)
			continue
		}
		got := want
		reflect.ValueOf(&got).Elem().Field(i).Set(reflect.ValueOf(value))
		found := posture.Diff(got, want)
		if len(found) != 1 || found[0].Field != field.Name {
			t.Errorf("%s = %v: found %v", field.Name, value, found)
		}
		got.Hidden = []string{field.Name}
		if found := posture.Diff(got, want); len(found) > 0 {
			t.Errorf("%s could not be seen and was compared: %v", field.Name, found)
		}
	}
}

// TestPosture_SurvivesTheWay holds that every field leaves the sandbox.
func TestPosture_SurvivesTheWay(t *testing.T) {
	typ := reflect.TypeFor[posture.Posture]()
	for field := range typ.Fields() {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name == "" || name == "-" {
			t.Errorf("field %s has no name in JSON", field.Name)
		}
	}
	p, err := posture.Reader{}.Collect(os.Getpid(), os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var back posture.Posture
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p, back); diff != "" {
		t.Error(diff)
	}
}

// TestDiff_Mounts is about what a helper may have mounted.
func TestDiff_Mounts(t *testing.T) {
	want := posture.Expected(posture.Helper, config())
	for mount, allowed := range map[string]bool{
		"/ own:/ rw": true, "/root/usr 8:1:/usr ro": true, "/mnt/6 8:1:/home/u/project rw": true,
		"/mnt/6/.git/config own:/links/0 rw": true, "/dev/null 0:6:/null rw,suid,dev": true,
		"/proc 0:50:/ rw": true, "/netns 0:4:net:[4026532255] rw,suid,dev": true,

		"/root/usr 8:1:/usr ro,suid": false, "/root/usr 8:1:/usr rw": false, "/mnt/6 8:1:/home/u rw": false,
		"/mnt/6 8:1:/home/u/project2 rw": false, "/old 8:1:/ rw": false, "/sys 0:21:/ ro": false,
		"/proc 0:50:/ rw,suid,dev": false, "/dev/kmsg 0:6:/kmsg rw": false, "/mnt/2 0:30:/ rw": false,
	} {
		got := want
		got.Mounts = []string{mount}
		if ok := len(posture.Diff(got, want)) == 0; ok != allowed {
			t.Errorf("%s: allowed %t, want %t", mount, ok, allowed)
		}
	}
}

// TestCollect_SeesTheDifference changes one thing about a child and reads it.
func TestCollect_SeesTheDifference(t *testing.T) {
	if os.Getuid() != 0 {
		t.Fatal("this test runs as root (see docs/testing.md)")
	}
	plain := child(t, nil)
	if plain.Namespaces["uts"] != "shared" || plain.NoNewPrivs || len(plain.Env) != 1 || plain.Env[0] != "NAME" {
		t.Errorf("a plain child reads %+v", plain)
	}
	if plain.Mounts == nil || len(plain.Mounts) != 0 {
		t.Errorf("mounts of the own namespace are listed: %v", plain.Mounts)
	}
	other := child(t, &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUTS | syscall.CLONE_NEWNS, Credential: &syscall.Credential{Uid: 64000, Gid: 64001},
	})
	if other.Namespaces["uts"] != "own" || other.Namespaces["net"] != "shared" || other.UIDs[1] != 64000 || other.GIDs[3] != 64001 {
		t.Errorf("a child elsewhere reads %+v", other)
	}
	if len(other.Mounts) == 0 || other.Caps.Effective != 0 || other.Dumpable != posture.Yes {
		t.Errorf("mounts %v, caps %x, dumpable %s", other.Mounts, other.Caps.Effective, other.Dumpable)
	}
	leaked := 0
	for _, fd := range other.FDs {
		if strings.HasPrefix(fd, "host:/") || fd == "sandbox" {
			leaked++
		}
	}
	if leaked == 0 {
		t.Errorf("an open file is not listed: %v", other.FDs)
	}
}

// child starts a process that stays, with one variable and one open file.
func child(t *testing.T, attr *syscall.SysProcAttr) posture.Posture {
	t.Helper()
	f, err := os.Open("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	cmd := exec.CommandContext(t.Context(), "/bin/cat")
	cmd.Env, cmd.SysProcAttr, cmd.ExtraFiles = []string{"NAME=value"}, attr, []*os.File{f}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close(); _ = cmd.Wait() }()
	if _, err := in.Write([]byte("x")); err != nil { // it echoes once it is cat
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	p, err := posture.Reader{}.Collect(cmd.Process.Pid, os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestCollect_OneThatEnds: a process that ends while it is read is gone, not a
// failure, at whichever file that shows.
func TestCollect_OneThatEnds(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	ended := "/proc/" + strconv.Itoa(cmd.Process.Pid)
	for state := ""; !strings.Contains(state, ") Z "); { // it is not waited for
		b, err := os.ReadFile(ended + "/stat")
		if err != nil {
			t.Fatal(err)
		}
		state = string(b)
	}
	for _, gone := range []string{"environ", "mountinfo"} {
		dir := t.TempDir()
		own := filepath.Join(dir, strconv.Itoa(os.Getpid()))
		if err := os.Mkdir(own, 0o700); err != nil {
			t.Fatal(err)
		}
		names, err := filepath.Glob("/proc/self/*")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			from := "/proc/" + strconv.Itoa(os.Getpid())
			if filepath.Base(name) == gone {
				from = ended
			}
			if err := os.Symlink(filepath.Join(from, filepath.Base(name)), filepath.Join(own, filepath.Base(name))); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := (posture.Reader{Proc: dir}).Collect(os.Getpid(), os.Getpid()); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", gone, err)
		}
	}
}

// TestExpected_FollowsTheBuildAndTheCaller: what a build with cgo, or a root
// without every capability, has less is expected less of, and no more allowed.
func TestExpected_FollowsTheBuildAndTheCaller(t *testing.T) {
	c := config()
	plain := posture.Expected(posture.Sentry, c)
	c.Cgo = true
	cgo := posture.Expected(posture.Sentry, c)
	if plain.Caps.Effective == 0 || cgo.Caps.Effective != 0 || len(posture.Diff(cgo, plain)) != 2 {
		t.Errorf("%v", posture.Diff(cgo, plain))
	}
	const ptrace = 1 << 19
	all := posture.Caps{Permitted: 1<<41 - 1, Bounding: 1<<41 - 1}
	for name, lacks := range map[string]uint64{"nothing": 0, "ptrace": ptrace} {
		c.Root, c.Caller.Caps = true, all
		c.Caller.Caps.Permitted &^= lacks
		got := posture.Expected(posture.Watchdog, c).Caps
		if want := uint64(posture.WatchdogCaps) &^ lacks; got.Permitted != want || got.Effective != want || got.Bounding != all.Bounding {
			t.Errorf("without %s: %+v", name, got)
		}
	}
}

// TestJudge_MissingRole: a role that is not there is a deviation, too, and so
// is a process of no role.
func TestJudge_MissingRole(t *testing.T) {
	c := config()
	var list []posture.Posture
	for _, role := range []posture.Role{posture.CLI, posture.Watchdog, posture.Helper, posture.Runsc, posture.Gofer, posture.Sentry} {
		list = append(list, posture.Expected(role, c))
	}
	for i := range list { // patterns are no descriptors
		list[i].FDs, list[i].Mounts, list[i].Env = nil, nil, nil
	}
	if found := posture.Judge(list, c); len(found) > 0 {
		t.Errorf("found %v", found)
	}
	if found := posture.Judge(list[:5], c); len(found) != 1 || found[0].Role != posture.Sentry {
		t.Errorf("without the sentry: found %v", found)
	}
	if found := posture.Judge(append(list, posture.Posture{Role: posture.Unknown}), c); len(found) != 1 {
		t.Errorf("with a stranger: found %v", found)
	}
	c.Proxied = true
	if found := posture.Judge(list, c); len(found) != 1 || found[0].Role != posture.Proxy {
		t.Errorf("without the proxy: found %v", found)
	}
}

// TestCollect_TellsAPidfdOfNobody: a handle on a process that is gone is no
// power, one on a process that lives is.
func TestCollect_TellsAPidfdOfNobody(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "/bin/cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.PidfdOpen(cmd.Process.Pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	has := func(kind string) bool {
		p, err := posture.Reader{}.Collect(os.Getpid(), os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		return slices.Contains(p.FDs, kind)
	}
	if !has("anon:pidfd") || has("anon:pidfd of nobody") {
		t.Error("a handle on a living process is not seen as one")
	}
	_ = in.Close()
	_ = cmd.Wait()
	if !has("anon:pidfd of nobody") {
		t.Error("a handle on a process that is gone is not told from another")
	}
}
