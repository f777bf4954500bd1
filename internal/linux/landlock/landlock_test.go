package landlock_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey/internal/linux/harden"
	"github.com/bailey-dev/bailey/internal/linux/landlock"
)

// TestMain doubles as the process that gets confined: it cannot be undone, so
// it cannot be this one.
func TestMain(m *testing.M) {
	if dir := os.Getenv("CONFINED_DIR"); dir != "" {
		os.Exit(confined(dir, os.Getenv("CONFINED_HOST")))
	}
	if dir := os.Getenv("FOLDER_DIR"); dir != "" {
		os.Exit(inFolder(dir, os.Getenv("CONFINED_HOST")))
	}
	if dir := os.Getenv("SANDBOX_DIR"); dir != "" {
		os.Exit(inSandbox(dir))
	}
	os.Exit(m.Run())
}

func confined(dir, host string) int {
	if os.Getenv("CONFINED_NOT") == "" {
		if err := harden.Process(); err != nil {
			fmt.Println("harden:", err)
			return 1
		}
		if err := landlock.Confine([]string{dir + "/readable", dir + "/missing"}, []string{dir + "/folder"}); err != nil {
			fmt.Println("confine:", err)
			return 1
		}
	}
	report := func(what string, err error) {
		fmt.Println(what, err == nil, errors.Is(err, fs.ErrPermission))
	}
	for _, f := range []string{"readable", "folder/new", "secret"} {
		_, err := os.ReadFile(filepath.Join(dir, f))
		report("read "+f, err)
	}
	report("write", os.WriteFile(dir+"/folder/mine", nil, 0o600))
	report("exec", exec.Command("/bin/true").Run())
	c, err := net.Dial("tcp4", host)
	report("connect", err)
	if err == nil {
		_ = c.Close()
	}
	var plain net.ListenConfig
	plain.SetMultipathTCP(false) // Landlock does not see multipath TCP
	_, err = plain.Listen(context.Background(), "tcp4", "127.0.0.1:0")
	report("bind", err)
	report("signal", unix.Kill(os.Getppid(), 0))
	var lim unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_CORE, &lim)
	dumpable, _ := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	nnp, _ := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	fmt.Println("core", lim.Max == 0, "dumpable", dumpable, "nnp", nnp)
	return 0
}

func TestConfine(t *testing.T) {
	t.Parallel()
	if landlock.Level() < 6 {
		t.Fatalf("Landlock ABI %d: this test needs 6, Linux 6.12", landlock.Level())
	}
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	for _, c := range []struct {
		name string
		env  string
		want []string
	}{
		{"confined", "", []string{
			"read readable true false", "read folder/new true false", "read secret false true",
			"write false true", "exec false true", "connect true false", "bind false true", "signal false true",
			"core true dumpable 0 nnp 1",
		}},
		{"twin: not confined", "CONFINED_NOT=1", []string{
			"read readable true false", "read folder/new true false", "read secret true false",
			"write true false", "exec true false", "connect true false", "bind true false", "signal true false",
		}},
	} {
		dir := t.TempDir()
		if err := os.Mkdir(dir+"/folder", 0o700); err != nil {
			t.Fatal(err)
		}
		for _, f := range []string{"readable", "folder/new", "secret"} {
			if err := os.WriteFile(filepath.Join(dir, f), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
		cmd.Env = append(os.Environ(), "CONFINED_DIR="+dir, "CONFINED_HOST="+ln.Addr().String(), c.env)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", c.name, err, out)
		}
		lines := strings.Split(string(out), "\n")
		for _, want := range c.want {
			if !slices.Contains(lines, want) {
				t.Errorf("%s: no %q in:\n%s", c.name, want, out)
			}
		}
	}
}

// inFolder is the process that has one folder.
func inFolder(dir, host string) int {
	if os.Getenv("CONFINED_NOT") == "" {
		if err := harden.Process(); err != nil {
			fmt.Println("harden:", err)
			return 1
		}
		if err := landlock.ConfineToFolder(dir + "/folder"); err != nil {
			fmt.Println("confine:", err)
			return 1
		}
	}
	report := func(what string, err error) { fmt.Println(what, err == nil, errors.Is(err, fs.ErrPermission)) }
	root, err := os.OpenRoot(dir + "/folder")
	report("open", err)
	if err == nil {
		report("write", root.WriteFile("new", []byte("x"), 0o600))
		report("rename", root.Rename("new", "newer"))
		_, err = root.ReadFile("newer")
		report("read", err)
		report("remove", root.Remove("newer"))
		report("link", root.Symlink("/etc/passwd", "link"))
	}
	_, err = os.ReadFile(dir + "/secret")
	report("read outside", err)
	report("write outside", os.WriteFile(dir+"/other", nil, 0o600))
	_, err = os.ReadDir("/")
	report("list outside", err)
	report("exec", exec.Command("/bin/true").Run())
	c, err := net.Dial("tcp4", host)
	report("connect", err)
	if err == nil {
		_ = c.Close()
	}
	report("signal", unix.Kill(os.Getppid(), 0))
	return 0
}

func TestPRV04_ConfineToFolder(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	within := []string{"open", "write", "rename", "read", "remove"}
	outside := []string{"link", "read outside", "write outside", "list outside", "exec", "connect", "signal"}
	for _, twin := range []string{"", "CONFINED_NOT=1"} {
		dir := t.TempDir()
		if err := errors.Join(os.Mkdir(dir+"/folder", 0o700), os.WriteFile(dir+"/secret", nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
		cmd.Env = append(os.Environ(), "FOLDER_DIR="+dir, "CONFINED_HOST="+ln.Addr().String(), twin)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", twin, err, out)
		}
		lines := strings.Split(string(out), "\n")
		for _, w := range within {
			if !slices.Contains(lines, w+" true false") {
				t.Errorf("%s: no %s in:\n%s", twin, w, out)
			}
		}
		for _, w := range outside {
			want := w + " false true"
			if twin != "" {
				want = w + " true false"
			}
			if !slices.Contains(lines, want) {
				t.Errorf("%s: no %q in:\n%s", twin, want, out)
			}
		}
	}
}

func TestTargets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, d := range []string{"etc", "run"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"run/stub", "etc/hosts", "etc/local"} {
		if err := os.WriteFile(filepath.Join(dir, f), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"etc/resolv.conf": "../run/stub", "etc/alias": "local", "etc/dangling": "../nowhere/x"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	var files []string
	for _, f := range []string{"resolv.conf", "hosts", "alias", "dangling", "missing"} {
		files = append(files, filepath.Join(dir, "etc", f))
	}
	if got, want := landlock.Targets(files), []string{filepath.Join(dir, "run")}; !slices.Equal(got, want) {
		t.Errorf("Targets = %v, want %v", got, want)
	}
}
